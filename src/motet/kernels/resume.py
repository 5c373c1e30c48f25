"""Run queries by slots over all keys, from the beginning or on from saved states: what keys hold between two runs.

The state of a key is a sequence of 64-bit words: the number of its first slot, how many slots, windows due, NEGs and
nodes it holds; then for each window due its query, first and last; for each NEG its number and time; with starts, when
each slot began; then for each node twice its number, plus one where shadows follow, and its totals by slot; then, for a
layout that keeps them apart, the shadows, unless all of them are the counts themselves. The states of all keys lie one
after another; a key without a past has no words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, MIN_TIME, Flags, Floats, Ints, SmallInts
from motet.kernels.jit import inner, kernel
from motet.kernels.ragged import offsets_from_counts
from motet.kernels.slots import (
    BASE,
    EMPTY,
    HI,
    LO,
    STARTS,
    WINDOWS,
    Inputs,
    SlotState,
    Window,
    create_slot_state,
    finish_key,
    make_window,
    reset_key,
    run_key,
    slot_capacity,
)
from motet.kernels.steps import FIRST_DUE, LAST_DUE, WAITING
from motet.kernels.tables import (
    DONE,
    KEY,
    NEEDS_ROOM,
    OVERFLOWED,
    Events,
    KernelResult,
    Machine,
    Queries,
    ResultRows,
    begin_key,
    collect_results,
    create_output,
)
from motet.kernels.totals import RADIX, SHRINK, Layout, Totals, create_totals, has_matches

# Words at the head of a state.
FIRST_SLOT = 0
SLOTS = 1
DUES = 2
NEGATED = 3
NODES = 4
HEAD = 5

EXACT = 2.0**52  # below this a float holds a count exactly

FIRST_WORDS = 1 << 16  # of states that are written
NEEDS_WORDS = 3  # a kernel stopped for want of room for states


class States(NamedTuple):
    """States of keys: that of key k is from word `offsets[k]` to `offsets[k + 1]`. `floats` is a view of the words."""

    offsets: Ints
    words: Ints
    floats: Floats


def view_states(offsets: Ints, words: Ints) -> States:
    """Return saved states as kernels read them."""
    return States(offsets, words, words.view(np.float64))


def grow_states(states: States) -> States:
    """Copy states to a buffer of twice the size."""
    return view_states(states.offsets, np.concatenate((states.words, np.empty_like(states.words))))


def gather_states(words: Ints, begins: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Return the offsets and words of states that lie anywhere in some words. O(words of these)."""
    offsets = offsets_from_counts(sizes)
    found = np.empty(offsets[-1], np.int64)
    _gather_words(words, begins, offsets, found)
    return offsets, found


@kernel
def _gather_words(words: Ints, begins: Ints, offsets: Ints, found: Ints) -> None:
    """Copy the words of each state; see `gather_states`."""
    for state in range(begins.size):
        shift = begins[state] - offsets[state]
        for at in range(offsets[state], offsets[state + 1]):
            found[at] = words[at + shift]


def max_slots(states: States) -> int:
    """Return the most slots that any state holds."""
    return int(states.words[states.offsets[:-1][np.diff(states.offsets) > 0] + SLOTS].max(initial=0))


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
) -> KernelResult:
    """Return the results of all queries over all keys; see `collect_results`.

    Each event costs O(transitions of its class * open slots * channels); each result O(accepting nodes * panes of a
    window). See `Window` for the other arguments.
    """
    window = make_window(queries, mode, unit, ranked, int(MAX_TIME), emit_from, emit_to)
    no_past = view_states(np.zeros_like(events.offsets), np.zeros(0, np.int64))
    return _run(events, machine, queries, layout, window, no_past)[0]


def resume_slots(
    events: Events,
    machine: Machine,
    queries: Queries,
    layout: Layout,
    mode: int,
    unit: int,
    until: int,
    offsets: Ints,
    words: Ints,
) -> tuple[Ints, Ints, Floats, Flags, Ints, Ints, Ints]:
    """Return the results of all keys that are final at time `until`, going on from the saved state of each key.

    Returns what `run_slots` does, and the new states: where each key's begins, their words, and the next time at which
    each has something to report or is to be forgotten. A key that holds nothing that a key without a past does not hold
    has no words; nor does any key at the end of time. Keys that overflowed 64 bits have neither results nor words.
    Costs are those of `run_slots`, and O(words) for states.
    """
    window = make_window(queries, mode, unit, False, until, int(MIN_TIME), int(MAX_TIME) + 1)
    results, written, wake = _run(events, machine, queries, layout, window, view_states(offsets, words))
    return *results, written.offsets, written.words[: written.offsets[-1]], wake


