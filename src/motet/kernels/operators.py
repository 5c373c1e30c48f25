"""Run the operators of a plan over all events in one call: leaves, joins, filters and path scans, read from one table.

Instances of all operators lie in one arena, each operator's from one row on, by key and then last time. Those that only
queries read are never kept: they leave as matches at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.arrays import MAX_TIME as MAX_TIME
from motet.kernels.arrays import MIN_TIME, Flags, Floats, Ints, SmallInts
from motet.kernels.expressions import AT_LEAST, AT_MOST, EQUAL, LESS, MORE
from motet.kernels.instances import (
    Bundles,
    EvalContext,
    change_value,
    has_event_between,
    have_common_event,
    passes_test,
    upper_bound,
)
from motet.kernels.jit import inner, kernel
from motet.kernels.paths import EdgeRules, free_since, passes_edge_tests

# How an item of the outer side stands to one of the inner.
FREE = 0
BEFORE = 1  # the outer item ends before the inner one begins
AFTER = 2
APART = 3  # in any order, but with no event in common

# What an operator does.
LEAF = 0  # the events of a symbol
JOIN = 1
FILTER = 2
OTHER = 3  # something that is run from outside
SCAN = 4  # the paths of a sequence of leaves
UNREAD = 5  # nothing: nobody reads it

# The columns of the operator table.
KIND = 0
OUTER = 1  # the operator that is read: a filter's only one
INNER = 2
OUTER_ITEMS = 3  # of a filter or path scan: all
INNER_ITEMS = 4
WINDOW = 5
IS_KEPT = 6  # whether other operators read its instances
SYMBOL = 7
OPERATOR_WIDTH = 8

# The columns of `begin`: where what an operator checks begins in the other tables.
RELATION = 0
VERIFY = 1
BEFORE_ALL = 2
PLACE = 3
GAP = 4
GAP_ABSENCE = 5
COMPARE = 6
TEST = 7
EDGE = 8
SINK = 9
BEGIN_WIDTH = 10

# Words of the state of a run.
AT_OPERATOR = 0
AT_OUTER = 1  # the outer row
AT_INNER = 2  # the inner row, -1 for the first that fits
AT_MATCH = 3  # the row to go on with when what was kept leaves as matches, -1 before that
ARENA_ROWS = 4  # rows of the arena in use
MATCHES = 5  # rows of the output in use
PREPARED = 6  # the join whose inner rows are in the scratch memory, -1 for none
STATE_WIDTH = 7

# Why a run stopped.
DONE = 0
ARENA_FULL = 1
OUTPUT_FULL = 2
AT_OTHER = 3

# Rows in a block of an index over an inequality, and its logarithm.
BLOCK = 16
SHIFT = 4
MOST_LEVELS = 20
# Inner rows that are looked at together.
LOOKED_AT = 256


class Operators(NamedTuple):
    """The operators of a plan, inputs first, and what each must check, from `begin[o]` to `begin[o + 1]` in the tables.

    Slots count the items of the outer side, then those of the inner. `relation[i, j]`: how outer item i stands to inner
    item j; a row of `verify` is an i, a j and their relation where times do not settle it (those of an item that comes
    before all inner ones, or after all, do); for a filter,
    two items of which the first must end before the second begins. `before_all[i]`: whether all inner items come before
    outer item i. `place[s]`: the column of slot s; for a filter, the input's column of item s; for a path scan, the
    operator of item s. `gap[g, s]`: 1 where gap g comes after slot s, 2 where before it; `gap_absence[g]`: what must
    not occur in it. A row of `compare` is one of `Tests` with the outer side on the left; the inner slot counts from
    the first inner item. `rules` are those of the edges of path scans, one to each item but the first. `sink[s]` is the
    window of the matches of sink s where that may be smaller than the operator's, else -1.
    """

    table: SmallInts
    begin: Ints
    relation: NDArray[np.int8]
    verify: SmallInts
    before_all: Flags
    place: SmallInts
    gap: NDArray[np.int8]
    gap_absence: SmallInts
    compare: SmallInts
    rules: EdgeRules
    sink: SmallInts


class Windows(NamedTuple):
    """The windows of operators: how long before an event a match with it may begin, or, where `row` is not -1, the row
    of `oldest` that has for each event the earliest first time of what may end with it.
    """

    length: Ints
    row: SmallInts
    oldest: Ints


class KeyedClasses(NamedTuple):
    """All events of every key in time order, with their classes; `has_symbol[s, c]`: whether class c has symbol s."""

    offsets: Ints
    time: Ints
    klass: SmallInts
    has_symbol: Flags


class Arena(NamedTuple):
    """Room for the instances of all operators: what each item is bound to, first and last time, and last event."""

    columns: Ints  # item, row
    first: Ints
    last: Ints
    end: Ints


class SinkBounds(NamedTuple):
    """The matches that each sink wants: those whose last time lies in [since, until)."""

    since: Ints
    until: Ints


class MatchOutput(NamedTuple):
    """Room for matches: what each item is bound to, the sink, first and last time, last event and key."""

    columns: Ints  # item, row
    sink: SmallInts
    first: Ints
    last: Ints
    end: Ints
    key: Ints


class PathScratch(NamedTuple):
    """Scratch memory of path scans: for each item and event of its leaf the latest first time of the paths that lead to
    it, the latest up to it in its key, and how many events of the item before it are earlier.

    `candidate[i]` is the event of item i that is being looked at, and `low[i]` the earliest time it may have.
    """

    latest: Ints
    so_far: Ints
    before: Ints
    candidate: Ints
    low: Ints


class OperatorRun(NamedTuple):
    """A run of operators: where each one's instances are in the arena, how many it made, and the state.

    Fewer inner rows than `rows_to_index` are searched as they are: not sorted by a value that must be equal, and
    without an index.
    """

    operators: Operators
    windows: Windows
    events: KeyedClasses
    bounds: SinkBounds
    start: Ints
    rows: Ints
    made: Ints
    state: Ints
    rows_to_index: int
    paths: PathScratch


def allocate_arena(items: int, rows: int) -> Arena:
    """Create room for so many instances of so many items."""
    return Arena(np.empty((items, rows), np.int64), *np.empty((3, rows), np.int64))


def allocate_output(items: int, rows: int) -> MatchOutput:
    """Create room for so many matches of so many items."""
    return MatchOutput(
        np.empty((items, rows), np.int64), np.empty(rows, np.int32), *(np.empty(rows, np.int64) for _ in range(4))
    )


def allocate_path_scratch(items: int, events: int) -> PathScratch:
    """Create scratch memory for paths of so many items."""
    return PathScratch(*np.empty((3, items, events), np.int64), *np.empty((2, items), np.int64))


def take_output(found: MatchOutput, rows: Any) -> MatchOutput:
    """Return some of the matches that left."""
    parts: list[Any] = [part[..., rows] for part in found]
    return MatchOutput(*parts)


@kernel
def run_operators(
    run: OperatorRun, arena: Arena, context: EvalContext, scratch: JoinScratch, output: MatchOutput
) -> int:
    """Run operators from where the state says until all are done, or something is full or to be run from outside.

    For each outer row of a join only those inner rows are looked at that its window and order allow, that have a value
    which must be equal, and whose blocks an inequality may hold in: O(log n) to find them, then O(1) each but for code.
    A filter looks at each row of its input, a leaf at each event, and a path scan at each event of its leaves and at
    each step of a path.
    """
    table, state = run.operators.table, run.state
    for operator in range(state[AT_OPERATOR], table.shape[0]):
        state[AT_OPERATOR] = operator
        kind = table[operator, KIND]
        if state[AT_MATCH] < 0:
            if run.rows[operator] < 0:
                run.start[operator], run.rows[operator] = state[ARENA_ROWS], 0
            if kind == OTHER:
                return AT_OTHER
            if kind == LEAF:
                status = _read_leaf(run, operator, arena)
            elif kind == JOIN:
                status = _join(run, operator, arena, context, scratch, output)
            elif kind == SCAN:
                status = _scan(run, operator, arena, context, scratch, output)
            elif kind == UNREAD:
                status = DONE
            else:
                status = _filter(run, operator, arena, context, scratch, output)
            if status != DONE:
                return status
            if kind == JOIN and table[operator, IS_KEPT]:
                _sort_rows(run, operator, arena, scratch)
            state[AT_OUTER], state[AT_INNER], state[AT_MATCH] = 0, -1, 0
        is_there = table[operator, IS_KEPT] or kind == LEAF
        if is_there and not _emit_kept(run, operator, arena, scratch, output):
            return OUTPUT_FULL
        state[AT_MATCH] = -1
    state[AT_OPERATOR] = table.shape[0]
    return DONE


@inner
def _oldest_start(windows: Windows, window: int, event: int, time: int) -> int:
    """Return the earliest first time of what may end with an event."""
    if windows.row[window] < 0:
        return time - windows.length[window]
    return windows.oldest[windows.row[window], event]


@inner
def _read_leaf(run: OperatorRun, operator: int, arena: Arena) -> int:
    """Write the events of a symbol. O(events)."""
    events, to = run.events, run.state[ARENA_ROWS]
    wanted = events.has_symbol[run.operators.table[operator, SYMBOL]]
    count = events.klass.size
    if to + count > arena.first.size:  # count only where there may be too little room
        count = 0
        for event in range(events.klass.size):
            count += wanted[events.klass[event]]
        if to + count > arena.first.size:
            return ARENA_FULL
    bound, first, last, end = arena.columns[0, to:], arena.first[to:], arena.last[to:], arena.end[to:]
    count = 0
    for event in range(events.klass.size):
        if wanted[events.klass[event]]:
            bound[count], end[count] = event, event
            first[count] = last[count] = events.time[event]
            count += 1
    to += count
    run.rows[operator], run.made[operator] = count, count
    run.state[ARENA_ROWS] = to
    return DONE


@inner
def _emit(run: OperatorRun, operator: int, output: MatchOutput, items: Ints, times: Ints, key: int) -> bool:
    """Hand an instance on to the sinks of an operator; return False where there is no room for it.

    `items` are what it binds, `times` its first and last time and last event.
    """
    operators, bounds, state = run.operators, run.bounds, run.state
    begin, stop = operators.begin[operator, SINK], operators.begin[operator + 1, SINK]
    if state[MATCHES] + stop - begin > output.first.size:
        return False
    for sink in range(begin, stop):
        if times[1] < bounds.since[sink] or times[1] >= bounds.until[sink]:
            continue
        window = operators.sink[sink]
        if window >= 0 and times[0] < _oldest_start(run.windows, window, times[2], times[1]):
            continue
        to = state[MATCHES]
        for item in range(items.size):
            output.columns[item, to] = items[item]
        output.sink[to] = sink
        output.first[to], output.last[to], output.end[to], output.key[to] = times[0], times[1], times[2], key
        state[MATCHES] += 1
    return True


@inner
def _emit_kept(run: OperatorRun, operator: int, arena: Arena, scratch: JoinScratch, output: MatchOutput) -> bool:
    """Hand the instances of an operator that are in the arena on to its sinks. O(instances)."""
    operators, state = run.operators, run.state
    if operators.begin[operator, SINK] == operators.begin[operator + 1, SINK]:
        return True
    count = operators.table[operator, OUTER_ITEMS] + operators.table[operator, INNER_ITEMS]
    items, times = scratch.items[:count], scratch.times
    key = 0
    for row in range(state[AT_MATCH], run.rows[operator]):
        at = run.start[operator] + row
        while run.events.offsets[key + 1] <= arena.end[at]:
            key += 1
        for item in range(count):
            items[item] = arena.columns[item, at]
        times[0], times[1], times[2] = arena.first[at], arena.last[at], arena.end[at]
        if not _emit(run, operator, output, items, times, key):
            state[AT_MATCH] = row
            return False
    return True


@inner
def _deliver(
    run: OperatorRun, operator: int, arena: Arena, output: MatchOutput, items: Ints, times: Ints, key: int
) -> int:
    """Keep an instance, or hand it on; return DONE, or what is full."""
    state = run.state
    if not run.operators.table[operator, IS_KEPT]:
        if not _emit(run, operator, output, items, times, key):
            return OUTPUT_FULL
    else:
        to = state[ARENA_ROWS]
        if to == arena.first.size:
            return ARENA_FULL
        for item in range(items.size):
            arena.columns[item, to] = items[item]
        arena.first[to], arena.last[to], arena.end[to] = times[0], times[1], times[2]
        state[ARENA_ROWS] += 1
        run.rows[operator] += 1
    run.made[operator] += 1
    return DONE


class JoinScratch(NamedTuple):
    """Scratch memory of joins, for as many rows as the arena has: the values that comparisons read of inner rows, and
    those rows sorted by a value that must be equal.

    `values[c, r]` is the inner side of comparison c, its last row is for values on their way. `maxima` has the largest
    value of each block of 16 rows, and then of 16 blocks of the level before, each from `level[l]` on. `outer_values`,
    `items` and `times` are of one row. `selected` are the inner rows that fit so far, `wanted` those of them that a
    sink wants.
    """

    values: Floats
    order: Ints  # two rows
    columns: Ints
    first: Ints
    last: Ints
    end: Ints
    maxima: Floats
    level: Ints
    outer_values: Floats
    items: Ints
    times: Ints
    selected: Ints
    wanted: Ints


class InnerRows(NamedTuple):
    """The inner rows of a join, from a row of some columns on: by last time, or sorted by a value."""

    base: int
    columns: Ints
    first: Ints
    last: Ints
    end: Ints


def allocate_scratch(items: int, comparisons: int, rows: int) -> JoinScratch:
    """Create scratch memory for joins of so many rows."""
    first, last, end = np.empty((3, rows), np.int64)
    return JoinScratch(
        np.empty((comparisons + 1, rows)),
        np.empty((2, rows), np.int64),
        np.empty((items, rows), np.int64),
        first,
        last,
        end,
        np.empty(rows // (BLOCK - 1) + 2 * MOST_LEVELS),
        np.zeros(MOST_LEVELS, np.int64),
        np.empty(comparisons + 1),
        np.empty(items, np.int64),
        np.empty(3, np.int64),
        np.empty(LOOKED_AT, np.int64),
        np.empty(LOOKED_AT, np.int64),
    )


@inner
def _choose_index(run: OperatorRun, operator: int) -> tuple[int, int, int]:
    """Return the comparison of values that must be equal by which to sort the inner rows of a join, the inequality to
    index (-1 for none), and which values that wants: large ones (1) or small ones (-1). O(comparisons).
    """
    operators = run.operators
    begin, stop = operators.begin[operator, COMPARE], operators.begin[operator + 1, COMPARE]
    equal, indexed, sign = -1, -1, 0
    if run.rows[operators.table[operator, INNER]] < run.rows_to_index:
        return equal, indexed, sign
    for c in range(stop - begin):
        comparison = operators.compare[begin + c, 0]
        if comparison == EQUAL:
            equal = c if equal < 0 else equal
        elif indexed < 0 and (comparison == LESS or comparison == AT_MOST):
            indexed, sign = c, 1
        elif indexed < 0 and (comparison == MORE or comparison == AT_LEAST):
            indexed, sign = c, -1
    return equal, indexed, sign


@inner
def _read_inner_values(
    run: OperatorRun, operator: int, arena: Arena, context: EvalContext, scratch: JoinScratch
) -> None:
    """Read the values that a join compares of its inner rows. O(rows x comparisons)."""
    operators = run.operators
    node = operators.table[operator, INNER]
    start, rows = run.start[node], run.rows[node]
    begin, stop = operators.begin[operator, COMPARE], operators.begin[operator + 1, COMPARE]
    for c in range(stop - begin):
        row = operators.compare[begin + c]
        item, source, change, constant = row[3], row[4], row[7], context.values.constants[row[8]]
        for at in range(rows):
            x = context.values.floats[source, arena.columns[item, start + at]]
            scratch.values[c, at] = change_value(change, x, constant)


@inner
def _sort_inner_rows(run: OperatorRun, operator: int, arena: Arena, scratch: JoinScratch, equal: int) -> None:
    """Copy the inner rows of a join, sorted by key and a value that must be equal, null last. O(n log n)."""
    operators, offsets = run.operators, run.events.offsets
    node = operators.table[operator, INNER]
    start, rows = run.start[node], run.rows[node]
    key, begin = 0, 0
    while begin < rows:
        while offsets[key + 1] <= arena.end[start + begin]:
            key += 1
        stop = begin
        while stop < rows and arena.end[start + stop] < offsets[key + 1]:
            stop += 1
        _sort_order(scratch.values[equal], scratch.order, begin, stop)
        begin = stop
    for to in range(rows):
        source = start + scratch.order[0, to]
        for item in range(operators.table[operator, INNER_ITEMS]):
            scratch.columns[item, to] = arena.columns[item, source]
        scratch.first[to], scratch.last[to], scratch.end[to] = (
            arena.first[source],
            arena.last[source],
            arena.end[source],
        )
    moved = scratch.values.shape[0] - 1
    for c in range(operators.begin[operator + 1, COMPARE] - operators.begin[operator, COMPARE]):
        for to in range(rows):
            scratch.values[moved, to] = scratch.values[c, scratch.order[0, to]]
        for to in range(rows):
            scratch.values[c, to] = scratch.values[moved, to]


@inner
def _sort_order(values: Floats, order: Ints, begin: int, stop: int) -> None:
    """Sort the numbers from `begin` to `stop` by their values, null last, into the first row of the order.

    Equal ones stay as they are. O(n log n), and O(n) where they are in order.
    """
    in_order = True
    for at in range(begin, stop):
        order[0, at] = at
        if at > begin and not _is_in_order(values[at - 1], values[at]):
            in_order = False
    width = 1
    while not in_order and width < stop - begin:
        low = begin
        while low < stop:
            middle, high = min(low + width, stop), min(low + 2 * width, stop)
            left, right = low, middle
            for to in range(low, high):
                if left < middle and (right >= high or _is_in_order(values[order[0, left]], values[order[0, right]])):
                    order[1, to] = order[0, left]
                    left += 1
                else:
                    order[1, to] = order[0, right]
                    right += 1
            low = high
        for at in range(begin, stop):
            order[0, at] = order[1, at]
        width *= 2


@inner
def _is_in_order(x: float, y: float) -> bool:
    """Return whether a value may come before another, null last."""
    return x <= y or np.isnan(y)


@inner
def _size_levels(rows: int, level: Ints) -> int:
    """Write where each level of an index over so many rows begins; return how many there are."""
    count, size = 0, rows
    level[0] = 0
    while count == 0 or size > BLOCK:
        size = (size + BLOCK - 1) // BLOCK
        level[count + 1] = level[count] + size
        count += 1
    return count


@inner
def _fill_maxima(values: Floats, rows: int, sign: int, maxima: Floats, level: Ints, levels: int) -> None:
    """Fill in the largest value of each block, level by level; a null is never as large. O(n)."""
    for block in range(level[1]):
        best = -np.inf
        for at in range(block * BLOCK, min((block + 1) * BLOCK, rows)):
            if sign * values[at] > best:
                best = sign * values[at]
        maxima[block] = best
    for number in range(1, levels):
        below = level[number] - level[number - 1]
        for block in range(level[number + 1] - level[number]):
            best = -np.inf
            for at in range(block * BLOCK, min((block + 1) * BLOCK, below)):
                best = max(best, maxima[level[number - 1] + at])
            maxima[level[number] + block] = best


@inner
def _skip_small(maxima: Floats, level: Ints, levels: int, at: int, end: int, least: float) -> int:
    """Return the first row of the first block, from the one that begins at a row on, that holds a value as large, or
    `end`. O(16 log n).
    """
    number, block = 0, at >> SHIFT
    while maxima[level[number] + block] < least:
        block += 1
        while block & (BLOCK - 1) == 0 and number + 1 < levels:
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


@inner
def _join(
    run: OperatorRun, operator: int, arena: Arena, context: EvalContext, scratch: JoinScratch, output: MatchOutput
) -> int:
    """Join the rows of two operators from where the state says; return DONE, or what is full."""
    operators, windows, state, offsets = run.operators, run.windows, run.state, run.events.offsets
    table, begin, after = operators.table[operator], operators.begin[operator], operators.begin[operator + 1]
    window, ours, theirs = table[WINDOW], table[OUTER_ITEMS], table[INNER_ITEMS]
    start, rows, size = run.start[table[OUTER]], run.rows[table[OUTER]], run.rows[table[INNER]]
    compare = operators.compare[begin[COMPARE] : after[COMPARE]]
    is_checked = begin[VERIFY] < after[VERIFY] or begin[TEST] < after[TEST]
    is_checked = is_checked or begin[GAP_ABSENCE] < after[GAP_ABSENCE]
    bundles, current, outer_values, selected = (
        context.bundles,
        context.scope.current,
        scratch.outer_values,
        scratch.selected,
    )
    since = MAX_TIME
    for sink in range(begin[SINK], after[SINK]):
        since = min(since, run.bounds.since[sink])
    if table[IS_KEPT]:
        since = MIN_TIME
    equal, indexed, sign = _choose_index(run, operator)
    levels = _size_levels(size, scratch.level) if indexed >= 0 else 0
    if state[PREPARED] != operator:
        _read_inner_values(run, operator, arena, context, scratch)
        if equal >= 0:
            _sort_inner_rows(run, operator, arena, scratch, equal)
        if indexed >= 0:
            _fill_maxima(scratch.values[indexed], size, sign, scratch.maxima, scratch.level, levels)
        state[PREPARED] = operator
    inner_rows = InnerRows(run.start[table[INNER]], arena.columns, arena.first, arena.last, arena.end)
    if equal >= 0:
        inner_rows = InnerRows(0, scratch.columns, scratch.first, scratch.last, scratch.end)
    base = inner_rows.base
    key, key_begin, key_end, near, far = -1, 0, 0, 0, 0
    is_plain = windows.row[window] < 0
    blocks = 1  # to look at before the index is asked again: more while it excludes none
    for row in range(state[AT_OUTER], rows):
        outer = start + row
        if key < 0 or offsets[key + 1] <= arena.end[outer]:
            key = _seek(offsets, 0, max(key, 0), offsets.size, max(key, 0), arena.end[outer] + 1) - 1
            key_begin = _seek(inner_rows.end, base, key_end, size, key_end, offsets[key])
            key_end = _seek(inner_rows.end, base, key_begin, size, key_begin, offsets[key + 1])
            near = far = key_begin
        limit = _oldest_start(windows, window, arena.end[outer], arena.last[outer])
        if arena.first[outer] < limit or key_begin == key_end:
            continue
        low, high, begins = limit, MAX_TIME, limit
        if arena.last[outer] < since:
            low = max(low, since)
        for i in range(ours):
            current[i] = arena.columns[i, outer]
            first_time, last_time = arena.first[outer], arena.last[outer]
            if ours > 1:
                first_time, last_time = bundles.first[current[i]], bundles.last[current[i]]
            if operators.before_all[begin[BEFORE_ALL] + i]:
                high = min(high, first_time)
            later = 0
            for j in range(theirs):
                later += operators.relation[begin[RELATION] + i * theirs + j] == BEFORE
            if later > 0:
                low = max(low, last_time + 1)
            if later == theirs:
                begins = max(begins, last_time + 1)
        known = True
        for c in range(compare.shape[0]):
            x = context.values.floats[compare[c, 2], current[compare[c, 1]]]
            outer_values[c] = change_value(compare[c, 5], x, context.values.constants[compare[c, 6]])
            known &= not np.isnan(outer_values[c])
        if not known:
            continue
        at, end = key_begin, key_end
        if equal >= 0:
            end = _first_not_less(scratch.values[equal], at, end, outer_values[equal], False)
            at = _first_not_less(scratch.values[equal], at, end, outer_values[equal], True)
            near = at
        at = near = _seek(inner_rows.last, base, at, end, near, low)
        if state[AT_INNER] >= 0:
            at = state[AT_INNER]
            state[AT_INNER] = -1
        if is_plain:
            too_late = min(high, arena.first[outer] + windows.length[window] + 1)
            stop = far = _seek(inner_rows.last, base, at, end, min(max(far, at), end), too_late)
        else:
            stop = _find_stop(inner_rows, at, end, high, arena.first[outer], windows, window)
        least = sign * outer_values[indexed] if indexed >= 0 else 0.0
        while at < stop:
            until = min(at + LOOKED_AT, stop)
            if indexed >= 0 and stop - at > BLOCK:
                to = _skip_small(scratch.maxima, scratch.level, levels, at, stop, least)
                blocks = 1 if to > at else min(2 * blocks, LOOKED_AT // BLOCK)
                at = max(at, to)
                until = min((at | (BLOCK - 1)) + 1 + (blocks - 1) * BLOCK, stop)
            count = _select_in_window(inner_rows, at, until, begins, windows, window, selected)
            for c in range(compare.shape[0]):
                count = _keep_compared(compare[c, 0], outer_values[c], scratch.values[c], selected, count)
            if is_checked:
                count = _keep_checked(operators, operator, key, context, inner_rows, selected, count)
            if count > 0:
                fitting = _deliver_joined(run, operator, arena, context, scratch, output, inner_rows, outer, count, key)
                if fitting < count:
                    state[AT_OUTER], state[AT_INNER] = row, selected[fitting]
                    return ARENA_FULL if table[IS_KEPT] else OUTPUT_FULL
            at = until
    return DONE


@inner
def _seek(times: Ints, base: int, begin: int, end: int, near: int, moment: int) -> int:
    """Return the first of some rows, which count from a base, whose time is at least a moment, or `end`: near a row.

    O(log distance).
    """
    low, high, step = near, near, 1
    while high < end and times[base + high] < moment:
        low, high = high + 1, high + step
        step *= 2
    while low > begin and times[base + low - 1] >= moment:
        low, high = low - step, low
        step *= 2
    return upper_bound(times, base + max(low, begin), base + min(high, end), moment - 1) - base


@inner
def _find_stop(rows: InnerRows, at: int, end: int, high: int, first: int, windows: Windows, window: int) -> int:
    """Return the first of some inner rows that ends too late: at `high`, or where the window has left a first time.

    For windows whose bounds are listed event by event. O(log rows before it).
    """
    step = 1
    while at < end:
        probe = min(at + step, end) - 1
        inside = rows.base + probe
        if rows.last[inside] < high and _oldest_start(windows, window, rows.end[inside], rows.last[inside]) <= first:
            at = probe + 1
            step *= 2
        elif step == 1:
            return at
        else:
            end = probe
            step = max((end - at) // 2, 1)
    return at


@inner
def _select_in_window(
    rows: InnerRows, at: int, until: int, limit: int, windows: Windows, window: int, selected: Ints
) -> int:
    """Write the inner rows of a stretch that begin in the window of both sides; return how many. O(rows)."""
    count, base = 0, rows.base
    first, last, end = (
        rows.first[base + at : base + until],
        rows.last[base + at : base + until],
        rows.end[base + at : base + until],
    )
    if windows.row[window] < 0:
        length = windows.length[window]
        for row in range(first.size):
            selected[count] = at + row
            count += (first[row] >= limit) & (first[row] >= last[row] - length)
    else:
        for row in range(first.size):
            selected[count] = at + row
            allowed = _oldest_start(windows, window, end[row], last[row])
            count += (first[row] >= limit) & (first[row] >= allowed)
    return count


@inner
def _keep_compared(comparison: int, x: float, values: Floats, selected: Ints, count: int) -> int:
    """Keep the selected rows whose values compare so with one; return how many. A null never does. O(rows)."""
    kept = 0
    if comparison == LESS:
        for at in range(count):
            row = selected[at]
            selected[kept] = row
            kept += x < values[row]
    elif comparison == MORE:
        for at in range(count):
            row = selected[at]
            selected[kept] = row
            kept += x > values[row]
    else:
        for at in range(count):
            row = selected[at]
            selected[kept] = row
            kept += _compare_floats(comparison, x, values[row])
    return kept


@inner
def _keep_checked(
    operators: Operators,
    operator: int,
    key: int,
    context: EvalContext,
    rows: InnerRows,
    selected: Ints,
    count: int,
) -> int:
    """Keep the selected rows that stand to the outer items in scope as they must, and pass code and absences."""
    begin, after = operators.begin[operator], operators.begin[operator + 1]
    ours, theirs = operators.table[operator, OUTER_ITEMS], operators.table[operator, INNER_ITEMS]
    bundles, current = context.bundles, context.scope.current
    kept = 0
    for at in range(count):
        inside = rows.base + selected[at]
        fits = True
        v = begin[VERIFY]
        while fits and v < after[VERIFY]:
            one, other = current[operators.verify[v, 0]], rows.columns[operators.verify[v, 1], inside]
            fits = _holds_relation(bundles, operators.verify[v, 2], one, other)
            v += 1
        if fits:
            for j in range(theirs):
                current[ours + j] = rows.columns[j, inside]
            fits = _passes_tests_and_gaps(operators, operator, key, context)
        selected[kept] = selected[at]
        kept += fits
    return kept


@inner
def _deliver_joined(
    run: OperatorRun,
    operator: int,
    arena: Arena,
    context: EvalContext,
    scratch: JoinScratch,
    output: MatchOutput,
    rows: InnerRows,
    outer: int,
    count: int,
    key: int,
) -> int:
    """Keep an outer row joined with the selected inner rows, or hand it on; return for how many there was room."""
    operators, state, bounds = run.operators, run.state, run.bounds
    begin, stop = operators.begin[operator, SINK], operators.begin[operator + 1, SINK]
    first, last, end, base = arena.first[outer], arena.last[outer], arena.end[outer], rows.base
    if operators.table[operator, IS_KEPT]:
        to = state[ARENA_ROWS]
        count = min(count, arena.first.size - to)
        for at in range(count):
            inside = base + scratch.selected[at]
            arena.first[to + at] = min(first, rows.first[inside])
            arena.last[to + at] = max(last, rows.last[inside])
            arena.end[to + at] = end if last >= rows.last[inside] else rows.end[inside]
        _write_items(operators, operator, context, rows, scratch.selected, count, arena.columns, to)
        state[ARENA_ROWS] += count
        run.rows[operator] += count
    else:
        if stop > begin:
            count = min(count, (output.first.size - state[MATCHES]) // (stop - begin))
        for sink in range(begin, stop):
            since, until, window = bounds.since[sink], bounds.until[sink], operators.sink[sink]
            to, made = state[MATCHES], 0
            for at in range(count):
                inside = base + scratch.selected[at]
                begins, ends = min(first, rows.first[inside]), max(last, rows.last[inside])
                ended = end if last >= rows.last[inside] else rows.end[inside]
                output.sink[to + made], output.key[to + made] = sink, key
                output.first[to + made], output.last[to + made], output.end[to + made] = begins, ends, ended
                scratch.wanted[made] = scratch.selected[at]
                is_wanted = (ends >= since) & (ends < until)
                if window >= 0:
                    is_wanted &= begins >= _oldest_start(run.windows, window, ended, ends)
                made += is_wanted
            _write_items(operators, operator, context, rows, scratch.wanted, made, output.columns, to)
            state[MATCHES] += made
    run.made[operator] += count
    return count


@inner
def _write_items(
    operators: Operators,
    operator: int,
    context: EvalContext,
    rows: InnerRows,
    selected: Ints,
    count: int,
    columns: Ints,
    to: int,
) -> None:
    """Write what the outer items in scope and those of some inner rows are bound to, from a row on. O(output)."""
    ours, theirs = operators.table[operator, OUTER_ITEMS], operators.table[operator, INNER_ITEMS]
    place = operators.begin[operator, PLACE]
    for i in range(ours):
        column, bound = operators.place[place + i], context.scope.current[i]
        for at in range(count):
            columns[column, to + at] = bound
    for j in range(theirs):
        column = operators.place[place + ours + j]
        for at in range(count):
            columns[column, to + at] = rows.columns[j, rows.base + selected[at]]


@inner
def _first_not_less(values: Floats, begin: int, end: int, x: float, strictly: bool) -> int:
    """Return the first place of sorted values that is at least as large as one, or larger unless `strictly`.

    O(log n).
    """
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] < x or (not strictly and values[middle] == x):
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def _sort_rows(run: OperatorRun, operator: int, arena: Arena, scratch: JoinScratch) -> None:
    """Sort the instances of an operator by key and last time, where they are not. O(n log n)."""
    start, rows, table = run.start[operator], run.rows[operator], run.operators.table
    in_order = True
    for row in range(1, rows):
        in_order &= arena.end[start + row] >= arena.end[start + row - 1]
    if in_order:
        return
    # Events are numbered by key and time.
    for row in range(rows):
        scratch.values[0, row] = float(arena.end[start + row])
    _sort_order(scratch.values[0], scratch.order, 0, rows)
    for item in range(table[operator, OUTER_ITEMS] + table[operator, INNER_ITEMS]):
        _move_rows(arena.columns[item], start, rows, scratch.order)
    _move_rows(arena.first, start, rows, scratch.order)
    _move_rows(arena.last, start, rows, scratch.order)
    _move_rows(arena.end, start, rows, scratch.order)


@inner
def _move_rows(column: Ints, start: int, rows: int, order: Ints) -> None:
    """Bring the rows of a column into an order."""
    for row in range(rows):
        order[1, row] = column[start + order[0, row]]
    for row in range(rows):
        column[start + row] = order[1, row]


@inner
def _filter(
    run: OperatorRun, operator: int, arena: Arena, context: EvalContext, scratch: JoinScratch, output: MatchOutput
) -> int:
    """Pass on the rows of an operator that are in the window and in order, pass all tests and have no gap filled."""
    operators, state, offsets = run.operators, run.state, run.events.offsets
    table, begin, after = operators.table[operator], operators.begin[operator], operators.begin[operator + 1]
    start, rows, count = run.start[table[OUTER]], run.rows[table[OUTER]], table[OUTER_ITEMS]
    needs_tests = begin[TEST] < after[TEST] or begin[GAP_ABSENCE] < after[GAP_ABSENCE]
    bundles, current = context.bundles, context.scope.current
    items, times = scratch.items[:count], scratch.times
    key = 0
    for row in range(state[AT_OUTER], rows):
        at = start + row
        while offsets[key + 1] <= arena.end[at]:
            key += 1
        if arena.first[at] < _oldest_start(run.windows, table[WINDOW], arena.end[at], arena.last[at]):
            continue
        for item in range(count):
            items[item] = arena.columns[operators.place[begin[PLACE] + item], at]
            current[item] = items[item]
        fits = True
        v = begin[VERIFY]
        while fits and v < after[VERIFY]:
            fits = bundles.last[items[operators.verify[v, 0]]] < bundles.first[items[operators.verify[v, 1]]]
            v += 1
        if not fits or (needs_tests and not _passes_tests_and_gaps(operators, operator, key, context)):
            continue
        times[0], times[1], times[2] = arena.first[at], arena.last[at], arena.end[at]
        status = _deliver(run, operator, arena, output, items, times, key)
        if status != DONE:
            state[AT_OUTER] = row
            return status
    return DONE


@inner
def _scan(
    run: OperatorRun, operator: int, arena: Arena, context: EvalContext, scratch: JoinScratch, output: MatchOutput
) -> int:
    """List the paths of a sequence, back from each event that may end one in the window.

    Every step belongs to a path but where tests or absences exclude it: O(output) beside finding the latest starts.
    """
    operators, state, offsets, paths = run.operators, run.state, run.events.offsets, run.paths
    table, begin = operators.table[operator], operators.begin[operator]
    count = table[OUTER_ITEMS]
    leaves = operators.place[begin[PLACE] : begin[PLACE] + count]
    if state[PREPARED] != operator:
        for item in range(count):
            _find_latest_starts(run, operator, item, arena, context)
        state[PREPARED] = operator
    since = MIN_TIME if table[IS_KEPT] else MAX_TIME
    for sink in range(begin[SINK], operators.begin[operator + 1, SINK]):
        since = min(since, run.bounds.since[sink])
    items, times = scratch.items[:count], scratch.times
    start, key, top = run.start[leaves[count - 1]], 0, count - 1
    for row in range(state[AT_OUTER], run.rows[leaves[top]]):
        event, time = arena.end[start + row], arena.last[start + row]
        floor = _oldest_start(run.windows, table[WINDOW], event, time)
        if time < since or paths.latest[top, row] < floor:
            continue
        while offsets[key + 1] <= event:
            key += 1
        items[top], times[1], times[2] = event, time, event
        at = top
        if state[AT_INNER] >= 0:  # go on with the first item of a path that there was no room for
            at = 0
            for item in range(1, top):
                items[item] = arena.end[run.start[leaves[item]] + paths.candidate[item]]
            state[AT_INNER] = -1
        else:
            paths.candidate[top] = row
            at = _enter_item(run, operator, arena, context, top, floor, key)
        while at < top:
            base = run.start[leaves[at]]
            candidate = paths.candidate[at] - 1
            found = False
            while (
                candidate >= 0
                and arena.last[base + candidate] >= paths.low[at]
                and arena.end[base + candidate] >= offsets[key]
                and paths.so_far[at, candidate] >= floor
            ):
                if paths.latest[at, candidate] >= floor and passes_edge_tests(
                    operators.rules, context, begin[EDGE] + at + 1, arena.end[base + candidate], items[at + 1]
                ):
                    found = True
                    break
                candidate -= 1
            paths.candidate[at] = candidate
            if not found:
                at += 1
                continue
            items[at] = arena.end[base + candidate]
            if at > 0:
                at = _enter_item(run, operator, arena, context, at, floor, key)
                continue
            times[0] = arena.last[base + candidate]
            status = _deliver(run, operator, arena, output, items, times, key)
            if status != DONE:
                paths.candidate[0] = candidate + 1
                state[AT_OUTER], state[AT_INNER] = row, 0
                return status
    return DONE


@inner
def _enter_item(
    run: OperatorRun, operator: int, arena: Arena, context: EvalContext, item: int, floor: int, key: int
) -> int:
    """Go on from an item of a path to the one before it: all its events before this one are candidates."""
    begin, paths = run.operators.begin[operator], run.paths
    row = paths.candidate[item]
    leaf = run.operators.place[begin[PLACE] + item]
    time = arena.last[run.start[leaf] + row]
    free = free_since(run.operators.rules, context.absences, begin[EDGE] + item, key, time)
    paths.candidate[item - 1], paths.low[item - 1] = paths.before[item, row], max(floor, free)
    return item - 1


@inner
def _find_latest_starts(run: OperatorRun, operator: int, item: int, arena: Arena, context: EvalContext) -> None:
    """Find for each event of an item the latest first time of the paths to it, from those of the item before.

    O(events), and O(log n) for each absence.
    """
    operators, offsets, paths = run.operators, run.events.offsets, run.paths
    begin = operators.begin[operator]
    leaf = operators.place[begin[PLACE] + item]
    start, rows = run.start[leaf], run.rows[leaf]
    latest, so_far, before = paths.latest[item], paths.so_far[item], paths.before[item]
    if item == 0:
        for row in range(rows):
            latest[row] = so_far[row] = arena.last[start + row]
        return
    leaf = operators.place[begin[PLACE] + item - 1]
    base, size, known = run.start[leaf], run.rows[leaf], paths.latest[item - 1]
    key, seen, first, next_event = -1, 0, 0, 0
    free, best, best_so_far = MIN_TIME, MIN_TIME, MIN_TIME
    for row in range(rows):
        event, time = arena.end[start + row], arena.last[start + row]
        if event >= next_event:
            key += 1
            while offsets[key + 1] <= event:
                key += 1
            next_event = offsets[key + 1]
            while seen < size and arena.end[base + seen] < offsets[key]:
                seen += 1
            first, free, best, best_so_far = seen, MIN_TIME, MIN_TIME, MIN_TIME
        since = free_since(operators.rules, context.absences, begin[EDGE] + item, key, time)
        if since > free:  # what came before an absent event is forgotten, the rest looked at once more
            free, best = since, MIN_TIME
            seen = upper_bound(arena.last, base + first, base + seen, since - 1) - base
        while seen < size and arena.end[base + seen] < next_event and arena.last[base + seen] < time:
            if arena.last[base + seen] >= free:
                best = max(best, known[seen])
            seen += 1
        best_so_far = max(best_so_far, best)
        latest[row], so_far[row], before[row] = best, best_so_far, seen


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
def _holds_relation(bundles: Bundles, relation: int, one: int, other: int) -> bool:
    """Return whether an outer item stands to an inner one as it must."""
    if relation == BEFORE:
        return bundles.last[one] < bundles.first[other]
    if relation == AFTER:
        return bundles.last[other] < bundles.first[one]
    return not have_common_event(bundles, one, other)


@inner
def _passes_tests_and_gaps(operators: Operators, operator: int, key: int, context: EvalContext) -> bool:
    """Return whether code and absences allow the combination that is in scope."""
    begin, after = operators.begin[operator], operators.begin[operator + 1]
    for number in range(begin[TEST], after[TEST]):
        if not passes_test(context, number):
            return False
    bundles, current = context.bundles, context.scope.current
    slots = operators.table[operator, OUTER_ITEMS] + operators.table[operator, INNER_ITEMS]
    for g in range(after[GAP_ABSENCE] - begin[GAP_ABSENCE]):
        since, until = MIN_TIME, MAX_TIME
        for slot in range(slots):
            side = operators.gap[begin[GAP] + g * slots + slot]
            if side == 1:
                since = max(since, bundles.last[current[slot]])
            elif side == 2:
                until = min(until, bundles.first[current[slot]])
        absence = operators.gap_absence[begin[GAP_ABSENCE] + g]
        if has_event_between(context.absences, absence, key, since, until):
            return False
    return True


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
    """Fill in the positions and events; see `flatten_bindings`."""
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
