"""A workload that runs on in this process: events in, final results out, and queries and plan that may change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

from motet.engine.live.branch import LiveBranch
from motet.engine.live.replan import (
    MOVE_COST,
    WORD_COST,
    Adapting,
    Drifting,
    PlanChange,
    longest_window,
    replanned,
    with_queries,
    without_queries,
)
from motet.engine.live.stream import Answer, Stream
from motet.engine.program import Options, Program, compile_workload
from motet.engine.schema import TICKS, EventSchema
from motet.errors import DataError, MotetError, did_you_mean
from motet.kernels.tables import FOREVER, LONG_AGO
from motet.model.query import Query, Workload
from motet.statistics.drift import RateWatch
from motet.statistics.model import Statistics, partition_text
from motet.statistics.symbols import symbol_text

Moment = int | datetime | date


class Running:
    """A long-lived workload. Feed it events as they come; results are those of the whole at once.

    `changes` tells of every other plan that was looked at, why, and whether it was taken. `late` and `set_aside` count
    rows that took no part.
    """

    def __init__(
        self, workload: Workload, schema: EventSchema, options: Options, adapting: Adapting, delay: int
    ) -> None:
        self.options = options
        self.adapting = adapting
        self.delay = delay
        self.late = 0
        self.set_aside = 0
        self.changes: list[PlanChange] = []
        self._stream = Stream(compile_workload(workload, schema, options))
        self._watermark = int(LONG_AGO)
        self._first = int(FOREVER)  # the time of the oldest event
        self._watch = RateWatch(longest_window(self.program))
        self._drifting = Drifting(adapting, None if options.statistics is None else dict(options.statistics.rates))

    @property
    def program(self) -> Program:
        """What runs now: queries, and the plan they run by."""
        return self._stream.program

    @property
    def queries(self) -> tuple[Query, ...]:
        return self.program.workload.queries

    @property
    def _online(self) -> list[LiveBranch]:
        """The branches whose plans are compared."""
        return [live for live in self._stream.branches if isinstance(live, LiveBranch)]

    @property
    def statistics(self) -> Statistics:
        """The rates of late, and how many keys are alive."""
        keys = {partition_text(live.branch.partition): live.keys.count for live in self._online}
        return Statistics(given=self._watch.rates, partitionings={name: count for name, count in keys.items() if count})

    def feed(self, events: pa.Table, watermark: Moment | None = None) -> pa.Table:
        """Take in events, in any order; the results that are final now.

        No later event may be older than the `watermark`: those that are count as late. Without one it follows the
        newest event at the distance of `delay`.
        """
        if watermark is not None:
            results = self._feed(events, self._micros(watermark))
        else:
            # Nothing in one table comes too late for it, whatever else is in there.
            waiting = self._feed(events, self._watermark)
            newest = max(live.newest for live in self._stream.branches)
            moved = self._feed(events.slice(0, 0), max(newest - self.delay, self._watermark))
            results = pa.concat_tables([waiting, moved])
        self._look_at_rates()
        return results

    def finish(self) -> pa.Table:
        """The stream has ended: all that waits becomes final."""
        return self._count(self._stream.finish())

    def add(self, queries: Workload | Query | Iterable[Query]) -> None:
        """Take up further queries, which report from their first whole window on. They are planned among themselves at
        once, and with all the others if that pays.
        """
        match queries:
            case Workload():
                added = queries
            case Query():
                added = Workload((queries,))
            case _:
                added = Workload(tuple(queries))
        taken = {query.name for query in self.queries}
        for query in added.queries:
            if query.name in taken:
                raise MotetError(f"there is a query {query.name!r} already: give the new one another name")
        program = with_queries(self.program, added, self._known_options())
        self._move(program, f"{len(added.queries)} added")

    def remove(self, names: Iterable[str]) -> None:
        """Drop queries. The others go on as they run, or by another plan if that pays."""
        gone = frozenset([names] if isinstance(names, str) else names)
        known = {query.name for query in self.queries}
        for name in sorted(gone - known):
            hint = did_you_mean(name, sorted(known))
            raise MotetError(f"there is no query {name!r}" + (f"; {hint}" if hint else ""))
        if gone == known:
            raise MotetError("the last queries cannot be removed: nothing would be left to run")
        self._move(without_queries(self.program, gone, self._known_options()), f"{len(gone)} removed")

    def _move(self, program: Program, reason: str) -> None:
        """Go on with other queries; with the best plan for them where that pays."""
        known = self.statistics
        if not self._watch.events:
            # Nothing is known of rates and nothing is there to be moved.
            known = Statistics(given={symbol_text(s): 1.0 for branch in program.branches for s in branch.symbols})
        best = compile_workload(program.workload, program.schema, program.options)
        change = self._judged(reason, program, best, known)
        self.changes.append(change)
        self._go_on(best if change.migrated else replace(program, report=best.report))

    def _look_at_rates(self) -> None:
        """Judge the plan again where rates have drifted, or are known at last."""
        reason = self._drifting.reason(self._watch)
        if reason is None:
            return
        known = self.statistics
        found = replanned(self.program, known)
        self.changes.append(self._judged(reason, self.program, found, known))
        self._drifting = Drifting(self.adapting, dict(known.rates))
        if self.changes[-1].migrated:
            self._go_on(found)

    def _judged(self, reason: str, running: Program, found: Program, known: Statistics) -> PlanChange:
        return self._drifting.judged(reason, running, found, known, self._cost_of_moving(), self._watermark)

    def _go_on(self, program: Program) -> None:
        self._stream = self._stream.going_on(program)
        self._watch.half_life = longest_window(program)

    def _cost_of_moving(self) -> float:
        words = sum(len(runs.words) for live in self._online for unit in live.slots for runs in unit.held)
        return MOVE_COST + WORD_COST * words

    def _known_options(self) -> Options:
        return replace(self.options, statistics=self.statistics) if self._watch.events else self.options

    def _feed(self, events: pa.Table, watermark: int) -> pa.Table:
        answer = self._stream.feed(events, watermark)
        before, self._watermark = self._watermark, max(watermark, self._watermark)
        counts: Counter[str] = Counter()
        for live in self._online:
            # An event that several branches read is one.
            counts |= Counter({symbol_text(symbol): count for symbol, count in live.passed.items()})
            self._first = min(self._first, live.oldest)
        since = max(before, self._first)
        if since < self._watermark < FOREVER:
            self._watch.observe(counts, (self._watermark - since) / 1e6)
        return self._count(answer)

    def _count(self, answer: Answer) -> pa.Table:
        self.late += answer.late
        self.set_aside += answer.set_aside
        return answer.results

    def _micros(self, moment: Moment) -> int:
        """A moment as the time column has it, in microseconds."""
        schema = self.program.schema
        if schema.is_whole != isinstance(moment, int):
            wanted = "a whole number, as its time column" if schema.is_whole else "a date or a time"
            raise DataError(f"the watermark {moment!r} of this stream should be {wanted}")
        if isinstance(moment, int):
            return moment // 1000 if schema.time_unit == "ns" else moment * TICKS[schema.time_unit]
        whole = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
        aware = whole if whole.tzinfo else whole.replace(tzinfo=UTC)
        return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
