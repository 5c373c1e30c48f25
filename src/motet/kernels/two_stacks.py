"""Run a query by two stacks: a sliding product of event matrices, whose cost does not grow with the window.

The events of the window are split in two. The back keeps one product, each event being one column operation on it.
When the front runs out, the back is swept from its end, each event being one row operation, and of each suffix
product the start's row is kept: the front. The value of the window is the front's top row times the back. Rows and
columns of a product are the settled nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, MIN_TIME, Flags, Ints, SmallInts
from motet.kernels.jit import inner, kernel
from motet.kernels.slots import Inputs, Window, is_wanted, make_window
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
    BLOCK,
    DIRECT,
    DONE,
    FRAME,
    IS_DIRECT,
    KEY,
    MOVES,
    NEEDS_ROOM,
    OVERFLOWED,
    ROW,
    STEPS,
    Events,
    KernelResult,
    Machine,
    Queries,
    ResultRows,
    begin_key,
    collect_results,
    create_output,
    end_key,
    fill,
    load_weights,
    membership_mask,
    moves_at,
    step_width,
    steps_at,
    write_label,
)
from motet.kernels.totals import (
    COUNT_SURE,
    SHADOW_LIMIT,
    ChannelWeights,
    Layout,
    Totals,
    add_product,
    add_total,
    clear_totals,
    copy_totals,
    create_totals,
    create_weights,
    has_matches,
    propagate,
    set_empty_match,
)

MOST_ROOM = 1 << 23

# Statuses beside those of `motet.kernels.tables`.
NEEDS_FRONT = 3
NEEDS_GROUPS = 4

# Words of the state of a run. Of the groups of events of one time, `groups[x]` being where group x begins, lo..hi are
# in the window: the front lo..middle, the back middle..hi. The front's first row is for group `base`.
LO = FRAME
MIDDLE = FRAME + 1
HI = FRAME + 2
BASE = FRAME + 3
STACK_STATE = FRAME + 4

# What a class does that takes one step and nothing else: numbers of its source's and target's first totals, the rows of
# a product that the step can change (0: it is no such class), and whether it completes matches.
SOURCE = 0
TARGET = 1
ROWS = 2
ACCEPTS = 3
SINGLE = 4


class Stacks(NamedTuple):
    """The two stacks: the back's product, the front's rows, and a suffix product to build the front with."""

    back: Totals
    front: Totals
    suffix: Totals
    settled: SmallInts  # the settled nodes, the start first: rows and columns of a product
    single: SmallInts  # the classes of one step, see `SINGLE`


class StackState(NamedTuple):
    """The state of a run: where it stands, and what it knows of the key that is being processed."""

    words: Ints  # see `LO` and what follows
    groups: Ints  # where each group of events of one time begins
    nodes: ActiveNodes
    accepting: Flags
    due: Ints
    last_neg: Ints
    weights: ChannelWeights
    zero: ChannelWeights


def run_stacks(
    events: Events,
    machine: Machine,
    queries: Queries,
    settled: SmallInts,
    rows_before: SmallInts,
    layout: Layout,
    ranked: bool,
    emit_from: int,
    emit_to: int,
) -> KernelResult:
    """Return the results of one query over all keys; see `collect_results`.

    `settled` lists the settled nodes, the start first; `rows_before[n]` is how many of the first of them hold all
    that lead to node n. A slide of 0 means a continuous window; see `Window` for the other arguments. Each event costs
    O(transitions of its class * settled nodes * channels) amortised, each result O(settled nodes * accepting nodes),
    whatever the window holds.
    """
    keys, nodes, rank = len(events.offsets) - 1, len(machine.fold), len(settled)
    window = make_window(queries, 0, 0, ranked, int(MAX_TIME), emit_from, emit_to)
    accepting = membership_mask(queries.accept, nodes)
    stacks = Stacks(
        create_totals(nodes, rank, layout),
        create_totals(64, rank, layout),
        create_totals(nodes, rank, layout),
        settled,
        _find_single_steps(machine.code, accepting, rows_before, rank, layout),
    )
    state = StackState(
        np.zeros(STACK_STATE, np.int64),
        np.empty(1024, np.int64),
        create_active_nodes(machine, np.zeros(nodes, np.bool_)),
        accepting,
        np.zeros((DUE, 2), np.int64),
        np.empty(len(queries.neg) + 1, np.int64),
        create_weights(layout),
        create_weights(layout),
    )

    inputs = Inputs(events, machine, queries, window)

    def run(output: ResultRows) -> int:
        nonlocal stacks, state
        while True:
            status = _run_keys(state, stacks, output, inputs)
            if status == NEEDS_FRONT:
                size = 2 * int(state.words[HI] - state.words[LO])
                stacks = stacks._replace(front=create_totals(size, rank, layout))
            elif status == NEEDS_GROUPS:
                state = state._replace(groups=np.concatenate((state.groups, np.empty_like(state.groups))))
            else:
                return status

    # Room for a result at every event: memory that is never written costs nothing.
    rows = min(len(events.time), MOST_ROOM) + 2
    return collect_results(run, state.words, create_output(rows, keys, layout))


def _find_single_steps(
    code: SmallInts, accepting: Flags, rows_before: SmallInts, rank: int, layout: Layout
) -> SmallInts:
    """Return the table of the classes of one step; none where totals are more than one word."""
    classes = code[0] if len(code) else 0
    single = np.zeros((classes, SINGLE), np.int32)
    for number, block in enumerate(code[:classes].tolist()):
        if layout.words == 1 and code[block + IS_DIRECT] and code[block + DIRECT] == 1 and code[block + MOVES] == 0:
            source, target = code[block + BLOCK], code[block + BLOCK + 1]
            single[number] = source * rank, target * rank, rows_before[source], accepting[target]
    return single.ravel()


@kernel
def _run_keys(state: StackState, stacks: Stacks, output: ResultRows, inputs: Inputs) -> int:
    """Run on through all keys, unless some room runs out (then call again)."""
    events, machine = inputs.events, inputs.machine
    for key in range(state.words[KEY], events.offsets.size - 1):
        if begin_key(state.words, key, events.offsets[key]):
            for at in range(FRAME, STACK_STATE):
                state.words[at] = 0
            fill(state.last_neg, MIN_TIME)
            clear_due_windows(state.due)
            for node in range(machine.fold.size):  # a product has entries for every settled node
                state.nodes.in_use[node] = machine.fold[node] == node
            state.nodes.fresh[-1] = 0
            _reset_product(stacks.back, stacks.settled)
        status = _run_key(state, stacks, output, inputs)
        if status != DONE and status != OVERFLOWED:
            return status
        end_key(state.words, output, status)
    return DONE


@inner
def _run_key(state: StackState, stacks: Stacks, output: ResultRows, inputs: Inputs) -> int:
    """Run on through one key's events until they end, counts overflow, or some room runs out (then call again)."""
    events, machine, queries, window = inputs.events, inputs.machine, inputs.queries, inputs.window
    words = state.words
    width = step_width(stacks.back.layout)
    is_continuous, expiries = queries.slide[0] == 0, queries.expiries[0]
    is_simple = stacks.back.layout.words == 1 and is_continuous and not expiries
    end = events.offsets[words[KEY] + 1]
    while True:
        if is_simple and _count_plain_events(state, stacks, output, events, queries, window, end) < 0:
            return OVERFLOWED
        moment = next_moment(events, words[AT], end, window.until)
        flush = moment.first >= end
        if flush and is_continuous and (window.ranked or not expiries):
            return DONE
        if words[ROW] + 2 > output.labels.shape[0]:
            return NEEDS_ROOM
        if is_continuous:
            status = _expire_groups(state, stacks, output, inputs, moment)
        else:
            status = _close_windows(state, stacks, output, inputs, moment)
        if status != DONE or flush:
            return status
        if not _push_group(state, moment.first):
            return NEEDS_GROUPS
        if _apply_moment(state, stacks, output, inputs, moment) < 0:
            return OVERFLOWED
        if not is_continuous:
            pane = moment.time // queries.slide[0]
            mark_windows_due(state.due, state.nodes, machine, events, queries, moment, width, pane)
            state.due[WAITING, -1] = 0
            record_negations(state.last_neg, machine, events, moment, width)
        words[AT] = moment.after


