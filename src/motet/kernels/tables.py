"""The tables kernels read and write: events, the steps each class of events takes, queries, and result rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import kernel
from motet.kernels.totals import COUNT_SURE, Totals, Weights, extended_sum, move_slot, new_totals

ALWAYS = -2  # a weight of one, whatever the event
NEVER = -1  # no weight
FOREVER = np.int64(2**62)  # later than any event
LONG_AGO = np.int64(-(2**62))  # earlier than any event


class Events(NamedTuple):
    """Events of many keys, by key and then time. `enter` and `leave` are times, or ranks for windows that count events.

    An event's class tells which symbols it has. Attribute columns: whether there is a value, the value (0 if not), and
    its place in an order of 64-bit whole numbers.
    """

    offsets: NDArray[np.int64]
    time: NDArray[np.int64]
    enter: NDArray[np.int64]
    leave: NDArray[np.int64]
    klass: NDArray[np.int32]
    valid: NDArray[np.bool_]
    value: NDArray[np.float64]
    place: NDArray[np.int64]


class Steps(NamedTuple):
    """What the events of each class do, class c having rows offsets[c] to offsets[c + 1].

    `source`, `target`: transitions, in the order they must be applied. `iw`, `fw`, `mw`: the attribute column that weighs each channel, or
    ALWAYS, or NEVER.
    """

    offsets: NDArray[np.int64]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    iw: NDArray[np.int32]
    fw: NDArray[np.int32]
    mw: NDArray[np.int32]


class Machine(NamedTuple):
    """A merged automaton: `steps` go to fresh nodes; `direct` to settled ones, for classes where a lone event may take them at once.

    A move adds a source's totals to its target, or clears the source where the target is -1.
    """

    steps: Steps
    direct: Steps
    is_direct: NDArray[np.bool_]
    move_offsets: NDArray[np.int64]
    move_source: NDArray[np.int32]
    move_target: NDArray[np.int32]
    fold: NDArray[np.int32]
    is_start: NDArray[np.bool_]
    begins: NDArray[np.bool_]  # by class: may begin a match
    done_offsets: NDArray[np.int64]  # by class: the queries it may complete
    done_query: NDArray[np.int32]
    neg_offsets: NDArray[np.int64]  # by class: the NEGs it belies
    neg: NDArray[np.int32]


class Queries(NamedTuple):
    """The queries of a machine, by number: windows, accepting nodes (and the fresh nodes that fold into them), NEGs."""

    within: NDArray[np.int64]
    slide: NDArray[np.int64]
    accept_offsets: NDArray[np.int64]
    accept: NDArray[np.int32]
    fresh_offsets: NDArray[np.int64]
    fresh: NDArray[np.int32]
    neg_offsets: NDArray[np.int64]
    neg: NDArray[np.int32]
    at_close: NDArray[np.bool_]  # reports when a start expires, not when a match completes
    expiries: NDArray[np.bool_]  # reports also when matches expire (its partitions are combined later)


class Rows(NamedTuple):
    """Result rows, `size[0]` of them filled: totals in node 0, a slot each."""

    size: NDArray[np.int64]
    query: NDArray[np.int32]
    key: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    done: NDArray[np.bool_]
    totals: Totals


@kernel
def new_rows(capacity: int, ni: int, nf: int, nm: int, extended: bool) -> Rows:
    """Room for result rows."""
    return Rows(
        np.zeros(1, np.int64),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.bool_),
        new_totals(1, capacity, ni, nf, nm, extended),
    )


@kernel
def with_room(rows: Rows, more: int, extended: bool) -> Rows:
    """The same rows with room for `more` further ones. Amortised O(1) per row."""
    size = rows.size[0]
    if size + more <= rows.query.size:
        return rows
    t = rows.totals
    wider = new_rows(2 * rows.query.size + more, t.i.shape[2], t.f.shape[2], t.m.shape[2], extended)
    wider.size[0] = size
    wider.query[:size] = rows.query[:size]
    wider.key[:size] = rows.key[:size]
    wider.start[:size] = rows.start[:size]
    wider.end[:size] = rows.end[:size]
    wider.done[:size] = rows.done[:size]
    for row in range(size):
        move_slot(t, 0, row, wider.totals, 0, row, extended)
    return wider


@kernel
def put_row(rows: Rows, query: int, key: int, start: int, end: int, done: bool) -> None:
    """Fill in the next row's labels; its totals are there already."""
    row = rows.size[0]
    rows.query[row] = query
    rows.key[row] = key
    rows.start[row] = start
    rows.end[row] = end
    rows.done[row] = done
    rows.size[0] = row + 1