def _run(
    events: Events, machine: Machine, queries: Queries, layout: Layout, window: Window, saved: States
) -> tuple[KernelResult, States, Ints]:
    """Return results, new states and the next time at which each key has to be looked at."""
    slots = slot_capacity(events, machine, window) + 2 * max_slots(saved)
    totals = create_totals(len(machine.fold), slots, layout)
    state = create_slot_state(machine, queries, layout, window, slots)
    keys = len(events.offsets) - 1
    # Memory that is never written costs nothing.
    written = view_states(np.zeros(keys + 1, np.int64), np.empty(FIRST_WORDS + 2 * len(saved.words), np.int64))
    wake = np.full(keys, MAX_TIME, np.int64)
    inputs = Inputs(events, machine, queries, window)

    def run(output: ResultRows) -> int:
        nonlocal written
        while True:
            status = _run_keys(state, totals, output, inputs, saved, written, wake)
            if status != NEEDS_WORDS:
                return status
            written = grow_states(written)

    results = collect_results(run, state.words, create_output(1024 + len(queries.within), keys, layout))
    return results, written, wake


@kernel
def _run_keys(
    state: SlotState, totals: Totals, output: ResultRows, inputs: Inputs, saved: States, written: States, wake: Ints
) -> int:
    """Run on through all keys, unless some room runs out (then call again); see `run_slots`."""
    events, queries, window = inputs.events, inputs.queries, inputs.window
    saves = window.until < MAX_TIME
    most = max_state_size(state, totals) if saves else np.int64(0)
    for key in range(state.words[KEY], events.offsets.size - 1):
        has_past = saved.offsets[key + 1] > saved.offsets[key]
        written.offsets[key + 1] = written.offsets[key]
        if events.offsets[key] == events.offsets[key + 1] and not has_past:
            continue
        if begin_key(state.words, key, events.offsets[key]):
            reset_key(state)
            if has_past:
                load_key(saved, saved.offsets[key], state, totals, window.mode)
        if written.words.size - written.offsets[key] < most:
            return NEEDS_WORDS
        status = run_key(state, totals, output, inputs)
        if status == NEEDS_ROOM:
            return status
        if saves and status != OVERFLOWED:
            drop_expired_slots(state.words, window)
            if needs_state(state, totals, window):
                written.offsets[key + 1] = save_key(written, written.offsets[key], state, totals, window)
                wake[key] = next_wakeup_time(state, queries, window)
        finish_key(state, totals, output, status)
    return DONE


@inner
def max_state_size(state: SlotState, totals: Totals) -> int:
    """Return the most words that the state of a key may have."""
    node_size = 1 + totals.slots * (totals.layout.words + 1)
    head = HEAD + 3 * state.due.shape[1] + 2 * state.last_neg.size + totals.slots
    return head + state.nodes.in_use.size * node_size


@inner
def load_key(saved: States, at: int, state: SlotState, totals: Totals, mode: int) -> None:
    """Load what `save_key` wrote from word `at` on. O(its words)."""
    words, due = saved.words, state.due
    held = words[at + SLOTS]
    dues, negs, nodes = words[at + DUES], words[at + NEGATED], words[at + NODES]
    state.words[BASE] = words[at + FIRST_SLOT]
    state.words[LO] = 0
    state.words[HI] = held - 1
    state.words[EMPTY] = 0 if held > 0 else 1
    at += HEAD
    for place in range(dues):
        query = words[at]
        due[WAITING, place] = query
        due[FIRST_DUE, query] = words[at + 1]
        due[LAST_DUE, query] = words[at + 2]
        at += 3
    due[WAITING, -1] = dues
    for _ in range(negs):
        state.last_neg[words[at]] = words[at + 1]
        at += 2
    if mode == STARTS:
        for s in range(held):
            state.began[s] = words[at + s]
        at += held
    size = held * totals.layout.words
    for _ in range(nodes):
        node = words[at] // 2
        shadowed = words[at] % 2 == 1
        state.nodes.in_use[node] = True
        at += 1
        first = node * totals.slots
        for word in range(size):
            totals.ints[first * totals.layout.words + word] = words[at + word]
        at += size
        if shadowed:
            for s in range(held):
                totals.floats[first + s] = saved.floats[at + s]
            at += held
        elif totals.layout.has_shadows:
            for s in range(held):
                totals.floats[first + s] = np.float64(totals.ints[first + s])