@inner
def _push_group(state: StackState, first: int) -> bool:
    """Add a group of events to the window; return whether there was room."""
    words, groups = state.words, state.groups
    if words[LO] == words[HI]:
        for at in range(FRAME, STACK_STATE):
            words[at] = 0
    if words[HI] == groups.size:
        lo = words[LO]
        if lo <= groups.size // 2:
            return False
        for at in range(words[HI] - lo):
            groups[at] = groups[lo + at]
        for at in range(FRAME, STACK_STATE):
            words[at] -= lo
    groups[words[HI]] = first
    words[HI] += 1
    return True


@inner
def _apply_moment(state: StackState, stacks: Stacks, output: ResultRows, inputs: Inputs, moment: Moment) -> int:
    """Multiply the back by the events of one time, and report where this completes a match of a continuous window.

    Returns a negative number where a 64-bit count overflowed.
    """
    events, machine, queries, window = inputs.events, inputs.machine, inputs.queries, inputs.window
    back, nodes, code = stacks.back, state.nodes, machine.code
    is_continuous = queries.slide[0] == 0
    slots = Slots(0, back.slots - 1, False)
    e = moment.first
    block = code[events.klass[e]]
    completed = False
    bad = np.int64(0)
    if moment.after == e + 1 and code[block + IS_DIRECT]:
        if is_continuous:
            step = block + BLOCK
            for _ in range(code[block + DIRECT]):
                if state.accepting[code[step + 1]]:
                    completed |= _reaches_node(state.words, stacks, code[step])
                step += step_width(back.layout)
        if back.layout.has_shadows and code[block + MOVES] == 0:
            count_event(back, nodes, machine, events, e, slots)
        else:
            bad |= apply_event(back, nodes, machine, events, e, slots, state.weights)
    else:
        bad |= apply_simultaneous(back, nodes, machine, events, moment, slots, state.weights)
        bad |= apply_negations(back, nodes, machine, events, moment, slots, state.zero)
        if is_continuous:
            for at in range(queries.fresh.size):
                completed |= _reaches_node(state.words, stacks, queries.fresh[at])
        bad |= commit_fresh_nodes(back, nodes, machine, slots, state.zero)
    if completed and is_wanted(window, moment.time):
        bad |= _write_window_value(state.words, stacks, output, queries)
        write_label(output, state.words, 0, moment.time, moment.time, True)
    return bad


