"""Totals between pairs of nodes, pane by pane: the strategy for many queries that share parts of their patterns.

See `motet.plans.pairs` for what pairs are. Within a pane, events step the totals of pairs, which know nothing of
windows; when it is over, the totals of every open window are multiplied by them. So an event costs the same however
many windows are open, and equal parts of patterns are stepped once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner, kernel
from motet.kernels.slots import Labels, zero_weights
from motet.kernels.steps import Nodes, is_negated
from motet.kernels.tables import (
    LABELS,
    MAX_TIME,
    MIN_TIME,
    Code,
    Events,
    Flags,
    Queries,
    Times,
    fill,
    grow_labels,
    load_weights,
    write_label,
)
from motet.kernels.totals import (
    COUNT_SURE,
    Floats,
    Layout,
    Words,
    add_product,
    add_total,
    clear_totals,
    copy_totals,
    create_totals,
    grow_totals,
    has_matches,
    propagate,
    propagate_many,
    set_empty_match,
)

# `code[c]` is where the block of class c begins: these words, then its lists in this order. A run is source, target,
# weights as of a step (see `motet.kernels.tables`), and how many neighbouring pairs take that step; a move is source,
# and target or -1 for clearing the source; last the NEGs it belies.
IS_DIRECT = 0  # there are no moves: a lone event may step pairs in place, in the order given
RUNS = 1
MOVES = 2
NEGS = 3
HEAD = 4

# Of the lanes, each for the windows that begin at one time, lo..hi are open; lane 0 is number `base`.
BASE = 0
LO = 1
HI = 2
ROW = 3  # the next result row
STATE = 4


class WindowRows(NamedTuple):
    """What a window keeps: for each row, `joins` has a row and a pair by turns; the rows of starts, and of ends."""

    join_offsets: Times
    joins: Nodes
    begin: Nodes
    accept_offsets: Times
    accept: Nodes


@kernel
def run_pairs(
    events: Events,
    code: Code,
    starts: Nodes,
    size: int,
    rows: WindowRows,
    queries: Queries,
    inner: Layout,
    layout: Layout,
    pane: int,
    step: int,
    emit_from: int,
    emit_to: int,
) -> tuple[Labels, Words, Floats, Flags]:
    """Results of all queries over all keys: labels and totals of each, and which keys overflowed 64 bits (theirs are
    left out).

    Each event costs O(steps of its class * channels), however many windows are open; each pane of a key that has events
    O((pairs + joins * open windows) * channels). `pane` divides all windows and slides, `step` all slides. Pairs have
    the layout `inner`, windows `layout`: of counts alone, those of one pane may do without a shadow.
    """
    keys = events.offsets.size - 1
    count = queries.within.size
    widest = np.int64(0)
    for query in range(count):
        widest = max(widest, queries.within[query])
    lanes = 2 * (widest // step + 2)
    # The second half is for what the events of one time add.
    ints, floats = create_totals(2 * size, inner)
    v, v_floats = create_totals((rows.join_offsets.size - 1) * lanes, layout)
    total, total_floats = create_totals(lanes, layout)
    labels = np.empty((1024 + lanes * count, LABELS), np.int64)
    out, out_floats = create_totals(1024 + lanes * count, layout)
    overflowed = np.zeros(keys, np.bool_)
    last_neg = np.empty(queries.neg.size + 1, np.int64)
    due = np.empty(count, np.int64)
    wi, wf = np.zeros(layout.ni + layout.nm, np.int64), np.zeros(layout.nf, np.float64)
    zero_int, zero_float = zero_weights(layout), np.zeros(layout.nf, np.float64)
    state = np.zeros(STATE, np.int64)
    for key in range(keys):
        mark = state[ROW]
        fill(last_neg, MIN_TIME)
        fill(due, MIN_TIME)
        state[LO] = 0
        state[HI] = -1
        e, end = events.offsets[key], events.offsets[key + 1]
        bad = np.int64(0)
        while e < end and bad >= 0:
            while labels.shape[0] < state[ROW] + lanes * count:
                labels = grow_labels(labels)
                out, out_floats = grow_totals(out, out_floats, layout)
            begin = events.time[e] // pane * pane
            stop = e + 1
            while stop < end and events.time[stop] < begin + pane:
                stop += 1
            _open_lanes(state, v, v_floats, layout, rows, lanes, widest, step, begin)
            bad = _apply_pane(
                ints,
                floats,
                inner,
                code,
                starts,
                size,
                events.time,
                events.klass,
                events.int_values,
                events.float_values,
                events.multiplicity,
                last_neg,
                e,
                stop,
                wi,
                wf,
                zero_int,
                zero_float,
            )
            if bad >= 0:
                bad = _multiply_windows(
                    state, v, v_floats, layout, rows, lanes, ints, floats, inner, total, total_floats
                )
            if bad >= 0:
                until = events.time[stop] // pane * pane if stop < end else MAX_TIME
                bad = _report_windows(
                    state,
                    v,
                    v_floats,
                    layout,
                    rows,
                    lanes,
                    queries,
                    due,
                    last_neg,
                    labels,
                    out,
                    out_floats,
                    key,
                    step,
                    begin,
                    until,
                    emit_from,
                    emit_to,
                )
            e = stop
        if bad < 0:
            overflowed[key] = True
            state[ROW] = mark
    row = state[ROW]
    return labels[:row], out[: row * layout.words], out_floats[: row * layout.words], overflowed


@inner
def _open_lanes(
    state: Times,
    v: Words,
    v_floats: Floats,
    layout: Layout,
    rows: WindowRows,
    lanes: int,
    widest: int,
    step: int,
    begin: int,
) -> None:
    """Forget the windows that have ended when a pane begins, and open those that have begun."""
    oldest, newest = (begin - widest) // step + 1, begin // step
    words = layout.words
    size = rows.join_offsets.size - 1
    if state[LO] > state[HI] or oldest > state[BASE] + state[HI]:
        state[BASE] = oldest
        state[LO] = 0
        state[HI] = -1
    state[LO] = max(state[LO], oldest - state[BASE])
    if newest - state[BASE] >= lanes:
        by, kept = state[LO], state[HI] - state[LO] + 1
        for row in range(size):
            first = row * lanes * words
            copy_totals(v, v_floats, first + by * words, v, v_floats, first, kept, layout)
        state[BASE] += by
        state[HI] -= by
        state[LO] = 0
    opened = state[HI] + 1
    state[HI] = newest - state[BASE]
    if state[HI] >= opened:
        for row in range(size):
            clear_totals(v, v_floats, layout, (row * lanes + opened) * words, state[HI] - opened + 1)
        for at in range(rows.begin.size):
            for lane in range(opened, state[HI] + 1):
                set_empty_match(v, v_floats, layout, (rows.begin[at] * lanes + lane) * words)


@inner
def _apply_pane(
    ints: Words,
    floats: Floats,
    layout: Layout,
    code: Code,
    starts: Nodes,
    size: int,
    time: Times,
    klass: NDArray[np.int32],
    int_values: Words,
    float_values: Floats,
    multiplicity: Times,
    last_neg: Times,
    e: int,
    stop: int,
    wi: Words,
    wf: Floats,
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """Step pairs by all events of a pane; negative where a 64-bit count overflowed."""
    clear_totals(ints, floats, layout, 0, size)
    for at in range(starts.size):
        set_empty_match(ints, floats, layout, starts[at] * layout.words)
    width = 3 + layout.ni + layout.nm + layout.nf
    counts_alone = layout.words == 1
    negs = last_neg.size > 1
    bad = np.int64(0)
    while e < stop:
        now = time[e]
        after = e + 1
        while after < stop and time[after] == now and (multiplicity.size == 0 or multiplicity[after] < 0):
            after += 1
        head = code[klass[e]]
        n = abs(multiplicity[e]) if multiplicity.size > 0 else np.int64(1)
        if after == e + 1 and code[head + IS_DIRECT]:
            if counts_alone:
                bad |= _count_runs(ints, floats, code, head, 0, n, layout.has_shadows)
            else:
                bad |= _apply_runs(ints, floats, layout, code, head, width, 0, int_values, float_values, e, n, wi, wf)
        elif counts_alone:
            for a in range(e, after):
                n = abs(multiplicity[a]) if multiplicity.size > 0 else np.int64(1)
                bad |= _count_runs(ints, floats, code, code[klass[a]], size, n, layout.has_shadows)
            for a in range(e, after):
                bad |= _apply_moves(ints, floats, layout, code, code[klass[a]], width, zero_int, zero_float)
            for a in range(e, after):
                bad |= _commit_counts(ints, floats, code, code[klass[a]], size, layout.has_shadows)
        else:
            for a in range(e, after):
                n = abs(multiplicity[a]) if multiplicity.size > 0 else np.int64(1)
                bad |= _apply_runs(
                    ints, floats, layout, code, code[klass[a]], width, size, int_values, float_values, a, n, wi, wf
                )
            for a in range(e, after):
                bad |= _apply_moves(ints, floats, layout, code, code[klass[a]], width, zero_int, zero_float)
            for a in range(e, after):
                bad |= _commit(ints, floats, layout, code, code[klass[a]], width, size, zero_int, zero_float)
        if negs:
            for a in range(e, after):
                head = code[klass[a]]
                neg = head + HEAD + code[head + RUNS] * width + 2 * code[head + MOVES]
                for place in range(neg, neg + code[head + NEGS]):
                    last_neg[code[place]] = now
        e = after
    return bad


@inner
def _count_runs(ints: Words, floats: Floats, code: Code, head: int, aside: int, n: int, shadowed: bool) -> int:
    """`_apply_runs` where totals are but counts: what most events of most queries come to."""
    bad = np.int64(0)
    times = np.float64(n)
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        source, target, length = code[at], aside + code[at + 1], code[at + 2]
        if shadowed:
            for s in range(length):
                ints[target + s] += n * ints[source + s]
            for s in range(length):
                floats[target + s] += times * floats[source + s]
        elif n == 1:
            for s in range(length):
                total = ints[target + s] + ints[source + s]
                ints[target + s] = total
                bad |= total
        else:
            for s in range(length):
                new = ints[source + s]
                if times * np.float64(new) >= COUNT_SURE:
                    return -1
                total = ints[target + s] + n * new
                ints[target + s] = total
                bad |= total
        at += 3
    return bad


@inner
def _commit_counts(ints: Words, floats: Floats, code: Code, head: int, aside: int, shadowed: bool) -> int:
    """`_commit` where totals are but counts."""
    bad = np.int64(0)
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        target = code[at + 1]
        for place in range(target, target + code[at + 2]):
            total = ints[place] + ints[aside + place]
            ints[place] = total
            ints[aside + place] = 0
            if shadowed:
                floats[place] += floats[aside + place]
                floats[aside + place] = 0.0
            else:
                bad |= total
        at += 3
    return bad


@inner
def _apply_runs(
    ints: Words,
    floats: Floats,
    layout: Layout,
    code: Code,
    head: int,
    width: int,
    aside: int,
    int_values: Words,
    float_values: Floats,
    e: int,
    n: int,
    wi: Words,
    wf: Floats,
) -> int:
    """The steps of an event, or of n at one time that are alike. What they add goes to a place of its own, `aside`
    pairs away, to be settled when the time is over.
    """
    bad = np.int64(0)
    words = layout.words
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        if width > 3:
            load_weights(wi, wf, layout, code, at, int_values, float_values, e, n)
        source, target, length = code[at] * words, (aside + code[at + 1]) * words, code[at + width - 1]
        if n == 1:
            bad |= propagate(ints, floats, layout, source, target, length, wi, wf)
        else:
            bad |= propagate_many(ints, floats, layout, source, target, length, n, wi, wf)
        at += width
    return bad


@inner
def _commit(
    ints: Words,
    floats: Floats,
    layout: Layout,
    code: Code,
    head: int,
    width: int,
    aside: int,
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """Add what an event's steps put aside."""
    bad = np.int64(0)
    words = layout.words
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        target, length = code[at + 1] * words, code[at + width - 1]
        bad |= propagate(ints, floats, layout, target + aside * words, target, length, zero_int, zero_float)
        clear_totals(ints, floats, layout, target + aside * words, length)
        at += width
    return bad


