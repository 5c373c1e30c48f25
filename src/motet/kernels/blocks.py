"""Windows of two blocks of time: totals between pairs of nodes, forward through one block and backward through another.

See `motet.plan.blocks` for what pairs are. The window that begins at s, in block b - 1, and is as long as a block,
ends in block b. Going backward through block b - 1, the totals from the start at s to every node at the block's end
are kept, for each s: its *row*. Going forward through block b, a row times what leads from there to the end of a match
is the window's result. Each event is taken once in each direction, whatever the window holds and however many are open.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import kernel
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
    Floats,
    Layout,
    Words,
    add_counts,
    add_product,
    carry,
    clear,
    copy_totals,
    holds_any,
    new_totals,
    set_one,
    wider_totals,
)

# `code[c]` is where the block of class c begins: these words, then its lists in this order. A run is source, target,
# weights as of a step (see `motet.kernels.tables`), and how many consecutive nodes take that step; a move is source,
# and target or -1 for clearing the source; last the NEGs it belies.
IS_DIRECT = 0  # runs are in an order in which each node is read before it is changed, and there are no moves
RUNS = 1
MOVES = 2
NEGS = 3
HEAD = 4


@kernel
def run_blocks(
    events: Events,
    forward: Code,
    forward_starts: Nodes,
    forward_size: int,
    backward: Code,
    backward_starts: Nodes,
    backward_size: int,
    rows: Nodes,
    join_offsets: Times,
    joins: Nodes,
    queries: Queries,
    layout: Layout,
    emit_from: int,
    emit_to: int,
) -> tuple[Labels, Words, Floats, Flags]:
    """Results of all queries, which have one window in common, over all keys: labels and totals of each, and which keys
    overflowed 64 bits (theirs are left out).

    Each event costs O(steps of its class, forward and backward, * channels); each window O(joins * channels); each
    block of a key that has events O(pairs * channels). `joins` holds a place in the row and a forward pair, by turns.
    """
    keys = events.offsets.size - 1
    within, slide = queries.within[0], queries.slide[0]
    count = queries.within.size
    # The second half of each buffer is for what the events of one time add.
    f, f_g = new_totals(2 * forward_size, layout)
    b, b_g = new_totals(2 * backward_size, layout)
    windows = within // slide + 1
    kept, kept_g = new_totals(windows * rows.size, layout)
    labels = np.empty((1024 + windows * count, LABELS), np.int64)
    out, out_g = new_totals(1024 + windows * count, layout)
    overflowed = np.zeros(keys, np.bool_)
    last_neg = np.empty(queries.neg.size + 1, np.int64)
    wi, wf = np.zeros(layout.ni + layout.nm, np.int64), np.zeros(layout.nf, np.float64)
    zero, nought = nothing_weighs(layout), np.zeros(layout.nf, np.float64)
    row = 0
    for key in range(keys):
        mark = row
        fill(last_neg, LONG_AGO)
        e, end = events.offsets[key], events.offsets[key + 1]
        block = events.time[e] // within if e < end else np.int64(0)
        empty = True  # the block before this one has no events
        while row >= 0 and (e < end or not empty):
            while labels.shape[0] < row + windows * count:
                labels = grown(labels)
                out, out_g = wider_totals(out, out_g, layout)
            stop = e
            while stop < end and events.time[stop] < (block + 1) * within:
                stop += 1
            if empty:
                _begin_rows(kept, kept_g, layout, rows, backward_starts, windows)
            row = _forward(
                f, f_g, layout, forward, forward_starts, forward_size, kept, kept_g, rows.size, join_offsets, joins,
                queries, events.time, events.klass, events.whole, events.real, labels, out, out_g, row, last_neg,
                key, e, stop, block, within, slide, emit_from, emit_to, wi, wf, zero, nought,
            )  # fmt: skip
            empty = stop == e
            if row >= 0 and not empty:
                bad = _backward(
                    b, b_g, layout, backward, backward_starts, backward_size, kept, kept_g, rows,
                    events.time, events.klass, events.whole, events.real, e, stop, block, within, slide,
                    wi, wf, zero, nought,
                )  # fmt: skip
                if bad < 0:
                    row = -1
            e = stop
            block += 1
            if empty and e < end:
                block = events.time[e] // within
        if row < 0:
            overflowed[key] = True
            row = mark
    return labels[:row], out[: row * layout.words], out_g[: row * layout.words], overflowed


@kernel
def _begin_rows(kept: Words, kept_g: Floats, layout: Layout, rows: Nodes, starts: Nodes, windows: int) -> None:
    """Rows of windows that begin after the last event of a block: they hold but what their start does."""
    clear(kept, kept_g, layout, 0, windows * rows.size)
    for window in range(windows):
        for place in range(rows.size):
            if _among(starts, rows[place]):
                set_one(kept, kept_g, layout, (window * rows.size + place) * layout.words)


@kernel
def _among(nodes: Nodes, node: int) -> bool:
    for at in range(nodes.size):
        if nodes[at] == node:
            return True
    return False


@kernel
def _reset(q: Words, g: Floats, layout: Layout, starts: Nodes, size: int) -> None:
    """Totals at the edge of a block: one empty match from each node to itself."""
    clear(q, g, layout, 0, size)
    for at in range(starts.size):
        set_one(q, g, layout, starts[at] * layout.words)


@kernel
def _forward(
    q: Words,
    g: Floats,
    layout: Layout,
    code: Code,
    starts: Nodes,
    size: int,
    kept: Words,
    kept_g: Floats,
    row_size: int,
    join_offsets: Times,
    joins: Nodes,
    queries: Queries,
    time: Times,
    klass: NDArray[np.int32],
    whole: Words,
    real: Floats,
    labels: Labels,
    out: Words,
    out_g: Floats,
    row: int,
    last_neg: Times,
    key: int,
    e: int,
    stop: int,
    block: int,
    within: int,
    slide: int,
    emit_from: int,
    emit_to: int,
    wi: Words,
    wf: Floats,
    zero: Words,
    nought: Floats,
) -> int:
    """Take the events of a block and report the windows that end in it; the next row to write, or -1: overflow."""
    _reset(q, g, layout, starts, size)
    first, last = _first_start(block - 1, within, slide), _first_start(block, within, slide) - 1
    due = first
    width = 3 + layout.ni + layout.nm + layout.nf
    counts_alone = layout.counts
    bad = np.int64(0)
    while True:
        now = time[e] if e < stop else FOREVER
        while due <= last and due * slide + within <= now:
            row = _report(
                q, g, layout, kept, kept_g, (due - first) * row_size, join_offsets, joins, queries, labels, out, out_g,
                row, last_neg, key, due * slide, within, emit_from, emit_to,
            )  # fmt: skip
            if row < 0:
                return row
            due += 1
        if e >= stop:
            return row
        after = e + 1
        while after < stop and time[after] == now:
            after += 1
        at = code[klass[e]]
        if after == e + 1 and code[at + IS_DIRECT]:
            if counts_alone:
                _count_runs(q, g, code, at)
            else:
                bad |= _take_runs(q, g, layout, code, at, width, 0, whole, real, e, wi, wf)
        else:
            for a in range(e, after):
                bad |= _take_runs(q, g, layout, code, code[klass[a]], width, size, whole, real, a, wi, wf)
            for a in range(e, after):
                bad |= _move_on(q, g, layout, code, code[klass[a]], width, zero, nought)
            for a in range(e, after):
                bad |= _settle(q, g, layout, code, code[klass[a]], width, size, zero, nought)
        if bad < 0:
            return -1
        for a in range(e, after):
            at = code[klass[a]]
            if code[at + NEGS] > 0:
                neg = at + HEAD + code[at + RUNS] * width + 2 * code[at + MOVES]
                for place in range(neg, neg + code[at + NEGS]):
                    last_neg[code[place]] = now
        e = after


@kernel
def _first_start(block: int, within: int, slide: int) -> int:
    """The number of the first window that begins after the beginning of a block."""
    return block * within // slide + 1


@kernel
def _report(
    q: Words,
    g: Floats,
    layout: Layout,
    kept: Words,
    kept_g: Floats,
    kept_at: int,
    join_offsets: Times,
    joins: Nodes,
    queries: Queries,
    labels: Labels,
    out: Words,
    out_g: Floats,
    row: int,
    last_neg: Times,
    key: int,
    start: int,
    within: int,
    emit_from: int,
    emit_to: int,
) -> int:
    """Report a window for every query that has matches in it; the next row to write, or -1 for an overflow."""
    end = start + within
    if end < emit_from or end >= emit_to:
        return row
    words = layout.words
    for query in range(queries.within.size):
        clear(out, out_g, layout, row * words, 1)
        bad = np.int64(0)
        for join in range(join_offsets[query], join_offsets[query + 1]):
            one = (kept_at + joins[2 * join]) * words
            if holds_any(kept, kept_g, layout, one):
                other = joins[2 * join + 1] * words
                bad |= add_product(kept, kept_g, one, q, g, other, out, out_g, row * words, layout)
        if bad < 0:
            return -1
        if holds_any(out, out_g, layout, row * words) and not negated(queries, query, last_neg, start):
            put_label(labels, row, query, key, start, end, True)
            row += 1
    return row


@kernel
def _backward(
    q: Words,
    g: Floats,
    layout: Layout,
    code: Code,
    starts: Nodes,
    size: int,
    kept: Words,
    kept_g: Floats,
    rows: Nodes,
    time: Times,
    klass: NDArray[np.int32],
    whole: Words,
    real: Floats,
    e: int,
    stop: int,
    block: int,
    within: int,
    slide: int,
    wi: Words,
    wf: Floats,
    zero: Words,
    nought: Floats,
) -> int:
    """Take the events of a block from its end, and keep a row for each window that begins in it; negative: overflow."""
    _reset(q, g, layout, starts, size)
    first, start = _first_start(block, within, slide), _first_start(block + 1, within, slide) - 1
    width = 3 + layout.ni + layout.nm + layout.nf
    words = layout.words
    counts_alone = layout.counts
    bad = np.int64(0)
    at = stop - 1
    while True:
        now = time[at] if at >= e else LONG_AGO
        while start >= first and start * slide > now:
            for place in range(rows.size):
                to = ((start - first) * rows.size + place) * words
                copy_totals(q, g, rows[place] * words, kept, kept_g, to, 1, layout)
            start -= 1
        if at < e or start < first:
            return bad
        before = at
        while before > e and time[before - 1] == now:
            before -= 1
        head = code[klass[at]]
        if before == at and code[head + IS_DIRECT]:
            if counts_alone:
                _count_runs(q, g, code, head)
            else:
                bad |= _take_runs(q, g, layout, code, head, width, 0, whole, real, at, wi, wf)
        else:
            for a in range(before, at + 1):
                bad |= _take_runs(q, g, layout, code, code[klass[a]], width, size, whole, real, a, wi, wf)
            for a in range(before, at + 1):
                _move_back(q, g, layout, code, code[klass[a]], width)
            for a in range(before, at + 1):
                bad |= _settle(q, g, layout, code, code[klass[a]], width, size, zero, nought)
        if bad < 0:
            return bad
        at = before - 1


@kernel
def _count_runs(q: Words, g: Floats, code: Code, at: int) -> None:
    """A lone event's steps where totals are but counts: the path most events take."""
    step = at + HEAD
    for _ in range(code[at + RUNS]):
        source, target, length = code[step], code[step + 1], code[step + 2]
        if length < 4:
            for s in range(length):
                q[target + s] += q[source + s]
                g[target + s] += g[source + s]
        else:
            add_counts(q, g, source, target, length)
        step += 3


