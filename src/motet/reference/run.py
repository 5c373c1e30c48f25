"""Runs a workload over rows by plain enumeration."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from motet.errors import DataError, Diagnostic, QueryError
from motet.model.pattern import Event
from motet.model.query import Query, Workload
from motet.model.window import CountWindow, TimeWindow, Window
from motet.reference import windows
from motet.reference.conditions import Bindings, Conditions, holds, holds_for, sort_conditions
from motet.reference.expressions import Occurrence, Scope, plain, value_of
from motet.reference.matches import DEFAULT_LIMIT, Candidate, Fragment, Guard, readings
from motet.reference.policies import Path, between, keeps
from motet.reference.positions import Written, may_begin_with_not, may_end_with_not, open_in_together, write_out
from motet.reference.results import Match, Totals, aggregate_values, match_row, sort_rows
from motet.reference.windows import Extent

EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a run, sorted, with times in microseconds; COUNTs nulled by overflow; rows without time or type."""

    rows: tuple[dict[str, Any], ...]
    overflows: int
    set_aside: int

    def of(self, query: str) -> list[dict[str, Any]]:
        """The rows of one query."""
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
) -> Result:
    """What a workload gives over rows in any order. A whole-number time is `tick` microseconds long."""
    events, set_aside = read_events(workload, rows, time, type, tick)
    totals = Totals()
    found: list[dict[str, Any]] = []
    for query in workload.queries:
        found += sort_rows(evaluate_query(query, events, tick, counts, limit, totals))
    return Result(tuple(found), totals.overflows, set_aside)


def read_events(
    workload: Workload, rows: Sequence[Mapping[str, Any]], time: str, type: str, tick: int | Fraction
) -> tuple[list[Occurrence], int]:
    """The events of the rows in time order, and how many rows have no time or no type."""
    defined = {definition.name for definition in workload.definitions}
    events = []
    for index, row in enumerate(rows):
        values = {name: plain(value) for name, value in row.items()}
        if values.get(time) is None or values.get(type) is None:
            continue
        event = Occurrence(index, microseconds(values[time], tick), row, values)
        types = {
            definition.name
            for definition in workload.definitions
            if value_of(definition.condition, Scope({"": (event,)}, {"": event})) is True
        }
        if values[type] not in defined:
            types.add(values[type])
        events.append(Occurrence(index, event.time, row, values, frozenset(types)))
    return sorted(events, key=lambda event: event.time), len(rows) - len(events)


def microseconds(value: Any, tick: int | Fraction) -> int:
    """A time as whole microseconds since the epoch."""
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
class Plan:
    """A query made ready: its positions, its sorted conditions, and its window in microseconds."""

    query: Query
    written: Written
    conditions: Conditions
    window: Window | None

    @property
    def is_certain_at_end(self) -> bool:
        """Whether a match can be told only when its window has ended: a NOT may stand last, or there is a NEG."""
        return may_end_with_not(self.written.tree) or bool(self.written.never)


def prepare(query: Query, tick: int | Fraction) -> Plan:
    """A query made ready, or what is wrong with its NOTs and NEGs."""
    written = write_out(query.pattern)
    if open_in_together(written.tree):
        message = "a NOT in a part of an AND needs a bound event on both sides"
        raise QueryError([Diagnostic(message, None, query.name)])
    is_open = may_begin_with_not(written.tree) or may_end_with_not(written.tree)
    if isinstance(query.window, CountWindow) and (is_open or written.never):
        message = "a NOT at either end of a pattern, or a NEG, needs a time window"
        raise QueryError([Diagnostic(message, None, query.name)])
    return Plan(query, written, sort_conditions(query, written), windows.in_microseconds(query, tick))


