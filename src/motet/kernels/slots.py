"""Process the events of a key with totals per slot (a pane, a window or a start): for windows of which few are open.

See `motet.kernels.resume` for the run over all keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, MIN_TIME, Ints
from motet.kernels.jit import inner, kernel
from motet.kernels.steps import (
    DUE,
    FIRST_DUE,
    LAST_DUE,
    WAITING,
    ActiveNodes,
    Moment,
    Slots,
    apply_event,
    apply_negations,
    apply_simultaneous,
    clear_due_windows,
    commit_fresh_nodes,
    count_event,
    create_active_nodes,
    is_negated,
    mark_windows_due,
    next_moment,
    record_negations,
)
from motet.kernels.tables import (
    AT,
    BEGINS,
    COMPLETIONS,
    DONE,
    FRAME,
    IS_DIRECT,
    KEY,
    MOVES,
    NEEDS_ROOM,
    OVERFLOWED,
    ROW,
    Events,
    Machine,
    Queries,
    ResultRows,
    end_key,
    fill,
    membership_mask,
    step_width,
    write_label,
)
from motet.kernels.totals import (
    ChannelWeights,
    Layout,
    Totals,
    add_total,
    add_totals,
    clear_totals,
    copy_totals,
    create_weights,
    has_matches,
    set_empty_match,
)

PANES = 0  # a slot holds the matches that began in one pane; a window sums its panes
WINDOWS = 1  # a slot holds the matches that began since one window opened
STARTS = 2  # a slot holds the matches that began at one time

# Words of the state of a run. Slots lo..hi are open; slot 0 is number `base`, whatever was shifted.
BASE = FRAME
LO = FRAME + 1
HI = FRAME + 2
EMPTY = FRAME + 3  # no slot was open yet
SLOT_STATE = FRAME + 4


class Window(NamedTuple):
    """How windows are cut into slots, and which results are wanted."""

    mode: int
    unit: int  # the width of a slot; 0: one slot for everything
    widest: int  # the widest window of any query
    is_aligned: bool  # whether all windows are whole numbers of slots
    ranked: bool  # windows count events
    until: int  # time to go on to after the last event
    emit_from: int  # results are reported from this time on
    emit_to: int  # and before this one


class Inputs(NamedTuple):
    """What a run reads."""

    events: Events
    machine: Machine
    queries: Queries
    window: Window


class SlotState(NamedTuple):
    """The state of a run: where it stands, and what it knows of the key that is being processed."""

    words: Ints  # see `BASE` and what follows
    nodes: ActiveNodes
    due: Ints  # see `motet.kernels.steps.DUE`
    last_neg: Ints  # when each NEG was last violated
    began: Ints  # with starts: when each slot began
    weights: ChannelWeights  # of the event that is being applied
    zero: ChannelWeights  # of no event


def make_window(
    queries: Queries, mode: int, unit: int, ranked: bool, until: int, emit_from: int, emit_to: int
) -> Window:
    """Describe the windows of queries; see `Window` for the arguments."""
    aligned = unit == 0 or not (queries.within % unit).any()
    return Window(mode, unit, int(queries.within.max()), aligned, ranked, until, emit_from, emit_to)


def create_slot_state(machine: Machine, queries: Queries, layout: Layout, window: Window, slots: int) -> SlotState:
    """Create the state of a run that has not begun."""
    return SlotState(
        np.zeros(SLOT_STATE, np.int64),
        create_active_nodes(machine, membership_mask(machine.starts, len(machine.fold))),
        np.zeros((DUE, len(queries.within) + 1), np.int64),
        np.empty(len(queries.neg) + 1, np.int64),
        np.empty(slots if window.mode == STARTS else 1, np.int64),
        create_weights(layout),
        create_weights(layout),
    )


def slot_capacity(events: Events, machine: Machine, window: Window) -> int:
    """Return how many slots to keep: twice those open at once, so that they rarely have to be shifted down."""
    if window.mode == STARTS:
        return 2 * (_count_open_starts(events, machine.code, window.widest) + 1)
    return 2 * (window.widest // window.unit + 2) if window.unit > 0 else 1


@kernel
def _count_open_starts(events: Events, code: Ints, widest: int) -> int:
    """Return the most events of one key, that may begin a match, in one window. O(events)."""
    most = np.int64(0)
    for key in range(events.offsets.size - 1):
        begun = np.int64(0)
        oldest = events.offsets[key]
        for e in range(events.offsets[key], events.offsets[key + 1]):
            while oldest <= e and events.leave[e] - events.enter[oldest] >= widest:
                begun -= code[code[events.klass[oldest]] + BEGINS]
                oldest += 1
            begun += code[code[events.klass[e]] + BEGINS]
            most = max(most, begun)
    return most


@inner
def reset_key(state: SlotState) -> None:
    """Prepare for the events of the next key."""
    words = state.words
    words[BASE] = 0
    words[LO] = 0
    words[HI] = -1
    words[EMPTY] = 1
    fill(state.last_neg, MIN_TIME)
    clear_due_windows(state.due)


@inner
def finish_key(state: SlotState, totals: Totals, output: ResultRows, status: int) -> None:
    """Finish a key and empty the totals it has used."""
    end_key(state.words, output, status)
    state.nodes.fresh[-1] = 0
    in_use = state.nodes.in_use
    for node in range(in_use.size):
        if in_use[node]:
            clear_totals(totals, node * totals.slots, state.words[HI] + 1)  # later slots were never written
            in_use[node] = False


@inner
def run_key(state: SlotState, totals: Totals, output: ResultRows, inputs: Inputs) -> int:
    """Run on through one key's events, and on to the end of the window's time, unless counts overflow or the room for
    results runs out (then call again).
    """
    events, machine, queries, window = inputs.events, inputs.machine, inputs.queries, inputs.window
    words, nodes = state.words, state.nodes
    code = machine.code
    width = step_width(totals.layout)
    end = events.offsets[words[KEY] + 1]
    while True:
        moment = next_moment(events, words[AT], end, window.until)
        status = open_slots(state, totals, output, inputs, moment)
        if status != DONE or moment.first >= end:
            return status
        slots = Slots(words[LO], words[HI], window.mode != WINDOWS)
        if slots.lo <= slots.hi:
            bad = np.int64(0)
            e = moment.first
            block = code[events.klass[e]]
            is_alone = moment.after == e + 1
            if is_alone and code[block + IS_DIRECT] and window.mode != STARTS:
                if totals.layout.has_shadows and code[block + MOVES] == 0:
                    count_event(totals, nodes, machine, events, e, slots)
                else:
                    bad |= apply_event(totals, nodes, machine, events, e, slots, state.weights)
            else:
                bad |= apply_simultaneous(totals, nodes, machine, events, moment, slots, state.weights)
                bad |= apply_negations(totals, nodes, machine, events, moment, slots, state.zero)
                if window.mode == STARTS:
                    bad |= report_completed(state, totals, output, queries, window, moment.time)
                bad |= commit_fresh_nodes(totals, nodes, machine, slots, state.zero)
            if bad < 0:
                return OVERFLOWED
            if window.mode == STARTS:
                close_start(totals, machine, slots.hi)
            elif not is_alone or code[block + COMPLETIONS] > 0:
                mark_windows_due(state.due, nodes, machine, events, queries, moment, width, words[BASE] + slots.hi)
        if queries.neg.size > 0:
            record_negations(state.last_neg, machine, events, moment, width)
        words[AT] = moment.after


@inner
def open_slots(state: SlotState, totals: Totals, output: ResultRows, inputs: Inputs, moment: Moment) -> int:
    """Report what has ended before a moment, and open the slots that begin with it."""
    machine, queries, window = inputs.machine, inputs.queries, inputs.window
    words, unit, now = state.words, window.unit, moment.time
    if window.mode == STARTS:
        return _open_start(state, totals, output, inputs, moment)
    flush = moment.first == moment.after
    newest = words[BASE] + words[HI]
    slot = now // unit if unit > 0 else np.int64(0)
    if not flush and words[EMPTY] == 0 and window.is_aligned and slot <= newest:
        return DONE
    status = _close_windows(state, totals, output, queries, window, now)
    if status == DONE and not flush and (words[EMPTY] == 1 or slot > newest):
        oldest = (now - window.widest) // unit + 1 if unit > 0 else np.int64(0)
        _advance_slots(state, totals, machine, window, oldest, slot)
    return status


@inner
def _open_start(state: SlotState, totals: Totals, output: ResultRows, inputs: Inputs, moment: Moment) -> int:
    """Let starts expire and, where a match may begin now, open a slot for it."""
    events, machine, queries, window = inputs.events, inputs.machine, inputs.queries, inputs.window
    words, began = state.words, state.began
    flush = moment.first == moment.after
    leaving = moment.time if flush else events.leave[moment.first]
    if words[LO] <= words[HI] and leaving - began[words[LO]] >= window.widest:
        status = _expire_starts(state, totals, output, queries, window, leaving, moment.time)
        if status != DONE:
            return status
    if flush:
        return DONE
    if words[ROW] + queries.within.size > output.labels.shape[0]:
        return NEEDS_ROOM
    if _can_begin(machine, events, moment):
        if words[HI] + 1 == totals.slots:
            _shift_slots(state, totals, words[LO], words[HI])
            for s in range(words[HI] - words[LO] + 1):
                began[s] = began[words[LO] + s]
            words[BASE] += words[LO]
            words[HI] -= words[LO]
            words[LO] = 0
        words[HI] += 1
        began[words[HI]] = events.enter[moment.first]
        _begin_matches(state, totals, machine, words[HI], words[HI])
    return DONE


@inner
def close_start(totals: Totals, machine: Machine, slot: int) -> None:
    """Let no further match begin in a slot."""
    for at in range(machine.starts.size):
        clear_totals(totals, machine.starts[at] * totals.slots + slot, 1)


@inner
def _can_begin(machine: Machine, events: Events, moment: Moment) -> bool:
    """Return whether any of the events of one time may begin a match."""
    for e in range(moment.first, moment.after):
        if machine.code[machine.code[events.klass[e]] + BEGINS]:
            return True
    return False


@inner
def _begin_matches(state: SlotState, totals: Totals, machine: Machine, lo: int, hi: int) -> None:
    """Let matches begin in slots lo..hi."""
    for at in range(machine.starts.size):
        node = machine.starts[at]
        state.nodes.in_use[node] = True
        for s in range(lo, hi + 1):
            set_empty_match(totals, node * totals.slots + s)


@inner
def _advance_slots(
    state: SlotState, totals: Totals, machine: Machine, window: Window, oldest: int, newest: int
) -> None:
    """Make `newest` the last slot and forget those before `oldest`."""
    words, in_use = state.words, state.nodes.in_use
    base, hi = words[BASE], words[HI]
    if words[EMPTY] == 1 or oldest > base + hi:
        if words[EMPTY] == 0:
            for node in range(in_use.size):
                if in_use[node]:
                    clear_totals(totals, node * totals.slots, hi + 1)
                    in_use[node] = False
        base = oldest if window.mode == WINDOWS else newest
        opened = np.int64(0)
    else:
        if window.mode == PANES:
            close_start(totals, machine, hi)
        if newest - base >= totals.slots:
            _shift_slots(state, totals, oldest - base, hi)
            hi -= oldest - base
            base = oldest
        opened = hi + 1
    hi = newest - base
    _begin_matches(state, totals, machine, hi if window.mode == PANES else opened, hi)
    words[BASE] = base
    words[LO] = max(oldest - base, np.int64(0))
    words[HI] = hi
    words[EMPTY] = 0


@inner
def _shift_slots(state: SlotState, totals: Totals, by: int, hi: int) -> None:
    """Move slots by..hi down to the beginning."""
    if by == 0:
        return
    for node in range(state.nodes.in_use.size):
        if state.nodes.in_use[node]:
            first = node * totals.slots
            copy_totals(totals, first + by, totals, first, hi - by + 1)
            clear_totals(totals, first + hi - by + 1, by)


@inner
def is_wanted(window: Window, time: int) -> bool:
    """Return whether results of a time are to be reported."""
    return window.emit_from <= time < window.emit_to


@inner
def _close_windows(
    state: SlotState, totals: Totals, output: ResultRows, queries: Queries, window: Window, now: int
) -> int:
    """Report every window that has ended by now and may hold a match. O(windows * accepting nodes * panes)."""
    words, due, unit = state.words, state.due, window.unit
    base, hi = words[BASE], words[HI]
    waiting = 0
    for place in range(due[WAITING, -1]):
        query = due[WAITING, place]
        step, within = queries.slide[query], queries.within[query]
        last = due[LAST_DUE, query]
        if step > 0:
            last = min(last, (now - within) // step)
        elif now < MAX_TIME:
            last = due[FIRST_DUE, query] - 1
        for k in range(due[FIRST_DUE, query], last + 1):
            start = k * step
            end = start + within if step > 0 else MAX_TIME
            since = start if step > 0 else MIN_TIME + 1
            if not is_wanted(window, end) or is_negated(queries, query, state.last_neg, since):
                continue
            row = words[ROW]
            if row == output.labels.shape[0]:
                due[FIRST_DUE, query] = k
                # Those still to be looked at stay on the list.
                for rest in range(place, due[WAITING, -1]):
                    due[WAITING, waiting] = due[WAITING, rest]
                    waiting += 1
                due[WAITING, -1] = waiting
                return NEEDS_ROOM
            low, high = np.int64(0), np.int64(0)
            if unit > 0:
                low = start // unit - base
                high = (end // unit - base - 1) if window.mode == PANES else low
            low = max(low, np.int64(0))
            bad = np.int64(0)
            clear_totals(output.totals, row, 1)
            for at in range(queries.accept_offsets[query], queries.accept_offsets[query + 1]):
                first = queries.accept[at] * totals.slots + low
                bad |= add_totals(totals, first, min(high, hi) + 1 - low, output.totals, row)
            if bad < 0:
                return OVERFLOWED
            if has_matches(output.totals, row):
                write_label(output, words, query, start, end, True)
        due[FIRST_DUE, query] = max(due[FIRST_DUE, query], last + 1)
        if due[FIRST_DUE, query] <= due[LAST_DUE, query]:
            due[WAITING, waiting] = query
            waiting += 1
    due[WAITING, -1] = waiting
    return DONE


@inner
def _expire_starts(
    state: SlotState,
    totals: Totals,
    output: ResultRows,
    queries: Queries,
    window: Window,
    leaving: int,
    now: int,
) -> int:
    """Let starts expire, reporting what is certain only then and, where asked, what is left."""
    words, began = state.words, state.began
    while words[LO] <= words[HI] and leaving - began[words[LO]] >= window.widest:
        if words[ROW] + queries.within.size > output.labels.shape[0]:
            return NEEDS_ROOM
        lo = words[LO]
        when = now if window.ranked else began[lo] + window.widest
        bad = np.int64(0)
        for query in range(queries.within.size):
            at_close = queries.at_close[query]
            if not (at_close or queries.expiries[query]):
                continue
            lost = False
            first, last = queries.accept_offsets[query], queries.accept_offsets[query + 1]
            for at in range(first, last):
                lost |= has_matches(totals, queries.accept[at] * totals.slots + lo)
            if not lost or not is_wanted(window, when) or when == MAX_TIME:
                continue
            clear_totals(output.totals, words[ROW], 1)
            oldest, newest = (lo, lo) if at_close else (lo + 1, words[HI])
            for at in range(first, last):
                a = queries.accept[at] * totals.slots + oldest
                bad |= add_totals(totals, a, newest + 1 - oldest, output.totals, words[ROW])
            if not at_close or not is_negated(queries, query, state.last_neg, began[lo]):
                write_label(output, words, query, when, when, at_close)
        if bad < 0:
            return OVERFLOWED
        for row in range(state.nodes.in_use.size):
            if state.nodes.in_use[row]:
                clear_totals(totals, row * totals.slots + lo, 1)
        words[LO] = lo + 1
    return DONE


@inner
def report_completed(
    state: SlotState, totals: Totals, output: ResultRows, queries: Queries, window: Window, now: int
) -> int:
    """Report each query for which a match completes at this time: all its matches whose start is alive.

    Returns a negative number where a 64-bit count overflowed. O(queries * accepting nodes * slots).
    """
    bad = np.int64(0)
    words = state.words
    if not is_wanted(window, now):
        return bad
    lo, hi = words[LO], words[HI]
    for query in range(queries.within.size):
        if queries.at_close[query]:
            continue
        completed = False
        for at in range(queries.fresh_offsets[query], queries.fresh_offsets[query + 1]):
            for s in range(lo, hi + 1):
                completed |= has_matches(totals, queries.fresh[at] * totals.slots + s)
        if not completed:
            continue
        row = words[ROW]
        clear_totals(output.totals, row, 1)
        for s in range(lo, hi + 1):
            for at in range(queries.accept_offsets[query], queries.accept_offsets[query + 1]):
                bad |= add_total(totals, queries.accept[at] * totals.slots + s, output.totals, row)
            for at in range(queries.fresh_offsets[query], queries.fresh_offsets[query + 1]):
                bad |= add_total(totals, queries.fresh[at] * totals.slots + s, output.totals, row)
        write_label(output, words, query, now, now, True)
    return bad
