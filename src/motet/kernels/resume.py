"""Slots whose totals are carried from one run to the next: the totals of a key as a run of whole numbers.

A run of words is: the number of its first slot, how many slots, windows due, NEGs and nodes it holds; then for each
window due its query, first and last; for each NEG its number and time; with starts, when each slot began; then for
each node twice its number, plus one where shadows follow, and its totals by slot; then, for a layout that keeps them
apart, the shadows, unless all of them are the counts themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.kernels.jit import inner, kernel
from motet.kernels.slots import (
    BASE,
    EMPTY,
    HI,
    LO,
    NEEDS_ROOM,
    OVERFLOWED,
    ROW,
    STARTS,
    STATE,
    WINDOWS,
    Labels,
    reset_key,
    run_key,
    slot_capacity,
    zero_weights,
)
from motet.kernels.steps import DUE, FIRST_DUE, LAST_DUE, WAITING, Nodes
from motet.kernels.tables import (
    LABELS,
    MAX_TIME,
    MIN_TIME,
    Events,
    Flags,
    Machine,
    Queries,
    Times,
    grow_buffer,
    grow_labels,
    membership_mask,
)
from motet.kernels.totals import (
    RADIX,
    SHRINK,
    Floats,
    Layout,
    Words,
    clear_totals,
    create_totals,
    grow_totals,
    has_matches,
)

# Words at the head of a run.
FIRST_SLOT = 0
SLOTS = 1
DUES = 2
NEGATED = 3
NODES = 4
HEAD = 5

EXACT = 2.0**52  # below this a float holds a count exactly


@kernel
def resume_slots(
    events: Events,
    machine: Machine,
    queries: Queries,
    negs: int,
    layout: Layout,
    mode: int,
    unit: int,
    until: int,
    offsets: Times,
    saved: Words,
) -> tuple[Labels, Words, Floats, Flags, Times, Words, Times]:
    """Results of all keys that are final at time `until`, going on from what was saved of each key.

    As `run_slots`, and further the new runs: where each key's begins, their words, and the next time at which each has
    something to report or is to be forgotten. A key that holds nothing that a key without a past does not hold has no
    words. Keys that overflowed 64 bits have neither results nor words.
    """
    keys = events.offsets.size - 1
    nodes = machine.fold.size
    count = queries.within.size
    widest = queries.within[0]
    for query in range(count):
        widest = max(widest, queries.within[query])
    slots = slot_capacity(events, machine.code, mode, unit, widest) + 2 * max_slots(offsets, saved)
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
    new_offsets = np.zeros(keys + 1, np.int64)
    most = HEAD + 3 * count + 2 * last_neg.size + slots + nodes * (1 + slots * (layout.words + 1))
    words = np.empty(max(1024, 2 * most), np.int64)
    words_floats, saved_floats = words.view(np.float64), saved.view(np.float64)
    wake = np.full(keys, MAX_TIME, np.int64)
    for key in range(keys):
        new_offsets[key + 1] = new_offsets[key]
        if events.offsets[key] == events.offsets[key + 1] and offsets[key] == offsets[key + 1]:
            continue
        mark = state[ROW]
        reset_key(state, events.offsets[key], due, last_neg)
        if offsets[key + 1] > offsets[key]:
            load_key(
                saved,
                saved_floats,
                offsets[key],
                state,
                ints,
                floats,
                layout,
                slots,
                touched,
                last_neg,
                due,
                began,
                mode,
            )
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
                False,
                until,
                MIN_TIME,
                MAX_TIME + 1,
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
        else:
            while words.size - new_offsets[key] < most:
                words = grow_buffer(words)
                words_floats = words.view(np.float64)
            drop_expired_slots(state, mode, unit, widest, until)
            if needs_state(
                state, ints, floats, layout, slots, touched, is_start, last_neg, due, negs, mode, widest, until
            ):
                new_offsets[key + 1] = save_key(
                    words,
                    words_floats,
                    new_offsets[key],
                    state,
                    ints,
                    floats,
                    layout,
                    slots,
                    touched,
                    last_neg,
                    due,
                    began,
                    negs,
                    mode,
                    widest,
                    until,
                )
                wake[key] = next_wakeup_time(state, queries, due, began, mode, unit, widest)
        for node in range(nodes):
            if touched[node]:
                clear_totals(ints, floats, layout, node * slots * layout.words, slots)
                touched[node] = False
    size = state[ROW]
    return (
        labels[:size], out[: size * layout.words], out_floats[: size * layout.words], overflowed,
        new_offsets, words[: new_offsets[-1]], wake,
    )  # fmt: skip


@inner
def max_slots(offsets: Times, saved: Words) -> int:
    """The most slots that any run holds."""
    most = np.int64(0)
    for key in range(offsets.size - 1):
        if offsets[key + 1] > offsets[key]:
            most = max(most, saved[offsets[key] + SLOTS])
    return most


@inner
def load_key(
    saved: Words,
    saved_floats: Floats,
    at: int,
    state: NDArray[np.int64],
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    touched: Flags,
    last_neg: Times,
    due: NDArray[np.int64],
    began: Times,
    mode: int,
) -> None:
    """Bring back what `save_key` wrote. O(its words)."""
    held = saved[at + SLOTS]
    dues, negs, nodes = saved[at + DUES], saved[at + NEGATED], saved[at + NODES]
    state[BASE] = saved[at + FIRST_SLOT]
    state[LO] = 0
    state[HI] = held - 1
    state[EMPTY] = 0 if held > 0 else 1
    at += HEAD
    for place in range(dues):
        query = saved[at]
        due[WAITING, place] = query
        due[FIRST_DUE, query] = saved[at + 1]
        due[LAST_DUE, query] = saved[at + 2]
        at += 3
    due[WAITING, -1] = dues
    for _ in range(negs):
        last_neg[saved[at]] = saved[at + 1]
        at += 2
    if mode == STARTS:
        for s in range(held):
            began[s] = saved[at + s]
        at += held
    for _ in range(nodes):
        node = saved[at] // 2
        shadowed = saved[at] % 2 == 1
        touched[node] = True
        at += 1
        first = node * slots * layout.words
        for word in range(held * layout.words):
            ints[first + word] = saved[at + word]
        if shadowed:
            for s in range(held):
                floats[first + s] = saved_floats[at + held * layout.words + s]
            at += held
        elif layout.has_shadows:
            for s in range(held):
                floats[first + s] = np.float64(ints[first + s])
        at += held * layout.words


@inner
def save_key(
    words: Words,
    words_floats: Floats,
    at: int,
    state: NDArray[np.int64],
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    touched: Flags,
    last_neg: Times,
    due: NDArray[np.int64],
    began: Times,
    negs: int,
    mode: int,
    widest: int,
    until: int,
) -> int:
    """Write a key's run of words from word `at` on; returns where it ends. O(nodes * slots * words of a total)."""
    lo, held = state[LO], state[HI] - state[LO] + 1
    head = at
    words[head + FIRST_SLOT] = state[BASE] + lo
    words[head + SLOTS] = held
    words[head + DUES] = due[WAITING, -1]
    at += HEAD
    for place in range(due[WAITING, -1]):
        query = due[WAITING, place]
        words[at] = query
        words[at + 1] = due[FIRST_DUE, query]
        words[at + 2] = due[LAST_DUE, query]
        at += 3
    noted = 0
    for neg in range(negs):
        if last_neg[neg] > until - widest:
            words[at] = neg
            words[at + 1] = last_neg[neg]
            at += 2
            noted += 1
    words[head + NEGATED] = noted
    if mode == STARTS:
        for s in range(held):
            words[at + s] = began[lo + s]
        at += held
    nodes = 0
    for node in range(touched.size):
        if not (touched[node] and node_has_matches(ints, floats, layout, slots, node, lo, state[HI])):
            continue
        nodes += 1
        first = (node * slots + lo) * layout.words
        shadowed = layout.has_shadows and not are_exact_counts(floats, first, held)
        words[at] = 2 * node + (1 if shadowed else 0)
        at += 1
        for word in range(held * layout.words):
            words[at + word] = ints[first + word]
        at += held * layout.words
        if shadowed:
            for s in range(held):
                words_floats[at + s] = floats[first + s]
            at += held
    words[head + NODES] = nodes
    return at


