"""Run statements in this process: DuckDB evaluates expressions of one row and the statement around row patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from motet.errors import DataError
from motet.row_patterns.compiler import HIDDEN, ClauseDraft, finish_program
from motet.row_patterns.encoding import as_array
from motet.row_patterns.matching import match_rows
from motet.row_patterns.statement import EngineError, Relation
from motet.row_patterns.tokens import Dialect

if TYPE_CHECKING:
    import pyarrow.dataset as ds


class DuckdbEngine:
    """A database in memory that knows some tables by name."""

    dialect: Dialect = "duckdb"

    def __init__(self, tables: Mapping[str, pa.Table | ds.Dataset], step_limit: int) -> None:
        import duckdb

        self.error = duckdb.Error
        self.connection = duckdb.connect()
        # Names in the statement are tables that were given, not variables of whoever calls.
        self.connection.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false")
        self.tables = {name.lower(): table for name, table in tables.items()}
        self.step_limit = step_limit
        self.count = 0
        for name, table in tables.items():
            columns = [column.lower() for column in table.schema.names]
            if twice := next((column for column in columns if columns.count(column) > 1), None):
                raise DataError(f"table {name!r} has two columns {twice!r}: SQL does not tell capitals apart")
            self.connection.register(name, table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    def read_schema(self, query: str) -> pa.Schema:
        """Return the columns of a query."""
        return self.query(query).schema

    def query(self, text: str) -> pa.Table:
        """Return the result of a query."""
        with self._translate_errors(text):
            return self.connection.sql(text).to_arrow_table()

    def add_matches(self, draft: ClauseDraft, relation: Relation) -> str:
        """Match the rows of a relation, and return the name of the view of what measures read."""
        table = self._read_inputs(draft, relation)
        program = finish_program(draft, table.schema.types)
        absent = None
        if any(column.on_nulls for column in draft.inputs):
            absent = self.query(relation.select(draft.select_absent(relation.text)))
        # As many threads as Arrow uses: a limit on the one limits the other.
        tables = match_rows(program, table, absent, self.step_limit, pa.cpu_count())
        matched = pa.Table.from_batches(
            [batch for found in tables for batch in found.to_batches()], program.output_schema
        )
        self.count += 1
        name = f"motet_matched_{self.count}"
        self.connection.register(name, matched)
        return name

    def add_view(self, query: str) -> str:
        """Return the name of a view that a query is."""
        self.count += 1
        name = f"motet_relation_{self.count}"
        with self._translate_errors(query):
            self.connection.execute(f"CREATE TEMP VIEW {name} AS {query}")
        return name

    def _read_inputs(self, draft: ClauseDraft, relation: Relation) -> pa.Table:
        """Return the input columns: of a table that was given as they are, else by a query."""
        names = [column.name for column in draft.inputs]
        given = None if relation.definitions else self.tables.get(relation.text.lower())
        if given is not None and all(name is not None for name in names):
            table = given.select(names) if isinstance(given, pa.Table) else given.to_table(names)
        else:
            table = self.query(relation.select(draft.select_inputs(relation.text)))
            for column, type in zip(draft.inputs, table.schema.types, strict=True):
                if pa.types.is_dictionary(type):
                    raise DataError(
                        f"{column.text} is an ENUM, which has an order of its own: CAST it to VARCHAR first"
                    )
        arrays = [as_array(column) for column in table.columns]
        return pa.table(arrays, [f"c{at}" for at in range(len(names))])

    @contextmanager
    def _translate_errors(self, query: str) -> Iterator[None]:
        try:
            yield
        except self.error as error:
            raise EngineError("DuckDB", describe_engine_error(error), self._find_place(query)) from None

    def _find_place(self, query: str) -> int | None:
        """Return the offset of the mistake in a query that DuckDB refuses; None where it names no place."""
        prefix = "EXPLAIN "
        self.connection.execute("SET errors_as_json = true")
        try:
            self.connection.execute(prefix + query)
        except self.error as error:
            position = re.search(r'"position":"(\d+)"', str(error))
            if position is not None:  # in bytes
                return len((prefix + query).encode()[: int(position[1])].decode(errors="ignore")) - len(prefix)
        finally:
            self.connection.execute("SET errors_as_json = false")
        return None


def describe_engine_error(error: Exception) -> str:
    """Return what an engine says, without the query that nobody wrote, its names and lists of all that there is."""
    message = re.split(r"\nLINE |\n\s*Candidate functions:", str(error))[0]
    message = re.sub(rf" when casting from source column {HIDDEN}\w+", "", message)
    first, *rest = message.strip().split("\n")
    names = re.compile(rf"{HIDDEN}|motet_relation_|motet_matched_")
    return "; ".join([first, *(line.strip() for line in rest if line.strip() and not names.search(line))])
