"""What the names in a query stand for: a variable, or a type that serves as one where it is written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from motet.model.expression import Attribute, Expression, KleeneAggregate, map_operands
from motet.model.pattern import Event, Pattern, walk_pattern
from motet.model.query import Computed, Query, ReturnItem, Variable


def list_events(pattern: Pattern) -> list[Event]:
    """List every event of a pattern in the order written, those under NOT and NEG included."""
    return [part for part in walk_pattern(pattern) if isinstance(part, Event)]


def find_events(pattern: Pattern, name: str) -> list[Event]:
    """Find the events that a name stands for: the one with that variable, else all of that type.

    A condition may use a name only where this is one event; an aggregate of RETURN speaks of all of them.
    """
    all_events = list_events(pattern)
    with_variable = [event for event in all_events if event.variable == name]
    return with_variable or [event for event in all_events if event.type == name]


def resolve_variables(query: Query) -> Query:
    """Return the query with each event called by its variable, where conditions and RETURN call it by its type.

    Columns of the result keep the names they were asked for by.
    """
    names = {}
    for event in list_events(query.pattern):
        is_alone = event.variable is not None and len(find_events(query.pattern, event.variable)) == 1
        if event.variable is not None and is_alone and find_events(query.pattern, event.type) == [event]:
            names[event.type] = event.variable
    if not names:
        return query
    conditions = tuple(rename_variables(condition, names) for condition in query.conditions)
    return replace(query, conditions=conditions, returns=tuple(_rename_item(item, names) for item in query.returns))


def _rename_item(item: ReturnItem, names: Mapping[str, str]) -> ReturnItem:
    match item:
        case Variable(name, alias) if name in names:
            return replace(item, name=names[name], alias=alias or name)
        case Computed(expression):
            return replace(item, expression=rename_variables(expression, names))
    return item


def rename_variables(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Return an expression whose variables are called by their new names."""
    return rewrite_leaves(expression, lambda leaf: replace(leaf, variable=names.get(leaf.variable, leaf.variable)))


def rewrite_leaves(expression: Expression, change: Callable[[Attribute | KleeneAggregate], Expression]) -> Expression:
    """Return an expression with everything that it reads of events changed."""
    if isinstance(expression, Attribute | KleeneAggregate):
        return change(expression)
    return map_operands(expression, lambda operand: rewrite_leaves(operand, change))
