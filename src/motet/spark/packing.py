"""Rows to the bucket of their key, packed: a bucket's rows cross from Spark to the engine as one blob of Arrow data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.engine.encode import group_rows
from motet.spark.serialization import table_to_ipc

Batches = Iterator[pa.RecordBatch]
FIRST = "#first"
PACKED = pa.schema([pa.field("bucket", pa.string()), pa.field("rows", pa.binary())])


@dataclass(frozen=True)
class Route:
    """What a branch of the program takes: columns, types (None: all), and the column that tells the bucket of a row
    (null: it has none), by its number among `names`.
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    bucket: int
    type: int
    types: frozenset[str] | None


def pack_task(schema: pa.Schema, routes: Sequence[Route]) -> Callable[[Batches], Batches]:
    """Rows of a task to one blob for each branch and bucket. `schema` names the columns; bucket columns follow."""

    def pack(batches: Batches) -> Batches:
        rows = [pa.Table.from_batches([batch]) for batch in batches]
        if not rows:
            return
        together = pa.concat_tables(rows)
        untaken = np.ones(len(together), np.bool_)
        for route in routes:
            names, blobs = [], []
            buckets = _buckets(together, route)
            first = untaken & (buckets >= 0)
            untaken &= ~first
            for bucket, part in _parts(together, route, schema, buckets, first):
                names.append(route.names[bucket])
                blobs.append(table_to_ipc(part))
            if names:
                yield pa.record_batch([pa.array(names), pa.array(blobs, pa.binary())], schema=PACKED)

    return pack


def _buckets(rows: pa.Table, route: Route) -> NDArray[np.int32]:
    """The bucket of each row, -1 where the branch does not take it."""
    column = rows.column(route.bucket).combine_chunks()
    buckets: NDArray[np.int32] = column.fill_null(-1).to_numpy(zero_copy_only=False)
    if route.types is None:
        return buckets
    types = rows.column(route.type)
    taken = pc.is_in(types, pa.array(sorted(route.types), types.type))
    return np.where(taken.to_numpy(), buckets, np.int32(-1))


def _parts(
    rows: pa.Table, route: Route, schema: pa.Schema, buckets: NDArray[np.int32], first: NDArray[np.bool_]
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each bucket, with a column that tells those that no earlier branch has taken."""
    kept = np.flatnonzero(buckets >= 0)
    order, parts = group_rows(buckets[kept])
    order = kept[order]
    own = pa.schema([schema.field(at) for at in route.columns])
    events = rows.select(list(route.columns)).take(pa.array(order)).rename_columns(own.names).cast(own)
    events = events.append_column(FIRST, pa.array(first[order]))
    for number, start, size in parts:
        yield number, events.slice(start, size)
