"""Find matches from one micro-batch to the next: each costs what its events are joined with, not what windows hold.

All that is kept can be rebuilt from the rows of one window, which are retained. So nothing of it is saved: a restored
stream, one with another plan or other queries, and one whose instances take too much memory replay these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.compile.detect import DetectBranch, match_columns
from motet.engine.detect.bindings import check_overflow, match_times
from motet.engine.detect.code import ExpressionCompiler
from motet.engine.detect.query_run import QueryRun
from motet.engine.detect.results import decode_columns
from motet.engine.detect.rules import QueryCode, build_query_conditions, build_rules, compile_conditions
from motet.engine.detect.values import MAX_EXACT_FLOAT, CompiledExpressions, EventColumns
from motet.engine.detect.windows import Bounds
from motet.engine.encode import (
    EncodedEvents,
    encode_branch,
    read_column,
)
from motet.engine.expressions import evaluate
from motet.engine.live.encoder import LiveEncoder
from motet.engine.live.feed_plan import FeedPlanBuilder, Reader
from motet.engine.live.key_states import KeyIndex
from motet.kernels.expressions import EventScope, Values, new_stack
from motet.kernels.feed_matches import (
    BAD_NUMBER,
    DONE,
    NO_OUTPUT,
    ClassTable,
    EventData,
    FeedScratch,
    MatchOutput,
    NewEvents,
    create_output,
    feed_events,
)
from motet.kernels.instances import Absences
from motet.kernels.match_filter import (
    KeyedEvents,
    MatchContext,
    Matches,
    filter_matches,
    new_match_scratch,
    sort_steps,
)
from motet.kernels.match_store import END, TOP, WORK, compact, create_store
from motet.kernels.ragged import take_rows
from motet.model.expression import Expression
from motet.plans.compiled import WindowSpan
from motet.plans.detect.build import PlannedAlternative, PlannedQuery
from motet.schema import build_table
from motet.template.positions import max_bindings

Ints = NDArray[np.int64]

FIRST_ROWS = 1 << 10
FIRST_MATCHES = 1 << 10


class TooManyInstances(Exception):
    """The live instances take more memory than they may."""


class NumbersTooLarge(Exception):
    """Whole numbers came that are not the same as floats: conditions must be compiled for that."""


class FedMatches:
    """The live events and instances of some queries of a branch.

    Events are numbered in order of time; `rows` has the place of each among the retained rows. Where whole numbers are
    not `exact` as floats, they are compared as they are.
    """

    def __init__(
        self, encoder: LiveEncoder, branch: DetectBranch, planned: Sequence[PlannedQuery], exact: bool = True
    ) -> None:
        self.program = encoder.context.program
        self.branch = branch
        self.planned = planned
        self.encoder = encoder
        nothing = encode_branch(self.program, branch, _empty(self.program.schema.columns, branch.columns))
        self.columns = _ExactColumns(nothing) if exact else _InexactColumns(nothing)
        compiler = ExpressionCompiler(self.columns)
        self.codes = {each.query.number: compile_conditions(each.query, compiler) for each in planned}
        self.builder = FeedPlanBuilder(planned, compiler)
        self.plan = self.builder.build()
        self.kinds = compiler.kinds
        self.readers = self.builder.readers
        self.int_sources, self.float_sources = self.columns.sources
        self.keys = KeyIndex(pa.schema([self.program.schema.columns.field(name) for name in branch.partition]))
        self.words: dict[Any, int] = {}
        self.count = 0  # events
        self.time = np.zeros(0, np.int64)
        self.rows = np.zeros(0, np.int64)
        self.values = Values(np.zeros((0, 0), np.int64), np.zeros((0, 0), np.bool_), np.zeros((0, 0), np.float64))
        self._reserve(FIRST_ROWS)
        nodes = self.plan.nodes
        self.width = int(nodes.width.max(initial=1))
        self.most_indexes = int(np.diff(self.plan.indexes.offsets).max(initial=1))
        self.store = create_store(FIRST_ROWS, self.width, self.most_indexes)
        self.output = create_output(FIRST_MATCHES, 8 * FIRST_MATCHES)
        self.scratch = _create_scratch(len(nodes.kind), int(nodes.width.max(initial=1)), 64)
        self.plain_results = _PlainResults(self)
        self.known_classes = -1
        self.classes: ClassTable | None = None

    # Events

    def _reserve(self, more: int) -> None:
        """Make room for more events: each is copied O(1) times, amortised."""
        wanted = self.count + more
        if wanted > len(self.time):
            size = 2 * wanted
            self.time, self.rows = _enlarged(self.time, size), _enlarged(self.rows, size)
            ints, known, floats = self.values
            self.values = Values(
                _enlarged(ints, size, max(len(self.int_sources), 1)),
                _enlarged(known, size, max(len(self.int_sources), 1)),
                _enlarged(floats, size, max(len(self.float_sources), 1)),
            )

    def feed(self, events: pa.Table, times: Ints, place: int, *, lists: bool = True) -> list[MatchOutput]:
        """Add events, none earlier than those before, the first at a place of the retained rows; return new matches.

        Raises `DataError` if some row cannot be computed with, `TooManyInstances` and `NumbersTooLarge`; what is kept
        must be rebuilt then.
        """
        klass = self.encoder.classify(events)
        chosen = np.flatnonzero(self.encoder.has_symbols[klass])
        size = len(chosen)
        if not size:
            return []
        order = chosen[np.argsort(times[chosen], kind="stable")]
        classes = self.encoder.classes
        if len(classes) != self.known_classes or self.classes is None:
            self.classes, self.known_classes = self.builder.build_classes(classes), len(classes)
        self._reserve(size)
        first, self.count = self.count, self.count + size
        self.time[first : self.count] = time = times[order]
        self.rows[first : self.count] = place + order
        self._append_values(events, order, first)
        new = NewEvents(
            np.arange(first, self.count), klass[order], self.keys.number_rows(events)[order], self._limits(time)
        )
        return self._apply(new, lists)

    def _append_values(self, events: pa.Table, order: Ints, first: int) -> None:
        """Compute what conditions read of new events, in this order of their rows."""
        ints, known, floats = self.values
        until = first + len(order)
        is_ordered = len(order) == len(events) and bool((order == np.arange(len(order))).all())
        rows = None if is_ordered else pa.array(order)

        @cache
        def read(name: str) -> pa.Array:
            column = read_column(events, name)
            return column if rows is None else column.take(rows)

        def compute(expression: Expression) -> pa.Array:
            return evaluate(expression, lambda attribute: read(attribute.name), len(order))

        for row, source in enumerate(self.int_sources):
            array = compute(source)
            known[row, first:until] = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else True
            ints[row, first:until] = self._as_ints(array)
        for row, origin in enumerate(self.float_sources):
            if isinstance(origin, int):
                own = ints[origin, first:until]
                if self.columns.must_be_exact[origin] and not _is_exact(own):
                    raise NumbersTooLarge
                floats[row, first:until] = np.where(known[origin, first:until], own, np.nan)
            else:
                values = compute(origin).cast(pa.float64()).to_numpy(zero_copy_only=False)
                floats[row, first:until] = values + 0.0  # -0.0 is 0.0

    def _as_ints(self, array: pa.Array) -> Any:
        """Return values as integers, null as 0; a text as its number among all so far."""
        if pa.types.is_string(array.type):
            found = array.dictionary_encode()
            words = found.dictionary.to_pylist()
            numbers = np.array([self.words.setdefault(word, len(self.words)) for word in words] or [0], np.int64)
            return numbers[found.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp("us"), safe=False)
        array = array if array.type == pa.int64() else array.cast(pa.int64())
        return (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)

    def _limits(self, time: Ints) -> Ints:
        """Return for each set of windows and each event the earliest first time of what may end with it."""
        limits = np.empty((len(self.builder.spans), len(time)), np.int64)
        for spans, row in self.builder.spans.items():
            first, *others = (_oldest_start(span, time) for span in spans)
            limits[row] = np.minimum.reduce([first, *others]) if others else first
        return limits

    # Instances

    def _apply(self, new: NewEvents, lists: bool) -> list[MatchOutput]:
        found: list[MatchOutput] = []
        assert self.classes is not None
        at = 0
        while True:
            at, status = feed_events(
                self.plan, self.classes, new, at, self._data, self.store, self.scratch, self.output, lists
            )
            if status != DONE and status != BAD_NUMBER and status != NO_OUTPUT:
                self._make_room(new.limits[:, at])
                continue
            if status == BAD_NUMBER:
                check_overflow(self.scratch.stack, "a whole number in a condition between two events")
            if self.output.counts[0]:
                found.append(_copy_output(self.output))
                self.output.counts[:] = 0
            elif status == NO_OUTPUT:
                self.output = create_output(2 * len(self.output.key), 2 * len(self.output.event))
                self.scratch = self.scratch._replace(walk=np.zeros((2 * len(self.scratch.walk), 3), np.int64))
            if status == DONE:
                return found

    @property
    def _data(self) -> EventData:
        return EventData(self.time, self.values, self.values.floats.view(np.int64))

    def _make_room(self, limits: Ints) -> None:
        """Drop the rows that have left their windows, and make room for as many again as are left. O(rows)."""
        self._compact(len(self.store.rows), limits)
        live = int(self.store.counts[TOP])
        if 2 * live > len(self.store.rows):
            row = (self.store.rows.nbytes + self.store.table.nbytes) // len(self.store.rows)
            if 4 * live * row > self.program.options.memory_bytes:
                raise TooManyInstances
            self._compact(4 * live, limits)

    def _compact(self, rows: int, limits: Ints) -> None:
        """Drop the rows that have left their windows, and let there be room for so many."""
        target = create_store(rows, self.width, self.most_indexes)
        target.counts[WORK] = self.store.counts[WORK]
        own = np.ascontiguousarray(limits[self.plan.nodes.span])
        compact(self.store, target, self.plan.indexes, self.values, self._data.bits, own)
        self.store = target

    def forget(self, watermark: int, kept: NDArray[np.bool_]) -> None:
        """Forget events that have left all windows, as only some of the retained rows are kept. O(events)."""
        limits = self._limits(np.array([watermark]))[:, 0]
        gone = int(np.searchsorted(self.time[: self.count], limits.min(initial=watermark)))
        self._compact(len(self.store.rows), limits)
        self.store.rows[: self.store.counts[TOP], END] -= gone
        self.store.rows[: self.store.counts[TOP], self.store.items :] -= gone
        self.count -= gone
        kept_events = slice(gone, gone + self.count)
        self.time[: self.count] = self.time[kept_events]
        place = np.cumsum(kept) - 1
        self.rows[: self.count] = place[self.rows[kept_events]]
        for part in self.values:
            part[:, : self.count] = part[:, kept_events].copy()

    @property
    def is_wasteful(self) -> bool:
        """Whether most keys or texts that are known may have no live event."""
        return max(self.keys.count, len(self.words)) > 4 * self.count + FIRST_ROWS

    @property
    def work(self) -> int:
        """How many rows were looked at."""
        return int(self.store.counts[WORK])

    # Matches

    def build_results(
        self,
        found: Sequence[MatchOutput],
        take: Callable[[Ints], pa.Table],
        bounds: Bounds,
        start_times: Mapping[int, int],
    ) -> Iterator[tuple[pa.Table, str | None]]:
        """Yield tables of the rows of matches, each with the name of its query if a limit cut it short.

        `take` returns the retained rows at some places, in ascending order.
        """
        if not found:
            return
        output = _concat_outputs(found)
        events, at = np.unique(output.event, return_inverse=True)
        batch = _FoundEvents(self, events, take)
        matches = Matches(output.begin, output.position, at.reshape(-1), output.key)
        counts = np.bincount(output.reader, minlength=len(self.readers))
        plain = self.plain_results.list_readers(counts, start_times)
        is_plain = plain[output.reader]
        if is_plain.any():
            rows = np.flatnonzero(is_plain)
            chosen = matches if len(rows) == len(is_plain) else _take_matches(matches, rows)
            yield self.plain_results.build(batch, chosen, output.reader[rows]), None
        own: dict[int, list[tuple[PlannedAlternative, Matches]]] = {}
        for number in np.flatnonzero((counts > 0) & ~plain).tolist():
            reader: Reader = self.readers[number]
            chosen = _take_matches(matches, np.flatnonzero(output.reader == number))
            alternative = self.planned[reader.query].alternatives[reader.alternative]
            own.setdefault(reader.query, []).append((alternative, chosen))
        for query, alternatives in own.items():
            planned = self.planned[query]
            run = _FedQueryRun(batch, planned, bounds, start_times.get(planned.query.number), alternatives)
            tables = list(run.process())
            name = planned.query.query.name if run.is_truncated else None
            for table in tables:
                yield table, name

    def residual_rules(self, planned: PlannedQuery, alternative: PlannedAlternative) -> Any:
        """Return what is tested on whole matches of an alternative, and the conditions it is tested by."""
        codes = self.codes[planned.query.number]
        return (
            build_rules(planned.query, alternative, codes, [frozenset()]),
            build_query_conditions(planned.query, codes, self.plan.code),
        )


class _PlainResults:
    """Builder of the rows of all queries at once that return nothing but single events.

    `shows[label]` tells by reader and position which event a label of RETURN shows.
    """

    def __init__(self, fed: FedMatches) -> None:
        self.fed = fed
        self.program = fed.program
        queries = [fed.planned[reader.query].query for reader in fed.readers]
        self.names = pa.array([query.query.name for query in queries], pa.string())
        self.numbers = [query.number for query in queries]
        most = max([1, *(len(query.positions.events) for query in queries)])
        self.is_plain = np.zeros(len(queries), np.bool_)
        self.shows: dict[str, NDArray[np.bool_]] = {}
        self.groups: dict[str, NDArray[np.bool_]] = {}
        schema = self.program.result_schema
        for at, query in enumerate(queries):
            columns = list(match_columns(query))
            residual = any(each.residual for each in fed.planned[fed.readers[at].query].alternatives)
            self.is_plain[at] = not (query.is_ambiguous or residual) and all(
                isinstance(what, frozenset)
                and max_bindings(query.positions.graph, what) <= 1
                and pa.types.is_struct(schema.field(label).type)
                for label, what in columns
            )
            if self.is_plain[at]:
                for name in query.query.group_by:
                    self.groups.setdefault(name, np.zeros(len(queries), np.bool_))[at] = True
                for label, what in columns:
                    shown = self.shows.setdefault(label, np.zeros((len(queries), most), np.bool_))
                    shown[at, sorted(what) if isinstance(what, frozenset) else []] = True

    def list_readers(self, counts: Ints, start_times: Mapping[int, int]) -> NDArray[np.bool_]:
        """Return whose matches to build: where there are no more than may be, and all windows are reported."""
        limit = self.program.options.match_limit
        chosen = self.is_plain if limit is None else self.is_plain & (counts <= limit)
        if start_times:
            chosen = chosen & ~np.isin(self.numbers, list(start_times))
        return chosen

    def build(self, batch: _FoundEvents, found: Matches, reader: NDArray[np.int32]) -> pa.Table:
        """Build the rows of matches of some readers."""
        schema, size = self.program.schema, len(found.key)
        times = batch.encoded.time[found.event]
        owner = np.repeat(np.arange(size), np.diff(found.begin))
        columns: dict[str, pa.Array] = {
            "query": self.names.take(pa.array(reader)),
            "start": schema.from_microseconds(np.minimum.reduceat(times, found.begin[:-1])),
            "end": schema.from_microseconds(np.maximum.reduceat(times, found.begin[:-1])),
        }
        for name, grouped in self.groups.items():
            columns[name] = batch.encoded.keys[name].take(pa.array(found.key, mask=~grouped[reader]))
        events = pa.StructArray.from_arrays(list(batch.event_columns.values()), names=list(batch.event_columns))
        rows = batch.encoded.rows[found.event]
        for label, shows in self.shows.items():
            shown = shows[reader[owner], found.position]
            place, missing = np.zeros(size, np.int64), np.ones(size, np.bool_)
            place[owner[shown]], missing[owner[shown]] = rows[shown], False
            columns[label] = events.take(pa.array(place, mask=missing))
        return build_table(columns, self.program.result_schema, size)


class _ExactColumns(EventColumns):
    """The columns that conditions read, all known to be empty; whole numbers are compared as floats."""

    @cached_property
    def sources(self) -> tuple[list[Expression], list[Expression | int]]:
        """What the rows of integers are computed from, and those of floats: an expression, or a row of integers."""
        ints: dict[int, Expression] = {}
        floats: dict[int, Expression | int] = {}
        for bare, (column, _) in self.found.items():
            (floats if column.is_float else ints)[column.row] = bare
        for row, source in enumerate(self.floats):
            if isinstance(source, int):
                floats[row] = source
        return [ints[row] for row in range(len(ints))], [floats[row] for row in range(len(floats))]

    @cached_property
    def must_be_exact(self) -> dict[int, bool]:
        """By row of integers: whether its values must be the same as floats."""
        return {column.row: column.kind == "int" for column, _ in self.found.values() if not column.is_float}


class _InexactColumns(_ExactColumns):
    """The same, where whole numbers are compared as they are."""

    def float_row(self, expression: Expression) -> int | None:
        row = self.column(expression)
        return None if row.kind == "int" else super().float_row(expression)


class _FoundEvents:
    """The events of new matches, numbered anew, as what runs of queries read."""

    def __init__(self, fed: FedMatches, events: Ints, take: Callable[[Ints], pa.Table]) -> None:
        self.fed = fed
        self.program = fed.program
        self.codes: dict[int, QueryCode] = fed.codes
        places = fed.rows[events]
        order = np.argsort(places)
        self.rows = take(places[order])
        at = np.empty(len(events), np.int64)
        at[order] = np.arange(len(events))
        self.encoded = EncodedEvents(
            table=self.rows,
            rows=at,
            offsets=np.zeros(1, np.int64),
            time=fed.time[events],
            klass=np.zeros(0, np.int32),
            classes=[],
            keys={name: fed.keys.values[name].combine_chunks() for name in fed.branch.partition},
            enter=np.zeros(0, np.int64),
            leave=np.zeros(0, np.int64),
        )
        chosen: list[Any] = [np.ascontiguousarray(part[:, events]) for part in fed.values]
        self.values = Values(*chosen)

    @property
    def runner(self) -> _FoundEvents:
        return self

    @cached_property
    def event_columns(self) -> dict[str, pa.Array]:
        return decode_columns(self.rows)

    @cached_property
    def expressions(self) -> CompiledExpressions:
        words = pa.array(list(self.fed.words), pa.string())
        return CompiledExpressions(self.fed.plan.code, self.fed.kinds, self.values, words)


@dataclass(frozen=True)
class _NoFilter:
    """What a run asks of the filter of an alternative."""

    planned: PlannedAlternative
    found: Matches
    has_open_ends: bool = False
    looks_back: bool = False


class _FedQueryRun(QueryRun):
    """Run of one query over matches that are known."""

    def __init__(
        self,
        batch: _FoundEvents,
        planned: PlannedQuery,
        bounds: Bounds,
        start_time: int | None,
        found: Sequence[tuple[PlannedAlternative, Matches]],
    ) -> None:
        any_batch: Any = batch
        self.found = {id(alternative): matches for alternative, matches in found}
        self.fed = batch.fed
        super().__init__(any_batch, planned, bounds, start_time)

    def process(self) -> Iterator[pa.Table]:
        yield from self._list_rows()

    def _make_filter(self, planned: PlannedAlternative) -> Any:
        nothing = Matches(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
        return _NoFilter(planned, self.found.get(id(planned), nothing))

    def _find_matches(self, match_filter: Any) -> Iterator[Matches]:
        found: Matches = match_filter.found
        if not len(found.key):
            return
        sort_steps(found, self.encoded.time)
        if len(match_filter.planned.residual):
            found = self._test(match_filter.planned, found)
        kept = self.match_limit.admit(found.key, match_times(found, self.encoded)[1])
        if kept is not None:
            self._exceed_limit(f"more than {self.match_limit.limit:,} matches in one window")
            found = _take_matches(found, np.flatnonzero(kept))
        if len(found.key):
            yield found

    def _test(self, planned: PlannedAlternative, found: Matches) -> Matches:
        rules, conditions = self.fed.residual_rules(self.planned, planned)
        none = np.zeros(0, np.int64)
        work = new_match_scratch(len(self.query.slots), int(np.diff(found.begin).max(initial=0)) + 2)
        context = MatchContext(
            rules,
            KeyedEvents(np.zeros(1, np.int64), none, none, none, np.zeros(0, np.int32)),
            Absences(np.zeros((1, 1), np.int64), none, none),
            conditions,
            self.runner.expressions.values,
            work,
        )
        kept = filter_matches(found, context)
        check_overflow(work.stack, f"query {self.query.query.name}: a whole number in a condition")
        return _take_matches(found, np.flatnonzero(kept))


def _is_exact(whole: Ints) -> bool:
    """Return whether whole numbers are the same as floats."""
    return bool(whole.min() >= -MAX_EXACT_FLOAT and whole.max() <= MAX_EXACT_FLOAT)


def _oldest_start(span: WindowSpan, time: Ints) -> Ints:
    """Return the earliest start of a match that ends at each time."""
    return ((time - span.within) // span.slide + 1) * span.slide if span.slide else time - span.within + 1


def _take_matches(found: Matches, rows: Ints) -> Matches:
    begin, entries = take_rows(found.begin, rows)
    return Matches(begin, found.position[entries], found.event[entries], found.key[rows])


def _copy_output(out: MatchOutput) -> MatchOutput:
    found, entries = out.counts.tolist()
    return MatchOutput(
        out.reader[:found].copy(),
        out.key[:found].copy(),
        out.begin[: found + 1].copy(),
        out.position[:entries].copy(),
        out.event[:entries].copy(),
        out.counts.copy(),
    )


def _concat_outputs(parts: Sequence[MatchOutput]) -> MatchOutput:
    if len(parts) == 1:
        return parts[0]
    begins, entries = [np.zeros(1, np.int64)], 0
    for part in parts:
        begins.append(entries + part.begin[1:])
        entries += len(part.event)
    reader, key, _, position, event, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
    return MatchOutput(reader, key, np.concatenate(begins), position, event, counts)


def _create_scratch(nodes: int, width: int, steps: int) -> FeedScratch:
    slots = max(width, 2)
    scope = EventScope(
        np.full(slots, -1, np.int64),
        np.full(slots, -1, np.int64),
        np.zeros(slots + 1, np.int64),
        np.zeros(1, np.int64),
    )
    return FeedScratch(
        np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), scope, new_stack(), np.zeros((steps, 3), np.int64)
    )


def _enlarged(array: NDArray[Any], size: int, rows: int | None = None) -> Any:
    """Return an array with room for `size` values, or rows of them, the first of which are as before."""
    shape = (size,) if rows is None else (rows, size)
    larger = np.zeros(shape, array.dtype)
    larger[..., : array.shape[-1]] = array if rows is None or len(array) == rows else 0
    return larger


def _empty(columns: pa.Schema, names: Sequence[str]) -> pa.Table:
    return pa.schema([columns.field(name) for name in names]).empty_table()
