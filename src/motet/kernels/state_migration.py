"""Merge the states of one key in two units into one, to run queries together that ran apart.

See `motet.kernels.resume` for what a state is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, MIN_TIME, Flags, Ints, SmallInts
from motet.kernels.jit import inner, kernel
from motet.kernels.resume import (
    FIRST_SLOT,
    NEEDS_WORDS,
    SLOTS,
    States,
    grow_states,
    load_key,
    max_slots,
    max_state_size,
    save_key,
    view_states,
)
from motet.kernels.slots import BASE, HI, LO, PANES, SLOT_STATE, STARTS, SlotState, Window
from motet.kernels.steps import DUE, FIRST_DUE, LAST_DUE, WAITING, ActiveNodes
from motet.kernels.tables import DONE, KEY, fill, membership_mask
from motet.kernels.totals import (
    Layout,
    Totals,
    clear_totals,
    copy_totals,
    create_totals,
    create_weights,
    set_empty_match,
)

# From which of two states the totals of a node come.
IN_ONE = 1
IN_OTHER = 2


class Side(NamedTuple):
    """One of two states to merge, or the merged one. `state.began` tells what each slot is: its start or number."""

    saved: States
    state: SlotState
    totals: Totals


class NodeSources(NamedTuple):
    """In which unit each node was (1, 2 or both), and which of two units to believe where both have been at a slot:
    that which has seen more of the stream.
    """

    sources: SmallInts
    prefers_other: Flags


def merge_states(
    offsets: Ints,
    words: Ints,
    other_offsets: Ints,
    other_words: Ints,
    layout: Layout,
    mode: int,
    nodes: NodeSources,
    starts: SmallInts,
    queries: int,
    negs: int,
) -> tuple[Ints, Ints]:
    """Merge the two states of each key. O(nodes * slots * words of a total) a key.

    Nodes, `queries` queries and `negs` NEGs have the same numbers in both. `starts` are the start nodes.
    """
    saved, other_saved = view_states(offsets, words), view_states(other_offsets, other_words)
    slots = max_slots(saved) + max_slots(other_saved) + 1 if mode == STARTS else _max_span(saved, other_saved)
    is_start = membership_mask(starts, len(nodes.sources))
    written = view_states(np.zeros(len(offsets), np.int64), np.empty(1024, np.int64))
    one, other, merged = (
        Side(states, _create_state(is_start, layout, slots, queries, negs), create_totals(len(is_start), slots, layout))
        for states in (saved, other_saved, written)
    )
    # A window of no width keeps every NEG that was ever violated.
    window = Window(mode, 1, 0, True, False, int(MIN_TIME), int(MIN_TIME), int(MIN_TIME))
    while _merge_keys(one, other, merged, nodes, window) == NEEDS_WORDS:
        merged = merged._replace(saved=grow_states(merged.saved))
    return merged.saved.offsets, merged.saved.words[: merged.saved.offsets[-1]]


def _create_state(is_start: Flags, layout: Layout, slots: int, queries: int, negs: int) -> SlotState:
    nodes = ActiveNodes(np.zeros(len(is_start), np.bool_), is_start, np.zeros(len(is_start) + 1, np.int32))
    return SlotState(
        np.zeros(SLOT_STATE, np.int64),
        nodes,
        np.zeros((DUE, queries + 1), np.int64),
        np.full(negs + 1, MIN_TIME, np.int64),
        np.empty(slots, np.int64),
        create_weights(layout),
        create_weights(layout),
    )


def _max_span(*sides: States) -> int:
    """Return the most slots that the two states of a key take together, with what lies between them."""
    keys = len(sides[0].offsets) - 1
    first, last = np.full(keys, MAX_TIME), np.full(keys, MIN_TIME)
    for states in sides:
        own = np.flatnonzero(np.diff(states.offsets))
        heads = states.offsets[own]
        begin, size = states.words[heads + FIRST_SLOT], states.words[heads + SLOTS]
        first[own] = np.minimum(first[own], begin)
        last[own] = np.maximum(last[own], begin + size)
    return int((last - first).max(initial=1))


@kernel
def _merge_keys(one: Side, other: Side, merged: Side, nodes: NodeSources, window: Window) -> int:
    """Merge on through all keys, unless the room for states runs out (then call again); see `merge_states`."""
    state, written, mode = merged.state, merged.saved, window.mode
    most = max_state_size(state, merged.totals)
    for key in range(state.words[KEY], written.offsets.size - 1):
        state.words[KEY] = key
        if written.words.size - written.offsets[key] < most:
            return NEEDS_WORDS
        _load_side(one, key, mode)
        _load_side(other, key, mode)
        held = _merge_slots(one, other, state.began, mode)
        for node in range(nodes.sources.size):
            _merge_node(one, other, merged, held, node, nodes.sources[node], nodes.prefers_other[node])
            if state.nodes.is_start[node] and nodes.sources[node] != 0 and mode != STARTS and held > 0:
                _begin_matches(one, other, merged, held, node, nodes.sources[node], mode)
            state.nodes.in_use[node] = True
        for neg in range(state.last_neg.size):
            state.last_neg[neg] = max(one.state.last_neg[neg], other.state.last_neg[neg])
        state.due[WAITING, -1] = 0
        _add_due_windows(state.due, one.state.due)
        _add_due_windows(state.due, other.state.due)
        state.words[BASE] = state.began[0] if held > 0 and mode != STARTS else 0
        state.words[LO] = 0
        state.words[HI] = held - 1
        written.offsets[key + 1] = save_key(written, written.offsets[key], state, merged.totals, window)
    return DONE


@inner
def _add_due_windows(due: Ints, more: Ints) -> None:
    """Add to the windows that have to report those of another state, of other queries."""
    waiting = due[WAITING, -1]
    for place in range(more[WAITING, -1]):
        query = more[WAITING, place]
        due[WAITING, waiting + place] = query
        due[FIRST_DUE, query] = more[FIRST_DUE, query]
        due[LAST_DUE, query] = more[LAST_DUE, query]
    due[WAITING, -1] = waiting + more[WAITING, -1]


@inner
def _load_side(side: Side, key: int, mode: int) -> None:
    """Load a key's state, an empty one where it has none."""
    state, totals = side.state, side.totals
    for node in range(state.nodes.in_use.size):
        if state.nodes.in_use[node]:
            clear_totals(totals, node * totals.slots, totals.slots)
            state.nodes.in_use[node] = False
    fill(state.last_neg, MIN_TIME)
    state.due[WAITING, -1] = 0
    state.words[BASE] = 0
    state.words[HI] = -1
    if side.saved.offsets[key + 1] > side.saved.offsets[key]:
        load_key(side.saved, side.saved.offsets[key], state, totals, mode)
        if mode != STARTS:
            for s in range(state.words[HI] + 1):
                state.began[s] = state.words[BASE] + s


