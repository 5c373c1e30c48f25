"""Pack rows by destination before a shuffle, and unpack them behind it.

A task before the shuffle takes rows as they come, from Spark or straight from parquet files, drops those that no query
can use, and makes one blob of Arrow data for each destination. Spark shuffles a few blobs in place of millions of rows.
A batch sends rows to tasks, a stream to the buckets of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.engine.encode import group_rows, read_times
from motet.schema import EventSchema
from motet.spark.buckets import find_balanced_keys, hash_text
from motet.spark.dataframes import from_spark_batch
from motet.spark.parquet import FileRange, FileScan
from motet.spark.serialization import narrow_columns, table_from_ipc, tables_to_ipc
from motet.spark.skew import Bounds, TaskLayout, hash_keys

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]
# Rows are packed by so many at a time, which stay in the caches of a core, or fewer where they are wide.
MAX_ROWS = 50_000
MAX_BYTES = 32 << 20
COUNTS = ("rows", "null_times", "null_types", "set_aside")
# Blobs for tasks; or, where `task` is null, counts of rows that a task read.
PACKED = pa.schema(
    [
        ("task", pa.int32()),
        ("place", pa.int32()),
        ("rows", pa.binary()),
        *((f"counted {n}", pa.int64()) for n in COUNTS),
    ]
)
BUCKETED = pa.schema([("bucket", pa.string()), ("rows", pa.binary())])
# Marks rows that no earlier branch of a stream has taken: a row that is late for several branches is late once.
FIRST = "#first"


def pack_groups(rows: pa.Table, taken: NDArray[Any], numbers: NDArray[Any]) -> tuple[list[int], pa.BinaryArray]:
    """Pack the taken rows by the number that each of them has: the numbers that occur, and a blob for each."""
    order, groups = group_rows(numbers)
    ordered = narrow_columns(rows.combine_chunks()).take(pa.array(taken[order]))
    blobs = tables_to_ipc(ordered.slice(at, size) for _, at, size in groups)
    return [number for number, _, _ in groups], blobs


@dataclass(frozen=True)
class ShufflePlan:
    """The rows that a branch takes of a batch, and the tasks they go to: its `columns` of the events, those of its
    `types` (None: all), and the `keys` that a layout assigns rows by. Where types are `coded`, they travel as their
    positions in `types`; the position behind the last stands for all other types.
    """

    schema: EventSchema
    columns: pa.Schema
    keys: tuple[str, ...]
    types: tuple[str, ...] | None
    coded: bool
    layout: TaskLayout

    def pack_rows(self, batches: Batches) -> Batches:
        """Pack rows that Spark has read, and count them; types that are coded come as hashes, or as `unnamed_type`."""
        arriving = self._schema_with_type(pa.int32()) if self.coded else self.columns
        yield from self._pack(self._from_hashes(from_spark_batch(batch, arriving)) for batch in batches)

    def pack_files(self, tasks: Sequence[Sequence[FileRange]], scan: FileScan) -> Task:
        """Make a task that packs and counts what the parquet files of its number hold."""
        dictionaries = (self.schema.type,) if self.coded and scan.can_encode(self.schema.type) else ()

        def pack(batches: Batches) -> Batches:
            ranges = (each for batch in batches for number in batch.column(0).to_pylist() for each in tasks[number])
            tables = (rows for each in ranges for rows in scan.read(each, dictionaries))
            yield from self._pack(map(self._from_names, tables))

        return pack

    def unpack(self, batches: Batches) -> Iterator[tuple[pa.Table, Bounds]]:
        """Yield the events of each slice, with the times to report; all keys that are not cut make one."""
        bounds = self.layout.bounds
        found: dict[int | None, list[pa.Table]] = {}
        for batch in batches:
            for place, blob in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                slice_of_key = place if place in bounds else None
                found.setdefault(slice_of_key, []).append(table_from_ipc(blob.as_buffer()))
        for place, tables in found.items():
            # They arrive in any order; in that of their times there is less to sort.
            tables.sort(key=lambda rows: read_times(rows.slice(0, 1), self.schema).tolist())
            yield self._to_names(pa.concat_tables(tables)), (None, None) if place is None else bounds[place]

    @property
    def unnamed_type(self) -> int:
        """A number that is the hash of no type that the branch names."""
        hashes = set(self._hashes.to_pylist())
        return next(number for number in count() if number not in hashes)

    @property
    def blob_schema(self) -> pa.Schema:
        """The columns in a blob."""
        return self._schema_with_type(self._code_type) if self.coded else self.columns

    def _pack(self, tables: Iterator[pa.Table]) -> Batches:
        for rows in concat_small_tables(tables):
            no_time, no_type = (
                pc.is_null(self.schema.to_microseconds(rows[self.schema.time])),
                pc.is_null(rows[self.schema.type]),
            )
            missing = [pc.sum(each).as_py() or 0 for each in (no_time, no_type, pc.or_(no_time, no_type))]
            yield _make_batch([None], [None], [None], (len(rows), *missing))
            usable = self._is_usable(rows)
            if pc.any(usable).as_py():
                yield self._pack_usable(rows if pc.all(usable).as_py() else rows.filter(usable))

    def _pack_usable(self, rows: pa.Table) -> pa.RecordBatch:
        layout = self.layout
        times = read_times(rows, self.schema) if layout.slices else np.empty(0, np.int64)
        places, blobs = pack_groups(rows, *layout.assign_places(hash_keys(rows, self.keys), times))
        tasks = self._task_keys[[layout.task(place) for place in places]]
        return _make_batch(tasks, places, blobs)

    @cached_property
    def _task_keys(self) -> NDArray[np.int32]:
        """What Spark's hashing sends to each task."""
        return find_balanced_keys(self.layout.tasks)

    def _is_usable(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return whether rows have a time, a type of the branch and a key; a NaN is none."""
        types = rows[self.schema.type]
        usable = pc.and_(pc.is_valid(rows[self.schema.time]), pc.is_valid(types))
        for key in self.keys:
            usable = pc.and_(usable, pc.is_valid(rows[key]))
            if pa.types.is_floating(rows[key].type):
                usable = pc.and_(usable, pc.invert(pc.fill_null(pc.is_nan(rows[key]), False)))
        if self.coded:
            usable = pc.and_(usable, pc.not_equal(pc.fill_null(types, len(self._names)), len(self._names)))
        elif self.types is not None:
            usable = pc.and_(usable, pc.is_in(types, self._names))
        return usable

    def _from_names(self, rows: pa.Table) -> pa.Table:
        """Encode types that were read as dictionaries."""
        if not self.coded:
            return rows
        column = rows[self.schema.type].unify_dictionaries().combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes = self._find_codes(column.dictionary.cast(pa.string()), self._names)
        return self._replace_types(rows, codes.take(column.indices))

    def _from_hashes(self, rows: pa.Table) -> pa.Table:
        """Encode types that were hashed."""
        if not self.coded:
            return rows
        hashes = rows[self.schema.type]
        codes = self._find_codes(hashes, self._hashes)
        if hashes.null_count:
            codes = pc.if_else(hashes.is_valid(), codes, pa.scalar(None, self._code_type))
        return self._replace_types(rows, codes)

    def _find_codes(self, values: pa.Array, known: pa.Array) -> pa.Array:
        return pc.fill_null(pc.index_in(values, known), len(known)).cast(self._code_type)

    def _to_names(self, rows: pa.Table) -> pa.Table:
        if not self.coded:
            return rows
        codes = rows[self.schema.type].combine_chunks()
        return self._replace_types(rows, pa.DictionaryArray.from_arrays(codes, self._names))

    def _replace_types(self, rows: pa.Table, types: pa.Array) -> pa.Table:
        return rows.set_column(rows.column_names.index(self.schema.type), self.schema.type, types)

    def _schema_with_type(self, type: pa.DataType) -> pa.Schema:
        return self.columns.set(self.columns.get_field_index(self.schema.type), pa.field(self.schema.type, type))

    @cached_property
    def _names(self) -> pa.Array:
        return pa.array(self.types or (), pa.string())

    @cached_property
    def _hashes(self) -> pa.Array:
        return pa.array(map(hash_text, self.types or ()), pa.int32())

    @property
    def _code_type(self) -> pa.DataType:
        """The narrowest type for all positions and the one behind the last; signed, since Spark has no other."""
        return pa.from_numpy_dtype(np.min_scalar_type(-len(self._names) - 1))


def _make_batch(tasks: Any, places: Any, blobs: Any, counts: Sequence[int] = (0,) * len(COUNTS)) -> pa.RecordBatch:
    columns = [tasks, places, blobs, *([count] * len(places) for count in counts)]
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, PACKED, strict=True)
    ]
    return pa.record_batch(arrays, schema=PACKED)


def concat_small_tables(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Concatenate tables until they are worth packing."""
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


@dataclass(frozen=True)
class BucketRoute:
    """The rows that a branch takes of a stream: columns, types (None: all), and the names of its buckets. The column
    `bucket` numbers the bucket of each row (null: none).
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    bucket: int
    type: int
    types: frozenset[str] | None

    def find_buckets(self, rows: pa.Table) -> NDArray[np.int32]:
        """Return the bucket of each row, -1 where the branch does not take it."""
        buckets: NDArray[np.int32] = rows.column(self.bucket).fill_null(-1).to_numpy()
        if self.types is None:
            return buckets
        types = rows.column(self.type)
        return np.where(pc.is_in(types, pa.array(sorted(self.types), types.type)).to_numpy(), buckets, np.int32(-1))


def make_bucket_task(schema: pa.Schema, routes: Sequence[BucketRoute]) -> Task:
    """Make a task that packs rows by branch and bucket. `schema` names the columns; bucket columns follow."""

    def pack(batches: Batches) -> Batches:
        tables = [pa.Table.from_batches([batch]) for batch in batches]
        if not tables:
            return
        rows = pa.concat_tables(tables)
        untaken = np.ones(len(rows), np.bool_)
        for route in routes:
            buckets = route.find_buckets(rows)
            own = pa.schema([schema.field(at) for at in route.columns])
            events = rows.select(list(route.columns)).rename_columns(own.names).cast(own)
            events = events.append_column(FIRST, pa.array(untaken))
            taken = np.flatnonzero(buckets >= 0)
            untaken[taken] = False
            numbers, blobs = pack_groups(events, taken, buckets[taken])
            names = [route.names[number] for number in numbers]
            yield pa.record_batch([pa.array(names, pa.string()), blobs], schema=BUCKETED)

    return pack