@inner
def _apply_moves(
    ints: Words, floats: Floats, layout: Layout, code: Code, head: int, width: int, zero_int: Words, zero_float: Floats
) -> int:
    """What an absence forbids goes where that hope is not, or nowhere."""
    bad = np.int64(0)
    words = layout.words
    at = head + HEAD + code[head + RUNS] * width
    for _ in range(code[head + MOVES]):
        source, target = code[at] * words, code[at + 1] * words
        if target >= 0:
            bad |= propagate(ints, floats, layout, source, target, 1, zero_int, zero_float)
        else:
            clear_totals(ints, floats, layout, source, 1)
        at += 2
    return bad


@inner
def _multiply_windows(
    state: Times,
    v: Words,
    v_floats: Floats,
    layout: Layout,
    rows: WindowRows,
    lanes: int,
    ints: Words,
    floats: Floats,
    inner: Layout,
    total: Words,
    total_floats: Floats,
) -> int:
    """Multiply the totals of all open windows by those of a pane; negative where a count overflowed."""
    words = layout.words
    lo, count = state[LO], state[HI] - state[LO] + 1
    bad = np.int64(0)
    for row in range(rows.join_offsets.size - 1):
        clear_totals(total, total_floats, layout, 0, count)
        for join in range(rows.join_offsets[row], rows.join_offsets[row + 1]):
            pair = rows.joins[2 * join + 1] * words
            if not has_matches(ints, floats, inner, pair):
                continue
            before = (rows.joins[2 * join] * lanes + lo) * words
            if layout.has_shadows:
                times = ints[pair]
                shadow = floats[pair] if inner.has_shadows else float(times)
                for lane in range(count):
                    total[lane] += v[before + lane] * times
                for lane in range(count):
                    total_floats[lane] += v_floats[before + lane] * shadow
            else:
                for lane in range(count):
                    bad |= add_product(
                        v,
                        v_floats,
                        before + lane * words,
                        ints,
                        floats,
                        pair,
                        total,
                        total_floats,
                        lane * words,
                        layout,
                    )
        copy_totals(total, total_floats, 0, v, v_floats, (row * lanes + lo) * words, count, layout)
    return bad


