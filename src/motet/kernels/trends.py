"""Adjacent conditions: totals per event, in an order index, so that an inequality between neighbours costs O(log n).

Beside the totals of its nodes, the engine keeps an *entry* for each event whose successors are under a condition:
the totals of the matches that end in it. An inequality sums a prefix of a Fenwick tree over the entries' values, an
equality reads one bucket, anything else scans the entries. All of them are rows of one buffer: first the nodes,
then pending joins, then entries, then the trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner, kernel
from motet.kernels.slots import (
    AT,
    BASE,
    DONE,
    EMPTY,
    HI,
    LO,
    NEEDS_ROOM,
    OVERFLOWED,
    ROW,
    STARTS,
    STATE,
    WINDOWS,
    Labels,
    report_completed,
    reset_key,
    slot_capacity,
    update_starts,
    update_windows,
    zero_weights,
)
from motet.kernels.steps import DUE, apply_negations, commit_fresh_nodes, mark_windows_due, record_negations, touch
from motet.kernels.tables import (
    LABELS,
    MAX_TIME,
    MOVES,
    STEPS,
    Code,
    Events,
    Flags,
    Machine,
    Queries,
    Times,
    divides_all,
    fill,
    grow_labels,
    load_weights,
    membership_mask,
    moves_at,
    step_width,
    steps_at,
)
from motet.kernels.totals import Floats, Layout, Words, clear_totals, copy_totals, create_totals, grow_totals, propagate

LESS = 0
LESS_EQUAL = 1
GREATER = 2
GREATER_EQUAL = 3
EQUAL = 4
UNEQUAL = 5
SCAN = 6  # several conditions on one transition

HORIZON = STATE  # a further word of a run's state: the event up to which values are indexed


class Edges(NamedTuple):
    """Transitions under conditions, from node source[k] to node target[k].

    Edge k's conditions are operator[offsets[k]:offsets[k + 1]], condition c comparing before[c] of
    the earlier event with after[c] of the later, as codes of equal order, -1 for null. `kind` is the operator, or SCAN.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    kind: NDArray[np.int32]
    offsets: NDArray[np.int64]
    operator: NDArray[np.int32]
    before: NDArray[np.int64]
    after: NDArray[np.int64]


class OrderIndex(NamedTuple):
    """The order index: per edge, the sorted values it covers; its tree lies in rows first_row[k] onward."""

    values: NDArray[np.int64]
    size: NDArray[np.int64]
    first_row: NDArray[np.int64]


class EntryStore(NamedTuple):
    """Entries 0 to count[0]: their events and nodes (-1: given up). Entry x has its totals in row first_row[0] + x."""

    count: NDArray[np.int64]
    event: NDArray[np.int64]
    node: NDArray[np.int32]
    first_row: NDArray[np.int64]


class PendingJoins(NamedTuple):
    """Joins of the current time: their events and the fresh nodes they reach; join x has its totals in the x-th row
    after the nodes.
    """

    event: NDArray[np.int64]
    node: NDArray[np.int32]


class RowBuffer(NamedTuple):
    """Rows of totals, `slots` to a row, and which rows are in use."""

    ints: Words
    floats: Floats
    layout: Layout
    slots: int
    touched: Flags


@inner
def add_row(t: RowBuffer, source: int, target: int, lo: int, hi: int, wi: Words, wf: Floats) -> int:
    """Carry the totals of one row to another in slots lo..hi; negative where a 64-bit count overflowed."""
    words = t.layout.words
    t.touched[target] = True
    a, b = (source * t.slots + lo) * words, (target * t.slots + lo) * words
    return propagate(t.ints, t.floats, t.layout, a, b, hi - lo + 1, wi, wf)


@inner
def clear_row(t: RowBuffer, row: int) -> None:
    clear_totals(t.ints, t.floats, t.layout, row * t.slots * t.layout.words, t.slots)


@inner
def copy_row(t: RowBuffer, source: int, target: int) -> None:
    size = t.slots * t.layout.words
    copy_totals(t.ints, t.floats, source * size, t.ints, t.floats, target * size, t.slots, t.layout)
    t.touched[target] = True


