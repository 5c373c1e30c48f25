"""Find the matches of a stream event by event: each new event is joined with the live instances of every node.

An event makes rows at the leaves that it may be bound to. A join adds, for each new row of one side, those that fit on
the other, found by key, value and time in its index. A step of a path keeps the latest start of all paths to it, and
paths are listed only where they end. So an event costs what it is joined with, and nothing for what windows hold.

Under SKIP TILL NEXT a step is *open* until the first time at which another may follow it. An event is tested with the
open steps that it may follow, and those that it follows are found by that time from then on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, MIN_TIME, Flags, Ints, SmallInts
from motet.kernels.expressions import OVERFLOW, Bytecode, EventScope, Stack, Values, evaluate_comparison, is_true
from motet.kernels.jit import inner, kernel
from motet.kernels.match_store import (
    BOTTOM,
    END,
    FACTS,
    FIRST,
    KEY,
    LAST,
    LINKS,
    NODE,
    PREVIOUS,
    SO_FAR,
    TOP,
    WORK,
    IndexTable,
    MatchStore,
    add_row,
    fetch_chain,
    find_before,
    find_newest,
    fold_value,
    follow_step,
    leave_chain,
    link_row,
    read_operand,
    unlink_rows,
)

AHEAD = 4  # events: what these take is about as long as memory

# Kinds of nodes.
EVENT = 0  # the events of a symbol
JOIN = 1
FILTER = 2
STEP = 3  # an item of a path

# What may come next in a path.
ANY = 0
NEXT = 1  # what comes first of all that may
NEIGHBOUR = 2  # the next event, whatever it is

# How a feed ended.
DONE = 0
NO_ROWS = 1  # the store is full
NO_OUTPUT = 2  # the room for matches is
BAD_NUMBER = 3  # a whole number in a condition does not fit in 64 bits


class NodeTable(NamedTuple):
    """The nodes, inputs first. Some node has the rows of one that `feeds` as its input, and if it is `stored`, those of
    earlier events too.

    `span` is the window of a node, as a row of limits. A join or filter n asks that of each pair of items in `order`
    the first comes before the second, that those in `apart` are not the same event, that the tests of n hold and that
    nothing lies in its gaps: each of these has the rows from its offsets at n on. Join n has the probes `probe[n]` (of
    its outer rows) and the next (of its inner rows). A filter has one, whose candidates are none.
    """

    kind: SmallInts
    width: SmallInts
    span: SmallInts
    feeds: Flags
    stored: Flags
    probe: SmallInts
    order_offsets: Ints
    order: SmallInts
    apart_offsets: Ints
    apart: SmallInts
    test_offsets: Ints
    gap_offsets: Ints
    gap: SmallInts  # of each item: 1 where the gap comes after it, 2 where before it
    gap_index: SmallInts  # the index of the absent events


class ProbeTable(NamedTuple):
    """For each probe the node of its new rows, that of the candidates, and the index in which these are found.

    The node is -1 where nothing can be found, for the other side always comes later.

    Where rows must agree in a value, that of the new row is found like those of an index (see `IndexTable`).
    `takes_new`: whether candidates of the same event count too. Items go to the columns in `own` and `other`.
    Candidates end before the first of the items in `high`, and after the last of those in `low`.
    """

    node: SmallInts
    candidates: SmallInts
    index: SmallInts
    item: SmallInts
    value: SmallInts
    change: SmallInts
    constant: SmallInts
    takes_new: Flags
    own: SmallInts
    other: SmallInts
    high_offsets: Ints
    high: SmallInts
    low_offsets: Ints
    low: SmallInts


class StepTable(NamedTuple):
    """What steps ask. Node n is the step to an `item` of its path, and has the edges from `edges[n]` on.

    `policy[n]` says what may come next in its path. Edge e leads from the step with the index `index[e]`. Its ways are
    those from `ways[e]` on, each a stretch of indexes of absent events, one of which must be free; its tests those from
    `tests[e]` on. Tests of node n and the steps before it in a path are the rows from `earlier[n]` on: `test` has the
    number of each and whether only the first of those steps counts, `source` which nodes they are.
    """

    item: SmallInts
    begins: Flags
    policy: SmallInts
    edges: Ints
    index: SmallInts
    ways: Ints
    forbids: Ints
    forbidden: SmallInts
    tests: Ints
    earlier: Ints
    test: SmallInts
    source: Flags


class ReaderTable(NamedTuple):
    """Who reads the matches of a node: node n those from `offsets[n]` on, each with its window, and the position of the
    pattern that each item is.
    """

    offsets: Ints
    span: SmallInts
    position: SmallInts  # reader, item


class ClassTable(NamedTuple):
    """Which nodes an event of class c may add to, inputs first, those from `offsets[c]` on; which it is bound to."""

    offsets: Ints
    nodes: SmallInts
    binds: Flags


class FeedPlan(NamedTuple):
    """All tables of a plan. A row of `tests` is as in `motet.kernels.instances.Tests`, over items."""

    nodes: NodeTable
    probes: ProbeTable
    steps: StepTable
    readers: ReaderTable
    indexes: IndexTable
    tests: SmallInts
    code: Bytecode


class NewEvents(NamedTuple):
    """New events in order of time: their number, class, key, and for each window the earliest first time of what may
    end with them.
    """

    event: Ints
    klass: SmallInts
    key: Ints
    limits: Ints


class EventData(NamedTuple):
    """What is known of each event by its number: its time and values, and the one before it in its key, -1 where either
    of the two has others at its time.
    """

    time: Ints
    neighbour: Ints
    values: Values


class FeedScratch(NamedTuple):
    """Scratch memory: the new rows of each node, the events in scope, a stack, and the walk along a path."""

    begin: Ints
    end: Ints
    scope: EventScope
    stack: Stack
    walk: Ints  # row, edge and candidate of each step


class FoundMatches(NamedTuple):
    """Matches: the reader and key of each, and the stretch of positions and events that it binds.

    `counts` has how many there are, and how many entries.
    """

    reader: SmallInts
    key: Ints
    begin: Ints
    position: SmallInts
    event: Ints
    counts: Ints


def create_output(rows: int, entries: int) -> FoundMatches:
    """Create room for so many matches of so many events in all."""
    return FoundMatches(
        np.empty(rows, np.int32),
        np.empty(rows, np.int64),
        np.zeros(rows + 1, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries, np.int64),
        np.zeros(2, np.int64),
    )


@kernel
def feed_events(
    plan: FeedPlan,
    classes: ClassTable,
    new: NewEvents,
    at: int,
    data: EventData,
    store: MatchStore,
    scratch: FeedScratch,
    out: FoundMatches,
    lists: Flags,
) -> tuple[int, int]:
    """Apply new events from one on; return which is the next to apply, and why it stopped there.

    Matches are listed for readers where `lists`, the last of which tells whether there are any. An event that finds no
    room leaves no trace, and may be applied again. For each event: O(nodes that it may concern), O(log n) to find what
    a new row is joined with, then O(1) for each of these but for code, and O(events) for each match that is listed.
    """
    while at < new.event.size:
        if at + 2 * AHEAD < new.event.size:
            _fetch_chains(plan, classes, new, at + 2 * AHEAD, data, store, False)
        if at + AHEAD < new.event.size:
            _fetch_chains(plan, classes, new, at + AHEAD, data, store, True)
        top, found, entries = store.counts[TOP], out.counts[0], out.counts[1]
        status = _apply_event(plan, classes, new, at, data, store, scratch, out, lists)
        first = classes.offsets[new.klass[at]]
        for place in range(first, classes.offsets[new.klass[at] + 1]):
            scratch.begin[classes.nodes[place]] = 0
            scratch.end[classes.nodes[place]] = 0
        store.counts[BOTTOM] = store.rows.shape[0]
        if status == DONE and scratch.stack.status[0] == OVERFLOW:
            status = BAD_NUMBER
        if status != DONE:
            unlink_rows(store, plan.indexes, data.values, top)
            out.counts[0], out.counts[1] = found, entries
            return at, status
        at += 1
    return at, DONE


@inner
def _fetch_chains(
    plan: FeedPlan, classes: ClassTable, new: NewEvents, at: int, data: EventData, store: MatchStore, newest: bool
) -> None:
    """Fetch the entries of the chains that an event by itself leads to, or their newest rows, before it is applied."""
    nodes, probes, steps, indexes = plan.nodes, plan.probes, plan.steps, plan.indexes
    klass, key, event = new.klass[at], new.key[at], new.event[at]
    for place in range(classes.offsets[klass], classes.offsets[klass + 1]):
        n = classes.nodes[place]
        if nodes.kind[n] == JOIN:
            for p in range(nodes.probe[n], nodes.probe[n] + 2):
                own = probes.node[p]
                if own >= 0 and probes.candidates[p] >= 0 and nodes.kind[own] == EVENT and classes.binds[klass, own]:
                    row = probes.value[p] if probes.item[p] >= 0 else -1
                    value = _read_chain_value(data.values, row, event, probes.change[p], probes.constant[p])
                    fetch_chain(store, probes.index[p], key, value, newest)
        if (nodes.kind[n] != EVENT and nodes.kind[n] != STEP) or not classes.binds[klass, n]:
            continue
        for x in range(indexes.offsets[n], indexes.offsets[n + 1]):
            row = indexes.value[x] if indexes.item[x] >= 0 else -1
            value = _read_chain_value(data.values, row, event, indexes.change[x], indexes.constant[x])
            fetch_chain(store, x, key, value, newest)
        if nodes.kind[n] == STEP:
            for edge in range(steps.edges[n], steps.edges[n + 1]):
                fetch_chain(store, steps.index[edge], key, 0, newest)
                if steps.policy[n] == NEXT:
                    fetch_chain(store, steps.index[edge] + 1, key, data.time[event], newest)


@inner
def _read_chain_value(values: Values, row: int, event: int, change: int, constant: int) -> int:
    """Return the value of a chain that rows of one event are in, 0 if it has none (row is -1) or none is known."""
    if row < 0:
        return 0
    found = read_operand(values, row, event, change, constant)
    return np.int64(0) if np.isnan(found) else fold_value(found)


@inner
def _apply_event(
    plan: FeedPlan,
    classes: ClassTable,
    new: NewEvents,
    at: int,
    data: EventData,
    store: MatchStore,
    scratch: FeedScratch,
    out: FoundMatches,
    lists: Flags,
) -> int:
    nodes, klass = plan.nodes, new.klass[at]
    for place in range(classes.offsets[klass], classes.offsets[klass + 1]):
        n = classes.nodes[place]
        # Under NEXT, which steps an event follows must be noted.
        if not nodes.feeds[n] and not lists[-1] and plan.steps.policy[n] != NEXT:
            continue
        top, bottom = store.counts[TOP], store.counts[BOTTOM]
        kind, fits = nodes.kind[n], True
        if kind == EVENT:
            if classes.binds[klass, n]:
                scratch.scope.current[0] = new.event[at]
                moment = data.time[new.event[at]]
                fits = _append(plan, new, at, data, store, scratch, n, moment, MIN_TIME)
        elif kind == STEP:
            if classes.binds[klass, n]:
                fits = _append_step(plan, new, at, data, store, scratch, n)
        else:
            fits = _probe(plan, new, at, data, store, scratch, n, nodes.probe[n])
            if fits and kind == JOIN:
                fits = _probe(plan, new, at, data, store, scratch, n, nodes.probe[n] + 1)
        if not fits:
            return NO_ROWS
        scratch.begin[n] = top if nodes.stored[n] else store.counts[BOTTOM]
        scratch.end[n] = store.counts[TOP] if nodes.stored[n] else bottom
        for reader in range(plan.readers.offsets[n], plan.readers.offsets[n + 1]):
            if not lists[reader]:
                continue
            limit = new.limits[plan.readers.span[reader], at]
            for row in range(scratch.begin[n], scratch.end[n]):
                if store.rows[row, FIRST] < limit:
                    continue
                if kind == STEP:
                    fits = _list_paths(plan, data, store, scratch, out, reader, row, limit)
                else:
                    fits = _write_match(plan, store, out, reader, row, nodes.width[n])
                if not fits:
                    return NO_OUTPUT
    return DONE


@inner
def _append(
    plan: FeedPlan,
    new: NewEvents,
    at: int,
    data: EventData,
    store: MatchStore,
    scratch: FeedScratch,
    n: int,
    first: int,
    so_far: int,
) -> bool:
    """Append a row of the events in scope; return whether there was room."""
    row = add_row(store, plan.nodes.stored[n])
    if row < 0:
        return False
    for item in range(plan.nodes.width[n]):
        store.rows[row, store.items + item] = scratch.scope.current[item]
    facts = store.rows[row]
    facts[FIRST], facts[LAST], facts[END] = first, data.time[new.event[at]], new.event[at]
    facts[KEY], facts[NODE], facts[SO_FAR] = new.key[at], n, so_far
    return link_row(store, plan.indexes, data.values, row)


@inner
def _probe(
    plan: FeedPlan,
    new: NewEvents,
    at: int,
    data: EventData,
    store: MatchStore,
    scratch: FeedScratch,
    n: int,
    p: int,
) -> bool:
    """Append what new rows of one side of a join make with the rows of the other; return whether there was room."""
    probes, current = plan.probes, scratch.scope.current
    own, candidates = probes.node[p], probes.candidates[p]
    if own < 0:
        return True
    limit = new.limits[plan.nodes.span[n], at]
    for r in range(scratch.begin[own], scratch.end[own]):
        first = store.rows[r, FIRST]
        if first < limit:
            continue
        for item in range(plan.nodes.width[own]):
            if probes.own[p, item] >= 0:
                current[probes.own[p, item]] = store.rows[r, store.items + item]
        if candidates < 0:
            if _accepts(plan, data, store, scratch, n, new.key[at]) and not _append(
                plan, new, at, data, store, scratch, n, first, MIN_TIME
            ):
                return False
            continue
        index, value = probes.index[p], 0
        if probes.item[p] >= 0:
            event = store.rows[r, store.items + probes.item[p]]
            found = read_operand(data.values, probes.value[p], event, probes.change[p], probes.constant[p])
            if np.isnan(found):
                continue
            value = fold_value(found)
        high, low = MAX_TIME, limit
        for place in range(probes.high_offsets[p], probes.high_offsets[p + 1]):
            high = min(high, data.time[store.rows[r, store.items + probes.high[place]]])
        for place in range(probes.low_offsets[p], probes.low_offsets[p + 1]):
            low = max(low, data.time[store.rows[r, store.items + probes.low[place]]] + 1)
        slot = FACTS + LINKS * (index - plan.indexes.offsets[candidates])
        newest = scratch.begin[candidates] if not probes.takes_new[p] and scratch.end[candidates] > 0 else MAX_TIME
        c = find_before(store, find_newest(store, index, new.key[at], value), slot, high)
        while c >= 0 and store.rows[c, LAST] >= low:
            store.counts[WORK] += 1
            if store.rows[c, FIRST] >= limit and c < newest:
                for item in range(plan.nodes.width[candidates]):
                    current[probes.other[p, item]] = store.rows[c, store.items + item]
                if _accepts(plan, data, store, scratch, n, new.key[at]) and not _append(
                    plan, new, at, data, store, scratch, n, min(first, store.rows[c, FIRST]), MIN_TIME
                ):
                    return False
            c = store.rows[c, slot + PREVIOUS]
    return True


@inner
def _accepts(plan: FeedPlan, data: EventData, store: MatchStore, scratch: FeedScratch, n: int, key: int) -> bool:
    """Return whether the events in scope are in order, pass all tests of a node, and have nothing in its gaps."""
    nodes, current = plan.nodes, scratch.scope.current
    for at in range(nodes.order_offsets[n], nodes.order_offsets[n + 1]):
        if data.time[current[nodes.order[at, 0]]] >= data.time[current[nodes.order[at, 1]]]:
            return False
    for at in range(nodes.apart_offsets[n], nodes.apart_offsets[n + 1]):
        if current[nodes.apart[at, 0]] == current[nodes.apart[at, 1]]:
            return False
    for number in range(nodes.test_offsets[n], nodes.test_offsets[n + 1]):
        if not _passes_test(plan, data, scratch, number):
            return False
    for g in range(nodes.gap_offsets[n], nodes.gap_offsets[n + 1]):
        since, until = MIN_TIME, MAX_TIME
        for item in range(nodes.width[n]):
            if nodes.gap[g, item] == 1:
                since = max(since, data.time[current[item]])
            elif nodes.gap[g, item] == 2:
                until = min(until, data.time[current[item]])
        if _latest_before(store, nodes.gap_index[g], key, until) > since:
            return False
    return True


@inner
def _passes_test(plan: FeedPlan, data: EventData, scratch: FeedScratch, number: int) -> bool:
    """Return whether one test holds for the events in scope."""
    tests, current = plan.tests, scratch.scope.current
    if tests[number, 0] < 0:
        return is_true(plan.code, tests[number, 1], data.values, scratch.scope, scratch.stack)
    x = read_operand(data.values, tests[number, 2], current[tests[number, 1]], tests[number, 5], tests[number, 6])
    y = read_operand(data.values, tests[number, 4], current[tests[number, 3]], tests[number, 7], tests[number, 8])
    if np.isnan(x) or np.isnan(y):
        return False
    return evaluate_comparison(tests[number, 0], x < y, x == y)


@inner
def _latest_before(store: MatchStore, index: int, key: int, until: int) -> int:
    """Return the time of the latest absent event of a key before a time, or MIN_TIME. O(log n)."""
    row = find_before(store, find_newest(store, index, key, 0), FACTS, until)
    return store.rows[row, LAST] if row >= 0 else MIN_TIME


@inner
def _free_since(plan: FeedPlan, store: MatchStore, edge: int, key: int, until: int) -> int:
    """Return the earliest time from which on one of an edge's ways is free of absent events up to another time."""
    steps = plan.steps
    if steps.ways[edge] == steps.ways[edge + 1]:
        return MIN_TIME
    earliest = until
    for way in range(steps.ways[edge], steps.ways[edge + 1]):
        since = MIN_TIME
        for at in range(steps.forbids[way], steps.forbids[way + 1]):
            since = max(since, _latest_before(store, steps.forbidden[at], key, until))
        earliest = min(earliest, since)
    return earliest


