"""Relaxes a query: a chain of queries, each of which requires one thing more, up to the query itself.

The engine can run each of them. The matches of one are among those of the one before it. So where one has no match and
the one before has some, the requirement that it adds is the one that fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from motet.language.printer import expression_text, pattern_text, window_text
from motet.model.expression import Expression, conjuncts, is_local, variables
from motet.model.names import list_events, rename_variables
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq, absences, events, map_events
from motet.model.query import AllVariables, Policy, Query
from motet.model.shape import find_open_absences, is_nullable

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Position:
    """One event of a pattern: `variable` is its name in the relaxations, `label` the name as written."""

    variable: str
    label: str
    type: str
    conditions: tuple[tuple[str, Expression], ...]  # local ones, each with its text as written


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The query with some of its requirements left out; `words` is the last that is kept.

    `needs_context` says whether events before or after a match decide about it too.
    """

    kind: str  # order, window, condition, policy, not, neg
    words: str
    query: Query
    needs_context: bool = False


@dataclass(frozen=True, slots=True)
class RelaxedQuery:
    """A query as a chain of relaxations, the last of which is the query itself; `plain` has no NOT and NEG."""

    plain: Pattern
    positions: tuple[Position, ...]
    relaxations: tuple[Relaxation, ...]

    @property
    def order_only(self) -> Relaxation:
        """Return the weakest relaxation: the pattern without NOT and NEG, with local conditions, over all times."""
        return self.relaxations[0]


def relax_query(query: Query) -> RelaxedQuery:
    """Return the relaxations of a valid query.

    They add its requirements one by one: order, window, conditions between events, policy, then NOTs and NEGs.
    """
    numbered, labels = _number_events(query)
    plain = _drop_absences(query.pattern)
    bound = events(numbered.pattern)
    names = {event.name for event in bound}
    local = tuple(each for each in numbered.conditions if is_local(each) and variables(each) <= names)
    between = [each for each in numbered.conditions if not is_local(each) and variables(each) <= names]
    positions = tuple(
        Position(
            event.name,
            labels[event.name],
            event.type,
            tuple((_format_condition(each, labels), each) for each in local if event.name in variables(each)),
        )
        for event in bound
    )
    bare = replace(
        numbered, pattern=_drop_absences(numbered.pattern), conditions=local, window=None, policy=Policy.SKIP_TILL_ANY
    )
    relaxations = [Relaxation("order", f"in the order of {pattern_text(plain)}", bare)]
    relaxations += _require_conditions(numbered, bare, between, labels)
    relaxations += _require_absences(numbered, relaxations[-1].query, labels)
    return RelaxedQuery(plain, positions, tuple(relaxations))


def _format_condition(condition: Expression, labels: Mapping[str, str]) -> str:
    return expression_text(rename_variables(condition, labels))


def _require_conditions(
    numbered: Query, relaxed: Query, between: Sequence[Expression], labels: Mapping[str, str]
) -> Iterator[Relaxation]:
    """Yield a relaxed query with the window added, then each condition between events, then the policy."""
    if numbered.window is not None:
        relaxed = replace(relaxed, window=numbered.window)
        yield Relaxation("window", window_text(numbered.window), relaxed)
    for condition in between:
        relaxed = replace(relaxed, conditions=(*relaxed.conditions, condition))
        yield Relaxation("condition", _format_condition(condition, labels), relaxed)
    if numbered.policy is not Policy.SKIP_TILL_ANY:
        yield Relaxation("policy", str(numbered.policy), replace(relaxed, policy=numbered.policy))


def _require_absences(numbered: Query, relaxed: Query, labels: Mapping[str, str]) -> Iterator[Relaxation]:
    """Yield a relaxed query with each NOT added, then each NEG, with the conditions on it."""
    kept: set[str] = set()
    needs_context = False
    outside = {absence.event.name for absence in find_open_absences(numbered.pattern)}
    for absence in sorted(absences(numbered.pattern), key=lambda absence: isinstance(absence, Neg)):
        name = absence.event.name
        kept.add(name)
        own = [each for each in numbered.conditions if name in variables(each)]
        pattern = _drop_absences(numbered.pattern, kept)
        relaxed = replace(relaxed, pattern=pattern, conditions=(*relaxed.conditions, *own))
        reaches = isinstance(absence, Neg) or name in outside
        needs_context |= reaches
        words = _describe_absence(absence, labels, [_format_condition(each, labels) for each in own], reaches)
        yield Relaxation("neg" if isinstance(absence, Neg) else "not", words, relaxed, needs_context)


