"""Rows on their way to the tasks of their keys: packed by place before the shuffle, unpacked behind it.

A task before the shuffle takes rows as they come, from Spark or straight from parquet files, leaves out those that no
query can use, and makes one blob of Arrow data for each place that a layout gives them. Spark shuffles a few blobs in
place of millions of rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.engine.encode import group_rows, read_times
from motet.schema import EventSchema
from motet.spark.buckets import find_balanced_keys
from motet.spark.dataframes import from_spark_batch
from motet.spark.parquet import FileRange, read_range
from motet.spark.serialization import table_from_ipc, table_to_ipc
from motet.spark.skew import Bounds, TaskLayout, hash_keys

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]
# Rows are packed by so many at a time, which stay in the caches of a core, or fewer where they are wide.
MAX_ROWS = 50_000
MAX_BYTES = 32 << 20
PACKED = pa.schema([pa.field("task", pa.int32()), pa.field("place", pa.int32()), pa.field("rows", pa.binary())])
COUNTS = ("rows", "null_times", "null_types", "set_aside")
PACKED_WITH_COUNTS = pa.schema([*PACKED, *(pa.field(f"counted {name}", pa.int64()) for name in COUNTS)])
# What stands for a type that a branch does not name: `encode_type` is never below zero.
UNNAMED_TYPE = -1


def encode_type(name: str) -> int:
    """The number that stands for a type between Spark and a task: Spark's `crc32`."""
    return zlib.crc32(name.encode())


