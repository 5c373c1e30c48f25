"""Tell which columns of the result table belong to which query."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq, events
from motet.model.query import AllVariables, Computed, Query, Variable, Workload
from motet.model.window import TimeWindow


@dataclass(frozen=True)
class QueryColumns:
    """The columns that a query's rows fill: times, group and labels; `repeated` labels hold lists of events."""

    query: Query
    times: tuple[str, ...]
    labels: tuple[str, ...]
    repeated: frozenset[str] = frozenset()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns but the query's name."""
        return (*self.times, *self.query.group_by, *self.labels)

    @property
    def shown(self) -> list[str]:
        """The columns to show: the one window of a whole input has no times."""
        return [name for name in self.columns if self.query.window or name not in self.times]

    def unwrap_single(self, label: str, value: Any) -> Any:
        """Return a label's value, a list of one event unwrapped: other queries may need lists in that column."""
        if isinstance(value, list) and label not in self.repeated:
            return value[0] if value else None
        return value

    def select_rows(self, results: pa.Table) -> pa.Table:
        """Return this query's rows of the result table, with its columns only."""
        return results.filter(pc.equal(results["query"], self.query.name)).select(self.columns)


def list_query_columns(workload: Workload) -> Iterator[QueryColumns]:
    """Yield the columns of each query, in the order of the workload."""
    for query in workload.queries:
        if query.is_aggregate:
            labels = dict.fromkeys(aggregate.label for aggregate in query.aggregates)
            # Windows have a start and an end, continuous results a time; a whole input is a window.
            is_windowed = query.window is None or (isinstance(query.window, TimeWindow) and query.window.slide)
            yield QueryColumns(query, ("window_start", "window_end") if is_windowed else ("time",), tuple(labels))
        else:
            variables = _list_match_labels(query)
            repeated = (label for label, name in variables.items() if name and _max_bindings(query.pattern, name) > 1)
            yield QueryColumns(query, ("start", "end"), tuple(variables), frozenset(repeated))


def _list_match_labels(query: Query) -> dict[str, str | None]:
    """Return the labels of a query that returns matches, and the variable that each of them shows, if any."""
    labels: dict[str, str | None] = {}
    for item in query.returns:
        match item:
            case AllVariables():
                labels |= {event.name: event.name for event in events(query.pattern)}
            case Variable(name):
                labels[item.label] = name
            case Computed(alias=alias):
                labels[alias] = None
    return labels


def _max_bindings(pattern: Pattern, name: str) -> float:
    """Return how many events a match can at most bind to a variable, or a type without one."""
    match pattern:
        case Event():
            return float(pattern.name == name)
        case Repeat(part, _, high):
            most = _max_bindings(part, name)
            return most * (math.inf if high is None else high) if most else 0.0
        case Seq(parts) | And(parts):
            return sum(_max_bindings(part, name) for part in parts)
        case Or(parts):
            return max(_max_bindings(part, name) for part in parts)
        case Not() | Neg():
            return 0.0
