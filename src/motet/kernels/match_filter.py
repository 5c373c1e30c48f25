"""Filter whole matches: conditions over all their events, policies, and absences that depend on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.arrays import MIN_TIME, Flags, Floats, Ints, SmallInts
from motet.kernels.expressions import FINE, Bytecode, EventScope, Stack, Values, evaluate, is_true, new_stack
from motet.kernels.instances import Absences, upper_bound
from motet.kernels.jit import inner, kernel

# Policies.
SKIP_TILL_ANY = 0
SKIP_TILL_NEXT = 1
CONTIGUOUS = 2


class Matches(NamedTuple):
    """Matches, each a stretch of positions and events in time order, with its key."""

    begin: Ints
    position: SmallInts
    event: Ints
    key: Ints


class KeyedEvents(NamedTuple):
    """All events of every key in time order; `enter` and `leave` count those before and not after each."""

    offsets: Ints
    time: Ints
    enter: Ints
    leave: Ints
    klass: SmallInts


class CompiledConditions(NamedTuple):
    """Conditions that are code. Condition c reads single events of the slots from `single[c]` on, and pairs of
    neighbours of those from `paired[c]` on.
    """

    code: Bytecode
    single: Ints
    single_slot: SmallInts
    paired: Ints
    paired_slot: SmallInts


class ReadingTables(NamedTuple):
    """How the events of a match may be read, in time order: see `motet.template.automaton.Readings`.

    An event at position p takes the crossings from `begin[p]` on. Crossing c begins with the latest event at a position
    of `scope[c]` (-1: it is open) and has the ways from `ways[c]` on, each a stretch of `forbidden`.
    """

    begin: Ints
    source: SmallInts
    target: SmallInts
    scope: SmallInts
    ways: Ints
    forbids: Ints
    forbidden: SmallInts
    settled: SmallInts
    accepting: Flags
    inside: Flags  # scope, position


class Rules(NamedTuple):
    """What a query asks of a match. `slot[p]`: the slot of position p, -1 where no condition speaks of it.

    `match_conditions` are conditions on the match. Absence a has the conditions from `absent[a]` on; its event is in
    the last slot. Gap g lies between the positions where `gap[g, p]` is 1 and those where it is 2 and has absence
    `gap_absence[g]`. In loop `loop[p]` (-1: none to check), the step from p to q may be taken by the ways from
    `step_ways[p, q]` on, each a stretch of `forbidden`; or freely, where there are none.
    """

    slot: SmallInts
    match_conditions: SmallInts
    absent: Ints
    absent_condition: SmallInts
    gap: NDArray[np.int8]
    gap_absence: SmallInts
    loop: SmallInts
    step_ways: Ints
    forbids: Ints
    forbidden: SmallInts
    policy: int
    moves: SmallInts  # state, position -> state, or -1
    binds: Flags  # class, position
    pair_begin: Ints  # position, position -> conditions on those two as neighbours
    pair_condition: SmallInts
    readings: ReadingTables  # none where gaps are tested elsewhere


class MatchScratch(NamedTuple):
    """Room for one match at a time: the events of each slot, counters over their combinations, and its readings."""

    scope: EventScope
    counter: Ints
    stack: Stack
    current: Flags
    following: Flags


def new_match_scratch(slots: int, longest: int, readings: int = 0) -> MatchScratch:
    """Create room for matches of so many events, with so many readings."""
    scope = EventScope(
        np.full(slots, -1, np.int64),
        np.full(slots, -1, np.int64),
        np.zeros(slots + 1, np.int64),
        np.zeros(longest + 2, np.int64),
    )
    current, following = np.zeros(readings, np.bool_), np.zeros(readings, np.bool_)
    return MatchScratch(scope, np.zeros(slots, np.int64), new_stack(), current, following)


class MatchContext(NamedTuple):
    """What it takes to test a match: the query's rules, the data they read, and scratch memory."""

    rules: Rules
    partition: KeyedEvents
    absences: Absences
    conditions: CompiledConditions
    values: Values
    work: MatchScratch


@kernel
def sort_steps(matches: Matches, time: Ints) -> None:
    """Bring the events of each match into the order of time, then position. O(n) where they are almost so."""
    position, event = matches.position, matches.event
    for m in range(matches.key.size):
        for at in range(matches.begin[m] + 1, matches.begin[m + 1]):
            p, e = position[at], event[at]
            to = at
            while to > matches.begin[m] and (
                time[event[to - 1]] > time[e] or (time[event[to - 1]] == time[e] and position[to - 1] > p)
            ):
                position[to], event[to] = position[to - 1], event[to - 1]
                to -= 1
            position[to], event[to] = p, e


