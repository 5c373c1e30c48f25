"""Rows that a stream keeps: those that wait for the watermark, and those of windows that are still open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.engine.detect.program import DetectBranch
from motet.engine.encode import key_codes, microseconds, read_column, times_of
from motet.engine.program import Branch
from motet.engine.schema import EventSchema
from motet.errors import DataError
from motet.kernels.tables import LONG_AGO

Times = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Arrivals:
    """Rows of a micro-batch, sorted out: those that take part, those that came too late, those set aside."""

    usable: pa.Table
    late: pa.Table
    set_aside: int
    newest: int  # the greatest time of any row, asked for or not


def sort_out(table: pa.Table, branch: Branch | DetectBranch, schema: EventSchema, watermark: int) -> Arrivals:
    """Tell the rows of a micro-batch apart. Rows that no query of the branch asks for are left out of all."""
    missing = pc.or_(pc.is_null(table[schema.time]), pc.is_null(table[schema.type]))
    aside = missing.to_numpy() | poisoned(table, lambda part: microseconds(read_column(part, schema.time), schema))
    if aside.any():
        table = table.filter(pa.array(~aside))
    times = times_of(table, schema)
    wanted = np.ones(len(table), np.bool_)
    for name in branch.partition:
        wanted &= read_column(table, name).is_valid().to_numpy(zero_copy_only=False)
    if branch.types is not None:
        known = pc.is_in(table[schema.type], pa.array(sorted(branch.types), table.schema.field(schema.type).type))
        wanted &= known.to_numpy()
    late = times < watermark

    def rows(chosen: Flags) -> pa.Table:
        return table if chosen.all() else table.filter(pa.array(chosen))

    return Arrivals(rows(wanted & ~late), rows(wanted & late), int(aside.sum()), int(times.max(initial=LONG_AGO)))


def poisoned(table: pa.Table, read: Callable[[pa.Table], object]) -> Flags:
    """Which rows cannot be read, found by halving: O(bad rows * log rows) attempts, one where all is well."""
    bad = np.zeros(len(table), np.bool_)
    pending = [(0, len(table))]
    while pending:
        start, size = pending.pop()
        try:
            read(table.slice(start, size))
        except DataError:
            if size == 1:
                bad[start] = True
            else:
                pending += [(start, size // 2), (start + size // 2, size - size // 2)]
    return bad


def still_needed(
    table: pa.Table, times: Times, partition: Sequence[str], watermark: int, horizon: int, last: int
) -> Flags:
    """Rows that wait, those at or after a horizon, and the last so many of each key that have passed."""
    kept = (times >= watermark) | (times >= horizon)
    if last and len(times):
        codes = key_codes(table, partition)[0]
        passed = np.flatnonzero(times < watermark)
        order = passed[np.lexsort((-times[passed], codes[passed]))]
        kept[order[_later(codes[order], times[order]) < last]] = True
    return kept


def _later(codes: NDArray[np.int32], times: Times) -> Times:
    """Of rows by key and falling time, how many of its key are strictly later."""
    place = np.arange(len(codes))
    first_of_key = np.maximum.accumulate(np.where(np.diff(codes, prepend=-1) != 0, place, 0))
    new = (np.diff(codes, prepend=-1) != 0) | (np.diff(times, prepend=0) != 0)
    if len(new):
        new[0] = True
    first_of_tie = np.maximum.accumulate(np.where(new, place, 0))
    return first_of_tie - first_of_key
