"""Compute columns with SQL: DuckDB runs what `select` says over events in process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from motet.errors import DataError, UnreadableError
from motet.io.formats import require_distinct_names
from motet.row_patterns.tokens import quote

if TYPE_CHECKING:
    import duckdb
    import pyarrow.dataset as ds

EVENTS = "events"


@dataclass(frozen=True)
class SelectedColumns:
    """Columns that SQL expressions make of events; they are computed anew for each reading."""

    events: ds.Dataset | pa.Table
    select: tuple[str, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that the expressions make."""
        with translate_sql_errors(DataError):
            selected = self._select()
            names = pa.schema([(name, pa.null()) for name in selected.columns])
            require_distinct_names(names, "what --select makes")
            found: pa.Schema = selected.limit(0).to_arrow_table().schema
        return found.remove_metadata()

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some of the columns, so many rows at a time, in the order of the events."""
        with translate_sql_errors(UnreadableError):
            yield from self._open(names).to_arrow_reader(rows)

    def head(self, rows: int, columns: Sequence[str]) -> pa.Table:
        """Return the first rows."""
        with translate_sql_errors(UnreadableError):
            return self._open(columns).limit(rows).to_arrow_table()

    def table(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(self.batches(self.schema.names, 1 << 17), self.schema)

    def _open(self, names: Sequence[str]) -> Any:
        return self._select().project(", ".join(quote(name, "duckdb") for name in names))

    def _select(self) -> Any:
        session = connect()
        session.register(EVENTS, self.events)
        return session.sql(f"SELECT {', '.join(self.select)} FROM {EVENTS}")


def connect(path: str = ":memory:") -> duckdb.DuckDBPyConnection:
    """Open a database in which times are in UTC and rows keep their order."""
    import duckdb

    session = duckdb.connect(path, config={"threads": 1})
    session.execute("SET TimeZone = 'UTC'")
    return session


@contextmanager
def translate_sql_errors(error: type[DataError]) -> Iterator[None]:
    """Turn what DuckDB raises into a message about the expressions."""
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as problem:
        text = re.split(r"LINE \d+:", str(problem))[0]
        raise error(f"--select (in Python select=): {' '.join(text.split())}") from problem
