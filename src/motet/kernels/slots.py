"""Totals per slot, a slot being a pane, a window or a start: the strategy for windows of which few are open at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import kernel
from motet.kernels.tables import (
    FOREVER,
    LONG_AGO,
    Events,
    Machine,
    Queries,
    Rows,
    add_to_row,
    new_rows,
    new_weights,
    put_row,
    reset_row,
    row_holds_any,
    weigh,
    with_room,
)
from motet.kernels.totals import Totals, Weights, carry, clear, holds_any, move_slot, new_totals, set_one

PANES = 0  # a slot holds the matches that began in one pane; a window sums its panes
WINDOWS = 1  # a slot holds the matches that began since one window opened
STARTS = 2  # a slot holds the matches that began at one time


@kernel
def run_slots(
    events: Events,
    machine: Machine,
    queries: Queries,
    mode: int,
    unit: int,
    channels: tuple[int, int, int],
    extended: bool,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> tuple[Rows, NDArray[np.bool_]]:
    """Results of all queries over all keys, and which keys overflowed 64 bits (theirs are left out).

    Each event costs O(transitions of its class * open slots * channels); each result O(accepting nodes * panes of a window).
    `unit` is the width of a slot (0: one slot for everything); `ranked` says that windows count events.
    """
    ni, nf, nm = channels
    keys = events.offsets.size - 1
    nodes = machine.fold.size
    widest = queries.within.max()
    aligned = unit == 0 or bool((queries.within % unit == 0).all())
    capacity = slot_capacity(events, machine, mode, unit, widest)
    t = new_totals(nodes, capacity, ni, nf, nm, extended)
    w = new_weights(ni, nf, nm)
    plain = new_weights(ni, nf, nm)
    rows = new_rows(1024, ni, nf, nm, extended)
    overflowed = np.zeros(keys, np.bool_)
    touched = np.zeros(nodes, np.bool_)
    fresh = np.empty(nodes + 1, np.int32)  # the fresh nodes in use, their number last
    fresh[nodes] = 0
    last_neg = np.full(machine.neg.size + 1, LONG_AGO, np.int64)
    first_due = np.empty(queries.within.size, np.int64)
    last_due = np.empty(queries.within.size, np.int64)
    began = np.empty(capacity if mode == STARTS else 1, np.int64)

    for key in range(keys):
        mark = rows.size[0]
        bad = np.int64(0)
        base, lo, hi = np.int64(0), np.int64(0), np.int64(-1)
        empty = True
        last_neg[:] = LONG_AGO
        first_due[:] = 0
        last_due[:] = -1
        e = events.offsets[key]
        end = events.offsets[key + 1]
        while e < end and bad >= 0:
            now = events.time[e]
            after = e + 1
            while after < end and events.time[after] == now:
                after += 1

            if mode == STARTS:
                rows, lo, bad_rows = expire_starts(
                    t, rows, queries, began, last_neg, key, lo, hi, events.leave[e], now, widest, ranked, emit_from, emit_to, extended
                )
                bad |= bad_rows
                begins = False
                for a in range(e, after):
                    begins |= machine.begins[events.klass[a]]
                if lo > hi and not begins:
                    note_negs(events, machine, last_neg, e, after)
                    e = after
                    continue
                if begins:
                    if hi + 1 == capacity:
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
                    rows, bad_rows = close_windows(
                        t, rows, queries, first_due, last_due, last_neg, key, base, hi, mode, unit, now, emit_from, emit_to, extended
                    )
                    bad |= bad_rows
                if empty or slot > base + hi:
                    oldest = (now - widest) // unit + 1 if unit > 0 else np.int64(0)
                    base, lo, hi = advance(t, machine, touched, mode, empty, base, hi, oldest, slot, capacity, extended)
                    empty = False
            if lo <= hi:
                only = machine.is_direct[events.klass[e]] and after == e + 1 and mode != STARTS
                if only:
                    bad |= apply_alone(t, machine, events, w, touched, e, lo, hi, mode, extended)
                else:
                    bad |= apply_tied(t, machine, events, w, plain, touched, fresh, e, after, lo, hi, mode, extended)
                    if mode == STARTS:
                        rows, bad_rows = report_completed(
                            t, rows, machine, queries, events, began, key, e, after, lo, hi, plain, extended, emit_from, emit_to
                        )
                        bad |= bad_rows
                    bad |= settle(t, machine, plain, touched, fresh, lo, hi, extended)
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
                rows, lo_after, bad = expire_starts(
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
        for node in range(nodes):
            if touched[node]:
                clear(t, node, 0, capacity - 1 if bad < 0 else max(hi, np.int64(0)), extended)
                touched[node] = False
    return rows, overflowed


@kernel
def slot_capacity(events: Events, machine: Machine, mode: int, unit: int, widest: int) -> int:
    """Slots to keep: twice those open at once, so that they rarely have to be shifted down."""
    if mode != STARTS:
        return 2 * (widest // unit + 2) if unit > 0 else 1
    most = np.int64(0)
    for key in range(events.offsets.size - 1):
        begun = np.int64(0)
        oldest = events.offsets[key]
        for e in range(events.offsets[key], events.offsets[key + 1]):
            while events.leave[e] - events.enter[oldest] >= widest:
                begun -= machine.begins[events.klass[oldest]]
                oldest += 1
            begun += machine.begins[events.klass[e]]
            most = max(most, begun)
    return 2 * (most + 1)


@kernel
def open_slots(t: Totals, machine: Machine, touched: NDArray[np.bool_], lo: int, hi: int, extended: bool) -> None:
    """Let matches begin in slots lo..hi."""
    for node in range(machine.is_start.size):
        if machine.is_start[node]:
            touched[node] = True
            for s in range(lo, hi + 1):
                set_one(t, node, s, extended)


@kernel
def advance(
    t: Totals,
    machine: Machine,
    touched: NDArray[np.bool_],
    mode: int,
    empty: bool,
    base: int,
    hi: int,
    oldest: int,
    newest: int,
    capacity: int,
    extended: bool,
) -> tuple[int, int, int]:
    """Make `newest` the last slot and forget those before `oldest`: the new base, first and last slot."""
    if empty or oldest > base + hi:
        if not empty:
            for node in range(touched.size):
                if touched[node]:
                    clear(t, node, 0, hi, extended)
        base = oldest if mode == WINDOWS else newest
        opened = np.int64(0)
    else:
        if mode == PANES:
            for node in range(machine.is_start.size):
                if machine.is_start[node]:
                    clear(t, node, hi, hi, extended)
        if newest - base >= capacity:
            shift(t, touched, oldest - base, hi, extended)
            hi -= oldest - base
            base = oldest
        opened = hi + 1
    hi = newest - base
    open_slots(t, machine, touched, hi if mode == PANES else opened, hi, extended)
    return base, max(oldest - base, np.int64(0)), hi


@kernel
def shift(t: Totals, touched: NDArray[np.bool_], by: int, hi: int, extended: bool) -> None:
    """Move slots by..hi down to the beginning."""
    if by == 0:
        return
    for node in range(touched.size):
        if touched[node]:
            for s in range(by, hi + 1):
                move_slot(t, node, s, t, node, s - by, extended)
            clear(t, node, hi - by + 1, hi, extended)


@kernel
def apply_alone(
    t: Totals,
    machine: Machine,
    events: Events,
    w: Weights,
    touched: NDArray[np.bool_],
    e: int,
    lo: int,
    hi: int,
    mode: int,
    extended: bool,
) -> int:
    """A lone event's transitions, straight into settled nodes."""
    steps = machine.direct
    klass = events.klass[e]
    bad = np.int64(0)
    weighs = w.i.size + w.f.size + w.m.size > 0
    for step in range(steps.offsets[klass], steps.offsets[klass + 1]):
        if weighs:
            weigh(w, steps, step, events, e)
        source, target = steps.source[step], steps.target[step]
        touched[target] = True
        first = hi if mode == PANES and machine.is_start[source] else lo
        bad |= carry(t, source, target, first, hi, w, extended)
    for move in range(machine.move_offsets[klass], machine.move_offsets[klass + 1]):
        clear(t, machine.move_source[move], lo, hi, extended)
    return bad


