"""Runs a branch of detection queries over a table of events: plans by what the events are like, then finds matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect import aggregate
from motet.engine.detect.code import Compiler
from motet.engine.detect.instances import ALWAYS, EVERY, Budget, OutOfRoom, Runner
from motet.engine.detect.judging import (
    Judge,
    chosen,
    compile_conditions,
    first_and_last,
    identities,
    taken,
    together,
)
from motet.engine.detect.planning import Planning
from motet.engine.detect.program import DetectBranch
from motet.engine.detect.quota import Quota
from motet.engine.detect.results import MatchRows, event_columns
from motet.engine.detect.tables import compile_tests
from motet.engine.detect.values import Columns
from motet.engine.detect.windows import oldest_of, widest
from motet.engine.encode import Encoded, Ints, encode
from motet.engine.observed import Observed
from motet.engine.program import Program
from motet.errors import RunError
from motet.kernels.instances import LONG_AGO
from motet.kernels.judge import Matches
from motet.kernels.stack import Code
from motet.plan.compiled import Span
from motet.plan.detect.build import PlannedQuery
from motet.plan.detect.nodes import LeafNode, Node, in_order, inputs
from motet.plan.detect.query import DetectQuery

FOREVER = -int(LONG_AGO)
Bounds = tuple[int, int]
# Contributions to aggregates are put together when there are so many.
CONDENSE_ROWS = 1 << 17


@dataclass
class DetectRun:
    """What a run gives, piece by piece: rows of matches, or contributions to aggregates; and which queries were cut
    short by a limit. It may run over batch after batch: they are planned for once, or by a `planning` that goes on from
    run to run and looks out for changes.

    In a stream, `births` tells since when a query has seen it: only windows that began later are reported.
    """

    program: Program
    branch: DetectBranch
    truncated: set[str] = field(default_factory=set)
    births: Mapping[int, int] = field(default_factory=dict)
    planning: Planning | None = None
    observed: Observed | None = None

    @cached_property
    def plans(self) -> Planning:
        """Where the plan of each batch comes from."""
        return self.planning or Planning(self.branch, self.program.options)

    def pieces(self, events: pa.Table, emit_from: int | None = None, emit_to: int | None = None) -> Iterator[pa.Table]:
        """Tables of the result's columns, or of contributions (they have a `#query` column).

        With bounds, only matches that become certain in [emit_from, emit_to).
        """
        bounds = (int(LONG_AGO) if emit_from is None else emit_from, FOREVER if emit_to is None else emit_to)
        program, branch = self.program, self.branch
        encoded = encode(events, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)
        if not len(encoded.time):
            return
        planned = self.plans.for_events(encoded)
        session = _Session(self, encoded, planned, events, bounds)
        if self.observed is not None:
            self.observed.see(encoded, emit_from, emit_to)
            self.observed.planned, self.observed.chosen = planned, self.plans.chosen
        last_reader = {node: at for at, each in enumerate(planned) for node in nodes_of(each)}
        for at, each in enumerate(planned):
            yield from session.run(each)
            for node in nodes_of(each):
                if last_reader[node] == at:
                    session.runner.release(node)
        if self.observed is not None:
            self.observed.made.update(session.runner.made)


def finished(
    pieces: Iterable[pa.Table], program: Program, emit_from: int | None = None, emit_to: int | None = None
) -> Iterator[pa.Table]:
    """Results from the pieces of a run: matches as they come, aggregates when all of their contributions are there."""
    bounds = (int(LONG_AGO) if emit_from is None else emit_from, FOREVER if emit_to is None else emit_to)
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
        query = program.detected[number]
        due = due_between(query, bounds)
        yield aggregate.results(query, own, program.schema, program.result_schema, program.options.counts, due)


def due_between(query: DetectQuery, bounds: Bounds) -> Bounds:
    """The times of a query's results that are certain once all events before a bound are there, and not before.

    A window that ends at the bound is whole; an event at the bound may still have others beside it.
    """
    return (bounds[0] + 1, bounds[1] + 1) if query.closes else bounds


class _Session:
    """One run over encoded events."""

    def __init__(
        self, run: DetectRun, encoded: Encoded, planned: Sequence[PlannedQuery], events: pa.Table, bounds: Bounds
    ) -> None:
        self.detect = run
        self.program = run.program
        self.encoded = encoded
        self.event_columns = event_columns(events)
        self.bounds = bounds
        spans = _spans(planned)
        nodes = in_order(reading.root for each in planned for reading in each.readings)
        compiler = Compiler(Columns(encoded))
        tests = {node: compile_tests(node, compiler) for node in nodes}
        self.numbers = {each.query.number: compile_conditions(each.query, compiler) for each in planned}
        values, self.words = compiler.columns.finish()
        self.code: Code = compiler.finish(self.words)
        self.kinds: list[str] = list(compiler.kinds)
        every = {frozenset(found) for found in spans.values()}
        oldest = {found: widest(found, encoded) for found in every}
        absent = tuple(dict.fromkeys(symbol for each in planned for symbol in each.query.absent))
        options = self.program.options
        self.runner = Runner(
            encoded=encoded,
            values=values,
            code=self.code,
            tests=tests,
            oldest={node: oldest[frozenset(found)] for node, found in spans.items()},
            absent=absent,
            budget=Budget(options.memory_limit, truncate=options.on_limit == "truncate"),
        )
        self.spans = spans
        self.readers = _readers(planned)

    def run(self, planned: PlannedQuery) -> Iterator[pa.Table]:
        """The pieces of one query."""
        try:
            yield from self._run(planned.query, planned)
        except OutOfRoom:
            limit = self.program.options.memory_limit
            self._over_budget(planned.query, f"parts of matches need more than {limit / 2**20:,.0f} MiB")
        if self.runner.budget.cut.intersection(nodes_of(planned)):
            self.detect.truncated.add(planned.query.query.name)

    def _over_budget(self, query: DetectQuery, what: str) -> None:
        """Stop with an error, or mark the query as cut short."""
        if self.program.options.on_limit == "error":
            raise RunError(
                f"query {query.query.name}: {what} "
                "(use a smaller window or more conditions, raise the limit, or let it truncate)"
            )
        self.detect.truncated.add(query.query.name)

    def _run(self, query: DetectQuery, planned: PlannedQuery) -> Iterator[pa.Table]:
        numbers = self.numbers[query.number]
        rows = MatchRows(
            query, numbers, self.code, self.kinds, self.words, self.runner, self.event_columns,
            self.program.schema, self.program.result_schema,
        )  # fmt: skip
        limit = self.program.options.match_limit
        quota = Quota(limit, query.span)
        seen: set[bytes] | None = set() if query.ambiguous else None
        waiting: list[tuple[Judge, Matches]] = []
        added: list[pa.Table] = []
        for reading in planned.readings:
            allows_more = isinstance(reading.root, LeafNode) or self.spans[reading.root] != {query.span}
            judge = Judge(
                query, reading, numbers, self.code, self.runner,
                oldest_of(query.span, self.encoded) if allows_more else None,
            )  # fmt: skip
            # One more than may be is enough to know; but where matches are judged later, any may be the one to keep.
            most = EVERY if limit is None or judge.needed or judge.has_open_ends else limit + 1
            shared = self.readers[reading.root] > 1
            for block in self.runner.matches(reading.root, reading.positions, shared, most, self._since(query), quota):
                found = judge.keep(block)
                if not len(found.key):
                    continue
                kept = quota.admit(found.key, first_and_last(found, self.encoded)[1])
                if kept is not None:
                    self._over_budget(query, f"more than {limit:,} matches in one window")
                    found = chosen(found, kept)
                    if not len(found.key):
                        continue
                if not query.query.is_aggregate:
                    yield from self._matches(query, rows, judge, found, seen)
                elif query.ambiguous:  # which of its readings a match counts by is known when all are there
                    waiting.append((judge, found))
                    if not self.runner.budget.admits(sum(part.nbytes for part in found), reading.root):
                        break
                else:
                    added = self._condensed(query, [*added, self._contributions(query, [(judge, found)])])
        if waiting:
            yield self._contributions(query, waiting)
        yield from added

    def _since(self, query: DetectQuery) -> int:
        """The earliest end of a match that is still to be reported; aggregates may be over any."""
        if query.query.is_aggregate or self.bounds[0] == int(LONG_AGO):
            return ALWAYS
        return self.bounds[0] - (query.span.within if query.certain_at_close else 0)

    # Matches

    def _matches(
        self, query: DetectQuery, rows: MatchRows, judge: Judge, found: Matches, seen: set[bytes] | None
    ) -> Iterator[pa.Table]:
        first, last = first_and_last(found, self.encoded)
        certain = _certain(query, first, last)
        since, until = due_between(query, self.bounds)
        keep = (since <= certain) & (certain < until)
        if judge.has_open_ends or query.number in self.detect.births:
            which, clear, _, _ = self._windows(query, judge, found)
            shown = np.zeros(len(found.key), np.bool_)
            shown[which[clear]] = True
            keep &= shown
        found = chosen(found, keep)
        if seen is not None and len(found.key):
            new = []
            for at, identity in enumerate(identities(found)):
                if identity not in seen:
                    seen.add(identity)
                    new.append(at)
            found = taken(found, np.array(new, np.int64))
        if len(found.key):
            first, last = first_and_last(found, self.encoded)
            yield rows.table(taken(found, np.lexsort((last, first))))

    def _windows(self, query: DetectQuery, judge: Judge, found: Matches) -> tuple[Ints, Any, Ints, Ints]:
        """Each match with each window that holds it: its number, whether the window is to be reported (it was seen
        from its beginning, and nothing absent shows), the time since which nothing shows before the match, and the
        window's end.
        """
        span = query.span
        first, last = first_and_last(found, self.encoded)
        which = np.arange(len(found.key))
        if span.within == 0 or span.ranked:
            opens, closes = np.full(len(which), LONG_AGO), np.full(len(which), FOREVER)
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
            if query.certain_at_close and not judge.looks_back:
                begins = first
        seen = begins >= self.detect.births.get(query.number, int(LONG_AGO))
        if not judge.has_open_ends:
            return which, seen, np.full(len(which), LONG_AGO), closes
        clear, since = judge.ends(found, which, closes, never_after, closes)
        return which, clear & seen & (since <= opens), np.where(clear, since, FOREVER), closes

    # Aggregates

    def _condensed(self, query: DetectQuery, tables: list[pa.Table]) -> list[pa.Table]:
        """Contributions of one query with those that belong together as one, once there are many."""
        rows = sum(map(len, tables))
        if len(tables) < 2 or rows < max(CONDENSE_ROWS, 2 * len(tables[0])):
            return tables
        return [aggregate.condensed(query, pa.concat_tables(tables))]

    def _contributions(self, query: DetectQuery, waiting: Sequence[tuple[Judge, Matches]]) -> pa.Table:
        """What the matches of a query add, in each window."""
        span = query.span
        parts, whiches, times = [], [], []
        for judge, found in waiting:
            which, clear, since, closes = self._windows(query, judge, found)
            first, last = first_and_last(found, self.encoded)
            if span.continuous and not query.certain_at_close:
                # A NOT at the beginning looks back from the report: the match counts once what it forbids has expired.
                begin = np.where(since == LONG_AGO, LONG_AGO, since + span.within) if not span.ranked else since
                counts = since < FOREVER
                own = {
                    aggregate.END: last,
                    aggregate.FROM: begin,
                    aggregate.UNTIL: self._expiry(span, found, first),
                    aggregate.DUE: clear,
                }
            else:
                counts = clear
                own = {aggregate.END: closes if span.within else np.zeros(len(which), np.int64)}
            parts.append(found)
            whiches.append(which[counts])
            times.append({name: values[counts] for name, values in own.items()})
        found = together(parts)
        sizes = np.cumsum([0, *(len(part.key) for part in parts)])
        which = np.concatenate([own + start for own, start in zip(whiches, sizes, strict=False)])
        together_times = {name: np.concatenate([each[name] for each in times]) for name in times[0]}
        if query.ambiguous:
            which, together_times = _each_once(found, which, together_times)
        schema = self.program.contribution_schema
        return aggregate.contributions(query, found, which, together_times, self.runner, schema)

    def _expiry(self, span: Span, found: Matches, first: Ints) -> Ints:
        """From when on a match does not count any more."""
        if not span.ranked:
            return first + span.within
        encoded = self.encoded
        event = found.event[found.begin[:-1]]
        base, end = encoded.offsets[found.key], encoded.offsets[found.key + 1]
        at = base + encoded.enter[event] + span.within - 1
        return np.where(at < end, encoded.time[np.minimum(at, len(encoded.time) - 1)], FOREVER)


def _each_once(found: Matches, which: Ints, times: dict[str, Any]) -> tuple[Ints, dict[str, Any]]:
    """Of the ways to read one match in one window, the one by which it counts earliest."""
    names = identities(found)
    best: dict[tuple[bytes, int], int] = {}
    since = times.get(aggregate.FROM)
    for at, match in enumerate(which.tolist()):
        key = (names[match], int(times[aggregate.END][at]))
        if key not in best or (since is not None and since[at] < since[best[key]]):
            best[key] = at
    kept = np.array(sorted(best.values()), np.int64)
    return which[kept], {name: values[kept] for name, values in times.items()}


def _certain(query: DetectQuery, first: Ints, last: Ints) -> Ints:
    """When a match is known to be one."""
    span = query.span
    if not query.certain_at_close or span.within == 0:
        return last
    return first // span.slide * span.slide + span.within if span.slide else first + span.within


def nodes_of(planned: PlannedQuery) -> list[Node]:
    """The nodes that a query reads, directly or not."""
    return in_order(reading.root for reading in planned.readings)


def _spans(planned: Sequence[PlannedQuery]) -> dict[Node, set[Span]]:
    """The windows that each node serves."""
    found: dict[Node, set[Span]] = {}

    def add(node: Node, span: Span) -> None:
        if span not in found.setdefault(node, set()):
            found[node].add(span)
            for each in inputs(node):
                add(each, span)

    for each in planned:
        for reading in each.readings:
            add(reading.root, each.query.span)
    return found


def _readers(planned: Sequence[PlannedQuery]) -> dict[Node, int]:
    """How many read each node, queries included."""
    found: dict[Node, int] = {}
    roots = [reading.root for each in planned for reading in each.readings]
    for node in in_order(iter(roots)):
        for each in inputs(node):
            found[each] = found.get(each, 0) + 1
    for root in roots:
        found[root] = found.get(root, 0) + 1
    return found