@inner
def bind_match(matches: Matches, m: int, slot: SmallInts, scope: EventScope) -> None:
    """Put the events of a match into their slots, in time order; the slot of absent events stays empty."""
    slots = scope.current.size
    for s in range(slots + 1):
        scope.offsets[s] = 0
    for at in range(matches.begin[m], matches.begin[m + 1]):
        s = slot[matches.position[at]]
        if s >= 0:
            scope.offsets[s + 1] += 1
    for s in range(slots):
        scope.offsets[s + 1] += scope.offsets[s]
        scope.current[s] = scope.offsets[s]
    for at in range(matches.begin[m], matches.begin[m + 1]):
        s = slot[matches.position[at]]
        if s >= 0:
            scope.events[scope.current[s]] = matches.event[at]
            scope.current[s] += 1


@inner
def condition_holds(context: MatchContext, c: int) -> bool:
    """Return whether a condition holds for each combination of its slots' events; so it does where one has none.

    O(combinations), ends with the first that fails.
    """
    conditions, scope, counter = context.conditions, context.work.scope, context.work.counter
    single_from, single_to = conditions.single[c], conditions.single[c + 1]
    paired_from, paired_to = conditions.paired[c], conditions.paired[c + 1]
    for at in range(single_from, single_to):
        s = conditions.single_slot[at]
        counter[s] = scope.offsets[s]
        if scope.offsets[s] == scope.offsets[s + 1]:
            return True
    for at in range(paired_from, paired_to):
        s = conditions.paired_slot[at]
        counter[s] = scope.offsets[s]
        if scope.offsets[s + 1] - scope.offsets[s] < 2:
            return True
    while True:
        for at in range(single_from, single_to):
            s = conditions.single_slot[at]
            scope.current[s] = scope.events[counter[s]]
        for at in range(paired_from, paired_to):
            s = conditions.paired_slot[at]
            scope.current[s] = scope.events[counter[s]]
            scope.following[s] = scope.events[counter[s] + 1]
        if not is_true(conditions.code, c, context.values, scope, context.work.stack):
            return False
        moved = False
        for at in range(single_from, single_to):
            s = conditions.single_slot[at]
            counter[s] += 1
            if counter[s] < scope.offsets[s + 1]:
                moved = True
                break
            counter[s] = scope.offsets[s]
        if moved:
            continue
        for at in range(paired_from, paired_to):
            s = conditions.paired_slot[at]
            counter[s] += 1
            if counter[s] + 1 < scope.offsets[s + 1]:
                moved = True
                break
            counter[s] = scope.offsets[s]
        if not moved:
            return True


@inner
def latest_absent_event(context: MatchContext, absence: int, key: int, since: int, until: int) -> int:
    """Return the time of the latest event of an absence strictly between two times, the match's events considered, or
    MIN_TIME.

    The match must be bound. O(log n) without conditions, else O(events of the absence in the gap).
    """
    rules, absences = context.rules, context.absences
    begin = absences.offsets[absence, key]
    low = upper_bound(absences.time, begin, absences.offsets[absence, key + 1], since)
    at = upper_bound(absences.time, begin, absences.offsets[absence, key + 1], until - 1) - 1
    scope = context.work.scope
    last = scope.current.size
    while at >= low:
        # The absent event is the only one of the last slot.
        scope.events[scope.offsets[last - 1]] = absences.event[at]
        scope.offsets[last] = scope.offsets[last - 1] + 1
        all_hold = True
        for c in range(rules.absent[absence], rules.absent[absence + 1]):
            if not condition_holds(context, rules.absent_condition[c]):
                all_hold = False
                break
        scope.offsets[last] = scope.offsets[last - 1]
        if all_hold:
            return absences.time[at]
        at -= 1
    return MIN_TIME


def filter_matches(matches: Matches, context: MatchContext) -> Flags:
    """Return which matches satisfy the conditions, the policy, and the absences between their events.

    O(combinations of events) for each condition and match, and O(log n) for each absence without conditions.
    """
    kept = np.zeros(len(matches.key), np.bool_)
    _filter_matches(matches, context, kept)
    return kept


@kernel
def _filter_matches(matches: Matches, context: MatchContext, kept: Flags) -> None:
    """Mark the matches to keep; see `filter_matches`."""
    rules, work = context.rules, context.work
    for m in range(matches.key.size):
        bind_match(matches, m, rules.slot, work.scope)
        holds = True
        for at in range(rules.match_conditions.size):
            if not condition_holds(context, rules.match_conditions[at]):
                holds = False
                break
        if work.stack.status[0] != FINE:
            break
        if holds and _gaps_are_empty(matches, m, context) and _has_clear_reading(matches, m, context):
            kept[m] = True
    if rules.policy != SKIP_TILL_ANY and work.stack.status[0] == FINE:
        for m in range(matches.key.size):
            if kept[m]:
                kept[m] = _obeys_policy(matches, m, context)


