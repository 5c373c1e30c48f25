"""Two stacks: a sliding product of event matrices, the strategy whose cost does not grow with the window.

The events of the window are split in two. The back keeps one product, each event being one column operation on it. When the front runs
out, the back is swept from its end, each event being one row operation, and of each suffix product the start's row is kept: the front. The
value of the window is the front's top row times the back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import kernel
from motet.kernels.slots import WINDOWS, apply_alone, apply_tied, negated, note_due, note_negs, settle
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
from motet.kernels.totals import Totals, Weights, add_product, carry, clear, copy, holds_any, move_slot, new_totals, set_one


@kernel
def run_stacks(
    events: Events,
    machine: Machine,
    queries: Queries,
    settled: NDArray[np.int32],
    channels: tuple[int, int, int],
    extended: bool,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> tuple[Rows, NDArray[np.bool_]]:
    """Results of one query over all keys, and which keys overflowed 64 bits (theirs are left out).

    `settled` lists the settled nodes, the start first. Each event costs O(transitions of its class * settled nodes * channels) amortised, each
    result O(settled nodes * accepting nodes), whatever the window holds. A slide of 0 means a continuous window.
    """
    ni, nf, nm = channels
    keys = events.offsets.size - 1
    nodes = machine.fold.size
    rank = settled.size
    top = rank - 1
    within, slide = queries.within[0], queries.slide[0]
    back = new_totals(nodes, rank, ni, nf, nm, extended)
    suffix = new_totals(nodes, rank, ni, nf, nm, extended)
    front = new_totals(64, rank, ni, nf, nm, extended)
    w = new_weights(ni, nf, nm)
    plain = new_weights(ni, nf, nm)
    rows = new_rows(1024, ni, nf, nm, extended)
    overflowed = np.zeros(keys, np.bool_)
    touched = np.zeros(nodes, np.bool_)
    fresh = np.zeros(nodes + 1, np.int32)
    last_neg = np.full(machine.neg.size + 1, LONG_AGO, np.int64)
    first_due = np.zeros(1, np.int64)
    last_due = np.full(1, -1, np.int64)
    accepting = np.zeros(nodes, np.bool_)
    for at in range(queries.accept.size):
        accepting[queries.accept[at]] = True
    groups = np.empty(1024, np.int64)  # where each time of the key begins, those from `lo` on being in the window

    for key in range(keys):
        mark = rows.size[0]
        bad = np.int64(0)
        lo, middle, hi, base = 0, 0, 0, 0  # groups in the window: front lo..middle, back middle..hi; front[0] is group `base`
        last_neg[:] = LONG_AGO
        first_due[0], last_due[0] = 0, -1
        _reset(back, settled, extended)
        e = events.offsets[key]
        end = events.offsets[key + 1]
        while bad >= 0:
            flush = e >= end
            now = FOREVER if flush else events.time[e]
            if flush and slide == 0 and not (queries.expiries[0] and not ranked):
                break
            after = e + 1
            while after < end and events.time[after] == now:
                after += 1

            # Expire what no longer counts, reporting on the way.
            if slide > 0:
                last = min(last_due[0], (now - within) // slide)
                for k in range(first_due[0], last + 1):
                    opened = k * slide
                    if opened + within < emit_from or opened + within >= emit_to:
                        continue
                    keep = lo
                    while keep < hi and events.time[groups[keep]] < opened:
                        keep += 1
                    if keep > lo:
                        if keep >= middle:
                            front, flaw = _sweep(
                                front, back, suffix, events, machine, settled, groups, keep, hi, end if flush else e, w, plain, extended
                            )
                            bad |= flaw
                            middle, base = hi, keep
                        lo = keep
                    if negated(queries, 0, last_neg, opened):
                        continue
                    rows = with_room(rows, 1, extended)
                    bad |= _value(front, back, queries, settled, rows, lo, middle, base, extended)
                    if row_holds_any(rows, extended):
                        put_row(rows, 0, key, opened, opened + within, True)
                first_due[0] = max(first_due[0], last + 1)
            else:
                leave = FOREVER if flush else events.leave[e]
                one_by_one = queries.expiries[0]
                while lo < hi and leave - events.enter[groups[lo]] >= within:
                    expiry = now if ranked else events.time[groups[lo]] + within
                    keep = lo + 1
                    if not one_by_one:
                        while keep < hi and leave - events.enter[groups[keep]] >= within:
                            keep += 1
                    else:
                        rows = with_room(rows, 1, extended)
                        bad |= _value(front, back, queries, settled, rows, lo, middle, base, extended)
                        one_by_one = row_holds_any(rows, extended)
                    if keep >= middle:
                        front, flaw = _sweep(
                            front, back, suffix, events, machine, settled, groups, keep, hi, end if flush else e, w, plain, extended
                        )
                        bad |= flaw
                        middle, base = hi, keep
                    lo = keep
                    if queries.expiries[0] and expiry >= emit_from and expiry < emit_to:
                        # An expired absence may let matches count that did not before.
                        rows = with_room(rows, 1, extended)
                        bad |= _value(front, back, queries, settled, rows, lo, middle, base, extended)
                        if one_by_one or row_holds_any(rows, extended):
                            put_row(rows, 0, key, expiry, expiry, False)
                    one_by_one = queries.expiries[0]
            if flush:
                break

            # Take in the events of this time.
            if lo == hi and hi > 0:
                lo, middle, hi, base = 0, 0, 0, 0
            if hi == groups.size:
                if lo > hi // 2:
                    groups[: hi - lo] = groups[lo:hi].copy()
                    middle, hi, base = middle - lo, hi - lo, base - lo
                    lo = 0
                else:
                    wider = np.empty(2 * groups.size, np.int64)
                    wider[:hi] = groups[:hi]
                    groups = wider
            groups[hi] = e
            hi += 1
            completed = False
            if after == e + 1 and machine.is_direct[events.klass[e]]:
                if slide == 0:
                    steps = machine.direct
                    klass = events.klass[e]
                    for step in range(steps.offsets[klass], steps.offsets[klass + 1]):
                        if accepting[steps.target[step]]:
                            completed |= _meets(front, back, steps.source[step], lo, middle, base, top, extended)
                bad |= apply_alone(back, machine, events, w, touched, e, 0, top, WINDOWS, extended)
            else:
                bad |= apply_tied(back, machine, events, w, plain, touched, fresh, e, after, 0, top, WINDOWS, extended)
                if slide == 0:
                    for at in range(queries.fresh.size):
                        completed |= _meets(front, back, queries.fresh[at], lo, middle, base, top, extended)
                bad |= settle(back, machine, plain, touched, fresh, 0, top, extended)
            if completed and now >= emit_from and now < emit_to:
                rows = with_room(rows, 1, extended)
                bad |= _value(front, back, queries, settled, rows, lo, middle, base, extended)
                put_row(rows, 0, key, now, now, True)
            if slide > 0:
                note_due(machine, queries, events, first_due, last_due, e, after, now)
                note_negs(events, machine, last_neg, e, after)
            e = after
        if bad < 0:
            overflowed[key] = True
            rows.size[0] = mark
            fresh[-1] = 0
    return rows, overflowed


@kernel
def _reset(product: Totals, settled: NDArray[np.int32], extended: bool) -> None:
    """Make a product the identity."""
    for node in range(product.n.shape[0]):
        clear(product, node, 0, settled.size - 1, extended)
    for at in range(settled.size):
        set_one(product, settled[at], at, extended)


@kernel
def _meets(front: Totals, back: Totals, node: int, lo: int, middle: int, base: int, top: int, extended: bool) -> bool:
    """Whether any match begun in the window has reached a node of the back."""
    if lo >= middle:
        return holds_any(back, node, 0, extended)
    for at in range(top + 1):
        if holds_any(front, lo - base, at, extended) and holds_any(back, node, at, extended):
            return True
    return False


@kernel
def _value(
    front: Totals,
    back: Totals,
    queries: Queries,
    settled: NDArray[np.int32],
    rows: Rows,
    lo: int,
    middle: int,
    base: int,
    extended: bool,
) -> int:
    """Put the value of the window into the next row: the front's top row times the back's accepting columns."""
    reset_row(rows, extended)
    bad = np.int64(0)
    row = rows.size[0]
    for at in range(queries.accept.size):
        node = queries.accept[at]
        if lo >= middle:
            bad |= add_to_row(back, node, 0, rows, extended)
        else:
            for p in range(settled.size):
                bad |= add_product(front, lo - base, p, back, node, p, rows.totals, row, extended)
    return bad


@kernel
def _sweep(
    front: Totals,
    back: Totals,
    suffix: Totals,
    events: Events,
    machine: Machine,
    settled: NDArray[np.int32],
    groups: NDArray[np.int64],
    lo: int,
    hi: int,
    end: int,
    w: Weights,
    plain: Weights,
    extended: bool,
) -> tuple[Totals, int]:
    """Turn the groups lo..hi into the front, and empty the back. O(events * transitions * settled nodes)."""
    top = settled.size - 1
    bad = np.int64(0)
    if hi - lo > front.n.shape[0]:
        front = new_totals(2 * (hi - lo), top + 1, w.i.size, w.f.size, w.m.size, extended)
    _reset(suffix, settled, extended)
    steps, direct = machine.steps, machine.direct
    weighs = w.i.size + w.f.size + w.m.size > 0
    for group in range(hi - 1, lo - 1, -1):
        first = groups[group]
        after = groups[group + 1] if group + 1 < hi else end
        klass = events.klass[first]
        if after == first + 1 and machine.is_direct[klass]:
            for move in range(machine.move_offsets[klass], machine.move_offsets[klass + 1]):
                clear(suffix, machine.move_source[move], 0, top, extended)
            for step in range(direct.offsets[klass + 1] - 1, direct.offsets[klass] - 1, -1):
                if weighs:
                    weigh(w, direct, step, events, first)
                bad |= carry(suffix, direct.target[step], direct.source[step], 0, top, w, extended)
        else:
            for node in range(machine.fold.size):
                if machine.fold[node] != node:
                    copy(suffix, machine.fold[node], node, 0, top, extended)
            for a in range(after - 1, first - 1, -1):
                klass = events.klass[a]
                for move in range(machine.move_offsets[klass + 1] - 1, machine.move_offsets[klass] - 1, -1):
                    source, target = machine.move_source[move], machine.move_target[move]
                    if target >= 0:
                        bad |= carry(suffix, target, source, 0, top, plain, extended)
                    else:
                        clear(suffix, source, 0, top, extended)
            for a in range(after - 1, first - 1, -1):
                klass = events.klass[a]
                for step in range(steps.offsets[klass + 1] - 1, steps.offsets[klass] - 1, -1):
                    weigh(w, steps, step, events, a)
                    bad |= carry(suffix, steps.target[step], steps.source[step], 0, top, w, extended)
        for at in range(top + 1):
            move_slot(suffix, 0, at, front, group - lo, at, extended)
    _reset(back, settled, extended)
    return front, bad
