"""Run a branch of detection queries over tables of events: plan, then find matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from motet.compile import Program
from motet.compile.contributions import QUERY
from motet.compile.detect import DetectBranch
from motet.engine.detect.aggregate import build_results
from motet.engine.detect.batch import Batch
from motet.engine.detect.planner import BranchPlanner
from motet.engine.detect.query_run import QueryRun
from motet.engine.detect.windows import Bounds, due_range
from motet.engine.encode import encode_branch
from motet.engine.metrics import BranchMetrics
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.plans.detect.execution import describe_join_run
from motet.plans.execution import Execution


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

    @cached_property
    def plans(self) -> BranchPlanner:
        """The planner of the batches."""
        return self.planning or BranchPlanner(self.branch, self.program.options)

    def process(self, events: pa.Table, emit_from: int | None = None, emit_to: int | None = None) -> Iterator[pa.Table]:
        """Yield tables of results, or of contributions to aggregates (with a `#query` column).

        With bounds, only matches that become certain in [emit_from, emit_to).
        """
        bounds = _bounds(emit_from, emit_to)
        program, branch = self.program, self.branch
        encoded = encode_branch(program, branch, events)
        if not len(encoded.time):
            return
        planned = self.plans.plan_for(encoded)
        batch = Batch(program, planned, encoded, events)
        self.executed = describe_join_run(planned)
        if self.observed is not None:
            self.observed.count_events(encoded, emit_from, emit_to)
            self.observed.planned, self.observed.chosen = planned, self.plans.chosen
        last_reader = {node: at for at, each in enumerate(planned) for node in each.nodes}
        for at, each in enumerate(planned):
            if self.report is not None:
                self.report(f"finding matches of {each.query.query.name}")
            run = QueryRun(batch, each, bounds, self.start_times.get(each.query.number))
            yield from run.process()
            if run.is_truncated:
                self.truncated.add(each.query.query.name)
            for node in each.nodes:
                if last_reader[node] == at:
                    batch.runner.release(node)
        if self.observed is not None:
            self.observed.instance_counts.update(batch.runner.instance_counts)


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
