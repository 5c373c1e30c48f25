"""Joins instances of two nodes: order, windows, absences and conditions, all read from tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.instances import (
    LONG_AGO,
    Absences,
    Bundles,
    Codes,
    Instances,
    Ints,
    Tests,
    after,
    occurs,
    passes,
    share_event,
)
from motet.kernels.jit import kernel
from motet.kernels.stack import Scope, Stack, Values

# How an item of the outer side stands to one of the inner.
FREE = 0
BEFORE = 1  # the outer item ends before the inner one begins
AFTER = 2
APART = 3  # in any order, but with no event in common

FOREVER = np.int64(2**62)


class JoinTable(NamedTuple):
    """What a join must see to. Slots count the items of the outer side, then those of the inner.

    `relation[i, j]`: how outer item i stands to inner item j. `place[s]`: the output column of slot s. `gap[g, s]`: 1
    where guard g's gap comes after slot s, 2 where before it; `gap_absence[g]`: what must not occur in it.
    """

    relation: NDArray[np.int8]
    place: Codes
    gap: NDArray[np.int8]
    gap_absence: Codes


class Room(NamedTuple):
    """Where results go, and with which key."""

    columns: NDArray[np.int64]
    first: Ints
    last: Ints
    end: Ints
    key: Ints


def room_for(items: int, rows: int) -> Room:
    """Room for so many instances of so many items."""
    return Room(np.empty((items, rows), np.int64), *(np.empty(rows, np.int64) for _ in range(4)))


@kernel
def join(
    outer: Instances,
    inner: Instances,
    table: JoinTable,
    tests: Tests,
    values: Values,
    bundles: Bundles,
    absences: Absences,
    oldest: Ints,
    scope: Scope,
    stack: Stack,
    room: Room,
    start: int,
    within: int,
) -> tuple[int, int, int]:
    """Fill the room with joined instances from outer row `start` on (its inner rows from `within` on, -1 for all).

    `oldest` has for each event the earliest first time of what may end with it: windows of any kind come down to that,
    and it never falls as time goes on. Returns how many there are, and where to go on. For each outer row only those
    inner rows are looked at that its window and order allow: O(log n) to find them, then O(1) each but for code.
    """
    found = 0
    most = room.first.size
    ours, theirs = outer.columns.shape[0], inner.columns.shape[0]
    key = 0
    for row in range(start, outer.first.size):
        while outer.offsets[key + 1] <= row:
            key += 1
        limit = oldest[outer.end[row]]
        if outer.first[row] < limit:
            continue
        low, high = limit, FOREVER
        for i in range(ours):
            scope.current[i] = outer.columns[i, row]
            for j in range(theirs):
                if table.relation[i, j] == BEFORE:
                    low = max(low, bundles.last[outer.columns[i, row]] + 1)
                elif table.relation[i, j] == AFTER:
                    high = min(high, bundles.first[outer.columns[i, row]])
        end = inner.offsets[key + 1]
        at = after(inner.last, inner.offsets[key], end, low - 1)
        if row == start and within >= 0:
            at = within
        while at < end and inner.last[at] < high and oldest[inner.end[at]] <= outer.first[row]:
            if inner.first[at] >= max(limit, oldest[inner.end[at]]) and _fits(
                outer, inner, row, at, key, table, tests, values, bundles, absences, scope, stack
            ):
                if found == most:
                    return found, row, at
                _put(outer, inner, row, at, key, table, room, found)
                found += 1
            at += 1
    return found, outer.first.size, -1


@kernel
def _fits(
    outer: Instances,
    inner: Instances,
    row: int,
    at: int,
    key: int,
    table: JoinTable,
    tests: Tests,
    values: Values,
    bundles: Bundles,
    absences: Absences,
    scope: Scope,
    stack: Stack,
) -> bool:
    ours, theirs = outer.columns.shape[0], inner.columns.shape[0]
    for j in range(theirs):
        theirs_now = inner.columns[j, at]
        scope.current[ours + j] = theirs_now
        for i in range(ours):
            relation = table.relation[i, j]
            if relation == FREE:
                continue
            ours_now = scope.current[i]
            if relation == BEFORE:
                if bundles.last[ours_now] >= bundles.first[theirs_now]:
                    return False
            elif relation == AFTER:
                if bundles.last[theirs_now] >= bundles.first[ours_now]:
                    return False
            elif share_event(bundles, ours_now, theirs_now):
                return False
    for number in range(tests.table.shape[0]):
        if not passes(tests, number, values, scope, stack):
            return False
    for g in range(table.gap.shape[0]):
        since, until = LONG_AGO, FOREVER
        for slot in range(ours + theirs):
            if table.gap[g, slot] == 1:
                since = max(since, bundles.last[scope.current[slot]])
            elif table.gap[g, slot] == 2:
                until = min(until, bundles.first[scope.current[slot]])
        if occurs(absences, table.gap_absence[g], key, since, until):
            return False
    return True


@kernel
def _put(
    outer: Instances, inner: Instances, row: int, at: int, key: int, table: JoinTable, room: Room, to: int
) -> None:
    ours = outer.columns.shape[0]
    for i in range(ours):
        room.columns[table.place[i], to] = outer.columns[i, row]
    for j in range(inner.columns.shape[0]):
        room.columns[table.place[ours + j], to] = inner.columns[j, at]
    room.first[to] = min(outer.first[row], inner.first[at])
    room.last[to] = max(outer.last[row], inner.last[at])
    room.end[to] = outer.end[row] if outer.last[row] >= inner.last[at] else inner.end[at]
    room.key[to] = key


@kernel
def flatten(columns: NDArray[np.int64], places: Codes, positions: Codes, bundles: Bundles) -> tuple[Ints, Codes, Ints]:
    """What each instance binds: where its positions and events begin, and those. O(output).

    The positions of item i are those from `places[i]` on: one, or those that its bundles count by.
    """
    items, rows = columns.shape
    begin = np.zeros(rows + 1, np.int64)
    for row in range(rows):
        size = 0
        for item in range(items):
            b = columns[item, row] - bundles.events
            size += 1 if b < 0 else bundles.begin[b + 1] - bundles.begin[b]
        begin[row + 1] = begin[row] + size
    position = np.empty(begin[rows], np.int32)
    event = np.empty(begin[rows], np.int64)
    for row in range(rows):
        to = begin[row]
        for item in range(items):
            b = columns[item, row] - bundles.events
            if b < 0:
                position[to] = positions[places[item]]
                event[to] = columns[item, row]
                to += 1
            else:
                for at in range(bundles.begin[b], bundles.begin[b + 1]):
                    position[to] = positions[places[item] + bundles.position[at]]
                    event[to] = bundles.event[at]
                    to += 1
    return begin, position, event
