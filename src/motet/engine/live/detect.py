"""Run one branch of detection queries over an endless stream.

Events are kept for two windows. Queries whose matches can be found event by event are fed the new ones (`fed_matches`);
for the others each step searches the keys that new events or timers concern.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.compile import Program
from motet.compile.contributions import END, QUERY, UNTIL
from motet.compile.detect import DetectBranch
from motet.engine.context import RunContext
from motet.engine.detect.aggregate import merge_contributions
from motet.engine.detect.planner import BranchPlanner
from motet.engine.detect.run import DetectRun, TakenRows, finish_results
from motet.engine.detect.values import Exactness
from motet.engine.detect.windows import due_range
from motet.engine.encode import EncodedEvents, encode_branch, encode_keys, read_times
from motet.engine.live.base import BranchOperator, MicroBatchResult
from motet.engine.live.encoder import LiveEncoder
from motet.engine.live.fed_matches import FedMatches, NumbersTooLarge, TooManyInstances
from motet.engine.live.feed_plan import can_feed
from motet.engine.live.rows import Flags, Times, select_rows, select_same_keys
from motet.engine.live.saved import SavedState
from motet.errors import DataError
from motet.kernels.tables import MAX_TIME
from motet.model.query import AfterMatch
from motet.plans.detect.build import PlannedQuery
from motet.plans.detect.query import DetectQuery
from motet.plans.execution import Execution

FEWEST_EVENTS = 256  # after which the joins of a young stream are planned again, ...
WINDOWS_PER_PLAN = 8  # ... and windows after which those of an old one are
FEWEST_CONTRIBUTIONS = 1024  # that are merged


class _SomeQueries(BranchPlanner):
    """The planner of a branch, of whose plan only some queries run."""

    def __init__(self, planner: BranchPlanner, numbers: frozenset[int]) -> None:
        super().__init__(planner.branch, planner.options)
        self.planner, self.numbers = planner, numbers
        self._whole: list[PlannedQuery] | None = None

    def plan_for(self, encoded: EncodedEvents) -> list[PlannedQuery]:
        """Return the plan for the next events."""
        whole = self.planner.plan_for(encoded)
        if self._planned is None or whole is not self._whole:
            self._whole = whole
            self._planned = [each for each in whole if each.query.number in self.numbers]
        self.chosen = self.planner.chosen
        return self._planned


class OpenContributions:
    """What matches so far contribute to windows that are open, or until they expire, in pieces.

    `next_end` is when the next window of them ends.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.pieces: list[pa.Table] = []
        self.next_end = int(MAX_TIME)
        self._limit = FEWEST_CONTRIBUTIONS

    def append(self, rows: pa.Table) -> None:
        """Add contributions; those that count in the same results are merged once they may be half of all."""
        if not len(rows):
            return
        self.pieces.append(rows)
        self._note_ends(rows)
        if sum(map(len, self.pieces)) > self._limit:
            self._set_rows(pa.concat_tables(self.pieces))

    def take_due(self, before: int, watermark: int) -> list[pa.Table]:
        """Return what the results are made of that become final as the watermark moves, and keep what is left then."""
        if not self.pieces:
            return []
        rows = pa.concat_tables(self.pieces)
        number = rows[QUERY].to_numpy()
        end = rows[END].to_numpy()
        due = np.zeros(len(rows), np.bool_)
        for query in self._queries(rows):
            if query.span.is_continuous:  # a result counts all that has not expired
                since, until = due_range(query, (before, watermark))
                own = number == query.number
                due |= own & bool((own & (since <= end) & (end < until)).any())
            elif self.next_end <= watermark:
                due |= (number == query.number) & (end <= watermark)
        self.drop_old(watermark)
        return [rows.filter(pa.array(due))] if due.any() else []

    def drop_old(self, watermark: int) -> None:
        """Drop what counts in no result after a watermark. O(contributions), if windows have ended since."""
        if not self.pieces or (watermark < self.next_end and not self._has_continuous):
            return
        rows = pa.concat_tables(self.pieces)
        number, end = rows[QUERY].to_numpy(), rows[END].to_numpy()
        until = rows[UNTIL].fill_null(0).to_numpy()
        kept = np.zeros(len(rows), np.bool_)
        for query in self._queries(rows):
            lasts = until if query.span.is_continuous else end
            kept |= (number == query.number) & (lasts > watermark)
        self.next_end = int(MAX_TIME)
        self._set_rows(rows.filter(pa.array(kept)))

    def _set_rows(self, rows: pa.Table) -> None:
        own = [(query, rows.filter(pc.equal(rows[QUERY], query.number))) for query in self._queries(rows)]
        self.pieces = [merge_contributions(query, each) for query, each in own]
        for piece in self.pieces:
            self._note_ends(piece)
        self._limit = 2 * sum(map(len, self.pieces)) + FEWEST_CONTRIBUTIONS

    def _queries(self, rows: pa.Table) -> list[DetectQuery]:
        return [self.program.detect_queries[number] for number in pc.unique(rows[QUERY]).to_pylist()]

    @property
    def _has_continuous(self) -> bool:
        return any(query.span.is_continuous for piece in self.pieces for query in self._queries(piece))

    def _note_ends(self, rows: pa.Table) -> None:
        """Note when windows end: matches of continuous queries set no timer."""
        for query in self._queries(rows):
            if not query.span.is_continuous:
                own = rows[END].to_numpy()[rows[QUERY].to_numpy() == query.number]
                self.next_end = min(self.next_end, int(own.min(initial=MAX_TIME)))


