"""One branch of a program whose matches are found, over an endless stream: events are kept for two windows, and what a
moving watermark makes certain is found among those of the keys that are concerned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect import aggregate
from motet.engine.detect.planning import Drift, Planning
from motet.engine.detect.program import DetectBranch
from motet.engine.detect.run import DetectRun, due_between, finished
from motet.engine.encode import key_codes
from motet.engine.live.base import Fed, Live
from motet.engine.live.due import Report, next_reports, reports_of
from motet.engine.live.rows import Flags, Times
from motet.errors import DataError
from motet.kernels.tables import FOREVER


class LiveDetect(Live):
    """A branch whose queries need their matches: its state are rows alone, whatever the plan."""

    branch: DetectBranch

    @property
    def planning(self) -> Planning:
        """How the branch is planned, here and in other parts of the state in this process."""
        made: dict[str, Planning] = self.program.plannings
        return made.setdefault(self.branch.name, Planning(self.branch, self.program.options, Drift()))

    @property
    def reports(self) -> set[Report]:
        return {report for query in self.branch.queries for report in reports_of(query.span, closes=query.closes)}

    def horizon(self, watermark: int) -> tuple[int, int]:
        spans = [query.span for query in self.branch.queries]
        # A match reaches back one window from when it is certain, and an absence before it another.
        longest = 2 * max((span.within for span in spans if not span.ranked), default=0)
        return watermark - longest, max((span.within for span in spans if span.ranked), default=0)

    def _advance(self, rows: pa.Table, times: Times, watermark: int) -> Fed:
        concerned = self._concerned(rows, times, watermark)
        if not concerned.any():
            return self._nothing()
        program, scattered = self.program, self.branch.scattered
        run = DetectRun(program, self.branch, births=self.births, planning=self.planning)
        results: list[pa.Table] = []
        added: list[pa.Table] = []
        for piece in run.pieces(rows.filter(pa.array(concerned)), self.watermark, watermark):
            (added if aggregate.QUERY in piece.column_names else results).append(piece)
        if not scattered:
            results += finished(added, program, self.watermark, watermark)
            if program.options.live == "update":
                results += self._early(added, watermark)
        nothing = self._nothing()
        return replace(
            nothing,
            results=pa.concat_tables([nothing.results, *results]),
            contributions=self._due(added, watermark) if scattered else nothing.contributions,
            truncated=frozenset(run.truncated),
        )

    def _concerned(self, rows: pa.Table, times: Times, watermark: int) -> Flags:
        """The rows that the watermark has passed, of keys that may have something to report now."""
        passed = times < watermark
        now = passed & (times >= self.watermark)
        if watermark > self.watermark:
            now |= passed & (next_reports(self.reports, times, self.watermark) <= watermark)
        # Where partitions are combined here, all those of a group are looked at together.
        codes, _, count = key_codes(rows, self.branch.seen_together)
        active = np.zeros(count, np.bool_)
        active[codes[now]] = True
        return passed & active[codes]

    def _due(self, added: list[pa.Table], watermark: int) -> pa.Table:
        """What matches add to windows that end now, to be put together with what those of other keys add."""
        found = pa.concat_tables([self.program.contribution_schema.empty_table(), *added])
        number, end = found[aggregate.QUERY].to_numpy(), found[aggregate.END].to_numpy()
        tables = []
        for query in self.branch.queries:
            since, until = due_between(query, (self.watermark, watermark))
            due = (number == query.number) & (since <= end) & (end < until)
            tables.append(aggregate.condensed(query, found.filter(pa.array(due))))
        return pa.concat_tables(tables)

    def _early(self, added: list[pa.Table], watermark: int) -> list[pa.Table]:
        """Values of windows that are still open, over the events that the watermark has passed."""
        shown = [q.number for q in self.branch.queries if not q.certain_at_close and not q.span.continuous]
        known = [table.filter(pc.is_in(table[aggregate.QUERY], pa.array(shown, pa.int32()))) for table in added]
        return list(finished(known, self.program, watermark, int(FOREVER)))

    def _to_blame(self, rows: pa.Table, times: Times, watermark: int) -> Flags:
        """Rows with which what came before cannot be computed with any more, found in order of time by halving: a
        condition may fail on two events neither of which is at fault alone.
        """
        bad = np.zeros(len(rows), np.bool_)
        order = np.argsort(times, kind="stable")
        order = order[: int((times < watermark).sum())]
        while True:
            if self._computes(rows, times, watermark, order[~bad[order]]):
                return bad
            good, fails = 0, len(order)  # so many of the first are known to do, and to fail
            while fails - good > 1:
                middle = (good + fails) // 2
                first = order[:middle]
                if self._computes(rows, times, watermark, first[~bad[first]]):
                    good = middle
                else:
                    fails = middle
            bad[order[fails - 1]] = True

    def _computes(self, rows: pa.Table, times: Times, watermark: int, chosen: Times) -> bool:
        try:
            self._advance(rows.take(pa.array(chosen)), times[chosen], watermark)
        except DataError:
            return False
        return True
