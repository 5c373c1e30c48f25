"""Match SQL row patterns: backtracking in the standard's order of preference over the rows of each partition.

A pattern is a program of splits and rows to take. A split has two ways on, of which the first is preferred; where it
fails the second is taken up again. Conditions on a row and its neighbours are masks that were computed before; those
that speak of the match so far are evaluated as rows are taken. From a split from which only masks are tested, failure
does not depend on the match so far: it is remembered, so that each such split is tried once for each row.
"""

from __future__ import annotations

from typing import NamedTuple

from motet.kernels.arrays import Flags, Floats, Ints, SmallInts
from motet.kernels.jit import inner, kernel
from motet.kernels.row_conditions import (
    BLOCK,
    COUNT_ROWS,
    COUNT_VALUES,
    KNOWN,
    NULL,
    BlockStack,
    Bytes,
    Code,
    MatchPlace,
    RowValues,
    Tracker,
    evaluate_block,
    find_row,
    start_tracking,
    track_row,
)

# Instructions of a pattern.
TAKE = 0  # variable, next
SPLIT = 1  # preferred, other
AT_START = 2  # -, next
AT_END = 3  # -, next
FOUND = 4
NEVER = 5

# After a match.
SKIP_PAST_LAST = 0
SKIP_TO_NEXT = 1
SKIP_TO_FIRST_OF = 2
SKIP_TO_LAST_OF = 3

# Why a run stopped.
DONE = 0
OUTPUT_FULL = 1
STACK_FULL = 2
STEP_LIMIT = 3
FAILED_OVERFLOW = 4
FAILED_DIVISION = 5
SKIP_TO_ABSENT = 6
SKIP_TO_SAME = 7

# What an output row is of.
MATCHED = 0
EMPTY = 1
UNMATCHED = 2

# Places of the state that a run goes on from.
PARTITION = 0
NEXT_ROW = 1
NUMBER = 2
STEPS = 3
STATUS = 4
WRITTEN = 5
MATCHED_TO = 6


class PatternCode(NamedTuple):
    """A pattern as code. `memo` numbers the splits that remember failures (-1: none); `excluded` marks rows that are
    left out of the output. `mask` and `condition` are the tests of each variable (-1: none).
    """

    words: SmallInts
    memo: SmallInts
    excluded: Flags
    mask: SmallInts
    condition: SmallInts


class RowSearch(NamedTuple):
    """What a search reads: the pattern, conditions as masks and as code, the rows by partition, and how aggregates of
    the match so far are carried along.
    """

    pattern: PatternCode
    masks: Bytes
    code: Code
    values: RowValues
    tracker: Tracker
    offsets: Ints


class Leaves(NamedTuple):
    """What measures read: `rows` by target, `labels` by target, `totals` by aggregate; whether of the whole match
    (final) rather than of the rows up to the output row.
    """

    rows: Ints
    rows_final: Flags
    labels: Ints
    labels_final: Flags
    totals_final: Flags


class Output(NamedTuple):
    """Output rows: the row, its match number and kind, and for each leaf its row (-1: none), label or total."""

    row: Ints
    number: Ints
    kind: Bytes
    rows: Ints
    labels: SmallInts
    ints: Ints
    floats: Floats
    counts: Ints
    state: Bytes


class Scratch(NamedTuple):
    """Room for a search: ways to take up again, splits that were passed, failures seen, variables of rows."""

    ways: Ints
    trail: Ints
    failed: Flags
    labels: SmallInts
    excluded: Flags


class OutputRules(NamedTuple):
    """What is written for a match, and where the search goes on."""

    all_rows: bool
    show_empty: bool
    show_unmatched: bool
    skip: int
    skip_to: Flags
    step_limit: int


@kernel
def compute_masks(
    code: Code,
    conditions: SmallInts,
    values: RowValues,
    tracker: Tracker,
    offsets: Ints,
    stack: BlockStack,
    labels: SmallInts,
    masks: Bytes,
) -> None:
    """Evaluate conditions that speak of a row and its neighbours: 1 where one is true, above 1 where it fails.

    O(rows * instructions).
    """
    for k in range(conditions.size):
        for partition in range(offsets.size - 1):
            low, high = offsets[partition], offsets[partition + 1]
            place = MatchPlace(low, high, low, 0)
            row = low
            while row < high:
                size = min(BLOCK, high - row)
                evaluate_block(code, conditions[k], values, tracker, labels, place, row, size, stack)
                for i in range(size):
                    state = stack.state[0, i]
                    masks[k, row + i] = stack.ints[0, i] if state == KNOWN else 0 if state == NULL else state
                row += size


