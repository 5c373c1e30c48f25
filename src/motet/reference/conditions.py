"""The conditions of a query, sorted by what they speak of, and whether a match satisfies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from motet.errors import Diagnostic, QueryError, did_you_mean
from motet.model.expression import At, Expression, attributes, conjuncts, has_aggregate, is_local, variables
from motet.model.pattern import Event
from motet.model.query import Query
from motet.reference.expressions import EvaluationScope, Occurrence, evaluate_expression
from motet.reference.positions import ExpandedPattern, are_neighbours, next_is_adjacent

# What a match binds: for each name, its events in time order.
Bindings = Mapping[str, Sequence[Occurrence]]


@dataclass(frozen=True, slots=True)
class OracleConditions:
    """The conjuncts of a WHERE clause; `adjacent` repeats those of `whole` that are adjacent."""

    local: tuple[tuple[tuple[str, Expression], ...], ...]  # position -> conditions on its event, by the name used
    whole: tuple[Expression, ...]  # conditions on a match
    absent: Mapping[Event, tuple[Expression, ...]]  # event under NOT or NEG -> what makes it one
    adjacent: tuple[Expression, ...]


def sort_conditions(query: Query, expanded: ExpandedPattern) -> OracleConditions:
    """Sort each conjunct where it belongs; names that the pattern does not have are an error."""
    missing_events = (*expanded.absent, *expanded.never)
    absent_names = {event.type: event for event in missing_events} | {event.name: event for event in missing_events}
    local: list[tuple[str, Expression]] = []
    absent: dict[Event, list[Expression]] = {}
    whole: list[Expression] = []
    for condition in conjuncts(*query.conditions):
        names = variables(condition)
        for name in sorted(names):
            if not expanded.positions(name) and name not in absent_names:
                known = [event.name for event in (*expanded.events, *missing_events)]
                raise QueryError([Diagnostic(f"unknown name {name!r}", None, query.name, did_you_mean(name, known))])
        missing = [absent_names[name] for name in names if not expanded.positions(name)]
        if len(set(missing)) > 1:
            message = "a condition may speak of one event under NOT or NEG only"
            raise QueryError([Diagnostic(message, None, query.name)])
        if missing:
            absent.setdefault(missing[0], []).append(condition)
        elif names and is_local(condition):
            local.append((next(iter(names)), condition))
        else:
            whole.append(condition)
    return OracleConditions(
        tuple(
            tuple((name, condition) for name, condition in local if position in expanded.positions(name))
            for position in range(len(expanded.position_events))
        ),
        tuple(whole),
        {event: tuple(found) for event, found in absent.items()},
        tuple(condition for condition in whole if is_adjacent(condition, expanded)),
    )


def is_adjacent(condition: Expression, expanded: ExpandedPattern) -> bool:
    """Return whether a condition only ever compares events that directly follow each other."""
    if has_aggregate(condition) or any(attribute.at in (At.FIRST, At.LAST) for attribute in attributes(condition)):
        return False
    positions = [expanded.positions(name) for name in sorted(variables(condition))]
    uses_next = any(attribute.at is At.NEXT for attribute in attributes(condition))
    match positions:
        case [only]:
            return uses_next and next_is_adjacent(expanded.tree, only)
        case [left, right]:
            return not uses_next and are_neighbours(expanded.tree, left, right)
        case _:
            return False


def holds_for(condition: Expression, name: str, event: Occurrence) -> bool:
    """Return whether a local condition holds for one event."""
    return evaluate_expression(condition, EvaluationScope({name: (event,)}, {name: event})) is True


def holds(condition: Expression, bindings: Bindings) -> bool:
    """Return whether a condition holds for each combination of its variables' events; true where one is unbound."""
    read = attributes(condition)
    with_next = sorted({attribute.variable for attribute in read if attribute.at is At.NEXT})
    single = sorted({attribute.variable for attribute in read if attribute.at is At.EACH} - set(with_next))
    scope = EvaluationScope(bindings)
    for pairs in product(*(list(pairwise(bindings[name])) for name in with_next)):
        current = {name: pair[0] for name, pair in zip(with_next, pairs, strict=True)}
        following = {name: pair[1] for name, pair in zip(with_next, pairs, strict=True)}
        for events in product(*(bindings[name] for name in single)):
            chosen = current | dict(zip(single, events, strict=True))
            if evaluate_expression(condition, replace(scope, current=chosen, following=following)) is not True:
                return False
    return True