def iterate_prefixes(relaxed: RelaxedQuery) -> Iterator[tuple[str, Query]]:
    """Yield ever longer prefixes of a SEQ, each as text and as a query."""
    order_only, plain = relaxed.order_only.query, relaxed.plain
    if not isinstance(order_only.pattern, Seq) or not isinstance(plain, Seq):
        return
    for length in range(1, len(plain.parts)):
        part = Seq(order_only.pattern.parts[:length])
        if is_nullable(part):
            continue
        bound = {event.name for event in events(part)}
        conditions = tuple(each for each in order_only.conditions if variables(each) <= bound)
        text = pattern_text(Seq(plain.parts[:length]) if length > 1 else plain.parts[0])
        yield text, replace(order_only, pattern=part, conditions=conditions)


def has_events_for(pattern: Pattern, available: Mapping[str, Mask]) -> Mask:
    """Return where there are events for a pattern at all, order aside, given where each variable has one."""

    def met(part: Pattern) -> Mask:
        match part:
            case Event():
                return available[part.name]
            case Seq(parts) | And(parts):
                return reduce(np.logical_and, map(met, parts))
            case Or(parts):
                return reduce(np.logical_or, map(met, parts))
            case Repeat(inner, low) if low > 0:
                return met(inner)
        return np.ones_like(some)

    some: Mask = reduce(np.logical_or, (available[event.name] for event in events(pattern)))
    return met(pattern) & some


def _number_events(query: Query) -> tuple[Query, dict[str, str]]:
    """Return the query with a variable of its own for every event written in it, and what to show for each.

    So no two share a column of the matches, nor take the name of one that results have of their own.
    """
    all_events = list_events(query.pattern)
    names = [f"@{number}" for number in range(len(all_events))]
    # A condition uses a type as a name only where it is written once.
    called = {event.type: name for name, event in zip(names, all_events, strict=True)}
    called |= {
        event.variable: name for name, event in zip(names, all_events, strict=True) if event.variable is not None
    }
    numbers = iter(names)
    numbered = replace(
        query,
        pattern=map_events(query.pattern, lambda event: replace(event, variable=next(numbers))),
        conditions=tuple(rename_variables(each, called) for each in conjuncts(*query.conditions)),
        returns=(AllVariables(),),
        equivalence=query.partition,
        group_by=(),
    )
    return numbered, dict(zip(names, _make_distinct([event.name for event in all_events]), strict=True))


def _make_distinct(names: Sequence[str]) -> list[str]:
    """Return names made distinct: the second A is `A#2`."""
    seen = Counter[str]()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return found


def _drop_absences(pattern: Pattern, names: Collection[str] = ()) -> Pattern:
    """Return the pattern without its NOTs and NEGs, save those of these events."""
    match pattern:
        case Seq(parts) | And(parts) | Or(parts):
            left = (part for part in parts if not isinstance(part, Not | Neg) or part.event.name in names)
            return replace(pattern, parts=tuple(_drop_absences(part, names) for part in left))
        case Repeat(part):
            return replace(pattern, part=_drop_absences(part, names))
    return pattern


def _describe_absence(absence: Not | Neg, labels: Mapping[str, str], conditions: Sequence[str], reaches: bool) -> str:
    name = labels[absence.event.name]
    event = pattern_text(Event(absence.event.type, None if name.startswith(absence.event.type) else name))
    where = f" where {' AND '.join(conditions)}" if conditions else ""
    if isinstance(absence, Neg):
        return f"NEG({event}){where}: none anywhere in the window"
    return f"NOT {event}{where}: none in the gap{', which may reach to an end of the window' if reaches else ''}"
