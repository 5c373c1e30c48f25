"""Serialize programs and tables for Spark's Python workers.

A worker runs many tasks, and unpickling a program of a thousand queries takes longer than running it over a few rows:
workers keep what they have unpickled.
"""

from __future__ import annotations

import pickle
import uuid
from functools import cached_property
from typing import Any, Generic, TypeVar

import pyarrow as pa

T = TypeVar("T")
# Values that a worker keeps, the latest ones: as many as there are likely to be runs at the same time.
MAX_CACHED = 4

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
    """Return a table as bytes of an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def table_from_ipc(blob: bytes | pa.Buffer) -> pa.Table:
    """Return the table that `table_to_ipc` serialized."""
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()