def evaluate_query(
    query: Query, events: Sequence[Occurrence], tick: int | Fraction, counts: str, limit: int, totals: Totals
) -> Iterable[dict[str, Any]]:
    """The rows of one query, in any order."""
    plan = prepare(query, tick)
    partitions = [Partition(plan, key, members) for key, members in split(events, query.partition).items()]
    found = [(partition, partition.matches(limit)) for partition in partitions]
    if not query.is_aggregate:
        return [
            match_row(query, plan.written, match)
            for partition, matches in found
            for match, ways in matches
            if partition.extents(match, ways)
        ]
    values = partial(aggregate_values, query, plan.written, counts=counts, totals=totals)
    rows = []
    for group, parts in by_group(query, found).items():
        head = {"query": query.name}
        tail = {"group": dict(zip(query.group_by, group, strict=True))}
        for when, matches in result_times(plan, parts):
            rows.append({**head, **when, **tail, "values": values(matches=matches)})
    return rows


def split(events: Sequence[Occurrence], names: Sequence[str]) -> dict[tuple[Any, ...], list[Occurrence]]:
    """Events by the values of some attributes; those with a null among them take no part."""
    partitions: defaultdict[tuple[Any, ...], list[Occurrence]] = defaultdict(list)
    for event in events:
        key = tuple(event.values.get(name) for name in names)
        if None not in key:
            partitions[key].append(event)
    return partitions


Ways = Sequence[Fragment]
Found = list[tuple[Match, Ways]]


class Partition:
    """The events on which all of a match must lie, in time order."""

    def __init__(self, plan: Plan, key: tuple[Any, ...], events: list[Occurrence]) -> None:
        self.plan = plan
        self.key = key
        self.events = events
        self.times = [event.time for event in events]

    def matches(self, limit: int) -> Found:
        """Every match that satisfies the conditions and the policy, with the ways to read its NOTs."""
        by_index = {event.index: event for event in self.events}
        found: Found = []
        for bound, ways in readings(self.plan.written.tree, self.candidates, self.fits, limit).items():
            steps = sorted(((position, by_index[index]) for position, index in bound), key=lambda s: (s[1].time, s[0]))
            match = Match(tuple(steps), self.key)
            if self.accepts(match):
                found.append((match, ways))
        return found

    def fits(self, first: int, last: int) -> bool:
        return windows.fits(self.plan.window, self.times, first, last)

    def may_bind(self, position: int, event: Occurrence) -> bool:
        """Whether an event has a position's type and satisfies its local conditions."""
        if self.plan.written.event(position).type not in event.types:
            return False
        return all(holds_for(condition, name, event) for name, condition in self.plan.conditions.local[position])

    def candidates(self, position: int) -> list[Candidate]:
        return [(event.index, event.time) for event in self.events if self.may_bind(position, event)]

    def accepts(self, match: Match) -> bool:
        """Whether a match satisfies the conditions that speak of more than one event, and the policy."""
        plan = self.plan
        if plan.conditions.whole:
            bindings = bindings_of(plan.written, match)
            if not all(holds(condition, bindings) for condition in plan.conditions.whole):
                return False
        path = Path(match.steps)
        return keeps(plan.query.policy, path, self.events, plan.written, self.may_bind, plan.conditions.adjacent)

    def extents(self, match: Match, ways: Ways) -> list[Extent]:
        """The windows in which a match counts: those that hold it and in which its NOTs and NEGs do hold."""
        extents = windows.extents(self.plan.window, self.times, match.first, match.last)
        return [extent for extent in extents if self.is_clear(match, ways, extent)]

    def is_clear(self, match: Match, ways: Ways, extent: Extent) -> bool:
        """Whether no absent event shows up, by one of the ways to read the match and for all NEGs."""
        written = self.plan.written
        if any(self.shows(event, match, extent.never_after, extent.never_before) for event in written.never):
            return False
        return any(
            not any(
                self.shows(written.absent[guard.absent], match, guard.after, guard.before)
                for guard in guards_of(way, extent)
            )
            for way in ways
        )

    def shows(self, absent: Event, match: Match, after: int, before: int) -> bool:
        """Whether an absent event occurs strictly between two times, its conditions considered."""
        conditions = self.plan.conditions.absent.get(absent, ())
        bindings = bindings_of(self.plan.written, match) if conditions else {}
        return any(
            absent.type in event.types
            and all(
                holds(condition, {absent.name: (event,), absent.type: (event,), **bindings}) for condition in conditions
            )
            for event in between(self.events, after, before)
        )

    def counts_at(self, match: Match, ways: Ways, now: int) -> bool:
        """Whether a match counts in the continuous window that ends now; a leading NOT looks back to that window's
        start.
        """
        if match.last > now or not self.is_alive(match, now):
            return False
        return any(self.is_clear(match, ways, extent) for extent in self.extents_at(match, now))

    def extents_at(self, match: Match, now: int) -> list[Extent]:
        extents = windows.extents(self.plan.window, self.times, match.first, match.last)
        if isinstance(self.plan.window, TimeWindow):
            return [replace(extent, leading_after=now - self.plan.window.size) for extent in extents]
        return extents

    def is_alive(self, match: Match, now: int) -> bool:
        """Whether a match that is complete has not expired from a continuous window."""
        match self.plan.window:
            case TimeWindow(size):
                return now - match.first < size
            case CountWindow(size):
                return windows.events_between(self.times, match.first, now) <= size
            case None:
                return True