@inner
def _count_plain_events(
    state: StackState, stacks: Stacks, output: ResultRows, events: Events, queries: Queries, window: Window, end: int
) -> int:
    """Count on through lone events of plain steps in a continuous window, as far as neither a sweep nor more room is
    needed.

    This is what most events of most continuous queries come to, so it is written out; everything else stops it and
    goes the general way. Returns a negative number where a 64-bit count overflowed.
    """
    words, groups, single = state.words, state.groups, stacks.single
    time, enter, leave = events.time, events.enter, events.leave
    back, back_floats = stacks.back.ints, stacks.back.floats
    front, front_floats = stacks.front.ints, stacks.front.floats
    shadowed, rank = stacks.back.layout.has_shadows, stacks.back.slots
    lo, middle, hi, base = words[LO], words[MIDDLE], words[HI], words[BASE]
    bad = np.int64(0)
    e = words[AT]
    following = time[e] if e < end else MAX_TIME
    while e < end:
        now = following
        following = time[e + 1] if e + 1 < end else MAX_TIME
        if following == now:
            break
        kind = events.klass[e] * SINGLE
        if single[kind + ROWS] == 0:
            break
        keep = lo
        while keep < hi and leave[e] - enter[groups[keep]] >= window.widest:
            keep += 1
        if keep > lo and keep >= middle:
            break
        lo = keep
        if hi == groups.size or words[ROW] == output.labels.shape[0]:
            break
        groups[hi] = e
        hi += 1
        completed = False
        top = (lo - base) * rank
        source, target, rows = single[kind + SOURCE], single[kind + TARGET], single[kind + ROWS]
        if single[kind + ACCEPTS]:
            if lo >= middle:
                completed = back_floats[source] != 0.0 if shadowed else back[source] != 0
            elif shadowed:
                for p in range(rows):
                    completed |= back_floats[source + p] != 0.0 and front_floats[top + p] != 0.0
            else:
                for p in range(rows):
                    completed |= (back[source + p] != 0) & (front[top + p] != 0)
        for p in range(rank):
            total = back[target + p] + back[source + p]
            back[target + p] = total
            bad |= total
        if shadowed:
            for p in range(rows):
                back_floats[target + p] += back_floats[source + p]
        if bad < 0 and not shadowed:
            return bad
        if completed and is_wanted(window, now):
            count = np.int64(0)
            size = 0.0
            for at in range(queries.accept.size):
                first = queries.accept[at] * rank
                if lo >= middle:
                    count += back[first]
                    size += back_floats[first] if shadowed else float(back[first])
                else:
                    for p in range(rank):
                        x, y = front[top + p], back[first + p]
                        count += x * y
                        if not shadowed:
                            if (x | y) >> 30 != 0:  # else neither the product nor a sum of a few is near 64 bits
                                size += float(x) * float(y)
                        elif front_floats[top + p] != 0.0 and back_floats[first + p] != 0.0:
                            size += front_floats[top + p] * back_floats[first + p]
            if not size < (SHADOW_LIMIT if shadowed else COUNT_SURE):
                return -1
            output.totals.ints[words[ROW]] = count
            if shadowed:
                output.totals.floats[words[ROW]] = size
            write_label(output, words, 0, now, now, True)
        e += 1
    words[AT] = e
    words[LO] = lo
    words[HI] = hi
    return 0


