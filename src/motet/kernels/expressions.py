"""Evaluate expressions over the events of a match by a small stack machine, in SQL's three-valued logic.

An instruction is four whole numbers: what to do, and up to three operands. Values are whole, floating or null; a truth
value is a whole 0 or 1, a text its place among all texts in order, a time its microseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import Flags, Floats, Ints, SmallInts
from motet.kernels.jit import inner

WIDTH = 4

LOAD_INT = 0  # slot, row of `ints`, which
LOAD_FLOAT = 1  # slot, row of `floats`, which
CONST_INT = 2  # place among the whole constants
CONST_FLOAT = 3
CONST_NULL = 4
TO_FLOAT = 5
ADD_INT = 6
SUB_INT = 7
MUL_INT = 8
MOD_INT = 9
ADD_FLOAT = 10
SUB_FLOAT = 11
MUL_FLOAT = 12
DIV_FLOAT = 13
MOD_FLOAT = 14
COMPARE_INT = 15  # comparison
COMPARE_FLOAT = 16  # comparison
AND = 17
OR = 18
NOT = 19
IS_NULL = 20
ABS_INT = 21
ABS_FLOAT = 22
FLOOR = 23
CEIL = 24
SQRT = 25
COALESCE = 26
COUNT = 27  # slot
COUNT_INT = 28  # slot, row of `ints`: values that are not null
COUNT_FLOAT = 29
SUM_INT = 30  # slot, row, 1 for the mean
SUM_FLOAT = 31
LEAST_INT = 32  # slot, row, 1 for the greatest
LEAST_FLOAT = 33
MAP = 34  # number of the map: what a function gives for each text

# Which of the events bound to a slot an instruction reads.
EACH = 0
NEXT = 1
FIRST = 2
LAST = 3

# Comparisons.
EQUAL = 0
DIFFERENT = 1
LESS = 2
AT_MOST = 3
MORE = 4
AT_LEAST = 5

# Why an expression has no value.
FINE = 0
OVERFLOW = 1

_SMALLEST = np.int64(-(2**63))
_EDGE = 9223372036854775808.0  # 2^63


class Bytecode(NamedTuple):
    """Expressions as code, one after another: expression c is instructions `begin[c]` to `begin[c + 1]`.

    `maps[m, w]` is what map m gives for text number w.
    """

    words: SmallInts
    begin: Ints
    ints: Ints
    floats: Floats
    maps: Ints


class Values(NamedTuple):
    """What expressions read of each event. A floating NaN is null; `known` tells which whole values are not null.

    `constants` are those that comparisons of two columns compute with.
    """

    ints: Ints
    known: Flags
    floats: Floats
    constants: Floats


class EventScope(NamedTuple):
    """The events an expression speaks of, by slot: all in time order, and those chosen now (-1 for none)."""

    current: Ints
    following: Ints
    offsets: Ints
    events: Ints


class Stack(NamedTuple):
    """Room for values on their way; `status` says why there is none."""

    ints: Ints
    floats: Floats
    null: Flags
    status: Ints


def new_stack() -> Stack:
    """Create a stack deep enough for any expression that `motet.engine.detect` compiles."""
    return Stack(np.zeros(64, np.int64), np.zeros(64, np.float64), np.zeros(64, np.bool_), np.zeros(1, np.int64))


@inner
def select_event(scope: EventScope, slot: int, which: int) -> int:
    """Return the event that a load reads, or -1."""
    if which == EACH:
        return scope.current[slot]
    if which == NEXT:
        return scope.following[slot]
    begin, end = scope.offsets[slot], scope.offsets[slot + 1]
    if begin == end:
        return -1
    return scope.events[begin] if which == FIRST else scope.events[end - 1]


@inner
def evaluate_comparison(comparison: int, less: bool, equal: bool) -> bool:
    """Return what a comparison says of two values that are not null."""
    if comparison == EQUAL:
        return equal
    if comparison == DIFFERENT:
        return not equal
    if comparison == LESS:
        return less
    if comparison == AT_MOST:
        return less or equal
    if comparison == MORE:
        return not (less or equal)
    return not less


@inner
def evaluate(code: Bytecode, number: int, values: Values, scope: EventScope, stack: Stack) -> None:
    """Evaluate one expression; its value is left at the bottom of the stack. O(instructions)."""
    words, si, sf, sn = code.words, stack.ints, stack.floats, stack.null
    top = -1
    for at in range(code.begin[number], code.begin[number + 1]):
        op, a, b, c = words[at * 4], words[at * 4 + 1], words[at * 4 + 2], words[at * 4 + 3]
        if op == LOAD_FLOAT:
            top += 1
            event = select_event(scope, a, c)
            sf[top] = np.nan if event < 0 else values.floats[b, event]
            sn[top] = np.isnan(sf[top])
        elif op == LOAD_INT:
            top += 1
            event = select_event(scope, a, c)
            sn[top] = event < 0 or not values.known[b, event]
            si[top] = 0 if sn[top] else values.ints[b, event]
        elif op == CONST_INT:
            top += 1
            si[top] = code.ints[a]
            sn[top] = False
        elif op == CONST_FLOAT:
            top += 1
            sf[top] = code.floats[a]
            sn[top] = False
        elif op == CONST_NULL:
            top += 1
            si[top] = 0
            sf[top] = np.nan
            sn[top] = True
        elif op == TO_FLOAT:
            sf[top] = float(si[top])
        elif op <= MOD_INT:
            top -= 1
            sn[top] = sn[top] or sn[top + 1]
            if not sn[top]:
                apply_int_arithmetic(op, top, stack)
        elif op <= MOD_FLOAT:
            top -= 1
            sn[top] = sn[top] or sn[top + 1]
            if not sn[top]:
                apply_float_arithmetic(op, top, stack)
        elif op == COMPARE_INT:
            top -= 1
            sn[top] = sn[top] or sn[top + 1]
            si[top] = evaluate_comparison(a, si[top] < si[top + 1], si[top] == si[top + 1])
        elif op == COMPARE_FLOAT:
            top -= 1
            sn[top] = sn[top] or sn[top + 1]
            si[top] = evaluate_comparison(a, sf[top] < sf[top + 1], sf[top] == sf[top + 1])
        elif op == AND:
            top -= 1
            false = (not sn[top] and si[top] == 0) or (not sn[top + 1] and si[top + 1] == 0)
            sn[top] = not false and (sn[top] or sn[top + 1])
            si[top] = 0 if false else 1
        elif op == OR:
            top -= 1
            true = (not sn[top] and si[top] != 0) or (not sn[top + 1] and si[top + 1] != 0)
            sn[top] = not true and (sn[top] or sn[top + 1])
            si[top] = 1 if true else 0
        elif op == NOT:
            si[top] = 1 - si[top]
        elif op == IS_NULL:
            si[top] = 1 if sn[top] else 0
            sn[top] = False
        elif op == COALESCE:
            top -= 1
            if sn[top]:
                si[top], sf[top], sn[top] = si[top + 1], sf[top + 1], sn[top + 1]
        elif op == MAP:
            if not sn[top]:
                si[top] = code.maps[a, si[top]]
        elif op <= SQRT:
            if not sn[top]:
                apply_function(op, top, stack)
        else:
            top += 1
            evaluate_aggregate(op, a, b, c, values, scope, stack, top)


@inner
def apply_int_arithmetic(op: int, at: int, stack: Stack) -> None:
    """Compute with ints: exactly, or marked as an overflow."""
    x, y = stack.ints[at], stack.ints[at + 1]
    if op == ADD_INT:
        z = x + y
        if (x >= 0) == (y >= 0) and (z >= 0) != (x >= 0):
            stack.status[0] = OVERFLOW
    elif op == SUB_INT:
        z = x - y
        if (x >= 0) != (y >= 0) and (z >= 0) != (x >= 0):
            stack.status[0] = OVERFLOW
    elif op == MUL_INT:
        z = x * y
        size = abs(float(x) * float(y))
        if size > 1.01 * _EDGE or (size > 0.99 * _EDGE and (x == -1 or y == -1 or z // x != y)):
            stack.status[0] = OVERFLOW
    elif y == 0:
        stack.null[at] = True
        z = np.int64(0)
    elif y == -1:
        z = np.int64(0)  # the least whole number cannot be divided by it
    else:
        z = x % y
        if z != 0 and (z < 0) != (x < 0):
            z -= y
    stack.ints[at] = z


@inner
def apply_float_arithmetic(op: int, at: int, stack: Stack) -> None:
    """Compute with floats; what is not a number is null."""
    x, y = stack.floats[at], stack.floats[at + 1]
    if op == ADD_FLOAT:
        z = x + y
    elif op == SUB_FLOAT:
        z = x - y
    elif op == MUL_FLOAT:
        z = x * y
    elif y == 0.0:
        z = np.nan
    elif op == DIV_FLOAT:
        z = x / y
    elif np.isinf(y) and not np.isinf(x):
        z = x
    else:
        z = np.fmod(x, y)
    stack.floats[at] = z
    stack.null[at] = np.isnan(z)


@inner
def apply_function(op: int, at: int, stack: Stack) -> None:
    """Apply a function to a number that is not null."""
    if op == ABS_INT:
        if stack.ints[at] == _SMALLEST:
            stack.status[0] = OVERFLOW
        stack.ints[at] = abs(stack.ints[at])
    elif op == ABS_FLOAT:
        stack.floats[at] = abs(stack.floats[at])
    elif op == SQRT:
        stack.null[at] = stack.floats[at] < 0
        stack.floats[at] = np.sqrt(max(stack.floats[at], 0.0))
    else:
        rounded = np.floor(stack.floats[at]) if op == FLOOR else np.ceil(stack.floats[at])
        if not -_EDGE <= rounded < _EDGE:
            stack.status[0] = OVERFLOW
            rounded = 0.0
        stack.ints[at] = np.int64(rounded)


@inner
def evaluate_aggregate(
    op: int, slot: int, row: int, other: int, values: Values, scope: EventScope, stack: Stack, top: int
) -> None:
    """Aggregate the values that a match binds to a slot; null over none of them, except a count. O(events)."""
    begin, end = scope.offsets[slot], scope.offsets[slot + 1]
    if op == COUNT:
        stack.ints[top] = end - begin
        stack.null[top] = False
        return
    is_int = op == COUNT_INT or op == SUM_INT or op == LEAST_INT
    count = 0
    total, least = 0.0, 0.0
    extreme = np.int64(0)
    for at in range(begin, end):
        event = scope.events[at]
        if is_int:
            if not values.known[row, event]:
                continue
            w = values.ints[row, event]
            total += float(w)
            if count == 0 or (w < extreme if other == 0 else w > extreme):
                extreme = w
        else:
            f = values.floats[row, event]
            if np.isnan(f):
                continue
            total += f
            if count == 0 or (f < least if other == 0 else f > least):
                least = f
        count += 1
    if op == COUNT_INT or op == COUNT_FLOAT:
        stack.ints[top] = count
        stack.null[top] = False
        return
    stack.null[top] = count == 0
    if op == LEAST_INT:
        stack.ints[top] = extreme
    elif op == LEAST_FLOAT:
        stack.floats[top] = least
    else:
        stack.floats[top] = total / count if other == 1 and count > 0 else total
        stack.null[top] = count == 0 or np.isnan(stack.floats[top])


@inner
def is_true(code: Bytecode, number: int, values: Values, scope: EventScope, stack: Stack) -> bool:
    """Return whether a condition holds: one that is null does not."""
    evaluate(code, number, values, scope, stack)
    return not stack.null[0] and stack.ints[0] != 0
