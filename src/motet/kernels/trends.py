"""Adjacent conditions: totals per event, in an order index, so that an inequality between neighbours costs O(log n).

Beside the totals of its nodes, the engine keeps an *entry* for each event whose successors are under a condition: the totals of the matches that end in it.
An inequality sums a prefix of a Fenwick tree over the entries' values, an equality reads one bucket, anything else scans the entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import kernel
from motet.kernels.slots import (
    STARTS,
    WINDOWS,
    advance,
    close_windows,
    expire_starts,
    note_due,
    note_negs,
    open_slots,
    report_completed,
    settle,
    shift,
    slot_capacity,
    touch,
)
from motet.kernels.tables import (
    FOREVER,
    LONG_AGO,
    Events,
    Machine,
    Queries,
    Rows,
    new_rows,
    new_weights,
    weigh,
)
from motet.kernels.totals import Totals, Weights, carry, clear, move_slot, new_totals

LESS = 0
LESS_EQUAL = 1
GREATER = 2
GREATER_EQUAL = 3
EQUAL = 4
UNEQUAL = 5
SCAN = 6  # several conditions on one transition


class Edges(NamedTuple):
    """Transitions under conditions. `of_step`: the edge of each step of the machine, -1 for a plain one.

    Edge k leaves node source[k]; its conditions are operator[offsets[k]:offsets[k + 1]], condition c comparing before[c] of
    the earlier event with after[c] of the later, as codes of equal order, -1 for null. `kind` is the operator, or SCAN.
    """

    of_step: NDArray[np.int32]
    source: NDArray[np.int32]
    kind: NDArray[np.int32]
    offsets: NDArray[np.int64]
    operator: NDArray[np.int32]
    before: NDArray[np.int64]
    after: NDArray[np.int64]


class Index(NamedTuple):
    """The order index: per edge, the sorted values it covers; its tree lies in rows first_row[k] onward of the totals."""

    values: NDArray[np.int64]
    size: NDArray[np.int64]
    first_row: NDArray[np.int64]


class Store(NamedTuple):
    """Entries 0 to count[0]: their events and nodes (-1: given up). Entry x has its totals in row first_row + x."""

    count: NDArray[np.int64]
    event: NDArray[np.int64]
    node: NDArray[np.int32]


@kernel
def live_events(events: Events, widest: int) -> tuple[int, int]:
    """The most events of one key in a window (all of them where widest is 0), and the most at one time. O(n)."""
    most = np.int64(1)
    tied = np.int64(1)
    for key in range(events.offsets.size - 1):
        oldest = events.offsets[key]
        first = oldest
        for e in range(events.offsets[key], events.offsets[key + 1]):
            if widest > 0:
                while events.leave[e] - events.enter[oldest] >= widest:
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
    mode: int,
    unit: int,
    room: int,
    tied: int,
    channels: tuple[int, int, int],
    extended: bool,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> tuple[Rows, NDArray[np.bool_]]:
    """Results of one query with adjacent conditions over all keys, and which keys overflowed 64 bits (theirs are left out).

    Each transition costs O(open slots * log of the events in a window) under one inequality, O(open slots) under one equality, O(open
    slots * events in a window) otherwise. `room` is the number of entries to keep, `tied` the most events at one time.
    """
    ni, nf, nm = channels
    keys = events.offsets.size - 1
    nodes = machine.fold.size
    widest = queries.within[0]
    aligned = unit == 0 or bool((queries.within % unit == 0).all())
    slots = slot_capacity(events, machine, mode, unit, widest)
    pending_room = tied * nodes
    spread = 2 * room + tied  # values an index covers
    first_pending = nodes
    first_entry = first_pending + pending_room
    first_tree = first_entry + room
    index = Index(
        np.empty((edges.source.size, spread + room), np.int64),
        np.zeros(edges.source.size, np.int64),
        first_tree + np.arange(edges.source.size) * (spread + room + 1),
    )
    total_rows = first_tree + edges.source.size * (spread + room + 1)
    t = new_totals(total_rows, slots, ni, nf, nm, extended)
    store = Store(np.zeros(1, np.int64), np.empty(room, np.int64), np.empty(room, np.int32))
    stored = np.zeros(nodes, np.bool_)
    for k in range(edges.source.size):
        stored[edges.source[k]] = True
    pending_event = np.empty(pending_room, np.int64)
    pending_node = np.empty(pending_room, np.int32)
    w = new_weights(ni, nf, nm)
    plain = new_weights(ni, nf, nm)
    rows = new_rows(1024, ni, nf, nm, extended)
    overflowed = np.zeros(keys, np.bool_)
    touched = np.zeros(total_rows, np.bool_)
    fresh = np.zeros(nodes + 1, np.int32)
    last_neg = np.full(machine.neg.size + 1, LONG_AGO, np.int64)
    first_due = np.empty(1, np.int64)
    last_due = np.empty(1, np.int64)
    began = np.empty(slots if mode == STARTS else 1, np.int64)

    for key in range(keys):
        mark = rows.size[0]
        bad = np.int64(0)
        base, lo, hi = np.int64(0), np.int64(0), np.int64(-1)
        empty = True
        last_neg[:] = LONG_AGO
        first_due[0], last_due[0] = 0, -1
        store.count[0] = 0
        e = events.offsets[key]
        end = events.offsets[key + 1]
        horizon = e
        while e < end and bad >= 0:
            now = events.time[e]
            after = e + 1
            while after < end and events.time[after] == now:
                after += 1
            if mode == STARTS:
                rows, lo, flaw = expire_starts(
                    t, rows, queries, began, last_neg, key, lo, hi, events.leave[e], now, widest, ranked, emit_from, emit_to, extended
                )
                bad |= flaw
                begins = False
                for a in range(e, after):
                    begins |= machine.begins[events.klass[a]]
                if begins:
                    if hi + 1 == slots:
                        shift(t, touched, lo, hi, extended)
                        began[: hi - lo + 1] = began[lo : hi + 1]
                        hi -= lo
                        lo = np.int64(0)
                    hi += 1
                    began[hi] = events.enter[e]
                    open_slots(t, machine, touched, hi, hi, extended)
            else:
                slot = now // unit if unit > 0 else np.int64(0)
                if empty or slot > base + hi or not aligned:
                    rows, flaw = close_windows(
                        t, rows, queries, first_due, last_due, last_neg, key, base, hi, mode, unit, now, emit_from, emit_to, extended
                    )
                    bad |= flaw
                if empty or slot > base + hi:
                    oldest = (now - widest) // unit + 1 if unit > 0 else np.int64(0)
                    base, lo, hi = advance(t, machine, touched, mode, empty, base, hi, oldest, slot, slots, extended)
                    empty = False
            if lo <= hi:
                if after > horizon or store.count[0] + (after - e) * nodes > room:
                    horizon = min(after + room, end)
                    bad |= _rebuild(
                        t, events, edges, index, store, touched, first_entry, e, horizon, widest, lo, hi, plain, extended
                    )
                pending = _join(
                    t, events, machine, edges, index, store, touched, fresh, pending_event, pending_node,
                    first_pending, first_entry, e, after, lo, hi, mode, w, plain, extended,
                )  # fmt: skip
                bad |= pending[1]
                bad |= _move(t, events, machine, edges, index, store, touched, fresh, first_entry, e, after, lo, hi, plain, extended)
                if mode == STARTS:
                    rows, flaw = report_completed(
                        t, rows, machine, queries, events, began, key, e, after, lo, hi, plain, extended, emit_from, emit_to
                    )
                    bad |= flaw
                bad |= settle(t, machine, plain, touched, fresh, lo, hi, extended)
                for x in range(pending[0]):
                    row = first_pending + x
                    node = machine.fold[pending_node[x]]
                    if stored[node]:
                        at = store.count[0]
                        store.event[at] = pending_event[x]
                        store.node[at] = node
                        store.count[0] = at + 1
                        touched[first_entry + at] = True
                        for s in range(lo, hi + 1):
                            move_slot(t, row, s, t, first_entry + at, s, extended)
                        bad |= _insert(t, events, edges, index, touched, node, pending_event[x], first_entry + at, lo, hi, plain, extended)
                    clear(t, row, 0, hi, extended)
                if mode != STARTS:
                    note_due(machine, queries, events, first_due, last_due, e, after, now)
            if mode == STARTS and lo <= hi:
                for node in range(nodes):
                    if machine.is_start[node]:
                        clear(t, node, hi, hi, extended)
            note_negs(events, machine, last_neg, e, after)
            e = after
        if bad >= 0:
            if mode == STARTS:
                rows, lo, bad = expire_starts(
                    t, rows, queries, began, last_neg, key, lo, hi, FOREVER, FOREVER, widest, ranked, emit_from, emit_to, extended
                )
            else:
                rows, bad = close_windows(
                    t, rows, queries, first_due, last_due, last_neg, key, base, hi, mode, unit, FOREVER, emit_from, emit_to, extended
                )
        if bad < 0:
            fresh[-1] = 0
            overflowed[key] = True
            rows.size[0] = mark
        for row in range(total_rows):
            if touched[row]:
                clear(t, row, 0, slots - 1, extended)
                touched[row] = False
    return rows, overflowed


@kernel
def _join(
    t: Totals,
    events: Events,
    machine: Machine,
    edges: Edges,
    index: Index,
    store: Store,
    touched: NDArray[np.bool_],
    fresh: NDArray[np.int32],
    pending_event: NDArray[np.int64],
    pending_node: NDArray[np.int32],
    first_pending: int,
    first_entry: int,
    e: int,
    after: int,
    lo: int,
    hi: int,
    mode: int,
    w: Weights,
    plain: Weights,
    extended: bool,
) -> tuple[int, int]:
    """Join each event of one time to the matches before it: a pending row for each node it reaches. Their number, and overflow."""
    steps = machine.steps
    bad = np.int64(0)
    count = 0
    for a in range(e, after):
        klass = events.klass[a]
        own = count
        for step in range(steps.offsets[klass], steps.offsets[klass + 1]):
            source, target = steps.source[step], steps.target[step]
            at = own
            while at < count and pending_node[at] != target:
                at += 1
            if at == count:
                pending_event[count] = a
                pending_node[count] = target
                touched[first_pending + count] = True
                count += 1
            row = first_pending + at
            weigh(w, steps, step, events, a)
            edge = edges.of_step[step]
            if edge < 0:
                first = hi if mode != WINDOWS and machine.is_start[source] else lo
                bad |= carry(t, source, row, first, hi, w, extended)
            else:
                bad |= _join_edge(t, events, edges, index, store, first_entry, edge, a, row, lo, hi, w, extended)
        for at in range(own, count):
            touch(machine, touched, fresh, pending_node[at])
            bad |= carry(t, first_pending + at, pending_node[at], lo, hi, plain, extended)
    return count, bad


@kernel
def _join_edge(
    t: Totals,
    events: Events,
    edges: Edges,
    index: Index,
    store: Store,
    first_entry: int,
    edge: int,
    a: int,
    row: int,
    lo: int,
    hi: int,
    w: Weights,
    extended: bool,
) -> int:
    """Sum the entries an edge's conditions allow before event a."""
    bad = np.int64(0)
    kind = edges.kind[edge]
    if kind == SCAN or kind == UNEQUAL:
        for x in range(store.count[0]):
            if store.node[x] == edges.source[edge] and _allowed(edges, edge, store.event[x], a):
                bad |= carry(t, first_entry + x, row, lo, hi, w, extended)
        return bad
    value = edges.after[edges.offsets[edge], a]
    if value < 0:
        return bad
    values = index.values[edge, : index.size[edge]]
    if kind == EQUAL:
        at = np.searchsorted(values, value)
        if at < values.size and values[at] == value:
            bad |= carry(t, index.first_row[edge] + 1 + at, row, lo, hi, w, extended)
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
        bad |= carry(t, index.first_row[edge] + prefix, row, lo, hi, w, extended)
        prefix -= prefix & -prefix
    return bad


