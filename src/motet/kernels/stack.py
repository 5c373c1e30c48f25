"""A small stack machine for expressions over the events of a match, in SQL's three-valued logic.

An instruction is four whole numbers: what to do, and up to three operands. Values are whole, floating or null; a truth
value is a whole 0 or 1, a text its place among all texts in order, a time its microseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner

WIDTH = 4

LOAD_WHOLE = 0  # slot, row of `whole`, which
LOAD_REAL = 1  # slot, row of `real`, which
CONST_WHOLE = 2  # place among the whole constants
CONST_REAL = 3
CONST_NULL = 4
TO_REAL = 5
ADD_WHOLE = 6
SUB_WHOLE = 7
MUL_WHOLE = 8
MOD_WHOLE = 9
ADD_REAL = 10
SUB_REAL = 11
MUL_REAL = 12
DIV_REAL = 13
MOD_REAL = 14
COMPARE_WHOLE = 15  # comparison
COMPARE_REAL = 16  # comparison
AND = 17
OR = 18
NOT = 19
IS_NULL = 20
ABS_WHOLE = 21
ABS_REAL = 22
FLOOR = 23
CEIL = 24
SQRT = 25
COALESCE = 26
COUNT = 27  # slot
COUNT_WHOLE = 28  # slot, row of `whole`: values that are not null
COUNT_REAL = 29
SUM_WHOLE = 30  # slot, row, 1 for the mean
SUM_REAL = 31
LEAST_WHOLE = 32  # slot, row, 1 for the greatest
LEAST_REAL = 33
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


class Code(NamedTuple):
    """Expressions as code, one after another: expression c is instructions `begin[c]` to `begin[c + 1]`.

    `maps[m, w]` is what map m gives for text number w.
    """

    words: NDArray[np.int32]
    begin: NDArray[np.int64]
    whole: NDArray[np.int64]
    real: NDArray[np.float64]
    maps: NDArray[np.int64]


class Values(NamedTuple):
    """What expressions read of each event. A floating NaN is null; `known` tells which whole values are not null."""

    whole: NDArray[np.int64]
    known: NDArray[np.bool_]
    real: NDArray[np.float64]


class Scope(NamedTuple):
    """The events an expression speaks of, by slot: all in time order, and those chosen now (-1 for none)."""

    current: NDArray[np.int64]
    following: NDArray[np.int64]
    offsets: NDArray[np.int64]
    events: NDArray[np.int64]


class Stack(NamedTuple):
    """Room for values on their way, and why there is none."""

    whole: NDArray[np.int64]
    real: NDArray[np.float64]
    null: NDArray[np.bool_]
    status: NDArray[np.int64]


def new_stack() -> Stack:
    """A stack deep enough for any expression that `motet.engine.detect` compiles."""
    return Stack(np.zeros(64, np.int64), np.zeros(64, np.float64), np.zeros(64, np.bool_), np.zeros(1, np.int64))


@inner
def chosen(scope: Scope, slot: int, which: int) -> int:
    """The event that a load reads, or -1."""
    if which == EACH:
        return scope.current[slot]
    if which == NEXT:
        return scope.following[slot]
    begin, end = scope.offsets[slot], scope.offsets[slot + 1]
    if begin == end:
        return -1
    return scope.events[begin] if which == FIRST else scope.events[end - 1]


@inner
def compares(comparison: int, less: bool, equal: bool) -> bool:
    """What a comparison says of two values that are not null."""
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
def run_code(code: Code, number: int, values: Values, scope: Scope, stack: Stack) -> None:
    """Evaluate one expression; its value is left at the bottom of the stack. O(instructions)."""
    words, si, sf, sn = code.words, stack.whole, stack.real, stack.null
    top = -1
    for at in range(code.begin[number], code.begin[number + 1]):
        op, a, b, c = words[at * 4], words[at * 4 + 1], words[at * 4 + 2], words[at * 4 + 3]
        if op == LOAD_REAL:
            top += 1
            event = chosen(scope, a, c)
            sf[top] = np.nan if event < 0 else values.real[b, event]
            sn[top] = np.isnan(sf[top])
        elif op == LOAD_WHOLE:
            top += 1
            event = chosen(scope, a, c)
            sn[top] = event < 0 or not values.known[b, event]
            si[top] = 0 if sn[top] else values.whole[b, event]
        elif op == CONST_WHOLE:
            top += 1
            si[top] = code.whole[a]
            sn[top] = False
        elif op == CONST_REAL:
            top += 1
            sf[top] = code.real[a]
            sn[top] = False
        elif op == CONST_NULL:
            top += 1
            si[top] = 0
            sf[top] = np.nan
            sn[top] = True
        elif op == TO_REAL:
            sf[top] = float(si[top])
        elif op <= MOD_WHOLE:
            top -= 1
            sn[top] = sn[top] or sn[top + 1]
            if not sn[top]:
                whole_arithmetic(op, top, stack)
        elif op <= MOD_REAL:
            top -= 1
            sn[top] = sn[top] or sn[top + 1]
            if not sn[top]:
                real_arithmetic(op, top, stack)
        elif op == COMPARE_WHOLE:
            top -= 1
            sn[top] = sn[top] or sn[top + 1]
            si[top] = compares(a, si[top] < si[top + 1], si[top] == si[top + 1])
        elif op == COMPARE_REAL:
            top -= 1
            sn[top] = sn[top] or sn[top + 1]
            si[top] = compares(a, sf[top] < sf[top + 1], sf[top] == sf[top + 1])
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
                call(op, top, stack)
        else:
            top += 1
            aggregate(op, a, b, c, values, scope, stack, top)


@inner
def whole_arithmetic(op: int, at: int, stack: Stack) -> None:
    """Arithmetic on whole numbers: exact, or marked as an overflow."""
    x, y = stack.whole[at], stack.whole[at + 1]
    if op == ADD_WHOLE:
        z = x + y
        if (x >= 0) == (y >= 0) and (z >= 0) != (x >= 0):
            stack.status[0] = OVERFLOW
    elif op == SUB_WHOLE:
        z = x - y
        if (x >= 0) != (y >= 0) and (z >= 0) != (x >= 0):
            stack.status[0] = OVERFLOW
    elif op == MUL_WHOLE:
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
    stack.whole[at] = z


@inner
def real_arithmetic(op: int, at: int, stack: Stack) -> None:
    """Arithmetic on floating numbers; what is not a number is null."""
    x, y = stack.real[at], stack.real[at + 1]
    if op == ADD_REAL:
        z = x + y
    elif op == SUB_REAL:
        z = x - y
    elif op == MUL_REAL:
        z = x * y
    elif y == 0.0:
        z = np.nan
    elif op == DIV_REAL:
        z = x / y
    elif np.isinf(y) and not np.isinf(x):
        z = x
    else:
        z = np.fmod(x, y)
    stack.real[at] = z
    stack.null[at] = np.isnan(z)


@inner
def call(op: int, at: int, stack: Stack) -> None:
    """A function of one number that is not null."""
    if op == ABS_WHOLE:
        if stack.whole[at] == _SMALLEST:
            stack.status[0] = OVERFLOW
        stack.whole[at] = abs(stack.whole[at])
    elif op == ABS_REAL:
        stack.real[at] = abs(stack.real[at])
    elif op == SQRT:
        stack.null[at] = stack.real[at] < 0
        stack.real[at] = np.sqrt(max(stack.real[at], 0.0))
    else:
        rounded = np.floor(stack.real[at]) if op == FLOOR else np.ceil(stack.real[at])
        if not -_EDGE <= rounded < _EDGE:
            stack.status[0] = OVERFLOW
            rounded = 0.0
        stack.whole[at] = np.int64(rounded)


@inner
def aggregate(op: int, slot: int, row: int, other: int, values: Values, scope: Scope, stack: Stack, top: int) -> None:
    """An aggregate of the values that a match binds to a slot; null over none of them, except a count."""
    begin, end = scope.offsets[slot], scope.offsets[slot + 1]
    if op == COUNT:
        stack.whole[top] = end - begin
        stack.null[top] = False
        return
    whole = op == COUNT_WHOLE or op == SUM_WHOLE or op == LEAST_WHOLE
    count = 0
    total, least = 0.0, 0.0
    extreme = np.int64(0)
    for at in range(begin, end):
        event = scope.events[at]
        if whole:
            if not values.known[row, event]:
                continue
            w = values.whole[row, event]
            total += float(w)
            if count == 0 or (w < extreme if other == 0 else w > extreme):
                extreme = w
        else:
            f = values.real[row, event]
            if np.isnan(f):
                continue
            total += f
            if count == 0 or (f < least if other == 0 else f > least):
                least = f
        count += 1
    if op == COUNT_WHOLE or op == COUNT_REAL:
        stack.whole[top] = count
        stack.null[top] = False
        return
    stack.null[top] = count == 0
    if op == LEAST_WHOLE:
        stack.whole[top] = extreme
    elif op == LEAST_REAL:
        stack.real[top] = least
    else:
        stack.real[top] = total / count if other == 1 and count > 0 else total
        stack.null[top] = count == 0 or np.isnan(stack.real[top])


@inner
def is_true(code: Code, number: int, values: Values, scope: Scope, stack: Stack) -> bool:
    """Whether a condition holds: one that is null does not."""
    run_code(code, number, values, scope, stack)
    return not stack.null[0] and stack.whole[0] != 0