@dataclass(frozen=True)
class ShufflePlan:
    """What rows a branch takes, and where they go: its `columns` of the events, those of its `types` (None: all), and
    the `keys` that a layout places rows by. Types travel as their places among `types` where these are `coded`.
    """

    schema: EventSchema
    columns: pa.Schema
    keys: tuple[str, ...]
    types: tuple[str, ...] | None
    coded: bool
    layout: TaskLayout

    def pack_rows(self, batches: Batches) -> Batches:
        """Rows that Spark has found to be of use to blobs; types that are coded come as what `encode_type` says."""
        for rows in _concat_small_tables(self._read_batches(batches)):
            yield from self._pack(rows)

    def pack_and_count_rows(self, batches: Batches) -> Batches:
        """Rows of any kind to blobs, and what was counted on the way; types that are coded come as `encode_type` says,
        those that the branch does not name as `UNNAMED_TYPE`.
        """
        yield from self._pack_and_count(self._read_batches(batches))

    def pack_files(self, tasks: Sequence[Sequence[FileRange]]) -> Task:
        """Pieces of parquet files, told by the number of their task, to blobs, and what was counted on the way."""

        def pack(batches: Batches) -> Batches:
            numbers = (number for batch in batches for number in batch.column(0).to_pylist())
            ranges = (piece for number in numbers for piece in tasks[number])
            tables = (rows for piece in ranges for rows in read_range(piece, self.columns, self._dictionary_columns))
            yield from self._pack_and_count(map(self._encode_types, tables))

        return pack

    def unpack(self, batches: Batches) -> Iterator[tuple[pa.Table, Bounds]]:
        """The events of each slice, with the times to report; all keys that are not cut make one."""
        bounds = self.layout.bounds
        found: dict[int | None, list[pa.Table]] = {}
        for batch in batches:
            for place, blob in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                slice_of_key = place if place in bounds else None
                found.setdefault(slice_of_key, []).append(table_from_ipc(blob.as_buffer()))
        for place, tables in found.items():
            yield self._decode_types(pa.concat_tables(tables)), (None, None) if place is None else bounds[place]

    @property
    def packed(self) -> pa.Schema:
        """The columns in a blob."""
        return self._schema_with_type(self._code_type) if self.coded else self.columns

    @cached_property
    def _partition_keys(self) -> NDArray[np.int32]:
        """What Spark's hashing sends to each task."""
        return find_balanced_keys(self.layout.tasks)

    @property
    def _dictionary_columns(self) -> tuple[str, ...]:
        return (self.schema.type,) if self.coded else ()

    def _read_batches(self, batches: Batches) -> Iterator[pa.Table]:
        """Spark's rows, with types that are coded as the branch counts them."""
        arriving = self._schema_with_type(pa.int64()) if self.coded else self.columns
        for batch in batches:
            rows = from_spark_batch(batch, arriving)
            yield self._recode_types(rows) if self.coded else rows

    def _pack_and_count(self, tables: Iterator[pa.Table]) -> Batches:
        for rows in _concat_small_tables(tables):
            usable = self._is_usable(rows)
            yield _make_counts_row(self._count_rows(rows))
            for batch in self._pack(rows if pc.all(usable).as_py() else rows.filter(usable)):
                yield _add_zero_counts(batch)

    def _pack(self, rows: pa.Table) -> Batches:
        """One blob for each place."""
        if not len(rows):
            return
        layout = self.layout
        times = read_times(rows, self.schema) if layout.slices else np.empty(0, np.int64)
        rows_taken, places = layout.assign_places(hash_keys(rows, self.keys), times)
        order, parts = group_rows(places)
        sorted_rows = rows.combine_chunks().take(pa.array(rows_taken[order]))
        blobs = [table_to_ipc(sorted_rows.slice(start, size)) for _, start, size in parts]
        numbers = [place for place, _, _ in parts]
        tasks = self._partition_keys[[layout.task(place) for place in numbers]]
        columns = [pa.array(tasks), pa.array(numbers, pa.int32()), pa.array(blobs, pa.binary())]
        yield pa.record_batch(columns, schema=PACKED)

    def _is_usable(self, rows: pa.Table) -> pa.ChunkedArray:
        """Whether rows have a time, a type of the branch and a key; a NaN is none."""
        usable = pc.and_(pc.is_valid(rows[self.schema.time]), pc.is_valid(rows[self.schema.type]))
        for key in self.keys:
            usable = pc.and_(usable, pc.is_valid(rows[key]))
            if pa.types.is_floating(rows[key].type):
                usable = pc.and_(usable, pc.invert(pc.fill_null(pc.is_nan(rows[key]), False)))
        if self.types is None:
            return usable
        if self.coded:
            return pc.and_(usable, pc.less(pc.fill_null(rows[self.schema.type], len(self.types)), len(self.types)))
        return pc.and_(usable, pc.is_in(rows[self.schema.type], pa.array(self.types, pa.string())))

    def _count_rows(self, rows: pa.Table) -> list[int]:
        """What COUNTS names."""
        no_time, no_type = pc.is_null(rows[self.schema.time]), pc.is_null(rows[self.schema.type])
        return [len(rows), *(pc.sum(missing).as_py() or 0 for missing in (no_time, no_type, pc.or_(no_time, no_type)))]

    def _encode_types(self, rows: pa.Table) -> pa.Table:
        """Types, read as dictionaries, as their places; one place more stands for all that the branch does not name."""
        if not self.coded:
            return rows
        column = rows[self.schema.type].combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.unify_dictionaries().combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        places = pc.fill_null(pc.index_in(column.dictionary.cast(pa.string()), self._type_names), len(self._type_names))
        return self._replace_types(rows, places.cast(self._code_type).take(column.indices))

    def _recode_types(self, rows: pa.Table) -> pa.Table:
        """Types as their places, told from their codes; a code of none of them is the one place more."""
        codes = rows[self.schema.type]
        places = pc.fill_null(pc.index_in(codes, self._codes), len(self._type_names)).cast(self._code_type)
        if codes.null_count:
            places = pc.if_else(codes.is_valid(), places, pa.scalar(None, self._code_type))
        return self._replace_types(rows, places)

    def _decode_types(self, rows: pa.Table) -> pa.Table:
        if not self.coded:
            return rows
        codes = rows[self.schema.type].combine_chunks()
        return self._replace_types(rows, pa.DictionaryArray.from_arrays(codes, self._type_names))

    def _replace_types(self, rows: pa.Table, types: pa.Array) -> pa.Table:
        return rows.set_column(rows.column_names.index(self.schema.type), self.schema.type, types)

    def _schema_with_type(self, type: pa.DataType) -> pa.Schema:
        place = self.columns.get_field_index(self.schema.type)
        return self.columns.set(place, pa.field(self.schema.type, type))

    @property
    def _type_names(self) -> pa.Array:
        return pa.array(self.types or (), pa.string())

    @cached_property
    def _codes(self) -> pa.Array:
        return pa.array([encode_type(name) for name in self.types or ()], pa.int64())

    @property
    def _code_type(self) -> pa.DataType:
        """The narrowest that has a place for each type and one for all others; signed, since Spark has no other."""
        return pa.from_numpy_dtype(np.min_scalar_type(-len(self._type_names) - 1))


def _concat_small_tables(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Tables joined until they are worth packing."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        waiting.append(table)
        rows, size = rows + len(table), size + table.nbytes
        if rows >= MAX_ROWS or size >= MAX_BYTES:
            yield pa.concat_tables(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting)


def _add_zero_counts(packed: pa.RecordBatch) -> pa.RecordBatch:
    """Blobs that count nothing."""
    nothing = [pa.array([0] * len(packed), pa.int64()) for _ in COUNTS]
    return pa.record_batch([*packed.columns, *nothing], schema=PACKED_WITH_COUNTS)


def _make_counts_row(counts: Sequence[int]) -> pa.RecordBatch:
    """Counts without a blob."""
    nothing = [pa.nulls(1, field.type) for field in PACKED]
    return pa.record_batch([*nothing, *(pa.array([count]) for count in counts)], schema=PACKED_WITH_COUNTS)
