"""Assign events to tasks: by key, and if a key has too many of them, by slices of its time.

A slice [a, b) of a hot key is given to a task with the events of [a - overlap, b), and the task reports only what falls
due in [a, b). The slices of a key cover all time, so the first has no lower bound and the last no upper one.

Keys are known by their hashes alone. Where two have the same, one of them is treated as the other is: cut as well,
which changes nothing of its results.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from motet.engine.encode import encode_dictionary
from motet.spark.parquet import MAX_INSPECTED_FILES, FileScan, pick_evenly, read_groups

# Fewer rows than this are not worth a task of their own.
ROWS_PER_TASK = 20_000
# More than these would need gigabytes of a Python worker, so there are more tasks than Spark would make.
MAX_ROWS_PER_TASK = 5_000_000
# Finding slices and repeating their overlaps costs about as much as running the rows, so a key must hold this many
# times the rows of a fair task before the wait for it is longer.
HOT_KEY_FACTOR = 3
# A slice must be this many times as long as the events before it that it repeats.
SLICE_PER_OVERLAP = 2
MAX_ROW_GROUPS = 4  # row groups of a file
ROWS = 8_192  # of a row group
_BEFORE_ALL, _AFTER_ALL = -(2**63), 2**63 - 1

Bounds = tuple[int | None, int | None]
Hashes = NDArray[np.uint64]
Times = NDArray[np.int64]
Rows = NDArray[np.int64]
Places = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """A key with many rows: its hash, about how many rows, and sampled times, sorted."""

    hash: int
    rows: float
    times: Times


@dataclass(frozen=True, slots=True)
class KeySlice:
    """The part of a heavy key that one task works on, without bounds if it is the whole key."""

    key: int
    bounds: Bounds
    rows: float
    task: int = 0

    @property
    def start(self) -> int:
        """The first time that it reports."""
        return _BEFORE_ALL if self.bounds[0] is None else self.bounds[0]

    @property
    def is_partial(self) -> bool:
        """Whether it is only a part of its key."""
        return self.bounds != (None, None)


@dataclass(frozen=True, slots=True)
class TaskLayout:
    """Where rows go: to so many tasks by the hash of their key, except those of heavy keys, whose slices are listed;
    rows of an `overlap` before a slice go with it. If the number of tasks is not `fixed`, few rows may need fewer.

    A place is a number: up to the number of tasks it is a task, for keys that are not cut, and beyond it a slice.
    """

    tasks: int
    slices: tuple[KeySlice, ...] = ()
    overlap: int = 0
    fixed: bool = True

    @property
    def bounds(self) -> dict[int, Bounds]:
        """The times that the slices of cut keys report, by place."""
        return {self.tasks + at: piece.bounds for at, piece in enumerate(self.slices) if piece.is_partial}

    def task(self, place: int) -> int:
        """Return the task that a place belongs to."""
        return place if place < self.tasks else self.slices[place - self.tasks].task

    def assign_places(self, hashes: Hashes, times: Times) -> tuple[Rows, Places]:
        """Return rows and the place of each, some rows at two. O(n k) for n rows and k heavy keys."""
        places = (hashes % np.uint64(self.tasks)).astype(np.int32)
        found = [(np.arange(len(hashes)), places)]
        by_key: dict[int, list[int]] = {}
        for at in sorted(range(len(self.slices)), key=lambda at: self.slices[at].start):
            by_key.setdefault(self.slices[at].key, []).append(at)
        for key, slices in by_key.items():
            own = np.flatnonzero(hashes == np.uint64(key))
            numbers = np.array([self._place_of_slice(at) for at in slices], np.int32)
            starts = np.array([self.slices[at].start for at in slices])
            which = np.searchsorted(starts, times[own], "right") - 1
            places[own] = numbers[which]
            # A slice is longer than the overlap, so no row is in more than one.
            near = np.flatnonzero(times[own] >= np.append(starts[1:], _AFTER_ALL)[which] - self.overlap)
            found.append((own[near], numbers[which[near] + 1]))
        return np.concatenate([rows for rows, _ in found]), np.concatenate([places for _, places in found])

    def _place_of_slice(self, at: int) -> int:
        """Return the place of a slice; whole keys share the place of their task, which runs them in one call."""
        return self.tasks + at if self.slices[at].is_partial else self.slices[at].task


@dataclass(frozen=True, slots=True)
class KeySkew:
    """About how many rows are relevant, what share of them the most frequent key seems to have, and which share of all
    rows they are.
    """

    rows: float
    largest: float
    share: float


def estimate_key_skew(scan: FileScan, keys: Sequence[str], type: str, types: frozenset[str] | None) -> KeySkew | None:
    """Estimate from parquet files the number of rows of some types and their key skew; None if they do not show it.

    It only ever rules skew out: if a key might hold too many rows, Spark samples them, which reads all rows.
    """
    if not keys:
        return None
    picked = pick_evenly(scan.files, MAX_INSPECTED_FILES)
    seen: list[pa.Table] = []
    stored = read = 0
    for file in picked:
        with pq.ParquetFile(file) as opened:
            stored += opened.metadata.num_rows
            for group in pick_evenly(range(opened.num_row_groups), MAX_ROW_GROUPS):
                rows = next(read_groups(opened, [group], scan.stored, rows=ROWS), None)
                if rows is not None:
                    read += len(rows)
                    seen.append(scan.compute(rows).select(list(dict.fromkeys((*keys, type)))))
    if not seen:
        return None
    rows = pa.concat_tables(seen).drop_null()
    if types is not None:
        rows = rows.filter(pc.is_in(rows[type].cast(pa.string()), pa.array(sorted(types), pa.string())))
    if not len(rows):
        return None
    counts = rows.select(list(keys)).group_by(list(keys)).aggregate([([], "count_all")])["count_all"]
    share = len(rows) / read
    return KeySkew(stored / len(picked) * len(scan.files) * share, pc.max(counts).as_py() / len(rows), share)


def plan_even_layout(rows: float, largest: float, limit: int, partitions: int | None) -> TaskLayout | None:
    """Return a layout by key for so many rows, of which one key holds at most a share; None if that is nearly hot.

    `limit` is the largest number of tasks to make if no number is asked for, unless they would have too many rows.
    """
    tasks = _count_tasks(rows, limit, partitions)
    return TaskLayout(tasks) if tasks <= HOT_KEY_FACTOR or largest * tasks < HOT_KEY_FACTOR / 2 else None


def plan_layout(
    hashes: Hashes, times: Times, fraction: float, overlap: int, limit: int, partitions: int | None
) -> TaskLayout:
    """Find in a sample the keys that hold too many rows for one task, and cut those into slices."""
    rows = len(hashes) / fraction
    tasks = _count_tasks(rows, limit, partitions)
    share = rows / tasks
    big = _find_heavy_keys(hashes, times, fraction, share / 2)
    if tasks <= HOT_KEY_FACTOR or not any(key.rows > HOT_KEY_FACTOR * share for key in big):
        return TaskLayout(tasks)
    pieces = [piece for key in big for piece in _slice_key(key, share, overlap)]
    slices = _assign_slices(pieces, max(0, rows - sum(key.rows for key in big)) / tasks, tasks)
    return TaskLayout(tasks, tuple(slices), overlap)


def hash_keys(rows: pa.Table, keys: Sequence[str]) -> Hashes:
    """Hash the key of each row, by its values alone: the same in every task. No value is null. O(n)."""
    hashes = np.zeros(len(rows), np.uint64)
    for name in keys:
        column = rows.column(name)
        if pa.types.is_integer(column.type) or pa.types.is_temporal(column.type):
            found = _hash_values(column.to_numpy())
        else:
            coded = encode_dictionary(column)
            found = _hash_values(coded.dictionary.to_numpy(zero_copy_only=False))[coded.indices.to_numpy()]
        hashes = hashes * np.uint64(31) + found
    return hashes


def _hash_values(values: NDArray[Any]) -> Hashes:
    numbers = values.view(np.int64) if values.dtype.kind in "mM" else values
    hashes: Hashes = pd.util.hash_array(numbers, categorize=False)
    return hashes


def _count_tasks(rows: float, limit: int, partitions: int | None) -> int:
    return partitions or max(1, min(limit, int(rows / ROWS_PER_TASK)), math.ceil(rows / MAX_ROWS_PER_TASK))


def _find_heavy_keys(hashes: Hashes, times: Times, fraction: float, least: float) -> list[HeavyKey]:
    """Return the keys that, by a sample, hold more rows than the least."""
    order = np.lexsort((times, hashes))
    keys, starts, counts = np.unique(hashes[order], return_index=True, return_counts=True)
    return [
        HeavyKey(key, count / fraction, times[order[start : start + count]])
        for key, start, count in zip(keys.tolist(), starts.tolist(), counts.tolist(), strict=True)
        if count / fraction > least
    ]


def _slice_key(key: HeavyKey, share: float, overlap: int) -> list[KeySlice]:
    """Cut a key into slices of a fair share of rows each, unless they would be short beside the overlap they repeat."""
    first, last = int(key.times[0]), int(key.times[-1])
    shortest = max(1, SLICE_PER_OVERLAP * overlap)
    wanted = min(math.ceil(key.rows / share), (last - first) // shortest)
    cuts: list[int] = []
    for part in range(1, wanted):
        cut = int(key.times[round(part * (len(key.times) - 1) / wanted)])
        if cut - (cuts[-1] if cuts else first) >= shortest:
            cuts.append(cut)
    edges = [None, *cuts, None]
    return [KeySlice(key.hash, bounds, key.rows / (len(edges) - 1)) for bounds in pairwise(edges)]


def _assign_slices(slices: list[KeySlice], others: float, tasks: int) -> list[KeySlice]:
    """Assign the largest slices first, each to the task with the fewest rows; every task has some `others` already."""
    loads = [(others, task) for task in range(tasks)]
    assigned = []
    for piece in sorted(slices, key=lambda piece: -piece.rows):
        load, task = heapq.heappop(loads)
        heapq.heappush(loads, (load + piece.rows, task))
        assigned.append(replace(piece, task=task))
    return assigned
