"""Totals between pairs of nodes, pane by pane: the strategy for many queries that share parts of their patterns.

See `motet.plan.pairs` for what pairs are. Within a pane, events step the totals of pairs, which know nothing of
windows; when it is over, the totals of every open window are multiplied by them. So an event costs the same however
many windows are open, and equal parts of patterns are stepped once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner, kernel
from motet.kernels.slots import Labels, nothing_weighs
from motet.kernels.steps import Nodes, negated
from motet.kernels.tables import (
    FOREVER,
    LABELS,
    LONG_AGO,
    Code,
    Events,
    Flags,
    Queries,
    Times,
    fill,
    grown,
    put_label,
    weigh,
)
from motet.kernels.totals import (
    COUNT_SURE,
    Floats,
    Layout,
    Words,
    add_product,
    add_total,
    carry,
    carry_many,
    clear,
    copy_totals,
    holds_any,
    new_totals,
    set_one,
    wider_totals,
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


class Rows(NamedTuple):
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
    rows: Rows,
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
    q, g = new_totals(2 * size, inner)
    v, v_g = new_totals((rows.join_offsets.size - 1) * lanes, layout)
    total, total_g = new_totals(lanes, layout)
    labels = np.empty((1024 + lanes * count, LABELS), np.int64)
    out, out_g = new_totals(1024 + lanes * count, layout)
    overflowed = np.zeros(keys, np.bool_)
    last_neg = np.empty(queries.neg.size + 1, np.int64)
    due = np.empty(count, np.int64)
    wi, wf = np.zeros(layout.ni + layout.nm, np.int64), np.zeros(layout.nf, np.float64)
    zero, nought = nothing_weighs(layout), np.zeros(layout.nf, np.float64)
    state = np.zeros(STATE, np.int64)
    for key in range(keys):
        mark = state[ROW]
        fill(last_neg, LONG_AGO)
        fill(due, LONG_AGO)
        state[LO] = 0
        state[HI] = -1
        e, end = events.offsets[key], events.offsets[key + 1]
        bad = np.int64(0)
        while e < end and bad >= 0:
            while labels.shape[0] < state[ROW] + lanes * count:
                labels = grown(labels)
                out, out_g = wider_totals(out, out_g, layout)
            begin = events.time[e] // pane * pane
            stop = e + 1
            while stop < end and events.time[stop] < begin + pane:
                stop += 1
            _open_lanes(state, v, v_g, layout, rows, lanes, widest, step, begin)
            bad = _take_pane(
                q, g, inner, code, starts, size, events.time, events.klass, events.whole, events.real, events.many,
                last_neg, e, stop, wi, wf, zero, nought,
            )  # fmt: skip
            if bad >= 0:
                bad = _multiply(state, v, v_g, layout, rows, lanes, q, g, inner, total, total_g)
            if bad >= 0:
                until = events.time[stop] // pane * pane if stop < end else FOREVER
                bad = _report(
                    state, v, v_g, layout, rows, lanes, queries, due, last_neg, labels, out, out_g, key, step, begin,
                    until, emit_from, emit_to,
                )  # fmt: skip
            e = stop
        if bad < 0:
            overflowed[key] = True
            state[ROW] = mark
    row = state[ROW]
    return labels[:row], out[: row * layout.words], out_g[: row * layout.words], overflowed


@inner
def _open_lanes(
    state: Times, v: Words, v_g: Floats, layout: Layout, rows: Rows, lanes: int, widest: int, step: int, begin: int
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
            copy_totals(v, v_g, first + by * words, v, v_g, first, kept, layout)
        state[BASE] += by
        state[HI] -= by
        state[LO] = 0
    opened = state[HI] + 1
    state[HI] = newest - state[BASE]
    if state[HI] >= opened:
        for row in range(size):
            clear(v, v_g, layout, (row * lanes + opened) * words, state[HI] - opened + 1)
        for at in range(rows.begin.size):
            for lane in range(opened, state[HI] + 1):
                set_one(v, v_g, layout, (rows.begin[at] * lanes + lane) * words)


@inner
def _take_pane(
    q: Words,
    g: Floats,
    layout: Layout,
    code: Code,
    starts: Nodes,
    size: int,
    time: Times,
    klass: NDArray[np.int32],
    whole: Words,
    real: Floats,
    many: Times,
    last_neg: Times,
    e: int,
    stop: int,
    wi: Words,
    wf: Floats,
    zero: Words,
    nought: Floats,
) -> int:
    """Step pairs by all events of a pane; negative where a 64-bit count overflowed."""
    clear(q, g, layout, 0, size)
    for at in range(starts.size):
        set_one(q, g, layout, starts[at] * layout.words)
    width = 3 + layout.ni + layout.nm + layout.nf
    counts_alone = layout.words == 1
    negs = last_neg.size > 1
    bad = np.int64(0)
    while e < stop:
        now = time[e]
        after = e + 1
        while after < stop and time[after] == now and (many.size == 0 or many[after] < 0):
            after += 1
        head = code[klass[e]]
        n = abs(many[e]) if many.size > 0 else np.int64(1)
        if after == e + 1 and code[head + IS_DIRECT]:
            if counts_alone:
                bad |= _count_runs(q, g, code, head, 0, n, layout.counts)
            else:
                bad |= _take_runs(q, g, layout, code, head, width, 0, whole, real, e, n, wi, wf)
        elif counts_alone:
            for a in range(e, after):
                n = abs(many[a]) if many.size > 0 else np.int64(1)
                bad |= _count_runs(q, g, code, code[klass[a]], size, n, layout.counts)
            for a in range(e, after):
                bad |= _move_on(q, g, layout, code, code[klass[a]], width, zero, nought)
            for a in range(e, after):
                bad |= _settle_counts(q, g, code, code[klass[a]], size, layout.counts)
        else:
            for a in range(e, after):
                n = abs(many[a]) if many.size > 0 else np.int64(1)
                bad |= _take_runs(q, g, layout, code, code[klass[a]], width, size, whole, real, a, n, wi, wf)
            for a in range(e, after):
                bad |= _move_on(q, g, layout, code, code[klass[a]], width, zero, nought)
            for a in range(e, after):
                bad |= _settle(q, g, layout, code, code[klass[a]], width, size, zero, nought)
        if negs:
            for a in range(e, after):
                head = code[klass[a]]
                neg = head + HEAD + code[head + RUNS] * width + 2 * code[head + MOVES]
                for place in range(neg, neg + code[head + NEGS]):
                    last_neg[code[place]] = now
        e = after
    return bad


@inner
def _count_runs(q: Words, g: Floats, code: Code, head: int, aside: int, n: int, shadowed: bool) -> int:
    """`_take_runs` where totals are but counts: what most events of most queries come to."""
    bad = np.int64(0)
    times = np.float64(n)
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        source, target, length = code[at], aside + code[at + 1], code[at + 2]
        if shadowed:
            for s in range(length):
                q[target + s] += n * q[source + s]
            for s in range(length):
                g[target + s] += times * g[source + s]
        elif n == 1:
            for s in range(length):
                total = q[target + s] + q[source + s]
                q[target + s] = total
                bad |= total
        else:
            for s in range(length):
                new = q[source + s]
                if times * np.float64(new) >= COUNT_SURE:
                    return -1
                total = q[target + s] + n * new
                q[target + s] = total
                bad |= total
        at += 3
    return bad


@inner
def _settle_counts(q: Words, g: Floats, code: Code, head: int, aside: int, shadowed: bool) -> int:
    """`_settle` where totals are but counts."""
    bad = np.int64(0)
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        target = code[at + 1]
        for place in range(target, target + code[at + 2]):
            total = q[place] + q[aside + place]
            q[place] = total
            q[aside + place] = 0
            if shadowed:
                g[place] += g[aside + place]
                g[aside + place] = 0.0
            else:
                bad |= total
        at += 3
    return bad


@inner
def _take_runs(
    q: Words,
    g: Floats,
    layout: Layout,
    code: Code,
    head: int,
    width: int,
    aside: int,
    whole: Words,
    real: Floats,
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
            weigh(wi, wf, layout, code, at, whole, real, e, n)
        source, target, length = code[at] * words, (aside + code[at + 1]) * words, code[at + width - 1]
        if n == 1:
            bad |= carry(q, g, layout, source, target, length, wi, wf)
        else:
            bad |= carry_many(q, g, layout, source, target, length, n, wi, wf)
        at += width
    return bad


@inner
def _settle(
    q: Words, g: Floats, layout: Layout, code: Code, head: int, width: int, aside: int, zero: Words, nought: Floats
) -> int:
    """Add what an event's steps put aside."""
    bad = np.int64(0)
    words = layout.words
    at = head + HEAD
    for _ in range(code[head + RUNS]):
        target, length = code[at + 1] * words, code[at + width - 1]
        bad |= carry(q, g, layout, target + aside * words, target, length, zero, nought)
        clear(q, g, layout, target + aside * words, length)
        at += width
    return bad