@inner
def count_live_events(events: Events, widest: int) -> tuple[int, int]:
    """The most events of one key in a window (all of them where widest is 0), and the most at one time. O(n)."""
    most = np.int64(1)
    tied = np.int64(1)
    for key in range(events.offsets.size - 1):
        oldest = events.offsets[key]
        first = oldest
        for e in range(events.offsets[key], events.offsets[key + 1]):
            if widest > 0:
                while oldest <= e and events.leave[e] - events.enter[oldest] >= widest:
                    oldest += 1
            if events.time[e] != events.time[first]:
                first = e
            most = max(most, e - oldest + 1)
            tied = max(tied, e - first + 1)
    return most, tied


@kernel
def run_trends(
    events: Events,
    machine: Machine,
    queries: Queries,
    edges: Edges,
    layout: Layout,
    mode: int,
    unit: int,
    room: int,
    tied: int,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> tuple[Labels, Words, Floats, Flags]:
    """Results of one query with adjacent conditions over all keys, and which keys overflowed 64 bits (theirs are
    left out).

    Each transition costs O(open slots * log of the events in a window) under one inequality, O(open slots) under
    one equality, O(open slots * events in a window) otherwise. `room` is the number of entries to keep, `tied` the
    most events at one time.
    """
    keys = events.offsets.size - 1
    nodes = machine.fold.size
    widest = queries.within[0]
    slots = slot_capacity(events, machine.code, mode, unit, widest)
    first_entry = nodes + tied * nodes
    spread = 2 * room + tied  # values an index may cover
    trees = first_entry + room + np.arange(edges.source.size) * (spread + 1)
    rows = first_entry + room + edges.source.size * (spread + 1)
    ints, floats = create_totals(rows * slots, layout)
    t = RowBuffer(ints, floats, layout, slots, np.zeros(rows, np.bool_))
    index = OrderIndex(np.empty((edges.source.size, spread), np.int64), np.zeros(edges.source.size, np.int64), trees)
    store = EntryStore(
        np.zeros(1, np.int64), np.empty(room, np.int64), np.empty(room, np.int32), np.full(1, first_entry, np.int64)
    )
    pending = PendingJoins(np.empty(tied * nodes, np.int64), np.empty(tied * nodes, np.int32))
    labels = np.empty((1024, LABELS), np.int64)
    out, out_floats = create_totals(1024, layout)
    overflowed = np.zeros(keys, np.bool_)
    fresh = np.zeros(nodes + 1, np.int32)
    last_neg = np.empty(queries.neg.size + 1, np.int64)
    due = np.empty((DUE, 2), np.int64)
    began = np.empty(slots if mode == STARTS else 1, np.int64)
    state = np.zeros(STATE + 1, np.int64)
    for key in range(keys):
        mark = state[ROW]
        reset_key(state, events.offsets[key], due, last_neg)
        state[HORIZON] = events.offsets[key]
        store.count[0] = 0
        fill(index.size, 0)
        status = NEEDS_ROOM
        while status == NEEDS_ROOM:
            status = _run_key(
                state, key, t, events, machine, queries, edges, index, store, pending, labels, out, out_floats,
                fresh, last_neg, due, began, mode, unit, room, ranked, emit_from, emit_to,
            )  # fmt: skip
            if status == NEEDS_ROOM:
                labels = grow_labels(labels)
                out, out_floats = grow_totals(out, out_floats, layout)
        if status == OVERFLOWED:
            fresh[-1] = 0
            overflowed[key] = True
            state[ROW] = mark
        for row in range(rows):
            if t.touched[row]:
                clear_row(t, row)
                t.touched[row] = False
    return labels[: state[ROW]], out[: state[ROW] * layout.words], out_floats[: state[ROW] * layout.words], overflowed


@kernel
def _run_key(
    state: NDArray[np.int64],
    key: int,
    t: RowBuffer,
    events: Events,
    machine: Machine,
    queries: Queries,
    edges: Edges,
    index: OrderIndex,
    store: EntryStore,
    pending: PendingJoins,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    fresh: NDArray[np.int32],
    last_neg: Times,
    due: NDArray[np.int64],
    began: Times,
    mode: int,
    unit: int,
    room: int,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> int:
    """Run on through one key's events until they end, counts overflow, or the room for results runs out (then call
    again).
    """
    time, klass, code, fold, starts = events.time, events.klass, machine.code, machine.fold, machine.starts
    ints, floats, layout, slots, touched = t.ints, t.floats, t.layout, t.slots, t.touched
    nodes = fold.size
    width = step_width(layout)
    widest = queries.within[0]
    aligned = unit == 0 or divides_all(unit, queries.within)
    is_start = membership_mask(starts, nodes)
    stored = membership_mask(edges.source, nodes)
    wi, wf = np.zeros(layout.ni + layout.nm, np.int64), np.zeros(layout.nf, np.float64)
    zero_int, zero_float = zero_weights(layout), np.zeros(layout.nf, np.float64)
    end = events.offsets[key + 1]
    e = state[AT]
    while True:
        flush = e >= end
        now = MAX_TIME if flush else time[e]
        after = e + 1
        while after < end and time[after] == now:
            after += 1
        state[AT] = e
        if mode == STARTS:
            status = update_starts(
                state,
                key,
                ints,
                floats,
                layout,
                slots,
                touched.size,
                labels,
                out,
                out_floats,
                events.enter,
                events.leave,
                klass,
                code,
                starts,
                queries,
                touched,
                last_neg,
                began,
                e,
                after,
                now,
                flush,
                widest,
                ranked,
                emit_from,
                emit_to,
            )
        elif flush or state[EMPTY] or not aligned or (unit > 0 and now // unit > state[BASE] + state[HI]):
            status = update_windows(
                state,
                key,
                ints,
                floats,
                layout,
                slots,
                labels,
                out,
                out_floats,
                starts,
                queries,
                touched,
                last_neg,
                due,
                now,
                flush,
                mode,
                unit,
                widest,
                emit_from,
                emit_to,
            )
        else:
            status = DONE
        if status != DONE or flush:
            return status
        lo, hi = state[LO], state[HI]
        if lo <= hi:
            bad = np.int64(0)
            if after > state[HORIZON] or store.count[0] + (after - e) * nodes > room:
                state[HORIZON] = min(after + room, end)
                bad |= _rebuild(t, events, edges, index, store, e, state[HORIZON], widest, lo, hi, zero_int, zero_float)
            count, flaw = _join(
                t, events, code, fold, fresh, is_start, edges, index, store, pending,
                e, after, lo, hi, mode, wi, wf, zero_int, zero_float,
            )  # fmt: skip
            bad |= flaw
            bad |= apply_negations(
                ints, floats, layout, slots, code, klass, touched, fold, fresh, e, after, lo, hi, zero_int, zero_float
            )
            bad |= _move_entries(t, code, klass, edges, index, store, e, after, lo, hi, zero_int, zero_float)
            if mode == STARTS:
                bad |= report_completed(
                    state, ints, floats, layout, slots, labels, out, out_floats, queries, key, now, emit_from, emit_to
                )
            bad |= commit_fresh_nodes(ints, floats, layout, slots, touched, fold, fresh, lo, hi, zero_int, zero_float)
            for x in range(count):
                node = fold[pending.node[x]]
                if stored[node]:
                    at = store.count[0]
                    row = store.first_row[0] + at
                    store.event[at] = pending.event[x]
                    store.node[at] = node
                    store.count[0] = at + 1
                    copy_row(t, nodes + x, row)
                    bad |= _insert(t, edges, index, node, pending.event[x], row, lo, hi, zero_int, zero_float)
                clear_row(t, nodes + x)
            if bad < 0:
                return OVERFLOWED
            if mode == STARTS:
                for at in range(starts.size):
                    clear_totals(ints, floats, layout, (starts[at] * slots + hi) * layout.words, 1)
            else:
                mark_windows_due(
                    code, klass, width, queries.within, queries.slide, queries.accept_offsets, queries.accept,
                    touched, due, e, after, now, state[BASE] + hi,
                )  # fmt: skip
        record_negations(code, klass, width, last_neg, e, after, now)
        e = after


@kernel
def _join(
    t: RowBuffer,
    events: Events,
    code: Code,
    fold: NDArray[np.int32],
    fresh: NDArray[np.int32],
    is_start: Flags,
    edges: Edges,
    index: OrderIndex,
    store: EntryStore,
    pending: PendingJoins,
    e: int,
    after: int,
    lo: int,
    hi: int,
    mode: int,
    wi: Words,
    wf: Floats,
    zero_int: Words,
    zero_float: Floats,
) -> tuple[int, int]:
    """Join each event of one time to the matches before it: a pending row for each node it reaches.

    Their number, and overflow.
    """
    bad = np.int64(0)
    count = 0
    width = step_width(t.layout)
    first_row = fold.size
    for a in range(e, after):
        block = code[events.klass[a]]
        own = count
        step = steps_at(block, code, width)
        for _ in range(code[block + STEPS]):
            source, target = code[step], code[step + 1]
            at = own
            while at < count and pending.node[at] != target:
                at += 1
            if at == count:
                pending.event[count] = a
                pending.node[count] = target
                count += 1
            load_weights(wi, wf, t.layout, code, step, events.int_values, events.float_values, a)
            edge = 0
            while edge < edges.source.size and not (edges.source[edge] == source and edges.target[edge] == target):
                edge += 1
            if edge == edges.source.size:
                first = hi if mode != WINDOWS and is_start[source] else lo
                bad |= add_row(t, source, first_row + at, first, hi, wi, wf)
            else:
                bad |= _join_edge(t, edges, index, store, edge, a, first_row + at, lo, hi, wi, wf)
            step += width
        for at in range(own, count):
            touch(t.touched, fold, fresh, pending.node[at])
            bad |= add_row(t, first_row + at, pending.node[at], lo, hi, zero_int, zero_float)
    return count, bad


@kernel
def _join_edge(
    t: RowBuffer,
    edges: Edges,
    index: OrderIndex,
    store: EntryStore,
    edge: int,
    a: int,
    row: int,
    lo: int,
    hi: int,
    wi: Words,
    wf: Floats,
) -> int:
    """Sum the entries an edge's conditions allow before event a."""
    bad = np.int64(0)
    kind = edges.kind[edge]
    if kind == SCAN or kind == UNEQUAL:
        for x in range(store.count[0]):
            if store.node[x] == edges.source[edge] and _allowed(edges, edge, store.event[x], a):
                bad |= add_row(t, store.first_row[0] + x, row, lo, hi, wi, wf)
        return bad
    value = edges.after[edges.offsets[edge], a]
    if value < 0:
        return bad
    values = index.values[edge, : index.size[edge]]
    first_row = index.first_row[edge]
    if kind == EQUAL:
        at = np.searchsorted(values, value)
        if at < values.size and values[at] == value:
            bad |= add_row(t, first_row + 1 + at, row, lo, hi, wi, wf)
        return bad
    if kind == LESS:
        prefix = np.searchsorted(values, value)
    elif kind == LESS_EQUAL:
        prefix = np.searchsorted(values, value, "right")
    elif kind == GREATER:
        prefix = values.size - np.searchsorted(values, value, "right")
    else:
        prefix = values.size - np.searchsorted(values, value)
    while prefix > 0:
        bad |= add_row(t, first_row + prefix, row, lo, hi, wi, wf)
        prefix -= prefix & -prefix
    return bad


@inner
def _allowed(edges: Edges, edge: int, one: int, other: int) -> bool:
    """Whether all of an edge's conditions hold between two events."""
    for c in range(edges.offsets[edge], edges.offsets[edge + 1]):
        x, y = edges.before[c, one], edges.after[c, other]
        if x < 0 or y < 0:
            return False
        operator = edges.operator[c]
        if operator == LESS:
            fine = x < y
        elif operator == LESS_EQUAL:
            fine = x <= y
        elif operator == GREATER:
            fine = x > y
        elif operator == GREATER_EQUAL:
            fine = x >= y
        elif operator == EQUAL:
            fine = x == y
        else:
            fine = x != y
        if not fine:
            return False
    return True


@kernel
def _place(edges: Edges, index: OrderIndex, edge: int, event: int) -> int:
    """Where an event stands in an edge's tree (from 1), 0 where it has no value."""
    value = edges.before[edges.offsets[edge], event]
    if value < 0:
        return 0
    values = index.values[edge, : index.size[edge]]
    kind = edges.kind[edge]
    if kind == EQUAL:
        return np.searchsorted(values, value) + 1
    if kind == LESS or kind == LESS_EQUAL:
        return np.searchsorted(values, value, "right")
    return values.size - np.searchsorted(values, value)


@kernel
def _insert(
    t: RowBuffer,
    edges: Edges,
    index: OrderIndex,
    node: int,
    event: int,
    row: int,
    lo: int,
    hi: int,
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """Add an entry's totals to the trees of the edges that leave its node."""
    bad = np.int64(0)
    for edge in range(edges.source.size):
        kind = edges.kind[edge]
        if edges.source[edge] != node or kind == SCAN or kind == UNEQUAL:
            continue
        at = _place(edges, index, edge, event)
        while at > 0 and at <= index.size[edge]:
            bad |= add_row(t, row, index.first_row[edge] + at, lo, hi, zero_int, zero_float)
            if kind == EQUAL:
                break
            at += at & -at
    return bad


@inner
def _clear_tree(t: RowBuffer, index: OrderIndex, edge: int) -> None:
    for row in range(index.first_row[edge] + 1, index.first_row[edge] + index.size[edge] + 1):
        if t.touched[row]:
            clear_row(t, row)
            t.touched[row] = False


@kernel
def _rebuild(
    t: RowBuffer,
    events: Events,
    edges: Edges,
    index: OrderIndex,
    store: EntryStore,
    e: int,
    horizon: int,
    widest: int,
    lo: int,
    hi: int,
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """Drop the entries that expired and index the rest together with the values to come up to the horizon."""
    kept = 0
    first_entry = store.first_row[0]
    for x in range(store.count[0]):
        if store.node[x] >= 0 and (widest == 0 or events.leave[e] - events.enter[store.event[x]] < widest):
            if kept < x:
                store.event[kept] = store.event[x]
                store.node[kept] = store.node[x]
                copy_row(t, first_entry + x, first_entry + kept)
            kept += 1
    for x in range(kept, store.count[0]):
        clear_row(t, first_entry + x)
        t.touched[first_entry + x] = False
    store.count[0] = kept
    for edge in range(edges.source.size):
        if edges.kind[edge] == SCAN or edges.kind[edge] == UNEQUAL:
            continue
        _clear_tree(t, index, edge)
        size = 0
        condition = edges.offsets[edge]
        for x in range(kept):  # of any node: an absence may move an entry to this edge's
            if edges.before[condition, store.event[x]] >= 0:
                index.values[edge, size] = edges.before[condition, store.event[x]]
                size += 1
        for a in range(e, horizon):
            if edges.before[condition, a] >= 0:
                index.values[edge, size] = edges.before[condition, a]
                size += 1
        index.values[edge, :size] = np.sort(index.values[edge, :size])
        index.size[edge] = size
    bad = np.int64(0)
    for x in range(kept):
        bad |= _insert(t, edges, index, store.node[x], store.event[x], first_entry + x, lo, hi, zero_int, zero_float)
    return bad


@kernel
def _move_entries(
    t: RowBuffer,
    code: Code,
    klass: NDArray[np.int32],
    edges: Edges,
    index: OrderIndex,
    store: EntryStore,
    e: int,
    after: int,
    lo: int,
    hi: int,
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """Move the entries behind the totals that absences moved away."""
    bad = np.int64(0)
    width = step_width(t.layout)
    for a in range(e, after):
        block = code[klass[a]]
        move = moves_at(block, code, width)
        for at in range(code[block + MOVES]):
            source, target = code[move + 2 * at], code[move + 2 * at + 1]
            if target >= 0:
                for x in range(store.count[0]):
                    if store.node[x] == source:
                        row = store.first_row[0] + x
                        bad |= _insert(t, edges, index, target, store.event[x], row, lo, hi, zero_int, zero_float)
                        store.node[x] = -2 - target  # until the source's own trees are cleared
                continue
            for edge in range(edges.source.size):
                if edges.source[edge] == source:
                    _clear_tree(t, index, edge)
            for x in range(store.count[0]):
                if store.node[x] <= -2:
                    store.node[x] = -2 - store.node[x]
                elif store.node[x] == source:
                    store.node[x] = -1
    return bad
