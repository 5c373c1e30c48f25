"""Serialize programs and tables for Spark's Python workers.

A worker runs many tasks, and unpickling a program of a thousand queries takes longer than running it over a few rows:
workers keep what they have unpickled.
"""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")
# Values that a worker keeps, the latest ones: as many as there are likely to be runs at the same time.
MAX_CACHED = 4
# What a narrowed table has in its metadata: its schema before, and the least value of each column that was narrowed.
SCHEMA, OFFSETS = b"motet.schema", b"motet.offsets"

_cache: dict[str, CachedPickle[Any]] = {}


class CachedPickle(Generic[T]):
    """A value that is pickled once, and unpickled once in a worker when it is first used, with all that tasks have made
    of it since.
    """

    def __init__(self, value: T) -> None:
        self.value = value
        self.name = uuid.uuid4().hex

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.name, self._pickled)

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps(self.value)


class _LazyPickle(CachedPickle[Any]):
    """A value that came as a pickle."""

    def __init__(self, name: str, pickled: bytes) -> None:
        self.name = name
        self._pickled = pickled

    @cached_property
    def value(self) -> Any:
        return pickle.loads(self._pickled)


def _unpickle(name: str, pickled: bytes) -> CachedPickle[Any]:
    if name not in _cache:
        while len(_cache) >= MAX_CACHED:
            del _cache[next(iter(_cache))]
        _cache[name] = _LazyPickle(name, pickled)
    return _cache[name]


def table_to_ipc(table: pa.Table) -> bytes:
    """Return a table, narrowed or not, as bytes of an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    _write_ipc(table, sink)
    return bytes(sink.getvalue().to_pybytes())


def tables_to_ipc(tables: Iterable[pa.Table]) -> pa.BinaryArray:
    """Return each table as `table_to_ipc` does, in one array, into which they are written without a copy between."""
    sink, ends = pa.BufferOutputStream(), [0]
    for table in tables:
        _write_ipc(table, sink)
        ends.append(sink.tell())
    offsets = pa.py_buffer(np.array(ends, np.int64))
    blobs = pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, [None, offsets, sink.getvalue()])
    return blobs.cast(pa.binary())


def _write_ipc(table: pa.Table, sink: pa.BufferOutputStream) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def table_from_ipc(blob: bytes | pa.Buffer) -> pa.Table:
    """Return the table that `table_to_ipc` serialized, with its columns as they were before they were narrowed."""
    table = pa.ipc.open_stream(pa.py_buffer(blob)).read_all()
    narrowed = table.schema.metadata
    if not narrowed or OFFSETS not in narrowed:
        return table
    schema = pa.ipc.read_schema(pa.py_buffer(narrowed[SCHEMA]))
    columns = [
        column if offset is None else pc.add(column.cast(pa.int64()), offset).cast(field.type)
        for column, offset, field in zip(table.columns, json.loads(narrowed[OFFSETS]), schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def narrow_columns(table: pa.Table) -> pa.Table:
    """Return a table whose whole numbers and times are their distances from the least, in as few bytes as these take.

    Spark copies what is shuffled many times, and compresses it. `table_from_ipc` restores them.
    """
    narrowed = [_narrow_column(column) for column in table.columns]
    offsets = [offset for _, offset in narrowed]
    if all(offset is None for offset in offsets):
        return table
    metadata = {SCHEMA: table.schema.serialize().to_pybytes(), OFFSETS: json.dumps(offsets).encode()}
    columns = [column for column, _ in narrowed]
    schema = pa.schema([(name, column.type) for name, column in zip(table.column_names, columns, strict=True)])
    return pa.table(columns, schema=schema.with_metadata(metadata))


def _narrow_column(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, int | None]:
    """Return a column and None, or the distances of its values from the least, and that."""
    if not (pa.types.is_signed_integer(column.type) or pa.types.is_timestamp(column.type)):
        return column, None
    numbers = column.cast(pa.int64())
    least, most = pc.min_max(numbers).as_py().values()
    if least is None:
        return column, None
    for type in (pa.uint8(), pa.uint16(), pa.uint32()):
        if type.bit_width < column.type.bit_width and most - least < 1 << type.bit_width:
            return pc.subtract(numbers, least).cast(type, safe=False), least
    return column, None
