"""What the published executors get and give: events sorted by key and time as arrays, and counts by window.

The papers assume that all queries of a workload have one window and one partition, and count; so do the executors here.
Reading Arrow, conditions and sorting are done here, by our own code, before an executor's time begins;
`PreparedEvents.read_again` does it once more, to be timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from motet.engine.encode import EncodedEvents, encode
from motet.engine.workload_profile import compile_online_queries
from motet.kernels.arrays import Floats, Ints, SmallInts
from motet.model.query import Workload
from motet.plans.compiled import CompiledQuery
from motet.schema import EventSchema
from motet.template.positions import FREE, build_positions
from motet.template.symbols import Symbol

Absent = frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class Line:
    """A query as a line of symbols; `gaps` has what must be absent before each, `back_edges` lead from the end of a
    repeated part to its beginning.
    """

    symbols: tuple[Symbol, ...]
    gaps: tuple[Absent, ...]
    back_edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PreparedEvents:
    """Events of one workload by key, then by time, and what its queries have in common.

    `group_of_key` numbers the groups that results are reported for. Windows are `[k * slide, k * slide + within)` for k
    from `first_window` on; with `slide` 0 results are continuous.
    """

    queries: tuple[CompiledQuery, ...]
    lines: tuple[Line, ...]
    classes: tuple[frozenset[Symbol], ...]
    offsets: Ints
    time: Ints
    klass: SmallInts
    group_of_key: Ints
    groups: tuple[tuple[Any, ...], ...]
    within: int
    slide: int
    first_window: int
    windows: int
    read: Callable[[], EncodedEvents]

    def read_again(self) -> None:
        """Read, classify and sort the events of the table again: what comes before an executor's own work."""
        self.read()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the queries in the workload."""
        return tuple(query.number for query in self.queries)

    def most_per_key(self, symbol: Symbol) -> int:
        """Return how many events of a symbol one key has at most."""
        seen = np.concatenate(([0], np.cumsum(self._flags(symbol)[self.klass])))
        return int((seen[self.offsets[1:]] - seen[self.offsets[:-1]]).max(initial=0))

    def most_alive(self, symbol: Symbol) -> int:
        """Return how many events of a symbol one key has at most in so long as a window."""
        most = 0
        chosen = np.flatnonzero(self._flags(symbol)[self.klass])
        bounds = np.searchsorted(chosen, self.offsets)
        for first, last in pairwise(bounds):
            times = self.time[chosen[first:last]]
            begun = np.searchsorted(times, times - self.within, side="right")
            most = max(most, int((np.searchsorted(times, times, side="right") - begun).max(initial=0)))
        return most

    def make_results(self) -> tuple[Floats, Moments]:
        """Return room for results by group, query and window, and for those of every completion."""
        ends = [sum(line.symbols[-1] in found for line in self.lines) for found in self.classes]
        most = 0 if self.slide else int(np.array([*ends, 0])[self.klass].sum())
        moments = Moments(np.zeros(most, np.int32), np.zeros(most, np.int32), np.zeros(most, np.int64), np.zeros(most))
        return np.zeros((len(self.groups), len(self.lines), self.windows)), moments

    def _flags(self, symbol: Symbol) -> Any:
        return np.array([symbol in found for found in self.classes] or [False], np.bool_)


class Moments(NamedTuple):
    """Continuous results in the order in which they are reported."""

    query: SmallInts
    key: SmallInts
    time: Ints
    value: Floats


@dataclass(frozen=True)
class Counts:
    """What an executor found: values by group, query and window; of continuous queries a value for each moment.

    `objects` says how many objects of each kind it held at most, every key at the moment when that has most.
    """

    prepared: PreparedEvents
    by_window: Floats
    moments: Moments
    objects: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def collect(
        cls, prepared: PreparedEvents, by_window: Floats, moments: Moments, found: int, objects: Mapping[str, int]
    ) -> Counts:
        """Return results of which so many moments were reported."""
        query, key, time, value = moments
        return cls(prepared, by_window, Moments(query[:found], key[:found], time[:found], value[:found]), objects)

    def rows(self) -> dict[tuple[Any, ...], float]:
        """Return the counts by query, group and time: the start of a window, or the moment of a report."""
        names = [query.query.name for query in self.prepared.queries]
        groups = self.prepared.groups
        if not self.prepared.slide:
            found = zip(*self.moments, strict=True)
            group_of = self.prepared.group_of_key
            return {(names[q], groups[group_of[key]], int(time)): float(value) for q, key, time, value in found}
        start, slide = self.prepared.first_window, self.prepared.slide
        return {
            (names[q], groups[group], int(start + at) * slide): float(self.by_window[group, q, at])
            for group, q, at in zip(*np.nonzero(self.by_window), strict=True)
        }


def prepare(workload: Workload, table: pa.Table, time_unit: str = "s") -> PreparedEvents:
    """Encode the events of a workload of counting queries with one window and partition.

    Raises ValueError for other workloads.
    """
    schema = EventSchema(table.schema, time_unit=time_unit)
    queries = tuple(compile_online_queries(workload, schema.tick))
    kinds = {(query.span, query.partition, query.query.group_by) for query in queries}
    if len(kinds) != 1 or len(queries) != len(workload.queries):
        raise ValueError("the published executors take queries of one window, partition and grouping")
    (span, partition, group_by) = kinds.pop()
    if any([item.label for item in query.outputs] != ["COUNT(*)"] for query in queries):
        raise ValueError("the published executors count matches here, and nothing else")
    if span.is_continuous and set(partition) != set(group_by):
        raise ValueError("the published executors report each partition by itself at every completion")
    symbols = dict.fromkeys(symbol for query in queries for symbol in (*query.symbols, *query.absences))
    definitions = {definition.name: definition.condition for definition in workload.definitions}
    read = partial(encode, table, schema, partition, tuple(symbols), definitions, span.ranked)
    events = read()
    groups: dict[tuple[Any, ...], int] = {}
    columns = [events.keys[name].to_pylist() for name in group_by]
    keys = zip(*columns, strict=True) if columns else [()] * (len(events.offsets) - 1)
    group_of_key = np.array([groups.setdefault(key, len(groups)) for key in keys], np.int64)
    first = last = 0
    if span.slide and len(events.time):
        first = (int(events.time.min()) - span.within) // span.slide + 1
        last = int(events.time.max()) // span.slide
    return PreparedEvents(
        queries,
        tuple(map(read_line, queries)),
        tuple(events.classes),
        events.offsets,
        events.time,
        events.klass,
        group_of_key,
        tuple(groups),
        span.within,
        span.slide,
        first,
        last - first + 1 if span.slide and len(events.time) else 0,
        read,
    )


def read_line(query: CompiledQuery) -> Line:
    """Read a query as a line of symbols with repetitions. Raises ValueError for any other pattern."""
    graph = build_positions(query.query.pattern).graph
    if not graph.is_line or query.needs_window_close or query.automaton.leading_guard or query.adjacent:
        raise ValueError(f"the published executors cannot run the pattern of {query.query.name}")

    def absent(gap: tuple[int, int]) -> Absent:
        (guard,) = graph.follow.get(gap, FREE)
        return frozenset(query.absences[absence] for absence in guard)

    gaps = tuple(absent((at - 1, at)) for at in range(len(query.symbols)))
    back = tuple(sorted(graph.back_edges))
    if any(absent(gap) for gap in back):
        raise ValueError(f"the published executors cannot run the pattern of {query.query.name}")
    return Line(query.symbols, gaps, back)


def pack_lists(lists: Iterable[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return lists of numbers as one array, and where each begins."""
    kept = list(lists)
    offsets = np.zeros(len(kept) + 1, np.int64)
    offsets[1:] = np.cumsum([len(each) for each in kept])
    return offsets, np.array([number for each in kept for number in each], np.int64)