class DetectOperator(BranchOperator):
    """The operator of a branch whose queries need their matches; its saved state is rows alone, whatever the plan.

    `fed` has the live instances of queries that are fed new events; the queries `rerun` search their windows again. A
    restored stream searches all windows again once, for it may be restored for each micro-batch; `fed` is then rebuilt
    from the retained rows.
    """

    branch: DetectBranch

    # A match reaches back one window from when it is certain, and an absence before it another.
    windows_retained = 2

    def __init__(self, context: RunContext, branch: DetectBranch, start_times: Mapping[int, int] | None = None) -> None:
        super().__init__(context, branch, start_times)
        self.fed: FedMatches | None = None
        self.rerun: tuple[DetectQuery, ...] = ()
        self.is_planned = False  # of `fed` and `rerun`
        self.searches_all = False  # in the next micro-batch
        self.encoder = LiveEncoder(context, branch)
        self.can_feed = self.encoder.is_supported
        self.inexact: frozenset[Exactness] = frozenset()  # what cannot be compared as floats
        self.contributions = OpenContributions(self.program)
        self._plan: list[PlannedQuery] = []
        self._search_planner: _SomeQueries | None = None
        self._searched: Execution | None = None  # by the last search
        self._unplanned = self._plan_after = 0  # events since the last plan, and how many may come before the next

    @property
    def executed(self) -> list[Execution]:
        """See `BranchOperator.executed`: the joins that are fed, and those of the last search."""
        fed = [] if self.fed is None else [self.fed.executed]
        return fed if self._searched is None else [*fed, self._searched]

    @property
    def row_queries(self) -> tuple[DetectQuery, ...]:
        return self.branch.queries

    @property
    def recomputed_queries(self) -> tuple[DetectQuery, ...]:
        return self.branch.queries if self.searches_all or not self.can_feed else self.rerun

    def restore_sections(self, saved: SavedState) -> None:
        """See `BranchOperator.restore_sections`."""
        self._forget_fed()
        self.searches_all = True

    def _forget_fed(self) -> None:
        """Drop all live instances; they are rebuilt from retained rows."""
        self.fed, self.is_planned, self.rerun = None, False, ()
        self.contributions.clear()

    def _drop_rows(self, kept: Flags) -> None:
        if self.fed is not None and self.fed.is_wasteful:
            self._forget_fed()
        elif self.fed is not None:
            self.fed.forget(self.watermark, kept)

    def _extend_retention(self, rows: pa.Table, times: Times, kept: Flags) -> Flags:
        """See `BranchOperator._extend_retention`: no match that AFTER MATCH SKIP takes loses a part of its rows.

        Else another would be taken in its place when matches are searched for again.
        """
        skipping = tuple(
            query
            for query in self.branch.queries
            if query.skips_across_windows and query.query.after_match is AfterMatch.PAST_LAST_EVENT
        )
        if not skipping or kept.all():
            return kept
        codes, _, keys = encode_keys(rows, self.branch.partition)
        since = np.full(keys, MAX_TIME, np.int64)
        np.minimum.at(since, codes[kept], times[kept])
        taken = self._list_taken(rows, skipping)
        is_cut = bool(taken)
        while is_cut:  # a row that is kept for one query may cut a match of another
            is_cut = False
            for each in taken:
                key, first = codes[each.first], times[each.first]
                cut = (first < since[key]) & (since[key] <= each.last)
                np.minimum.at(since, key[cut], first[cut])
                is_cut |= bool(cut.any())
        kept = kept | (times >= since[codes])
        if any(query.looks_back for query in skipping) and not kept.all():
            # Without the rows before it, what a NOT at the beginning forbids may be taken: then those of its key stay.
            places = np.flatnonzero(kept)
            again = self._list_taken(rows.filter(pa.array(kept)), skipping)
            found = {each for part in again for each in _name_taken(part, places[part.first], codes, times)}
            known = {each for part in taken for each in _name_taken(part, part.first, codes, times)}
            differs = np.zeros(keys, np.bool_)
            differs[[key for _, key, first, _ in found ^ known if first >= since[key]]] = True
            kept |= differs[codes]
        return kept

    def _list_taken(self, rows: pa.Table, queries: tuple[DetectQuery, ...]) -> list[TakenRows]:
        """Return the matches that some queries take among rows."""
        run = DetectRun(self.program, self.branch, start_times=self.start_times, planning=self._planner_of(queries))
        for _ in run.process(rows):
            pass
        return run.taken

    def _advance(self, rows: pa.Table, times: Times, watermark: int) -> MicroBatchResult:
        held = bool(self.recomputed_queries)
        if self.can_feed and not self.searches_all:
            try:
                return self._advance_fed(rows, times, watermark)
            except TooManyInstances:
                self.can_feed = False
            except NumbersTooLarge as found:
                self.inexact |= found.inexact
            except DataError:
                pass  # the search tells whether a row is at fault
            self._forget_fed()
        if not held:
            rows = pa.concat_tables([self.retained.table, rows])
            times = read_times(rows, self.program.schema)
        result = self._search(rows, times, watermark, self.branch.queries)
        self.searches_all = False
        return result

    def _advance_fed(self, rows: pa.Table, times: Times, watermark: int) -> MicroBatchResult:
        """Feed new events to the queries that can be fed, and search the windows of the others."""
        new = (times >= self.watermark) & (times < watermark)
        passed, new_times = select_rows(rows, new), times[new]
        has_retained = bool(self.recomputed_queries)
        self._plan_fed(passed)
        if self.rerun and not has_retained:
            # Their rows are not among these.
            rows = pa.concat_tables([self.retained.table, rows])
            times = read_times(rows, self.program.schema)
        result = self._search(rows, times, watermark, self.rerun) if self.rerun else self._empty_result
        if self.fed is None:
            return result
        found = self.fed.feed(passed, new_times, self.retained.size) if len(passed) else []
        self._unplanned += len(passed)
        tables, truncated = [result.results], set(result.truncated)
        for table, name in self.fed.build_results(
            found, partial(self.retained.take, added=passed), (self.watermark, watermark), self.start_times
        ):
            (self.contributions if QUERY in table.column_names else tables).append(table)
            truncated |= {name} if name is not None else set()
        due = self.contributions.take_due(self.watermark, watermark)
        if due and self.branch.is_scattered:
            more = self._due_contributions(due, watermark)
            result = result._replace(contributions=pa.concat_tables([result.contributions, more]))
        elif due:
            tables += finish_results(due, self.program, self.watermark, watermark)
        full = [table for table in tables if len(table)] or tables[:1]
        results = full[0] if len(full) == 1 else pa.concat_tables(full)
        return result._replace(results=results, truncated=frozenset(truncated))

    @property
    def next_state_timer(self) -> int:
        return self.contributions.next_end

    def _plan_fed(self, passed: pa.Table) -> None:
        """Plan for the events of a window after so many have come, and go on with another plan if there is one."""
        if self.is_planned and self._unplanned < self._plan_after:
            return
        held = self.retained.table
        encoded = encode_branch(self.program, self.branch, pa.concat_tables([held, passed]))
        if not len(encoded.time):
            return
        planner = self.context.planner(self.branch)
        planner.are_fed = True
        plan = planner.plan_for(encoded)
        events = len(encoded.time)
        self._unplanned, self._plan_after = 0, max(FEWEST_EVENTS, WINDOWS_PER_PLAN * events)
        if self.is_planned and plan is self._plan:
            return
        self._plan, self.is_planned = plan, True
        reports_early = self.program.options.mode == "update"
        fed = [each for each in plan if can_feed(each, self.program.schema, reports_early)]
        self.rerun = tuple(each.query for each in plan if each not in fed)
        self.fed = FedMatches(self.encoder, self.branch, fed, self.inexact) if fed else None
        self.contributions.clear()
        if self.fed is not None and len(held):
            found = self.fed.feed(held, read_times(held, self.program.schema), 0, replays=True)
            take, bounds = partial(self.retained.take, added=held.slice(0, 0)), (self.watermark, self.watermark)
            for table, _ in self.fed.build_results(found, take, bounds, self.start_times):
                if QUERY in table.column_names:
                    self.contributions.append(table)
            self.contributions.drop_old(self.watermark)

    def _search(
        self, rows: pa.Table, times: Times, watermark: int, queries: tuple[DetectQuery, ...]
    ) -> MicroBatchResult:
        """Search the windows of some queries for what becomes final, in the keys that are concerned."""
        # Where partitions are combined here, all those of a group are searched together.
        due = select_same_keys(rows, self._find_due_rows(times, watermark), self.branch.related_by)
        due &= times < watermark
        if not due.any():
            return self._empty_result
        program, is_scattered = self.program, self.branch.is_scattered
        run = DetectRun(program, self.branch, start_times=self.start_times, planning=self._planner_of(queries))
        results: list[pa.Table] = []
        added: list[pa.Table] = []
        for piece in run.process(rows.filter(pa.array(due)), self.watermark, watermark):
            (added if QUERY in piece.column_names else results).append(piece)
        if run.executed is not None and run.executed != self._searched:
            self._searched = run.executed
        if not is_scattered:
            results += finish_results(added, program, self.watermark, watermark)
            if program.options.mode == "update":
                results += self._early_results(added, watermark)
        nothing = self._empty_result
        return nothing._replace(
            results=pa.concat_tables([nothing.results, *results]),
            contributions=self._due_contributions(added, watermark) if is_scattered else nothing.contributions,
            truncated=frozenset(run.truncated),
        )

    def _planner_of(self, queries: tuple[DetectQuery, ...]) -> BranchPlanner:
        """Return a planner of some queries, whose compiled plan is kept."""
        planner, numbers = self.context.planner(self.branch), frozenset(query.number for query in queries)
        if len(queries) == len(self.branch.queries):
            return planner
        if self._search_planner is None or self._search_planner.numbers != numbers:
            self._search_planner = _SomeQueries(planner, numbers)
        return self._search_planner

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
        if not self.recomputed_queries:
            held = self.retained.table
            times = np.concatenate((read_times(held, self.program.schema), times))
            return self._bisect(pa.concat_tables([held, rows]), times, watermark)[len(held) :]
        return self._bisect(rows, times, watermark)

    def _bisect(self, rows: pa.Table, times: Times, watermark: int) -> Flags:
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
            self._search(rows.take(pa.array(chosen)), times[chosen], watermark, self.branch.queries)
        except DataError:
            return False
        return True


def _name_taken(
    taken: TakenRows, first: Times, codes: NDArray[np.int32], times: Times
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the query, key, first and last time of matches, given the rows of their first events."""
    for key, begins, ends in zip(codes[first].tolist(), times[first].tolist(), taken.last.tolist(), strict=True):
        yield taken.query, key, begins, ends
