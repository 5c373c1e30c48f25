"""Spreads events over tasks: by their key, and where one key holds too many of them, by slices of its time.

A slice [a, b) of a hot key is given to a task with the events of [a - halo, b), and the task reports only what falls
due in [a, b). The slices of a key cover all time, so the first has no lower bound and the last no upper one.

Keys are known by their hashes alone. Where two have the same, one of them is treated as the other is: cut as well,
which changes nothing of its results.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.encode import codes_of

# Fewer rows than this are not worth a task of their own.
ROWS_PER_TASK = 20_000
# Finding slices and repeating their halos costs about as much as running the rows, so a key must hold this many times
# the rows of a fair task before the wait for it is longer.
HOT = 3
# A slice must be this many times as long as the events before it that it repeats.
SLICE_PER_HALO = 2
_BEFORE_ALL, _AFTER_ALL = -(2**63), 2**63 - 1

Bounds = tuple[int | None, int | None]
Hashes = NDArray[np.uint64]
Times = NDArray[np.int64]
Rows = NDArray[np.int64]
Places = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class BigKey:
    """A key with many rows: its hash, about how many rows, and times of some, in order."""

    hash: int
    rows: float
    times: Times


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a big key that one task works on, without bounds where it is all of it."""

    key: int
    bounds: Bounds
    rows: float
    task: int = 0

    @property
    def start(self) -> int:
        """The first time that it reports."""
        return _BEFORE_ALL if self.bounds[0] is None else self.bounds[0]

    @property
    def is_cut(self) -> bool:
        """Whether it is but a part of its key."""
        return self.bounds != (None, None)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where rows go: to so many tasks by the hash of their key, save those of big keys, whose slices are listed; the
    rows of a `halo` before a slice go with it. Where the number of tasks is not `fixed`, few rows may do with fewer.

    A place is a number: up to the number of tasks that task, for keys that are not cut, and beyond it a slice.
    """

    tasks: int
    slices: tuple[Slice, ...] = ()
    halo: int = 0
    fixed: bool = True

    @property
    def bounds(self) -> dict[int, Bounds]:
        """The times that the slices of cut keys report, by place."""
        return {self.tasks + at: piece.bounds for at, piece in enumerate(self.slices) if piece.is_cut}

    def task(self, place: int) -> int:
        """The task that a place belongs to."""
        return place if place < self.tasks else self.slices[place - self.tasks].task

    def placed(self, hashes: Hashes, times: Times) -> tuple[Rows, Places]:
        """Rows and the place of each, some rows at two: O(n log k) for k big keys."""
        rows, places = np.arange(len(hashes)), (hashes % np.uint64(self.tasks)).astype(np.int32)
        if not self.slices:
            return rows, places
        repeated: list[tuple[Rows, Places]] = []
        for own, slices in self._of_big_keys(hashes):
            numbers = np.array([self._place(at) for at in slices], np.int32)
            starts = np.array([self.slices[at].start for at in slices])
            moments = times[own]
            at = np.searchsorted(starts, moments, "right") - 1
            places[own] = numbers[at]
            # A slice is longer than a halo, so no row is in more than one.
            near = np.flatnonzero(moments >= np.append(starts[1:], _AFTER_ALL)[at] - self.halo)
            repeated.append((own[near], numbers[at[near] + 1]))
        return (
            np.concatenate([rows, *(again for again, _ in repeated)]),
            np.concatenate([places, *(place for _, place in repeated)]),
        )

    def _place(self, at: int) -> int:
        """Keys that are not cut share the place of their task, which runs them in one call."""
        return self.tasks + at if self.slices[at].is_cut else self.slices[at].task

    def _of_big_keys(self, hashes: Hashes) -> Iterator[tuple[Rows, list[int]]]:
        """The rows of each big key, and its slices in order of time."""
        by_key: dict[int, list[int]] = {}
        for at in sorted(range(len(self.slices)), key=lambda at: self.slices[at].start):
            by_key.setdefault(self.slices[at].key, []).append(at)
        keys = np.array(sorted(by_key), np.uint64)
        nearest = np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)
        nearest[keys[nearest] != hashes] = -1
        for number, key in enumerate(keys.tolist()):
            rows = np.flatnonzero(nearest == number)
            if len(rows):
                yield rows, by_key[key]


def even_layout(rows: float, largest: float, limit: int, partitions: int | None) -> Layout | None:
    """A layout by key for so many rows, of which one key seems to hold at most a share; None where that is hot, or so
    near to it that one had better look closer. `limit` is the most tasks to make where no number is asked for.
    """
    tasks = _tasks(rows, limit, partitions)
    return Layout(tasks) if tasks <= HOT or largest * tasks < HOT / 2 else None


def find_layout(hashes: Hashes, times: Times, fraction: float, halo: int, limit: int, partitions: int | None) -> Layout:
    """Tell from a fraction of the rows which keys hold too many for one task, and cut those."""
    rows = len(hashes) / fraction
    tasks = _tasks(rows, limit, partitions)
    share = rows / tasks
    big = _big_keys(hashes, times, fraction, share / 2)
    if tasks <= HOT or not any(key.rows > HOT * share for key in big):
        return Layout(tasks)
    pieces = [piece for key in big for piece in _slices(key, share, halo)]
    slices = _assign(pieces, max(0, rows - sum(key.rows for key in big)) / tasks, tasks)
    return Layout(tasks, tuple(slices), halo)


def key_hashes(rows: pa.Table, keys: Sequence[str]) -> Hashes:
    """A number for the key of each row, by its values alone: the same in every task. No value is null. O(n)."""
    hashes = np.zeros(len(rows), np.uint64)
    for name in keys:
        coded = codes_of(rows.column(name))
        values = coded.dictionary.to_numpy(zero_copy_only=False)
        numbers = values.view(np.int64) if values.dtype.kind in "mM" else values
        of_values = pd.util.hash_array(numbers, categorize=False)
        hashes = hashes * np.uint64(31) + of_values[coded.indices.to_numpy()]
    return hashes


def _tasks(rows: float, limit: int, partitions: int | None) -> int:
    return partitions or max(1, min(limit, int(rows / ROWS_PER_TASK)))


def _big_keys(hashes: Hashes, times: Times, fraction: float, least: float) -> list[BigKey]:
    """The keys that hold more rows than the least, as far as a sample tells."""
    order = np.lexsort((times, hashes))
    keys, starts, counts = np.unique(hashes[order], return_index=True, return_counts=True)
    return [
        BigKey(key, count / fraction, times[order[start : start + count]])
        for key, start, count in zip(keys.tolist(), starts.tolist(), counts.tolist(), strict=True)
        if count / fraction > least
    ]


def _slices(key: BigKey, share: float, halo: int) -> list[Slice]:
    """One slice for each fair share of rows, unless they would be short beside the halo they repeat."""
    first, last = int(key.times[0]), int(key.times[-1])
    shortest = max(1, SLICE_PER_HALO * halo)
    wanted = min(math.ceil(key.rows / share), (last - first) // shortest)
    cuts: list[int] = []
    for part in range(1, wanted):
        cut = int(key.times[round(part * (len(key.times) - 1) / wanted)])
        if cut - (cuts[-1] if cuts else first) >= shortest:
            cuts.append(cut)
    edges = [None, *cuts, None]
    return [Slice(key.hash, bounds, key.rows / (len(edges) - 1)) for bounds in pairwise(edges)]


def _assign(slices: list[Slice], others: float, tasks: int) -> list[Slice]:
    """Give the largest slices first, each to the task with the fewest rows; every task has some `others` already."""
    loads = [(others, task) for task in range(tasks)]
    assigned = []
    for piece in sorted(slices, key=lambda piece: -piece.rows):
        load, task = heapq.heappop(loads)
        heapq.heappush(loads, (load + piece.rows, task))
        assigned.append(replace(piece, task=task))
    return assigned