@inner
def _append_step(
    plan: FeedPlan, new: NewEvents, at: int, data: EventData, store: MatchStore, scratch: FeedScratch, n: int
) -> bool:
    """Append an event as a step of paths, if some path in the window may lead to it; return whether there was room.

    Its FIRST is an upper bound where edges have tests or absences, which listing checks. O(edges log n); under SKIP
    TILL NEXT O(open steps that it may follow, and those that it does).
    """
    steps, event, key = plan.steps, new.event[at], new.key[at]
    moment = data.time[event]
    latest = moment if steps.begins[n] else MIN_TIME
    limit = new.limits[plan.nodes.span[n], at]
    for edge in range(steps.edges[n], steps.edges[n + 1]):
        since = _free_since(plan, store, edge, key, moment)
        if steps.policy[n] == NEXT:
            if not _follow_steps(plan, data, store, scratch, edge, event, key, limit):
                return False
            row = find_newest(store, steps.index[edge] + 1, key, moment)
            while row >= 0:
                if (
                    store.rows[row, FIRST] > latest
                    and store.rows[row, LAST] >= since
                    and _passes_edge(plan, data, store, scratch, edge, row, event)
                ):
                    latest = store.rows[row, FIRST]
                row = store.rows[row, FACTS + LINKS + PREVIOUS]
            continue
        row = find_before(store, find_newest(store, steps.index[edge], key, 0), FACTS, moment)
        if row < 0 or (steps.policy[n] == NEIGHBOUR and store.rows[row, END] != data.neighbour[event]):
            continue
        first = store.rows[row, SO_FAR if steps.policy[n] == ANY else FIRST]
        if (
            first > latest
            and store.rows[row, LAST] >= since
            and (steps.policy[n] == ANY or _passes_edge(plan, data, store, scratch, edge, row, event))
        ):
            latest = first
    if latest < limit:
        return True
    so_far = latest
    if steps.policy[n] == NEXT:
        so_far = MAX_TIME
    elif plan.nodes.stored[n]:
        before = find_newest(store, plan.indexes.offsets[n], key, 0)
        if before >= 0:
            so_far = max(so_far, store.rows[before, SO_FAR])
    scratch.scope.current[0] = event
    return _append(plan, new, at, data, store, scratch, n, latest, so_far)


