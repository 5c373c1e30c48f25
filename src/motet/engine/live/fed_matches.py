"""Find matches from one micro-batch to the next: each costs what its events are joined with, not what windows hold.

All that is kept can be rebuilt from the rows of one window, which are retained. So nothing of it is saved: a restored
stream, one with another plan or other queries, and one whose instances take too much memory replay these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.compile.detect import DetectBranch, match_columns
from motet.engine.detect.after_match import Candidates, TakenMatches, take_matches
from motet.engine.detect.bindings import check_overflow
from motet.engine.detect.code import ExpressionCompiler
from motet.engine.detect.query_run import QueryRun
from motet.engine.detect.results import DecodedColumns, as_result_rows
from motet.engine.detect.rules import QueryCode, build_query_conditions, build_rules, compile_conditions
from motet.engine.detect.values import CompiledExpressions, Exactness, Key, PlannedColumns, is_exact
from motet.engine.detect.windows import Bounds
from motet.engine.encode import (
    EncodedEvents,
    read_column,
)
from motet.engine.expressions import evaluate
from motet.engine.live.encoder import LiveEncoder
from motet.engine.live.feed_plan import FeedPlanBuilder, PathStep, Reader, has_history
from motet.engine.live.key_states import KeyIndex
from motet.engine.live.live_columns import LiveColumns
from motet.kernels.after_match import first_events
from motet.kernels.expressions import EventScope, Values, new_stack
from motet.kernels.feed_matches import (
    BAD_NUMBER,
    DONE,
    NO_OUTPUT,
    ClassTable,
    EventData,
    FeedScratch,
    FoundMatches,
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
from motet.kernels.match_store import END, ENTRIES, TOP, WORK, compact, count_live_rows, create_store
from motet.kernels.ragged import expand_ranges, take_rows
from motet.model.expression import Attribute
from motet.model.query import AfterMatch, Policy
from motet.plans.compiled import WindowSpan
from motet.plans.detect.build import PlannedQuery
from motet.plans.detect.execution import describe_join_run
from motet.plans.execution import Execution
from motet.template.positions import max_bindings

Ints = NDArray[np.int64]

FIRST_ROWS = 1 << 10
FIRST_MATCHES = 1 << 10


class TooManyInstances(Exception):
    """The live instances take more memory than they may."""


class NumbersTooLarge(Exception):
    """Whole numbers came that are not the same as floats: conditions must be compiled for that."""

    def __init__(self, inexact: frozenset[Exactness]) -> None:
        super().__init__()
        self.inexact = inexact


class FedMatches:
    """The live events and instances of some queries of a branch.

    Events are numbered in order of time; `rows` has the place of each among the retained rows. What is `inexact` as
    floats is compared as whole numbers.
    """

    def __init__(
        self, encoder: LiveEncoder, branch: DetectBranch, planned: Sequence[PlannedQuery], inexact: frozenset[Exactness]
    ) -> None:
        self.program = encoder.context.program
        self.branch = branch
        self.planned = planned
        self.encoder = encoder
        types = pa.schema([self.program.schema.columns.field(name) for name in branch.columns])
        self.columns = PlannedColumns(types.empty_table(), inexact)
        compiler = ExpressionCompiler(self.columns)
        self.codes = {each.query.number: compile_conditions(each, compiler, types) for each in planned}
        self.builder = FeedPlanBuilder(planned, compiler)
        self.plan = self.builder.build()
        self.kinds = compiler.kinds
        self.readers = self.builder.readers
        self.keys = KeyIndex(pa.schema([self.program.schema.columns.field(name) for name in branch.partition]))
        self.words: dict[Any, int] = {}
        self.count = 0  # events
        self.time = np.zeros(0, np.int64)
        self.rows = np.zeros(0, np.int64)
        self.neighbour = np.zeros(0, np.int64)
        self.last = np.zeros(0, np.int64)  # of each key: its last event, or -1 if that is not alone at its time
        self.reads_neighbours = any(
            node.loop.policy is Policy.CONTIGUOUS for node in self.builder.nodes if isinstance(node, PathStep)
        )
        constants = np.array(self.columns.constants or [0.0])
        self.values = Values(np.zeros((0, 0), np.int64), np.zeros((0, 0), np.bool_), np.zeros((0, 0)), constants)
        self.plain_results = _PlainResults(self)
        shown = self.program.schema.own_columns.names if self.plain_results.labels else []
        self.event_columns = LiveColumns(types, shown, self.program.schema.type, encoder.context.types)
        self._reserve(FIRST_ROWS)
        nodes = self.plan.nodes
        self.width = int(nodes.width.max(initial=1))
        self.most_indexes = int(np.diff(self.plan.indexes.offsets).max(initial=1))
        self.store = create_store(FIRST_ROWS, self.width, self.most_indexes, FIRST_ROWS)
        self.output = create_output(FIRST_MATCHES, 8 * FIRST_MATCHES)
        self.scratch = _create_scratch(len(nodes.kind), int(nodes.width.max(initial=1)), 64)
        own = [has_history(planned[reader.query].query) for reader in self.readers]
        self.replayed = np.array(
            [*own, any(own)], np.bool_
        )  # readers whose matches are listed where events are replayed
        self.listed = np.ones_like(self.replayed)  # those of new events
        self.taken = TakenMatches()
        self.rules: dict[tuple[int, int], Any] = {}  # by number of the query and alternative
        self.dropped = 0  # events, before the first that is known
        self.known_classes = -1
        self.classes: ClassTable | None = None

    # Events

    @cached_property
    def executed(self) -> Execution:
        """What is executed: the joins that are fed."""
        return describe_join_run(self.planned)

    def _reserve(self, more: int) -> None:
        """Make room for more events: each is copied O(1) times, amortised."""
        wanted = self.count + more
        if wanted > len(self.time):
            size = 2 * wanted
            self.time, self.rows = _enlarge(self.time, size), _enlarge(self.rows, size)
            self.neighbour = _enlarge(self.neighbour, size)
            self.event_columns.reserve(size)
            ints, known, floats, constants = self.values
            whole, real = max(len(self.columns.ints), 1), max(len(self.columns.floats), 1)
            self.values = Values(
                _enlarge(ints, size, whole), _enlarge(known, size, whole), _enlarge(floats, size, real), constants
            )

    def feed(self, events: pa.Table, times: Ints, place: int, *, replays: bool = False) -> list[FoundMatches]:
        """Add events, none earlier than those before, the first at a place of the retained rows; return new matches.

        Of events that are replayed, only those of queries that depend on earlier ones.

        Raises `DataError` if some row cannot be computed with, `TooManyInstances` and `NumbersTooLarge`; what is kept
        must be rebuilt then.
        """
        types = self.encoder.number_types(events)
        klass = self.encoder.classify(events, types)
        chosen = np.flatnonzero(self.encoder.has_symbols[klass] | self.reads_neighbours)
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
        self._append_values(events, klass, order, first)
        self.event_columns.append(events, types, order, first)
        key = self.keys.number_rows(events)[order]
        if self.reads_neighbours:
            self.neighbour[first : self.count] = self._find_neighbours(key, time, first)
        new = NewEvents(np.arange(first, self.count), klass[order], key, self._limits(time))
        return self._apply(new, self.replayed if replays else self.listed)

    def _find_neighbours(self, key: Ints, time: Ints, first: int) -> Ints:
        """Return of new events, numbered from `first` on, the one before it in its key, -1 unless both are alone.

        An event is alone if no other of its key has its time.
        """
        more = max(self.keys.count, 1) - len(self.last)
        self.last = np.concatenate((self.last, np.full(more, -1, np.int64)))
        order = np.argsort(key, kind="stable")
        keys, times = key[order], time[order]
        changes = np.diff(keys) != 0
        begins, ends = np.append(True, changes), np.append(changes, True)
        is_tied = ~changes & (np.diff(times) == 0)
        alone = ~(np.append(False, is_tied) | np.append(is_tied, False))
        event = np.where(alone, first + order, -1)
        before = np.where(begins, self.last[keys], np.append(-1, event[:-1]))
        self.last[keys[ends]] = event[ends]
        found = np.empty(len(order), np.int64)
        found[order] = np.where(alone, before, -1)
        return found

    def _append_values(self, events: pa.Table, klass: NDArray[np.int32], order: Ints, first: int) -> None:
        """Compute what conditions read of new events, which are some of the rows, in this order.

        Raises `NumbersTooLarge` where whole numbers that are compared as floats are not the same as these.
        """
        ints, known, floats, _ = self.values
        is_ordered = len(order) == len(events) and bool((order == np.arange(len(order))).all())
        rows = None if is_ordered else pa.array(order)

        @cache
        def read(name: str) -> pa.Array:
            column = read_column(events, name)
            return column if rows is None else column.take(rows)

        planned = self.columns
        ends: dict[Key, tuple[int, int]] = {}
        for key in {**planned.ints, **planned.floats}:
            expression, symbols = key
            at: Any = slice(first, first + len(order))
            own: pa.Array | None = None
            if symbols:
                wanted = np.array([not symbols.isdisjoint(found) for found in self.encoder.classes], np.bool_)
                chosen = np.flatnonzero(wanted[klass[order]])
                at, own = first + chosen, pa.array(chosen)

            def read_own(attribute: Attribute, own: pa.Array | None = own) -> pa.Array:
                column = read(attribute.name)
                return column if own is None else column.take(own)

            array = evaluate(expression, read_own, len(order) if own is None else len(own))
            if pa.types.is_floating(array.type) or pa.types.is_null(array.type):
                floats[planned.floats[key], at] = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
                continue
            values = self._as_ints(array)
            valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else True
            ends[key] = int(values.min(initial=0)), int(values.max(initial=0))
            if key in planned.ints:
                ints[planned.ints[key], at], known[planned.ints[key], at] = values, valid
            if key in planned.floats:
                floats[planned.floats[key], at] = np.where(valid, values, np.nan)
        inexact = frozenset(asked for asked in planned.exact if not is_exact(*ends[asked[0]], *asked[1:]))
        if inexact:
            raise NumbersTooLarge(inexact)

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

    def _apply(self, new: NewEvents, lists: NDArray[np.bool_]) -> list[FoundMatches]:
        found: list[FoundMatches] = []
        assert self.classes is not None
        at = 0
        while True:
            at, status = feed_events(
                self.plan, self.classes, new, at, self._data, self.store, self.scratch, self.output, lists
            )
            if status != DONE and status != BAD_NUMBER and status != NO_OUTPUT:
                self.make_room(new.limits[:, at])
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
        return EventData(self.time, self.neighbour, self.values)

    def make_room(self, limits: Ints) -> None:
        """Drop the rows that have left their windows, and make room for as many again as are left. O(rows)."""
        size = len(self.store.rows)
        live = count_live_rows(self.store, np.ascontiguousarray(limits[self.plan.nodes.span]))
        if 2 * live > size or live == self.store.counts[TOP]:
            row = (self.store.rows.nbytes + self.store.table.nbytes) // size
            size = max(4 * live, 2 * size)
            if size * row > self.program.options.memory_bytes:
                raise TooManyInstances
        self._compact(size, limits)

    def _compact(self, rows: int, limits: Ints) -> None:
        """Drop the rows that have left their windows, and let there be room for so many."""
        target = create_store(rows, self.width, self.most_indexes, max(int(self.store.counts[ENTRIES]), FIRST_ROWS))
        target.counts[WORK] = self.store.counts[WORK]
        own = np.ascontiguousarray(limits[self.plan.nodes.span])
        compact(self.store, target, self.plan.indexes, self.values, own)
        self.store = target

    def forget(self, watermark: int, kept: NDArray[np.bool_]) -> None:
        """Forget events that have left all windows, once they are half of all, as only some of the retained rows are
        kept. O(events).
        """
        place = np.cumsum(kept) - 1
        self.rows[: self.count] = place[self.rows[: self.count]]
        self.taken.forget(watermark, {each.query.number: each.query.span for each in self.planned})
        limits = self._limits(np.array([watermark]))[:, 0]
        gone = int(np.searchsorted(self.time[: self.count], limits.min(initial=watermark)))
        if 2 * gone < self.count:
            return
        self._compact(len(self.store.rows), limits)
        self.store.rows[: self.store.counts[TOP], END] -= gone
        self.store.rows[: self.store.counts[TOP], self.store.items :] -= gone
        self.count -= gone
        self.dropped += gone
        kept_events = slice(gone, gone + self.count)
        self.time[: self.count] = self.time[kept_events]
        self.rows[: self.count] = self.rows[kept_events].copy()
        self.neighbour[: self.count] = self.neighbour[kept_events] - gone
        self.last -= gone
        self.event_columns.forget(gone, self.count)
        for part in self.values[:3]:
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
        found: Sequence[FoundMatches],
        take: Callable[[Ints], pa.Table],
        bounds: Bounds,
        start_times: Mapping[int, int],
    ) -> Iterator[tuple[pa.Table, str | None]]:
        """Yield tables of the rows of matches, or of what these contribute to aggregates, each with the name of its
        query if a limit cut it short.

        `take` returns the retained rows at some places, in ascending order.
        """
        if not found:
            return
        output = _concat_outputs(found)
        matches = Matches(output.begin, output.position, output.event, output.key)
        counts = np.bincount(output.reader, minlength=len(self.readers))
        is_plain = self.plain_results.list_readers(counts, start_times)[output.reader]
        if is_plain.any():
            yield from self.plain_results.build(matches, output.reader, is_plain, take, bounds[0])
        if is_plain.all():
            return
        rows = np.flatnonzero(~is_plain)
        batch, matches = self._read_events(_take_matches(matches, rows), take)
        owner = output.reader[rows]
        own: dict[int, list[tuple[int, Matches]]] = {}
        for number in np.unique(owner).tolist():
            reader: Reader = self.readers[number]
            chosen = _take_matches(matches, np.flatnonzero(owner == number))
            own.setdefault(reader.query, []).append((reader.alternative, chosen))
        for query, alternatives in own.items():
            planned = self.planned[query]
            run = _FedQueryRun(batch, planned, bounds, start_times.get(planned.query.number))
            tables = [table for number, each in alternatives for table in run.add_matches(number, each)]
            tables += run.finish()
            name = planned.query.query.name if run.is_truncated else None
            for table in tables:
                yield table, name

    def _read_events(self, found: Matches, take: Callable[[Ints], pa.Table]) -> tuple[_FoundEvents, Matches]:
        """Return the events of matches, and the matches with the numbers that these have there."""
        events, at = np.unique(found.event, return_inverse=True)
        return _FoundEvents(self, events, take), found._replace(event=at.reshape(-1))

    def residual_rules(self, planned: PlannedQuery, alternative: int) -> Any:
        """Return what is tested on whole matches of an alternative, and the conditions it is tested by."""
        place = planned.query.number, alternative
        if place not in self.rules:
            codes = self.codes[planned.query.number]
            self.rules[place] = (
                build_rules(planned.query, planned.alternatives[alternative], codes, [frozenset()]),
                build_query_conditions(planned.query, codes, self.plan.code),
            )
        return self.rules[place]


class _PlainResults:
    """Builder of the rows of all queries at once that return nothing but single events.

    `shows` tells by label of RETURN, reader and position which event it shows. A reader has a `query`, whose AFTER
    MATCH SKIP is `skips`, in windows of `within` that `slide`.
    """

    def __init__(self, fed: FedMatches) -> None:
        self.fed = fed
        self.program = fed.program
        queries = [fed.planned[reader.query].query for reader in fed.readers]
        self.names = pa.array([query.query.name for query in queries], pa.string())
        self.query = np.array([query.number for query in queries], np.int64)
        self.within = np.array([query.span.within for query in queries], np.int64)
        self.slide = np.array([query.span.slide for query in queries], np.int64)
        self.skips = {
            kind: np.array([query.query.after_match is kind for query in queries], np.bool_)
            for kind in {query.query.after_match for query in queries} - {AfterMatch.ALL}
        }
        most = max([1, *(len(query.positions.events) for query in queries)])
        self.is_plain = np.zeros(len(queries), np.bool_)
        shows: dict[str, NDArray[np.bool_]] = {}
        self.groups: dict[tuple[str, str], NDArray[np.bool_]] = {}  # by column and attribute
        schema = self.program.result_schema
        for at, query in enumerate(queries):
            if query.is_ambiguous or query.query.is_aggregate:
                continue
            names = self.program.column_names[query.number]
            columns = [(names[label], what) for label, what in match_columns(query)]
            residual = any(each.residual for each in fed.planned[fed.readers[at].query].alternatives)
            self.is_plain[at] = not residual and all(
                isinstance(what, frozenset)
                and max_bindings(query.positions.graph, what) <= 1
                and pa.types.is_struct(schema.field(label).type)
                for label, what in columns
            )
            if self.is_plain[at]:
                for name in query.query.group_by:
                    self.groups.setdefault((names[name], name), np.zeros(len(queries), np.bool_))[at] = True
                for label, what in columns:
                    shown = shows.setdefault(label, np.zeros((len(queries), most), np.bool_))
                    shown[at, sorted(what) if isinstance(what, frozenset) else []] = True
        self.labels = list(shows)
        self.shows = np.array(list(shows.values()), np.bool_).reshape(len(shows), len(queries), most)

    def list_readers(self, counts: Ints, start_times: Mapping[int, int]) -> NDArray[np.bool_]:
        """Return whose matches to build: where there are no more than may be, and all windows are reported."""
        limit = self.program.options.match_limit
        chosen = self.is_plain
        if limit is not None:
            chosen = chosen & (np.bincount(self.query, counts)[self.query] <= limit)
        if start_times:
            chosen = chosen & ~np.isin(self.query, list(start_times))
        return chosen

    def build(
        self,
        found: Matches,
        reader: NDArray[np.int32],
        chosen: NDArray[np.bool_],
        take: Callable[[Ints], pa.Table],
        since: int,
    ) -> Iterator[tuple[pa.Table, None]]:
        """Yield the rows of some matches, of those that end since a time."""
        for kind, skips in self.skips.items():
            rows = np.flatnonzero(chosen & skips[reader])
            if len(rows):
                chosen = chosen.copy()
                chosen[rows] = self._find_taken(kind, _take_matches(found, rows), reader[rows], since)
        if not chosen.all():
            rows = np.flatnonzero(chosen)
            found, reader = _take_matches(found, rows), reader[rows]
        if len(reader):
            yield self._build_rows(found, reader, take), None

    def _find_taken(self, kind: AfterMatch, found: Matches, reader: NDArray[np.int32], since: int) -> Any:
        """Return which matches AFTER MATCH SKIP takes in some window, of those that end since a time."""
        fed, query, within, slide = self.fed, self.query[reader], self.within[reader], self.slide[reader]
        times = fed.time[found.event]
        first, last = (ends.reduceat(times, found.begin[:-1]) for ends in (np.minimum, np.maximum))
        match, closes = np.arange(len(reader)), np.zeros(len(reader), np.int64)
        if slide.any():
            step = np.maximum(slide, 1)
            earliest = (last - within) // step + 1
            counts = np.where(slide > 0, first // step - earliest + 1, 1)
            match = np.repeat(match, counts)
            closes = np.where(slide[match] > 0, expand_ranges(earliest, counts) * slide[match] + within[match], 0)
        events: Ints | int = 0
        if kind is AfterMatch.TO_NEXT_EVENT:
            events = fed.dropped + first_events(found, fed.time)[match]
        numbers = fed.taken.number(query[match], found.key[match], closes, events)
        taken = np.zeros(len(reader), np.bool_)
        taken[match[fed.taken.take(kind, found, fed.time, match, numbers)]] = True
        return taken & (last >= since)

    def _build_rows(self, found: Matches, reader: NDArray[np.int32], take: Callable[[Ints], pa.Table]) -> pa.Table:
        """Build the rows of matches of some readers; the events of all labels are read at once."""
        schema, size = self.program.schema, len(reader)
        times = self.fed.time[found.event]
        owner = np.repeat(np.arange(size), np.diff(found.begin))
        columns: dict[str, pa.Array] = {
            "query": self.names.take(pa.array(reader)),
            "start": schema.from_microseconds(np.minimum.reduceat(times, found.begin[:-1])),
            "end": schema.from_microseconds(np.maximum.reduceat(times, found.begin[:-1])),
        }
        for (column, name), grouped in self.groups.items():
            columns[column] = self.fed.keys.columns[name].take(pa.array(found.key, mask=~grouped[reader]))
        label, entry = np.nonzero(self.shows[:, reader[owner], found.position])
        cell = label * size + owner[entry]
        event, missing = np.full(len(self.labels) * size, found.event[0]), np.ones(len(self.labels) * size, np.bool_)
        event[cell], missing[cell] = found.event[entry], False
        names = schema.own_columns.names
        arrays = self._read_columns(names, event, take)
        shown = pa.StructArray.from_arrays(arrays, names, mask=pa.array(missing) if missing.any() else None)
        columns |= {name: shown.slice(at * size, size) for at, name in enumerate(self.labels)}
        return as_result_rows(columns, self.program.result_schema, size)

    def _read_columns(self, names: Sequence[str], events: Ints, take: Callable[[Ints], pa.Table]) -> list[pa.Array]:
        """Return columns of some events."""
        known = self.fed.event_columns
        if known.names.issuperset(names):
            return [known.read(name, events) for name in names]
        places, at = np.unique(self.fed.rows[events], return_inverse=True)
        rows, own = pa.array(at.reshape(-1)), DecodedColumns(take(places))
        return [known.read(name, events) if name in known.names else own[name].take(rows) for name in names]


class _FoundEvents:
    """The events of new matches, numbered anew, as what runs of queries read."""

    def __init__(self, fed: FedMatches, events: Ints, take: Callable[[Ints], pa.Table]) -> None:
        self.fed = fed
        self.program = fed.program
        self.codes: Mapping[int, QueryCode] = fed.codes
        self.names = fed.dropped + events  # numbers that hold from one micro-batch to the next
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
            keys=fed.keys.columns,
            enter=np.zeros(0, np.int64),
            leave=np.zeros(0, np.int64),
        )
        self.events = events

    @property
    def plan(self) -> _FoundEvents:
        """What a run asks of the plan: the program, and the codes of queries."""
        return self

    @cached_property
    def event_columns(self) -> DecodedColumns:
        return DecodedColumns(self.rows)

    @cached_property
    def expressions(self) -> CompiledExpressions:
        words = pa.array(list(self.fed.words), pa.string())
        ints, known, floats, constants = self.fed.values
        own = (np.ascontiguousarray(ints[:, self.events]), np.ascontiguousarray(known[:, self.events]))
        values = Values(*own, np.ascontiguousarray(floats[:, self.events]), constants)
        return CompiledExpressions(self.fed.plan.code, self.fed.kinds, values, words)


class _FedFilter:
    """The filter of an alternative whose matches are known but for the conditions on whole matches."""

    has_open_ends = False
    looks_back = False

    def __init__(self, batch: _FoundEvents, planned: PlannedQuery, alternative: int) -> None:
        self.batch, self.query, self.planned = batch, planned.query, planned.alternatives[alternative]
        self.rules, self.conditions = batch.fed.residual_rules(planned, alternative)

    def filter(self, found: Matches) -> Matches:
        """Return the matches that satisfy all conditions, their events in time order."""
        sort_steps(found, self.batch.encoded.time)
        if not self.planned.residual or not len(found.key):
            return found
        none = np.zeros(0, np.int64)
        work = new_match_scratch(len(self.query.slots), int(np.diff(found.begin).max(initial=0)) + 2)
        context = MatchContext(
            self.rules,
            KeyedEvents(np.zeros(1, np.int64), none, none, none, np.zeros(0, np.int32)),
            Absences(np.zeros((1, 1), np.int64), none, none),
            self.conditions,
            self.batch.expressions.values,
            work,
        )
        kept = filter_matches(found, context)
        check_overflow(work.stack, f"query {self.query.query.name}: a whole number in a condition")
        return _take_matches(found, np.flatnonzero(kept))


class _FedQueryRun(QueryRun):
    """Run of one query over matches that are known."""

    def __init__(self, batch: _FoundEvents, planned: PlannedQuery, bounds: Bounds, start_time: int | None) -> None:
        self.batch = batch
        any_batch: Any = batch
        super().__init__(any_batch, planned, batch.event_columns, bounds, start_time)
        self.finds_occurrences = False

    def _filter_of(self, alternative: int) -> Any:
        return _FedFilter(self.batch, self.planned, alternative)

    def _wait(self, match_filter: Any, found: Matches) -> None:
        self._waiting.append((match_filter, found))

    def _take_matches(self, candidates: Sequence[Candidates]) -> Any:
        return take_matches(self.query, candidates, self.encoded, self.batch.fed.taken, self.batch.names)


def _oldest_start(span: WindowSpan, time: Ints) -> Ints:
    """Return the earliest start of a match that ends at each time."""
    return ((time - span.within) // span.slide + 1) * span.slide if span.slide else time - span.within + 1


def _take_matches(found: Matches, rows: Ints) -> Matches:
    begin, entries = take_rows(found.begin, rows)
    return Matches(begin, found.position[entries], found.event[entries], found.key[rows])


def _copy_output(out: FoundMatches) -> FoundMatches:
    found, entries = out.counts.tolist()
    return FoundMatches(
        out.reader[:found].copy(),
        out.key[:found].copy(),
        out.begin[: found + 1].copy(),
        out.position[:entries].copy(),
        out.event[:entries].copy(),
        out.counts.copy(),
    )


def _concat_outputs(parts: Sequence[FoundMatches]) -> FoundMatches:
    if len(parts) == 1:
        return parts[0]
    begins, entries = [np.zeros(1, np.int64)], 0
    for part in parts:
        begins.append(entries + part.begin[1:])
        entries += len(part.event)
    reader, key, _, position, event, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
    return FoundMatches(reader, key, np.concatenate(begins), position, event, counts)


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


def _enlarge(array: NDArray[Any], size: int, rows: int | None = None) -> Any:
    """Return an array with room for `size` values, or rows of them, the first of which are as before."""
    shape = (size,) if rows is None else (rows, size)
    larger = np.zeros(shape, array.dtype)
    larger[..., : array.shape[-1]] = array if rows is None or len(array) == rows else 0
    return larger