@kernel
def match_partitions(
    search: RowSearch,
    rules: OutputRules,
    leaves: Leaves,
    measured: Tracker,
    output: Output,
    scratch: Scratch,
    stack: BlockStack,
    state: Ints,
) -> None:
    """Match all partitions from where `state` says, until the output or the stack is full or the run fails.

    O(rows * instructions) where failures are remembered and matches do not overlap; else up to exponential in the rows
    of a partition, cut off by the step limit.
    """
    pattern, masks, code, values = search.pattern, search.masks, search.code, search.values
    tracker, offsets = search.tracker, search.offsets
    capacity = output.row.size
    while state[PARTITION] < offsets.size - 1:
        low, high = offsets[state[PARTITION]], offsets[state[PARTITION] + 1]
        row = state[NEXT_ROW]
        if row < low:
            row = low
            state[NUMBER] = 0
            state[STEPS] = 0
            state[MATCHED_TO] = low
            for slot in range(scratch.failed.shape[0]):
                for place_in_partition in range(high - low + 1):
                    scratch.failed[slot, place_in_partition] = False
        while row < high:
            state[NEXT_ROW] = row
            if capacity - state[WRITTEN] < (high - row if rules.all_rows else 1):
                state[STATUS] = OUTPUT_FULL
                return
            place = MatchPlace(low, high, row, state[NUMBER] + 1)
            end = _find_match(pattern, masks, code, values, tracker, place, rules.step_limit, scratch, stack, state)
            if state[STATUS] != DONE:
                return
            if end < 0:
                if rules.show_unmatched and row >= state[MATCHED_TO]:
                    _write_blank(output, leaves, measured, row, 0, UNMATCHED, state)
                row += 1
                continue
            state[NUMBER] += 1
            if end == row:
                if rules.show_empty:
                    _write_blank(output, leaves, measured, row, state[NUMBER], EMPTY, state)
                row += 1
                state[MATCHED_TO] = max(state[MATCHED_TO], row)
                continue
            _write_match(output, leaves, measured, values, place, end, rules.all_rows, scratch, state)
            state[MATCHED_TO] = max(state[MATCHED_TO], end)
            following = _find_next_row(rules, scratch, place, end)
            if following < 0:
                state[STATUS] = SKIP_TO_ABSENT
                return
            if following <= row:
                state[STATUS] = SKIP_TO_SAME
                return
            row = following
        state[PARTITION] += 1
        state[NEXT_ROW] = -1
    state[STATUS] = DONE


@inner
def _find_match(
    pattern: PatternCode,
    masks: Bytes,
    code: Code,
    values: RowValues,
    tracker: Tracker,
    place: MatchPlace,
    step_limit: int,
    scratch: Scratch,
    stack: BlockStack,
    state: Ints,
) -> int:
    """Return where the preferred match that begins at a row ends, or -1."""
    low, high = place.low, place.high
    row = place.start
    tracked = tracker.member.shape[0] + tracker.aggregates.shape[0] > 0
    evaluated = code.begin.size > 1
    if tracked:
        start_tracking(tracker, row - low)
    at, depth, passed = 0, 0, 0
    steps = state[STEPS]
    room = scratch.ways.shape[0]
    words = pattern.words
    while True:
        steps += 1
        if steps > step_limit:
            state[STATUS] = STEP_LIMIT
            return -1
        op = words[at, 0]
        failed = False
        if op == TAKE:
            variable = words[at, 1]
            if row >= high:
                failed = True
            else:
                mask = pattern.mask[variable]
                if mask >= 0:
                    holds = masks[mask, row]
                    if holds > 1:
                        state[STATUS] = FAILED_OVERFLOW + holds - 2
                        return -1
                    failed = holds == 0
                if not failed:
                    scratch.labels[row - low] = variable
                    scratch.excluded[row - low] = pattern.excluded[at]
                    if tracked:
                        track_row(tracker, values, low, row, variable)
                    if evaluated and pattern.condition[variable] >= 0:
                        condition = pattern.condition[variable]
                        evaluate_block(code, condition, values, tracker, scratch.labels, place, row, 1, stack)
                        known = stack.state[0, 0]
                        if known > NULL:
                            state[STATUS] = FAILED_OVERFLOW + known - 2
                            return -1
                        failed = known == NULL or stack.ints[0, 0] == 0
                    if not failed:
                        row += 1
                        at = words[at, 2]
        elif op == SPLIT:
            slot = pattern.memo[at]
            if slot >= 0 and scratch.failed[slot, row - low]:
                failed = True
            else:
                if depth == room or passed == room:
                    _forget(scratch, passed)
                    state[STATUS] = STACK_FULL
                    return -1
                scratch.ways[depth, 0] = words[at, 2]
                scratch.ways[depth, 1] = row
                if slot >= 0:
                    # Taken for a failure from now on: whoever comes here again does so because it failed.
                    scratch.failed[slot, row - low] = True
                    scratch.trail[passed, 0] = slot
                    scratch.trail[passed, 1] = row - low
                    passed += 1
                scratch.ways[depth, 2] = passed
                depth += 1
                at = words[at, 1]
        elif op == FOUND:
            _forget(scratch, passed)
            state[STEPS] = steps
            state[STATUS] = DONE
            return row
        elif op == AT_START:
            failed = row != low
            at = words[at, 2]
        elif op == AT_END:
            failed = row != high
            at = words[at, 2]
        else:
            failed = True
        if failed:
            if depth == 0:
                state[STEPS] = steps
                state[STATUS] = DONE
                return -1
            depth -= 1
            at, row, passed = scratch.ways[depth, 0], scratch.ways[depth, 1], scratch.ways[depth, 2]