@inner
def _report_windows(
    state: Times,
    v: Words,
    v_floats: Floats,
    layout: Layout,
    rows: WindowRows,
    lanes: int,
    queries: Queries,
    due: Times,
    last_neg: Times,
    labels: Labels,
    out: Words,
    out_floats: Floats,
    key: int,
    step: int,
    begin: int,
    until: int,
    emit_from: int,
    emit_to: int,
) -> int:
    """Report the windows that have begun by the last pane and will have ended when the next begins.

    Negative: overflow.
    """
    words = layout.words
    bad = np.int64(0)
    for query in range(queries.within.size):
        within, slide = queries.within[query], queries.slide[query]
        first = max(due[query], (begin - within) // slide + 1)
        last = begin // slide
        if until < MAX_TIME:
            last = min(last, (until - within) // slide)
        due[query] = max(first, last + 1)
        for window in range(first, last + 1):
            start = window * slide
            end = start + within
            if end < emit_from or end >= emit_to or is_negated(queries, query, last_neg, start):
                continue
            row = state[ROW]
            lane = start // step - state[BASE]
            clear_totals(out, out_floats, layout, row * words, 1)
            for at in range(rows.accept_offsets[query], rows.accept_offsets[query + 1]):
                place = (rows.accept[at] * lanes + lane) * words
                bad |= add_total(v, v_floats, place, out, out_floats, row * words, layout)
            if has_matches(out, out_floats, layout, row * words):
                write_label(labels, row, query, key, start, end, True)
                state[ROW] = row + 1
    return bad
