"""Instances of patterns in columns: what joins and paths read and write, and the tests they share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MIN_TIME as MIN_TIME
from motet.kernels.arrays import Ints, SmallInts
from motet.kernels.expressions import Bytecode, EventScope, Stack, Values, evaluate_comparison, is_true
from motet.kernels.jit import inner


class Instances(NamedTuple):
    """Instances of a node, by key and then last time.

    `columns` holds what each item is bound to: an event, or a bundle of them (see `Bundles`); `end` is its last event.
    """

    columns: Ints  # item, instance
    first: Ints
    last: Ints
    end: Ints
    offsets: Ints


class Bundles(NamedTuple):
    """What items may be bound to: events by their number, then bundles of events (paths, blocks) after them.

    Bundle b, counted from the number of events on, binds the positions and events `begin[b]` to `begin[b + 1]`.
    """

    first: Ints
    last: Ints
    begin: Ints
    position: SmallInts
    event: Ints
    events: int


class Absences(NamedTuple):
    """The events of each absence, by key: absence a has in key k those from `offsets[a, k]` to `offsets[a, k + 1]`."""

    offsets: Ints
    event: Ints
    time: Ints


# What is done to a value before it is compared, with a constant.
PLAIN = 0
ADD = 1
SUBTRACT_FROM = 2
MULTIPLY = 3
DIVIDE = 4

TEST_WIDTH = 9  # of a row of `Tests`


class Tests(NamedTuple):
    """Conditions to be tested on one combination: a comparison of two columns, or code.

    A row of `table` is the comparison or -1; then slot, row of values, slot, row of values; then for each side what is
    done to its value first, and the number of the constant for it. Or it is -1 and the number of the code.
    """

    table: SmallInts
    code: Bytecode


class EvalContext(NamedTuple):
    """What it takes to test a combination of items: tests, the values, bundles and absences they read, and scratch
    memory: the events in scope and a stack.
    """

    tests: Tests
    values: Values
    bundles: Bundles
    absences: Absences
    scope: EventScope
    stack: Stack


@inner
def upper_bound(times: Ints, begin: int, end: int, moment: int) -> int:
    """Return the first place of a sorted stretch whose time is later than a moment. O(log n)."""
    while begin < end:
        middle = (begin + end) // 2
        if times[middle] <= moment:
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def has_event_between(absences: Absences, absence: int, key: int, since: int, until: int) -> bool:
    """Return whether an event of an absence lies strictly between two times. O(log n)."""
    end = absences.offsets[absence, key + 1]
    at = upper_bound(absences.time, absences.offsets[absence, key], end, since)
    return at < end and absences.time[at] < until


@inner
def latest_before(absences: Absences, absence: int, key: int, until: int) -> int:
    """Return the time of the latest event of an absence before another time, or MIN_TIME. O(log n)."""
    begin = absences.offsets[absence, key]
    at = upper_bound(absences.time, begin, absences.offsets[absence, key + 1], until - 1)
    return absences.time[at - 1] if at > begin else MIN_TIME


@inner
def change_value(change: int, x: float, constant: float) -> float:
    """Return what is compared in place of a value."""
    if change == PLAIN:
        return x
    if change == ADD:
        return x + constant
    if change == MULTIPLY:
        return x * constant
    if change == SUBTRACT_FROM:
        return constant - x
    return x / constant


@inner
def passes_test(context: EvalContext, number: int) -> bool:
    """Return whether one test holds for the events in scope."""
    table, values, scope = context.tests.table, context.values, context.scope
    comparison = table[number, 0]
    if comparison < 0:
        return is_true(context.tests.code, table[number, 1], values, scope, context.stack)
    x = values.floats[table[number, 2], scope.current[table[number, 1]]]
    y = values.floats[table[number, 4], scope.current[table[number, 3]]]
    x = change_value(table[number, 5], x, values.constants[table[number, 6]])
    y = change_value(table[number, 7], y, values.constants[table[number, 8]])
    if np.isnan(x) or np.isnan(y):
        return False
    return evaluate_comparison(comparison, x < y, x == y)


@inner
def have_common_event(bundles: Bundles, one: int, other: int) -> bool:
    """Return whether two items are bound to the same event."""
    if one < bundles.events and other < bundles.events:
        return one == other
    if one < bundles.events:
        one, other = other, one
    b = one - bundles.events
    for at in range(bundles.begin[b], bundles.begin[b + 1]):
        if other < bundles.events:
            if bundles.event[at] == other:
                return True
        else:
            o = other - bundles.events
            for beside in range(bundles.begin[o], bundles.begin[o + 1]):
                if bundles.event[at] == bundles.event[beside]:
                    return True
    return False