@inner
def are_exact_counts(floats: Floats, first: int, count: int) -> bool:
    """Whether shadows are small enough to be exactly the counts they shadow."""
    for s in range(count):
        if floats[first + s] >= EXACT:
            return False
    return True


@inner
def node_has_matches(ints: Words, floats: Floats, layout: Layout, slots: int, node: int, lo: int, hi: int) -> bool:
    """Whether a node holds any match in slots lo..hi."""
    for s in range(lo, hi + 1):
        if has_matches(ints, floats, layout, (node * slots + s) * layout.words):
            return True
    return False


@inner
def drop_expired_slots(state: NDArray[np.int64], mode: int, unit: int, widest: int, until: int) -> None:
    """Pass over slots that no window that ends after `until` can hold."""
    if mode != STARTS and state[LO] <= state[HI]:
        oldest = (until - widest) // unit + 1
        state[LO] = max(state[LO], oldest - state[BASE])


@inner
def needs_state(
    state: NDArray[np.int64],
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    touched: Flags,
    is_start: Flags,
    last_neg: Times,
    due: NDArray[np.int64],
    negs: int,
    mode: int,
    widest: int,
    until: int,
) -> bool:
    """Whether a key would go on otherwise if its past were forgotten."""
    lo, hi = state[LO], state[HI]
    if lo > hi:
        return False
    if mode == STARTS or due[WAITING, -1] > 0:
        return True
    for neg in range(negs):
        if last_neg[neg] > until - widest:
            return True
    for node in range(touched.size):
        if is_start[node]:
            # Where a NOT at the beginning was belied, no match can begin in that window any more.
            for s in range(lo, hi + 1):
                at = (node * slots + s) * layout.words
                if mode == WINDOWS and not (touched[node] and has_matches(ints, floats, layout, at)):
                    return True
        elif touched[node] and node_has_matches(ints, floats, layout, slots, node, lo, hi):
            return True
    return False