@inner
def _follow_steps(
    plan: FeedPlan,
    data: EventData,
    store: MatchStore,
    scratch: FeedScratch,
    edge: int,
    event: int,
    key: int,
    limit: int,
) -> bool:
    """Let an event be the next step of all open ones that it may follow by an edge; return whether there was room.

    Those that have left the window are not looked at again.
    """
    index, moment = plan.steps.index[edge], data.time[event]
    newer, row = np.int64(-1), find_newest(store, index, key, 0)
    while row >= 0:
        if store.rows[row, LAST] < moment:
            store.counts[WORK] += 1
            is_old = store.rows[row, FIRST] < limit
            if is_old or _passes_edge(plan, data, store, scratch, edge, row, event):
                older = leave_chain(store, index, key, row, newer)
                if not is_old and not follow_step(store, index, key, row, moment):
                    return False
                row = older
                continue
        newer, row = row, store.rows[row, FACTS + PREVIOUS]
    return True


@inner
def _passes_edge(
    plan: FeedPlan, data: EventData, store: MatchStore, scratch: FeedScratch, edge: int, row: int, event: int
) -> bool:
    """Return whether the tests of an edge hold for a step and an event after it."""
    current = scratch.scope.current
    current[0], current[1] = store.rows[row, store.items], event
    scratch.scope.following[0] = event
    for number in range(plan.steps.tests[edge], plan.steps.tests[edge + 1]):
        if not _passes_test(plan, data, scratch, number):
            return False
    return True


