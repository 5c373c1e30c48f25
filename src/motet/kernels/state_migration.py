"""The runs of one key in two units made one: what it takes to go on with queries together that ran apart.

See `motet.kernels.resume` for what a run is.
"""

from __future__ import annotations

import numpy as np

from motet.kernels.jit import inner, kernel
from motet.kernels.resume import FIRST_SLOT, HEAD, SLOTS, load_key, max_slots, save_key
from motet.kernels.slots import BASE, HI, LO, PANES, STARTS, STATE
from motet.kernels.steps import DUE, FIRST_DUE, LAST_DUE, WAITING, Nodes
from motet.kernels.tables import MIN_TIME, Flags, Times, fill, membership_mask
from motet.kernels.totals import Floats, Layout, Words, clear_totals, copy_totals, create_totals, set_empty_match

# From which of two runs the totals of a node come.
IN_ONE = 1
IN_OTHER = 2


@kernel
def merge_states(
    offsets: Times,
    saved: Words,
    other_offsets: Times,
    other_saved: Words,
    layout: Layout,
    mode: int,
    sources: Nodes,
    prefers_other: Flags,
    starts: Nodes,
    queries: int,
    negs: int,
) -> tuple[Times, Words]:
    """For each key its two runs as one. O(nodes * slots * words of a total) a key.

    Nodes, queries and NEGs have the same numbers in both. `sources` says in which of the units a node was (1, 2 or
    both), and `prefers_other` which to believe where both have been at a slot: that which has seen more of the stream.
    """
    keys, nodes = offsets.size - 1, sources.size
    slots = _span_of_slots(offsets, saved, other_offsets, other_saved, mode)
    one, one_floats = create_totals(nodes * slots, layout)
    two, two_floats = create_totals(nodes * slots, layout)
    ints, floats = create_totals(nodes * slots, layout)
    touched, touched_two = np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_)
    last_neg, last_neg_two = np.empty(negs + 1, np.int64), np.empty(negs + 1, np.int64)
    due, due_two = np.zeros((DUE, queries + 1), np.int64), np.zeros((DUE, queries + 1), np.int64)
    began, began_two, merged = np.empty(slots, np.int64), np.empty(slots, np.int64), np.empty(slots, np.int64)
    state, state_two = np.zeros(STATE, np.int64), np.zeros(STATE, np.int64)
    is_start = membership_mask(starts, nodes)
    new_offsets = np.zeros(keys + 1, np.int64)
    most = HEAD + 3 * queries + 2 * (negs + 1) + slots + nodes * (1 + slots * (layout.words + 1))
    words = np.empty(most, np.int64)
    for key in range(keys):
        _load(saved, offsets, key, state, one, one_floats, layout, slots, touched, last_neg, due, began, mode)
        _load(
            other_saved,
            other_offsets,
            key,
            state_two,
            two,
            two_floats,
            layout,
            slots,
            touched_two,
            last_neg_two,
            due_two,
            began_two,
            mode,
        )
        held = _merge_slots(began, state[HI] + 1, began_two, state_two[HI] + 1, merged, mode)
        for node in range(nodes):
            _join_node(
                one,
                one_floats,
                began,
                state[HI] + 1,
                two,
                two_floats,
                began_two,
                state_two[HI] + 1,
                ints,
                floats,
                merged,
                held,
                layout,
                slots,
                node,
                sources[node],
                prefers_other[node],
            )
            if is_start[node] and sources[node] != 0 and mode != STARTS:
                _open(
                    ints,
                    floats,
                    layout,
                    slots,
                    node,
                    sources[node],
                    began,
                    state[HI] + 1,
                    began_two,
                    state_two[HI] + 1,
                    merged,
                    held,
                    mode,
                )
            touched[node] = True
        for neg in range(negs):
            last_neg[neg] = max(last_neg[neg], last_neg_two[neg])
        waiting = due[WAITING, -1]
        for place in range(due_two[WAITING, -1]):
            query = due_two[WAITING, place]
            due[WAITING, waiting + place] = query
            due[FIRST_DUE, query] = due_two[FIRST_DUE, query]
            due[LAST_DUE, query] = due_two[LAST_DUE, query]
        due[WAITING, -1] = waiting + due_two[WAITING, -1]
        state[BASE] = merged[0] if held > 0 and mode != STARTS else 0
        state[LO] = 0
        state[HI] = held - 1
        while words.size - new_offsets[key] < most:
            wider = np.empty(2 * words.size, np.int64)
            for at in range(new_offsets[key]):
                wider[at] = words[at]
            words = wider
        new_offsets[key + 1] = save_key(
            words,
            words.view(np.float64),
            new_offsets[key],
            state,
            ints,
            floats,
            layout,
            slots,
            touched,
            last_neg,
            due,
            merged,
            negs,
            mode,
            0,
            MIN_TIME,
        )
    return new_offsets, words[: new_offsets[-1]]


