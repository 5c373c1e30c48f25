"""The base of stream operators: buffer rows until the watermark passes them, and retain what later results need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from motet.compile import Branch, DetectBranch
from motet.engine.context import RunContext
from motet.engine.encode import read_times
from motet.engine.live.costs import UnitTimes
from motet.engine.live.rows import (
    Flags,
    ReadRows,
    RetainedRows,
    Timer,
    Times,
    classify_rows,
    next_timers,
    read_rows,
    retention_mask,
    select_rows,
    timers_for,
)
from motet.engine.live.saved import SavedState, table_to_bytes
from motet.errors import DataError
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.plans.compiled import CompiledQuery
from motet.plans.detect.query import DetectQuery
from motet.plans.execution import Execution


class MicroBatchResult(NamedTuple):
    """The output of one operator for a micro-batch.

    `results` are final. `partials` and `contributions` must be merged with those of other parts of the stream. `late`
    are rows before the watermark, `invalid_rows` counts unreadable rows, and `truncated` names queries whose matches
    were cut off by a limit.
    """

    results: pa.Table
    partials: pa.Table
    contributions: pa.Table
    late: pa.Table
    invalid_rows: int = 0
    truncated: frozenset[str] = frozenset()


class BranchOperator(ABC):
    """The operator and state of a branch, or of some of its keys.

    Rows are buffered until the watermark passes them, so their order of arrival does not matter. `start_times` tells,
    by query number, since when a query has seen the stream: only windows that began later are reported.
    """

    windows_retained = 1  # how many windows results reach back from when they are certain

    def __init__(
        self, context: RunContext, branch: Branch | DetectBranch, start_times: Mapping[int, int] | None = None
    ) -> None:
        self.context = context
        self.program = context.program
        self.branch = branch
        own = {query.number for query in branch.queries}
        self.start_times = {number: start for number, start in (start_times or {}).items() if number in own}
        self.watermark = int(MIN_TIME)
        self.schema = pa.schema([self.program.schema.columns.field(name) for name in branch.columns])
        self.newest = int(MIN_TIME)  # the greatest time of any row so far
        self.added = self.waiting = self.schema.empty_table()  # by the last micro-batch; not passed by the watermark
        self.waiting_times = np.zeros(0, np.int64)
        self.retained = RetainedRows(self.added, int(MIN_TIME))
        self.times = UnitTimes()

    @property
    @abstractmethod
    def executed(self) -> list[Execution]:
        """What was executed so far, by unit."""

    def feed(self, events: pa.Table, watermark: int) -> MicroBatchResult:
        """Add the rows of a micro-batch and advance to a watermark; rows before it are late."""
        return self.feed_rows(read_rows(events, self.program.schema, self.context.types), watermark, watermark)

    def feed_rows(self, read: ReadRows, watermark: int, late_before: int) -> MicroBatchResult:
        """Add rows and advance to a watermark; rows before another one are late."""
        watermark = max(watermark, self.watermark)
        batch = classify_rows(read, self.branch, self.program.schema, max(late_before, self.watermark))
        self.newest = max(self.newest, read.newest)
        added = (
            batch.usable if batch.usable.schema.names == self.schema.names else batch.usable.select(self.schema.names)
        )
        self.added = added if added.schema.equals(self.schema) else added.cast(self.schema)
        held = self.recomputed_queries and self.retained.size
        parts = [(self.waiting, self.waiting_times), (self.added, batch.times)]
        if held:
            parts.insert(0, (self.retained.table, read_times(self.retained.table, self.program.schema)))
        parts = [part for part in parts if len(part[1])] or parts[-1:]
        rows, times = parts[0]
        if len(parts) > 1:
            rows = pa.concat_tables([part for part, _ in parts]).combine_chunks()
            times = np.concatenate([each for _, each in parts])
        invalid = read.invalid_rows
        try:
            result = self._advance(rows, times, watermark)
        except DataError:
            bad = self._find_bad_rows(rows, times, watermark)
            if not bad.any():
                raise
            invalid += int(bad.sum())
            rows, times = rows.filter(pa.array(~bad)), times[~bad]
            if held:
                passed = times < self.watermark
                self.retained = RetainedRows(rows.filter(pa.array(passed)), self.retained.newest)
            result = self._advance(rows, times, watermark)
        self._retain(rows, times, watermark)
        return result._replace(late=batch.late, invalid_rows=invalid)

    def _retain(self, rows: pa.Table, times: Times, watermark: int) -> None:
        """Move the watermark, and keep the rows that wait for it or are needed behind it."""
        waits = times >= watermark
        passed = ~waits & (times >= self.watermark)
        self.watermark = watermark
        retention, last = self.retention(watermark)
        if last or retention < watermark:
            self.retained.append(select_rows(rows, passed), int(times[passed].max(initial=MIN_TIME)))
        self.waiting, self.waiting_times = select_rows(rows, waits), times[waits]
        if self.retained.size > self.retained.limit or (not last and MIN_TIME < self.retained.newest < retention):
            self._drop_old_rows()

    def _drop_old_rows(self) -> None:
        """Drop the rows that are not needed any more. O(rows)."""
        rows = self.retained.table
        times = read_times(rows, self.program.schema)
        kept = retention_mask(rows, times, self.branch.partition, self.watermark, *self.retention(self.watermark))
        kept = self._extend_retention(rows, times, kept)
        if kept.all():
            self.retained = RetainedRows(rows, self.retained.newest)
            return
        self.retained = RetainedRows(
            rows.filter(pa.array(kept)).combine_chunks(), int(times[kept].max(initial=MIN_TIME))
        )
        self._drop_rows(kept)

    def _extend_retention(self, rows: pa.Table, times: Times, kept: Flags) -> Flags:
        """Return which rows to retain, given those that windows need: further ones, where an operator needs them."""
        return kept

    def _drop_rows(self, kept: Flags) -> None:  # noqa: B027
        """Note that only some of the retained rows are kept."""

    @property
    def rows(self) -> pa.Table:
        """All rows that are kept: those that wait, and those that are needed behind the watermark."""
        self._drop_old_rows()
        return pa.concat_tables([self.retained.table, self.waiting])

    def count_needed_rows(self) -> int:
        """Return how many rows are kept that windows of time need; where windows count events, how many are kept."""
        retention, last = self.retention(self.watermark)
        if last or not self.retained.size:
            return self.retained.size + len(self.waiting)
        times = read_times(self.retained.table, self.program.schema)
        return int(np.count_nonzero(times >= retention)) + len(self.waiting)

    def set_rows(self, rows: pa.Table) -> None:
        """Continue with the rows of a saved state."""
        times = read_times(rows, self.program.schema)
        passed = times < self.watermark
        self.waiting, self.waiting_times = rows.filter(pa.array(~passed)), times[~passed]
        self.retained = RetainedRows(rows.filter(pa.array(passed)), int(times[passed].max(initial=MIN_TIME)))

    @abstractmethod
    def _advance(self, rows: pa.Table, times: Times, watermark: int) -> MicroBatchResult:
        """Return what becomes final as the watermark moves.

        Raises `DataError`, with the state unchanged, if some row cannot be computed with.
        """

    @abstractmethod
    def _find_bad_rows(self, rows: pa.Table, times: Times, watermark: int) -> Flags:
        """Return a mask of the rows that cannot be computed with."""

    @property
    @abstractmethod
    def row_queries(self) -> Sequence[CompiledQuery | DetectQuery]:
        """The queries whose rows are retained."""

    @property
    def recomputed_queries(self) -> Sequence[CompiledQuery | DetectQuery]:
        """Those of them that are computed from their rows in each micro-batch."""
        return self.row_queries

    @property
    def timers(self) -> set[Timer]:
        """The timers that retained rows may set off without a further row."""
        return {timer for query in self.recomputed_queries for timer in timers_for(query)}

    def retention(self, watermark: int) -> tuple[int, int]:
        """Return which rows to retain behind the watermark: those since a time, and the last so many of each key."""
        longest, last = self._longest_windows
        return watermark - self.windows_retained * longest, last

    @cached_property
    def _longest_windows(self) -> tuple[int, int]:
        """The longest window of queries whose rows are retained, and the longest that counts events."""
        spans = [query.span for query in self.row_queries]
        longest = max((span.within for span in spans if not span.ranked), default=0)
        # A window of events that has not ended began that many events ago, and may look back as far.
        ranked = [query for query in self.row_queries if query.span.ranked]
        return longest, max((query.span.within * (1 + query.needs_window_close) for query in ranked), default=0)

    def _find_due_rows(self, times: Times, watermark: int) -> Flags:
        """Return which rows the watermark passes now, or have a timer that goes off now."""
        due = (times >= self.watermark) | (next_timers(self.timers, times, self.watermark) <= watermark)
        return (times < watermark) & due

    # What an operator keeps beside rows: nothing, unless it says so.

    @property
    def unit_states(self) -> dict[str, object]:
        """What units keep beside rows, by the name of the first query."""
        return {}

    @property
    def num_keys(self) -> int:
        """The number of keys that have state beside rows."""
        return 0

    @property
    def next_state_timer(self) -> int:
        """The smallest watermark at which what is kept beside rows gives a result by itself."""
        return int(MAX_TIME)

    @property
    def unit_descriptions(self) -> list[dict[str, Any]]:
        """What the numbers in the saved states of units mean."""
        return []

    def save_sections(self) -> dict[str, Any]:
        """Return what is saved beside rows."""
        return {"keys": table_to_bytes(self.waiting.select(self.branch.partition).slice(0, 0))}

    def restore_sections(self, saved: SavedState) -> None:  # noqa: B027
        """Continue from what was saved beside rows."""

    @cached_property
    def _empty_result(self) -> MicroBatchResult:
        program = self.program
        partials, contributions = program.partial_schema.empty_table(), program.contribution_schema.empty_table()
        return MicroBatchResult(program.result_schema.empty_table(), partials, contributions, self.schema.empty_table())

    @property
    def num_buffered_rows(self) -> int:
        """The number of rows that the watermark has not passed."""
        return len(self.waiting)

    @property
    def wake(self) -> int | None:
        """The smallest watermark at which there may be something to do without a further row."""
        soonest = self.next_state_timer
        if self.recomputed_queries:
            times = read_times(pa.concat_tables([self.retained.table, self.waiting]), self.program.schema)
            soonest = min(soonest, int(next_timers(self.timers, times, self.watermark).min(initial=MAX_TIME)))
        waits = self.waiting_times
        soonest = min(soonest, int(waits.min(initial=MAX_TIME - 1)) + 1)
        retention, last = self.retention(self.watermark)
        newest = max(self.retained.newest, int(waits.max(initial=MIN_TIME)))
        if newest > MIN_TIME and not last:
            # All rows can be forgotten then.
            soonest = min(soonest, newest + self.watermark - retention + 1)
        return soonest if soonest < MAX_TIME else None