@kernel
def apply_tied(
    t: Totals,
    machine: Machine,
    events: Events,
    w: Weights,
    plain: Weights,
    touched: NDArray[np.bool_],
    fresh: NDArray[np.int32],
    e: int,
    after: int,
    lo: int,
    hi: int,
    mode: int,
    extended: bool,
) -> int:
    """All events of one time: totals go to fresh nodes, then what absences forbid is moved away."""
    steps = machine.steps
    bad = np.int64(0)
    for a in range(e, after):
        klass = events.klass[a]
        for step in range(steps.offsets[klass], steps.offsets[klass + 1]):
            weigh(w, steps, step, events, a)
            source, target = steps.source[step], steps.target[step]
            touch(machine, touched, fresh, target)
            first = hi if mode != WINDOWS and machine.is_start[source] else lo
            bad |= carry(t, source, target, first, hi, w, extended)
    for a in range(e, after):
        klass = events.klass[a]
        for move in range(machine.move_offsets[klass], machine.move_offsets[klass + 1]):
            source, target = machine.move_source[move], machine.move_target[move]
            if target >= 0:
                touch(machine, touched, fresh, target)
                bad |= carry(t, source, target, lo, hi, plain, extended)
            else:
                clear(t, source, lo, hi, extended)
    return bad


