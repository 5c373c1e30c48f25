"""The answer to a workload: one table that knows which queries it answers, to look at, to plot and to hand on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape
from typing import Any

import pyarrow as pa

from motet.errors import MotetError, did_you_mean
from motet.io.rows import QueryRows, rows_by_query
from motet.io.tables import is_number, shown_value
from motet.model.query import Workload

MOST_ROWS = 10  # of a query in a notebook
MOST_QUERIES = 8


class Result:
    """What a workload answered. `result["name"]` has the rows of one query with its own columns only.

    On Spark nothing runs before an answer is asked for; `to_arrow` and all that shows values then bring it here, once.
    """

    def __init__(self, content: Any, workload: Workload) -> None:
        self.content = content  # an Arrow table, or a Spark DataFrame
        self.workload = workload

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
        """One Arrow table with the rows of all queries."""
        return self._table

    def to_pandas(self) -> Any:
        """One pandas DataFrame with the rows of all queries."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise MotetError("to_pandas needs pandas: pip install 'motet[plot]'") from error
        return self._table.to_pandas()

    def to_spark(self, spark: Any = None) -> Any:
        """A Spark DataFrame, of a given session where the answer is not on Spark already."""
        if self.on_spark:
            return self.content
        if spark is None:
            raise MotetError("this answer is in memory: give to_spark the session to bring it to")
        return spark.createDataFrame(self._table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """For whatever takes Arrow data: `pyarrow.table(result)`, polars, duckdb."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __getitem__(self, name: str) -> pa.Table:
        return self._rows(name).of(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        if self.on_spark:
            return f"<Result of {', '.join(self.queries[:MOST_QUERIES])} on Spark>"
        return f"<Result of {', '.join(self.queries[:MOST_QUERIES])}: {len(self):,} rows>"

    def plot(self, query: str | None = None, y: str | None = None) -> Any:
        """A chart of one query, or of each: `y` is the value to show, by default the first. Needs the extra `plot`."""
        from motet.io.plot import chart

        chosen = [self._rows(query)] if query is not None else list(rows_by_query(self.workload))
        return chart([(rows, rows.of(self._table)) for rows in chosen], y)

    def _rows(self, name: str) -> QueryRows:
        for rows in rows_by_query(self.workload):
            if rows.query.name == name:
                return rows
        hint = did_you_mean(name, self.queries)
        raise MotetError(f"there is no query {name!r} here" + (f"; {hint}" if hint else ""))

    def _repr_html_(self) -> str:
        if self.on_spark and "_table" not in self.__dict__:
            columns = ", ".join(escape(name) for name in self.content.columns)
            return f"<p><b>A result on Spark</b> that has not run yet: {columns}</p>"
        every = list(rows_by_query(self.workload))
        parts = [_table_html(rows, rows.of(self._table)) for rows in every[:MOST_QUERIES]]
        if len(every) > MOST_QUERIES:
            parts.append(f"<p>... and {len(every) - MOST_QUERIES:,} more queries: result[name] has the rows of one</p>")
        return "".join(parts)


def _table_html(rows: QueryRows, found: pa.Table) -> str:
    """The first rows of a query."""
    name = escape(rows.query.name)
    if not len(found):
        return f"<p><b>{name}</b>: no match</p>"
    shown = [column for column in rows.columns if rows.query.window or column not in rows.times]
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in shown)
    body = "".join(_row_html(rows, found.schema, shown, row) for row in found.slice(0, MOST_ROWS).to_pylist())
    hidden = len(found) - MOST_ROWS
    more = f"<p>... and {hidden:,} more row{'s' if hidden > 1 else ''}</p>" if hidden > 0 else ""
    caption = f'<caption style="text-align: left; font-weight: bold">{name}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _row_html(rows: QueryRows, schema: pa.Schema, shown: Sequence[str], row: dict[str, Any]) -> str:
    cells = []
    for column in shown:
        side = "right" if is_number(schema.field(column).type) else "left"
        cells.append(f'<td style="text-align: {side}">{escape(_short(shown_value(rows, column, row[column])))}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _short(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
