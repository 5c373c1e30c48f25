"""The steps that the events of one time take on a buffer of totals: shared by every strategy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner
from motet.kernels.tables import (
    BLOCK,
    DIRECT,
    DONE,
    LONG_AGO,
    MOVES,
    NEGS,
    STEPS,
    Code,
    Flags,
    Queries,
    Times,
    done_at,
    moves_at,
    step_width,
    steps_at,
    weigh,
)
from motet.kernels.totals import Floats, Layout, Words, carry, carry_many, clear

Nodes = NDArray[np.int32]


@inner
def take_alone(
    q: Words,
    g: Floats,
    layout: Layout,
    slots: int,
    code: Code,
    block: int,
    touched: Flags,
    is_start: Flags,
    whole: Words,
    real: Floats,
    e: int,
    n: int,
    lo: int,
    hi: int,
    newest_only: bool,
    wi: Words,
    wf: Floats,
) -> int:
    """A lone event's steps, or those of n at one time that are alike, straight into settled nodes. With `newest_only`,
    matches begin in the newest slot alone.
    """
    bad = np.int64(0)
    width = step_width(layout)
    weighs = width > 2
    step = block + BLOCK
    for _ in range(code[block + DIRECT]):
        source, target = code[step], code[step + 1]
        if not touched[source]:
            step += width
            continue
        if weighs:
            weigh(wi, wf, layout, code, step, whole, real, e, n)
        touched[target] = True
        first = hi if newest_only and is_start[source] else lo
        a, b = (source * slots + first) * layout.words, (target * slots + first) * layout.words
        if n == 1:
            bad |= carry(q, g, layout, a, b, hi - first + 1, wi, wf)
        else:
            bad |= carry_many(q, g, layout, a, b, hi - first + 1, n, wi, wf)
        step += width
    if code[block + MOVES] > 0:
        move = moves_at(block, code, width)
        for at in range(code[block + MOVES]):
            clear(q, g, layout, (code[move + 2 * at] * slots + lo) * layout.words, hi - lo + 1)
    return bad


@inner
def count_alone(
    q: Words,
    g: Floats,
    slots: int,
    code: Code,
    block: int,
    touched: Flags,
    is_start: Flags,
    lo: int,
    hi: int,
    newest_only: bool,
    n: int,
) -> None:
    """`take_alone` where totals are but counts and nothing is to be moved: the path most events of most queries
    take.
    """
    step = block + BLOCK
    if lo == hi:  # a loop over one slot would cost several times what it does
        for _ in range(code[block + DIRECT]):
            source, target = code[step], code[step + 1]
            if touched[source]:
                touched[target] = True
                q[target * slots + hi] += n * q[source * slots + hi]
                g[target * slots + hi] += n * g[source * slots + hi]
            step += 2
        return
    for _ in range(code[block + DIRECT]):
        source, target = code[step], code[step + 1]
        if touched[source]:
            touched[target] = True
            first = hi if newest_only and is_start[source] else lo
            add_times(q, g, source * slots + first, target * slots + first, hi - first + 1, n)
        step += 2


@inner
def count_tied(
    q: Words,
    g: Floats,
    slots: int,
    code: Code,
    klass: NDArray[np.int32],
    many: Times,
    touched: Flags,
    is_start: Flags,
    fold: Nodes,
    fresh: Nodes,
    e: int,
    after: int,
    lo: int,
    hi: int,
    newest_only: bool,
) -> None:
    """`take_tied` where totals are but counts."""
    for a in range(e, after):
        block = code[klass[a]]
        n = abs(many[a]) if many.size > 0 else np.int64(1)
        step = steps_at(block, code, 2)
        for _ in range(code[block + STEPS]):
            source, target = code[step], code[step + 1]
            if touched[source]:
                touch(touched, fold, fresh, target)
                first = hi if newest_only and is_start[source] else lo
                add_times(q, g, source * slots + first, target * slots + first, hi - first + 1, n)
            step += 2


@inner
def add_times(q: Words, g: Floats, a: int, b: int, count: int, n: int) -> None:
    """Add `count` counts from a on, n times, to those from b on."""
    times = np.float64(n)
    for s in range(count):
        q[b + s] += n * q[a + s]
        g[b + s] += times * g[a + s]


@inner
def take_tied(
    q: Words,
    g: Floats,
    layout: Layout,
    slots: int,
    code: Code,
    klass: NDArray[np.int32],
    many: Times,
    touched: Flags,
    is_start: Flags,
    fold: Nodes,
    fresh: Nodes,
    whole: Words,
    real: Floats,
    e: int,
    after: int,
    lo: int,
    hi: int,
    newest_only: bool,
    wi: Words,
    wf: Floats,
) -> int:
    """The steps of all events of one time: totals go to fresh nodes."""
    bad = np.int64(0)
    width = step_width(layout)
    for a in range(e, after):
        block = code[klass[a]]
        n = abs(many[a]) if many.size > 0 else np.int64(1)
        step = steps_at(block, code, width)
        for _ in range(code[block + STEPS]):
            source, target = code[step], code[step + 1]
            if not touched[source]:
                step += width
                continue
            weigh(wi, wf, layout, code, step, whole, real, a, n)
            touch(touched, fold, fresh, target)
            first = hi if newest_only and is_start[source] else lo
            one, other = (source * slots + first) * layout.words, (target * slots + first) * layout.words
            if n == 1:
                bad |= carry(q, g, layout, one, other, hi - first + 1, wi, wf)
            else:
                bad |= carry_many(q, g, layout, one, other, hi - first + 1, n, wi, wf)
            step += width
    return bad


@inner
def take_moves(
    q: Words,
    g: Floats,
    layout: Layout,
    slots: int,
    code: Code,
    klass: NDArray[np.int32],
    touched: Flags,
    fold: Nodes,
    fresh: Nodes,
    e: int,
    after: int,
    lo: int,
    hi: int,
    zero: Words,
    nought: Floats,
) -> int:
    """What absences forbid after one time is moved away. `zero` and `nought` are weights of nothing."""
    bad = np.int64(0)
    width = step_width(layout)
    for a in range(e, after):
        block = code[klass[a]]
        if code[block + MOVES] == 0:
            continue
        move = moves_at(block, code, width)
        for at in range(code[block + MOVES]):
            source, target = code[move + 2 * at], code[move + 2 * at + 1]
            one = (source * slots + lo) * layout.words
            if target >= 0:
                touch(touched, fold, fresh, target)
                other = (target * slots + lo) * layout.words
                bad |= carry(q, g, layout, one, other, hi - lo + 1, zero, nought)
            else:
                clear(q, g, layout, one, hi - lo + 1)
    return bad


@inner
def touch(touched: Flags, fold: Nodes, fresh: Nodes, node: int) -> None:
    """Note that a node is in use. `fresh` lists the fresh nodes in use, their number last."""
    if not touched[node]:
        touched[node] = True
        if fold[node] != node:
            fresh[fresh[-1]] = node
            fresh[-1] += 1


@inner
def settle(
    q: Words,
    g: Floats,
    layout: Layout,
    slots: int,
    touched: Flags,
    fold: Nodes,
    fresh: Nodes,
    lo: int,
    hi: int,
    zero: Words,
    nought: Floats,
) -> int:
    """Fold fresh nodes into settled ones."""
    bad = np.int64(0)
    for at in range(fresh[-1]):
        node = fresh[at]
        settled = fold[node]
        touched[settled] = True
        touched[node] = False
        one, other = (node * slots + lo) * layout.words, (settled * slots + lo) * layout.words
        bad |= carry(q, g, layout, one, other, hi - lo + 1, zero, nought)
        clear(q, g, layout, one, hi - lo + 1)
    fresh[-1] = 0
    return bad


# Rows of the table of windows that have to report, a column to a query, and one more.
FIRST_DUE = 0
LAST_DUE = 1
NOTED = 2  # the pane in which this was last looked at
WAITING = 3  # a list of the queries with windows due, its length in the last column
DUE = 4


@inner
def no_windows_due(due: NDArray[np.int64]) -> None:
    """Empty the table of windows that have to report."""
    for query in range(due.shape[1]):
        due[FIRST_DUE, query] = 0
        due[LAST_DUE, query] = -1
        due[NOTED, query] = LONG_AGO
        due[WAITING, query] = 0


@inner
def note_due(
    code: Code,
    klass: NDArray[np.int32],
    width: int,
    within: Times,
    slide: Times,
    accept_offsets: Times,
    accept: Nodes,
    touched: Flags,
    due: NDArray[np.int64],
    e: int,
    after: int,
    now: int,
    pane: int,
) -> None:
    """Remember, for each query that may just have been completed, which windows have to report; once in a pane is
    enough.
    """
    for a in range(e, after):
        block = code[klass[a]]
        if code[block + DONE] == 0:
            continue
        done = done_at(block, code, width)
        for at in range(done, done + code[block + DONE]):
            query = code[at]
            if due[NOTED, query] == pane:
                continue
            reached = False
            for node in range(accept_offsets[query], accept_offsets[query + 1]):
                reached |= touched[accept[node]]
            if not reached:
                continue
            due[NOTED, query] = pane
            if due[LAST_DUE, query] < due[FIRST_DUE, query]:
                due[FIRST_DUE, query] = (now - within[query]) // slide[query] + 1 if slide[query] > 0 else 0
                due[WAITING, due[WAITING, -1]] = query
                due[WAITING, -1] += 1
            due[LAST_DUE, query] = now // slide[query] if slide[query] > 0 else 0


@inner
def note_negs(code: Code, klass: NDArray[np.int32], width: int, last_neg: Times, e: int, after: int, now: int) -> None:
    """Remember when each NEG was last belied."""
    for a in range(e, after):
        block = code[klass[a]]
        if code[block + NEGS] > 0:
            neg = done_at(block, code, width) + code[block + DONE]
            for at in range(neg, neg + code[block + NEGS]):
                last_neg[code[at]] = now


@inner
def negated(queries: Queries, query: int, last_neg: Times, since: int) -> bool:
    """Whether a NEG of a query was belied at or after some time."""
    for at in range(queries.neg_offsets[query], queries.neg_offsets[query + 1]):
        if last_neg[queries.neg[at]] >= since:
            return True
    return False
