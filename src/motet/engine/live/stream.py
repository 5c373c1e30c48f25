"""Run a whole program over an endless stream in one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from motet.compile import DetectBranch, Program
from motet.engine.context import RunContext
from motet.engine.detect.run import finish_results
from motet.engine.live.aggregate import AggregateOperator
from motet.engine.live.detect import DetectOperator
from motet.engine.live.rows import ReadRows, find_bad_rows, read_rows
from motet.engine.live.saved import SavedState
from motet.engine.live.state import first_unseen_time, restore, save
from motet.engine.local import required_columns
from motet.engine.partials import finish, merge, settle_overflows
from motet.errors import DataError
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.plans.execution import Execution
from motet.schema import decimals_to_doubles

MOST_HELD_ROWS = 10_000  # what one pass over more would save is little beside what they cost


@dataclass(frozen=True)
class FeedResult:
    """Final results of a micro-batch, how many rows took no part in it, the queries that a limit cut
    short, and the counts and sums that are null because they are too large."""

    results: pa.Table
    late: int
    invalid_rows: int
    truncated: frozenset[str] = frozenset()
    overflows: int = 0


def create_operator(
    context: RunContext, index: int, start_times: Mapping[int, int] | None = None
) -> AggregateOperator | DetectOperator:
    """Create the operator of a branch; branches that aggregate online come first."""
    branch = context.program.all_branches[index]
    if isinstance(branch, DetectBranch):
        return DetectOperator(context, branch, start_times)
    return AggregateOperator(context, branch, start_times)


class Stream:
    """The operators of all branches, and the merge of what their partitions have in common.

    Where all that is asked is reported when windows end, the rows of small micro-batches are held until one does, or
    until they are `most_held`: one pass over many rows costs far less than many over few. `watermark` is that of the
    last micro-batch, operators may be behind it. `newest` is the greatest time of any row so far.
    """

    def __init__(self, program: Program, context: RunContext | None = None) -> None:
        self.program = program
        self.context = context or RunContext(program)
        self.columns = required_columns(program)
        computed = {name for branch in program.branches for name in branch.columns}
        self._computed = computed | {name for branch in program.detect for name in branch.partition}
        self._decimals: tuple[pa.Schema, list[str]] | None = None  # those of a schema that are computed with
        self.branches = [create_operator(self.context, index) for index in range(len(program.all_branches))]
        self.watermark = self.newest = int(MIN_TIME)
        self.most_held = MOST_HELD_ROWS
        self._held: list[ReadRows] = []
        self._held_rows = 0
        self._set_aside = 0  # rows that were found to be bad when the state was saved
        self._no_results = program.result_schema.empty_table()
        spans = [query.span for branch in program.all_branches for query in branch.queries]
        waits = program.options.mode == "append" and not program.detect and all(span.slide for span in spans)
        self._windows = {(span.within, span.slide) for span in spans} if waits else set()

    @property
    def executed(self) -> list[Execution]:
        """What was executed so far, by unit."""
        return [each for branch in self.branches for each in branch.executed]

    @property
    def is_holding(self) -> bool:
        """Whether operators are behind the last micro-batch."""
        return bool(self._held)

    def feed(self, events: pa.Table, watermark: int) -> FeedResult:
        """Add rows, and return the results that are final once no row before the watermark can come any more.

        Rows before the watermark are late.
        """
        return self.feed_rows(self.read(events), watermark, watermark)

    def read(self, events: pa.Table) -> ReadRows:
        """Read rows, with the columns that are derived from those they have; those with values that no column can hold
        are set aside.
        """
        schema, unreadable = self.program.schema, 0
        try:
            rows = self._derive(events)
        except DataError:
            bad = find_bad_rows(events, self._derive)
            unreadable, rows = int(bad.sum()), self._derive(events.filter(pa.array(~bad)))
        read = read_rows(rows, schema, self.context.types)
        return replace(read, invalid_rows=read.invalid_rows + unreadable) if unreadable else read

    def _derive(self, events: pa.Table) -> pa.Table:
        """Return rows with derived columns. Raises `DataError` for a decimal that a double does not hold."""
        rows = self.program.schema.derive(events, self.columns)
        if self._decimals is None or not rows.schema.equals(self._decimals[0]):
            kinds = {name: rows.schema.field(name).type for name in self._computed}
            self._decimals = rows.schema, [name for name, kind in kinds.items() if pa.types.is_decimal(kind)]
        for name in self._decimals[1]:
            decimals_to_doubles(rows.column(name), name)
        return rows

    def feed_rows(self, read: ReadRows, watermark: int, late_before: int) -> FeedResult:
        """Add rows, of which those before a time are late, and advance to a watermark."""
        late_before, watermark = max(late_before, self.watermark), max(watermark, self.watermark)
        has_late = read.oldest < late_before
        self.newest = max(self.newest, read.newest)
        if not has_late and self._can_hold(read, watermark):
            if len(read.times) or not self._held:
                self._held.append(read)
                self._held_rows += len(read.times)
            self.watermark = watermark
            return FeedResult(self._no_results, 0, read.invalid_rows)
        if has_late or not self._can_join(read):
            self.release_rows()
        if self._held:
            read = self._take_held(read)
            late_before = int(MIN_TIME)  # those that were held were not late when they came
        self.watermark = watermark
        result = self._advance(read, watermark, late_before)
        bad, self._set_aside = self._set_aside, 0
        return replace(result, invalid_rows=result.invalid_rows + bad) if bad else result

    def _can_hold(self, read: ReadRows, watermark: int) -> bool:
        """Return whether rows can wait for the next micro-batch: they are few, and no window ends by this watermark."""
        size = len(read.times)  # with more than half of what is held, not even two of them would be
        if not self._windows or self._held_rows + size > self.most_held or 2 * size > self.most_held:
            return False
        since = min(branch.watermark for branch in self.branches)
        return self._can_join(read) and all(
            (watermark - within) // slide == (since - within) // slide for within, slide in self._windows
        )

    def _can_join(self, read: ReadRows) -> bool:
        """Return whether rows can be in one table with those that are held."""
        return not self._held or read.table.schema.equals(self._held[0].table.schema)

    def release_rows(self) -> None:
        """Let operators process the rows that are held; nothing of them is to be reported yet."""
        if self._held:
            read = replace(self._take_held(), invalid_rows=0)
            self._set_aside += self._advance(read, self.watermark, int(MIN_TIME)).invalid_rows

    def _take_held(self, *further: ReadRows) -> ReadRows:
        """Return the rows that are held and further ones, and hold none; invalid rows are those of the last ones."""
        parts = [*self._held, *further]
        self._held, self._held_rows = [], 0
        return replace(
            parts[-1],
            table=pa.concat_tables([part.table for part in parts]).combine_chunks(),
            times=np.concatenate([part.times for part in parts]),
            oldest=min(part.oldest for part in parts),
            newest=max(part.newest for part in parts),
        )

    def _advance(self, read: ReadRows, watermark: int, late_before: int) -> FeedResult:
        """Let all operators process rows and advance to a watermark."""
        parts = [branch.feed_rows(read, watermark, late_before) for branch in self.branches]
        tables = [part.results for part in parts]
        if any(len(part.partials) for part in parts):
            partials = pa.concat_tables([part.partials for part in parts])
            tables.append(finish(self.program, merge(self.program, partials)))
        if any(len(part.contributions) for part in parts):
            contributions = pa.concat_tables([part.contributions for part in parts])
            tables += finish_results([contributions], self.program)
        full = [table for table in tables if len(table)] or tables[:1]
        results = full[0] if len(full) == 1 else pa.concat_tables(full)
        results, overflows = settle_overflows(self.program, results)
        late, invalid = max(len(part.late) for part in parts), max(part.invalid_rows for part in parts)
        return FeedResult(results, late, invalid, frozenset().union(*(part.truncated for part in parts)), overflows)

    def finish(self) -> FeedResult:
        """End the stream: everything buffered becomes final."""
        return self.feed(self.program.schema.columns.empty_table(), int(MAX_TIME))

    def save(self) -> dict[str, bytes]:
        """Save the state of each branch, by branch name."""
        self.release_rows()
        return {live.branch.name: save(live).to_bytes() for live in self.branches}

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Continue from a saved state, of these or other queries; queries that it does not know begin where it ends."""
        saved = {name: SavedState.from_bytes(state) for name, state in states.items()}
        begins = max((first_unseen_time(state) for state in saved.values()), default=None)
        for live in self.branches:
            if live.branch.name in saved:
                restore(live, saved[live.branch.name])
            elif begins is not None:
                live.start_times = {compiled.number: begins for compiled in live.branch.queries}
        self.watermark = max(live.watermark for live in self.branches)
        self.newest = max(live.newest for live in self.branches)

    def continue_with(self, program: Program) -> Stream:
        """Return a stream that continues with another plan or other queries; new queries begin here."""
        stream = Stream(program, self.context.continue_with(program))
        stream.restore(self.save())
        stream.most_held, stream._set_aside = self.most_held, self._set_aside
        return stream