@kernel
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
def _place(edges: Edges, index: Index, edge: int, event: int) -> int:
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
    t: Totals,
    events: Events,
    edges: Edges,
    index: Index,
    touched: NDArray[np.bool_],
    node: int,
    event: int,
    row: int,
    lo: int,
    hi: int,
    plain: Weights,
    extended: bool,
) -> int:
    """Add an entry's totals to the trees of the edges that leave its node."""
    bad = np.int64(0)
    for edge in range(edges.source.size):
        kind = edges.kind[edge]
        if edges.source[edge] != node or kind == SCAN or kind == UNEQUAL:
            continue
        at = _place(edges, index, edge, event)
        while at > 0 and at <= index.size[edge]:
            touched[index.first_row[edge] + at] = True
            bad |= carry(t, row, index.first_row[edge] + at, lo, hi, plain, extended)
            if kind == EQUAL:
                break
            at += at & -at
    return bad


@kernel
def _rebuild(
    t: Totals,
    events: Events,
    edges: Edges,
    index: Index,
    store: Store,
    touched: NDArray[np.bool_],
    first_entry: int,
    e: int,
    horizon: int,
    widest: int,
    lo: int,
    hi: int,
    plain: Weights,
    extended: bool,
) -> int:
    """Drop the entries that expired and index the rest together with the values to come up to the horizon."""
    kept = 0
    for x in range(store.count[0]):
        alive = store.node[x] >= 0 and (widest == 0 or events.leave[e] - events.enter[store.event[x]] < widest)
        if alive:
            if kept < x:
                store.event[kept] = store.event[x]
                store.node[kept] = store.node[x]
                for s in range(lo, hi + 1):
                    move_slot(t, first_entry + x, s, t, first_entry + kept, s, extended)
            kept += 1
    for x in range(kept, store.count[0]):
        clear(t, first_entry + x, 0, t.n.shape[1] - 1, extended)
    store.count[0] = kept
    bad = np.int64(0)
    for edge in range(edges.source.size):
        kind = edges.kind[edge]
        if kind == SCAN or kind == UNEQUAL:
            continue
        for at in range(1, index.size[edge] + 1):
            if touched[index.first_row[edge] + at]:
                clear(t, index.first_row[edge] + at, 0, t.n.shape[1] - 1, extended)
        size = 0
        condition = edges.offsets[edge]
        for x in range(kept):
            if store.node[x] == edges.source[edge] and edges.before[condition, store.event[x]] >= 0:
                index.values[edge, size] = edges.before[condition, store.event[x]]
                size += 1
        for a in range(e, horizon):
            if edges.before[condition, a] >= 0:
                index.values[edge, size] = edges.before[condition, a]
                size += 1
        index.values[edge, :size] = np.sort(index.values[edge, :size])
        index.size[edge] = size
    for x in range(kept):
        row = first_entry + x
        bad |= _insert(t, events, edges, index, touched, store.node[x], store.event[x], row, lo, hi, plain, extended)
    return bad