@inner
def save_key(written: States, at: int, state: SlotState, totals: Totals, window: Window) -> int:
    """Write the state of a key from word `at` on; return where it ends. O(nodes * slots * words of a total)."""
    words, due = written.words, state.due
    lo, hi = state.words[LO], state.words[HI]
    held = hi - lo + 1
    head = at
    words[head + FIRST_SLOT] = state.words[BASE] + lo
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
    for neg in range(state.last_neg.size):
        if _is_recent(state.last_neg[neg], window):
            words[at] = neg
            words[at + 1] = state.last_neg[neg]
            at += 2
            noted += 1
    words[head + NEGATED] = noted
    if window.mode == STARTS:
        for s in range(held):
            words[at + s] = state.began[lo + s]
        at += held
    nodes = 0
    size = held * totals.layout.words
    for node in range(state.nodes.in_use.size):
        if not _node_has_matches(state, totals, node):
            continue
        nodes += 1
        first = node * totals.slots + lo
        shadowed = totals.layout.has_shadows and not _are_exact_counts(totals, first, held)
        words[at] = 2 * node + (1 if shadowed else 0)
        at += 1
        for word in range(size):
            words[at + word] = totals.ints[first * totals.layout.words + word]
        at += size
        if shadowed:
            for s in range(held):
                written.floats[at + s] = totals.floats[first + s]
            at += held
    words[head + NODES] = nodes
    return at


@inner
def _is_recent(time: int, window: Window) -> bool:
    """Return whether a window that ends after the run may hold a time at which a NEG was violated."""
    return time > MIN_TIME and time > window.until - window.widest


@inner
def _are_exact_counts(totals: Totals, first: int, count: int) -> bool:
    """Return whether shadows are small enough to be exactly the counts they shadow."""
    for s in range(count):
        if totals.floats[first + s] >= EXACT:
            return False
    return True


@inner
def _node_has_matches(state: SlotState, totals: Totals, node: int) -> bool:
    """Return whether a node holds any match in an open slot."""
    if state.nodes.in_use[node]:
        for s in range(state.words[LO], state.words[HI] + 1):
            if has_matches(totals, node * totals.slots + s):
                return True
    return False


@inner
def drop_expired_slots(words: Ints, window: Window) -> None:
    """Pass over slots that no window that ends after the run can hold."""
    if window.mode != STARTS and words[LO] <= words[HI]:
        oldest = (window.until - window.widest) // window.unit + 1
        words[LO] = max(words[LO], oldest - words[BASE])


@inner
def needs_state(state: SlotState, totals: Totals, window: Window) -> bool:
    """Return whether a key would go on otherwise if its past were forgotten."""
    lo, hi, nodes = state.words[LO], state.words[HI], state.nodes
    if lo > hi:
        return False
    if window.mode == STARTS or state.due[WAITING, -1] > 0:
        return True
    for neg in range(state.last_neg.size):
        if _is_recent(state.last_neg[neg], window):
            return True
    for node in range(nodes.in_use.size):
        if nodes.is_start[node]:
            # Where a NOT at the beginning was violated, no match can begin in that window any more.
            for s in range(lo, hi + 1):
                if window.mode == WINDOWS and not (nodes.in_use[node] and has_matches(totals, node * totals.slots + s)):
                    return True
        elif _node_has_matches(state, totals, node):
            return True
    return False


@inner
def next_wakeup_time(state: SlotState, queries: Queries, window: Window) -> int:
    """Return the next time at which, without a further event, a key may report or is to be forgotten."""
    if window.mode == STARTS:
        return state.began[state.words[LO]] + window.widest
    soonest = (state.words[BASE] + state.words[HI]) * window.unit + window.widest
    for place in range(state.due[WAITING, -1]):
        query = state.due[WAITING, place]
        soonest = min(soonest, state.due[FIRST_DUE, query] * queries.slide[query] + queries.within[query])
    return soonest


def extend_states(offsets: Ints, words: Ints, small: Layout, large: Layout, starts: bool) -> tuple[Ints, Ints]:
    """Convert states to extended totals. O(words)."""
    room = np.zeros(HEAD * offsets.size + words.size * (large.words + 1), np.int64)
    written = view_states(np.zeros(offsets.size, np.int64), room)
    _extend_states(view_states(offsets, words), written, small, large, starts)
    return written.offsets, written.words[: written.offsets[-1]]