@kernel
def reset_row(rows: Rows, extended: bool) -> None:
    """Empty the totals of the next row."""
    t = rows.totals
    row = rows.size[0]
    t.n[0, row] = 0
    t.i[0, row, :] = 0
    t.f[0, row, :] = 0.0
    t.m[0, row, :] = 2**63 - 1
    if extended:
        t.nm[0, row] = 0.0
        t.ne[0, row] = 0
        t.im[0, row, :] = 0.0
        t.ie[0, row, :] = 0
        t.fe[0, row, :] = 0


@kernel
def add_to_row(t: Totals, node: int, s: int, rows: Rows, extended: bool) -> int:
    """Add one total to the next row; negative where a 64-bit count overflowed."""
    into = rows.totals
    row = rows.size[0]
    if not extended:
        if t.n[node, s] == 0:
            return 0
        if float(into.n[0, row]) + float(t.n[node, s]) >= 2 * COUNT_SURE:
            return -1
    into.n[0, row] += t.n[node, s]
    bad = np.int64(0)
    for c in range(t.i.shape[2]):
        into.i[0, row, c] += t.i[node, s, c]
        bad |= into.i[0, row, c]
    for c in range(t.m.shape[2]):
        into.m[0, row, c] = min(into.m[0, row, c], t.m[node, s, c])
    if not extended:
        for c in range(t.f.shape[2]):
            into.f[0, row, c] += t.f[node, s, c]
        return bad
    into.nm[0, row], into.ne[0, row] = extended_sum(into.nm[0, row], into.ne[0, row], t.nm[node, s], t.ne[node, s])
    for c in range(t.i.shape[2]):
        m, e = extended_sum(into.im[0, row, c], into.ie[0, row, c], t.im[node, s, c], t.ie[node, s, c])
        into.im[0, row, c], into.ie[0, row, c] = m, e
    for c in range(t.f.shape[2]):
        m, e = extended_sum(into.f[0, row, c], into.fe[0, row, c], t.f[node, s, c], t.fe[node, s, c])
        into.f[0, row, c], into.fe[0, row, c] = m, e
    return 0


@kernel
def row_holds_any(rows: Rows, extended: bool) -> bool:
    """Whether the next row's totals count any match."""
    row = rows.size[0]
    if extended:
        return bool(rows.totals.nm[0, row] != 0.0)
    return bool(rows.totals.n[0, row] != 0)


@kernel
def weigh(w: Weights, steps: Steps, step: int, events: Events, e: int) -> None:
    """Fill in what event e adds to each channel on a transition."""
    for c in range(w.i.size):
        column = steps.iw[step, c]
        w.i[c] = 1 if column == ALWAYS else 0 if column == NEVER else np.int64(events.valid[column, e])
    for c in range(w.f.size):
        column = steps.fw[step, c]
        w.f[c] = 0.0 if column == NEVER else events.value[column, e]
    for c in range(w.m.size):
        column = steps.mw[step, c]
        w.m[c] = 2**63 - 1 if column == NEVER else events.place[column, e]


@kernel
def new_weights(ni: int, nf: int, nm: int) -> Weights:
    """Weights of nothing: what moves and folds use."""
    return Weights(np.zeros(ni, np.int64), np.zeros(nf, np.float64), np.full(nm, 2**63 - 1, np.int64))