@inner
def _expire_groups(state: StackState, stacks: Stacks, output: ResultRows, inputs: Inputs, moment: Moment) -> int:
    """Let groups expire that a continuous window has passed, reporting what is left where asked."""
    events, machine, queries, window = inputs.events, inputs.machine, inputs.queries, inputs.window
    words, groups, expiries = state.words, state.groups, queries.expiries[0]
    leaving = events.leave[moment.first] if moment.first < moment.after else window.until
    while words[LO] < words[HI] and leaving - events.enter[groups[words[LO]]] >= window.widest:
        lo, hi, row = words[LO], words[HI], words[ROW]
        if row + 2 > output.labels.shape[0]:
            return NEEDS_ROOM
        bad = np.int64(0)
        expiry = moment.time if window.ranked else events.time[groups[lo]] + window.widest
        keep = lo + 1
        held = False
        if expiries:
            bad |= _write_window_value(words, stacks, output, queries)
            held = has_matches(output.totals, row)
        else:
            while keep < hi and leaving - events.enter[groups[keep]] >= window.widest:
                keep += 1
        status = _drop_groups(state, stacks, events, machine, keep, moment.first)
        if status != DONE:
            return status
        if expiries and is_wanted(window, expiry):
            # An expired absence may let matches count that did not before.
            bad |= _write_window_value(words, stacks, output, queries)
            if held or has_matches(output.totals, row):
                write_label(output, words, 0, expiry, expiry, False)
        if bad < 0:
            return OVERFLOWED
    return DONE