@kernel
def _extend_states(saved: States, written: States, small: Layout, large: Layout, starts: bool) -> None:
    """Fill in the states with extended totals; see `extend_states`."""
    words = saved.words
    to = 0
    for key in range(saved.offsets.size - 1):
        at = saved.offsets[key]
        if saved.offsets[key + 1] > at:
            held, nodes = words[at + SLOTS], words[at + NODES]
            before = HEAD + 3 * words[at + DUES] + 2 * words[at + NEGATED] + (held if starts else 0)
            for word in range(before):
                written.words[to + word] = words[at + word]
            at += before
            to += before
            for _ in range(nodes):
                shadowed = words[at] % 2 == 1
                written.words[to] = words[at] // 2 * 2
                at += 1
                to += 1
                for s in range(held):
                    count = np.float64(words[at + s * small.words])
                    shadow = saved.floats[at + held * small.words + s] if shadowed else count
                    _extend_total(saved, at + s * small.words, shadow, small, written, to, large)
                    to += large.words
                at += held * (small.words + (1 if shadowed else 0))
        written.offsets[key + 1] = to


@inner
def _extend_total(saved: States, a: int, shadow: float, small: Layout, written: States, b: int, large: Layout) -> None:
    """Write a total with floating shadows and exponents. `shadow` is that of its count of matches."""
    ni, nm, x = large.ni, large.nm, large.x
    words, floats = written.words, written.floats
    for word in range(small.words):
        words[b + word] = saved.words[a + word]
    for c in range(1 + ni):
        floats[b + x + 2 * c] = shadow if c == 0 else np.float64(saved.words[a + c])
        _normalise(written, b + x + 2 * c, b + x + 2 * c + 1)
    for c in range(large.nf):
        _normalise(written, b + 1 + ni + nm + c, b + x + 2 + 2 * ni + c)


@inner
def _normalise(written: States, at: int, exponent_at: int) -> None:
    """Make a float the mantissa of an extended number."""
    exponent = 0
    while abs(written.floats[at]) >= RADIX:
        written.floats[at] *= SHRINK
        exponent += 1
    written.words[exponent_at] = exponent


def renumber_states(
    offsets: Ints, words: Ints, layout: Layout, starts: bool, nodes: SmallInts, queries: SmallInts, negs: SmallInts
) -> tuple[Ints, Ints]:
    """Convert states for a machine whose nodes, queries and NEGs have other numbers (-1: gone). O(words)."""
    written = view_states(np.zeros(offsets.size, np.int64), np.empty(words.size, np.int64))
    _renumber_states(view_states(offsets, words), written, layout.words, starts, nodes, queries, negs)
    return written.offsets, written.words[: written.offsets[-1]]


@kernel
def _renumber_states(
    saved: States,
    written: States,
    total_words: int,
    starts: bool,
    nodes: SmallInts,
    queries: SmallInts,
    negs: SmallInts,
) -> None:
    """Fill in the states with the new numbers; see `renumber_states`."""
    words = written.words
    to = 0
    for key in range(saved.offsets.size - 1):
        at = saved.offsets[key]
        if saved.offsets[key + 1] > at:
            old_head, head = at, to
            held = saved.words[at + SLOTS]
            for word in range(HEAD):
                words[head + word] = saved.words[at + word]
            at += HEAD
            to += HEAD
            for place in range(DUES, HEAD):
                if place == NODES and starts:
                    for s in range(held):
                        words[to + s] = saved.words[at + s]
                    at += held
                    to += held
                kept = 0
                for _ in range(saved.words[old_head + place]):
                    old = saved.words[at]
                    size = 3 if place == DUES else 2
                    shadowed = np.int64(0)
                    if place == NODES:
                        old, shadowed = old // 2, old % 2
                        size = 1 + held * (total_words + shadowed)
                    new = queries[old] if place == DUES else negs[old] if place == NEGATED else nodes[old]
                    if new >= 0:
                        words[to] = 2 * new + shadowed if place == NODES else new
                        for word in range(1, size):
                            words[to + word] = saved.words[at + word]
                        to += size
                        kept += 1
                    at += size
                words[head + place] = kept
        written.offsets[key + 1] = to