@kernel
def touch(machine: Machine, touched: NDArray[np.bool_], fresh: NDArray[np.int32], node: int) -> None:
    """Note that a node is in use."""
    if not touched[node]:
        touched[node] = True
        if machine.fold[node] != node:
            fresh[fresh[-1]] = node
            fresh[-1] += 1


@kernel
def settle(
    t: Totals,
    machine: Machine,
    plain: Weights,
    touched: NDArray[np.bool_],
    fresh: NDArray[np.int32],
    lo: int,
    hi: int,
    extended: bool,
) -> int:
    """Fold fresh nodes into settled ones."""
    bad = np.int64(0)
    for at in range(fresh[-1]):
        node = fresh[at]
        settled = machine.fold[node]
        touched[settled] = True
        touched[node] = False
        bad |= carry(t, node, settled, lo, hi, plain, extended)
        clear(t, node, lo, hi, extended)
    fresh[-1] = 0
    return bad


@kernel
def note_due(
    machine: Machine,
    queries: Queries,
    events: Events,
    first_due: NDArray[np.int64],
    last_due: NDArray[np.int64],
    e: int,
    after: int,
    now: int,
) -> None:
    """Remember, for each query that may just have been completed, which windows have to report."""
    for a in range(e, after):
        klass = events.klass[a]
        for at in range(machine.done_offsets[klass], machine.done_offsets[klass + 1]):
            q = machine.done_query[at]
            slide = queries.slide[q]
            if slide == 0:
                last_due[q] = 0
                continue
            oldest = (now - queries.within[q]) // slide + 1
            if last_due[q] < first_due[q]:
                first_due[q] = oldest
            last_due[q] = now // slide


@kernel
def note_negs(events: Events, machine: Machine, last_neg: NDArray[np.int64], e: int, after: int) -> None:
    for a in range(e, after):
        klass = events.klass[a]
        for at in range(machine.neg_offsets[klass], machine.neg_offsets[klass + 1]):
            last_neg[machine.neg[at]] = events.time[a]


@kernel
def negated(queries: Queries, q: int, last_neg: NDArray[np.int64], since: int) -> bool:
    for at in range(queries.neg_offsets[q], queries.neg_offsets[q + 1]):
        if last_neg[queries.neg[at]] >= since:
            return True
    return False


