"""The result of a workload: one table that knows its queries, to show, plot and convert."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape
from typing import Any

import pyarrow as pa

from motet.errors import MotetError, did_you_mean
from motet.io.html_tables import format_table
from motet.io.query_columns import QueryColumns, list_query_columns
from motet.model.query import Workload
from motet.plans.execution import Execution, ExecutionRecord

MAX_QUERIES = 8  # in a notebook


class Result:
    """The result of a workload. `result["name"]` has the rows of one query with its own columns only.

    On Spark nothing runs before an answer is asked for; `to_arrow` and all that shows values then bring it here, once.
    """

    def __init__(self, content: Any, workload: Workload, executed: Sequence[Execution | ExecutionRecord] = ()) -> None:
        self.content = content  # an Arrow table, or a Spark DataFrame
        self.workload = workload
        self._executed = executed

    @property
    def executed(self) -> Sequence[Execution | ExecutionRecord]:
        """What was executed, by unit: the strategy, the queries, what they share, and a signature of all that.

        On Spark it is what tasks said of their run, which asking brings about.
        """
        if not self.on_spark:
            return self._executed
        self.to_arrow()
        return tuple(self.content.motet.executed())

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of its queries."""
        return tuple(query.name for query in self.workload.queries)

    @property
    def on_spark(self) -> bool:
        return not isinstance(self.content, pa.Table)

    @cached_property
    def _table(self) -> pa.Table:
        return self.content.toArrow() if self.on_spark else self.content

    def to_arrow(self) -> pa.Table:
        """Return one Arrow table with the rows of all queries."""
        return self._table

    def to_pandas(self, query: str | None = None) -> Any:
        """Return one pandas DataFrame with the rows of all queries.

        With the name of a query: its rows alone, with a column `a.price` for each attribute of an event `a`.
        """
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise MotetError("to_pandas needs pandas: pip install 'motet[plot]'") from error
        return self._table.to_pandas() if query is None else self[query].flatten().to_pandas()

    def to_spark(self, spark: Any = None) -> Any:
        """Return a Spark DataFrame, of the given session if the result is not on Spark already."""
        if self.on_spark:
            return self.content
        if spark is None:
            raise MotetError("this answer is in memory: give to_spark the session to bring it to")
        return spark.createDataFrame(self._table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export to whatever takes Arrow data: `pyarrow.table(result)`, polars, duckdb."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __getitem__(self, name: str) -> pa.Table:
        return self._rows(name).select_rows(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        if self.on_spark:
            return f"<Result of {', '.join(self.queries[:MAX_QUERIES])} on Spark>"
        return f"<Result of {', '.join(self.queries[:MAX_QUERIES])}: {len(self):,} rows>"

    def plot(self, query: str | None = None, y: str | None = None) -> Any:
        """Draw a chart of one query or of all, of the value `y` (by default the first). Needs the extra `plot`."""
        from motet.io.plot import draw_chart

        chosen = [self._rows(query)] if query is not None else list(list_query_columns(self.workload))
        return draw_chart([(rows, rows.select_rows(self._table)) for rows in chosen], y)

    def _rows(self, name: str) -> QueryColumns:
        for rows in list_query_columns(self.workload):
            if rows.query.name == name:
                return rows
        hint = did_you_mean(name, self.queries)
        raise MotetError(f"there is no query {name!r} here" + (f"; {hint}" if hint else ""))

    def _repr_html_(self) -> str:
        if self.on_spark and "_table" not in self.__dict__:
            columns = ", ".join(escape(name) for name in self.content.columns)
            return f"<p><b>A result on Spark</b> that has not run yet: {columns}</p>"
        every = list(list_query_columns(self.workload))
        parts = [format_table(rows, rows.select_rows(self._table)) for rows in every[:MAX_QUERIES]]
        if len(every) > MAX_QUERIES:
            parts.append(f"<p>... and {len(every) - MAX_QUERIES:,} more queries: result[name] has the rows of one</p>")
        return "".join(parts)