@inner
def _gaps_are_empty(matches: Matches, m: int, context: MatchContext) -> bool:
    """Return whether nothing absent lies in the gaps of a bound match, nor between the steps of its loops."""
    rules, time, key = context.rules, context.partition.time, matches.key[m]
    for g in range(rules.gap.shape[0]):
        since, until = MIN_TIME, -MIN_TIME
        for at in range(matches.begin[m], matches.begin[m + 1]):
            side = rules.gap[g, matches.position[at]]
            if side == 1:
                since = max(since, time[matches.event[at]])
            elif side == 2:
                until = min(until, time[matches.event[at]])
        if latest_absent_event(context, rules.gap_absence[g], key, since, until) != MIN_TIME:
            return False
    if rules.step_ways.size == 0:
        return True
    for at in range(matches.begin[m], matches.begin[m + 1] - 1):
        p = matches.position[at]
        to = at + 1
        while to < matches.begin[m + 1] and rules.loop[matches.position[to]] != rules.loop[p]:
            to += 1
        if rules.loop[p] < 0 or to == matches.begin[m + 1]:
            continue
        since, until, q = time[matches.event[at]], time[matches.event[to]], matches.position[to]
        first, last = rules.step_ways[p, q, 0], rules.step_ways[p, q, 1]
        free = first == last
        for way in range(first, last):
            clear = True
            for f in range(rules.forbids[way], rules.forbids[way + 1]):
                absence = rules.forbidden[f]
                if latest_absent_event(context, absence, key, since, until) != MIN_TIME:
                    clear = False
                    break
            if clear:
                free = True
                break
        if not free:
            return False
    return True


@inner
def _has_clear_reading(matches: Matches, m: int, context: MatchContext) -> bool:
    """Return whether a bound match can be read so that nothing absent lies in any of its gaps.

    O(events * crossings), and for each of these what its gap takes.
    """
    tables, time = context.rules.readings, context.partition.time
    current, following = context.work.current, context.work.following
    if tables.settled.size == 0:
        return True
    begin = matches.begin[m]
    for state in range(current.size):
        current[state] = state == 0
    for at in range(begin, matches.begin[m + 1]):
        if at > begin and time[matches.event[at]] > time[matches.event[at - 1]]:
            for state in range(current.size):
                following[state] = False
            for state in range(current.size):
                if current[state]:
                    following[tables.settled[state]] = True
            for state in range(current.size):
                current[state] = following[state]
        for state in range(current.size):
            following[state] = False
        position = matches.position[at]
        for crossing in range(tables.begin[position], tables.begin[position + 1]):
            target = tables.target[crossing]
            if current[tables.source[crossing]] and not following[target]:
                following[target] = _is_open(matches, m, at, crossing, context)
        for state in range(current.size):
            current[state] = following[state]
    for state in range(current.size):
        if current[state] and tables.accepting[state]:
            return True
    return False


@inner
def _is_open(matches: Matches, m: int, at: int, crossing: int, context: MatchContext) -> bool:
    """Return whether nothing that one of its ways forbids lies in the gap that an event of a bound match ends."""
    tables, time = context.rules.readings, context.partition.time
    scope = tables.scope[crossing]
    if scope < 0:
        return True
    since = MIN_TIME
    for earlier in range(matches.begin[m], at):
        if tables.inside[scope, matches.position[earlier]]:
            since = max(since, time[matches.event[earlier]])
    until = time[matches.event[at]]
    for way in range(tables.ways[crossing], tables.ways[crossing + 1]):
        is_clear = True
        for f in range(tables.forbids[way], tables.forbids[way + 1]):
            if latest_absent_event(context, tables.forbidden[f], matches.key[m], since, until) != MIN_TIME:
                is_clear = False
                break
        if is_clear:
            return True
    return False


@inner
def _obeys_policy(matches: Matches, m: int, context: MatchContext) -> bool:
    """Return whether a match passes over no event that its policy forbids to pass over."""
    rules, partition, scope = context.rules, context.partition, context.work.scope
    begin, end = matches.begin[m], matches.begin[m + 1]
    if end - begin < 2:
        return True
    if rules.policy == CONTIGUOUS:
        first, last = matches.event[begin], matches.event[end - 1]
        return partition.leave[last] - partition.enter[first] == end - begin
    state = 0
    base = partition.offsets[matches.key[m]]
    for at in range(begin, end - 1):
        p = matches.position[at]
        state = rules.moves[state, p]
        e, f = matches.event[at], matches.event[at + 1]
        for passed in range(base + partition.leave[e], base + partition.enter[f]):
            for q in range(rules.moves.shape[1]):
                if rules.moves[state, q] < 0 or not rules.binds[partition.klass[passed], q]:
                    continue
                agrees = True
                for c in range(rules.pair_begin[p, q, 0], rules.pair_begin[p, q, 1]):
                    _bind_neighbours(scope, rules.slot[p], e, rules.slot[q], passed)
                    if not condition_holds(context, rules.pair_condition[c]):
                        agrees = False
                        break
                if agrees:
                    return False
    return True


