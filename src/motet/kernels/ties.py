"""Merge the events of one key and time, and order them so that few have to wait for each other.

Equal timestamps never follow each other: what the events of one time add comes from the totals before it. Those of one
class take the same steps, so they are one event that counts several times. And where no class of events reads what
another writes, one can be done with before the other begins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import Flags, Ints, SmallInts
from motet.kernels.jit import kernel
from motet.kernels.tables import Events

# Rows of scratch memory, a column to a class.
PLACE = 0  # of the merged event of the class at the current time
NUMBER = 1  # of its events then
FOUND = 2  # the classes found at that time


class MergedEvents(NamedTuple):
    """Columns of the merged events, and into which of them each event goes."""

    offsets: Ints
    time: Ints
    klass: SmallInts
    multiplicity: Ints
    into: Ints


def merge_tied_events(events: Events, rank: Ints, part: Ints, adds: Flags) -> Events:
    """Merge events of a class and time, ordered by rank of their class, which is below the number of classes; of
    neighbours of one part, the later go with the one before.

    `adds` says which rows of ints add up; of the others the least counts. O(events * attribute rows + times * classes
    at one time squared).
    """
    size = len(events.time)
    merged = MergedEvents(
        np.zeros_like(events.offsets), np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int64),
        np.empty(size, np.int64),
    )  # fmt: skip
    _merge_times(events, merged, rank, part, np.zeros((3, len(rank)), np.int64))
    count = merged.offsets[-1]
    ints = np.zeros((len(events.int_values), count), np.int64)
    ints[~adds] = np.iinfo(np.int64).max
    floats = np.zeros((len(events.float_values), count), np.float64)
    for row, values in enumerate(events.int_values):
        (np.add if adds[row] else np.minimum).at(ints[row], merged.into, values)
    for row, weights in enumerate(events.float_values):
        floats[row] = np.bincount(merged.into, weights, count)
    time = merged.time[:count]
    return Events(merged.offsets, time, time, time, merged.klass[:count], ints, floats, merged.multiplicity[:count])


@kernel
def _merge_times(events: Events, merged: MergedEvents, rank: Ints, part: Ints, scratch: Ints) -> None:
    count = np.int64(0)
    for key in range(events.offsets.size - 1):
        e, end = events.offsets[key], events.offsets[key + 1]
        while e < end:
            now = events.time[e]
            after = e
            kinds = 0
            while after < end and events.time[after] == now:
                kind = events.klass[after]
                if scratch[NUMBER, kind] == 0:
                    at = kinds
                    while at > 0 and rank[scratch[FOUND, at - 1]] > rank[kind]:
                        scratch[FOUND, at] = scratch[FOUND, at - 1]
                        at -= 1
                    scratch[FOUND, at] = kind
                    kinds += 1
                scratch[NUMBER, kind] += 1
                after += 1
            for at in range(kinds):
                kind = scratch[FOUND, at]
                follows = at > 0 and part[scratch[FOUND, at - 1]] == part[kind]
                scratch[PLACE, kind] = count
                merged.time[count] = now
                merged.klass[count] = kind
                merged.multiplicity[count] = -scratch[NUMBER, kind] if follows else scratch[NUMBER, kind]
                scratch[NUMBER, kind] = 0
                count += 1
            for a in range(e, after):
                merged.into[a] = scratch[PLACE, events.klass[a]]
            e = after
        merged.offsets[key + 1] = count
