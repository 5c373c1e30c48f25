"""The steps that the events of one time take on a buffer of totals: shared by every strategy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner
from motet.kernels.tables import (
    BLOCK,
    COMPLETIONS,
    DIRECT,
    MIN_TIME,
    MOVES,
    NEGS,
    STEPS,
    Code,
    Flags,
    Queries,
    Times,
    completions_at,
    load_weights,
    moves_at,
    step_width,
    steps_at,
)
from motet.kernels.totals import Floats, Layout, Words, clear_totals, propagate, propagate_many

Nodes = NDArray[np.int32]


@inner
def apply_event(
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    code: Code,
    block: int,
    touched: Flags,
    is_start: Flags,
    int_values: Words,
    float_values: Floats,
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
            load_weights(wi, wf, layout, code, step, int_values, float_values, e, n)
        touched[target] = True
        first = hi if newest_only and is_start[source] else lo
        a, b = (source * slots + first) * layout.words, (target * slots + first) * layout.words
        if n == 1:
            bad |= propagate(ints, floats, layout, a, b, hi - first + 1, wi, wf)
        else:
            bad |= propagate_many(ints, floats, layout, a, b, hi - first + 1, n, wi, wf)
        step += width
    if code[block + MOVES] > 0:
        move = moves_at(block, code, width)
        for at in range(code[block + MOVES]):
            clear_totals(ints, floats, layout, (code[move + 2 * at] * slots + lo) * layout.words, hi - lo + 1)
    return bad


@inner
def count_event(
    ints: Words,
    floats: Floats,
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
    """`apply_event` where totals are but counts and nothing is to be moved: the path most events of most queries
    take.
    """
    step = block + BLOCK
    if lo == hi:  # a loop over one slot would cost several times what it does
        for _ in range(code[block + DIRECT]):
            source, target = code[step], code[step + 1]
            if touched[source]:
                touched[target] = True
                ints[target * slots + hi] += n * ints[source * slots + hi]
                floats[target * slots + hi] += n * floats[source * slots + hi]
            step += 2
        return
    for _ in range(code[block + DIRECT]):
        source, target = code[step], code[step + 1]
        if touched[source]:
            touched[target] = True
            first = hi if newest_only and is_start[source] else lo
            add_counts_times(ints, floats, source * slots + first, target * slots + first, hi - first + 1, n)
        step += 2


@inner
def count_simultaneous(
    ints: Words,
    floats: Floats,
    slots: int,
    code: Code,
    klass: NDArray[np.int32],
    multiplicity: Times,
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
    """`apply_simultaneous` where totals are but counts."""
    for a in range(e, after):
        block = code[klass[a]]
        n = abs(multiplicity[a]) if multiplicity.size > 0 else np.int64(1)
        step = steps_at(block, code, 2)
        for _ in range(code[block + STEPS]):
            source, target = code[step], code[step + 1]
            if touched[source]:
                touch(touched, fold, fresh, target)
                first = hi if newest_only and is_start[source] else lo
                add_counts_times(ints, floats, source * slots + first, target * slots + first, hi - first + 1, n)
            step += 2


@inner
def add_counts_times(ints: Words, floats: Floats, a: int, b: int, count: int, n: int) -> None:
    """Add `count` counts from a on, n times, to those from b on."""
    times = np.float64(n)
    for s in range(count):
        ints[b + s] += n * ints[a + s]
        floats[b + s] += times * floats[a + s]


@inner
def apply_simultaneous(
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    code: Code,
    klass: NDArray[np.int32],
    multiplicity: Times,
    touched: Flags,
    is_start: Flags,
    fold: Nodes,
    fresh: Nodes,
    int_values: Words,
    float_values: Floats,
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
        n = abs(multiplicity[a]) if multiplicity.size > 0 else np.int64(1)
        step = steps_at(block, code, width)
        for _ in range(code[block + STEPS]):
            source, target = code[step], code[step + 1]
            if not touched[source]:
                step += width
                continue
            load_weights(wi, wf, layout, code, step, int_values, float_values, a, n)
            touch(touched, fold, fresh, target)
            first = hi if newest_only and is_start[source] else lo
            one, other = (source * slots + first) * layout.words, (target * slots + first) * layout.words
            if n == 1:
                bad |= propagate(ints, floats, layout, one, other, hi - first + 1, wi, wf)
            else:
                bad |= propagate_many(ints, floats, layout, one, other, hi - first + 1, n, wi, wf)
            step += width
    return bad


@inner
def apply_negations(
    ints: Words,
    floats: Floats,
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
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """What absences forbid after one time is moved away. `zero_int` and `zero_float` are weights of nothing."""
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
                bad |= propagate(ints, floats, layout, one, other, hi - lo + 1, zero_int, zero_float)
            else:
                clear_totals(ints, floats, layout, one, hi - lo + 1)
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
def commit_fresh_nodes(
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    touched: Flags,
    fold: Nodes,
    fresh: Nodes,
    lo: int,
    hi: int,
    zero_int: Words,
    zero_float: Floats,
) -> int:
    """Fold fresh nodes into settled ones."""
    bad = np.int64(0)
    for at in range(fresh[-1]):
        node = fresh[at]
        settled = fold[node]
        touched[settled] = True
        touched[node] = False
        one, other = (node * slots + lo) * layout.words, (settled * slots + lo) * layout.words
        bad |= propagate(ints, floats, layout, one, other, hi - lo + 1, zero_int, zero_float)
        clear_totals(ints, floats, layout, one, hi - lo + 1)
    fresh[-1] = 0
    return bad


# Rows of the table of windows that have to report, a column to a query, and one more.
FIRST_DUE = 0
LAST_DUE = 1
NOTED = 2  # the pane in which this was last looked at
WAITING = 3  # a list of the queries with windows due, its length in the last column
DUE = 4


@inner
def clear_due_windows(due: NDArray[np.int64]) -> None:
    """Empty the table of windows that have to report."""
    for query in range(due.shape[1]):
        due[FIRST_DUE, query] = 0
        due[LAST_DUE, query] = -1
        due[NOTED, query] = MIN_TIME
        due[WAITING, query] = 0


@inner
def mark_windows_due(
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
        if code[block + COMPLETIONS] == 0:
            continue
        done = completions_at(block, code, width)
        for at in range(done, done + code[block + COMPLETIONS]):
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
def record_negations(
    code: Code, klass: NDArray[np.int32], width: int, last_neg: Times, e: int, after: int, now: int
) -> None:
    """Remember when each NEG was last belied."""
    for a in range(e, after):
        block = code[klass[a]]
        if code[block + NEGS] > 0:
            neg = completions_at(block, code, width) + code[block + COMPLETIONS]
            for at in range(neg, neg + code[block + NEGS]):
                last_neg[code[at]] = now


@inner
def is_negated(queries: Queries, query: int, last_neg: Times, since: int) -> bool:
    """Whether a NEG of a query was belied at or after some time."""
    for at in range(queries.neg_offsets[query], queries.neg_offsets[query + 1]):
        if last_neg[queries.neg[at]] >= since:
            return True
    return False
