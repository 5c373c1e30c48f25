"""A query as a ladder: each rung asks one thing more than the one below, and the last is the query itself.

Every rung is a query of its own that the engine can run. Its matches are among those of the rung below, so where
one has none and the one below has some, what it adds is what the matches fail by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

import numpy as np
from numpy.typing import NDArray

from motet.language.printer import expression_text, pattern_text, window_text
from motet.model.expression import At, Attribute, Expression, KleeneAggregate, conjuncts, variables, walk
from motet.model.names import renamed, written
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq, absences, events
from motet.model.query import AllVariables, Policy, Query
from motet.model.shape import nullable, open_absences

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Position:
    """One event written in a pattern: `variable` is what the rungs call it, `shown` what its author does."""

    variable: str
    shown: str
    type: str
    conditions: tuple[tuple[str, Expression], ...]  # local ones, each with its text as written


@dataclass(frozen=True, slots=True)
class Rung:
    """A query that asks one thing more. `open` says whether events before or after a match have a say in it."""

    kind: str  # order, window, condition, policy, not, neg
    words: str
    query: Query
    open: bool = False


@dataclass(frozen=True, slots=True)
class Ladder:
    """What a query demands, in the order in which it is taken up; `plain` is its pattern without NOT and NEG."""

    plain: Pattern
    positions: tuple[Position, ...]
    rungs: tuple[Rung, ...]

    @property
    def order(self) -> Rung:
        """The lowest rung: the pattern without NOT and NEG, with local conditions, over all times."""
        return self.rungs[0]


def ladder(query: Query) -> Ladder:
    """The demands of a valid query: order, window, conditions between events, policy, then NOTs and NEGs."""
    numbered, shown = _numbered(query)
    plain = _keeping(query.pattern, frozenset())
    absent = {absence.event.name for absence in absences(numbered.pattern)}
    local = [each for each in numbered.conditions if is_local(each) and not variables(each) & absent]
    between = [each for each in numbered.conditions if not is_local(each) and not variables(each) & absent]

    def text(condition: Expression) -> str:
        return expression_text(renamed(condition, shown))

    positions = tuple(
        Position(
            event.name,
            shown[event.name],
            event.type,
            tuple((text(each), each) for each in local if event.name in variables(each)),
        )
        for event in events(numbered.pattern)
    )
    bare = replace(
        numbered,
        pattern=_keeping(numbered.pattern, frozenset()),
        conditions=tuple(local),
        window=None,
        policy=Policy.SKIP_TILL_ANY,
    )
    rungs = [Rung("order", f"in the order of {pattern_text(plain)}", bare)]

    def ask(kind: str, words: str, asked: Query, open: bool = False) -> None:
        rungs.append(Rung(kind, words, asked, open))

    if query.window is not None:
        ask("window", window_text(query.window), replace(bare, window=query.window))
    for condition in between:
        below = rungs[-1].query
        ask("condition", text(condition), replace(below, conditions=(*below.conditions, condition)))
    if query.policy is not Policy.SKIP_TILL_ANY:
        ask("policy", str(query.policy), replace(rungs[-1].query, policy=query.policy))
    kept: set[str] = set()
    outside = {absence.event.name for absence in open_absences(numbered.pattern)}
    for absence in sorted(absences(numbered.pattern), key=lambda absence: isinstance(absence, Neg)):
        name = absence.event.name
        kept.add(name)
        below = rungs[-1].query
        own = [each for each in numbered.conditions if name in variables(each)]
        asked = replace(
            below, pattern=_keeping(numbered.pattern, frozenset(kept)), conditions=(*below.conditions, *own)
        )
        reaches = isinstance(absence, Neg) or name in outside
        words = _absence_words(absence, shown, [text(each) for each in own], reaches)
        ask("neg" if isinstance(absence, Neg) else "not", words, asked, reaches or rungs[-1].open)
    return Ladder(plain, positions, tuple(rungs))


def beginnings(steps: Ladder) -> Iterator[tuple[str, Query]]:
    """The longer and longer beginnings of a SEQ, each as text and as a query."""
    order, plain = steps.order.query, steps.plain
    if not isinstance(order.pattern, Seq) or not isinstance(plain, Seq):
        return
    for length in range(1, len(plain.parts)):
        part = Seq(order.pattern.parts[:length])
        if nullable(part):
            continue
        bound = {event.name for event in events(part)}
        conditions = tuple(each for each in order.conditions if variables(each) <= bound)
        text = pattern_text(Seq(plain.parts[:length]) if length > 1 else plain.parts[0])
        yield text, replace(order, pattern=part, conditions=conditions)


def needs_met(pattern: Pattern, available: Mapping[str, Mask]) -> Mask:
    """Whether there are events for a pattern at all, order aside, given whether each variable has one to take; for as
    many cases at once as the masks are long.
    """

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


def is_local(condition: Expression) -> bool:
    """Whether a condition reads single events of one variable."""
    return len(variables(condition)) == 1 and not any(
        isinstance(node, KleeneAggregate) or (isinstance(node, Attribute) and node.at is not At.EACH)
        for node in walk(condition)
    )


def _numbered(query: Query) -> tuple[Query, dict[str, str]]:
    """The query with a variable of its own for every event written in it, and what to show for each.

    So no two share a column of the matches, nor take the name of one that results have of their own.
    """
    all_events = written(query.pattern)
    names = [f"@{number}" for number in range(len(all_events))]
    called = {}
    for name, event in zip(names, all_events, strict=True):
        called[event.type] = name  # a condition uses it only where the type is written once
    for name, event in zip(names, all_events, strict=True):
        if event.variable is not None:
            called[event.variable] = name
    numbers = iter(names)

    def number(pattern: Pattern) -> Pattern:
        match pattern:
            case Event():
                return replace(pattern, variable=next(numbers))
            case Seq(parts) | And(parts) | Or(parts):
                return replace(pattern, parts=tuple(map(number, parts)))
            case Repeat(part):
                return replace(pattern, part=number(part))
            case Not(event) | Neg(event):
                return replace(pattern, event=replace(event, variable=next(numbers)))

    conditions = tuple(renamed(each, called) for each in conjuncts(*query.conditions))
    partition = query.partition
    numbered = replace(
        query,
        pattern=number(query.pattern),
        conditions=conditions,
        returns=(AllVariables(),),
        equivalence=partition,
        group_by=(),
    )
    return numbered, dict(zip(names, _distinct([event.name for event in all_events]), strict=True))


def _distinct(names: Sequence[str]) -> list[str]:
    """Names told apart where events share one: the second A is `A#2`."""
    seen = {name: count(1) for name in names}
    found = []
    for name in names:
        at = next(seen[name])
        found.append(name if at == 1 else f"{name}#{at}")
    return found


def _keeping(pattern: Pattern, names: frozenset[str]) -> Pattern:
    """The pattern without its NOTs and NEGs, save those of these events."""
    match pattern:
        case Seq(parts) | And(parts):
            left = (part for part in parts if not isinstance(part, Not | Neg) or part.event.name in names)
            return replace(pattern, parts=tuple(_keeping(part, names) for part in left))
        case Or(parts):
            return replace(pattern, parts=tuple(_keeping(part, names) for part in parts))
        case Repeat(part):
            return replace(pattern, part=_keeping(part, names))
    return pattern


def _absence_words(absence: Not | Neg, shown: dict[str, str], conditions: Sequence[str], reaches: bool) -> str:
    name = shown[absence.event.name]
    event = pattern_text(Event(absence.event.type, None if name.startswith(absence.event.type) else name))
    where = f" where {' AND '.join(conditions)}" if conditions else ""
    if isinstance(absence, Neg):
        return f"NEG({event}){where}: none anywhere in the window"
    return f"NOT {event}{where}: none in the gap{', which may reach to an end of the window' if reaches else ''}"