@inner
def _write_match(plan: FeedPlan, store: MatchStore, out: FoundMatches, reader: int, row: int, width: int) -> bool:
    """Write a row as a match; return whether there was room."""
    found, to = out.counts[0], out.counts[1]
    if found == out.key.size or to + width > out.event.size:
        return False
    for item in range(width):
        out.position[to + item] = plan.readers.position[reader, item]
        out.event[to + item] = store.rows[row, store.items + item]
    return _end_match(out, reader, store.rows[row, KEY], to + width)


@inner
def _end_match(out: FoundMatches, reader: int, key: int, end: int) -> bool:
    found = out.counts[0]
    out.reader[found], out.key[found], out.begin[found + 1] = reader, key, end
    out.counts[0], out.counts[1] = found + 1, end
    return True


@inner
def _list_paths(
    plan: FeedPlan,
    data: EventData,
    store: MatchStore,
    scratch: FeedScratch,
    out: FoundMatches,
    reader: int,
    last: int,
    limit: int,
) -> bool:
    """Write the paths that end with a row and begin at a time or later; return whether there was room.

    O(output) where edges have no tests or absences, and O(log n) for each step to find what comes before it.
    """
    steps, walk, key = plan.steps, scratch.walk, store.rows[last, KEY]
    depth = 0
    walk[0, 0], walk[0, 1], walk[0, 2] = last, -1, -1
    while depth >= 0:
        row = walk[depth, 0]
        n = store.rows[row, NODE]
        if walk[depth, 1] < 0:
            if (
                steps.begins[n]
                and data.time[store.rows[row, store.items]] >= limit
                and _agrees_with_earlier(plan, data, store, scratch, depth)
            ):
                found, to = out.counts[0], out.counts[1]
                if found == out.key.size or to + depth + 1 > out.event.size:
                    return False
                for back in range(depth + 1):
                    step = walk[depth - back, 0]
                    out.event[to + back] = store.rows[step, store.items]
                    out.position[to + back] = plan.readers.position[reader, steps.item[store.rows[step, NODE]]]
                _end_match(out, reader, key, to + depth + 1)
            walk[depth, 1], walk[depth, 2] = steps.edges[n], -2
        if not _step_back(plan, data, store, scratch, depth, key, limit):
            depth -= 1
            continue
        depth += 1
        if depth == walk.shape[0]:
            return False
        walk[depth, 0], walk[depth, 1] = walk[depth - 1, 2], -1
    return True