@kernel
def close_windows(
    t: Totals,
    rows: Rows,
    queries: Queries,
    first_due: NDArray[np.int64],
    last_due: NDArray[np.int64],
    last_neg: NDArray[np.int64],
    key: int,
    base: int,
    hi: int,
    mode: int,
    unit: int,
    now: int,
    emit_from: int,
    emit_to: int,
    extended: bool,
) -> tuple[Rows, int]:
    """Report every window that has ended by now and may hold a match."""
    bad = np.int64(0)
    for q in range(queries.within.size):
        if first_due[q] > last_due[q]:
            continue
        slide, within = queries.slide[q], queries.within[q]
        last = last_due[q]
        if slide > 0:
            last = min(last, (now - within) // slide)
        elif now < FOREVER:
            continue
        for k in range(first_due[q], last + 1):
            start = k * slide
            end = start + within if slide > 0 else FOREVER
            if end < emit_from or end >= emit_to or negated(queries, q, last_neg, start if slide > 0 else LONG_AGO + 1):
                continue
            low, high = np.int64(0), np.int64(0)
            if unit > 0:
                low = start // unit - base
                high = (end // unit - base - 1) if mode == PANES else low
            rows = with_room(rows, 1, extended)
            reset_row(rows, extended)
            for at in range(queries.accept_offsets[q], queries.accept_offsets[q + 1]):
                for s in range(max(low, np.int64(0)), min(high, hi) + 1):
                    bad |= add_to_row(t, queries.accept[at], s, rows, extended)
            if row_holds_any(rows, extended):
                put_row(rows, q, key, start, end, True)
        first_due[q] = max(first_due[q], last + 1)
    return rows, bad


@kernel
def expire_starts(
    t: Totals,
    rows: Rows,
    queries: Queries,
    began: NDArray[np.int64],
    last_neg: NDArray[np.int64],
    key: int,
    lo: int,
    hi: int,
    leave: int,
    now: int,
    widest: int,
    ranked: bool,
    emit_from: int,
    emit_to: int,
    extended: bool,
) -> tuple[Rows, int, int]:
    """Let starts expire, reporting what is certain only then and, where asked, what is left."""
    bad = np.int64(0)
    while lo <= hi and leave - began[lo] >= widest:
        when = now if ranked else began[lo] + widest
        for q in range(queries.within.size):
            if not (queries.at_close[q] or queries.expiries[q]):
                continue
            lost = False
            for at in range(queries.accept_offsets[q], queries.accept_offsets[q + 1]):
                lost |= holds_any(t, queries.accept[at], lo, extended)
            if not lost or when < emit_from or when >= emit_to or when == FOREVER:
                continue
            rows = with_room(rows, 1, extended)
            reset_row(rows, extended)
            first, last = (lo, lo) if queries.at_close[q] else (lo + 1, hi)
            for at in range(queries.accept_offsets[q], queries.accept_offsets[q + 1]):
                for s in range(first, last + 1):
                    bad |= add_to_row(t, queries.accept[at], s, rows, extended)
            if queries.at_close[q]:
                if not negated(queries, q, last_neg, began[lo]):
                    put_row(rows, q, key, when, when, True)
            else:
                put_row(rows, q, key, when, when, False)
        for node in range(t.n.shape[0]):
            clear(t, node, lo, lo, extended)
        lo += 1
    return rows, lo, bad


@kernel
def report_completed(
    t: Totals,
    rows: Rows,
    machine: Machine,
    queries: Queries,
    events: Events,
    began: NDArray[np.int64],
    key: int,
    e: int,
    after: int,
    lo: int,
    hi: int,
    plain: Weights,
    extended: bool,
    emit_from: int,
    emit_to: int,
) -> tuple[Rows, int]:
    """Report each query for which a match completes at this time: all its matches whose start is alive."""
    bad = np.int64(0)
    now = events.time[e]
    if now < emit_from or now >= emit_to:
        return rows, bad
    for q in range(queries.within.size):
        if queries.at_close[q]:
            continue
        completed = False
        for at in range(queries.fresh_offsets[q], queries.fresh_offsets[q + 1]):
            for s in range(lo, hi + 1):
                completed |= holds_any(t, queries.fresh[at], s, extended)
        if not completed:
            continue
        rows = with_room(rows, 1, extended)
        reset_row(rows, extended)
        for at in range(queries.accept_offsets[q], queries.accept_offsets[q + 1]):
            for s in range(lo, hi + 1):
                bad |= add_to_row(t, queries.accept[at], s, rows, extended)
        for at in range(queries.fresh_offsets[q], queries.fresh_offsets[q + 1]):
            for s in range(lo, hi + 1):
                bad |= add_to_row(t, queries.fresh[at], s, rows, extended)
        put_row(rows, q, key, now, now, True)
    return rows, bad