@inner
def _move_on(
    q: Words, g: Floats, layout: Layout, code: Code, head: int, width: int, zero: Words, nought: Floats
) -> int:
    """What an absence forbids goes where that hope is not, or nowhere."""
    bad = np.int64(0)
    words = layout.words
    at = head + HEAD + code[head + RUNS] * width
    for _ in range(code[head + MOVES]):
        source, target = code[at] * words, code[at + 1] * words
        if target >= 0:
            bad |= carry(q, g, layout, source, target, 1, zero, nought)
        else:
            clear(q, g, layout, source, 1)
        at += 2
    return bad


@inner
def _multiply(
    state: Times,
    v: Words,
    v_g: Floats,
    layout: Layout,
    rows: Rows,
    lanes: int,
    q: Words,
    g: Floats,
    inner: Layout,
    total: Words,
    total_g: Floats,
) -> int:
    """Multiply the totals of all open windows by those of a pane; negative where a count overflowed."""
    words = layout.words
    lo, count = state[LO], state[HI] - state[LO] + 1
    bad = np.int64(0)
    for row in range(rows.join_offsets.size - 1):
        clear(total, total_g, layout, 0, count)
        for join in range(rows.join_offsets[row], rows.join_offsets[row + 1]):
            pair = rows.joins[2 * join + 1] * words
            if not holds_any(q, g, inner, pair):
                continue
            before = (rows.joins[2 * join] * lanes + lo) * words
            if layout.counts:
                times = q[pair]
                shadow = g[pair] if inner.counts else float(times)
                for lane in range(count):
                    total[lane] += v[before + lane] * times
                for lane in range(count):
                    total_g[lane] += v_g[before + lane] * shadow
            else:
                for lane in range(count):
                    bad |= add_product(v, v_g, before + lane * words, q, g, pair, total, total_g, lane * words, layout)
        copy_totals(total, total_g, 0, v, v_g, (row * lanes + lo) * words, count, layout)
    return bad


@inner
def _report(
    state: Times,
    v: Words,
    v_g: Floats,
    layout: Layout,
    rows: Rows,
    lanes: int,
    queries: Queries,
    due: Times,
    last_neg: Times,
    labels: Labels,
    out: Words,
    out_g: Floats,
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
        if until < FOREVER:
            last = min(last, (until - within) // slide)
        due[query] = max(first, last + 1)
        for window in range(first, last + 1):
            start = window * slide
            end = start + within
            if end < emit_from or end >= emit_to or negated(queries, query, last_neg, start):
                continue
            row = state[ROW]
            lane = start // step - state[BASE]
            clear(out, out_g, layout, row * words, 1)
            for at in range(rows.accept_offsets[query], rows.accept_offsets[query + 1]):
                place = (rows.accept[at] * lanes + lane) * words
                bad |= add_total(v, v_g, place, out, out_g, row * words, layout)
            if holds_any(out, out_g, layout, row * words):
                put_label(labels, row, query, key, start, end, True)
                state[ROW] = row + 1
    return bad