@kernel
def _take_runs(
    q: Words,
    g: Floats,
    layout: Layout,
    code: Code,
    at: int,
    width: int,
    aside: int,
    whole: Words,
    real: Floats,
    e: int,
    wi: Words,
    wf: Floats,
) -> int:
    """An event's steps; what they add goes to places `aside` of its own, to be settled when the time is over."""
    bad = np.int64(0)
    words = layout.words
    step = at + HEAD
    for _ in range(code[at + RUNS]):
        if width > 3:
            weigh(wi, wf, layout, code, step, whole, real, e)
        source, target, length = code[step] * words, (aside + code[step + 1]) * words, code[step + width - 1]
        bad |= carry(q, g, layout, source, target, length, wi, wf)
        step += width
    return bad


@kernel
def _settle(
    q: Words, g: Floats, layout: Layout, code: Code, at: int, width: int, aside: int, zero: Words, nought: Floats
) -> int:
    """Add what an event's steps put aside."""
    bad = np.int64(0)
    words = layout.words
    step = at + HEAD
    for _ in range(code[at + RUNS]):
        target, length = code[step + 1] * words, code[step + width - 1]
        bad |= carry(q, g, layout, target + aside * words, target, length, zero, nought)
        clear(q, g, layout, target + aside * words, length)
        step += width
    return bad


@kernel
def _move_on(q: Words, g: Floats, layout: Layout, code: Code, at: int, width: int, zero: Words, nought: Floats) -> int:
    """What an absence forbids goes where that hope is not, or nowhere."""
    bad = np.int64(0)
    words = layout.words
    move = at + HEAD + code[at + RUNS] * width
    for _ in range(code[at + MOVES]):
        source, target = code[move] * words, code[move + 1] * words
        if target >= 0:
            bad |= carry(q, g, layout, source, target, 1, zero, nought)
        else:
            clear(q, g, layout, source, 1)
        move += 2
    return bad


@kernel
def _move_back(q: Words, g: Floats, layout: Layout, code: Code, at: int, width: int) -> None:
    """The same seen from before: what was hoped for here leads on only as far as from where that hope is not."""
    words = layout.words
    move = at + HEAD + code[at + RUNS] * width
    for _ in range(code[at + MOVES]):
        source, target = code[move] * words, code[move + 1] * words
        if target >= 0:
            copy_totals(q, g, target, q, g, source, 1, layout)
        else:
            clear(q, g, layout, source, 1)
        move += 2
