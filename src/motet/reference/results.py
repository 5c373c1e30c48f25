"""Result rows: aggregates over the matches of a group and window, and the matches themselves."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motet.errors import Diagnostic, QueryError, RunError, did_you_mean
from motet.model.expression import At, Expression, attributes, variables
from motet.model.query import Aggregate, AllVariables, Computed, GroupKey, Query, Variable
from motet.reference.aggregates import aggregate_bag
from motet.reference.expressions import LARGEST, EvaluationScope, Occurrence, evaluate_expression
from motet.reference.positions import ExpandedPattern, max_bindings

LARGEST_SUM = 2**53  # from here on, doubles leave out whole numbers


@dataclass(frozen=True, slots=True)
class Match:
    """A match: its (position, event) pairs in time order, and the values of its partition's attributes."""

    steps: tuple[tuple[int, Occurrence], ...]
    key: tuple[Any, ...]

    @property
    def first(self) -> int:
        return self.steps[0][1].time

    @property
    def last(self) -> int:
        return self.steps[-1][1].time

    def events(self, positions: frozenset[int]) -> tuple[Occurrence, ...]:
        """Return the events bound to some positions, in time order."""
        return tuple(event for position, event in self.steps if position in positions)


@dataclass
class OracleTotals:
    """What a run counts beside its rows."""

    overflows: int = 0


def resolve_positions(query: Query, expanded: ExpandedPattern, name: str) -> frozenset[int]:
    """Return the positions that a name in RETURN stands for."""
    positions = expanded.positions(name)
    if not positions:
        hint = did_you_mean(name, [event.name for event in expanded.events])
        raise QueryError([Diagnostic(f"unknown name {name!r} in RETURN", None, query.name, hint)])
    return positions


def aggregate_values(
    query: Query, expanded: ExpandedPattern, matches: Sequence[Match], counts: str, totals: OracleTotals
) -> dict[str, Any]:
    """Return the values of RETURN over all matches of a group and window, by label."""
    return {
        item.label: finish_value(aggregate_over(query, expanded, item, matches), item, counts, totals)
        for item in query.aggregates
    }


def aggregate_over(query: Query, expanded: ExpandedPattern, item: Aggregate, matches: Sequence[Match]) -> Any:
    """Compute one aggregate over the events that each match binds to its variable, each as often as matches bind it."""
    if item.variable is None and item.distinct:
        place = query.partition.index(str(item.name))
        return len({match.key[place] for match in matches})
    if item.variable is None:
        return len(matches)
    positions = resolve_positions(query, expanded, item.variable)
    bound = Counter(event for match in matches for event in match.events(positions))
    if item.name is None:
        return sum(bound.values())
    if item.function == "COUNT" and not item.distinct:
        return sum(times for event, times in bound.items() if event.values.get(item.name) is not None)
    bag: Counter[Any] = Counter()
    for event, times in bound.items():
        value = event.values.get(item.name)
        if value is not None:
            bag[value] += times
    if item.function == "SUM" and bag and all(isinstance(value, int) for value in bag):
        return sum(value * times for value, times in bag.items())
    return len(bag) if item.distinct else aggregate_bag(item.function, bag)


def finish_value(value: Any, item: Aggregate, counts: str, totals: OracleTotals) -> Any:
    """Make a COUNT a BIGINT and a SUM of whole numbers an exact DOUBLE, null and counted where they are too large, or
    roughly a DOUBLE where asked; others stay as they are.
    """
    if item.function not in ("COUNT", "SUM") or not isinstance(value, int):
        return value
    if counts == "double":
        return float(value)
    if item.function == "COUNT" and value <= LARGEST:
        return value
    if item.function == "SUM" and abs(value) < LARGEST_SUM:
        return float(value)
    totals.overflows += 1
    return None


def match_row(query: Query, expanded: ExpandedPattern, match: Match) -> dict[str, Any]:
    """Make one match a row."""
    found: dict[str, Any] = {}
    for item in query.returns:
        match item:
            case AllVariables():
                for event in expanded.events:
                    found[event.name] = match_events(expanded, match, named_positions(expanded, event.name))
            case Variable(name):
                found[item.label] = match_events(expanded, match, resolve_positions(query, expanded, name))
            case Computed(expression):
                found[item.label] = compute_value(query, expanded, match, expression)
            case Aggregate() | GroupKey():
                pass
    return {
        "query": query.name,
        "start": match.first,
        "end": match.last,
        "group": dict(zip(query.group_by, match.key, strict=False)),
        "match": found,
    }


def named_positions(expanded: ExpandedPattern, name: str) -> frozenset[int]:
    """Return the positions of all written events that go by a name: `RETURN *` shows equal names as one variable."""
    numbers = {number for number, event in enumerate(expanded.events) if event.name == name}
    return frozenset(position for position, number in enumerate(expanded.position_events) if number in numbers)


def match_events(expanded: ExpandedPattern, match: Match, positions: frozenset[int]) -> Any:
    """Return the events of a variable: a list where it may be bound more than once, else the event or None."""
    rows = [dict(event.row) for event in match.events(positions)]
    if max_bindings(expanded.tree, positions) > 1:
        return rows
    return rows[0] if rows else None


def compute_value(query: Query, expanded: ExpandedPattern, match: Match, expression: Expression) -> Any:
    """Compute an expression over a match; a variable bound more than once needs FIRST, LAST or an aggregate."""
    bound = {name: match.events(resolve_positions(query, expanded, name)) for name in variables(expression)}
    scope = EvaluationScope(bound, {name: events[0] for name, events in bound.items() if len(events) == 1})
    for name in names_read_once(expression):
        if len(bound[name]) > 1:
            raise RunError(f"query {query.name}: RETURN reads {name}, bound more than once; say FIRST, LAST or AVG")
    return evaluate_expression(expression, scope)


def names_read_once(expression: Expression) -> set[str]:
    """Return the variables that an expression reads as one event."""
    return {attribute.variable for attribute in attributes(expression) if attribute.at in (At.EACH, At.NEXT)}


def sort_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort the rows of one query: by time, then group; matches by start, end and content."""

    def order(row: Mapping[str, Any]) -> tuple[Any, ...]:
        if "match" in row:
            return (row["start"], row["end"], sort_key(row["match"]))
        when = row.get("window_end", row.get("time", 0))
        return (when, sort_key(list(row["group"].values())))

    return sorted(rows, key=order)


def sort_key(value: Any) -> tuple[Any, ...]:
    """Return a key that orders any values: nulls first, then truth values, numbers, texts, times, lists, structs."""
    match value:
        case None:
            return (0,)
        case bool():
            return (1, value)
        case int() | float():
            return (0,) if value != value else (2, value)
        case str():
            return (3, value)
        case dt.datetime():
            return (4, value.isoformat())
        case list() | tuple():
            return (5, tuple(sort_key(part) for part in value))
        case dict():
            return (6, tuple((name, sort_key(part)) for name, part in sorted(value.items())))
        case _:
            return (7, str(value))
