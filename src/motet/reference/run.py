"""Runs a workload over rows by plain enumeration."""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

from motet.errors import DataError, Diagnostic, QueryError
from motet.model.expression import Attribute, Expression, KleeneAggregate, Literal, variables, walk
from motet.model.kinds import infer_kind, infer_result_kinds
from motet.model.pattern import Event
from motet.model.query import AfterMatch, Computed, Policy, Query, Workload
from motet.model.window import CountWindow, TimeWindow, Window
from motet.reference import windows
from motet.reference.conditions import Bindings, OracleConditions, holds, holds_for, sort_conditions
from motet.reference.expressions import EvaluationScope, Occurrence, count_units, evaluate_expression, normalize_value
from motet.reference.matches import DEFAULT_LIMIT, Candidate, Fragment, Guard, find_matches
from motet.reference.positions import (
    ExpandedPattern,
    Tree,
    can_end_with_not,
    expand_pattern,
    has_open_not_in_and,
    list_steps,
)
from motet.reference.results import Match, OracleTotals, aggregate_values, match_row, sort_rows
from motet.reference.windows import Extent

EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class OracleResult:
    """The rows of a run, sorted, with times in microseconds; COUNTs nulled by overflow; rows without time or type."""

    rows: tuple[dict[str, Any], ...]
    overflows: int
    invalid_rows: int

    def of(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of one query."""
        return [row for row in self.rows if row["query"] == query]


def evaluate(
    workload: Workload,
    rows: Sequence[Mapping[str, Any]],
    *,
    time: str = "time",
    type: str = "type",
    tick: int | Fraction = 1,
    counts: str = "exact",
    limit: int = DEFAULT_LIMIT,
) -> OracleResult:
    """Evaluate a workload over rows in any order. A whole-number time is `tick` microseconds long."""
    if any(isinstance(row.get(time), int) for row in rows):
        workload = count_durations(workload, rows, time, tick)
    events, invalid_rows = read_events(workload, rows, time, type, tick)
    refuse_large_decimals(workload, events)
    totals = OracleTotals()
    found: list[dict[str, Any]] = []
    for query in workload.queries:
        found += sort_rows(evaluate_query(query, events, tick, counts, limit, totals))
    return OracleResult(tuple(found), totals.overflows, invalid_rows)


def count_durations(workload: Workload, rows: Sequence[Mapping[str, Any]], time: str, tick: int | Fraction) -> Workload:
    """Return a workload whose durations are numbers where they meet times, which are whole numbers."""
    values = {name: value for row in rows for name, value in read_values(row).items() if value is not None}
    kinds = {name: infer_kind(Literal(value)) or "other" for name, value in values.items()} | {time: "ticks"}

    def change(expression: Expression) -> Expression:
        return count_units(expression, tick, kinds)

    def change_query(query: Query) -> Query:
        returns = tuple(
            replace(item, expression=change(item.expression)) if isinstance(item, Computed) else item
            for item in query.returns
        )
        having = query.having and count_units(query.having, tick, infer_result_kinds(query, kinds))
        return replace(query, conditions=tuple(map(change, query.conditions)), returns=returns, having=having)

    definitions = tuple(replace(each, condition=change(each.condition)) for each in workload.definitions)
    return replace(workload, queries=tuple(map(change_query, workload.queries)), definitions=definitions)


def read_events(
    workload: Workload, rows: Sequence[Mapping[str, Any]], time: str, type: str, tick: int | Fraction
) -> tuple[list[Occurrence], int]:
    """Read the rows as events in time order, and how many rows have no time or no type."""
    defined = {definition.name for definition in workload.definitions}
    has_types = any(type in row for row in rows)
    events = []
    for index, row in enumerate(rows):
        values = read_values(row)
        if values.get(time) is None or (has_types and values.get(type) is None):
            continue
        event = Occurrence(index, microseconds(values[time], tick), row, values)
        types = {
            definition.name
            for definition in workload.definitions
            if evaluate_expression(definition.condition, EvaluationScope({"": (event,)}, {"": event})) is True
        }
        if has_types and type_name(values[type]) not in defined:
            types.add(type_name(values[type]))
        events.append(Occurrence(index, event.time, row, values, frozenset(types)))
    return sorted(events, key=lambda event: event.time), len(rows) - len(events)


def refuse_large_decimals(workload: Workload, events: Sequence[Occurrence]) -> None:
    """Raise an error if something is computed, compared or grouped by a decimal that a double does not hold."""
    expressions: list[Expression | None] = [definition.condition for definition in workload.definitions]
    names: set[str | None] = set()
    for query in workload.queries:
        computed = [item.expression for item in query.returns if isinstance(item, Computed)]
        expressions += [*query.conditions, *(each for each in computed if not isinstance(each, Attribute))]
        names |= {*query.partition, *(item.name for item in query.aggregates)}
    read = (node for expression in expressions if expression is not None for node in walk(expression))
    names |= {node.name for node in read if isinstance(node, Attribute | KleeneAggregate)}
    for event in events:
        if any(isinstance(event.values.get(name), Decimal) for name in names if name is not None):
            raise DataError("decimals beyond 2^53 are returned, but not computed with")


def read_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row by name; the fields of a struct are `column.field`, null where the struct is."""
    values = {name: normalize_value(value) for name, value in row.items()}
    for name, value in row.items():
        if isinstance(value, Mapping):
            for field, inner in read_values(value).items():
                values.setdefault(f"{name}.{field}", inner)
    return values


def type_name(value: Any) -> str:
    """Return the type of an event as a pattern writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def microseconds(value: Any, tick: int | Fraction) -> int:
    """Convert a time to whole microseconds since the epoch."""
    match value:
        case dt.datetime():
            return (value - EPOCH) // dt.timedelta(microseconds=1)
        case bool():
            raise DataError(f"{value!r} is no time")
        case int():
            return math.floor(value * tick)
        case _:
            raise DataError(f"{value!r} is no time: a time is a timestamp, a date or a whole number")


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query made ready: its positions, its sorted conditions, and its window in microseconds."""

    query: Query
    expanded: ExpandedPattern
    conditions: OracleConditions
    window: Window | None

    @property
    def needs_window_close(self) -> bool:
        """Whether a match is certain only when its window has ended: a NOT may stand last, or there is a NEG."""
        return can_end_with_not(self.expanded.tree) or bool(self.expanded.never)


def prepare(query: Query, tick: int | Fraction) -> PreparedQuery:
    """Prepare a query. Raises QueryError where its NOTs or NEGs stand where they cannot."""
    expanded = expand_pattern(query.pattern)
    if has_open_not_in_and(expanded.tree):
        message = "a NOT in a part of an AND needs a bound event on both sides"
        raise QueryError([Diagnostic(message, None, query.name)])
    return PreparedQuery(query, expanded, sort_conditions(query, expanded), windows.in_microseconds(query, tick))


def evaluate_query(
    query: Query, events: Sequence[Occurrence], tick: int | Fraction, counts: str, limit: int, totals: OracleTotals
) -> Iterable[dict[str, Any]]:
    """Evaluate one query; its rows come in any order."""
    prepared = prepare(query, tick)
    partitions = [OraclePartition(prepared, key, members) for key, members in split(events, query.partition).items()]
    found = [(partition, partition.count_matches(limit)) for partition in partitions]
    if not query.is_aggregate:
        counted = [match for _, matches in found for match, _, extents in matches if extents]
        return [match_row(query, prepared.expanded, match) for match in counted]
    values = partial(aggregate_values, query, prepared.expanded, counts=counts, totals=totals)
    rows = []
    for group, parts in group_partitions(query, found).items():
        head = {"query": query.name}
        tail = {"group": dict(zip(query.group_by, group, strict=True))}
        for when, matches in result_times(prepared, parts):
            row = {**head, **when, **tail, "values": values(matches=matches)}
            if satisfies_having(query, row):
                rows.append(row)
    return rows


def satisfies_having(query: Query, row: Mapping[str, Any]) -> bool:
    """Return whether the values of a result row satisfy the query's HAVING."""
    if query.having is None:
        return True
    values = {name: normalize_value(value) for name, value in {**row["group"], **row["values"]}.items()}
    result = Occurrence(0, 0, values, values)
    return evaluate_expression(query.having, EvaluationScope({"": (result,)}, {"": result})) is True


def split(events: Sequence[Occurrence], names: Sequence[str]) -> dict[tuple[Any, ...], list[Occurrence]]:
    """Split events by the values of some attributes; those with a null among them are left out."""
    partitions: defaultdict[tuple[Any, ...], list[Occurrence]] = defaultdict(list)
    for event in events:
        key = tuple(event.values.get(name) for name in names)
        if None not in key:
            partitions[key].append(event)
    return partitions


Ways = Sequence[Fragment]
Found = list[tuple[Match, Ways, list[Extent]]]


class OraclePartition:
    """The events on which all of a match must lie, in time order."""

    def __init__(self, prepared: PreparedQuery, key: tuple[Any, ...], events: list[Occurrence]) -> None:
        self.prepared = prepared
        self.key = key
        self.events = events
        self.times = [event.time for event in events]

    def count_matches(self, limit: int) -> Found:
        """Find the matches that may count, with the ways to read their NOTs and the windows in which they count when
        they complete: a match may come to count when what a leading NOT forbids has expired.
        """
        found = [(match, ways, self.extents(match, ways)) for match, ways in self.matches(limit)]
        if self.prepared.query.after_match is AfterMatch.ALL:
            return found
        found = [entry for entry in found if entry[2]]
        found.sort(key=lambda entry: matching_order(entry[0]))
        if not self.is_sliding:
            taken = self.take([match for match, _, _ in found])
            return [entry for entry in found if entry[0] in taken]
        ends = {extent.trailing_before for _, _, extents in found for extent in extents}
        windows = {
            end: self.take([match for match, _, extents in found if end in {e.trailing_before for e in extents}])
            for end in ends
        }
        kept = [
            (match, ways, [extent for extent in extents if match in windows[extent.trailing_before]])
            for match, ways, extents in found
        ]
        return [entry for entry in kept if entry[2]]

    @property
    def is_sliding(self) -> bool:
        return isinstance(self.prepared.window, TimeWindow) and self.prepared.window.slide is not None

    def take(self, ordered: Sequence[Match]) -> set[Match]:
        """Return the matches that AFTER MATCH SKIP takes, in order."""
        taken: list[Match] = []
        starts: set[int] = set()
        for match in ordered:
            if self.prepared.query.after_match is AfterMatch.PAST_LAST_EVENT:
                is_taken = not taken or match.first > taken[-1].last
            else:
                is_taken = match.steps[0][1].index not in starts
                starts.add(match.steps[0][1].index)
            taken += [match] if is_taken else []
        return set(taken)

    def matches(self, limit: int) -> list[tuple[Match, Ways]]:
        """Find every match that satisfies the conditions and the policy, with the ways to read its NOTs."""
        by_index = {event.index: event for event in self.events}
        found: list[tuple[Match, Ways]] = []
        for bound, ways in find_matches(self.prepared.expanded.tree, self.candidates, self.fits, limit).items():
            steps = sorted(((position, by_index[index]) for position, index in bound), key=lambda s: (s[1].time, s[0]))
            match = Match(tuple(steps), self.key)
            if self.accepts(match):
                found.append((match, ways))
        return found

    def fits(self, first: int, last: int) -> bool:
        return windows.fits_window(self.prepared.window, self.times, first, last)

    def may_bind(self, position: int, event: Occurrence) -> bool:
        """Return whether an event has a position's type and satisfies its local conditions."""
        if self.prepared.expanded.event(position).type not in event.types:
            return False
        return all(holds_for(condition, name, event) for name, condition in self.prepared.conditions.local[position])

    def candidates(self, position: int) -> list[Candidate]:
        return [(event.index, event.time) for event in self.events if self.may_bind(position, event)]

    def accepts(self, match: Match) -> bool:
        """Return whether a match satisfies the conditions that speak of more than one event, and the policy."""
        prepared = self.prepared
        if prepared.conditions.whole:
            bindings = collect_bindings(prepared.expanded, match)
            if not all(holds(condition, bindings) for condition in prepared.conditions.whole):
                return False
        match prepared.query.policy:
            case Policy.SKIP_TILL_ANY:
                return True
            case Policy.CONTIGUOUS:
                return self.is_contiguous(match)
            case Policy.SKIP_TILL_NEXT:
                return self.takes_earliest_steps(match)

    def events_in_gap(self, after: int, before: int) -> Sequence[Occurrence]:
        """Return the events strictly between two times."""
        return self.events[bisect_right(self.times, after) : bisect_left(self.times, before)]

    def is_contiguous(self, match: Match) -> bool:
        """Return whether every event from the first to the last step of a match is bound."""
        bound = {event.index for _, event in match.steps}
        between = self.events_in_gap(match.first - 1, match.last + 1)
        return len(match.steps) == 1 or all(event.index in bound for event in between)

    def takes_earliest_steps(self, match: Match) -> bool:
        """Return whether no event between two neighbouring steps could have continued the match there."""
        remaining: set[Tree] = {self.prepared.expanded.tree}
        for (position, event), (_, later) in pairwise(match.steps):
            remaining = {rest for tree in remaining for step, rest in list_steps(tree) if step == position}
            possible = {step for tree in remaining for step, _ in list_steps(tree)}
            for passed in self.events_in_gap(event.time, later.time):
                for step in possible:
                    if self.may_bind(step, passed) and self.satisfies_adjacent((position, event), (step, passed)):
                        return False
        return True

    def satisfies_adjacent(self, *steps: tuple[int, Occurrence]) -> bool:
        """Return whether the adjacent conditions on two neighbouring steps hold."""
        for condition in self.prepared.conditions.adjacent:
            bindings = {
                name: tuple(event for position, event in steps if position in self.prepared.expanded.positions(name))
                for name in variables(condition)
            }
            if all(bindings.values()) and not holds(condition, bindings):
                return False
        return True

    def extents(self, match: Match, ways: Ways) -> list[Extent]:
        """Return the windows in which a match counts: those that hold it and in which its NOTs and NEGs do hold."""
        needs_end = self.prepared.needs_window_close
        extents = windows.extents(self.prepared.window, self.times, match.first, match.last, needs_end)
        return [extent for extent in extents if self.is_clear(match, ways, extent)]

    def is_clear(self, match: Match, ways: Ways, extent: Extent) -> bool:
        """Return whether no absent event shows up, by one of the ways to read the match and for all NEGs."""
        expanded = self.prepared.expanded
        if any(
            self.has_event_in_gap(event, match, extent.never_after, extent.never_before) for event in expanded.never
        ):
            return False
        return any(
            not any(
                self.has_event_in_gap(expanded.absent[guard.absent], match, guard.after, guard.before)
                for guard in collect_guards(way, extent)
            )
            for way in ways
        )

    def has_event_in_gap(self, absent: Event, match: Match, after: int, before: int) -> bool:
        """Return whether an absent event occurs strictly between two times, its conditions considered."""
        conditions = self.prepared.conditions.absent.get(absent, ())
        bindings = collect_bindings(self.prepared.expanded, match) if conditions else {}
        return any(
            absent.type in event.types
            and all(
                holds(condition, {absent.name: (event,), absent.type: (event,), **bindings}) for condition in conditions
            )
            for event in self.events_in_gap(after, before)
        )

    def counts_at(self, match: Match, ways: Ways, now: int) -> bool:
        """Return whether a match counts in the continuous window that ends now; leading NOTs look back to its start."""
        if match.last > now or not self.is_alive(match, now):
            return False
        return any(self.is_clear(match, ways, extent) for extent in self.extents_at(match, now))

    def extents_at(self, match: Match, now: int) -> list[Extent]:
        extents = windows.extents(self.prepared.window, self.times, match.first, match.last)
        match self.prepared.window:
            case TimeWindow(size):
                return [replace(extent, leading_after=now - size) for extent in extents]
            case CountWindow(size):
                start = windows.last_window_start(self.times, now, size)
                return [replace(extent, leading_after=start - 1) for extent in extents]
            case None:
                return extents

    def is_alive(self, match: Match, now: int) -> bool:
        """Return whether a match that is complete has not expired from a continuous window."""
        match self.prepared.window:
            case TimeWindow(size):
                return now - match.first < size
            case CountWindow(size):
                return windows.events_between(self.times, match.first, now) <= size
            case None:
                return True


def collect_guards(way: Fragment, extent: Extent) -> Iterable[Guard]:
    """Yield the gaps that one reading of a match guards, those at its ends closed by the window."""
    yield from way.guards
    for absent in way.opening:
        yield Guard(absent, extent.leading_after, way.first)
    for absent in way.closing:
        yield Guard(absent, way.last, extent.trailing_before)


def collect_bindings(expanded: ExpandedPattern, match: Match) -> Bindings:
    """Collect the events of every name a condition may use."""
    names = {name for event in expanded.events for name in (event.name, event.type)}
    return {name: match.events(expanded.positions(name)) for name in names}


def group_partitions(
    query: Query, found: Iterable[tuple[OraclePartition, Found]]
) -> dict[tuple[Any, ...], list[tuple[OraclePartition, Found]]]:
    """Group partitions: GROUP BY attributes come first in a partition's key."""
    groups: defaultdict[tuple[Any, ...], list[tuple[OraclePartition, Found]]] = defaultdict(list)
    for partition, matches in found:
        groups[partition.key[: len(query.group_by)]].append((partition, matches))
    return groups


def result_times(
    prepared: PreparedQuery, parts: Sequence[tuple[OraclePartition, Found]]
) -> Iterable[tuple[dict[str, int], list[Match]]]:
    """Return the times or windows at which a group has a result, each with the matches it is over."""
    counted = [
        (partition, match, extent)
        for partition, matches in parts
        for match, _, extents in matches
        for extent in extents
    ]
    match prepared.window:
        case None:
            return [({}, [match for _, match, _ in counted])] if counted else []
        case TimeWindow(size, slide) if slide is not None:
            ended = collect_by_time(counted, lambda match, extent: extent.ends)
            return [({"window_start": end - size, "window_end": end}, matches) for end, matches in ended.items()]
        case TimeWindow() | CountWindow() if prepared.needs_window_close:
            ended = collect_by_time(counted, lambda match, extent: extent.ends)
            return [({"time": end}, matches) for end, matches in ended.items()]
        case _:
            return [
                (
                    {"time": now},
                    [m for part, matches in parts for m, ways, _ in matches if part.counts_at(m, ways, now)],
                )
                for now in sorted({match.last for _, match, _ in counted})
            ]


def matching_order(match: Match) -> tuple[Any, ...]:
    """Return what AFTER MATCH SKIP orders matches by: last time, first time, times by position from left to right."""
    times: dict[int, list[int]] = defaultdict(list)
    for position, event in match.steps:
        times[position].append(event.time)
    return match.last, match.first, [times[position] for position in range(max(times) + 1)]


def collect_by_time(
    counted: Iterable[tuple[OraclePartition, Match, Extent]], when: Callable[[Match, Extent], int]
) -> dict[int, list[Match]]:
    """Collect matches by the time at which they are reported."""
    times: defaultdict[int, list[Match]] = defaultdict(list)
    for _, match, extent in counted:
        times[when(match, extent)].append(match)
    return times