@inner
def _merge_slots(one: Side, other: Side, merged: Ints, mode: int) -> int:
    """Merge both lists of slots, in order; where slots are numbered, with those between. Return how many there are."""
    first, second = one.state.began, other.state.began
    ones, others = one.state.words[HI] + 1, other.state.words[HI] + 1
    a, b, held = 0, 0, 0
    while a < ones or b < others:
        slot = first[a] if b == others or (a < ones and first[a] < second[b]) else second[b]
        if mode != STARTS and held > 0:
            while merged[held - 1] + 1 < slot:
                merged[held] = merged[held - 1] + 1
                held += 1
        merged[held] = slot
        held += 1
        if a < ones and first[a] == slot:
            a += 1
        if b < others and second[b] == slot:
            b += 1
    return held


@inner
def _merge_node(one: Side, other: Side, merged: Side, held: int, node: int, sources: int, prefers_other: bool) -> None:
    """Merge the totals of a node by slot: those of the unit to believe where it has the slot, else of the other."""
    totals, slot = merged.totals, merged.state.began
    first, second = one.state.began, other.state.began
    ones, others = one.state.words[HI] + 1, other.state.words[HI] + 1
    base = node * totals.slots
    clear_totals(totals, base, totals.slots)
    a, b = 0, 0
    for s in range(held):
        while a < ones and first[a] < slot[s]:
            a += 1
        while b < others and second[b] < slot[s]:
            b += 1
        in_one = sources & IN_ONE != 0 and a < ones and first[a] == slot[s]
        in_other = sources & IN_OTHER != 0 and b < others and second[b] == slot[s]
        if in_other and (prefers_other or not in_one):
            copy_totals(other.totals, base + b, totals, base + s, 1)
        elif in_one:
            copy_totals(one.totals, base + a, totals, base + s, 1)


@inner
def _begin_matches(one: Side, other: Side, merged: Side, held: int, node: int, sources: int, mode: int) -> None:
    """Let matches begin where either unit alone would: in the newest pane, in windows that it had not opened yet."""
    totals, slot = merged.totals, merged.state.began
    base = node * totals.slots
    if mode == PANES:
        clear_totals(totals, base, held)
        set_empty_match(totals, base + held - 1)
        return
    for s in range(held):
        in_one = sources & IN_ONE != 0 and _has_slot(one, slot[s])
        in_other = sources & IN_OTHER != 0 and _has_slot(other, slot[s])
        if not in_one and not in_other:
            set_empty_match(totals, base + s)


@inner
def _has_slot(side: Side, slot: int) -> bool:
    """Return whether a state has opened a slot of this number."""
    last = side.state.words[HI]
    return last >= 0 and side.state.began[0] <= slot <= side.state.began[last]
