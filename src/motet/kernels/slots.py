"""Totals per slot, a slot being a pane, a window or a start: the strategy for windows of which few are open at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner, kernel
from motet.kernels.steps import (
    DUE,
    FIRST_DUE,
    LAST_DUE,
    WAITING,
    Nodes,
    apply_event,
    apply_negations,
    apply_simultaneous,
    clear_due_windows,
    commit_fresh_nodes,
    count_event,
    count_simultaneous,
    is_negated,
    mark_windows_due,
    record_negations,
)
from motet.kernels.tables import (
    BEGINS,
    COMPLETIONS,
    IS_DIRECT,
    LABELS,
    MAX_TIME,
    MIN_TIME,
    MOVES,
    Code,
    Events,
    Flags,
    Machine,
    Queries,
    Times,
    divides_all,
    fill,
    grow_labels,
    membership_mask,
    shift_to_front,
    step_width,
    write_label,
)
from motet.kernels.totals import (
    NO_MINIMUM,
    Floats,
    Layout,
    Words,
    add_total,
    add_totals,
    clear_totals,
    copy_totals,
    create_totals,
    grow_totals,
    has_matches,
    set_empty_match,
)

PANES = 0  # a slot holds the matches that began in one pane; a window sums its panes
WINDOWS = 1  # a slot holds the matches that began since one window opened
STARTS = 2  # a slot holds the matches that began at one time

Labels = NDArray[np.int64]

# How a run over a key's events ended.
DONE = 0
NEEDS_ROOM = 1
OVERFLOWED = 2

# Where a run stands between calls. Slots lo..hi are open; slot 0 is number `base`.
AT = 0  # the next event
ROW = 1  # the next result row
BASE = 2
LO = 3
HI = 4
EMPTY = 5  # no slot was open yet
STATE = 6


@kernel
def run_slots(
    events: Events,
    machine: Machine,
    queries: Queries,
    layout: Layout,
    mode: int,
    unit: int,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> tuple[Labels, Words, Floats, Flags]:
    """Results of all queries over all keys: labels and totals of each, and which keys overflowed 64 bits (theirs are
    left out).

    Each event costs O(transitions of its class * open slots * channels); each result O(accepting nodes * panes of a
    window). `unit` is the width of a slot (0: one slot for everything); `ranked` says that windows count events.
    """
    keys = events.offsets.size - 1
    nodes = machine.fold.size
    count = queries.within.size
    widest = queries.within[0]
    for query in range(count):
        widest = max(widest, queries.within[query])
    slots = slot_capacity(events, machine.code, mode, unit, widest)
    ints, floats = create_totals(nodes * slots, layout)
    labels = np.empty((1024 + count, LABELS), np.int64)
    out, out_floats = create_totals(1024 + count, layout)
    overflowed = np.zeros(keys, np.bool_)
    touched = np.zeros(nodes, np.bool_)
    is_start = membership_mask(machine.starts, nodes)
    fresh = np.zeros(nodes + 1, np.int32)
    last_neg = np.empty(queries.neg.size + 1, np.int64)
    due = np.empty((DUE, count + 1), np.int64)
    began = np.empty(slots if mode == STARTS else 1, np.int64)
    wi, wf = np.zeros(layout.ni + layout.nm, np.int64), np.zeros(layout.nf, np.float64)
    zero_int, zero_float = zero_weights(layout), np.zeros(layout.nf, np.float64)
    state = np.zeros(STATE, np.int64)
    for key in range(keys):
        mark = state[ROW]
        reset_key(state, events.offsets[key], due, last_neg)
        status = NEEDS_ROOM
        while status == NEEDS_ROOM:
            status = run_key(
                state,
                key,
                events.offsets[key + 1],
                ints,
                floats,
                layout,
                slots,
                labels,
                out,
                out_floats,
                events.time,
                events.enter,
                events.leave,
                events.klass,
                events.int_values,
                events.float_values,
                events.multiplicity,
                machine.code,
                machine.fold,
                machine.starts,
                queries,
                touched,
                is_start,
                fresh,
                last_neg,
                due,
                began,
                mode,
                unit,
                widest,
                ranked,
                MAX_TIME,
                emit_from,
                emit_to,
                wi,
                wf,
                zero_int,
                zero_float,
            )
            if status == NEEDS_ROOM:
                labels = grow_labels(labels)
                out, out_floats = grow_totals(out, out_floats, layout)
        if status == OVERFLOWED:
            fresh[-1] = 0
            overflowed[key] = True
            state[ROW] = mark
        for node in range(nodes):
            if touched[node]:
                clear_totals(ints, floats, layout, node * slots * layout.words, slots)
                touched[node] = False
    return labels[: state[ROW]], out[: state[ROW] * layout.words], out_floats[: state[ROW] * layout.words], overflowed


@inner
def reset_key(state: NDArray[np.int64], first: int, due: NDArray[np.int64], last_neg: Times) -> None:
    """Make ready for the events of the next key."""
    state[AT] = first
    state[BASE] = 0
    state[LO] = 0
    state[HI] = -1
    state[EMPTY] = 1
    fill(last_neg, MIN_TIME)
    clear_due_windows(due)


@inner
def run_key(
    state: NDArray[np.int64],
    key: int,
    end: int,
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    time: Times,
    enter: Times,
    leave: Times,
    klass: NDArray[np.int32],
    int_values: Words,
    float_values: Floats,
    multiplicity: Times,
    code: Code,
    fold: Nodes,
    starts: Nodes,
    queries: Queries,
    touched: Flags,
    is_start: Flags,
    fresh: Nodes,
    last_neg: Times,
    due: NDArray[np.int64],
    began: Times,
    mode: int,
    unit: int,
    widest: int,
    ranked: bool,
    until: int,
    emit_from: int,
    emit_to: int,
    wi: Words,
    wf: Floats,
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """Run on through one key's events, and on to `until` (after all of them), unless counts overflow or the room for
    results runs out (then call again).
    """
    within, slide = queries.within, queries.slide
    width = step_width(layout)
    aligned = unit == 0 or divides_all(unit, within)
    newest_only = mode != WINDOWS
    negs = queries.neg.size
    accept_offsets, accept = queries.accept_offsets, queries.accept
    e = state[AT]
    while True:
        flush = e >= end
        now = until if flush else time[e]
        after = e + 1
        while after < end and time[after] == now and (multiplicity.size == 0 or multiplicity[after] < 0):
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
                fold.size,
                labels,
                out,
                out_floats,
                enter,
                leave,
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
            block = code[klass[e]]
            alone = after == e + 1 and code[block + IS_DIRECT] and mode != STARTS
            n = abs(multiplicity[e]) if multiplicity.size > 0 else np.int64(1)
            if alone and layout.has_shadows and code[block + MOVES] == 0:
                count_event(ints, floats, slots, code, block, touched, is_start, lo, hi, newest_only, n)
            elif alone:
                bad |= apply_event(
                    ints,
                    floats,
                    layout,
                    slots,
                    code,
                    block,
                    touched,
                    is_start,
                    int_values,
                    float_values,
                    e,
                    n,
                    lo,
                    hi,
                    newest_only,
                    wi,
                    wf,
                )
            else:
                if layout.has_shadows:
                    count_simultaneous(
                        ints,
                        floats,
                        slots,
                        code,
                        klass,
                        multiplicity,
                        touched,
                        is_start,
                        fold,
                        fresh,
                        e,
                        after,
                        lo,
                        hi,
                        newest_only,
                    )
                else:
                    bad |= apply_simultaneous(
                        ints,
                        floats,
                        layout,
                        slots,
                        code,
                        klass,
                        multiplicity,
                        touched,
                        is_start,
                        fold,
                        fresh,
                        int_values,
                        float_values,
                        e,
                        after,
                        lo,
                        hi,
                        newest_only,
                        wi,
                        wf,
                    )
                bad |= apply_negations(
                    ints,
                    floats,
                    layout,
                    slots,
                    code,
                    klass,
                    touched,
                    fold,
                    fresh,
                    e,
                    after,
                    lo,
                    hi,
                    zero_int,
                    zero_float,
                )
                if mode == STARTS:
                    bad |= report_completed(
                        state,
                        ints,
                        floats,
                        layout,
                        slots,
                        labels,
                        out,
                        out_floats,
                        queries,
                        key,
                        now,
                        emit_from,
                        emit_to,
                    )
                bad |= commit_fresh_nodes(
                    ints, floats, layout, slots, touched, fold, fresh, lo, hi, zero_int, zero_float
                )
            if bad < 0:
                return OVERFLOWED
            if mode == STARTS:
                for at in range(starts.size):
                    clear_totals(ints, floats, layout, (starts[at] * slots + hi) * layout.words, 1)
            elif after > e + 1 or code[block + COMPLETIONS] > 0:
                mark_windows_due(
                    code, klass, width, within, slide, accept_offsets, accept, touched, due,
                    e, after, now, state[BASE] + hi,
                )  # fmt: skip
        if negs > 0:
            record_negations(code, klass, width, last_neg, e, after, now)
        e = after


@inner
def update_windows(
    state: NDArray[np.int64],
    key: int,
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    starts: Nodes,
    queries: Queries,
    touched: Flags,
    last_neg: Times,
    due: NDArray[np.int64],
    now: int,
    flush: bool,
    mode: int,
    unit: int,
    widest: int,
    emit_from: int,
    emit_to: int,
) -> int:
    """Report the windows that have ended by now and open the slots that have begun."""
    newest = state[BASE] + state[HI]
    slot = now // unit if unit > 0 else np.int64(0)
    status = close_windows(
        state,
        ints,
        floats,
        layout,
        slots,
        labels,
        out,
        out_floats,
        queries,
        due,
        last_neg,
        key,
        mode,
        unit,
        now,
        emit_from,
        emit_to,
    )
    if status == DONE and not flush and (state[EMPTY] or slot > newest):
        oldest = (now - widest) // unit + 1 if unit > 0 else np.int64(0)
        advance_slots(state, ints, floats, layout, slots, starts, touched, mode, oldest, slot)
    return status


@inner
def update_starts(
    state: NDArray[np.int64],
    key: int,
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    rows: int,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    enter: Times,
    leave: Times,
    klass: NDArray[np.int32],
    code: Code,
    starts: Nodes,
    queries: Queries,
    touched: Flags,
    last_neg: Times,
    began: Times,
    e: int,
    after: int,
    now: int,
    flush: bool,
    widest: int,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> int:
    """Let starts expire and, where a match may begin now, open a slot for it."""
    leaving = now if flush else leave[e]
    if state[LO] <= state[HI] and leaving - began[state[LO]] >= widest:
        status = expire_starts(
            state, ints, floats, layout, slots, rows, labels, out, out_floats, queries, began, last_neg,
            key, leaving, now, widest, ranked, emit_from, emit_to,
        )  # fmt: skip
        if status != DONE:
            return status
    if flush:
        return DONE
    if state[ROW] + queries.within.size > labels.shape[0]:
        return NEEDS_ROOM
    if can_begin_at(code, klass, e, after):
        if state[HI] + 1 == slots:
            shift_slots(ints, floats, layout, slots, touched, state[LO], state[HI])
            shift_to_front(began, state[LO], state[HI])
            state[HI] -= state[LO]
            state[LO] = 0
        state[HI] += 1
        began[state[HI]] = enter[e]
        open_slots(ints, floats, layout, slots, starts, touched, state[HI], state[HI])
    return DONE


@kernel
def zero_weights(layout: Layout) -> Words:
    """Whole weights of no event at all: what moves and folds carry with."""
    weights = np.zeros(layout.ni + layout.nm, np.int64)
    for c in range(layout.ni, weights.size):
        weights[c] = NO_MINIMUM
    return weights


@inner
def slot_capacity(events: Events, code: Code, mode: int, unit: int, widest: int) -> int:
    """Slots to keep: twice those open at once, so that they rarely have to be shifted down."""
    if mode != STARTS:
        return 2 * (widest // unit + 2) if unit > 0 else 1
    offsets, enter, leave, klass = events.offsets, events.enter, events.leave, events.klass
    most = np.int64(0)
    for key in range(offsets.size - 1):
        begun = np.int64(0)
        oldest = offsets[key]
        for e in range(offsets[key], offsets[key + 1]):
            while oldest <= e and leave[e] - enter[oldest] >= widest:
                begun -= code[code[klass[oldest]] + BEGINS]
                oldest += 1
            begun += code[code[klass[e]] + BEGINS]
            most = max(most, begun)
    return 2 * (most + 1)


@inner
def can_begin_at(code: Code, klass: NDArray[np.int32], e: int, after: int) -> bool:
    """Whether any of the events of one time may begin a match."""
    for a in range(e, after):
        if code[code[klass[a]] + BEGINS]:
            return True
    return False


@inner
def open_slots(
    ints: Words, floats: Floats, layout: Layout, slots: int, starts: Nodes, touched: Flags, lo: int, hi: int
) -> None:
    """Let matches begin in slots lo..hi."""
    for at in range(starts.size):
        touched[starts[at]] = True
        for s in range(lo, hi + 1):
            set_empty_match(ints, floats, layout, (starts[at] * slots + s) * layout.words)


@inner
def advance_slots(
    state: NDArray[np.int64],
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    starts: Nodes,
    touched: Flags,
    mode: int,
    oldest: int,
    newest: int,
) -> None:
    """Make `newest` the last slot and forget those before `oldest`."""
    base, hi = state[BASE], state[HI]
    if state[EMPTY] or oldest > base + hi:
        if not state[EMPTY]:
            for node in range(touched.size):
                if touched[node]:
                    clear_totals(ints, floats, layout, node * slots * layout.words, hi + 1)
                    touched[node] = False
        base = oldest if mode == WINDOWS else newest
        opened = np.int64(0)
    else:
        if mode == PANES:
            for at in range(starts.size):
                clear_totals(ints, floats, layout, (starts[at] * slots + hi) * layout.words, 1)
        if newest - base >= slots:
            shift_slots(ints, floats, layout, slots, touched, oldest - base, hi)
            hi -= oldest - base
            base = oldest
        opened = hi + 1
    hi = newest - base
    open_slots(ints, floats, layout, slots, starts, touched, hi if mode == PANES else opened, hi)
    state[BASE] = base
    state[LO] = max(oldest - base, np.int64(0))
    state[HI] = hi
    state[EMPTY] = 0


@inner
def shift_slots(ints: Words, floats: Floats, layout: Layout, slots: int, touched: Flags, by: int, hi: int) -> None:
    """Move slots by..hi down to the beginning."""
    if by == 0:
        return
    words = layout.words
    for node in range(touched.size):
        if touched[node]:
            first = node * slots * words
            copy_totals(ints, floats, first + by * words, ints, floats, first, hi - by + 1, layout)
            clear_totals(ints, floats, layout, first + (hi - by + 1) * words, by)


@inner
def close_windows(
    state: NDArray[np.int64],
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    queries: Queries,
    due: NDArray[np.int64],
    last_neg: Times,
    key: int,
    mode: int,
    unit: int,
    now: int,
    emit_from: int,
    emit_to: int,
) -> int:
    """Report every window that has ended by now and may hold a match."""
    words = layout.words
    base, hi = state[BASE], state[HI]
    waiting = 0
    for place in range(due[WAITING, -1]):
        query = due[WAITING, place]
        step, within = queries.slide[query], queries.within[query]
        last = due[LAST_DUE, query]
        if step > 0:
            last = min(last, (now - within) // step)
        elif now < MAX_TIME:
            last = due[FIRST_DUE, query] - 1
        for k in range(due[FIRST_DUE, query], last + 1):
            start = k * step
            end = start + within if step > 0 else MAX_TIME
            if end < emit_from or end >= emit_to:
                continue
            if is_negated(queries, query, last_neg, start if step > 0 else MIN_TIME + 1):
                continue
            row = state[ROW]
            if row == labels.shape[0]:
                due[FIRST_DUE, query] = k
                # Those still to be looked at stay on the list.
                for rest in range(place, due[WAITING, -1]):
                    due[WAITING, waiting] = due[WAITING, rest]
                    waiting += 1
                due[WAITING, -1] = waiting
                return NEEDS_ROOM
            low, high = np.int64(0), np.int64(0)
            if unit > 0:
                low = start // unit - base
                high = (end // unit - base - 1) if mode == PANES else low
            bad = np.int64(0)
            clear_totals(out, out_floats, layout, row * words, 1)
            low = max(low, np.int64(0))
            for at in range(queries.accept_offsets[query], queries.accept_offsets[query + 1]):
                a = (queries.accept[at] * slots + low) * words
                bad |= add_totals(ints, floats, a, min(high, hi) + 1 - low, out, out_floats, row * words, layout)
            if bad < 0:
                return OVERFLOWED
            if has_matches(out, out_floats, layout, row * words):
                write_label(labels, row, query, key, start, end, True)
                state[ROW] = row + 1
        due[FIRST_DUE, query] = max(due[FIRST_DUE, query], last + 1)
        if due[FIRST_DUE, query] <= due[LAST_DUE, query]:
            due[WAITING, waiting] = query
            waiting += 1
    due[WAITING, -1] = waiting
    return DONE


@inner
def expire_starts(
    state: NDArray[np.int64],
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    rows: int,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    queries: Queries,
    began: Times,
    last_neg: Times,
    key: int,
    leaving: int,
    now: int,
    widest: int,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> int:
    """Let starts expire, reporting what is certain only then and, where asked, what is left."""
    words = layout.words
    while state[LO] <= state[HI] and leaving - began[state[LO]] >= widest:
        if state[ROW] + queries.within.size > labels.shape[0]:
            return NEEDS_ROOM
        lo = state[LO]
        when = now if ranked else began[lo] + widest
        bad = np.int64(0)
        for query in range(queries.within.size):
            at_close = queries.at_close[query]
            if not (at_close or queries.expiries[query]):
                continue
            lost = False
            first, last = queries.accept_offsets[query], queries.accept_offsets[query + 1]
            for at in range(first, last):
                lost |= has_matches(ints, floats, layout, (queries.accept[at] * slots + lo) * words)
            if not lost or when < emit_from or when >= emit_to or when == MAX_TIME:
                continue
            row = state[ROW]
            clear_totals(out, out_floats, layout, row * words, 1)
            oldest, newest = (lo, lo) if at_close else (lo + 1, state[HI])
            for at in range(first, last):
                a = (queries.accept[at] * slots + oldest) * words
                bad |= add_totals(ints, floats, a, newest + 1 - oldest, out, out_floats, row * words, layout)
            if not at_close or not is_negated(queries, query, last_neg, began[lo]):
                write_label(labels, row, query, key, when, when, at_close)
                state[ROW] = row + 1
        if bad < 0:
            return OVERFLOWED
        for row in range(rows):
            clear_totals(ints, floats, layout, (row * slots + lo) * words, 1)
        state[LO] = lo + 1
    return DONE


@inner
def report_completed(
    state: NDArray[np.int64],
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    queries: Queries,
    key: int,
    now: int,
    emit_from: int,
    emit_to: int,
) -> int:
    """Report each query for which a match completes at this time: all its matches whose start is alive.

    Negative: overflow.
    """
    bad = np.int64(0)
    words = layout.words
    lo, hi = state[LO], state[HI]
    if now < emit_from or now >= emit_to:
        return bad
    for query in range(queries.within.size):
        if queries.at_close[query]:
            continue
        completed = False
        for at in range(queries.fresh_offsets[query], queries.fresh_offsets[query + 1]):
            for s in range(lo, hi + 1):
                completed |= has_matches(ints, floats, layout, (queries.fresh[at] * slots + s) * words)
        if not completed:
            continue
        to = state[ROW] * words
        clear_totals(out, out_floats, layout, to, 1)
        for s in range(lo, hi + 1):
            for at in range(queries.accept_offsets[query], queries.accept_offsets[query + 1]):
                bad |= add_total(ints, floats, (queries.accept[at] * slots + s) * words, out, out_floats, to, layout)
            for at in range(queries.fresh_offsets[query], queries.fresh_offsets[query + 1]):
                bad |= add_total(ints, floats, (queries.fresh[at] * slots + s) * words, out, out_floats, to, layout)
        write_label(labels, state[ROW], query, key, now, now, True)
        state[ROW] += 1
    return bad