@inner
def _bind_neighbours(scope: EventScope, one: int, e: int, other: int, f: int) -> None:
    """Put two events into their slots, which may be the same, or none (-1)."""
    at = 0
    for s in range(scope.current.size):
        scope.offsets[s] = at
        if s == one:
            scope.events[at] = e
            at += 1
        if s == other:
            scope.events[at] = f
            at += 1
    scope.offsets[scope.current.size] = at


class OuterAbsences(NamedTuple):
    """Absences that stand before and after all that a match binds, and anywhere in its window."""

    opening: SmallInts
    closing: SmallInts
    never: SmallInts


class MatchWindows(NamedTuple):
    """Each match in each window that holds it: its number, and the times of the window.

    `opens` is just before the window. An absence anywhere in it may not occur after `never_after` and before `closes`.
    `begins` is when a query must have started to have seen all that matters.
    """

    match: Ints
    opens: Ints
    closes: Ints
    never_after: Ints
    begins: Ints


def check_outer_absences(
    matches: Matches, windows: MatchWindows, absences: OuterAbsences, context: MatchContext
) -> tuple[Flags, Ints]:
    """Return for each match and window whether nothing shows after it until the window closes nor anywhere in it, and
    the latest time at which something shows before it that must not (MIN_TIME for never).

    O(log n) for each absence without conditions, else O(events of the absence).
    """
    clear = np.ones(len(windows.match), np.bool_)
    since = np.full(len(windows.match), MIN_TIME, np.int64)
    _check_outer_absences(matches, windows, absences, context, clear, since)
    return clear, since


@kernel
def _check_outer_absences(
    matches: Matches, windows: MatchWindows, absences: OuterAbsences, context: MatchContext, clear: Flags, since: Ints
) -> None:
    """Fill in what `check_outer_absences` returns."""
    time = context.partition.time
    for at in range(windows.match.size):
        m = windows.match[at]
        bind_match(matches, m, context.rules.slot, context.work.scope)
        key = matches.key[m]
        first = time[matches.event[matches.begin[m]]]
        last = time[matches.event[matches.begin[m + 1] - 1]]
        closes, low = windows.closes[at], windows.never_after[at]
        for a in range(absences.closing.size):
            clear[at] &= latest_absent_event(context, absences.closing[a], key, last, closes) == MIN_TIME
        for a in range(absences.never.size):
            if clear[at]:
                clear[at] = latest_absent_event(context, absences.never[a], key, low, closes) == MIN_TIME
        for a in range(absences.opening.size):
            if clear[at]:
                since[at] = max(since[at], latest_absent_event(context, absences.opening[a], key, MIN_TIME, first))


def evaluate_matches(
    matches: Matches, slot: SmallInts, code: Bytecode, number: int, values: Values, work: MatchScratch
) -> tuple[Ints, Floats, Flags]:
    """Return the value of an expression over each match: as an int, as a float, and whether it is null.

    `slot[p]` is the slot of position p; `number` that of the expression. O(instructions + events) a match.
    """
    count = len(matches.key)
    results = Results(np.zeros(count, np.int64), np.zeros(count, np.float64), np.zeros(count, np.bool_))
    _evaluate_matches(matches, slot, code, number, values, work, results)
    return results


class Results(NamedTuple):
    """Values of an expression."""

    ints: Ints
    floats: Floats
    null: Flags


@kernel
def _evaluate_matches(
    matches: Matches,
    slot: SmallInts,
    code: Bytecode,
    number: int,
    values: Values,
    work: MatchScratch,
    results: Results,
) -> None:
    """Fill in the values; see `evaluate_matches`."""
    scope, stack = work.scope, work.stack
    for m in range(matches.key.size):
        bind_match(matches, m, slot, scope)
        for s in range(scope.current.size):
            is_single = scope.offsets[s + 1] - scope.offsets[s] == 1
            scope.current[s] = scope.events[scope.offsets[s]] if is_single else -1
        evaluate(code, number, values, scope, stack)
        results.ints[m], results.floats[m], results.null[m] = stack.ints[0], stack.floats[0], stack.null[0]


@kernel
def select_events(matches: Matches, wanted: Flags, first: bool, event: Ints, none: Flags) -> None:
    """Write the event that each match binds to the wanted positions, the first of them or the last; and mark those
    that bind none. O(events).
    """
    for m in range(matches.key.size):
        begin, end = matches.begin[m], matches.begin[m + 1]
        event[m], none[m] = 0, True
        for step in range(end - begin):
            at = begin + step if first else end - 1 - step
            if wanted[matches.position[at]]:
                event[m], none[m] = matches.event[at], False
                break
