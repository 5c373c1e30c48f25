"""Run a branch of detection queries over a table of events: plan, then find matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect import aggregate
from motet.engine.detect.code import ExpressionCompiler
from motet.engine.detect.instances import NO_BOUND, UNLIMITED, MemoryBudget, MemoryLimitReached, NodeRunner
from motet.engine.detect.match_filter import (
    MatchFilter,
    compile_conditions,
    concat_matches,
    mask_matches,
    match_identities,
    match_times,
    take_matches,
)
from motet.engine.detect.match_limit import MatchLimit
from motet.engine.detect.planner import BranchPlanner
from motet.engine.detect.program import DetectBranch
from motet.engine.detect.results import MatchTableBuilder, decode_columns
from motet.engine.detect.tables import compile_tests
from motet.engine.detect.values import EventColumns
from motet.engine.detect.windows import compute_oldest_starts, compute_widest_starts
from motet.engine.encode import EncodedEvents, Ints, encode
from motet.engine.metrics import BranchMetrics
from motet.engine.program import Program
from motet.errors import RunError
from motet.kernels.expressions import Bytecode
from motet.kernels.instances import MIN_TIME
from motet.kernels.match_filter import Matches
from motet.plans.compiled import WindowSpan
from motet.plans.detect.build import PlannedQuery, list_nodes
from motet.plans.detect.nodes import LeafNode, Node, inputs, topological_order
from motet.plans.detect.query import DetectQuery

MAX_TIME = -int(MIN_TIME)
Bounds = tuple[int, int]
# Contributions to aggregates are put together when there are so many.
CONDENSE_ROWS = 1 << 17


@dataclass
class DetectRun:
    """Run of a branch over one batch of events or many.

    `truncated` collects the queries that were cut short by a limit. The first batch is planned for, unless there is a
    `planning` that goes on from run to run and replans when events change.
    """

    program: Program
    branch: DetectBranch
    truncated: set[str] = field(default_factory=set)
    start_times: Mapping[int, int] = field(default_factory=dict)
    planning: BranchPlanner | None = None
    observed: BranchMetrics | None = None

    @cached_property
    def plans(self) -> BranchPlanner:
        """The planner of the batches."""
        return self.planning or BranchPlanner(self.branch, self.program.options)

    def process(self, events: pa.Table, emit_from: int | None = None, emit_to: int | None = None) -> Iterator[pa.Table]:
        """Yield tables of results, or of contributions to aggregates (with a `#query` column).

        With bounds, only matches that become certain in [emit_from, emit_to).
        """
        bounds = (int(MIN_TIME) if emit_from is None else emit_from, MAX_TIME if emit_to is None else emit_to)
        program, branch = self.program, self.branch
        encoded = encode(events, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)
        if not len(encoded.time):
            return
        planned = self.plans.plan_for(encoded)
        session = _BatchRun(self, encoded, planned, events, bounds)
        if self.observed is not None:
            self.observed.count_events(encoded, emit_from, emit_to)
            self.observed.planned, self.observed.chosen = planned, self.plans.chosen
        last_reader = {node: at for at, each in enumerate(planned) for node in nodes_of(each)}
        for at, each in enumerate(planned):
            yield from session.run(each)
            for node in nodes_of(each):
                if last_reader[node] == at:
                    session.runner.release(node)
        if self.observed is not None:
            self.observed.instance_counts.update(session.runner.instance_counts)


def finish_results(
    pieces: Iterable[pa.Table], program: Program, emit_from: int | None = None, emit_to: int | None = None
) -> Iterator[pa.Table]:
    """Yield results from the tables of a run: matches as they come, aggregates from all their contributions."""
    bounds = (int(MIN_TIME) if emit_from is None else emit_from, MAX_TIME if emit_to is None else emit_to)
    waiting: list[pa.Table] = []
    for piece in pieces:
        if aggregate.QUERY in piece.column_names:
            waiting.append(piece)
        else:
            yield piece
    if not waiting:
        return
    rows = pa.concat_tables(waiting)
    for number in pc.unique(rows.column(aggregate.QUERY)).to_pylist():
        own = rows.filter(pc.equal(rows.column(aggregate.QUERY), number))
        query = program.detect_queries[number]
        due = due_range(query, bounds)
        yield aggregate.build_results(query, own, program.schema, program.result_schema, program.options.counts, due)


def due_range(query: DetectQuery, bounds: Bounds) -> Bounds:
    """Return the times of results that become certain when the watermark moves from one bound to the other.

    A window that ends at the bound is complete; an event at the bound may still have others beside it.
    """
    return (bounds[0] + 1, bounds[1] + 1) if query.reports_at_close else bounds


class _BatchRun:
    """Run over one batch of encoded events."""

    def __init__(
        self, run: DetectRun, encoded: EncodedEvents, planned: Sequence[PlannedQuery], events: pa.Table, bounds: Bounds
    ) -> None:
        self.detect = run
        self.program = run.program
        self.encoded = encoded
        self.decode_columns = decode_columns(events)
        self.bounds = bounds
        spans = _node_spans(planned)
        nodes = list_nodes(planned)
        compiler = ExpressionCompiler(EventColumns(encoded))
        tests = {node: compile_tests(node, compiler) for node in nodes}
        self.numbers = {each.query.number: compile_conditions(each.query, compiler) for each in planned}
        values, self.words = compiler.columns.finish()
        self.code: Bytecode = compiler.finish(self.words)
        self.kinds: list[str] = list(compiler.kinds)
        every = {frozenset(found) for found in spans.values()}
        oldest = {found: compute_widest_starts(found, encoded) for found in every}
        absent = tuple(dict.fromkeys(symbol for each in planned for symbol in each.query.absent))
        options = self.program.options
        self.runner = NodeRunner(
            encoded=encoded,
            values=values,
            code=self.code,
            tests=tests,
            oldest={node: oldest[frozenset(found)] for node, found in spans.items()},
            absent=absent,
            budget=MemoryBudget(options.memory_bytes, truncate=options.on_limit == "truncate"),
        )
        self.spans = spans
        self.readers = _count_readers(planned)

    def run(self, planned: PlannedQuery) -> Iterator[pa.Table]:
        """Yield the tables of one query."""
        try:
            yield from self._run(planned.query, planned)
        except MemoryLimitReached:
            limit = self.program.options.memory_bytes
            self._over_budget(planned.query, f"parts of matches need more than {limit / 2**20:,.0f} MiB")
        if self.runner.budget.truncated.intersection(nodes_of(planned)):
            self.detect.truncated.add(planned.query.query.name)

    def _over_budget(self, query: DetectQuery, what: str) -> None:
        """Raise an error, or mark the query as truncated."""
        if self.program.options.on_limit == "error":
            raise RunError(
                f"query {query.query.name}: {what} "
                "(use a smaller window or more conditions, raise the limit, or let it truncate)"
            )
        self.detect.truncated.add(query.query.name)

    def _run(self, query: DetectQuery, planned: PlannedQuery) -> Iterator[pa.Table]:
        numbers = self.numbers[query.number]
        rows = MatchTableBuilder(
            query, numbers, self.code, self.kinds, self.words, self.runner, self.decode_columns,
            self.program.schema, self.program.result_schema,
        )  # fmt: skip
        limit = self.program.options.match_limit
        quota = MatchLimit(limit, query.span)
        seen: set[bytes] | None = set() if query.is_ambiguous else None
        waiting: list[tuple[MatchFilter, Matches]] = []
        added: list[pa.Table] = []
        for reading in planned.alternatives:
            allows_more = isinstance(reading.root, LeafNode) or self.spans[reading.root] != {query.span}
            judge = MatchFilter(
                query, reading, numbers, self.code, self.runner,
                compute_oldest_starts(query.span, self.encoded) if allows_more else None,
            )  # fmt: skip
            # One more than may be is enough to know; but where matches are judged later, any may be the one to keep.
            most = UNLIMITED if limit is None or judge.needed or judge.has_open_ends else limit + 1
            shared = self.readers[reading.root] > 1
            for block in self.runner.match_blocks(
                reading.root, reading.positions, shared, most, self._earliest_end(query), quota
            ):
                found = judge.keep(block)
                if not len(found.key):
                    continue
                kept = quota.admit(found.key, match_times(found, self.encoded)[1])
                if kept is not None:
                    self._over_budget(query, f"more than {limit:,} matches in one window")
                    found = mask_matches(found, kept)
                    if not len(found.key):
                        continue
                if not query.query.is_aggregate:
                    yield from self._matches(query, rows, judge, found, seen)
                elif query.is_ambiguous:  # which of its readings a match counts by is known when all are there
                    waiting.append((judge, found))
                    if not self.runner.budget.reserve(sum(part.nbytes for part in found), reading.root):
                        break
                else:
                    added = self._merge_when_many(query, [*added, self._contributions(query, [(judge, found)])])
        if waiting:
            yield self._contributions(query, waiting)
        yield from added

    def _earliest_end(self, query: DetectQuery) -> int:
        """Return the earliest end of a match that is still to be reported; aggregates need all."""
        if query.query.is_aggregate or self.bounds[0] == int(MIN_TIME):
            return NO_BOUND
        return self.bounds[0] - (query.span.within if query.needs_window_close else 0)

    # Matches

    def _matches(
        self, query: DetectQuery, rows: MatchTableBuilder, judge: MatchFilter, found: Matches, seen: set[bytes] | None
    ) -> Iterator[pa.Table]:
        first, last = match_times(found, self.encoded)
        certain = _certain_times(query, first, last)
        since, until = due_range(query, self.bounds)
        keep = (since <= certain) & (certain < until)
        if judge.has_open_ends or query.number in self.detect.start_times:
            which, clear, _, _ = self._windows(query, judge, found)
            shown = np.zeros(len(found.key), np.bool_)
            shown[which[clear]] = True
            keep &= shown
        found = mask_matches(found, keep)
        if seen is not None and len(found.key):
            new = []
            for at, identity in enumerate(match_identities(found)):
                if identity not in seen:
                    seen.add(identity)
                    new.append(at)
            found = take_matches(found, np.array(new, np.int64))
        if len(found.key):
            first, last = match_times(found, self.encoded)
            yield rows.table(take_matches(found, np.lexsort((last, first))))

    def _windows(self, query: DetectQuery, judge: MatchFilter, found: Matches) -> tuple[Ints, Any, Ints, Ints]:
        """Each match with each window that holds it: its number, whether the window is to be reported (it was seen
        from its beginning, and nothing absent shows), the time since which nothing shows before the match, and the
        window's end.
        """
        span = query.span
        first, last = match_times(found, self.encoded)
        which = np.arange(len(found.key))
        if span.within == 0 or span.ranked:
            opens, closes = np.full(len(which), MIN_TIME), np.full(len(which), MAX_TIME)
            never_after, begins = opens, last
        elif span.slide:
            earliest = (last - span.within) // span.slide + 1
            counts = first // span.slide - earliest + 1
            which = np.repeat(which, counts)
            number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            start = (np.repeat(earliest, counts) + number) * span.slide
            opens, closes = start - 1, start + span.within
            never_after, begins = opens, start
        else:
            opens, closes = last - span.within, first + span.within
            never_after, begins = first - 1, last - span.within
            if query.needs_window_close and not judge.looks_back:
                begins = first
        seen = begins >= self.detect.start_times.get(query.number, int(MIN_TIME))
        if not judge.has_open_ends:
            return which, seen, np.full(len(which), MIN_TIME), closes
        clear, since = judge.ends(found, which, closes, never_after, closes)
        return which, clear & seen & (since <= opens), np.where(clear, since, MAX_TIME), closes

    # Aggregates

    def _merge_when_many(self, query: DetectQuery, tables: list[pa.Table]) -> list[pa.Table]:
        """Merge contributions of one query once there are many."""
        rows = sum(map(len, tables))
        if len(tables) < 2 or rows < max(CONDENSE_ROWS, 2 * len(tables[0])):
            return tables
        return [aggregate.merge_contributions(query, pa.concat_tables(tables))]

    def _contributions(self, query: DetectQuery, waiting: Sequence[tuple[MatchFilter, Matches]]) -> pa.Table:
        """Return what the matches of a query add in each window."""
        span = query.span
        parts, whiches, times = [], [], []
        for judge, found in waiting:
            which, clear, since, closes = self._windows(query, judge, found)
            first, last = match_times(found, self.encoded)
            if span.is_continuous and not query.needs_window_close:
                # A NOT at the beginning looks back from the report: the match counts once what it forbids has expired.
                begin = np.where(since == MIN_TIME, MIN_TIME, since + span.within) if not span.ranked else since
                counts = since < MAX_TIME
                own = {
                    aggregate.END: last,
                    aggregate.FROM: begin,
                    aggregate.UNTIL: self._expiry_times(span, found, first),
                    aggregate.DUE: clear,
                }
            else:
                counts = clear
                own = {aggregate.END: closes if span.within else np.zeros(len(which), np.int64)}
            parts.append(found)
            whiches.append(which[counts])
            times.append({name: values[counts] for name, values in own.items()})
        found = concat_matches(parts)
        sizes = np.cumsum([0, *(len(part.key) for part in parts)])
        which = np.concatenate([own + start for own, start in zip(whiches, sizes, strict=False)])
        times_of_all = {name: np.concatenate([each[name] for each in times]) for name in times[0]}
        if query.is_ambiguous:
            which, times_of_all = _drop_duplicate_readings(found, which, times_of_all)
        schema = self.program.contribution_schema
        return aggregate.build_contributions(query, found, which, times_of_all, self.runner, schema)

    def _expiry_times(self, span: WindowSpan, found: Matches, first: Ints) -> Ints:
        """Return when each match expires."""
        if not span.ranked:
            return first + span.within
        encoded = self.encoded
        event = found.event[found.begin[:-1]]
        base, end = encoded.offsets[found.key], encoded.offsets[found.key + 1]
        at = base + encoded.enter[event] + span.within - 1
        return np.where(at < end, encoded.time[np.minimum(at, len(encoded.time) - 1)], MAX_TIME)


def _drop_duplicate_readings(found: Matches, which: Ints, times: dict[str, Any]) -> tuple[Ints, dict[str, Any]]:
    """Keep, of the alternatives that find one match in one window, the one by which it counts earliest."""
    names = match_identities(found)
    best: dict[tuple[bytes, int], int] = {}
    since = times.get(aggregate.FROM)
    for at, match in enumerate(which.tolist()):
        key = (names[match], int(times[aggregate.END][at]))
        if key not in best or (since is not None and since[at] < since[best[key]]):
            best[key] = at
    kept = np.array(sorted(best.values()), np.int64)
    return which[kept], {name: values[kept] for name, values in times.items()}


def _certain_times(query: DetectQuery, first: Ints, last: Ints) -> Ints:
    """Return when each match is known to be one."""
    span = query.span
    if not query.needs_window_close or span.within == 0:
        return last
    return first // span.slide * span.slide + span.within if span.slide else first + span.within


def nodes_of(planned: PlannedQuery) -> list[Node]:
    """Return the nodes that a query reads, directly or not."""
    return list_nodes([planned])


def _node_spans(planned: Sequence[PlannedQuery]) -> dict[Node, set[WindowSpan]]:
    """Map each node to the windows it serves."""
    found: dict[Node, set[WindowSpan]] = {}

    def add(node: Node, span: WindowSpan) -> None:
        if span not in found.setdefault(node, set()):
            found[node].add(span)
            for each in inputs(node):
                add(each, span)

    for each in planned:
        for root in each.roots:
            add(root, each.query.span)
    return found


def _count_readers(planned: Sequence[PlannedQuery]) -> dict[Node, int]:
    """Count the readers of each node, queries included."""
    found: dict[Node, int] = {}
    roots = [root for each in planned for root in each.roots]
    for node in topological_order(roots):
        for each in inputs(node):
            found[each] = found.get(each, 0) + 1
    for root in roots:
        found[root] = found.get(root, 0) + 1
    return found
