"""Run a branch of detection queries over tables of events: plan, then find matches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.compile import Program
from motet.compile.contributions import QUERY
from motet.compile.detect import DetectBranch
from motet.engine.detect.aggregate import build_results
from motet.engine.detect.bindings import match_times
from motet.engine.detect.compiled_plan import CompiledPlan
from motet.engine.detect.instances import MemoryBudget, MemoryLimitReached, PlanRunner
from motet.engine.detect.matches import as_matches
from motet.engine.detect.planner import BranchPlanner
from motet.engine.detect.query_run import QueryRun, earliest_end, limit_error
from motet.engine.detect.results import DecodedColumns, LayoutBuilder
from motet.engine.detect.values import CompiledExpressions, finish_expressions
from motet.engine.detect.windows import Bounds, due_range
from motet.engine.encode import EncodedEvents, Ints, encode_branch
from motet.engine.key_shares import cut_keys, run_in_threads, slice_keys
from motet.engine.metrics import BranchMetrics
from motet.kernels.operators import SinkBounds, take_output
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.plans.detect.build import PlannedQuery
from motet.plans.detect.execution import describe_join_run
from motet.plans.execution import Execution

# Threads take shares of the keys with about so many events: their results are held until those of shares before left.
EVENTS_PER_SHARE = 1 << 17


class TakenRows(NamedTuple):
    """Matches of a query that AFTER MATCH SKIP takes: the row of the first event of each, and the time of the last."""

    query: int
    first: Ints
    last: Ints


@dataclass(frozen=True)
class DetectBatch:
    """A batch of events, or the part of some keys, ready to run: with the values that expressions read, the columns of
    its rows, when results are due, and which sinks' matches need no closer look.
    """

    compiled: CompiledPlan
    encoded: EncodedEvents
    expressions: CompiledExpressions
    columns: DecodedColumns
    bounds: Bounds
    plain: NDArray[np.bool_]
    sink_bounds: SinkBounds

    def slice(self, first: int, last: int) -> DetectBatch:
        """Return the part of the keys from `first` to before `last`."""
        begin, end = self.encoded.offsets[[first, last]].tolist()
        own = slice_keys(self.encoded, first, last)
        return replace(self, encoded=own, expressions=self.expressions.slice_events(begin, end))


@dataclass
class DetectRun:
    """Run of a branch over one batch of events or many.

    `truncated` collects the queries that were cut short by a limit. `start_times` has when a query was added to a
    stream: only windows that began later are reported. The first batch is planned for, unless there is a `planning`
    that goes on from run to run and replans when events change.
    """

    program: Program
    branch: DetectBranch
    truncated: set[str] = field(default_factory=set)
    start_times: Mapping[int, int] = field(default_factory=dict)
    planning: BranchPlanner | None = None
    observed: BranchMetrics | None = None
    report: Callable[[str], None] | None = None  # is told what is done
    executed: Execution | None = None
    threads: int = 1  # among how many the keys of a batch are split
    taken: list[TakenRows] = field(default_factory=list)  # by AFTER MATCH SKIP

    @cached_property
    def plans(self) -> BranchPlanner:
        """The planner of the batches."""
        return self.planning or BranchPlanner(self.branch, self.program.options)

    def process(self, events: pa.Table, emit_from: int | None = None, emit_to: int | None = None) -> Iterator[pa.Table]:
        """Yield tables of results, or of contributions to aggregates (with a `#query` column).

        With bounds, only matches that become certain in [emit_from, emit_to).
        """
        program, branch = self.program, self.branch
        encoded = encode_branch(program, branch, events)
        if not len(encoded.time):
            return
        planned = self.plans.plan_for(encoded)
        compiled, columns = self.plans.compile(program, encoded)
        self.executed = describe_join_run(planned)
        if self.observed is not None:
            self.observed.count_events(encoded, emit_from, emit_to)
            self.observed.planned, self.observed.chosen = planned, self.plans.chosen
        if self.report is not None:
            names = [each.query.query.name for each in planned]
            more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
            self.report(f"finding matches of {', '.join(names[:3])}{more}")
        bounds = _bounds(emit_from, emit_to)
        plain = self._find_plain_sinks(compiled)
        batch = DetectBatch(
            compiled,
            encoded,
            finish_expressions(compiled.compiler, columns),
            DecodedColumns(events),
            bounds,
            plain,
            _sink_bounds(compiled, bounds, plain),
        )
        yield from self._time_rows(self._run_shares(batch))

    def _time_rows(self, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield tables, and tell the planner how long it took to make them."""
        seconds, began = 0.0, time.thread_time()
        for each in rows:
            seconds += time.thread_time() - began
            yield each
            began = time.thread_time()
        self.plans.record_run(seconds + time.thread_time() - began)

    def _run_shares(self, batch: DetectBatch) -> Iterator[pa.Table]:
        """Yield the rows of a batch: of all keys as they are found, or of shares of them, in order, that threads run.

        Where a run is to go on with what fits in memory, that must not depend on threads.
        """
        options = self.program.options
        size, is_truncated = options.memory_bytes, options.on_limit == "truncate"
        threads = 1 if is_truncated else self.threads
        shares = max(threads, len(batch.encoded.time) // EVENTS_PER_SHARE) if threads > 1 else 1
        cuts = cut_keys(batch.encoded.offsets, shares)
        if len(cuts) == 2:
            yield from self._run_share(batch, MemoryBudget(size, is_truncated), self.report)
            return

        def run(share: tuple[int, int]) -> list[pa.Table]:
            return list(self._run_share(batch.slice(*share), MemoryBudget(size // threads, is_truncated)))

        pairs = list(pairwise(cuts))
        for share, found in zip(pairs, run_in_threads(run, pairs, threads), strict=True):
            try:
                yield from found.result()
            except MemoryLimitReached:  # of a thread's part
                yield from self._run_share(batch.slice(*share), MemoryBudget(size, is_truncated))

    def _run_share(
        self, batch: DetectBatch, budget: MemoryBudget, report: Callable[[str], None] | None = None
    ) -> Iterator[pa.Table]:
        runner = PlanRunner(batch.compiled, batch.encoded, batch.expressions, batch.sink_bounds, budget)
        try:
            yield from self._list_rows(runner, batch, report)
        except MemoryLimitReached as error:
            if budget.most < self.program.options.memory_bytes:
                raise
            (first, *_) = batch.compiled.queries_of(error.node)
            raise limit_error(first.query, f"parts of matches need more than {budget.most / 2**20:,.0f} MiB") from None
        if budget.truncated:
            cut = [each for each in batch.compiled.planned if not budget.truncated.isdisjoint(each.nodes)]
            self.truncated.update(each.query.query.name for each in cut)
        if self.observed is not None:
            self.observed.instance_counts.update(runner.instance_counts)

    def _find_plain_sinks(self, compiled: CompiledPlan) -> NDArray[np.bool_]:
        """Return which sinks' matches need no closer look."""
        found = compiled.plain_sinks.layout >= 0
        if self.start_times:
            added = [sink.planned.query.number in self.start_times for sink in compiled.sinks]
            found &= ~np.array(added, np.bool_)
        return found

    def _list_rows(
        self, runner: PlanRunner, batch: DetectBatch, report: Callable[[str], None] | None
    ) -> Iterator[pa.Table]:
        """Yield rows as operators find matches, and contributions to aggregates after all of them."""
        plan, plain = runner.plan, batch.plain
        builder = LayoutBuilder(runner, batch.columns)
        runs: dict[int, QueryRun] = {}

        def run_of(planned: PlannedQuery) -> QueryRun:
            number = planned.query.number
            if number not in runs:
                runs[number] = QueryRun(runner, planned, batch.columns, batch.bounds, self.start_times.get(number))
            return runs[number]

        for found in runner.run_all():
            if isinstance(found, int):
                for sink in plan.others[found]:
                    if report is not None:
                        report(f"finding matches of {sink.planned.query.query.name}")
                    yield from run_of(sink.planned).list_matches(sink.alternative)
                continue
            is_plain = plain[found.sink]
            if is_plain.any():
                yield from builder.build(found if is_plain.all() else take_output(found, np.flatnonzero(is_plain)))
            for number in np.unique(found.sink[~is_plain]).tolist():
                own, sink = take_output(found, np.flatnonzero(found.sink == number)), plan.sinks[number]
                matches = as_matches(own, sink.planned.alternatives[sink.alternative], runner)
                yield from run_of(sink.planned).add_matches(sink.alternative, matches)
        for run in runs.values():
            yield from run.finish()
            for taken in run.taken:
                _, last = match_times(taken, runner.encoded)
                first = runner.encoded.rows[taken.event[taken.begin[:-1]]]
                self.taken.append(TakenRows(run.query.number, first, last))
            if run.is_truncated:
                self.truncated.add(run.query.query.name)


def _sink_bounds(compiled: CompiledPlan, bounds: Bounds, plain: NDArray[np.bool_]) -> SinkBounds:
    """Return when the matches that each sink wants end: all that a closer look may need, or just those that are due."""
    since = [earliest_end(sink.planned.query, bounds) for sink in compiled.sinks]
    until = np.where(plain, bounds[1], MAX_TIME)
    return SinkBounds(np.array(since, np.int64), until.astype(np.int64))


def finish_results(
    pieces: Iterable[pa.Table], program: Program, emit_from: int | None = None, emit_to: int | None = None
) -> Iterator[pa.Table]:
    """Yield results from the tables of a run: matches as they come, aggregates from all their contributions."""
    waiting: list[pa.Table] = []
    for piece in pieces:
        if QUERY in piece.column_names:
            waiting.append(piece)
        else:
            yield piece
    if not waiting:
        return
    rows = pa.concat_tables(waiting)
    for number in pc.unique(rows.column(QUERY)).to_pylist():
        own = rows.filter(pc.equal(rows.column(QUERY), number))
        query = program.detect_queries[number]
        yield build_results(query, own, program, due_range(query, _bounds(emit_from, emit_to)))


def _bounds(emit_from: int | None, emit_to: int | None) -> Bounds:
    return int(MIN_TIME) if emit_from is None else emit_from, int(MAX_TIME) if emit_to is None else emit_to
