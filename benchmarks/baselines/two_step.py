"""Construct-then-aggregate, the two-step approach that all three papers compare with: list matches, then count them.

As A-Seq's section 2.2 describes it: each position of a pattern has a stack of events, each event a pointer to the top
of the stack before it. An event of the last position walks the pointers back and constructs every match that it
completes; absences are checked on whole matches. Queries run one after another.

Costs: an event that completes matches costs as many steps as it completes matches and partial matches. These are up to
n^l for a sequence of length l over n events of a type in a window, and 2^n for a repetition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.baselines.prepared import Counts, Moments, PreparedEvents, pack_lists
from motet.kernels.arrays import Flags, Floats, Ints, SmallInts
from motet.kernels.jit import inner, kernel


class Stacks(NamedTuple):
    """The stacks of one query for a key.

    By position: where its stack begins, its first live and last settled and last event, the class of events (`takes`),
    the positions before it (`before`), whether something must be absent before it (`forbids`, by class). By event in a
    stack: its time, the latest absent event before it, and a pointer for each position before its own.
    """

    at: Ints
    head: Ints
    settled: Ints
    tail: Ints
    takes: Flags
    forbids: Flags
    before_at: Ints
    before: Ints
    widest: int
    time: Ints
    absent: Ints
    pointer: Ints
    latest: Ints
    started: Floats  # matches by START event
    live: Ints  # events, pointers, matches: now, at most, at most in all keys


class Walk(NamedTuple):
    """The match under construction: by depth its position, place in the stack, and what is still to be tried."""

    position: Ints
    place: Ints
    choice: Ints
    next: Ints


@inner
def is_forbidden(stacks: Stacks, walk: Walk, depth: int) -> bool:
    """Check a whole match for absences."""
    for at in range(depth):
        p, before = walk.position[at], walk.position[at + 1]
        if p == before + 1:
            first = stacks.time[stacks.at[before] + walk.place[at + 1]]
            if stacks.absent[stacks.at[p] + walk.place[at]] > first:
                return True
    return False


@inner
def construct_matches(stacks: Stacks, walk: Walk, place: int) -> float:
    """Construct all matches that the event at a place of the last stack completes, and return how many."""
    found = 0.0
    depth = 0
    walk.position[0] = len(stacks.head) - 1
    walk.place[0] = place
    walk.choice[0] = -1
    while depth >= 0:
        p = walk.position[depth]
        own = stacks.at[p] + walk.place[depth]
        if walk.choice[depth] < 0:
            if p == 0 and not is_forbidden(stacks, walk, depth):
                stacks.started[walk.place[depth]] += 1.0
                found += 1.0
            walk.choice[depth] = 0
            walk.next[depth] = stacks.pointer[own * stacks.widest]
        k = walk.choice[depth]
        if k == stacks.before_at[p + 1] - stacks.before_at[p]:
            depth -= 1
            continue
        before = stacks.before[stacks.before_at[p] + k]
        place = walk.next[depth]
        if place < stacks.head[before]:
            walk.choice[depth] = k + 1
            if k + 1 < stacks.before_at[p + 1] - stacks.before_at[p]:
                walk.next[depth] = stacks.pointer[own * stacks.widest + k + 1]
            continue
        walk.next[depth] = place - 1
        depth += 1
        walk.position[depth] = before
        walk.place[depth] = place
        walk.choice[depth] = -1
    return found


@kernel
def count_matches(
    stacks: Stacks,
    walk: Walk,
    query: int,
    window: tuple[int, int, int],
    offsets: Ints,
    time: Ints,
    klass: SmallInts,
    group_of_key: Ints,
    by_window: Floats,
    moments: Moments,
    reported: int,
) -> int:
    """Count the matches of one query by constructing them; return how many moments have been reported so far."""
    within, slide, first_window = window
    size = len(stacks.head)
    for key in range(len(offsets) - 1):
        stacks.head[:] = 0
        stacks.settled[:] = 0
        stacks.tail[:] = 0
        stacks.latest[:] = -(2**62)
        stacks.live[:6] = 0
        at, end = offsets[key], offsets[key + 1]
        while at < end:
            now = time[at]
            bound = ((now - within) // slide + 1) * slide if slide else now - within + 1
            for p in range(size):
                while stacks.head[p] < stacks.settled[p] and stacks.time[stacks.at[p] + stacks.head[p]] < bound:
                    if p == 0:
                        stacks.live[2] -= int(stacks.started[stacks.head[p]])
                    stacks.live[0] -= 1
                    stacks.live[1] -= stacks.before_at[p + 1] - stacks.before_at[p]
                    stacks.head[p] += 1
            then = at
            found = 0.0
            while then < end and time[then] == now:
                for p in range(size):
                    if stacks.takes[p, klass[then]]:
                        place = stacks.tail[p]
                        own = stacks.at[p] + place
                        stacks.tail[p] = place + 1
                        stacks.time[own] = now
                        stacks.absent[own] = stacks.latest[p]
                        if p == 0:
                            stacks.started[place] = 0.0
                        for k in range(stacks.before_at[p], stacks.before_at[p + 1]):
                            pointer = stacks.settled[stacks.before[k]] - 1
                            stacks.pointer[own * stacks.widest + k - stacks.before_at[p]] = pointer
                        stacks.live[0] += 1
                        stacks.live[1] += stacks.before_at[p + 1] - stacks.before_at[p]
                        if p == size - 1:
                            found += construct_matches(stacks, walk, place)
                then += 1
            for event in range(at, then):
                for p in range(size):
                    if stacks.forbids[p, klass[event]]:
                        stacks.latest[p] = now
            for p in range(size):
                stacks.settled[p] = stacks.tail[p]
            stacks.live[2] += int(found)
            for kind in range(3):
                stacks.live[3 + kind] = max(stacks.live[3 + kind], stacks.live[kind])
            if found > 0:
                total = 0.0
                for place in range(stacks.head[0], stacks.tail[0]):
                    total += stacks.started[place]
                    if slide:
                        begun = stacks.time[stacks.at[0] + place]
                        for k in range(bound // slide, begun // slide + 1):
                            by_window[group_of_key[key], query, k - first_window] += stacks.started[place]
                        stacks.started[place] = 0.0
                if not slide:
                    moments.query[reported] = query
                    moments.key[reported] = key
                    moments.time[reported] = now
                    moments.value[reported] = total
                    reported += 1
            at = then
        for kind in range(3):
            stacks.live[6 + kind] += stacks.live[3 + kind]
    return reported


class TwoStep:
    """The executor of a workload, each query by itself."""

    def __init__(self, prepared: PreparedEvents) -> None:
        self.prepared = prepared
        self.stacks = [make_stacks(prepared, number) for number in range(len(prepared.lines))]
        longest = max((len(stacks.time) for stacks in self.stacks), default=0) + 1
        self.walk = Walk(*(np.zeros(longest, np.int64) for _ in range(4)))
        self._by_window, self._moments = prepared.make_results()

    def run(self) -> Counts:
        """Count the matches of all queries."""
        prepared = self.prepared
        self._by_window[:] = 0.0
        window = (prepared.within, prepared.slide, prepared.first_window)
        events = (prepared.offsets, prepared.time, prepared.klass, prepared.group_of_key)
        found = 0
        objects = np.zeros(3, np.int64)
        for number, stacks in enumerate(self.stacks):
            stacks.live[:] = 0
            found = count_matches(stacks, self.walk, number, window, *events, self._by_window, self._moments, found)
            objects += stacks.live[6:]
        held = dict(zip(("events in stacks", "pointers", "matches"), map(int, objects), strict=True))
        return Counts.collect(prepared, self._by_window, self._moments, found, held)


def make_stacks(prepared: PreparedEvents, number: int) -> Stacks:
    """Return the stacks of a query, large enough for any key."""
    line = prepared.lines[number]
    size = len(line.symbols)
    before = [
        [*([p - 1] if p else []), *(source for source, target in line.back_edges if target == p)] for p in range(size)
    ]
    before_at, flat = pack_lists(before)
    widest = max(1, *map(len, before))
    at, _ = pack_lists([[0] * prepared.most_per_key(symbol) for symbol in line.symbols])
    takes = np.array([[symbol in found for found in prepared.classes] for symbol in line.symbols], np.bool_)
    forbids = np.array([[bool(gap & found) for found in prepared.classes] for gap in line.gaps], np.bool_)
    total = int(at[-1])
    head, settled, tail = (np.zeros(size, np.int64) for _ in range(3))
    return Stacks(
        at, head, settled, tail, takes, forbids, before_at, flat, widest, np.zeros(total, np.int64),
        np.zeros(total, np.int64), np.zeros(total * widest + 1, np.int64), np.zeros(size, np.int64), np.zeros(at[1]),
        np.zeros(9, np.int64),
    )  # fmt: skip
