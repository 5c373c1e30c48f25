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
from motet.reference.expressions import LARGEST, Occurrence, Scope, value_of
from motet.reference.positions import Written, most_bound


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
        """The events bound to some positions, in time order."""
        return tuple(event for position, event in self.steps if position in positions)


@dataclass
class Totals:
    """What a run counts beside its rows."""

    overflows: int = 0


def positions_of(query: Query, written: Written, name: str) -> frozenset[int]:
    positions = written.positions(name)
    if not positions:
        hint = did_you_mean(name, [event.name for event in written.events])
        raise QueryError([Diagnostic(f"unknown name {name!r} in RETURN", None, query.name, hint)])
    return positions


def aggregate_values(
    query: Query, written: Written, matches: Sequence[Match], counts: str, totals: Totals
) -> dict[str, Any]:
    """The values of RETURN over all matches of a group and window, by label."""
    return {
        item.label: bigint(aggregate_over(query, written, item, matches), item, counts, totals)
        for item in query.aggregates
    }


def aggregate_over(query: Query, written: Written, item: Aggregate, matches: Sequence[Match]) -> Any:
    """One aggregate over the events that each match binds to its variable, each as often as matches bind it."""
    if item.variable is None:
        return len(matches)
    positions = positions_of(query, written, item.variable)
    bound = Counter(event for match in matches for event in match.events(positions))
    if item.name is None:
        return sum(bound.values())
    bag: Counter[Any] = Counter()
    for event, times in bound.items():
        value = event.values.get(item.name)
        if value is not None:
            bag[value] += times
    return aggregate_bag(item.function, bag)


def bigint(value: Any, item: Aggregate, counts: str, totals: Totals) -> Any:
    """A COUNT as a BIGINT, null and counted where it overflows, or as a DOUBLE where asked; others as they are."""
    if item.function != "COUNT":
        return value
    if counts == "double":
        return float(value)
    if value <= LARGEST:
        return value
    totals.overflows += 1
    return None


def match_row(query: Query, written: Written, match: Match) -> dict[str, Any]:
    """One match as a row."""
    found: dict[str, Any] = {}
    for item in query.returns:
        match item:
            case AllVariables():
                for event in written.events:
                    found[event.name] = shown(written, match, named_positions(written, event.name))
            case Variable(name):
                found[item.label] = shown(written, match, positions_of(query, written, name))
            case Computed(expression):
                found[item.label] = computed(query, written, match, expression)
            case Aggregate() | GroupKey():
                pass
    return {
        "query": query.name,
        "start": match.first,
        "end": match.last,
        "group": dict(zip(query.group_by, match.key, strict=False)),
        "match": found,
    }


def named_positions(written: Written, name: str) -> frozenset[int]:
    """The positions of all written events that go by a name: `RETURN *` shows equal names as one variable."""
    numbers = {number for number, event in enumerate(written.events) if event.name == name}
    return frozenset(position for position, number in enumerate(written.position_events) if number in numbers)


def shown(written: Written, match: Match, positions: frozenset[int]) -> Any:
    """The events of a variable: a list where it may be bound more than once, else the event or None."""
    rows = [dict(event.row) for event in match.events(positions)]
    if most_bound(written.tree, positions) > 1:
        return rows
    return rows[0] if rows else None


def computed(query: Query, written: Written, match: Match, expression: Expression) -> Any:
    """An expression over a match; a variable bound more than once needs FIRST, LAST or an aggregate."""
    bound = {name: match.events(positions_of(query, written, name)) for name in variables(expression)}
    scope = Scope(bound, {name: events[0] for name, events in bound.items() if len(events) == 1})
    for name in single_reads(expression):
        if len(bound[name]) > 1:
            raise RunError(f"query {query.name}: RETURN reads {name}, bound more than once; say FIRST, LAST or AVG")
    return value_of(expression, scope)


def single_reads(expression: Expression) -> set[str]:
    """The variables that an expression reads as one event."""
    return {attribute.variable for attribute in attributes(expression) if attribute.at in (At.EACH, At.NEXT)}


def sort_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of one query in the order results are given: by time, then group; matches by start, end and content."""

    def order(row: Mapping[str, Any]) -> tuple[Any, ...]:
        if "match" in row:
            return (row["start"], row["end"], comparable(row["match"]))
        when = row.get("window_end", row.get("time", 0))
        return (when, comparable(list(row["group"].values())))

    return sorted(rows, key=order)


def comparable(value: Any) -> tuple[Any, ...]:
    """A key that orders values of any kinds: nulls first, then truth values, numbers, texts, times, lists, structs."""
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
            return (5, tuple(comparable(part) for part in value))
        case dict():
            return (6, tuple((name, comparable(part)) for name, part in sorted(value.items())))
        case _:
            return (7, str(value))