@inner
def next_wakeup_time(
    state: NDArray[np.int64], queries: Queries, due: NDArray[np.int64], began: Times, mode: int, unit: int, widest: int
) -> int:
    """The next time at which, without a further event, a key may report or is to be forgotten."""
    if mode == STARTS:
        return began[state[LO]] + widest
    soonest = (state[BASE] + state[HI]) * unit + widest
    for place in range(due[WAITING, -1]):
        query = due[WAITING, place]
        soonest = min(soonest, due[FIRST_DUE, query] * queries.slide[query] + queries.within[query])
    return soonest


@kernel
def extend_states(offsets: Times, saved: Words, small: Layout, large: Layout, starts: bool) -> tuple[Times, Words]:
    """The same runs with extended totals. O(words)."""
    new_offsets = np.zeros(offsets.size, np.int64)
    words = np.zeros(HEAD * offsets.size + saved.size * (large.words + 1), np.int64)
    floats, shadows = words.view(np.float64), saved.view(np.float64)
    to = 0
    for key in range(offsets.size - 1):
        at = offsets[key]
        if offsets[key + 1] > at:
            held = saved[at + SLOTS]
            before = HEAD + 3 * saved[at + DUES] + 2 * saved[at + NEGATED] + (held if starts else 0)
            nodes = saved[at + NODES]
            for word in range(before):
                words[to + word] = saved[at + word]
            at += before
            to += before
            for _ in range(nodes):
                shadowed = saved[at] % 2 == 1
                words[to] = saved[at] // 2 * 2
                at += 1
                to += 1
                for s in range(held):
                    count = np.float64(saved[at + s * small.words])
                    shadow = shadows[at + held * small.words + s] if shadowed else count
                    extend_total(saved, at + s * small.words, shadow, small, words, floats, to, large)
                    to += large.words
                at += held * (small.words + (1 if shadowed else 0))
        new_offsets[key + 1] = to
    return new_offsets, words[:to]


@inner
def extend_total(
    saved: Words, a: int, shadow: float, small: Layout, words: Words, floats: Floats, b: int, large: Layout
) -> None:
    """One total with floating shadows and exponents. `shadow` is that of its count of matches."""
    ni, nm, nf, x = large.ni, large.nm, large.nf, large.x
    for word in range(small.words):
        words[b + word] = saved[a + word]
    for c in range(1 + ni):
        magnitude = shadow if c == 0 else np.float64(saved[a + c])
        exponent = 0
        while magnitude >= RADIX:
            magnitude *= SHRINK
            exponent += 1
        floats[b + x + 2 * c] = magnitude
        words[b + x + 2 * c + 1] = exponent
    for c in range(nf):
        exponent = 0
        while abs(floats[b + 1 + ni + nm + c]) >= RADIX:
            floats[b + 1 + ni + nm + c] *= SHRINK
            exponent += 1
        words[b + x + 2 + 2 * ni + c] = exponent


@kernel
def renumber_states(
    offsets: Times, saved: Words, layout: Layout, starts: bool, nodes: Nodes, queries: Nodes, negs: Nodes
) -> tuple[Times, Words]:
    """The same runs for a machine whose nodes, queries and NEGs have other numbers (-1: gone). O(words)."""
    new_offsets = np.zeros(offsets.size, np.int64)
    words = np.empty(saved.size, np.int64)
    to = 0
    for key in range(offsets.size - 1):
        at = offsets[key]
        if offsets[key + 1] > at:
            head = to
            held = saved[at + SLOTS]
            for word in range(HEAD):
                words[head + word] = saved[at + word]
            at += HEAD
            to += HEAD
            for place in range(DUES, HEAD):
                if place == NODES and starts:
                    for s in range(held):
                        words[to + s] = saved[at + s]
                    at += held
                    to += held
                kept = 0
                for _ in range(saved[offsets[key] + place]):
                    old = saved[at]
                    size = 3 if place == DUES else 2
                    shadowed = np.int64(0)
                    if place == NODES:
                        old, shadowed = old // 2, old % 2
                        size = 1 + held * (layout.words + shadowed)
                    new = queries[old] if place == DUES else negs[old] if place == NEGATED else nodes[old]
                    if new >= 0:
                        words[to] = 2 * new + shadowed if place == NODES else new
                        for word in range(1, size):
                            words[to + word] = saved[at + word]
                        to += size
                        kept += 1
                    at += size
                words[head + place] = kept
        new_offsets[key + 1] = to
    return new_offsets, words[:to]