@inner
def _span_of_slots(offsets: Times, saved: Words, other_offsets: Times, other_saved: Words, mode: int) -> int:
    """The most slots that the two runs of a key take together, with what lies between them."""
    if mode == STARTS:
        return max_slots(offsets, saved) + max_slots(other_offsets, other_saved) + 1
    most = np.int64(1)
    for key in range(offsets.size - 1):
        at, other = offsets[key], other_offsets[key]
        has_one, has_other = offsets[key + 1] > at, other_offsets[key + 1] > other
        if has_one:
            most = max(most, saved[at + SLOTS])
        if has_other:
            most = max(most, other_saved[other + SLOTS])
        if has_one and has_other:
            first = min(saved[at + FIRST_SLOT], other_saved[other + FIRST_SLOT])
            last = max(
                saved[at + FIRST_SLOT] + saved[at + SLOTS], other_saved[other + FIRST_SLOT] + other_saved[other + SLOTS]
            )
            most = max(most, last - first)
    return most


@kernel
def _load(
    saved: Words,
    offsets: Times,
    key: int,
    state: Times,
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    touched: Flags,
    last_neg: Times,
    due: Times,
    began: Times,
    mode: int,
) -> None:
    """A key's run, nothing where it has none; `began` tells what each slot is, by its start or its number."""
    for node in range(touched.size):
        if touched[node]:
            clear_totals(ints, floats, layout, node * slots * layout.words, slots)
            touched[node] = False
    fill(last_neg, MIN_TIME)
    due[WAITING, -1] = 0
    state[BASE] = 0
    state[HI] = -1
    if offsets[key + 1] > offsets[key]:
        load_key(
            saved,
            saved.view(np.float64),
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
        if mode != STARTS:
            for s in range(state[HI] + 1):
                began[s] = state[BASE] + s


@inner
def _merge_slots(one: Times, ones: int, other: Times, others: int, merged: Times, mode: int) -> int:
    """Both lists of slots as one, in order; where slots are numbered, with those between. Returns how many."""
    a, b, held = 0, 0, 0
    if mode != STARTS:
        first = other[0] if ones == 0 else one[0] if others == 0 else min(one[0], other[0])
        last = (
            other[others - 1] if ones == 0 else one[ones - 1] if others == 0 else max(one[ones - 1], other[others - 1])
        )
        for slot in range(first, last + 1):
            merged[held] = slot
            held += 1
        return held
    while a < ones or b < others:
        if b == others or (a < ones and one[a] < other[b]):
            merged[held] = one[a]
            a += 1
        elif a == ones or other[b] < one[a]:
            merged[held] = other[b]
            b += 1
        else:
            merged[held] = one[a]
            a += 1
            b += 1
        held += 1
    return held


@inner
def _join_node(
    one: Words,
    one_floats: Floats,
    began: Times,
    ones: int,
    two: Words,
    two_floats: Floats,
    began_two: Times,
    twos: int,
    ints: Words,
    floats: Floats,
    merged: Times,
    held: int,
    layout: Layout,
    slots: int,
    node: int,
    sources: int,
    prefers_other: bool,
) -> None:
    """The totals of a node by slot, from the run to believe where it has the slot, else from the other."""
    words = layout.words
    base = node * slots
    clear_totals(ints, floats, layout, base * words, slots)
    a, b = 0, 0
    for s in range(held):
        while a < ones and began[a] < merged[s]:
            a += 1
        while b < twos and began_two[b] < merged[s]:
            b += 1
        in_one = sources & IN_ONE != 0 and a < ones and began[a] == merged[s]
        in_two = sources & IN_OTHER != 0 and b < twos and began_two[b] == merged[s]
        if in_two and (prefers_other or not in_one):
            copy_totals(two, two_floats, (base + b) * words, ints, floats, (base + s) * words, 1, layout)
        elif in_one:
            copy_totals(one, one_floats, (base + a) * words, ints, floats, (base + s) * words, 1, layout)


@inner
def _open(
    ints: Words,
    floats: Floats,
    layout: Layout,
    slots: int,
    node: int,
    sources: int,
    began: Times,
    ones: int,
    began_two: Times,
    twos: int,
    merged: Times,
    held: int,
    mode: int,
) -> None:
    """Let matches begin where either unit alone would: in the newest pane, in windows that it had not opened yet."""
    words = layout.words
    if mode == PANES:
        clear_totals(ints, floats, layout, node * slots * words, held)
        set_empty_match(ints, floats, layout, (node * slots + held - 1) * words)
        return
    for s in range(held):
        in_one = sources & IN_ONE != 0 and ones > 0 and began[0] <= merged[s] <= began[ones - 1]
        in_two = sources & IN_OTHER != 0 and twos > 0 and began_two[0] <= merged[s] <= began_two[twos - 1]
        if not in_one and not in_two:
            set_empty_match(ints, floats, layout, (node * slots + s) * words)
