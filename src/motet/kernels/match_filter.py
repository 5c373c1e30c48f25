"""Judges whole matches: conditions over all their events, policies, and absences that depend on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.expressions import FINE, Bytecode, EventScope, Stack, Values, evaluate, is_true
from motet.kernels.instances import MIN_TIME, Absences, Codes, Ints, upper_bound
from motet.kernels.jit import inner, inplace_kernel, kernel

# Policies.
SKIP_TILL_ANY = 0
SKIP_TILL_NEXT = 1
CONTIGUOUS = 2


class Matches(NamedTuple):
    """Matches, each a stretch of positions and events in time order, with its key."""

    begin: Ints
    position: Codes
    event: Ints
    key: Ints


class KeyedEvents(NamedTuple):
    """All events of every key in time order; `enter` and `leave` count those before and not after each."""

    offsets: Ints
    time: Ints
    enter: Ints
    leave: Ints
    klass: Codes


class CompiledConditions(NamedTuple):
    """Conditions that are code. Condition c reads single events of the slots from `single[c]` on, and pairs of
    neighbours of those from `paired[c]` on.
    """

    code: Bytecode
    single: Ints
    single_slot: Codes
    paired: Ints
    paired_slot: Codes


class Rules(NamedTuple):
    """What a query asks of a match. `slot[p]`: the slot of position p, -1 where no condition speaks of it.

    `match_conditions` are conditions on the match. Absence a has the conditions from `absent[a]` on; its event is in
    the last slot. Gap g lies between the positions where `gap[g, p]` is 1 and those where it is 2 and has absence
    `gap_absence[g]`. In loop `loop[p]` (-1: none to check), the step from p to q may be taken by the ways from
    `step_ways[p, q]` on, each a stretch of `forbidden`; or freely, where there are none.
    """

    slot: Codes
    match_conditions: Codes
    absent: Ints
    absent_condition: Codes
    gap: NDArray[np.int8]
    gap_absence: Codes
    loop: Codes
    step_ways: NDArray[np.int64]
    forbids: Ints
    forbidden: Codes
    policy: int
    moves: NDArray[np.int32]  # state, position -> state, or -1
    binds: NDArray[np.bool_]  # class, position
    pair_begin: NDArray[np.int64]  # position, position -> conditions on those two as neighbours
    pair_condition: Codes


class MatchScratch(NamedTuple):
    """Room for one match at a time: the events of each slot, and counters over their combinations."""

    scope: EventScope
    counter: Ints
    stack: Stack


def new_match_scratch(slots: int, longest: int) -> MatchScratch:
    """Room for matches of so many events."""
    scope = EventScope(
        np.full(slots, -1, np.int64),
        np.full(slots, -1, np.int64),
        np.zeros(slots + 1, np.int64),
        np.zeros(longest + 2, np.int64),
    )
    stack = Stack(np.zeros(64, np.int64), np.zeros(64, np.float64), np.zeros(64, np.bool_), np.zeros(1, np.int64))
    return MatchScratch(scope, np.zeros(slots, np.int64), stack)


@inplace_kernel
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
def bind_match(matches: Matches, m: int, slot: Codes, scope: EventScope) -> None:
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
def condition_holds(conditions: CompiledConditions, c: int, values: Values, work: MatchScratch) -> bool:
    """Whether a condition holds for each combination of its slots' events; so it does where one has none.

    O(combinations), ends with the first that fails.
    """
    scope, counter = work.scope, work.counter
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
        if not is_true(conditions.code, c, values, scope, work.stack):
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
def latest_absent_event(
    absence: int,
    key: int,
    since: int,
    until: int,
    rules: Rules,
    absences: Absences,
    conditions: CompiledConditions,
    values: Values,
    work: MatchScratch,
) -> int:
    """The latest event of an absence strictly between two times, the match's events considered; its time, or LONG_AGO.

    The match must be bound. O(log n) without conditions, else O(events of the absence in the gap).
    """
    begin = absences.offsets[absence, key]
    low = upper_bound(absences.time, begin, absences.offsets[absence, key + 1], since)
    at = upper_bound(absences.time, begin, absences.offsets[absence, key + 1], until - 1) - 1
    scope = work.scope
    last = scope.current.size
    while at >= low:
        # The absent event is the only one of the last slot.
        scope.events[scope.offsets[last - 1]] = absences.event[at]
        scope.offsets[last] = scope.offsets[last - 1] + 1
        all_hold = True
        for c in range(rules.absent[absence], rules.absent[absence + 1]):
            if not condition_holds(conditions, rules.absent_condition[c], values, work):
                all_hold = False
                break
        scope.offsets[last] = scope.offsets[last - 1]
        if all_hold:
            return absences.time[at]
        at -= 1
    return MIN_TIME


@kernel
def filter_matches(
    matches: Matches,
    rules: Rules,
    partition: KeyedEvents,
    absences: Absences,
    conditions: CompiledConditions,
    values: Values,
    work: MatchScratch,
) -> NDArray[np.bool_]:
    """Which matches satisfy the conditions, the policy, and the absences between their events."""
    kept = np.zeros(matches.key.size, np.bool_)
    for m in range(matches.key.size):
        bind_match(matches, m, rules.slot, work.scope)
        fine = True
        for at in range(rules.match_conditions.size):
            if not condition_holds(conditions, rules.match_conditions[at], values, work):
                fine = False
                break
        if work.stack.status[0] != FINE:
            break
        if fine and _gaps_are_empty(matches, m, rules, partition, absences, conditions, values, work):
            kept[m] = True
    if rules.policy != SKIP_TILL_ANY and work.stack.status[0] == FINE:
        for m in range(matches.key.size):
            if kept[m]:
                kept[m] = _obeys_policy(matches, m, rules, partition, conditions, values, work)
    return kept


@inner
def _gaps_are_empty(
    matches: Matches,
    m: int,
    rules: Rules,
    partition: KeyedEvents,
    absences: Absences,
    conditions: CompiledConditions,
    values: Values,
    work: MatchScratch,
) -> bool:
    time, key = partition.time, matches.key[m]
    for g in range(rules.gap.shape[0]):
        since, until = MIN_TIME, -MIN_TIME
        for at in range(matches.begin[m], matches.begin[m + 1]):
            side = rules.gap[g, matches.position[at]]
            if side == 1:
                since = max(since, time[matches.event[at]])
            elif side == 2:
                until = min(until, time[matches.event[at]])
        if (
            latest_absent_event(rules.gap_absence[g], key, since, until, rules, absences, conditions, values, work)
            != MIN_TIME
        ):
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
                if (
                    latest_absent_event(absence, key, since, until, rules, absences, conditions, values, work)
                    != MIN_TIME
                ):
                    clear = False
                    break
            if clear:
                free = True
                break
        if not free:
            return False
    return True


@inner
def _obeys_policy(
    matches: Matches,
    m: int,
    rules: Rules,
    partition: KeyedEvents,
    conditions: CompiledConditions,
    values: Values,
    work: MatchScratch,
) -> bool:
    """Whether a match passes over no event that its policy forbids to pass over."""
    begin, end = matches.begin[m], matches.begin[m + 1]
    if end - begin < 2:
        return True
    if rules.policy == CONTIGUOUS:
        first, last = matches.event[begin], matches.event[end - 1]
        return partition.leave[last] - partition.enter[first] == end - begin
    state = 0
    base = partition.offsets[matches.key[m]]
    scope = work.scope
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
                    if not condition_holds(conditions, rules.pair_condition[c], values, work):
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

    opening: Codes
    closing: Codes
    never: Codes


@kernel
def check_outer_absences(
    matches: Matches,
    which: Ints,
    closes: Ints,
    never_after: Ints,
    never_before: Ints,
    ends: OuterAbsences,
    rules: Rules,
    partition: KeyedEvents,
    absences: Absences,
    conditions: CompiledConditions,
    values: Values,
    work: MatchScratch,
) -> tuple[NDArray[np.bool_], Ints]:
    """For each match and window: whether nothing shows after it until the window closes nor anywhere in it, and the
    latest time at which something shows before it that must not (LONG_AGO for never).
    """
    clear = np.ones(which.size, np.bool_)
    since = np.full(which.size, MIN_TIME, np.int64)
    for at in range(which.size):
        m = which[at]
        bind_match(matches, m, rules.slot, work.scope)
        key = matches.key[m]
        first = partition.time[matches.event[matches.begin[m]]]
        last = partition.time[matches.event[matches.begin[m + 1] - 1]]
        for a in ends.closing:
            if latest_absent_event(a, key, last, closes[at], rules, absences, conditions, values, work) != MIN_TIME:
                clear[at] = False
        for a in ends.never:
            low, high = never_after[at], never_before[at]
            if (
                clear[at]
                and latest_absent_event(a, key, low, high, rules, absences, conditions, values, work) != MIN_TIME
            ):
                clear[at] = False
        if clear[at]:
            for a in ends.opening:
                seen = latest_absent_event(a, key, MIN_TIME, first, rules, absences, conditions, values, work)
                since[at] = max(since[at], seen)
    return clear, since


@kernel
def evaluate_matches(
    matches: Matches, slot: Codes, code: Bytecode, number: int, values: Values, work: MatchScratch
) -> tuple[Ints, NDArray[np.float64], NDArray[np.bool_]]:
    """The value of an expression over each match: as a whole number, as a floating one, and whether it is null."""
    count = matches.key.size
    ints = np.zeros(count, np.int64)
    floats = np.zeros(count, np.float64)
    null = np.zeros(count, np.bool_)
    scope, stack = work.scope, work.stack
    for m in range(count):
        bind_match(matches, m, slot, scope)
        for s in range(scope.current.size):
            one = scope.offsets[s + 1] - scope.offsets[s] == 1
            scope.current[s] = scope.events[scope.offsets[s]] if one else -1
        evaluate(code, number, values, scope, stack)
        ints[m], floats[m], null[m] = stack.ints[0], stack.floats[0], stack.null[0]
    return ints, floats, null
