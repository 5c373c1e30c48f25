"""Events of one key and time, put so that few of them have to wait for each other.

Equal timestamps never follow each other: what the events of one time add comes from the totals before it. Those of one
class take the same steps, so they are one event that counts several times. And where no class of events reads what
another writes, one can be done with before the other begins.
"""

from __future__ import annotations

import numpy as np

from motet.kernels.jit import kernel
from motet.kernels.tables import Events, Flags, Times


@kernel
def merge_tied_events(events: Events, rank: Times, part: Times, adds: Flags) -> Events:
    """The same events with those of a class and time joined, by rank of their class, which is below the number of
    classes; of neighbours of one part, the later go with the one before. `adds` says which rows of whole numbers add
    up; of the others the least counts. O(events * attribute rows + times * classes at one time squared).
    """
    size = events.time.size
    keys, classes = events.offsets.size - 1, rank.size
    offsets = np.zeros(keys + 1, np.int64)
    time, klass, multiplicity = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int64)
    into = np.empty(size, np.int64)
    place, number, found = np.zeros(classes, np.int64), np.zeros(classes, np.int64), np.empty(classes, np.int64)
    count = np.int64(0)
    for key in range(keys):
        e, end = events.offsets[key], events.offsets[key + 1]
        while e < end:
            now = events.time[e]
            after = e
            kinds = 0
            while after < end and events.time[after] == now:
                kind = events.klass[after]
                if number[kind] == 0:
                    at = kinds
                    while at > 0 and rank[found[at - 1]] > rank[kind]:
                        found[at] = found[at - 1]
                        at -= 1
                    found[at] = kind
                    kinds += 1
                number[kind] += 1
                after += 1
            for at in range(kinds):
                kind = found[at]
                follows = at > 0 and part[found[at - 1]] == part[kind]
                place[kind] = count
                time[count] = now
                klass[count] = kind
                multiplicity[count] = -number[kind] if follows else number[kind]
                number[kind] = 0
                count += 1
            for a in range(e, after):
                into[a] = place[events.klass[a]]
            e = after
        offsets[key + 1] = count
    int_values = np.empty((events.int_values.shape[0], count), np.int64)
    float_values = np.zeros((events.float_values.shape[0], count), np.float64)
    for row in range(int_values.shape[0]):
        for at in range(count):
            int_values[row, at] = 0 if adds[row] else np.int64(2**63 - 1)
        for a in range(size):
            if adds[row]:
                int_values[row, into[a]] += events.int_values[row, a]
            else:
                int_values[row, into[a]] = min(int_values[row, into[a]], events.int_values[row, a])
    for row in range(float_values.shape[0]):
        for a in range(size):
            float_values[row, into[a]] += events.float_values[row, a]
    return Events(
        offsets, time[:count], time[:count], time[:count], klass[:count], int_values, float_values, multiplicity[:count]
    )
