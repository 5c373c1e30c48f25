"""Run SQL with MATCH_RECOGNIZE on Spark: partitions are matched in tasks, Spark SQL runs the rest.

Rows go to the task of their partition in blobs of Arrow data, as in batch runs, and a task matches all of its
partitions in one call. Nothing runs before an action on the result.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.errors import PySparkException, QueryContextType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from motet.errors import DataError
from motet.row_patterns.compiler import ClauseDraft, finish_program
from motet.row_patterns.encoding import as_array
from motet.row_patterns.matching import match_rows
from motet.row_patterns.program import MatchProgram
from motet.row_patterns.statement import EngineError, Relation, run_statement
from motet.row_patterns.tokens import Dialect, quote
from motet.spark.buckets import find_balanced_keys
from motet.spark.dataframes import UTC_NAMES, from_spark_batch, get_arrow_schema, to_spark_schema
from motet.spark.parquet import FileRange, find_plain_files, read_range, split_files
from motet.spark.serialization import CachedPickle, table_from_ipc
from motet.spark.shuffle import Batches, Task, concat_small_tables, pack_groups
from motet.spark.tasks import to_batches

PACKED = pa.schema([("task", pa.int32()), ("rows", pa.binary())])


@dataclass(frozen=True)
class MatchTask:
    """What a task needs: the program over input columns of these names, a row of nulls, and the limit."""

    program: MatchProgram
    names: tuple[str, ...]
    absent: pa.Table | None
    step_limit: int
    tasks: int

    @property
    def columns(self) -> pa.Schema:
        """The columns of the relation that are read, by their names there."""
        return pa.schema([(name, type) for name, type in zip(self.names, self.program.schema.types, strict=True)])

    @cached_property
    def task_keys(self) -> NDArray[np.int32]:
        """What Spark's hashing sends to each task."""
        return find_balanced_keys(self.tasks)


def make_pack_task(cached: CachedPickle[MatchTask], ranges: Sequence[Sequence[FileRange]] | None) -> Task:
    """Make a task that packs rows by the task that matches their partition: rows of Spark, or of parquet files."""

    def pack(batches: Batches) -> Batches:
        task = cached.value
        if ranges is None:
            tables = (from_spark_batch(batch, task.columns) for batch in batches)
        else:
            own = (part for batch in batches for number in batch.column(0).to_pylist() for part in ranges[number])
            tables = (rows for part in own for rows in read_range(part, task.columns))
        for rows in concat_small_tables(tables):
            numbers = hash_partitions(rows, task.program.partition) % np.uint64(task.tasks)
            places, blobs = pack_groups(rows, np.arange(len(rows)), numbers.astype(np.int32))
            arrays = [pa.array(task.task_keys[places], pa.int32()), blobs]
            yield pa.record_batch(arrays, schema=PACKED)

    return pack


def make_match_task(cached: CachedPickle[MatchTask]) -> Task:
    """Make a task that matches all partitions that were sent to it."""

    def match(batches: Batches) -> Batches:
        task = cached.value
        tables = [table_from_ipc(blob.as_buffer()) for batch in batches for blob in batch.column(1)]
        if tables:
            for found in match_rows(task.program, pa.concat_tables(tables), task.absent, task.step_limit):
                yield from to_batches(found, task.program.output_schema)

    return match


def hash_partitions(rows: pa.Table, partition: Sequence[int]) -> NDArray[np.uint64]:
    """Hash the partition of each row, by its values alone: the same in every task. Null is a value. O(n)."""
    hashes = np.zeros(len(rows), np.uint64)
    for at in partition:
        column = as_array(rows.column(at))
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 is 0.0
        coded = column.dictionary_encode()
        values = coded.dictionary.to_numpy(zero_copy_only=False)
        numbers = values.view(np.int64) if values.dtype.kind in "mM" else values
        of_values = np.append(pd.util.hash_array(numbers, categorize=False), np.uint64(0))
        codes = pc.fill_null(coded.indices, len(values)).to_numpy(zero_copy_only=False)
        hashes = hashes * np.uint64(31) + of_values[codes]
    return hashes