@kernel
def _move(
    t: Totals,
    events: Events,
    machine: Machine,
    edges: Edges,
    index: Index,
    store: Store,
    touched: NDArray[np.bool_],
    fresh: NDArray[np.int32],
    first_entry: int,
    e: int,
    after: int,
    lo: int,
    hi: int,
    plain: Weights,
    extended: bool,
) -> int:
    """Move totals, and the entries behind them, away from nodes whose absences were belied."""
    bad = np.int64(0)
    for a in range(e, after):
        klass = events.klass[a]
        for move in range(machine.move_offsets[klass], machine.move_offsets[klass + 1]):
            source, target = machine.move_source[move], machine.move_target[move]
            if target >= 0:
                touch(machine, touched, fresh, target)
                bad |= carry(t, source, target, lo, hi, plain, extended)
                for x in range(store.count[0]):
                    if store.node[x] == source:
                        bad |= _insert(
                            t, events, edges, index, touched, target, store.event[x], first_entry + x, lo, hi, plain, extended
                        )
                        store.node[x] = -2 - target  # the source's own trees are cleared below
                continue
            clear(t, source, lo, hi, extended)
            for edge in range(edges.source.size):
                if edges.source[edge] == source:
                    for at in range(1, index.size[edge] + 1):
                        if touched[index.first_row[edge] + at]:
                            clear(t, index.first_row[edge] + at, lo, hi, extended)
            for x in range(store.count[0]):
                if store.node[x] <= -2:
                    store.node[x] = -2 - store.node[x]
                elif store.node[x] == source:
                    store.node[x] = -1
    return bad