def guards_of(way: Fragment, extent: Extent) -> Iterable[Guard]:
    """The gaps that one reading of a match guards, those at its ends closed by the window."""
    yield from way.guards
    for absent in way.opening:
        yield Guard(absent, extent.leading_after, way.first)
    for absent in way.closing:
        yield Guard(absent, way.last, extent.trailing_before)


def bindings_of(written: Written, match: Match) -> Bindings:
    """The events of every name a condition may use."""
    names = {name for event in written.events for name in (event.name, event.type)}
    return {name: match.events(written.positions(name)) for name in names}


def by_group(
    query: Query, found: Iterable[tuple[Partition, Found]]
) -> dict[tuple[Any, ...], list[tuple[Partition, Found]]]:
    """The partitions of each group: GROUP BY attributes come first in a partition's key."""
    groups: defaultdict[tuple[Any, ...], list[tuple[Partition, Found]]] = defaultdict(list)
    for partition, matches in found:
        groups[partition.key[: len(query.group_by)]].append((partition, matches))
    return groups


def result_times(plan: Plan, parts: Sequence[tuple[Partition, Found]]) -> Iterable[tuple[dict[str, int], list[Match]]]:
    """The times or windows at which a group has a result, each with the matches it is over."""
    counted = [
        (partition, match, extent)
        for partition, matches in parts
        for match, ways in matches
        for extent in partition.extents(match, ways)
    ]
    match plan.window:
        case None:
            return [({}, [match for _, match, _ in counted])] if counted else []
        case TimeWindow(size, slide) if slide is not None:
            ended = collect(counted, lambda match, extent: extent.trailing_before)
            return [({"window_start": end - size, "window_end": end}, matches) for end, matches in ended.items()]
        case TimeWindow(size) if plan.is_certain_at_end:
            ended = collect(counted, lambda match, extent: match.first + size)
            return [({"time": end}, matches) for end, matches in ended.items()]
        case _:
            return [
                (
                    {"time": now},
                    [match for part, matches in parts for match, ways in matches if part.counts_at(match, ways, now)],
                )
                for now in sorted({match.last for _, match, _ in counted})
            ]


def collect(
    counted: Iterable[tuple[Partition, Match, Extent]], when: Callable[[Match, Extent], int]
) -> dict[int, list[Match]]:
    """Matches by the time at which they are reported."""
    times: defaultdict[int, list[Match]] = defaultdict(list)
    for _, match, extent in counted:
        times[when(match, extent)].append(match)
    return times
