"""What every branch of a stream keeps: rows that wait for the watermark, and rows that later results depend on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import pyarrow as pa

from motet.engine.detect.program import DetectBranch
from motet.engine.encode import times_of
from motet.engine.live.due import Report, next_reports
from motet.engine.live.keys import Keys
from motet.engine.live.rows import Flags, Times, sort_out, still_needed
from motet.engine.live.slots import LiveSlots
from motet.engine.program import Branch, Program
from motet.errors import DataError
from motet.kernels.tables import FOREVER, LONG_AGO


@dataclass(frozen=True)
class Fed:
    """What a micro-batch gave: final results; totals and contributions of matches that those of other parts of the
    stream may have to be added to; the rows that came too late, how many could not be read, and the queries of which a
    limit cut matches off.
    """

    results: pa.Table
    partials: pa.Table
    contributions: pa.Table
    late: pa.Table
    set_aside: int = 0
    truncated: frozenset[str] = frozenset()


class Live(ABC):
    """The state of a branch, or of some of its keys.

    Rows wait until the watermark passes them, so the order in which they come means nothing. `births` tells, by query
    number, since when the stream has been seen: only windows that began later are reported.
    """

    def __init__(self, program: Program, branch: Branch | DetectBranch, births: dict[int, int] | None = None) -> None:
        self.program = program
        self.branch = branch
        own = {query.number for query in branch.queries}
        self.births = {number: birth for number, birth in (births or {}).items() if number in own}
        self.watermark = int(LONG_AGO)
        schema = pa.schema([program.schema.columns.field(name) for name in branch.columns])
        self.rows = schema.empty_table()
        self.newest = int(LONG_AGO)  # the greatest time of any row so far
        self.added = self.rows
        self.rewritten = True
        # What is kept beside rows, where a branch keeps more.
        self.keys = Keys(pa.schema([schema.field(name) for name in branch.partition]))
        self.slots: list[LiveSlots] = []
        self.values: dict[int, pa.Table] = {}

    def feed(self, events: pa.Table, watermark: int) -> Fed:
        """Take in the rows of a micro-batch and move on to a watermark; rows before it are late."""
        watermark = max(watermark, self.watermark)
        arrived = sort_out(events, self.branch, self.program.schema, watermark)
        self.newest = max(self.newest, arrived.newest)
        self.added = arrived.usable.select(self.rows.column_names).cast(self.rows.schema)
        rows, aside = pa.concat_tables([self.rows, self.added]), arrived.set_aside
        times = times_of(rows, self.program.schema)
        try:
            fed = self._advance(rows, times, watermark)
        except DataError:
            bad = self._to_blame(rows, times, watermark)
            if not bad.any():
                raise
            aside += int(bad.sum())
            self.rewritten = True
            rows, times = rows.filter(pa.array(~bad)), times[~bad]
            fed = self._advance(rows, times, watermark)
        self._forget(rows, times, watermark)
        return replace(fed, late=arrived.late, set_aside=aside)

    @abstractmethod
    def _advance(self, rows: pa.Table, times: Times, watermark: int) -> Fed:
        """What becomes final as the watermark moves. Fails with a `DataError`, nothing changed, where some row cannot
        be computed with.
        """

    @abstractmethod
    def _to_blame(self, rows: pa.Table, times: Times, watermark: int) -> Flags:
        """The rows that cannot be computed with."""

    @property
    @abstractmethod
    def reports(self) -> set[Report]:
        """What the rows that are kept may give without a further one."""

    @abstractmethod
    def horizon(self, watermark: int) -> tuple[int, int]:
        """What is kept of rows that the watermark has passed: those at or after a time, and the last so many of each
        key.
        """

    def _nothing(self) -> Fed:
        program = self.program
        partials, contributions = program.partial_schema.empty_table(), program.contribution_schema.empty_table()
        return Fed(program.result_schema.empty_table(), partials, contributions, self.rows.slice(0, 0))

    def _forget(self, rows: pa.Table, times: Times, watermark: int) -> None:
        """Keep what waits, and what a later result may depend on."""
        kept = still_needed(rows, times, self.branch.partition, watermark, *self.horizon(watermark))
        self.rows = rows if kept.all() else rows.filter(pa.array(kept)).combine_chunks()
        self.watermark = watermark

    @property
    def waiting(self) -> int:
        """Rows that the watermark has not passed."""
        return int((times_of(self.rows, self.program.schema) >= self.watermark).sum())

    @property
    def wake(self) -> int | None:
        """The least watermark at which there may be something to do without a further row."""
        times = times_of(self.rows, self.program.schema)
        waits = times[times >= self.watermark] + 1
        reports = next_reports(self.reports, times, self.watermark)
        soonest = min([int(FOREVER), *(slots.wake for slots in self.slots)])
        soonest = int(min(reports.min(initial=soonest), waits.min(initial=soonest)))
        horizon, last = self.horizon(self.watermark)
        if len(times) and not last:
            # All rows can be forgotten then.
            soonest = min(soonest, int(times.max()) + self.watermark - horizon + 1)
        return soonest if soonest < FOREVER else None