@inner
def _agrees_with_earlier(plan: FeedPlan, data: EventData, store: MatchStore, scratch: FeedScratch, depth: int) -> bool:
    """Return whether the tests of steps and those before them hold in the path that was walked. O(depth^2 x tests)."""
    steps, walk, current = plan.steps, scratch.walk, scratch.scope.current
    for later in range(depth):
        node = store.rows[walk[later, 0], NODE]
        for number in range(steps.earlier[node], steps.earlier[node + 1]):
            for back in range(depth, later, -1):
                if steps.source[number, store.rows[walk[back, 0], NODE]]:
                    current[0] = store.rows[walk[back, 0], store.items]
                    current[1] = store.rows[walk[later, 0], store.items]
                    if not _passes_test(plan, data, scratch, steps.test[number, 0]):
                        return False
                    if steps.test[number, 1]:
                        break
    return True


@inner
def _step_back(
    plan: FeedPlan, data: EventData, store: MatchStore, scratch: FeedScratch, depth: int, key: int, limit: int
) -> bool:
    """Move to the next row that may come before the one at this depth; return whether there is one."""
    steps, walk = plan.steps, scratch.walk
    row, candidate = walk[depth, 0], walk[depth, 2]
    moment, n, event = store.rows[row, LAST], store.rows[row, NODE], store.rows[row, store.items]
    policy = steps.policy[n]
    slot = FACTS + LINKS if policy == NEXT else FACTS
    for edge in range(walk[depth, 1], steps.edges[n + 1]):
        if candidate != -2:
            candidate = store.rows[candidate, slot + PREVIOUS]
        elif policy == NEXT:
            candidate = find_newest(store, steps.index[edge] + 1, key, moment)
        else:
            candidate = find_before(store, find_newest(store, steps.index[edge], key, 0), FACTS, moment)
        since = _free_since(plan, store, edge, key, moment)
        while candidate >= 0 and (policy == NEXT or store.rows[candidate, SO_FAR] >= limit):
            if policy == NEIGHBOUR and store.rows[candidate, END] != data.neighbour[event]:
                break
            if policy == ANY and store.rows[candidate, LAST] < since:
                break
            store.counts[WORK] += 1
            if (
                store.rows[candidate, FIRST] >= limit
                and store.rows[candidate, LAST] >= since
                and _passes_edge(plan, data, store, scratch, edge, candidate, event)
            ):
                walk[depth, 1], walk[depth, 2] = edge, candidate
                return True
            candidate = store.rows[candidate, slot + PREVIOUS]
        candidate = -2
    return False