@inner
def _close_windows(state: StackState, stacks: Stacks, output: ResultRows, inputs: Inputs, moment: Moment) -> int:
    """Report every sliding window that has ended by now and may hold a match, letting what lies before it expire."""
    events, machine, queries, window = inputs.events, inputs.machine, inputs.queries, inputs.window
    words, due, groups = state.words, state.due, state.groups
    within, slide = queries.within[0], queries.slide[0]
    if due[FIRST_DUE, 0] > due[LAST_DUE, 0] or due[FIRST_DUE, 0] * slide + within > moment.time:
        return DONE
    last = min(due[LAST_DUE, 0], (moment.time - within) // slide)
    for k in range(due[FIRST_DUE, 0], last + 1):
        opened = k * slide
        due[FIRST_DUE, 0] = k
        if not is_wanted(window, opened + within):
            continue
        if words[ROW] == output.labels.shape[0]:
            return NEEDS_ROOM
        keep = words[LO]
        while keep < words[HI] and events.time[groups[keep]] < opened:
            keep += 1
        status = _drop_groups(state, stacks, events, machine, keep, moment.first)
        if status != DONE:
            return status
        if not is_negated(queries, 0, state.last_neg, opened):
            if _write_window_value(words, stacks, output, queries) < 0:
                return OVERFLOWED
            if has_matches(output.totals, words[ROW]):
                write_label(output, words, 0, opened, opened + within, True)
    due[FIRST_DUE, 0] = max(due[FIRST_DUE, 0], last + 1)
    return DONE


@inner
def _drop_groups(state: StackState, stacks: Stacks, events: Events, machine: Machine, keep: int, end: int) -> int:
    """Drop the groups before `keep`, rebuilding the front where it runs out. The last group ends at event `end`."""
    words = state.words
    if keep > words[LO] and keep >= words[MIDDLE]:
        if (words[HI] - keep) * stacks.front.slots * stacks.front.layout.words > stacks.front.ints.size:
            return NEEDS_FRONT
        if _rebuild_front(state, stacks, events, machine, keep, end) < 0:
            return OVERFLOWED
        words[MIDDLE] = words[HI]
        words[BASE] = keep
    words[LO] = keep
    return DONE


@inner
def _reset_product(totals: Totals, settled: SmallInts) -> None:
    """Make a product the identity."""
    clear_totals(totals, 0, totals.ints.size // totals.layout.words)
    for at in range(settled.size):
        set_empty_match(totals, settled[at] * totals.slots + at)


@inner
def _reaches_node(words: Ints, stacks: Stacks, node: int) -> bool:
    """Return whether any match begun in the window has reached a node of the back. O(settled nodes)."""
    first = node * stacks.back.slots
    if words[LO] >= words[MIDDLE]:
        return has_matches(stacks.back, first)
    top = (words[LO] - words[BASE]) * stacks.front.slots
    for p in range(stacks.back.slots):
        if has_matches(stacks.front, top + p) and has_matches(stacks.back, first + p):
            return True
    return False


@inner
def _write_window_value(words: Ints, stacks: Stacks, output: ResultRows, queries: Queries) -> int:
    """Put the value of the window into the next result row: the front's top row times the back's accepting columns.

    Returns a negative number where a 64-bit count overflowed. O(settled nodes * accepting nodes).
    """
    bad = np.int64(0)
    row = words[ROW]
    clear_totals(output.totals, row, 1)
    for at in range(queries.accept.size):
        first = queries.accept[at] * stacks.back.slots
        if words[LO] >= words[MIDDLE]:
            bad |= add_total(stacks.back, first, output.totals, row)
        else:
            top = (words[LO] - words[BASE]) * stacks.front.slots
            for p in range(stacks.back.slots):
                bad |= add_product(stacks.front, top + p, stacks.back, first + p, output.totals, row)
    return bad


@inner
def _rebuild_front(state: StackState, stacks: Stacks, events: Events, machine: Machine, lo: int, end: int) -> int:
    """Turn the groups from `lo` on into the front, and empty the back; negative where a 64-bit count overflowed.

    O(events * transitions * settled nodes).
    """
    suffix, single, rank = stacks.suffix, stacks.single, stacks.suffix.slots
    groups, hi = state.groups, state.words[HI]
    bad = np.int64(0)
    _reset_product(suffix, stacks.settled)
    for group in range(hi - 1, lo - 1, -1):
        first = groups[group]
        after = groups[group + 1] if group + 1 < hi else end
        kind = events.klass[first] * SINGLE
        if after == first + 1 and single[kind + ROWS] > 0:
            source, target = single[kind + SOURCE], single[kind + TARGET]
            for p in range(rank):
                total = suffix.ints[source + p] + suffix.ints[target + p]
                suffix.ints[source + p] = total
                bad |= total
            if suffix.layout.has_shadows:
                bad = np.int64(0)
                for p in range(rank):
                    suffix.floats[source + p] += suffix.floats[target + p]
        else:
            bad |= _sweep_group(state, suffix, events, machine, first, after)
        copy_totals(suffix, 0, stacks.front, (group - lo) * rank, rank)
    _reset_product(stacks.back, stacks.settled)
    return bad


@inner
def _sweep_group(state: StackState, suffix: Totals, events: Events, machine: Machine, first: int, after: int) -> int:
    """Multiply the suffix product by the events of one time, backwards; negative where a 64-bit count overflowed."""
    code, fold, rank = machine.code, machine.fold, suffix.slots
    width = step_width(suffix.layout)
    bad = np.int64(0)
    is_direct = after == first + 1 and code[code[events.klass[first]] + IS_DIRECT]
    if not is_direct:
        for node in range(fold.size):
            if fold[node] != node:
                copy_totals(suffix, fold[node] * rank, suffix, node * rank, rank)
    for e in range(after - 1, first - 1, -1):
        block = code[events.klass[e]]
        move = moves_at(code, block, width)
        for at in range(code[block + MOVES] - 1, -1, -1):
            source, target = code[move + 2 * at], code[move + 2 * at + 1]
            if target >= 0 and not is_direct:
                bad |= propagate(suffix, target * rank, source * rank, rank, 1, state.zero)
            else:
                clear_totals(suffix, source * rank, rank)
    for e in range(after - 1, first - 1, -1):
        block = code[events.klass[e]]
        steps = block + BLOCK if is_direct else steps_at(code, block, width)
        for at in range(code[block + (DIRECT if is_direct else STEPS)] - 1, -1, -1):
            step = steps + at * width
            if width > 2:
                load_weights(state.weights, suffix.layout, code, step, events, e, 1)
            bad |= propagate(suffix, code[step + 1] * rank, code[step] * rank, rank, 1, state.weights)
    return bad