@inner
def _forget(scratch: Scratch, passed: int) -> None:
    """Take back that the splits on the way to here have failed."""
    for i in range(passed):
        scratch.failed[scratch.trail[i, 0], scratch.trail[i, 1]] = False


@inner
def _find_next_row(rules: OutputRules, scratch: Scratch, place: MatchPlace, end: int) -> int:
    """Return the row from which to look for the next match, or -1 where no row has the variable. O(match)."""
    if rules.skip == SKIP_PAST_LAST:
        return end
    if rules.skip == SKIP_TO_NEXT:
        return place.start + 1
    found = -1
    for row in range(place.start, end):
        if rules.skip_to[scratch.labels[row - place.low]]:
            found = row
            if rules.skip == SKIP_TO_FIRST_OF:
                break
    return found


@inner
def _write_match(
    output: Output,
    leaves: Leaves,
    measured: Tracker,
    values: RowValues,
    place: MatchPlace,
    end: int,
    all_rows: bool,
    scratch: Scratch,
    state: Ints,
) -> None:
    """Write the rows of a match. O(match * (sets + leaves))."""
    low = place.low
    start_tracking(measured, place.start - low)
    for row in range(place.start, end):
        track_row(measured, values, low, row, scratch.labels[row - low])
    first = place.start if all_rows else end - 1
    for row in range(first, end):
        if all_rows and scratch.excluded[row - low]:
            continue
        at = state[WRITTEN]
        state[WRITTEN] = at + 1
        output.row[at] = row if all_rows else place.start
        output.number[at] = place.number
        output.kind[at] = MATCHED
        for leaf in range(leaves.rows.size):
            seen = end - 1 if leaves.rows_final[leaf] else row
            output.rows[leaf, at] = find_row(measured, leaves.rows[leaf], low, place.high, place.start, seen)
        for leaf in range(leaves.labels.size):
            seen = end - 1 if leaves.labels_final[leaf] else row
            found = find_row(measured, leaves.labels[leaf], low, place.high, place.start, seen)
            output.labels[leaf, at] = scratch.labels[found - low] if place.start <= found < end else -1
        for k in range(leaves.totals_final.size):
            seen = (end - 1 if leaves.totals_final[k] else row) - low + 1
            what, count = measured.aggregates[k, 0], measured.total_counts[k, seen]
            counts = what == COUNT_ROWS or what == COUNT_VALUES
            output.ints[k, at] = count if counts else measured.total_ints[k, seen]
            output.floats[k, at] = measured.total_floats[k, seen]
            output.state[k, at] = NULL if count == 0 and not counts else measured.total_state[k, seen]
            output.counts[k, at] = count


@inner
def _write_blank(
    output: Output, leaves: Leaves, measured: Tracker, row: int, number: int, kind: int, state: Ints
) -> None:
    """Write a row of no match, or of an empty one, of which counts are 0 and all else is null. O(leaves)."""
    at = state[WRITTEN]
    state[WRITTEN] = at + 1
    output.row[at] = row
    output.number[at] = number
    output.kind[at] = kind
    for leaf in range(leaves.rows.size):
        output.rows[leaf, at] = -1
    for leaf in range(leaves.labels.size):
        output.labels[leaf, at] = -1
    for k in range(leaves.totals_final.size):
        what = measured.aggregates[k, 0]
        output.ints[k, at] = 0
        output.counts[k, at] = 0
        is_count = kind == EMPTY and (what == COUNT_ROWS or what == COUNT_VALUES)
        output.state[k, at] = KNOWN if is_count else NULL
