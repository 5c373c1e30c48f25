"""Run queries of one window by two stacks: a sliding product of event matrices, whose cost does not grow with the
window.

The events of the window are split in two. The back keeps one product, each event being one column operation on it.
When the front runs out, the back is swept from its end, each event being one row operation on a suffix product, and
what this overwrites in the rows of starts is saved: to let the oldest events expire is to restore that. The value of
the window is the start's row of the front times the back.

Several queries have one product. Its columns and rows hold no more than what can be reached: a column has a total for
each settled node that leads to its node, a row one for each settled node that its node leads to (`StackTable`). So an
event costs the number of nodes before its sources and after its targets, whatever other queries there are, and a
beginning that queries share costs once what it costs each of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MAX_TIME, MIN_TIME, Flags, Ints, SmallInts
from motet.kernels.jit import inner
from motet.kernels.slots import Inputs, Window, is_wanted
from motet.kernels.steps import (
    FIRST_DUE,
    LAST_DUE,
    WAITING,
    ActiveNodes,
    Moment,
    activate,
    clear_due_windows,
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
    MOVES,
    NEEDS_ROOM,
    OVERFLOWED,
    ROW,
    STEPS,
    Events,
    Machine,
    Queries,
    ResultRows,
    fill,
    load_weights,
    moves_at,
    step_width,
    steps_at,
    write_label,
)
from motet.kernels.totals import (
    COUNT_SURE,
    SHADOW_LIMIT,
    ChannelWeights,
    Totals,
    add_product,
    add_total,
    clear_totals,
    copy_totals,
    has_matches,
    propagate,
    set_empty_match,
)

NEEDS_FRONT = 3  # a status beside those of `motet.kernels.tables`: room for what a sweep saves

# Words of the state of a run. The events of the window are those from `LO` up to the next one: the front up to
# `MIDDLE`, then the back. A *group* is the events of one time.
LO = FRAME
MIDDLE = FRAME + 1
BASE = FRAME + 2  # where the key's event number 0 is: entries name events by their numbers
BOTTOM = FRAME + 3  # the first entry saved for the front
ENTRIES = FRAME + 4  # after the last one
SAVED = FRAME + 5  # after the last total saved for the front
TO_SAVE = FRAME + 6  # totals to save at most when the back is swept
MARKED = FRAME + 7  # queries marked
CHANGED_COLUMNS = FRAME + 8  # of the back
CHANGED_LINES = FRAME + 9  # of the suffix product
GROUP_STAMP = FRAME + 10  # counts groups that are swept
FREE_ENTRY = FRAME + 11  # where the entries of the next sweep go
FREE_TOTAL = FRAME + 12  # where the totals go that it saves
KEEPS_FRONTS = FRAME + 13  # whether the fronts of several keys are kept, one after another
WORK = FRAME + 14  # events applied and swept
FREE_RECORD = FRAME + 15  # where the next record of a key goes: see `motet.kernels.resume_stacks`
STACK_STATE = FRAME + 16

# An entry of what is saved: the number of the first event of a group, the first total that it overwrites, and how many.
EVENT = 0
FIRST = 1
COUNT = 2
ENTRY = 3

# A plain step: its source and target; the first totals of their columns, and how many the source's has.
SOURCE = 0
TARGET = 1
SOURCE_COLUMN = 2
TARGET_COLUMN = 3
ROWS = 4
PLAIN = 5


class StackTable(NamedTuple):
    """Where the totals of products are, by node, and whose nodes they are.

    The back has a column for each node: totals of the settled nodes that lead to it, in `rows[n]` rows from total
    `column[n]` on. Nodes that lead to one node have different rows, and the same one in each column; the row of a start
    is 0. A suffix product has a line for each node: totals of the settled nodes that it leads to, which are numbered so
    that these are about consecutive, from `first[n]` on.
    """

    column: Ints
    rows: Ints
    own_row: Ints  # its row in its own column; -1: it is fresh
    line: Ints  # its first total in a suffix product
    first: Ints  # the number of the node that this total leads to
    size: Ints  # how many totals its line has
    own_place: Ints  # its number; -1: it is fresh
    origin: Ints  # by total of the back: the suffix product's total from the start to its row's node, or the last one
    is_start: Flags
    owner_offsets: Ints  # queries that accept a node
    owners: SmallInts
    query_offsets: Ints  # queries that have a node
    queries: SmallInts


class PlainSteps(NamedTuple):
    """The steps of classes that do nothing but count them, and what a class has to save of starts at most."""

    offsets: Ints
    steps: SmallInts  # see `PLAIN`
    saves: Ints


class Stacks(NamedTuple):
    """The two stacks: the back's product, a suffix product, whose rows of starts are the front's, and what to restore
    there as events expire.
    """

    back: Totals
    suffix: Totals
    saved: Totals
    entries: Ints  # see `ENTRY`
    table: StackTable
    plain: PlainSteps


class StackState(NamedTuple):
    """The state of a run: where it stands, and what it knows of the key that is being processed."""

    words: Ints  # see `LO` and what follows
    nodes: ActiveNodes
    due: Ints
    last_neg: Ints
    weights: ChannelWeights
    zero: ChannelWeights
    marked: Ints  # queries
    is_marked: Flags
    held: Flags  # by query: whether it had matches before events expired
    columns: SmallInts  # those that are not as in the identity
    is_column: Flags
    lines: SmallInts
    is_line: Flags
    stamps: Ints  # by fresh node: the group that its line was last made for


@inner
def begin_window(state: StackState, stacks: Stacks, first: int) -> None:
    """Prepare for the events of a key from `first` on, with an empty window."""
    words, nodes = state.words, state.nodes
    words[LO] = first
    words[MIDDLE] = first
    for at in range(BASE, MARKED):
        words[at] = 0
    fill(state.last_neg, MIN_TIME)
    clear_due_windows(state.due)
    for at in range(nodes.fresh[-1]):  # of a key that overflowed
        node = nodes.fresh[at]
        nodes.in_use[node] = False
        clear_totals(stacks.back, stacks.table.column[node], stacks.table.rows[node])
    nodes.fresh[-1] = 0
    _clear_marks(state)
    _reset_back(state, stacks)
    _reset_suffix(state, stacks)


@inner
def run_key(state: StackState, stacks: Stacks, output: ResultRows, inputs: Inputs, end: int) -> int:
    """Run on through one key's events up to `end`, and on to the end of the window's time, unless counts overflow or
    some room runs out (then call again).
    """
    events, machine, queries, window = inputs.events, inputs.machine, inputs.queries, inputs.window
    words = state.words
    width = step_width(stacks.back.layout)
    is_continuous, expiries = queries.slide[0] == 0, queries.expiries[0]
    is_simple = stacks.back.layout.words == 1 and is_continuous and not expiries
    while True:
        if is_simple and _count_plain_events(state, stacks, output, events, queries, window, end) < 0:
            return OVERFLOWED
        moment = next_moment(events, words[AT], end, window.until)
        flush = moment.first >= end
        if flush and is_continuous and (window.ranked or not expiries):
            return DONE
        if words[ROW] + queries.within.size > output.labels.shape[0]:
            return NEEDS_ROOM
        if is_continuous:
            status = _expire_groups(state, stacks, output, inputs, moment)
        else:
            status = _close_windows(state, stacks, output, inputs, moment)
        if status != DONE or flush:
            return status
        if words[ROW] + queries.within.size > output.labels.shape[0]:
            return NEEDS_ROOM
        for e in range(moment.first, moment.after):
            words[TO_SAVE] += stacks.plain.saves[events.klass[e]]
        if _apply_moment(state, stacks, output, inputs, moment) < 0:
            return OVERFLOWED
        if not is_continuous:
            pane = moment.time // queries.slide[0]
            mark_windows_due(state.due, state.nodes, machine, events, queries, moment, width, pane)
            record_negations(state.last_neg, machine, events, moment, width)
        words[AT] = moment.after


@inner
def _apply_moment(state: StackState, stacks: Stacks, output: ResultRows, inputs: Inputs, moment: Moment) -> int:
    """Multiply the back by the events of one time, and report the queries of a continuous window that this completes.

    Returns a negative number where a 64-bit count overflowed.
    """
    events, machine = inputs.events, inputs.machine
    code = machine.code
    is_continuous = inputs.queries.slide[0] == 0
    e = moment.first
    bad = np.int64(0)
    if moment.after == e + 1 and code[code[events.klass[e]] + IS_DIRECT]:
        bad |= _apply_event(state, stacks, machine, events, e, is_continuous)
    else:
        bad |= _apply_simultaneous(state, stacks, machine, events, moment)
        if is_continuous:
            for at in range(state.nodes.fresh[-1]):
                node = state.nodes.fresh[at]
                _mark_owners(state, stacks, node, machine.fold[node])
        bad |= _commit_fresh_nodes(state, stacks, machine)
    for at in range(state.words[MARKED] if is_wanted(inputs.window, moment.time) else 0):
        bad |= _write_window_value(state.words, stacks, output, inputs.queries, state.marked[at])
        write_label(output, state.words, state.marked[at], moment.time, moment.time, True)
    _clear_marks(state)
    return bad


@inner
def _apply_event(
    state: StackState, stacks: Stacks, machine: Machine, events: Events, e: int, is_continuous: bool
) -> int:
    """Apply the steps of a lone event straight into settled nodes, marking the queries that it completes."""
    code, back, table = machine.code, stacks.back, stacks.table
    width = step_width(back.layout)
    block = code[events.klass[e]]
    bad = np.int64(0)
    for step in range(block + BLOCK, block + BLOCK + width * code[block + DIRECT], width):
        source, target = code[step], code[step + 1]
        if is_continuous:
            _mark_owners(state, stacks, source, target)
        if width > 2:
            load_weights(state.weights, back.layout, code, step, events, e, 1)
        note_column(state, target)
        bad |= propagate(back, table.column[source], table.column[target], table.rows[source], 1, state.weights)
    move = moves_at(code, block, width)
    for at in range(code[block + MOVES]):
        _clear_column(state, stacks, code[move + 2 * at])
    return bad


@inner
def _apply_simultaneous(state: StackState, stacks: Stacks, machine: Machine, events: Events, moment: Moment) -> int:
    """Apply the steps of all events of one time into fresh nodes, then move away what they rule out."""
    code, back, table = machine.code, stacks.back, stacks.table
    width = step_width(back.layout)
    bad = np.int64(0)
    for e in range(moment.first, moment.after):
        block = code[events.klass[e]]
        first = steps_at(code, block, width)
        for step in range(first, first + width * code[block + STEPS], width):
            source, target = code[step], code[step + 1]
            if state.nodes.in_use[source]:
                if width > 2:
                    load_weights(state.weights, back.layout, code, step, events, e, 1)
                activate(state.nodes, machine, target)
                bad |= propagate(back, table.column[source], table.column[target], table.rows[source], 1, state.weights)
    for e in range(moment.first, moment.after):
        block = code[events.klass[e]]
        move = moves_at(code, block, width)
        for at in range(code[block + MOVES]):
            source, target = code[move + 2 * at], code[move + 2 * at + 1]
            if target >= 0:
                activate(state.nodes, machine, target)
                note_column(state, target)
                bad |= propagate(back, table.column[source], table.column[target], table.rows[source], 1, state.zero)
            else:
                _clear_column(state, stacks, source)
    return bad


@inner
def _commit_fresh_nodes(state: StackState, stacks: Stacks, machine: Machine) -> int:
    """Fold fresh nodes into settled ones, when all events of a time are applied; negative where a count overflowed."""
    nodes, table = state.nodes, stacks.table
    bad = np.int64(0)
    for at in range(nodes.fresh[-1]):
        node = nodes.fresh[at]
        settled = machine.fold[node]
        nodes.in_use[node] = False
        note_column(state, settled)
        bad |= propagate(stacks.back, table.column[node], table.column[settled], table.rows[node], 1, state.zero)
        clear_totals(stacks.back, table.column[node], table.rows[node])
    nodes.fresh[-1] = 0
    return bad


@inner
def _mark_owners(state: StackState, stacks: Stacks, node: int, target: int) -> None:
    """Mark the queries that accept `target`, if any match begun in the window has reached a node from which it goes
    there. O(rows of the node) if there are any.
    """
    table, words = stacks.table, state.words
    owner, last = table.owner_offsets[target], table.owner_offsets[target + 1]
    if owner == last or not _reaches_node(words, stacks, node):
        return
    for at in range(owner, last):
        _mark_query(state, table.owners[at])


@inner
def _mark_query(state: StackState, query: int) -> None:
    if not state.is_marked[query]:
        state.is_marked[query] = True
        state.marked[state.words[MARKED]] = query
        state.words[MARKED] += 1


@inner
def _clear_marks(state: StackState) -> None:
    for at in range(state.words[MARKED]):
        state.is_marked[state.marked[at]] = False
    state.words[MARKED] = 0


@inner
def _count_plain_events(
    state: StackState, stacks: Stacks, output: ResultRows, events: Events, queries: Queries, window: Window, end: int
) -> int:
    """Count on through lone events of plain steps in a continuous window, as far as neither a sweep nor more room is
    needed.

    This is what most events of most continuous queries come to, so it is written out; everything else stops it and
    goes the general way. Returns a negative number where a 64-bit count overflowed.
    """
    words, table = state.words, stacks.table
    offsets, steps, saves = stacks.plain.offsets, stacks.plain.steps, stacks.plain.saves
    time, enter, leave = events.time, events.enter, events.leave
    back, back_floats = stacks.back.ints, stacks.back.floats
    shadowed = stacks.back.layout.has_shadows
    lo, middle = words[LO], words[MIDDLE]
    to_save = words[TO_SAVE]
    bad = np.int64(0)
    e = words[AT]
    following = time[e] if e < end else MAX_TIME
    while e < end:
        now = following
        following = time[e + 1] if e + 1 < end else MAX_TIME
        if following == now:
            break
        kind = events.klass[e]
        first_step, last_step = offsets[kind], offsets[kind + 1]
        if first_step == last_step:
            break
        keep = lo
        while keep < e and leave[e] - enter[keep] >= window.widest:
            keep += 1
        if keep > lo:
            if keep >= middle:
                break
            lo = keep
            _restore_saved(words, stacks, keep)
        if words[ROW] + queries.within.size > output.labels.shape[0]:
            break
        to_save += saves[kind]
        for step in range(PLAIN * first_step, PLAIN * last_step, PLAIN):
            node = steps[step + TARGET]
            source, target, rows = steps[step + SOURCE_COLUMN], steps[step + TARGET_COLUMN], steps[step + ROWS]
            if table.owner_offsets[node] < table.owner_offsets[node + 1]:
                words[LO] = lo
                if _reaches(words, stacks, source, rows):
                    for at in range(table.owner_offsets[node], table.owner_offsets[node + 1]):
                        _mark_query(state, table.owners[at])
            if not state.is_column[node]:
                note_column(state, node)
            for p in range(rows):
                total = back[target + p] + back[source + p]
                back[target + p] = total
                bad |= total
            if shadowed:
                for p in range(rows):
                    back_floats[target + p] += back_floats[source + p]
        if bad < 0 and not shadowed:
            return bad
        if words[MARKED] > 0:
            words[LO] = lo
            for at in range(words[MARKED] if is_wanted(window, now) else 0):
                if _write_count(words, stacks, output, queries, state.marked[at]) < 0:
                    return -1
                write_label(output, words, state.marked[at], now, now, True)
            _clear_marks(state)
        e += 1
    words[AT] = e
    words[LO] = lo
    words[TO_SAVE] = to_save
    return 0


@inner
def _write_count(words: Ints, stacks: Stacks, output: ResultRows, queries: Queries, query: int) -> int:
    """Do what `_write_window_value` does where totals are counts; negative where one overflowed."""
    table = stacks.table
    back, back_floats = stacks.back.ints, stacks.back.floats
    front, front_floats = stacks.suffix.ints, stacks.suffix.floats
    shadowed = stacks.back.layout.has_shadows
    count = np.int64(0)
    size = 0.0
    for at in range(queries.accept_offsets[query], queries.accept_offsets[query + 1]):
        node = queries.accept[at]
        first = table.column[node]
        if words[LO] >= words[MIDDLE]:
            count += back[first]
            size += back_floats[first] if shadowed else float(back[first])
            continue
        for b in range(first, first + table.rows[node]):
            a = table.origin[b]
            x, y = front[a], back[b]
            count += x * y
            if not shadowed:
                if (x | y) >> 30 != 0:  # else neither the product nor a sum of a few is near 64 bits
                    size += float(x) * float(y)
            elif front_floats[a] != 0.0 and back_floats[b] != 0.0:
                size += front_floats[a] * back_floats[b]
    if not size < (SHADOW_LIMIT if shadowed else COUNT_SURE):
        return -1
    output.totals.ints[words[ROW]] = count
    if shadowed:
        output.totals.floats[words[ROW]] = size
    return 0


@inner
def _expire_groups(state: StackState, stacks: Stacks, output: ResultRows, inputs: Inputs, moment: Moment) -> int:
    """Let groups expire that a continuous window has passed, reporting what is left where asked."""
    events, machine, queries, window = inputs.events, inputs.machine, inputs.queries, inputs.window
    words, expiries, last = state.words, queries.expiries[0], moment.first
    leaving = events.leave[last] if last < moment.after else window.until
    while words[LO] < last and leaving - events.enter[words[LO]] >= window.widest:
        lo = words[LO]
        if words[ROW] + queries.within.size > output.labels.shape[0]:
            return NEEDS_ROOM
        bad = np.int64(0)
        expiry = moment.time if window.ranked else events.time[lo] + window.widest
        keep = lo + 1
        if expiries:
            while keep < last and events.time[keep] == events.time[lo]:
                keep += 1
            _mark_beginning(state, stacks, events, machine, lo, keep)
            for at in range(words[MARKED]):
                query = state.marked[at]
                bad |= _write_window_value(words, stacks, output, queries, query)
                state.held[query] = has_matches(output.totals, words[ROW])
        else:
            while keep < last and leaving - events.enter[keep] >= window.widest:
                keep += 1
        status = _drop_groups(state, stacks, events, machine, keep, last)
        if status != DONE:
            _clear_marks(state)
            return status
        for at in range(words[MARKED] if is_wanted(window, expiry) else 0):
            # An expired absence may let matches count that did not before.
            query = state.marked[at]
            bad |= _write_window_value(words, stacks, output, queries, query)
            if state.held[query] or has_matches(output.totals, words[ROW]):
                write_label(output, words, query, expiry, expiry, False)
        _clear_marks(state)
        if bad < 0:
            return OVERFLOWED
    return DONE


@inner
def _mark_beginning(
    state: StackState, stacks: Stacks, events: Events, machine: Machine, first: int, after: int
) -> None:
    """Mark the queries of which events begin matches, or keep them from beginning: the value of others stays as it is.

    O(steps and moves, and queries that have their nodes).
    """
    code, table = machine.code, stacks.table
    width = step_width(stacks.back.layout)
    for e in range(first, after):
        block = code[events.klass[e]]
        step = steps_at(code, block, width)
        for at in range(code[block + STEPS]):
            source, target = code[step + at * width], code[step + at * width + 1]
            if table.is_start[source]:
                for query in range(table.query_offsets[target], table.query_offsets[target + 1]):
                    _mark_query(state, table.queries[query])
        move = moves_at(code, block, width)
        for at in range(code[block + MOVES]):
            source = code[move + 2 * at]
            if table.is_start[source]:
                for query in range(table.query_offsets[source], table.query_offsets[source + 1]):
                    _mark_query(state, table.queries[query])


@inner
def _close_windows(state: StackState, stacks: Stacks, output: ResultRows, inputs: Inputs, moment: Moment) -> int:
    """Report every sliding window that has ended by now and may hold a match, letting what lies before it expire.

    O(windows * queries that are due), beside the values.
    """
    events, machine, queries, window = inputs.events, inputs.machine, inputs.queries, inputs.window
    words, due = state.words, state.due
    within, slide = queries.within[0], queries.slide[0]
    while due[WAITING, -1] > 0:
        k = MAX_TIME
        for place in range(due[WAITING, -1]):
            k = min(k, due[FIRST_DUE, due[WAITING, place]])
        opened = k * slide
        if opened + within > moment.time:
            return DONE
        if words[ROW] + queries.within.size > output.labels.shape[0]:
            return NEEDS_ROOM
        wanted = is_wanted(window, opened + within)
        if wanted:
            keep = words[LO]
            while keep < moment.first and events.time[keep] < opened:
                keep += 1
            status = _drop_groups(state, stacks, events, machine, keep, moment.first)
            if status != DONE:
                return status
        waiting = 0
        for place in range(due[WAITING, -1]):
            query = due[WAITING, place]
            if due[FIRST_DUE, query] == k:
                due[FIRST_DUE, query] = k + 1
                if wanted and not is_negated(queries, query, state.last_neg, opened):
                    if _write_window_value(words, stacks, output, queries, query) < 0:
                        return OVERFLOWED
                    if has_matches(output.totals, words[ROW]):
                        write_label(output, words, query, opened, opened + within, True)
            if due[FIRST_DUE, query] <= due[LAST_DUE, query]:
                due[WAITING, waiting] = query
                waiting += 1
        due[WAITING, -1] = waiting
    return DONE


@inner
def _drop_groups(state: StackState, stacks: Stacks, events: Events, machine: Machine, keep: int, end: int) -> int:
    """Drop the events before `keep`, rebuilding the front where it runs out. The last group ends at event `end`."""
    words = state.words
    if keep > words[LO] and keep >= words[MIDDLE]:
        status = sweep_back(state, stacks, events, machine, keep, end)
        if status != DONE:
            return status
    elif keep > words[LO]:
        _restore_saved(words, stacks, keep)
    words[LO] = keep
    return DONE


@inner
def sweep_back(state: StackState, stacks: Stacks, events: Events, machine: Machine, keep: int, end: int) -> int:
    """Make the events from `keep` to `end` the front, and empty the back; see `_rebuild_front` for the cost."""
    words = state.words
    if max(words[FREE_ENTRY], words[FREE_TOTAL]) + words[TO_SAVE] > stacks.entries.shape[0]:
        return NEEDS_FRONT
    if _rebuild_front(state, stacks, events, machine, keep, end) < 0:
        return OVERFLOWED
    words[MIDDLE] = end
    return DONE


@inner
def _restore_saved(words: Ints, stacks: Stacks, event: int) -> None:
    """Undo what the groups before an event have done to the rows of starts."""
    entries, number = stacks.entries, event - words[BASE]
    while words[ENTRIES] > words[BOTTOM] and entries[words[ENTRIES] - 1, EVENT] < number:
        words[ENTRIES] -= 1
        entry = words[ENTRIES]
        words[SAVED] -= entries[entry, COUNT]
        copy_totals(stacks.saved, words[SAVED], stacks.suffix, entries[entry, FIRST], entries[entry, COUNT])


@inner
def _save_totals(words: Ints, stacks: Stacks, event: int, first: int, count: int) -> None:
    """Save totals of the suffix product that a group, which begins with an event, is going to overwrite."""
    entry = words[ENTRIES]
    stacks.entries[entry, EVENT] = event - words[BASE]
    stacks.entries[entry, FIRST] = first
    stacks.entries[entry, COUNT] = count
    copy_totals(stacks.suffix, first, stacks.saved, words[SAVED], count)
    words[ENTRIES] += 1
    words[SAVED] += count


@inner
def note_column(state: StackState, node: int) -> None:
    """Note that a column of the back is going to change."""
    if not state.is_column[node]:
        state.is_column[node] = True
        state.columns[state.words[CHANGED_COLUMNS]] = node
        state.words[CHANGED_COLUMNS] += 1


@inner
def _clear_column(state: StackState, stacks: Stacks, node: int) -> None:
    """Empty a column of the back."""
    note_column(state, node)
    clear_totals(stacks.back, stacks.table.column[node], stacks.table.rows[node])


@inner
def _reset_back(state: StackState, stacks: Stacks) -> None:
    """Make the back the identity. O(words of the columns that have changed)."""
    table = stacks.table
    for at in range(state.words[CHANGED_COLUMNS]):
        node = state.columns[at]
        state.is_column[node] = False
        clear_totals(stacks.back, table.column[node], table.rows[node])
        if table.own_row[node] >= 0:
            set_empty_match(stacks.back, table.column[node] + table.own_row[node])
    state.words[CHANGED_COLUMNS] = 0


@inner
def _reset_suffix(state: StackState, stacks: Stacks) -> None:
    """Make the suffix product the identity. O(words of the lines that have changed)."""
    table = stacks.table
    for at in range(state.words[CHANGED_LINES]):
        node = state.lines[at]
        state.is_line[node] = False
        clear_totals(stacks.suffix, table.line[node], table.size[node])
        if table.own_place[node] >= 0:
            set_empty_match(stacks.suffix, table.line[node] + table.own_place[node] - table.first[node])
    state.words[CHANGED_LINES] = 0


@inner
def _reaches_node(words: Ints, stacks: Stacks, node: int) -> bool:
    """Return whether any match begun in the window has reached a node of the back. O(rows of the node)."""
    return _reaches(words, stacks, stacks.table.column[node], stacks.table.rows[node])


@inner
def _reaches(words: Ints, stacks: Stacks, first: int, rows: int) -> bool:
    """Return whether any match begun in the window has reached the node whose column this is."""
    if words[LO] >= words[MIDDLE]:
        return has_matches(stacks.back, first)
    for b in range(first, first + rows):
        if has_matches(stacks.back, b) and has_matches(stacks.suffix, stacks.table.origin[b]):
            return True
    return False


@inner
def _write_window_value(words: Ints, stacks: Stacks, output: ResultRows, queries: Queries, query: int) -> int:
    """Put a query's value of the window into the next result row: the start's row of the front times the back's columns
    that it accepts.

    Returns a negative number where a 64-bit count overflowed. O(rows of accepting nodes * words).
    """
    table = stacks.table
    bad = np.int64(0)
    row = words[ROW]
    clear_totals(output.totals, row, 1)
    for at in range(queries.accept_offsets[query], queries.accept_offsets[query + 1]):
        node = queries.accept[at]
        first = table.column[node]
        if words[LO] >= words[MIDDLE]:
            bad |= add_total(stacks.back, first, output.totals, row)
        else:
            for b in range(first, first + table.rows[node]):
                bad |= add_product(stacks.suffix, table.origin[b], stacks.back, b, output.totals, row)
    return bad


@inner
def _rebuild_front(state: StackState, stacks: Stacks, events: Events, machine: Machine, lo: int, end: int) -> int:
    """Turn the events from `lo` on into the front, and empty the back; negative where a 64-bit count overflowed.

    O(steps of the events * (nodes after their targets) * words).
    """
    words, time, plain = state.words, events.time, stacks.plain
    bad = np.int64(0)
    _reset_suffix(state, stacks)
    words[BOTTOM] = words[FREE_ENTRY]
    words[ENTRIES] = words[FREE_ENTRY]
    words[SAVED] = words[FREE_TOTAL]
    words[WORK] += end - lo
    after = end
    while after > lo:
        first = after - 1
        while first > lo and time[first - 1] == time[first]:
            first -= 1
        kind = events.klass[first]
        if after == first + 1 and plain.offsets[kind] < plain.offsets[kind + 1]:
            for step in range(PLAIN * (plain.offsets[kind + 1] - 1), PLAIN * plain.offsets[kind] - 1, -PLAIN):
                source, target = plain.steps[step + SOURCE], plain.steps[step + TARGET]
                bad |= _add_line(state, stacks, target, source, first, state.zero)
        else:
            bad |= _sweep_group(state, stacks, events, machine, first, after)
        after = first
    if words[KEEPS_FRONTS] == 1:
        words[FREE_ENTRY] = words[ENTRIES]
        words[FREE_TOTAL] = words[SAVED]
    _reset_back(state, stacks)
    words[TO_SAVE] = 0
    return bad


@inner
def _sweep_group(state: StackState, stacks: Stacks, events: Events, machine: Machine, first: int, after: int) -> int:
    """Multiply the suffix product by the events of one time, backwards; negative where a 64-bit count overflowed."""
    code, suffix, table = machine.code, stacks.suffix, stacks.table
    width = step_width(suffix.layout)
    bad = np.int64(0)
    is_direct = after == first + 1 and code[code[events.klass[first]] + IS_DIRECT]
    if not is_direct:
        _settle_lines(state, stacks, machine, events, first, after)
    for e in range(after - 1, first - 1, -1):
        block = code[events.klass[e]]
        move = moves_at(code, block, width)
        for at in range(code[block + MOVES] - 1, -1, -1):
            source, target = code[move + 2 * at], code[move + 2 * at + 1]
            if target >= 0 and not is_direct:
                bad |= _add_line(state, stacks, target, source, first, state.zero)
            else:
                _prepare_line(state, stacks, source, source, first)
                clear_totals(suffix, table.line[source], table.size[source])
    for e in range(after - 1, first - 1, -1):
        block = code[events.klass[e]]
        steps = block + BLOCK if is_direct else steps_at(code, block, width)
        for at in range(code[block + (DIRECT if is_direct else STEPS)] - 1, -1, -1):
            step = steps + at * width
            if width > 2:
                load_weights(state.weights, suffix.layout, code, step, events, e, 1)
            bad |= _add_line(state, stacks, code[step + 1], code[step], first, state.weights)
    return bad


@inner
def _add_line(state: StackState, stacks: Stacks, target: int, source: int, event: int, weights: ChannelWeights) -> int:
    """Add the line of a step's target to that of its source; negative where a 64-bit count overflowed."""
    table = stacks.table
    _prepare_line(state, stacks, source, target, event)
    to = table.line[source] + table.first[target] - table.first[source]
    return propagate(stacks.suffix, table.line[target], to, table.size[target], 1, weights)


