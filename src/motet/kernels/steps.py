"""Apply the events of one time to a buffer of totals: shared by every strategy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.kernels.arrays import MIN_TIME, Flags, Ints, SmallInts
from motet.kernels.jit import inner
from motet.kernels.tables import (
    BLOCK,
    COMPLETIONS,
    DIRECT,
    MOVES,
    NEGS,
    STEPS,
    Events,
    Machine,
    Queries,
    completions_at,
    load_weights,
    moves_at,
    step_width,
    steps_at,
)
from motet.kernels.totals import (
    ChannelWeights,
    Totals,
    add_counts,
    begin_channels,
    clear_totals,
    propagate,
    propagate_count_words,
)


class ActiveNodes(NamedTuple):
    """Which nodes are in use. `fresh` lists the fresh nodes that are, their number last."""

    in_use: Flags
    is_start: Flags
    fresh: SmallInts


class Moment(NamedTuple):
    """The events of one time, or those of them that do not have to wait for others: `first` to `after`."""

    first: int
    after: int
    time: int


class Slots(NamedTuple):
    """The slots that an event reaches: lo to hi, both included. With `newest_only`, matches begin in slot hi alone."""

    lo: int
    hi: int
    newest_only: bool


def create_active_nodes(machine: Machine, is_start: Flags) -> ActiveNodes:
    """Create the record of the nodes in use, none so far."""
    nodes = len(machine.fold)
    return ActiveNodes(np.zeros(nodes, np.bool_), is_start, np.zeros(nodes + 1, np.int32))


@inner
def multiplicity_of(events: Events, e: int) -> int:
    """Return how many events an event stands for."""
    return abs(events.multiplicity[e]) if events.multiplicity.size > 0 else np.int64(1)


@inner
def next_moment(events: Events, e: int, end: int, until: int) -> Moment:
    """Return the moment of event e; where the events have ended, an empty one at time `until`."""
    if e >= end:
        return Moment(e, e, until)
    now = events.time[e]
    after = e + 1
    all_tied = events.multiplicity.size == 0
    while after < end and events.time[after] == now and (all_tied or events.multiplicity[after] < 0):
        after += 1
    return Moment(e, after, now)


@inner
def apply_event(
    totals: Totals, nodes: ActiveNodes, machine: Machine, events: Events, e: int, slots: Slots, weights: ChannelWeights
) -> int:
    """Apply the steps of a lone event, or of several alike that it stands for, straight into settled nodes.

    Returns a negative number where a 64-bit count overflowed. O(steps * slots * words).
    """
    code, n = machine.code, multiplicity_of(events, e)
    block = code[events.klass[e]]
    bad = np.int64(0)
    width = step_width(totals.layout)
    step = block + BLOCK
    for _ in range(code[block + DIRECT]):
        source, target = code[step], code[step + 1]
        if nodes.in_use[source]:
            nodes.in_use[target] = True
            first = slots.hi if slots.newest_only and nodes.is_start[source] else slots.lo
            a, b, count = source * totals.slots + first, target * totals.slots + first, slots.hi - first + 1
            if machine.counts_only[source] and width > 2 and not totals.layout.extended:
                bad |= propagate_count_words(totals, a, b, count, n)
                if not machine.counts_only[target]:
                    load_weights(weights, totals.layout, code, step, events, e, n)
                    bad |= begin_channels(totals, a, b, count, weights)
            else:
                load_weights(weights, totals.layout, code, step, events, e, n)
                bad |= propagate(totals, a, b, count, n, weights)
        step += width
    if code[block + MOVES] > 0:
        move = moves_at(code, block, width)
        for at in range(code[block + MOVES]):
            clear_totals(totals, code[move + 2 * at] * totals.slots + slots.lo, slots.hi - slots.lo + 1)
    return bad


@inner
def count_event(totals: Totals, nodes: ActiveNodes, machine: Machine, events: Events, e: int, slots: Slots) -> None:
    """Do what `apply_event` does where totals are counts with shadows and there are no moves: the path most events of
    most queries take.
    """
    code, n = machine.code, multiplicity_of(events, e)
    block = code[events.klass[e]]
    hi = slots.hi
    step = block + BLOCK
    if slots.lo == hi:  # a loop over one slot would cost several times what it does
        for _ in range(code[block + DIRECT]):
            source, target = code[step], code[step + 1]
            if nodes.in_use[source]:
                nodes.in_use[target] = True
                totals.ints[target * totals.slots + hi] += n * totals.ints[source * totals.slots + hi]
                totals.floats[target * totals.slots + hi] += n * totals.floats[source * totals.slots + hi]
            step += 2
        return
    for _ in range(code[block + DIRECT]):
        source, target = code[step], code[step + 1]
        if nodes.in_use[source]:
            nodes.in_use[target] = True
            first = hi if slots.newest_only and nodes.is_start[source] else slots.lo
            add_counts(totals, source * totals.slots + first, target * totals.slots + first, hi - first + 1, n)
        step += 2


@inner
def apply_simultaneous(
    totals: Totals,
    nodes: ActiveNodes,
    machine: Machine,
    events: Events,
    moment: Moment,
    slots: Slots,
    weights: ChannelWeights,
) -> int:
    """Apply the steps of all events of one time: totals go to fresh nodes.

    Returns a negative number where a 64-bit count overflowed. O(steps * slots * words).
    """
    code = machine.code
    bad = np.int64(0)
    width = step_width(totals.layout)
    for e in range(moment.first, moment.after):
        block = code[events.klass[e]]
        n = multiplicity_of(events, e)
        step = steps_at(code, block, width)
        for _ in range(code[block + STEPS]):
            source, target = code[step], code[step + 1]
            if nodes.in_use[source]:
                if width > 2:
                    load_weights(weights, totals.layout, code, step, events, e, n)
                activate(nodes, machine, target)
                first = slots.hi if slots.newest_only and nodes.is_start[source] else slots.lo
                a, b = source * totals.slots + first, target * totals.slots + first
                bad |= propagate(totals, a, b, slots.hi - first + 1, n, weights)
            step += width
    return bad


@inner
def apply_negations(
    totals: Totals,
    nodes: ActiveNodes,
    machine: Machine,
    events: Events,
    moment: Moment,
    slots: Slots,
    zero: ChannelWeights,
) -> int:
    """Move away the matches that the events of one time rule out, by a NOT. `zero` are weights of no event.

    Returns a negative number where a 64-bit count overflowed. O(moves * slots * words).
    """
    code = machine.code
    bad = np.int64(0)
    width = step_width(totals.layout)
    size = slots.hi - slots.lo + 1
    for e in range(moment.first, moment.after):
        block = code[events.klass[e]]
        if code[block + MOVES] == 0:
            continue
        move = moves_at(code, block, width)
        for at in range(code[block + MOVES]):
            source, target = code[move + 2 * at], code[move + 2 * at + 1]
            a = source * totals.slots + slots.lo
            if target >= 0:
                activate(nodes, machine, target)
                bad |= propagate(totals, a, target * totals.slots + slots.lo, size, 1, zero)
            else:
                clear_totals(totals, a, size)
    return bad


@inner
def activate(nodes: ActiveNodes, machine: Machine, node: int) -> None:
    """Note that a node is in use."""
    if not nodes.in_use[node]:
        nodes.in_use[node] = True
        if machine.fold[node] != node:
            nodes.fresh[nodes.fresh[-1]] = node
            nodes.fresh[-1] += 1


@inner
def commit_fresh_nodes(totals: Totals, nodes: ActiveNodes, machine: Machine, slots: Slots, zero: ChannelWeights) -> int:
    """Fold fresh nodes into settled ones, when all events of a time are applied; negative where a count overflowed."""
    bad = np.int64(0)
    size = slots.hi - slots.lo + 1
    for at in range(nodes.fresh[-1]):
        node = nodes.fresh[at]
        settled = machine.fold[node]
        nodes.in_use[settled] = True
        nodes.in_use[node] = False
        a = node * totals.slots + slots.lo
        bad |= propagate(totals, a, settled * totals.slots + slots.lo, size, 1, zero)
        clear_totals(totals, a, size)
    nodes.fresh[-1] = 0
    return bad


# Rows of the table of windows that have to report, a column to a query, and one more.
FIRST_DUE = 0
LAST_DUE = 1
NOTED = 2  # the pane in which this was last looked at
WAITING = 3  # a list of the queries with windows due, its length in the last column
DUE = 4


@inner
def clear_due_windows(due: Ints) -> None:
    """Empty the table of windows that have to report."""
    for query in range(due.shape[1]):
        due[FIRST_DUE, query] = 0
        due[LAST_DUE, query] = -1
        due[NOTED, query] = MIN_TIME
        due[WAITING, query] = 0


@inner
def mark_windows_due(
    due: Ints,
    nodes: ActiveNodes,
    machine: Machine,
    events: Events,
    queries: Queries,
    moment: Moment,
    width: int,
    pane: int,
) -> None:
    """Note, for each query that may just have been completed, which windows have to report; once in a pane is enough.

    O(queries that the events may complete).
    """
    code = machine.code
    for e in range(moment.first, moment.after):
        block = code[events.klass[e]]
        if code[block + COMPLETIONS] == 0:
            continue
        first = completions_at(code, block, width)
        for at in range(first, first + code[block + COMPLETIONS]):
            query = code[at]
            if due[NOTED, query] == pane:
                continue
            reached = False
            for node in range(queries.accept_offsets[query], queries.accept_offsets[query + 1]):
                reached |= nodes.in_use[queries.accept[node]]
            if not reached:
                continue
            due[NOTED, query] = pane
            within, slide = queries.within[query], queries.slide[query]
            if due[LAST_DUE, query] < due[FIRST_DUE, query]:
                due[FIRST_DUE, query] = (moment.time - within) // slide + 1 if slide > 0 else 0
                due[WAITING, due[WAITING, -1]] = query
                due[WAITING, -1] += 1
            due[LAST_DUE, query] = moment.time // slide if slide > 0 else 0


@inner
def record_negations(last_neg: Ints, machine: Machine, events: Events, moment: Moment, width: int) -> None:
    """Note when each NEG was last violated."""
    code = machine.code
    for e in range(moment.first, moment.after):
        block = code[events.klass[e]]
        if code[block + NEGS] > 0:
            first = completions_at(code, block, width) + code[block + COMPLETIONS]
            for at in range(first, first + code[block + NEGS]):
                last_neg[code[at]] = moment.time


@inner
def is_negated(queries: Queries, query: int, last_neg: Ints, since: int) -> bool:
    """Return whether a NEG of a query was violated at or after some time."""
    for at in range(queries.neg_offsets[query], queries.neg_offsets[query + 1]):
        if last_neg[queries.neg[at]] >= since:
            return True
    return False
