"""Evaluate conditions on rows of a partition, and on the match so far, by a stack machine over blocks of rows.

An instruction is four whole numbers: what to do, and up to three operands. It works on a block of rows at a time, so
that reading it costs little where a condition speaks of a row and its neighbours alone; a condition that speaks of the
match so far is evaluated for blocks of one row. Values are whole or floating; a truth value is a whole 0 or 1, a text
its place among all texts in order, a time its microseconds, a decimal its digits. Comparisons are SQL's: null is
unknown, NaN is equal to itself and greater than any number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.arrays import Flags, Floats, Ints, SmallInts
from motet.kernels.expressions import evaluate_comparison
from motet.kernels.jit import inner

Bytes = NDArray[np.uint8]

BLOCK = 512
DEPTH = 48

# What to do.
LOAD_INT = 0  # target, whole column
LOAD_FLOAT = 1  # target, floating column
LOAD_LABEL = 2  # target: the place of its variable's name among all texts
LOAD_NUMBER = 3  # the match number
LOAD_INT_TOTAL = 4  # aggregate
LOAD_FLOAT_TOTAL = 5  # aggregate
LOAD_COUNT = 6  # aggregate
LOAD_MEAN = 7  # aggregate of whole numbers, 10 to this power divides it
LOAD_FLOAT_MEAN = 8  # aggregate
CONST_INT = 9  # place among the whole constants
CONST_FLOAT = 10
CONST_NULL = 11
TO_FLOAT = 12  # 10 to this power divides it
SCALE = 13  # 10 to this power multiplies it
ADD_INT = 14
SUB_INT = 15
MUL_INT = 16
MOD_INT = 17
ADD_FLOAT = 18
SUB_FLOAT = 19
MUL_FLOAT = 20
DIV_FLOAT = 21
NEG_INT = 22
NEG_FLOAT = 23
ABS_INT = 24
ABS_FLOAT = 25
COMPARE_INT = 26  # comparison
COMPARE_FLOAT = 27  # comparison
AND = 28
OR = 29
NOT = 30
IS_NULL = 31
COALESCE = 32
CHOOSE = 33  # of a condition and two values: the first where the condition is true, else the second

# What a value is.
KNOWN = 0
NULL = 1
OVERFLOW = 2
DIVIDED_BY_ZERO = 3

# Which row a target is.
CURRENT = 0
LAST = 1
FIRST = 2
ALL_ROWS = -1  # the set of every variable

# Aggregates that are carried from row to row.
COUNT_ROWS = 0
COUNT_VALUES = 1
SUM_INT = 2
SUM_FLOAT = 3
MIN_INT = 4
MAX_INT = 5
MIN_FLOAT = 6
MAX_FLOAT = 7

_POWERS = np.array([10**n for n in range(19)], np.int64)
_EDGE = 9.2e18  # a product below it fits into 64 bits, whatever the rounding


class Code(NamedTuple):
    """Conditions one after another: condition c is instructions `begin[c]` to `begin[c + 1]`."""

    words: SmallInts
    begin: Ints
    ints: Ints
    floats: Floats


class RowValues(NamedTuple):
    """What conditions read of each row, by column; the last row stands for one that is not there. `label_codes` has the
    place of each variable's name among all texts.
    """

    ints: Ints
    int_state: Bytes
    floats: Floats
    float_state: Bytes
    label_codes: Ints


class Tracker(NamedTuple):
    """The rows of each set of variables in the match so far, and aggregates of them, at each place of a partition.

    Place p holds what is known after p rows of the partition, so a step back to an earlier place costs nothing.

    `member[s, v]`: whether variable v is in set s. `count[s, p]`: rows of the set; `rows[s, c]`: the c-th of them.
    `targets[t]`: which row of which set, with which offset among them, and how far behind or before it.
    `aggregates[k]`: what, of which set, of which column.
    """

    member: Flags
    count: Ints
    rows: Ints
    targets: Ints
    aggregates: Ints
    total_ints: Ints
    total_floats: Floats
    total_counts: Ints
    total_state: Bytes


class BlockStack(NamedTuple):
    """Room for blocks of values on their way."""

    ints: Ints
    floats: Floats
    state: Bytes


def new_stack() -> BlockStack:
    """Create a stack deep enough for any condition that is compiled."""
    shape = (DEPTH, BLOCK)
    return BlockStack(np.zeros(shape, np.int64), np.zeros(shape, np.float64), np.zeros(shape, np.uint8))


def new_tracker(member: Any, targets: Any, aggregates: Any, places: int) -> Tracker:
    """Create a tracker of so many places."""
    sets, totals = len(member), len(aggregates)
    return Tracker(
        member=np.ascontiguousarray(member, np.bool_),
        count=np.zeros((sets, places + 1), np.int64),
        rows=np.zeros((sets, places + 1), np.int64),
        targets=np.ascontiguousarray(targets, np.int64).reshape(-1, 4),
        aggregates=np.ascontiguousarray(aggregates, np.int64).reshape(-1, 3),
        total_ints=np.zeros((totals, places + 1), np.int64),
        total_floats=np.zeros((totals, places + 1), np.float64),
        total_counts=np.zeros((totals, places + 1), np.int64),
        total_state=np.zeros((totals, places + 1), np.uint8),
    )


@inner
def start_tracking(tracker: Tracker, place: int) -> None:
    """Begin a match at a place: nothing is in it yet. O(sets + aggregates)."""
    for s in range(tracker.member.shape[0]):
        tracker.count[s, place] = 0
    for k in range(tracker.aggregates.shape[0]):
        tracker.total_ints[k, place] = 0
        tracker.total_floats[k, place] = 0.0
        tracker.total_counts[k, place] = 0
        tracker.total_state[k, place] = KNOWN


@inner
def track_row(tracker: Tracker, values: RowValues, low: int, row: int, variable: int) -> None:
    """Add a row of a variable to the match so far. O(sets + aggregates)."""
    place = row - low
    for s in range(tracker.member.shape[0]):
        count = tracker.count[s, place]
        if tracker.member[s, variable]:
            tracker.rows[s, count] = row
            count += 1
        tracker.count[s, place + 1] = count
    for k in range(tracker.aggregates.shape[0]):
        _add_to_total(tracker, values, k, place, row, variable)


@inner
def _add_to_total(tracker: Tracker, values: RowValues, k: int, place: int, row: int, variable: int) -> None:
    what, s, column = tracker.aggregates[k, 0], tracker.aggregates[k, 1], tracker.aggregates[k, 2]
    whole, floating = tracker.total_ints[k, place], tracker.total_floats[k, place]
    count, state = tracker.total_counts[k, place], tracker.total_state[k, place]
    if s == ALL_ROWS or tracker.member[s, variable]:
        if what == COUNT_ROWS:
            count += 1
        elif what == SUM_FLOAT or what == MIN_FLOAT or what == MAX_FLOAT:
            if values.float_state[column, row] == KNOWN:
                value = values.floats[column, row]
                if what == SUM_FLOAT:
                    floating += value
                elif count == 0:
                    floating = value
                elif what == MIN_FLOAT:
                    if is_less(value, floating):
                        floating = value
                elif is_less(floating, value):
                    floating = value
                count += 1
        elif values.int_state[column, row] == KNOWN:
            number = values.ints[column, row]
            if what == SUM_INT:
                total = whole + number
                if (whole >= 0) == (number >= 0) and (total >= 0) != (whole >= 0):
                    state = OVERFLOW
                whole = total
            elif what == MIN_INT:
                if count == 0 or number < whole:
                    whole = number
            elif what == MAX_INT and (count == 0 or number > whole):
                whole = number
            count += 1
    tracker.total_ints[k, place + 1] = whole
    tracker.total_floats[k, place + 1] = floating
    tracker.total_counts[k, place + 1] = count
    tracker.total_state[k, place + 1] = state


@inner
def is_less(one: float, other: float) -> bool:
    """Whether a number comes before another; NaN comes last."""
    if one != one:
        return False
    return other != other or one < other


@inner
def find_row(tracker: Tracker, target: int, low: int, high: int, start: int, row: int) -> int:
    """Return the row of a target as seen from a row of a match, or -1. O(1)."""
    which, s = tracker.targets[target, 0], tracker.targets[target, 1]
    offset, shift = tracker.targets[target, 2], tracker.targets[target, 3]
    if which == CURRENT:
        found = row
    elif s == ALL_ROWS:
        found = row - offset if which == LAST else start + offset
        if found < start or found > row:
            return -1
    else:
        count = tracker.count[s, row - low + 1]
        at = count - 1 - offset if which == LAST else offset
        if at < 0 or at >= count:
            return -1
        found = tracker.rows[s, at]
    found += shift
    return found if low <= found < high else -1


class MatchPlace(NamedTuple):
    """Where conditions are evaluated: a partition from `low` to `high`, the first row and number of a match."""

    low: int
    high: int
    start: int
    number: int


@inner
def evaluate_block(
    code: Code,
    condition: int,
    values: RowValues,
    tracker: Tracker,
    labels: SmallInts,
    place: MatchPlace,
    row: int,
    size: int,
    stack: BlockStack,
) -> None:
    """Evaluate a condition for a block of rows, and leave what it is in the first block of the stack.

    `labels` are the variables of the rows of the match so far, by place in the partition. O(instructions * size).
    """
    top = -1
    last = values.ints.shape[1] - 1
    last_float = values.floats.shape[1] - 1
    ints, floats, state = stack.ints, stack.floats, stack.state
    for at in range(code.begin[condition], code.begin[condition + 1]):
        op, a, b = code.words[at, 0], code.words[at, 1], code.words[at, 2]
        if op <= CONST_NULL:
            top += 1
        if op == LOAD_INT:
            if tracker.targets[a, 0] == CURRENT:
                shift = tracker.targets[a, 3]
                for i in range(size):
                    found = row + i + shift
                    if found < place.low or found >= place.high:
                        found = last
                    ints[top, i] = values.ints[b, found]
                    state[top, i] = values.int_state[b, found]
            else:
                found = find_row(tracker, a, place.low, place.high, place.start, row)
                if found < 0:
                    found = last
                ints[top, 0] = values.ints[b, found]
                state[top, 0] = values.int_state[b, found]
        elif op == LOAD_FLOAT:
            if tracker.targets[a, 0] == CURRENT:
                shift = tracker.targets[a, 3]
                for i in range(size):
                    found = row + i + shift
                    if found < place.low or found >= place.high:
                        found = last_float
                    floats[top, i] = values.floats[b, found]
                    state[top, i] = values.float_state[b, found]
            else:
                found = find_row(tracker, a, place.low, place.high, place.start, row)
                if found < 0:
                    found = last_float
                floats[top, 0] = values.floats[b, found]
                state[top, 0] = values.float_state[b, found]
        elif op == LOAD_LABEL:
            found = find_row(tracker, a, place.low, place.high, place.start, row)
            state[top, 0] = NULL
            if place.start <= found <= row:
                ints[top, 0] = values.label_codes[labels[found - place.low]]
                state[top, 0] = KNOWN
        elif op == LOAD_NUMBER:
            ints[top, 0] = place.number
            state[top, 0] = KNOWN
        elif op == LOAD_COUNT:
            ints[top, 0] = tracker.total_counts[a, row - place.low + 1]
            state[top, 0] = KNOWN
        elif op <= LOAD_FLOAT_MEAN:
            _load_total(tracker, op, a, b, row - place.low + 1, top, stack)
        elif op == CONST_INT:
            for i in range(size):
                ints[top, i] = code.ints[a]
                state[top, i] = KNOWN
        elif op == CONST_FLOAT:
            for i in range(size):
                floats[top, i] = code.floats[a]
                state[top, i] = KNOWN
        elif op == CONST_NULL:
            for i in range(size):
                state[top, i] = NULL
        elif op <= ABS_FLOAT:
            top = _calculate(op, a, top, size, stack)
        elif op == COMPARE_INT:
            top -= 1
            for i in range(size):
                one, other = ints[top, i], ints[top + 1, i]
                ints[top, i] = evaluate_comparison(a, one < other, one == other)
                state[top, i] = max(state[top, i], state[top + 1, i])
        elif op == COMPARE_FLOAT:
            top -= 1
            for i in range(size):
                x, y = floats[top, i], floats[top + 1, i]
                ints[top, i] = evaluate_comparison(a, is_less(x, y), x == y or (x != x and y != y))
                state[top, i] = max(state[top, i], state[top + 1, i])
        else:
            top = _combine(op, top, size, stack)


@inner
def _load_total(tracker: Tracker, op: int, k: int, power: int, place: int, top: int, stack: BlockStack) -> None:
    """Push an aggregate: null where it has seen no value."""
    count = tracker.total_counts[k, place]
    stack.state[top, 0] = NULL if count == 0 else tracker.total_state[k, place]
    if op == LOAD_INT_TOTAL:
        stack.ints[top, 0] = tracker.total_ints[k, place]
    elif op == LOAD_FLOAT_TOTAL:
        stack.floats[top, 0] = tracker.total_floats[k, place]
    elif count > 0:
        whole = float(tracker.total_ints[k, place]) / float(_POWERS[power])
        stack.floats[top, 0] = (tracker.total_floats[k, place] if op == LOAD_FLOAT_MEAN else whole) / count


@inner
def _calculate(op: int, a: int, top: int, size: int, stack: BlockStack) -> int:
    """Carry out arithmetic, and return the new top. A result beyond 64 bits is an overflow. O(size)."""
    ints, floats, state = stack.ints, stack.floats, stack.state
    if op == TO_FLOAT:
        for i in range(size):
            floats[top, i] = float(ints[top, i]) / float(_POWERS[a])
    elif op == SCALE:
        for i in range(size):
            if abs(float(ints[top, i]) * float(_POWERS[a])) > _EDGE and state[top, i] == KNOWN:
                state[top, i] = OVERFLOW
            ints[top, i] *= _POWERS[a]
    elif op == NEG_INT or op == ABS_INT:
        for i in range(size):
            if op == NEG_INT or ints[top, i] < 0:
                if ints[top, i] == np.int64(-(2**63)) and state[top, i] == KNOWN:
                    state[top, i] = OVERFLOW
                ints[top, i] = -ints[top, i]
    elif op == NEG_FLOAT:
        for i in range(size):
            floats[top, i] = -floats[top, i]
    elif op == ABS_FLOAT:
        for i in range(size):
            floats[top, i] = abs(floats[top, i])
    else:
        top -= 1
        for i in range(size):
            known = max(state[top, i], state[top + 1, i])
            if op <= MOD_INT:
                one, other = ints[top, i], ints[top + 1, i]
                if op == ADD_INT:
                    total = one + other
                    beyond = (one >= 0) == (other >= 0) and (total >= 0) != (one >= 0)
                elif op == SUB_INT:
                    total = one - other
                    beyond = (one >= 0) != (other >= 0) and (total >= 0) != (one >= 0)
                elif op == MUL_INT:
                    total = one * other
                    beyond = abs(float(one) * float(other)) > _EDGE
                else:
                    if other == 0 and known == KNOWN:
                        known = DIVIDED_BY_ZERO
                    total = _find_remainder(one, other)
                    beyond = False
                ints[top, i] = total
                if beyond and known == KNOWN:
                    known = OVERFLOW
            else:
                x, y = floats[top, i], floats[top + 1, i]
                if op == ADD_FLOAT:
                    floats[top, i] = x + y
                elif op == SUB_FLOAT:
                    floats[top, i] = x - y
                elif op == MUL_FLOAT:
                    floats[top, i] = x * y
                else:
                    if y == 0.0 and known == KNOWN:
                        known = DIVIDED_BY_ZERO
                    floats[top, i] = x / y
            state[top, i] = known
    return top


@inner
def _find_remainder(one: int, other: int) -> int:
    """Return what is left of a division, with the sign of the dividend as SQL has it; 0 where there is no divisor."""
    if other == 0 or other == -1:  # the least whole number has no opposite
        return np.int64(0)
    left = one % other
    return left - other if left != 0 and (one < 0) != (other < 0) else left


@inner
def _combine(op: int, top: int, size: int, stack: BlockStack) -> int:
    """Carry out logic in three values, and return the new top; an error counts only where it decides. O(size)."""
    ints, floats, state = stack.ints, stack.floats, stack.state
    if op == NOT:
        for i in range(size):
            ints[top, i] = 1 - ints[top, i]
        return top
    if op == IS_NULL:
        for i in range(size):
            ints[top, i] = state[top, i] == NULL
            if state[top, i] == NULL:
                state[top, i] = KNOWN
        return top
    if op == CHOOSE:
        top -= 2
        for i in range(size):
            picked = top + 1 if state[top, i] == KNOWN and ints[top, i] == 1 else top + 2
            failed = state[top, i] > NULL
            if not failed:
                ints[top, i], floats[top, i] = ints[picked, i], floats[picked, i]
                state[top, i] = state[picked, i]
        return top
    top -= 1
    for i in range(size):
        one, other = state[top, i], state[top + 1, i]
        if op == COALESCE:
            if one == NULL:
                ints[top, i], floats[top, i], state[top, i] = ints[top + 1, i], floats[top + 1, i], other
        else:
            decides = 0 if op == AND else 1
            if (one == KNOWN and ints[top, i] == decides) or (other == KNOWN and ints[top + 1, i] == decides):
                ints[top, i], state[top, i] = decides, KNOWN
            else:
                ints[top, i], state[top, i] = 1 - decides, max(one, other)
    return top
