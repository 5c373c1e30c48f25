"""Joins instances of two nodes: order, windows, absences and conditions, all read from tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.expressions import AT_LEAST, AT_MOST, EQUAL, LESS, MORE, EventScope, Stack, Values
from motet.kernels.instances import (
    MIN_TIME,
    Absences,
    Bundles,
    Codes,
    Instances,
    Ints,
    Tests,
    has_event_between,
    have_common_event,
    passes_test,
    upper_bound,
)
from motet.kernels.jit import inner, kernel

# How an item of the outer side stands to one of the inner.
FREE = 0
BEFORE = 1  # the outer item ends before the inner one begins
AFTER = 2
APART = 3  # in any order, but with no event in common

MAX_TIME = np.int64(2**62)


class JoinTable(NamedTuple):
    """What a join must see to. Slots count the items of the outer side, then those of the inner.

    `relation[i, j]`: how outer item i stands to inner item j; a row of `verify` is an i, a j and their relation where
    the search by time does not settle it. `before_all[i]`: whether all inner items come before outer item i.
    `place[s]`: the output column of slot s. `gap[g, s]`: 1 where guard g's gap comes after slot s, 2 where before it;
    `gap_absence[g]`: what must not occur in it. A row of `compare` is a comparison, then the slot and row of values of
    the outer side and those of the inner.
    """

    relation: NDArray[np.int8]
    verify: Codes
    before_all: NDArray[np.bool_]
    place: Codes
    gap: NDArray[np.int8]
    gap_absence: Codes
    compare: NDArray[np.int32]


class JoinOutput(NamedTuple):
    """Where results go, and with which key."""

    columns: NDArray[np.int64]
    first: Ints
    last: Ints
    end: Ints
    key: Ints


def allocate_join_output(items: int, rows: int) -> JoinOutput:
    """Room for so many instances of so many items."""
    return JoinOutput(np.empty((items, rows), np.int64), *(np.empty(rows, np.int64) for _ in range(4)))


@kernel
def join(
    outer: Instances,
    inner: Instances,
    stretch: Ints,
    table: JoinTable,
    tests: Tests,
    values: Values,
    bundles: Bundles,
    absences: Absences,
    oldest: Ints,
    scope: EventScope,
    stack: Stack,
    room: JoinOutput,
    since: int,
    start: int,
    within: int,
) -> tuple[int, int, int]:
    """Fill the room with joined instances from outer row `start` on (its inner rows from `within` on, -1 for all).

    The inner rows that outer row r may be joined with lie in the stretch of its key, or of its key and a value that
    must be equal: that from `inner.offsets[stretch[r]]` on; in none where that is -1. `oldest` has for each event the
    earliest first time of what may end with it: windows of any kind come down to that, and it never falls as time goes
    on. Returns how many there are, and where to go on. For each outer row only those inner rows are looked at that its
    window and order allow: O(log n) to find them, then O(1) each but for code. What ends before `since` is left out.
    """
    # Fields are taken out of their tuples here: inside the loops that would count references.
    found, most = 0, room.first.size
    outer_columns, outer_first, outer_last = outer.columns, outer.first, outer.last
    outer_end, outer_offsets = outer.end, outer.offsets
    inner_columns, inner_first, inner_last = inner.columns, inner.first, inner.last
    inner_end, inner_offsets = inner.end, inner.offsets
    ref_first, ref_last, floats = bundles.first, bundles.last, values.floats
    relation, verify, before_all, compare = table.relation, table.verify, table.before_all, table.compare
    out_columns, out_first, out_last, out_end, out_key = room.columns, room.first, room.last, room.end, room.key
    place, current = table.place, scope.current
    ours, theirs, rows = outer_columns.shape[0], inner_columns.shape[0], outer_first.size
    mine = np.empty(compare.shape[0], np.float64)
    more = tests.table.shape[0] > 0 or table.gap.shape[0] > 0
    key = 0
    for row in range(start, rows):
        while outer_offsets[key + 1] <= row:
            key += 1
        limit = oldest[outer_end[row]]
        if outer_first[row] < limit or stretch[row] < 0:
            continue
        low, high = limit, MAX_TIME
        if outer_last[row] < since:
            low = max(low, since)
        for i in range(ours):
            current[i] = outer_columns[i, row]
            if before_all[i]:
                high = min(high, ref_first[current[i]])
            for j in range(theirs):
                if relation[i, j] == BEFORE:
                    low = max(low, ref_last[current[i]] + 1)
        for c in range(compare.shape[0]):
            mine[c] = floats[compare[c, 2], current[compare[c, 1]]]
        end = inner_offsets[stretch[row] + 1]
        at = upper_bound(inner_last, inner_offsets[stretch[row]], end, low - 1)
        if row == start and within >= 0:
            at = within
        while at < end and inner_last[at] < high:
            allowed = oldest[inner_end[at]]
            if allowed > outer_first[row]:
                break
            fits = inner_first[at] >= limit and inner_first[at] >= allowed
            c = 0
            while fits and c < compare.shape[0]:
                x, y = mine[c], floats[compare[c, 4], inner_columns[compare[c, 3], at]]
                op = compare[c, 0]
                if op == LESS:
                    fits = x < y
                elif op == MORE:
                    fits = x > y
                elif op == AT_MOST:
                    fits = x <= y
                elif op == AT_LEAST:
                    fits = x >= y
                elif op == EQUAL:
                    fits = x == y
                else:
                    fits = x < y or x > y  # a null is different from nothing
                c += 1
            v = 0
            while fits and v < verify.shape[0]:
                one, other = current[verify[v, 0]], inner_columns[verify[v, 1], at]
                if verify[v, 2] == BEFORE:
                    fits = ref_last[one] < ref_first[other]
                elif verify[v, 2] == AFTER:
                    fits = ref_last[other] < ref_first[one]
                else:
                    fits = not have_common_event(bundles, one, other)
                v += 1
            if fits and more:
                for j in range(theirs):
                    current[ours + j] = inner_columns[j, at]
                fits = passes_tests_and_gaps(key, table, tests, values, bundles, absences, scope, stack)
            if fits:
                if found == most:
                    return found, row, at
                for i in range(ours):
                    out_columns[place[i], found] = current[i]
                for j in range(theirs):
                    out_columns[place[ours + j], found] = inner_columns[j, at]
                out_first[found] = min(outer_first[row], inner_first[at])
                outer_is_last = outer_last[row] >= inner_last[at]
                out_last[found] = outer_last[row] if outer_is_last else inner_last[at]
                out_end[found] = outer_end[row] if outer_is_last else inner_end[at]
                out_key[found] = key
                found += 1
            at += 1
    return found, rows, -1


@inner
def passes_tests_and_gaps(
    key: int,
    table: JoinTable,
    tests: Tests,
    values: Values,
    bundles: Bundles,
    absences: Absences,
    scope: EventScope,
    stack: Stack,
) -> bool:
    """Whether code and absences allow the combination that is in scope."""
    for number in range(tests.table.shape[0]):
        if not passes_test(tests, number, values, scope, stack):
            return False
    for g in range(table.gap.shape[0]):
        since, until = MIN_TIME, MAX_TIME
        for slot in range(table.gap.shape[1]):
            if table.gap[g, slot] == 1:
                since = max(since, bundles.last[scope.current[slot]])
            elif table.gap[g, slot] == 2:
                until = min(until, bundles.first[scope.current[slot]])
        if has_event_between(absences, table.gap_absence[g], key, since, until):
            return False
    return True


@kernel
def flatten_bindings(
    columns: NDArray[np.int64], places: Codes, positions: Codes, bundles: Bundles
) -> tuple[Ints, Codes, Ints]:
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