@inner
def _prepare_line(state: StackState, stacks: Stacks, node: int, target: int, event: int) -> None:
    """Prepare a line for a change to where it leads by way of `target`, at a group that begins with an event."""
    table, words = stacks.table, state.words
    if table.is_start[node]:
        at = table.line[node] + table.first[target] - table.first[node]
        _save_totals(words, stacks, event, at, table.size[target])
    note_line(state, node)


@inner
def note_line(state: StackState, node: int) -> None:
    """Note that a line of the suffix product is going to change."""
    if not state.is_line[node]:
        state.is_line[node] = True
        state.lines[state.words[CHANGED_LINES]] = node
        state.words[CHANGED_LINES] += 1


@inner
def _settle_lines(state: StackState, stacks: Stacks, machine: Machine, events: Events, first: int, after: int) -> None:
    """Make the lines of the fresh nodes that events of one time use those of their settled nodes."""
    code = machine.code
    width = step_width(stacks.suffix.layout)
    state.words[GROUP_STAMP] += 1
    for e in range(first, after):
        block = code[events.klass[e]]
        steps, move = steps_at(code, block, width), moves_at(code, block, width)
        for at in range(code[block + STEPS]):
            _settle_line(state, stacks, machine, code[steps + at * width])
            _settle_line(state, stacks, machine, code[steps + at * width + 1])
        for at in range(2 * code[block + MOVES]):
            _settle_line(state, stacks, machine, code[move + at])


@inner
def _settle_line(state: StackState, stacks: Stacks, machine: Machine, node: int) -> None:
    """Make the line of a fresh node that of its settled one, once in a group."""
    table, stamp = stacks.table, state.words[GROUP_STAMP]
    if node < 0 or table.own_place[node] >= 0 or state.stamps[node] == stamp:
        return
    state.stamps[node] = stamp
    settled = machine.fold[node]
    if table.size[node] > table.size[settled]:
        clear_totals(stacks.suffix, table.line[node], table.size[node])
    to = table.line[node] + table.first[settled] - table.first[node]
    copy_totals(stacks.suffix, table.line[settled], stacks.suffix, to, table.size[settled])