@dataclass
class SparkEngine:
    """A session, and tables that the statement knows by name beside those of its catalog."""

    session: SparkSession
    tables: Mapping[str, DataFrame]
    step_limit: int
    dialect: Dialect = "spark"
    views: list[str] = field(default_factory=list)

    @contextmanager
    def named_tables(self) -> Iterator[None]:
        """Let the statement see the tables by their names, and restore what had these names before.

        A classic session resolves names at once. A Connect session does so when the result is used, so its views stay.
        """
        before = {name: self._find_view(name) for name in self.tables}
        for name, table in self.tables.items():
            table.createOrReplaceTempView(quote(name, "spark"))
        try:
            yield
        finally:
            if hasattr(self.session, "_jsparkSession"):
                for name, view in before.items():
                    self.session.catalog.dropTempView(name)
                    if view is not None:
                        view.createOrReplaceTempView(quote(name, "spark"))
                for name in self.views:
                    self.session.catalog.dropTempView(name)

    def _find_view(self, name: str) -> DataFrame | None:
        known = any(
            each.isTemporary and each.name.lower() == name.lower() for each in self.session.catalog.listTables()
        )
        return self.session.table(quote(name, "spark")) if known else None

    def read_schema(self, query: str) -> pa.Schema:
        """Return the columns of a query."""
        frame = self.query(query)
        for column in frame.schema:
            if isinstance(column.dataType, st.StringType) and "collate" in column.dataType.simpleString().lower():
                raise DataError(f"column {column.name!r} has a collation: CAST it to STRING COLLATE UTF8_BINARY first")
        with translate_errors():
            return get_arrow_schema(frame)

    def query(self, text: str) -> DataFrame:
        """Return the result of a query, which has not run yet."""
        with translate_errors(text):
            frame = self.session.sql(text)
            frame.schema  # noqa: B018 - a Connect session finds mistakes here
            return frame

    def add_matches(self, draft: ClauseDraft, relation: Relation) -> str:
        """Match the rows of a relation, and return the name of the view of what measures read."""
        clause = draft.clause
        if not clause.order:
            raise clause.sql.error_at(
                "MATCH_RECOGNIZE needs an ORDER BY on Spark, which keeps no order of rows", clause.relation_end
            )
        names = [column.name for column in draft.inputs]
        if all(name is not None for name in names):
            shown = ", ".join(column.text for column in draft.inputs)
            rows = self.query(relation.select(f"SELECT {shown} FROM {relation.text}"))
        else:
            rows = self.query(relation.select(draft.select_inputs(relation.text)))
        zone = self.session.conf.get("spark.sql.session.timeZone")
        program = finish_program(draft, get_arrow_schema(rows).types, utc=zone in UTC_NAMES)
        absent = self._read_absent(draft, relation, program) if any(each.on_nulls for each in draft.inputs) else None
        return self._add_view("matched", self._match(rows, program, absent))

    def add_view(self, query: str) -> str:
        """Return the name of a view that a query is."""
        return self._add_view("relation", self.query(query))

    def _add_view(self, kind: str, frame: DataFrame) -> str:
        name = f"motet_{kind}_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        self.views.append(name)
        return name

    def _read_absent(self, draft: ClauseDraft, relation: Relation, program: MatchProgram) -> pa.Table:
        """Return what input columns are on a row of nulls."""
        frame = self.query(relation.select(draft.select_absent(relation.text)))
        with translate_errors():
            return frame.toArrow().rename_columns(program.schema.names).cast(program.schema)

    def _match(self, rows: DataFrame, program: MatchProgram, absent: pa.Table | None) -> DataFrame:
        limit = int(self.session.conf.get("spark.sql.shuffle.partitions") or 1)
        tasks = limit if program.partition else 1
        cached = CachedPickle(MatchTask(program, tuple(rows.columns), absent, self.step_limit, tasks))
        files = find_plain_files(rows, cached.value.columns)
        if files:
            ranges = split_files(files, self.session)
            source = self.session.range(0, len(ranges), 1, len(ranges))
            packed = source.mapInArrow(make_pack_task(cached, ranges), to_spark_schema(PACKED))
        else:
            # mapInArrow takes a dot in a name for a field of a struct.
            numbered = rows.toDF(*(f"c{at}" for at in range(len(rows.columns))))
            packed = numbered.mapInArrow(make_pack_task(cached, None), to_spark_schema(PACKED))
        parts = packed.repartition("task") if program.partition else packed.repartition(1)
        return parts.mapInArrow(make_match_task(cached), to_spark_schema(program.output_schema))


@contextmanager
def translate_errors(query: str = "") -> Iterator[None]:
    """Raise what Spark says of a query as an error of the statement."""
    try:
        yield
    except PySparkException as error:
        message = str(error).strip().splitlines()[0]
        raise EngineError("Spark", _PLACE.sub("", message), find_place(error, query)) from None


# Where Spark says, at the end of a message, that a mistake is: lines from 1 on, characters from 0 on.
_PLACE = re.compile(r"[\s;(]*line (\d+),? pos (\d+)[;)]*\s*$")


def find_place(error: PySparkException, query: str) -> int | None:
    """Return the offset of the mistake in a query that Spark refuses; None where it names no place."""
    context = error.getQueryContext()
    if context and context[0].contextType() == QueryContextType.SQL:
        # What is wrong inside a view has its place in the text of the view.
        return None if context[0].objectType() else int(context[0].startIndex())
    place = _PLACE.search(str(error).strip().splitlines()[0])
    if place is None:
        return None
    lines = query.splitlines(keepends=True)
    return sum(map(len, lines[: int(place[1]) - 1])) + int(place[2])


def run(text: str, origin: str, session: SparkSession, tables: Mapping[str, DataFrame], step_limit: int) -> DataFrame:
    """Run a statement on Spark, over tables given by name and those of the session's catalog; return a DataFrame."""
    engine = SparkEngine(session, tables, step_limit)
    with engine.named_tables():
        found: DataFrame = run_statement(text, origin, engine)
    return found
