"""Run one branch of detection queries over an endless stream.

Events are kept for two windows; each step searches the keys that new events or timers concern.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.compile.contributions import END, QUERY
from motet.compile.detect import DetectBranch
from motet.engine.detect.aggregate import merge_contributions
from motet.engine.detect.run import DetectRun, finish_results
from motet.engine.detect.windows import due_range
from motet.engine.live.base import BranchOperator, MicroBatchResult
from motet.engine.live.rows import Flags, Times, select_same_keys
from motet.errors import DataError
from motet.kernels.tables import MAX_TIME
from motet.plans.detect.query import DetectQuery


class DetectOperator(BranchOperator):
    """The operator of a branch whose queries need their matches; its state is rows alone, whatever the plan."""

    branch: DetectBranch

    # A match reaches back one window from when it is certain, and an absence before it another.
    windows_retained = 2

    @property
    def row_queries(self) -> tuple[DetectQuery, ...]:
        return self.branch.queries

    def _advance(self, rows: pa.Table, times: Times, watermark: int) -> MicroBatchResult:
        # Where partitions are combined here, all those of a group are searched together.
        due = select_same_keys(rows, self._find_due_rows(times, watermark), self.branch.related_by)
        due &= times < watermark
        if not due.any():
            return self._empty_result
        program, is_scattered = self.program, self.branch.is_scattered
        run = DetectRun(program, self.branch, start_times=self.start_times, planning=self.context.planner(self.branch))
        results: list[pa.Table] = []
        added: list[pa.Table] = []
        for piece in run.process(rows.filter(pa.array(due)), self.watermark, watermark):
            (added if QUERY in piece.column_names else results).append(piece)
        if not is_scattered:
            results += finish_results(added, program, self.watermark, watermark)
            if program.options.mode == "update":
                results += self._early_results(added, watermark)
        nothing = self._empty_result
        return replace(
            nothing,
            results=pa.concat_tables([nothing.results, *results]),
            contributions=self._due_contributions(added, watermark) if is_scattered else nothing.contributions,
            truncated=frozenset(run.truncated),
        )

    def _due_contributions(self, added: list[pa.Table], watermark: int) -> pa.Table:
        """Return what matches contribute to windows that end now, to be merged with other keys."""
        found = pa.concat_tables([self.program.contribution_schema.empty_table(), *added])
        number, end = found[QUERY].to_numpy(), found[END].to_numpy()
        tables = []
        for query in self.branch.queries:
            since, until = due_range(query, (self.watermark, watermark))
            due = (number == query.number) & (since <= end) & (end < until)
            tables.append(merge_contributions(query, found.filter(pa.array(due))))
        return pa.concat_tables(tables)

    def _early_results(self, added: list[pa.Table], watermark: int) -> list[pa.Table]:
        """Return values of windows that are still open, over the events that the watermark has passed."""
        shown = [q.number for q in self.branch.queries if not q.needs_window_close and not q.span.is_continuous]
        known = [table.filter(pc.is_in(table[QUERY], pa.array(shown, pa.int32()))) for table in added]
        return list(finish_results(known, self.program, watermark, int(MAX_TIME)))

    def _find_bad_rows(self, rows: pa.Table, times: Times, watermark: int) -> Flags:
        """Find bad rows in time order by bisection.

        A condition may fail on two events neither of which is at fault alone; then the later one is reported.
        """
        bad = np.zeros(len(rows), np.bool_)
        order = np.argsort(times, kind="stable")
        order = order[: int((times < watermark).sum())]
        while True:
            if self._can_compute(rows, times, watermark, order[~bad[order]]):
                return bad
            good, fails = 0, len(order)  # so many of the first are known to do, and to fail
            while fails - good > 1:
                middle = (good + fails) // 2
                first = order[:middle]
                if self._can_compute(rows, times, watermark, first[~bad[first]]):
                    good = middle
                else:
                    fails = middle
            bad[order[fails - 1]] = True

    def _can_compute(self, rows: pa.Table, times: Times, watermark: int, chosen: Times) -> bool:
        try:
            self._advance(rows.take(pa.array(chosen)), times[chosen], watermark)
        except DataError:
            return False
        return True
