"""Choose among the matches of a group which are taken: AFTER MATCH SKIP PAST LAST EVENT, or TO NEXT EVENT."""

from __future__ import annotations

import numpy as np

from motet.kernels.arrays import Flags, Ints
from motet.kernels.jit import inner, kernel
from motet.kernels.match_filter import KeyedEvents, Matches
from motet.kernels.tables import MIN_TIME, fill


def first_events(found: Matches, time: Ints) -> Ints:
    """Return the first event of each match; of events at one time, the one at the leftmost position. O(bindings)."""
    first = np.empty(found.key.size, np.int64)
    _first_events(found, time, first)
    return first


@kernel
def _first_events(found: Matches, time: Ints, first: Ints) -> None:
    for match in range(found.key.size):
        best = found.begin[match]
        for at in range(found.begin[match] + 1, found.begin[match + 1]):
            sooner = time[found.event[at]] - time[found.event[best]]
            if sooner < 0 or (sooner == 0 and found.position[at] < found.position[best]):
                best = at
        first[match] = found.event[best]


@kernel
def take_past_last(
    found: Matches, time: Ints, first: Ints, last: Ints, order: Ints, offsets: Ints, ends: Ints, taken: Flags
) -> None:
    """Mark which matches are taken if the next one begins after the last one that was taken has ended.

    Group g is order[offsets[g]:offsets[g + 1]], matches sorted by last and then first time; ends[g] is when the one
    taken last before these ended (MIN_TIME: there was none), and is moved on. O(matches); where several have both times
    in common, O(bindings * positions) for each of these.
    """
    for group in range(offsets.size - 1):
        ended = ends[group]
        at = offsets[group]
        while at < offsets[group + 1]:
            match = order[at]
            if first[match] > ended:
                best = at
                other = at + 1
                while other < offsets[group + 1] and _are_alike(first, last, match, order[other]):
                    if _precedes(found, time, order[other], order[best]):
                        best = other
                    other += 1
                taken[best] = True
                ended = last[match]
            at += 1
        ends[group] = ended


@kernel
def take_first(
    found: Matches, time: Ints, first: Ints, last: Ints, order: Ints, offsets: Ints, ends: Ints, taken: Flags
) -> None:
    """Mark which matches are taken if each group gives its first, unless it gave one before: see `take_past_last`."""
    for group in range(offsets.size - 1):
        if ends[group] > MIN_TIME:
            continue
        ends[group] = last[order[offsets[group]]]
        at = best = offsets[group]
        while at < offsets[group + 1] and _are_alike(first, last, order[best], order[at]):
            if _precedes(found, time, order[at], order[best]):
                best = at
            at += 1
        taken[best] = True


def take_occurrences(events: KeyedEvents, places: Ints, length: int, oldest: Ints) -> tuple[Ints, Ints]:
    """Return the matches of a plain sequence that are taken PAST LAST EVENT: their events, `length` each, and keys.

    Bit p of `places[c]` says whether an event of class c may be bound to position p; `oldest[e]` is the earliest start
    of a match that ends with event e. For each position, the latest start of a beginning that ends there is kept: a
    match ends where that of the last position is not too old. Of the matches that end there, the one taken binds the
    earliest events. No other match is looked at: O(events * positions).
    """
    bound = np.empty(events.time.size + length, np.int64)
    keys = np.empty(events.time.size // length + 1, np.int64)
    count = _take_occurrences(events, places, oldest, np.empty(length, np.int64), bound, keys)
    return bound[: count * length], keys[:count]


@kernel
def _take_occurrences(events: KeyedEvents, places: Ints, oldest: Ints, latest: Ints, bound: Ints, keys: Ints) -> int:
    """Fill in the events and keys of matches that are taken; return how many there are. See `take_occurrences`."""
    offsets, time, length = events.offsets, events.time, latest.size
    count = 0
    for key in range(offsets.size - 1):
        fill(latest, MIN_TIME)
        after_taken = offsets[key]
        at = offsets[key]
        while at < offsets[key + 1]:
            now, first = time[at], at
            found = np.int64(0)
            while at < offsets[key + 1] and time[at] == now:
                found |= places[events.klass[at]]
                at += 1
            if found == 0:
                continue
            ends = found >> (length - 1) & 1
            start = now if length == 1 else latest[length - 2]
            if ends and start > MIN_TIME and start >= oldest[first]:
                _bind_earliest(events, places, length, oldest[first], after_taken, bound, count * length)
                keys[count] = key
                count += 1
                after_taken = at
                fill(latest, MIN_TIME)
                continue
            for position in range(length - 1, 0, -1):
                if found >> position & 1:
                    latest[position] = max(latest[position], latest[position - 1])
            if found & 1:
                latest[0] = now
    return count


@inner
def _bind_earliest(
    events: KeyedEvents, places: Ints, length: int, oldest: int, begin: int, bound: Ints, target: int
) -> None:
    """Bind the earliest events of a sequence that is known to be there, none before an index or a time."""
    previous = np.int64(MIN_TIME)
    position = 0
    at = begin
    while position < length:
        now = events.time[at]
        if now >= oldest and now > previous and places[events.klass[at]] >> position & 1:
            bound[target + position] = at
            previous = now
            position += 1
        at += 1


@inner
def _are_alike(first: Ints, last: Ints, one: int, other: int) -> bool:
    return first[one] == first[other] and last[one] == last[other]


@inner
def _precedes(found: Matches, time: Ints, one: int, other: int) -> bool:
    """Return whether the times of one match, by position from left to right, come before those of another."""
    most = np.int64(0)
    for match in (one, other):
        for at in range(found.begin[match], found.begin[match + 1]):
            most = max(most, np.int64(found.position[at]))
    for position in range(most + 1):
        a, b = found.begin[one], found.begin[other]
        while True:
            while a < found.begin[one + 1] and found.position[a] != position:
                a += 1
            while b < found.begin[other + 1] and found.position[b] != position:
                b += 1
            if a == found.begin[one + 1] or b == found.begin[other + 1]:
                break
            if time[found.event[a]] != time[found.event[b]]:
                return time[found.event[a]] < time[found.event[b]]
            a += 1
            b += 1
        ended, other_ended = a == found.begin[one + 1], b == found.begin[other + 1]
        if ended != other_ended:
            return ended
    return False
