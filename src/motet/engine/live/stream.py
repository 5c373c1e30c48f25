"""Run a whole program over an endless stream in one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
from motet.kernels.tables import MAX_TIME
from motet.schema import decimals_to_doubles


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
    """The operators of all branches, and the merge of what their partitions have in common."""

    def __init__(self, program: Program, context: RunContext | None = None) -> None:
        self.program = program
        self.context = context or RunContext(program)
        self.columns = required_columns(program)
        computed = {name for branch in program.branches for name in branch.columns}
        self._computed = computed | {name for branch in program.detect for name in branch.partition}
        self.branches = [create_operator(self.context, index) for index in range(len(program.all_branches))]

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
        for name in self._computed:
            if pa.types.is_decimal(rows.schema.field(name).type):
                decimals_to_doubles(rows.column(name), name)
        return rows

    def feed_rows(self, read: ReadRows, watermark: int, late_before: int) -> FeedResult:
        """Add rows, of which those before a time are late, and advance to a watermark."""
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

    def continue_with(self, program: Program) -> Stream:
        """Return a stream that continues with another plan or other queries; new queries begin here."""
        stream = Stream(program, self.context.continue_with(program))
        stream.restore(self.save())
        return stream
