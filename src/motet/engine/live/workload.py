"""Run a workload continuously in this process: events in, final results out; queries and plan may change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from motet.compile import Program, compile_workload
from motet.engine.live.aggregate import AggregateOperator
from motet.engine.live.rows import ReadRows
from motet.engine.live.stream import FeedResult, Stream
from motet.engine.replan import WORD_COST, PlanChange, Replanner, ReplanPolicy, add_queries, remove_queries
from motet.errors import DataError, MotetError, did_you_mean
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.model.query import Query, Workload
from motet.options import Options
from motet.plans.execution import Execution
from motet.schema import EventSchema
from motet.statistics.model import Statistics, format_partition, format_symbol

Moment = int | datetime | date
MOVE_COST = 2e-3  # seconds that it takes to begin anew in this process


class LiveWorkload:
    """A long-running workload. Feed it events as they come; the results equal those of one run over all events.

    `changes` lists every other plan that was considered, why, and whether it was adopted. `late` and `invalid_rows`
    count rows that took no part, `overflows` counts and sums that are null for being too large.
    """

    def __init__(
        self,
        workload: Workload,
        schema: EventSchema,
        options: Options,
        convert: Callable[[Any], pa.Table] | None = None,
    ) -> None:
        self.options = options
        self._convert = convert  # what is fed to tables with the columns of the schema
        self.late = 0
        self.invalid_rows = 0
        self.overflows = 0
        self.changes: list[PlanChange] = []
        self._stream = Stream(compile_workload(workload, schema, options))
        self._watermark = self._observed = int(MIN_TIME)  # of the last feed; up to which rates were observed
        self._oldest = int(MAX_TIME)  # the time of the oldest event
        planned_rates = None if options.statistics is None else options.statistics.rates
        self._replanner = Replanner(ReplanPolicy.from_options(options), self.program, planned_rates)

    @property
    def program(self) -> Program:
        """The queries that run now, and their plan."""
        return self._stream.program

    @property
    def queries(self) -> tuple[Query, ...]:
        return self.program.workload.queries

    @property
    def executed(self) -> list[Execution]:
        """What was executed since queries or plan last changed, by unit: the strategy, the queries, what they share,
        and a signature of all that.
        """
        return self._stream.executed

    @property
    def _aggregates(self) -> list[AggregateOperator]:
        """The operators whose plans are compared."""
        return [live for live in self._stream.branches if isinstance(live, AggregateOperator)]

    @property
    def statistics(self) -> Statistics:
        """The recent rates, and how many keys are alive."""
        keys = {format_partition(live.branch.partition): live.num_keys for live in self._aggregates}
        rates = self._replanner.tracker.rates
        return Statistics(given=rates, partitionings={name: count for name, count in keys.items() if count})

    def feed(self, events: Any, watermark: Moment | None = None) -> pa.Table:
        """Add events, in any order, and return the results that are final now.

        Events are a table, or what Arrow makes one of: a record batch, a DataFrame, anything that speaks Arrow.
        No later event may be older than the `watermark`; those that are count as late. Without a watermark, it follows
        the newest event at the distance of the option `watermark`. Columns are read as `motet.run` reads them.
        """
        table = events if isinstance(events, pa.Table) else None
        if table is None or not table.schema.equals(self.program.schema.own_columns):
            table = pa.table(events) if self._convert is None else self._convert(events)
        read = self._stream.read(table)
        if watermark is not None:
            micros = self._to_microseconds(watermark)
            results = self._feed(read, micros, micros)
        else:
            # Nothing in one table comes too late for it, whatever else is in there.
            moved = max(max(read.newest, self._stream.newest) - self.options.watermark_micros, self._watermark)
            results = self._feed(read, moved, self._watermark)
        proposal = self._replanner.propose(lambda: (self.statistics, self._cost_of_moving()), self._watermark)
        if proposal is not None:
            change, program = proposal
            self.changes.append(change)
            if change.adopted:
                self._switch_program(program)
        return results

    def finish(self) -> pa.Table:
        """End the stream: everything buffered becomes final."""
        return self._count(self._stream.finish())

    def add(self, queries: Workload | Query | Iterable[Query]) -> None:
        """Add queries, which report from their first whole window on.

        They are planned among themselves at once, and with all the others if that pays.
        """
        match queries:
            case Workload():
                added = queries
            case Query():
                added = Workload((queries,))
            case _:
                added = Workload(tuple(queries))
        names = {query.name for query in self.queries}
        for query in added.queries:
            if query.name in names:
                raise MotetError(f"there is a query {query.name!r} already: give the new one another name")
        program = add_queries(self.program, added, self._options_with_statistics())
        self._switch_queries(program, f"{len(added.queries)} added")

    def remove(self, names: Iterable[str]) -> None:
        """Remove queries. The others continue as they run, or by another plan if that pays."""
        gone = frozenset([names] if isinstance(names, str) else names)
        known = {query.name for query in self.queries}
        for name in sorted(gone - known):
            hint = did_you_mean(name, sorted(known))
            raise MotetError(f"there is no query {name!r}" + (f"; {hint}" if hint else ""))
        if gone == known:
            raise MotetError("the last queries cannot be removed: nothing would be left to run")
        program = remove_queries(self.program, gone, self._options_with_statistics())
        self._switch_queries(program, f"{len(gone)} removed")

    def _switch_queries(self, program: Program, reason: str) -> None:
        """Continue with other queries, by the best plan for them if that pays."""
        known = self.statistics
        if not self._replanner.tracker.events:
            # Nothing is known of rates and nothing is there to be moved.
            known = Statistics(given={format_symbol(s): 1.0 for branch in program.branches for s in branch.symbols})
        best = compile_workload(program.workload, program.schema, program.options)
        change = self._replanner.assess(reason, program, best, known, self._cost_of_moving(), self._watermark)
        self.changes.append(change)
        self._switch_program(best if change.adopted else replace(program, report=best.report))

    def _switch_program(self, program: Program) -> None:
        self._stream = self._stream.continue_with(program)
        self._observed = self._watermark
        self._replanner.set_program(program)

    def _cost_of_moving(self) -> float:
        words = sum(log.top for live in self._aggregates for unit in live.slots for log in unit.logs)
        return MOVE_COST + WORD_COST * words

    def _options_with_statistics(self) -> Options:
        return replace(self.options, statistics=self.statistics) if self._replanner.tracker.events else self.options

    def _feed(self, read: ReadRows, watermark: int, late_before: int) -> pa.Table:
        answer = self._stream.feed_rows(read, watermark, late_before)
        self._watermark = max(watermark, self._watermark)
        if self._stream.is_holding:
            return self._count(answer)
        counts: Counter[str] = Counter()
        for live in self._aggregates:
            # An event that several branches read is one.
            counts |= Counter({format_symbol(symbol): count for symbol, count in live.passed.items()})
            self._oldest = min(self._oldest, live.oldest)
        since = max(self._observed, self._oldest)
        if since < self._watermark < MAX_TIME:
            self._replanner.tracker.observe(counts, (self._watermark - since) / 1e6)
        self._observed = self._watermark
        return self._count(answer)

    def _count(self, answer: FeedResult) -> pa.Table:
        self.late += answer.late
        self.invalid_rows += answer.invalid_rows
        self.overflows += answer.overflows
        return answer.results

    def _to_microseconds(self, moment: Moment) -> int:
        """Convert a moment, given as the time column has it, to microseconds."""
        schema = self.program.schema
        if schema.has_integer_time != isinstance(moment, int):
            wanted = "a whole number, as its time column" if schema.has_integer_time else "a date or a time"
            raise DataError(f"the watermark {moment!r} of this stream should be {wanted}")
        micros: int | None = schema.to_microseconds(pa.array([moment]))[0].as_py()
        if micros is None:
            raise DataError(f"the watermark {moment!r} of this stream is out of range")
        return micros
