"""Merge the events of one key and time, and order them so that few have to wait for each other.

Equal timestamps never follow each other: what the events of one time add comes from the totals before it. Those of one
class take the same steps, so they are one event that counts several times. And where no class of events reads what
another writes, one can be done with before the other begins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import Flags, Floats, Ints, SmallInts
from motet.kernels.jit import inner, kernel
from motet.kernels.tables import Events

# Rows of scratch memory, a column to a class.
PLACE = 0  # of the merged event of the class at the current time
NUMBER = 1  # of its events then
FOUND = 2  # the classes found at that time
ORDER = 3  # all classes by rank

# Of so many classes at one time, those found are sorted; of more, all classes are looked through in order.
FEW = 8


class MergedEvents(NamedTuple):
    """Columns of the merged events, and into which of them each event goes."""

    offsets: Ints
    time: Ints
    klass: SmallInts
    multiplicity: Ints
    into: Ints


def merge_tied_events(events: Events, rank: Ints, part: Ints, adds: Flags) -> Events:
    """Merge events of a class and time, ordered by rank of their class, which is below the number of classes; of
    neighbours of one part, the later go with the one before. Events of class -1 are left out.

    `adds` says which rows of ints add up; of the others the least counts. O(events * attribute rows + times * classes).
    """
    size = len(events.time)
    merged = MergedEvents(
        np.zeros_like(events.offsets), np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int64),
        np.empty(size, np.int64),
    )  # fmt: skip
    scratch = np.zeros((4, len(rank)), np.int64)
    scratch[ORDER] = np.argsort(rank, kind="stable")
    _merge_times(events, merged, rank, part, scratch)
    count = merged.offsets[-1]
    ints = np.zeros((len(events.int_values), count), np.int64)
    ints[~adds] = np.iinfo(np.int64).max
    floats = np.zeros((len(events.float_values), count), np.float64)
    if len(ints) or len(floats):
        _merge_values(events, merged.into, adds, ints, floats)
    time = merged.time[:count]
    return Events(merged.offsets, time, time, time, merged.klass[:count], ints, floats, merged.multiplicity[:count])


@kernel
def _merge_times(events: Events, merged: MergedEvents, rank: Ints, part: Ints, scratch: Ints) -> None:
    """Merge the events of each key and time. O(events + times * classes)."""
    count = np.int64(0)
    has_values = events.int_values.shape[0] + events.float_values.shape[0] > 0
    for key in range(events.offsets.size - 1):
        e, end = events.offsets[key], events.offsets[key + 1]
        while e < end:
            now = events.time[e]
            after = e
            kinds = 0
            while after < end and events.time[after] == now:
                kind = events.klass[after]
                after += 1
                if kind < 0:
                    continue
                if scratch[NUMBER, kind] == 0:
                    scratch[FOUND, kinds] = kind
                    kinds += 1
                scratch[NUMBER, kind] += 1
            _sort_by_rank(scratch, rank, kinds)
            for at in range(kinds):
                kind = scratch[FOUND, at]
                follows = at > 0 and part[scratch[FOUND, at - 1]] == part[kind]
                scratch[PLACE, kind] = count
                merged.time[count] = now
                merged.klass[count] = kind
                merged.multiplicity[count] = -scratch[NUMBER, kind] if follows else scratch[NUMBER, kind]
                scratch[NUMBER, kind] = 0
                count += 1
            if has_values:
                for a in range(e, after):
                    kind = events.klass[a]
                    merged.into[a] = scratch[PLACE, kind] if kind >= 0 else -1
            e = after
        merged.offsets[key + 1] = count


@inner
def _sort_by_rank(scratch: Ints, rank: Ints, kinds: int) -> None:
    """Sort the classes that were found by rank: few by insertion, many by a look at all classes in order."""
    if kinds > FEW:
        found = 0
        for at in range(rank.size):
            kind = scratch[ORDER, at]
            if scratch[NUMBER, kind] > 0:
                scratch[FOUND, found] = kind
                found += 1
        return
    for last in range(1, kinds):
        kind = scratch[FOUND, last]
        at = last
        while at > 0 and rank[scratch[FOUND, at - 1]] > rank[kind]:
            scratch[FOUND, at] = scratch[FOUND, at - 1]
            at -= 1
        scratch[FOUND, at] = kind


@kernel
def _merge_values(events: Events, into: Ints, adds: Flags, ints: Ints, floats: Floats) -> None:
    """Add the values of events to those of the merged ones; of some the least counts. O(events * attribute rows)."""
    for row in range(ints.shape[0]):
        for e in range(into.size):
            if into[e] < 0:
                continue
            value = events.int_values[row, e]
            if adds[row]:
                ints[row, into[e]] += value
            else:
                ints[row, into[e]] = min(ints[row, into[e]], value)
    for row in range(floats.shape[0]):
        for e in range(into.size):
            if into[e] >= 0:
                floats[row, into[e]] += events.float_values[row, e]
