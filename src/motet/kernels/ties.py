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
from motet.kernels.totals import NO_MINIMUM

# Rows of scratch memory, a column to a class.
PLACE = 0  # of the merged event of the class at the current time
NUMBER = 1  # of its events then
FOUND = 2  # the classes found at that time

# Of so many classes at one time, those found are sorted; of more, all classes are looked through in order.
FEW = 8


class ClassOrder(NamedTuple):
    """How a unit takes the classes of events: the class that each is one with (-1: it has no steps), the rank and the
    part of those classes, and the classes by rank.
    """

    merged: SmallInts
    rank: Ints
    part: Ints
    order: Ints


class MergedEvents(NamedTuple):
    """Columns of the merged events: those of `Events` that are written."""

    offsets: Ints
    time: Ints
    klass: SmallInts
    multiplicity: Ints
    ints: Ints
    floats: Floats


def merge_tied_events(events: Events, classes: ClassOrder, adds: Flags) -> Events:
    """Merge events of a class and time, ordered by rank of their class; of neighbours of one part, the later go with
    the one before. Events without steps are left out.

    `adds` says which rows of ints add up; of the others the least counts. O(events * attribute rows + times * classes).
    """
    size = len(events.time)
    merged = MergedEvents(
        np.zeros_like(events.offsets), np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int64),
        np.empty((len(events.int_values), size), np.int64), np.empty((len(events.float_values), size), np.float64),
    )  # fmt: skip
    _merge_times(events, merged, classes, adds, np.zeros((3, len(classes.rank)), np.int64))
    count = merged.offsets[-1]
    time = merged.time[:count]
    ints, floats = (np.ascontiguousarray(values[:, :count]) for values in (merged.ints, merged.floats))
    return Events(merged.offsets, time, time, time, merged.klass[:count], ints, floats, merged.multiplicity[:count])


@kernel
def _merge_times(events: Events, merged: MergedEvents, classes: ClassOrder, adds: Flags, scratch: Ints) -> None:
    """Merge the events of each key and time. O(events * attribute rows + times * classes)."""
    count = np.int64(0)
    has_values = events.int_values.shape[0] + events.float_values.shape[0] > 0
    for key in range(events.offsets.size - 1):
        e, end = events.offsets[key], events.offsets[key + 1]
        while e < end:
            now = events.time[e]
            after = e
            kinds = 0
            while after < end and events.time[after] == now:
                kind = classes.merged[events.klass[after]]
                after += 1
                if kind < 0:
                    continue
                if scratch[NUMBER, kind] == 0:
                    scratch[FOUND, kinds] = kind
                    kinds += 1
                scratch[NUMBER, kind] += 1
            _sort_by_rank(scratch, classes, kinds)
            for at in range(kinds):
                kind = scratch[FOUND, at]
                follows = at > 0 and classes.part[scratch[FOUND, at - 1]] == classes.part[kind]
                scratch[PLACE, kind] = count
                merged.time[count] = now
                merged.klass[count] = kind
                merged.multiplicity[count] = -scratch[NUMBER, kind] if follows else scratch[NUMBER, kind]
                scratch[NUMBER, kind] = 0
                count += 1
            if has_values:
                _clear_values(merged, adds, count - kinds, count)
                for a in range(e, after):
                    kind = classes.merged[events.klass[a]]
                    if kind >= 0:
                        _merge_values(events, merged, adds, a, scratch[PLACE, kind])
            e = after
        merged.offsets[key + 1] = count


@inner
def _sort_by_rank(scratch: Ints, classes: ClassOrder, kinds: int) -> None:
    """Sort the classes that were found by rank: few by insertion, many by a look at all classes in order."""
    if kinds > FEW:
        found = 0
        for at in range(classes.order.size):
            kind = classes.order[at]
            if scratch[NUMBER, kind] > 0:
                scratch[FOUND, found] = kind
                found += 1
        return
    for last in range(1, kinds):
        kind = scratch[FOUND, last]
        at = last
        while at > 0 and classes.rank[scratch[FOUND, at - 1]] > classes.rank[kind]:
            scratch[FOUND, at] = scratch[FOUND, at - 1]
            at -= 1
        scratch[FOUND, at] = kind


@inner
def _clear_values(merged: MergedEvents, adds: Flags, first: int, after: int) -> None:
    """Give merged events the values of no event."""
    for row in range(merged.ints.shape[0]):
        empty = np.int64(0) if adds[row] else NO_MINIMUM
        for place in range(first, after):
            merged.ints[row, place] = empty
    for row in range(merged.floats.shape[0]):
        for place in range(first, after):
            merged.floats[row, place] = 0.0


@inner
def _merge_values(events: Events, merged: MergedEvents, adds: Flags, e: int, place: int) -> None:
    """Add the values of an event to those of a merged one; of some the least counts."""
    for row in range(merged.ints.shape[0]):
        value = events.int_values[row, e]
        if adds[row]:
            merged.ints[row, place] += value
        else:
            merged.ints[row, place] = min(merged.ints[row, place], value)
    for row in range(merged.floats.shape[0]):
        merged.floats[row, place] += events.float_values[row, e]
