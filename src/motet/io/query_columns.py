"""Tell which columns of the result table belong to which query."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq, events
from motet.model.query import AllVariables, Computed, Query, Variable, Workload
from motet.model.window import TimeWindow


@dataclass(frozen=True)
class QueryColumns:
    """The columns that a query's rows fill: times, group and labels."""

    query: Query
    times: tuple[str, ...]
    labels: tuple[str, ...]
    repeated: frozenset[str]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns but the query's name, in the order to show."""
        return (*self.times, *self.query.group_by, *self.labels)

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
            labels = [aggregate.label for aggregate in query.aggregates]
            yield QueryColumns(query, time_columns(query), tuple(dict.fromkeys(labels)), frozenset())
        else:
            labels, repeated = match_labels(query)
            yield QueryColumns(query, ("start", "end"), tuple(dict.fromkeys(labels)), frozenset(repeated))


def time_columns(query: Query) -> tuple[str, ...]:
    """Return the time columns of an aggregate query: a start and an end of windows, a time of continuous results."""
    match query.window:
        case None | TimeWindow(slide=int()):
            return ("window_start", "window_end")
        case _:
            return ("time",)


def match_labels(query: Query) -> tuple[list[str], list[str]]:
    """Return the labels of a query that returns matches, and those that may be bound more than once."""
    labels: list[str] = []
    names: dict[str, str] = {}
    for item in query.returns:
        match item:
            case AllVariables():
                names |= {event.name: event.name for event in events(query.pattern)}
            case Variable(name):
                names[item.label] = name
            case Computed(alias=alias):
                labels.append(alias)
                continue
            case _:
                continue
        labels = list(dict.fromkeys((*labels, *names)))
    bound = max_bindings(query.pattern)
    return labels, [label for label, name in names.items() if bound.get(name, 0) > 1]


def max_bindings(pattern: Pattern) -> dict[str, float]:
    """Return how many events a match can at most bind to each variable, or type without one."""
    match pattern:
        case Event():
            return {pattern.name: 1}
        case Repeat(part, _, high):
            times = math.inf if high is None else high
            return {name: bound * times for name, bound in max_bindings(part).items()}
        case Seq(parts) | And(parts):
            return _merge_bindings(parts, operator.add)
        case Or(parts):
            return _merge_bindings(parts, max)
        case Not() | Neg():
            return {}


def _merge_bindings(parts: tuple[Pattern, ...], both: Callable[[float, float], float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parts:
        for name, bound in max_bindings(part).items():
            found[name] = both(found.get(name, 0), bound)
    return found
