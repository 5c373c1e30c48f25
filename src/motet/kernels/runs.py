"""Run a pattern by a policy: from each event to the next that continues a run, so that nothing is listed to be dropped.

Under SKIP TILL NEXT and CONTIGUOUS the time of the next step depends on the last one only: it is the earliest at which
any position may follow, or that of the next event. Key by key, one pass finds that step for each event and
position, and whether a match can still come of it; then runs are walked only where one does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, Flags, Ints, SmallInts
from motet.kernels.instances import EvalContext, passes_test
from motet.kernels.jit import inner, kernel
from motet.kernels.paths import EdgeRules, PathCursor, PathList, free_since, new_cursor, passes_edge_tests

# Words of a run's state.
KEY = 0
IS_LINKED = 1  # whether the steps of the key are known
START = 2  # the event and item with which the runs begin that are being listed
START_ITEM = 3
DEPTH = 4


class EarlierTests(NamedTuple):
    """Tests of a step and the events before it in its run. They have the numbers from `number` on.

    Test i compares each event of an item p where `source[i, p]`, or the first of them only, with a step to an item q
    where `target[i, q]`.
    """

    number: int
    source: Flags
    target: Flags
    first_only: Flags


class RunTable(NamedTuple):
    """A pattern of single events. An event of class c may be bound to item p where `binds[c, p]`, and to any item where
    `is_bound[c]`.

    The edges that leave item p are those from `leaving[p]` to `leaving[p + 1]`, and edge e leads to item `target[e]`:
    at a later time, or where `together[e]` at the same time, by another event and to an item with a higher number.
    Where a step leads to the next event, tests are made once for each event: those with the numbers in `distinct`, of
    which edge e asks for the bits of `asked[e]`. Else there are none in `distinct`. `has_ties`: some edge is taken at
    the same time.
    """

    binds: Flags
    is_bound: Flags
    begins: Flags
    ends: Flags
    leaving: Ints
    target: SmallInts
    together: Flags
    rules: EdgeRules
    distinct: SmallInts
    asked: Ints
    earlier: EarlierTests
    is_contiguous: bool
    has_ties: bool


class RunEvents(NamedTuple):
    """All events of every key in time order; `oldest` has for each the earliest first time of what may end with it.

    Matches that end before `since` are not wanted.
    """

    offsets: Ints
    time: Ints
    klass: SmallInts
    oldest: Ints
    since: int


class RunState(NamedTuple):
    """What is known of the key that is being run, by its events and items, and where listing stands.

    `then` is the first event of the next step (-1: none), `earliest_start` the earliest start of a run to the event
    that is completed in its window (MAX_TIME: none is). `chain` leads from an event to the next that may be bound to
    the same item. `heads` has for each item the first such event of later times, and of any. `held` are the bits of the
    distinct tests that hold between an event and the next.
    """

    then: SmallInts
    earliest_start: Ints
    chain: SmallInts
    heads: Ints
    held: Ints
    words: Ints
    cursor: PathCursor


def new_run_state(table: RunTable, events: RunEvents) -> RunState:
    """Create the state of a run that has not begun. O(items x events of the largest key)."""
    longest, items = int(np.diff(events.offsets).max(initial=0)), len(table.begins)
    return RunState(
        np.empty((longest, items), np.int32),
        np.empty((longest, items), np.int64),
        np.empty((0 if table.is_contiguous else longest, items), np.int32),
        np.empty((2, items), np.int64),
        np.empty(longest if table.is_contiguous else 0, np.int64),
        np.zeros(5, np.int64),
        new_cursor(longest + 2),
    )


@kernel
def list_runs(
    table: RunTable, events: RunEvents, state: RunState, context: EvalContext, out: PathList
) -> tuple[int, bool]:
    """List the matches of all keys, from a state on until all are listed or the room is full.

    Returns how many there are, and whether all are listed. O(events x edges) to find the steps where edges have no
    tests and for CONTIGUOUS (else also as many tests as events lie between one and the first that passes, in the
    window at most), and O(steps of runs that become matches, or would but for tests of earlier events).
    """
    words = state.words
    found = 0
    while words[KEY] < events.offsets.size - 1:
        if not words[IS_LINKED]:
            _link_key(table, events, state, context)
            words[IS_LINKED], words[DEPTH] = 1, -1
            words[START], words[START_ITEM] = events.offsets[words[KEY]], 0
        if _follows_neighbours(table):
            found, is_full = _list_neighbours(table, events, state, context, out, found)
        else:
            found, is_full = _list_key(table, events, state, context, out, found)
        if is_full:
            return found, False
        words[KEY] += 1
        words[IS_LINKED] = 0
    return found, True


@inner
def _follows_neighbours(table: RunTable) -> bool:
    """Return whether each step leads to the next event, tests are numbered and nothing is absent."""
    edges = table.target.size
    has_numbers = table.distinct.size > 0 or table.rules.tests[edges] == 0
    return table.is_contiguous and not table.has_ties and has_numbers and table.rules.ways[edges] == 0


@inner
def _link_key(table: RunTable, events: RunEvents, state: RunState, context: EvalContext) -> None:
    """Find the next steps of all events of a key, last ones first."""
    base, end = events.offsets[state.words[KEY]], events.offsets[state.words[KEY] + 1]
    items = table.begins.size
    if _follows_neighbours(table):
        _link_neighbours(table, events, state, context, base, end)
        return
    for q in range(items):
        state.heads[0, q] = -1
        state.heads[1, q] = -1
    after = end
    while after > base:
        first = after - 1
        while first > base and events.time[first - 1] == events.time[first]:
            first -= 1
        if not table.is_contiguous and after - first == 1 and not table.is_bound[events.klass[first]]:
            after = first
            continue
        follower = _find_neighbour(events, first, after, end, table.has_ties) if table.is_contiguous else -1
        if follower >= 0 and not table.has_ties:
            state.held[first - base] = _test_neighbours(table, context, first, follower)
        for back in range(items):  # of steps at one time, later ones have higher numbers
            p = items - 1 - back
            for e in range(first, after):
                if table.binds[events.klass[e], p]:
                    if not table.is_contiguous:
                        follower = _find_next(table, events, state, context, p, e, base)
                    _link_step(table, events, state, context, p, e, follower, first)
        if not table.is_contiguous:
            for back in range(after - first):
                e = after - 1 - back
                for q in range(items):
                    if table.binds[events.klass[e], q]:
                        state.chain[e - base, q] = state.heads[1, q]
                        state.heads[1, q] = e - base
            for q in range(items):
                state.heads[0, q] = state.heads[1, q]
        after = first


@inner
def _link_neighbours(
    table: RunTable, events: RunEvents, state: RunState, context: EvalContext, base: int, end: int
) -> None:
    """Link each event of a key with the next one, where tests are numbered and nothing is absent. O(events x edges).

    Whether there is a next step is written for the first item only: it is the same for all.
    """
    items, follower, is_alone_after = table.begins.size, -1, False
    for back in range(end - base):
        event = end - 1 - back
        now = events.time[event]
        is_alone = (event == base or events.time[event - 1] != now) and (
            event + 1 == end or events.time[event + 1] != now
        )
        follower = event + 1 - base if is_alone and is_alone_after else -1
        is_alone_after = is_alone
        held = _test_neighbours(table, context, event, event + 1) if follower >= 0 else 0
        state.held[event - base], state.then[event - base, 0] = held, follower
        own, binds = state.earliest_start[event - base], table.binds[events.klass[event]]
        oldest = events.oldest[event] if now >= events.since else MAX_TIME
        if follower < 0:
            for p in range(items):
                own[p] = oldest if table.ends[p] and binds[p] else MAX_TIME
            continue
        later = state.earliest_start[follower]
        for p in range(items):
            earliest_start = oldest if table.ends[p] else MAX_TIME
            for edge in range(table.leaving[p], table.leaving[p + 1]):
                if held & table.asked[edge] == table.asked[edge]:
                    earliest_start = min(earliest_start, later[table.target[edge]])
            own[p] = earliest_start if binds[p] else MAX_TIME


@inner
def _find_neighbour(events: RunEvents, first: int, after: int, end: int, has_ties: bool) -> int:
    """Return the event after a time, -1 where there is none or, unless ties may be bound, either time has several."""
    is_alone = has_ties or (after - first == 1 and (after + 1 >= end or events.time[after + 1] != events.time[after]))
    return after if is_alone and after < end else -1


@inner
def _test_neighbours(table: RunTable, context: EvalContext, event: int, follower: int) -> int:
    """Return the bits of the distinct tests that hold between an event and the next."""
    scope = context.scope
    scope.current[0], scope.current[1] = event, follower
    held = 0
    for bit in range(table.distinct.size):
        if passes_test(context, table.distinct[bit]):
            held |= 1 << bit
    return held


@inner
def _find_next(
    table: RunTable, events: RunEvents, state: RunState, context: EvalContext, item: int, event: int, base: int
) -> int:
    """Return the first event of the earliest time in the window at which a step may follow another, or -1."""
    found, earliest, now = -1, MAX_TIME, events.time[event]
    for edge in range(table.leaving[item], table.leaving[item + 1]):
        q = table.target[edge]
        at = -1 if table.has_ties and table.together[edge] else state.heads[0, q]
        while at >= 0 and events.time[base + at] < earliest and events.oldest[base + at] <= now:
            if passes_edge_tests(table.rules, context, edge, event, base + at):
                found, earliest = base + at, events.time[base + at]
                break
            at = state.chain[at, q]
    while found > base and events.time[found - 1] == earliest:
        found -= 1
    return found


@inner
def _link_step(
    table: RunTable,
    events: RunEvents,
    state: RunState,
    context: EvalContext,
    item: int,
    event: int,
    follower: int,
    together: int,
) -> None:
    """Note the next step of an event at an item, and the earliest start of what is completed from there.

    `follower` is the first event of the next time, `together` that of the event's own.
    """
    key = state.words[KEY]
    base, end = events.offsets[key], events.offsets[key + 1]
    is_wanted = table.ends[item] and events.time[event] >= events.since
    earliest_start = events.oldest[event] if is_wanted else MAX_TIME
    state.then[event - base, item] = follower - base if follower >= 0 else -1
    for edge in range(table.leaving[item], table.leaving[item + 1]):
        q = table.target[edge]
        begin = together if table.has_ties and table.together[edge] else follower
        to = begin
        while to >= 0 and to < end and events.time[to] == events.time[begin]:
            is_better = table.binds[events.klass[to], q] and state.earliest_start[to - base, q] < earliest_start
            if is_better and to != event and _can_step(table, events, state, context, edge, event, to):
                earliest_start = state.earliest_start[to - base, q]
            to += 1
    state.earliest_start[event - base, item] = earliest_start


@inner
def _can_step(
    table: RunTable, events: RunEvents, state: RunState, context: EvalContext, edge: int, before: int, event: int
) -> bool:
    """Return whether an edge may be taken from one event to another."""
    key = state.words[KEY]
    if table.distinct.size:
        if state.held[before - events.offsets[key]] & table.asked[edge] != table.asked[edge]:
            return False
    elif not passes_edge_tests(table.rules, context, edge, before, event):
        return False
    return free_since(table.rules, context.absences, edge, key, events.time[event]) <= events.time[before]


@inner
def _list_key(
    table: RunTable, events: RunEvents, state: RunState, context: EvalContext, out: PathList, found: int
) -> tuple[int, bool]:
    """List on through the matches of a key; return how many are listed, and whether the room is full."""
    words, cursor = state.words, state.cursor
    base, end = events.offsets[words[KEY]], events.offsets[words[KEY] + 1]
    while True:
        if words[DEPTH] < 0:
            if not _find_start(table, events, state, base, end):
                return found, False
            words[DEPTH] = 0
            cursor.item[0], cursor.row[0], cursor.edge[0] = words[START_ITEM], words[START], -1
        depth = words[DEPTH]
        item, event, first = cursor.item[depth], cursor.row[depth], events.time[words[START]]
        if cursor.edge[depth] < 0:
            is_match = table.ends[item] and events.time[event] >= events.since and events.oldest[event] <= first
            if is_match and (depth == 0 or _may_leave(table, events, cursor, depth, base, end)):
                if found == out.first.size or out.begin[found] + depth + 1 > out.event.size:
                    return found, True
                _write_run(cursor, depth, out, found)
                out.first[found], out.last[found], out.end[found] = first, events.time[event], event
                out.key[found], out.origin[found] = words[KEY], words[START]
                found += 1
            cursor.edge[depth] = table.leaving[item]
            cursor.candidate[depth] = -1
        if _take_step(table, events, state, context, depth, first):
            cursor.item[depth + 1] = table.target[cursor.edge[depth]]
            cursor.row[depth + 1] = cursor.candidate[depth]
            cursor.edge[depth + 1] = -1
            words[DEPTH] += 1
        else:
            words[DEPTH] -= 1
            if depth == 0:
                words[START_ITEM] += 1


@inner
def _list_neighbours(
    table: RunTable, events: RunEvents, state: RunState, context: EvalContext, out: PathList, found: int
) -> tuple[int, bool]:
    """List on through the matches of a key whose steps lead to the next event each: at depth d that is event START + d.
    Returns how many are listed, and whether the room is full.
    """
    words, cursor = state.words, state.cursor
    base, end = events.offsets[words[KEY]], events.offsets[words[KEY] + 1]
    depth = words[DEPTH]
    while True:
        if depth < 0:
            if not _find_start(table, events, state, base, end):
                words[DEPTH] = depth
                return found, False
            depth = 0
            cursor.item[0], cursor.row[0], cursor.edge[0] = words[START_ITEM], words[START], -1
        start = words[START]
        item, event, first, edge = cursor.item[depth], start + depth, events.time[start], cursor.edge[depth]
        if edge < 0:
            if table.ends[item] and events.time[event] >= events.since and events.oldest[event] <= first:
                put = out.begin[found]
                if found == out.first.size or put + depth + 1 > out.event.size:
                    words[DEPTH] = depth
                    return found, True
                for at in range(depth + 1):
                    out.position[put + at] = cursor.item[at]
                    out.event[put + at] = start + at
                out.begin[found + 1] = put + depth + 1
                out.first[found], out.last[found], out.end[found] = first, events.time[event], event
                out.key[found], out.origin[found] = words[KEY], start
                found += 1
            edge = table.leaving[item]
        after = table.leaving[item + 1] if state.then[event - base, 0] >= 0 else edge
        held = state.held[event - base]
        while edge < after:
            q, asked = table.target[edge], table.asked[edge]
            edge += 1
            if (
                held & asked == asked
                and state.earliest_start[event + 1 - base, q] <= first
                and _agrees_with_earlier(table.earlier, cursor, context, depth, q, event + 1)
            ):
                cursor.edge[depth] = edge
                depth += 1
                cursor.item[depth], cursor.row[depth], cursor.edge[depth] = q, event + 1, -1
                edge = -1
                break
        if edge >= 0:
            depth -= 1
            if depth < 0:
                words[START_ITEM] += 1


@inner
def _find_start(table: RunTable, events: RunEvents, state: RunState, base: int, end: int) -> bool:
    """Move to the next event and item at which matches begin; return whether there is one."""
    words = state.words
    while words[START] < end:
        e = words[START]
        last = table.begins.size if table.is_bound[events.klass[e]] else 0
        for item in range(words[START_ITEM], last):
            may_begin = table.begins[item] and table.binds[events.klass[e], item]
            if may_begin and state.earliest_start[e - base, item] <= events.time[e]:
                words[START_ITEM] = item
                return True
        words[START] += 1
        words[START_ITEM] = 0
    return False


@inner
def _take_step(
    table: RunTable, events: RunEvents, state: RunState, context: EvalContext, depth: int, first: int
) -> bool:
    """Move to the next event that may follow the one at this depth; return whether there is one."""
    cursor, key = state.cursor, state.words[KEY]
    base, end = events.offsets[key], events.offsets[key + 1]
    item, event = cursor.item[depth], cursor.row[depth]
    then, candidate = state.then[event - base, item], cursor.candidate[depth]
    for edge in range(cursor.edge[depth], table.leaving[item + 1]):
        q, begin = table.target[edge], base + then if then >= 0 else end
        is_beside = table.has_ties and table.together[edge]
        if not is_beside and not _may_leave(table, events, cursor, depth, base, end):
            begin = end
        if is_beside:
            begin = event
            while begin > base and events.time[begin - 1] == events.time[event]:
                begin -= 1
        candidate = begin if candidate < 0 else candidate + 1
        while candidate < end and events.time[candidate] == events.time[begin]:
            if (
                table.binds[events.klass[candidate], q]
                and state.earliest_start[candidate - base, q] <= first
                and not (is_beside and _is_bound(cursor, depth, candidate))
                and _can_step(table, events, state, context, edge, event, candidate)
                and _agrees_with_earlier(table.earlier, cursor, context, depth, q, candidate)
            ):
                cursor.edge[depth], cursor.candidate[depth] = edge, candidate
                return True
            candidate += 1
        candidate = -1
    return False


@inner
def _may_leave(table: RunTable, events: RunEvents, cursor: PathCursor, depth: int, base: int, end: int) -> bool:
    """Return whether a run may pass over what it has not bound of the time it has come to. O(ties)."""
    if not (table.is_contiguous and table.has_ties):
        return True
    event = cursor.row[depth]
    bound, there, at = 0, 1, event - 1
    while depth >= 0 and events.time[cursor.row[depth]] == events.time[event]:
        bound, depth = bound + 1, depth - 1
    while at >= base and events.time[at] == events.time[event]:
        there, at = there + 1, at - 1
    at = event + 1
    while at < end and events.time[at] == events.time[event]:
        there, at = there + 1, at + 1
    return bound == there


@inner
def _is_bound(cursor: PathCursor, depth: int, event: int) -> bool:
    """Return whether a run has bound an event up to some depth. O(depth)."""
    for back in range(depth + 1):
        if cursor.row[back] == event:
            return True
    return False


@inner
def _agrees_with_earlier(
    earlier: EarlierTests, cursor: PathCursor, context: EvalContext, depth: int, item: int, event: int
) -> bool:
    """Return whether the tests of a step and the events before it hold. O(depth) for each test."""
    for test in range(earlier.target.shape[0]):
        if not earlier.target[test, item]:
            continue
        for back in range(depth + 1):
            if earlier.source[test, cursor.item[back]]:
                context.scope.current[0], context.scope.current[1] = cursor.row[back], event
                if not passes_test(context, earlier.number + test):
                    return False
                if earlier.first_only[test]:
                    break
    return True


@inner
def _write_run(cursor: PathCursor, depth: int, out: PathList, to: int) -> None:
    """Write the steps of the run that the cursor has walked."""
    put = out.begin[to]
    for at in range(depth + 1):
        out.position[put + at] = cursor.item[at]
        out.event[put + at] = cursor.row[at]
    out.begin[to + 1] = put + depth + 1
