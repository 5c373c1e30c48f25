"""Choose among the matches of a group which are taken: AFTER MATCH SKIP PAST LAST EVENT, or TO NEXT EVENT."""

from __future__ import annotations

from typing import NamedTuple

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
    """Fill in the first event of each match; see `first_events`."""
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


class Occurrences(NamedTuple):
    """Matches of a sequence, one after the other: their events, as many for each, its key, and the end of the window
    that takes it, where each window takes its own.
    """

    event: Ints
    key: Ints
    closes: Ints


def take_occurrences(
    events: KeyedEvents, places: Ints, length: int, oldest: Ints, within: int = 0, slide: int = 0
) -> Occurrences:
    """Return the matches of a sequence that are taken PAST LAST EVENT: with `slide`, those of each window.

    Bit p of `places[c]` says whether an event of class c may be bound to position p; `oldest[e]` is the earliest start
    of a match that ends with event e. For each position, the latest start of a beginning that ends there is kept: a
    match ends where that of the last position is not too old. Of the matches that end there, the one taken binds the
    earliest events, and one to each position, even where parts may be repeated. No other match is looked at: O(events *
    positions), with SLIDE for each window that holds an event.
    """
    latest = np.empty(length, np.int64)
    if not slide:
        out = _create_occurrences(events.time.size // length, length)
        count = _take_occurrences(events, places, oldest, latest, out)
        return Occurrences(out.event[: count * length], out.key[:count], out.closes[:count])
    count = _take_in_windows(events, places, oldest, within, slide, latest, _create_occurrences(0, length))
    out = _create_occurrences(count, length)
    _take_in_windows(events, places, oldest, within, slide, latest, out)
    return out


def take_from_each(events: KeyedEvents, places: Ints, length: int, oldest: Ints) -> Occurrences:
    """Return the matches of a sequence that are taken TO NEXT EVENT: of each first event the one that ends first. See
    `take_occurrences`.
    """
    starts = int((places[events.klass] & 1).sum())
    out = _create_occurrences(starts, length)
    following = np.empty((length, int(np.diff(events.offsets).max(initial=0))), np.int64)
    count = _take_from_each(events, places, oldest, np.empty(length, np.int64), following, out)
    return Occurrences(out.event[: count * length], out.key[:count], out.closes[:count])


def _create_occurrences(count: int, length: int) -> Occurrences:
    return Occurrences(np.empty(count * length, np.int64), np.empty(count, np.int64), np.zeros(count, np.int64))


@kernel
def _take_occurrences(events: KeyedEvents, places: Ints, oldest: Ints, latest: Ints, out: Occurrences) -> int:
    """Fill in the matches that are taken; return how many there are. See `take_occurrences`."""
    count = 0
    for key in range(events.offsets.size - 1):
        begin, end = events.offsets[key], events.offsets[key + 1]
        count = _take_in_range(events, places, oldest, key, begin, end, latest, out, count)
    return count


@kernel
def _take_in_windows(
    events: KeyedEvents, places: Ints, oldest: Ints, within: int, slide: int, latest: Ints, out: Occurrences
) -> int:
    """Fill in the matches that each window takes, or only count them if there is no room for any; see
    `take_occurrences`.
    """
    time = events.time
    count = 0
    for key in range(events.offsets.size - 1):
        begin, stop = events.offsets[key], events.offsets[key + 1]
        end = begin
        start = np.int64(MIN_TIME)
        while begin < stop:
            # The next window with an event; with a SLIDE that is longer than the window, an event may be in none.
            start = max(start, ((time[begin] - within) // slide + 1) * slide)
            while begin < stop and time[begin] < start:
                begin += 1
            end = max(begin, end)
            while end < stop and time[end] < start + within:
                end += 1
            before = count
            count = _take_in_range(events, places, oldest, key, begin, end, latest, out, count)
            if out.key.size:
                out.closes[before:count] = start + within
            start += slide
    return count


@inner
def _take_in_range(
    events: KeyedEvents,
    places: Ints,
    oldest: Ints,
    key: int,
    begin: int,
    end: int,
    latest: Ints,
    out: Occurrences,
    count: int,
) -> int:
    """Take matches of the events from one index to another, after `count` others; return how many there are then."""
    time, length = events.time, latest.size
    fill(latest, MIN_TIME)
    after_taken = at = begin
    while at < end:
        now, first = time[at], at
        found = np.int64(0)
        while at < end and time[at] == now:
            found |= places[events.klass[at]]
            at += 1
        if found == 0:
            continue
        ends = found >> (length - 1) & 1
        start = now if length == 1 else latest[length - 2]
        if ends and start > MIN_TIME and start >= oldest[first]:
            if out.key.size:
                _bind_earliest(events, places, length, oldest[first], after_taken, out.event, count * length)
                out.key[count] = key
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


@kernel
def _take_from_each(
    events: KeyedEvents, places: Ints, oldest: Ints, later: Ints, following: Ints, out: Occurrences
) -> int:
    """Fill in the match of each first event that has one; return how many there are. See `take_from_each`.

    `following[p, e]` is the earliest event after event e of a key that may be bound to position p + 1, -1 if none.
    O(events * positions).
    """
    time, length = events.time, later.size
    count = 0
    for key in range(events.offsets.size - 1):
        begin, end = events.offsets[key], events.offsets[key + 1]
        fill(later, -1)
        at = end
        while at > begin:
            last = at
            while at > begin and time[at - 1] == time[last - 1]:
                at -= 1
                for position in range(length - 1):
                    following[position, at - begin] = later[position + 1]
            for event in range(at, last):
                for position in range(length):
                    if places[events.klass[event]] >> position & 1:
                        later[position] = event
        for first in range(begin, end):
            event, position = first, 0
            if not places[events.klass[first]] & 1:
                continue
            while event >= 0:
                out.event[count * length + position] = event
                if position == length - 1:
                    break
                event = following[position, event - begin]
                position += 1
            if event >= 0 and time[first] >= oldest[event]:
                out.key[count] = key
                count += 1
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
