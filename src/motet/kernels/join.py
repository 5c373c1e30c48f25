"""Join and filter instances: order, windows, absences and conditions, all read from tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.arrays import MAX_TIME as MAX_TIME
from motet.kernels.arrays import MIN_TIME, Flags, Floats, Ints, SmallInts
from motet.kernels.expressions import AT_LEAST, AT_MOST, DIFFERENT, EQUAL, LESS, MORE, Values
from motet.kernels.instances import (
    Bundles,
    EvalContext,
    Instances,
    change_value,
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

# The columns of a comparison that say what a side of it reads.
OUTER_SIDE = [1, 2, 5, 6]
INNER_SIDE = [3, 4, 7, 8]

# Rows in a block of the index, and its logarithm. Fewer rows than that many times are searched as fast without.
BLOCK = 16
SHIFT = 4
MIN_ROWS_TO_INDEX = 64


class JoinTable(NamedTuple):
    """What a join must check. Slots count the items of the outer side, then those of the inner.

    `relation[i, j]`: how outer item i stands to inner item j; a row of `verify` is an i, a j and their relation where
    the search by time does not settle it. `before_all[i]`: whether all inner items come before outer item i.
    `place[s]`: the output column of slot s. `gap[g, s]`: 1 where guard g's gap comes after slot s, 2 where before it;
    `gap_absence[g]`: what must not occur in it. A row of `compare` is one of `Tests` with the outer side on the left;
    the inner slot counts from the first inner item.
    """

    relation: NDArray[np.int8]
    verify: SmallInts
    before_all: Flags
    place: SmallInts
    gap: NDArray[np.int8]
    gap_absence: SmallInts
    compare: SmallInts


class JoinOutput(NamedTuple):
    """Room for joined instances, with the key of each."""

    columns: Ints
    first: Ints
    last: Ints
    end: Ints
    key: Ints


class JoinCursor(NamedTuple):
    """Where a join goes on: the outer row, and the inner row (-1 for the first that fits)."""

    outer: int
    inner: int


def allocate_join_output(items: int, rows: int) -> JoinOutput:
    """Create room for so many instances of so many items."""
    return JoinOutput(np.empty((items, rows), np.int64), *(np.empty(rows, np.int64) for _ in range(4)))


class JoinValues(NamedTuple):
    """What comparisons read, row by row: `outer[c, r]` and `inner[c, r]` are the sides of comparison c.

    `allowed` has for each inner row the earliest first time of what may end with it. The index is over the comparison
    `indexed` (-1: none), where inner values, times `sign`, must be as large as the outer one: `maxima[level]` has the
    largest of each block of 16 rows, and of 16 blocks of the level before, from `level[l]` on.
    """

    outer: Floats
    inner: Floats
    allowed: Ints
    indexed: int
    sign: float
    maxima: Floats
    level: Ints


def prepare_join(outer: Instances, inner: Instances, table: JoinTable, values: Values, oldest: Ints) -> JoinValues:
    """Read the values that a join compares, and index the first inequality. O(rows x comparisons)."""
    rows, sides = len(inner.first), table.compare
    own = read_values(outer.columns, sides[:, OUTER_SIDE], values)
    theirs = read_values(inner.columns, sides[:, INNER_SIDE], values)
    allowed = np.empty(rows, np.int64)
    _take(oldest, inner.end, allowed)
    unequal = np.flatnonzero((sides[:, 0] != EQUAL) & (sides[:, 0] != DIFFERENT))
    if not len(unequal) or rows < MIN_ROWS_TO_INDEX:
        return JoinValues(own, theirs, allowed, -1, 0.0, np.zeros(0), np.zeros(1, np.int64))
    indexed = int(unequal[0])
    sign = 1.0 if sides[indexed, 0] in (LESS, AT_MOST) else -1.0
    sizes = [rows]
    while sizes[-1] > BLOCK:
        sizes.append(-(-sizes[-1] // BLOCK))
    level = np.cumsum([0, *sizes[1:]]).astype(np.int64)
    maxima = np.empty(level[-1])
    _fill_maxima(theirs[indexed], sign, maxima, level)
    return JoinValues(own, theirs, allowed, indexed, sign, maxima, level)


def read_values(columns: Ints, sides: SmallInts, values: Values) -> Floats:
    """Return the value of each row for each side of a comparison: its slot, row of values, change and constant."""
    out = np.empty((len(sides), columns.shape[1]))
    _read_values(columns, np.ascontiguousarray(sides), values, out)
    return out


@kernel
def _read_values(columns: Ints, sides: SmallInts, values: Values, out: Floats) -> None:
    for c in range(sides.shape[0]):
        slot, source, change, constant = sides[c, 0], sides[c, 1], sides[c, 2], values.constants[sides[c, 3]]
        for row in range(columns.shape[1]):
            out[c, row] = change_value(change, values.floats[source, columns[slot, row]], constant)


@kernel
def _take(source: Ints, places: Ints, out: Ints) -> None:
    for at in range(places.size):
        out[at] = source[places[at]]


@kernel
def _fill_maxima(values: Floats, sign: float, maxima: Floats, level: Ints) -> None:
    """Fill in the largest value of each block, level by level; a null is never as large."""
    for block in range(level[1]):
        best = -np.inf
        for at in range(block * BLOCK, min((block + 1) * BLOCK, values.size)):
            if sign * values[at] > best:
                best = sign * values[at]
        maxima[block] = best
    for number in range(1, level.size - 1):
        below = level[number] - level[number - 1]
        for block in range(level[number + 1] - level[number]):
            best = -np.inf
            for at in range(block * BLOCK, min((block + 1) * BLOCK, below)):
                best = max(best, maxima[level[number - 1] + at])
            maxima[level[number] + block] = best


@inner
def _skip_small(maxima: Floats, level: Ints, at: int, end: int, least: float) -> int:
    """Return the first row of the first block, from the one that begins at a row on, that holds a value as large, or
    `end`. O(16 log n).
    """
    number, block = 0, at >> SHIFT
    while maxima[level[number] + block] < least:
        block += 1
        while block & (BLOCK - 1) == 0 and number + 2 < level.size:
            block >>= SHIFT
            number += 1
        if block << (SHIFT * (number + 1)) >= end:
            return end
    while number > 0:
        number -= 1
        block <<= SHIFT
        while maxima[level[number] + block] < least:
            block += 1
    return block << SHIFT


@kernel
def join(
    outer: Instances,
    inner: Instances,
    bucket: Ints,
    table: JoinTable,
    compared: JoinValues,
    context: EvalContext,
    oldest: Ints,
    output: JoinOutput,
    since: int,
    cursor: JoinCursor,
) -> tuple[int, int, int]:
    """Fill the output with joined instances from a cursor on; return how many there are, and the rows to go on with.

    The inner rows that outer row r may be joined with lie in the bucket of its key, or of its key and a value that
    must be equal: that from `inner.offsets[bucket[r]]` on; in none where that is -1. `oldest` has for each event the
    earliest first time of what may end with it: windows of any kind come down to that, and it never falls as time goes
    on. What ends before `since` is left out. For each outer row only those inner rows are looked at that its window and
    order allow, and whose blocks an inequality may hold in: O(log n) to find them, then O(1) each but for code.
    """
    bundles, compare, current = context.bundles, table.compare, context.scope.current
    ours, theirs, rows = outer.columns.shape[0], inner.columns.shape[0], outer.first.size
    needs_tests = context.tests.table.shape[0] > 0 or table.gap.shape[0] > 0
    indexed = compared.indexed
    found = 0
    key = 0
    for row in range(cursor.outer, rows):
        while outer.offsets[key + 1] <= row:
            key += 1
        limit = oldest[outer.end[row]]
        if outer.first[row] < limit or bucket[row] < 0:
            continue
        low, high = limit, MAX_TIME
        if outer.last[row] < since:
            low = max(low, since)
        for i in range(ours):
            current[i] = outer.columns[i, row]
            if table.before_all[i]:
                high = min(high, bundles.first[current[i]])
            for j in range(theirs):
                if table.relation[i, j] == BEFORE:
                    low = max(low, bundles.last[current[i]] + 1)
        least = compared.sign * compared.outer[indexed, row] if indexed >= 0 else 0.0
        if np.isnan(least):
            continue
        end = inner.offsets[bucket[row] + 1]
        at = upper_bound(inner.last, inner.offsets[bucket[row]], end, low - 1)
        if row == cursor.outer and cursor.inner >= 0:
            at = cursor.inner
        while at < end:
            if indexed >= 0 and at & (BLOCK - 1) == 0:
                at = _skip_small(compared.maxima, compared.level, at, end, least)
                if at >= end:
                    break
            allowed = compared.allowed[at]
            if inner.last[at] >= high or allowed > outer.first[row]:
                break
            fits = inner.first[at] >= limit and inner.first[at] >= allowed
            c = 0
            while fits and c < compare.shape[0]:
                fits = _compare_floats(compare[c, 0], compared.outer[c, row], compared.inner[c, at])
                c += 1
            v = 0
            while fits and v < table.verify.shape[0]:
                one, other = current[table.verify[v, 0]], inner.columns[table.verify[v, 1], at]
                fits = _stands_so(bundles, table.verify[v, 2], one, other)
                v += 1
            if fits and needs_tests:
                for j in range(theirs):
                    current[ours + j] = inner.columns[j, at]
                fits = _passes_tests_and_gaps(key, table, context)
            if fits:
                if found == output.first.size:
                    return found, row, at
                for i in range(ours):
                    output.columns[table.place[i], found] = current[i]
                for j in range(theirs):
                    output.columns[table.place[ours + j], found] = inner.columns[j, at]
                output.first[found] = min(outer.first[row], inner.first[at])
                outer_is_last = outer.last[row] >= inner.last[at]
                output.last[found] = outer.last[row] if outer_is_last else inner.last[at]
                output.end[found] = outer.end[row] if outer_is_last else inner.end[at]
                output.key[found] = key
                found += 1
            at += 1
    return found, rows, -1


@inner
def _compare_floats(comparison: int, x: float, y: float) -> bool:
    """Return whether a comparison holds; with a null it does not."""
    if comparison == LESS:
        return x < y
    if comparison == MORE:
        return x > y
    if comparison == AT_MOST:
        return x <= y
    if comparison == AT_LEAST:
        return x >= y
    if comparison == EQUAL:
        return x == y
    return x < y or x > y


@inner
def _stands_so(bundles: Bundles, relation: int, one: int, other: int) -> bool:
    """Return whether an outer item stands to an inner one as it must."""
    if relation == BEFORE:
        return bundles.last[one] < bundles.first[other]
    if relation == AFTER:
        return bundles.last[other] < bundles.first[one]
    return not have_common_event(bundles, one, other)


@inner
def _passes_tests_and_gaps(key: int, table: JoinTable, context: EvalContext) -> bool:
    """Return whether code and absences allow the combination that is in scope."""
    for number in range(context.tests.table.shape[0]):
        if not passes_test(context, number):
            return False
    bundles, current = context.bundles, context.scope.current
    for g in range(table.gap.shape[0]):
        since, until = MIN_TIME, MAX_TIME
        for slot in range(table.gap.shape[1]):
            if table.gap[g, slot] == 1:
                since = max(since, bundles.last[current[slot]])
            elif table.gap[g, slot] == 2:
                until = min(until, bundles.first[current[slot]])
        if has_event_between(context.absences, table.gap_absence[g], key, since, until):
            return False
    return True


def filter_instances(found: Instances, order: SmallInts, table: JoinTable, context: EvalContext, oldest: Ints) -> Flags:
    """Return which instances to keep: within the window, each pair of items in `order`, all tests, no gap filled.

    Of the table only the gaps are read. See `join` for `oldest`. O(1) for each instance and pair, but for code and
    gaps.
    """
    kept = np.zeros(len(found.first), np.bool_)
    _filter_instances(found, order, table, context, oldest, kept)
    return kept


@kernel
def _filter_instances(
    found: Instances, order: SmallInts, table: JoinTable, context: EvalContext, oldest: Ints, kept: Flags
) -> None:
    columns, bundles = found.columns, context.bundles
    needs_tests = context.tests.table.shape[0] > 0 or table.gap.shape[0] > 0
    key = 0
    for row in range(kept.size):
        while found.offsets[key + 1] <= row:
            key += 1
        fits = found.first[row] >= oldest[found.end[row]]
        pair = 0
        while fits and pair < order.shape[0]:
            fits = bundles.last[columns[order[pair, 0], row]] < bundles.first[columns[order[pair, 1], row]]
            pair += 1
        if fits and needs_tests:
            for item in range(columns.shape[0]):
                context.scope.current[item] = columns[item, row]
            fits = _passes_tests_and_gaps(key, table, context)
        kept[row] = fits


def flatten_bindings(
    columns: Ints, places: SmallInts, positions: SmallInts, bundles: Bundles
) -> tuple[Ints, SmallInts, Ints]:
    """Return what each instance binds: where its positions and events begin, and those. O(output).

    The positions of item i are those from `places[i]` on: one, or those that its bundles count by.
    """
    sizes = np.ones(columns.shape, np.int64)
    is_bundle = columns >= bundles.events
    if is_bundle.any():
        number = columns[is_bundle] - bundles.events
        sizes[is_bundle] = bundles.begin[number + 1] - bundles.begin[number]
    begin = np.zeros(columns.shape[1] + 1, np.int64)
    np.cumsum(sizes.sum(axis=0), out=begin[1:])
    position, event = np.empty(begin[-1], np.int32), np.empty(begin[-1], np.int64)
    _flatten_bindings(columns, places, positions, bundles, position, event)
    return begin, position, event


@kernel
def _flatten_bindings(
    columns: Ints, places: SmallInts, positions: SmallInts, bundles: Bundles, position: SmallInts, event: Ints
) -> None:
    to = 0
    for row in range(columns.shape[1]):
        for item in range(columns.shape[0]):
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
