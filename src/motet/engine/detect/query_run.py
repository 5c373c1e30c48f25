"""Run one query over a batch: from the instances of its roots to matches, or to contributions to aggregates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from motet.compile.contributions import DUE, END, FROM, UNTIL
from motet.engine.detect.after_match import Candidates, list_occurrences, take_matches
from motet.engine.detect.aggregate import build_contributions, merge_contributions
from motet.engine.detect.bindings import concat_bindings, mask_bindings, match_identities, match_times, take_bindings
from motet.engine.detect.instances import NO_BOUND, UNLIMITED, PlanRunner
from motet.engine.detect.match_limit import MatchLimit
from motet.engine.detect.matches import MatchFilter, MatchLister
from motet.engine.detect.results import DecodedColumns, MatchTableBuilder, has_structs
from motet.engine.detect.windows import (
    Bounds,
    certain_times,
    compute_oldest_starts,
    due_range,
    expired_absences,
    expiry_times,
    list_windows,
)
from motet.engine.encode import Ints
from motet.errors import RunError
from motet.kernels.match_filter import Matches, MatchWindows
from motet.kernels.ragged import offsets_of
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.model.query import AfterMatch
from motet.plans.detect.build import PlannedQuery
from motet.plans.detect.nodes import LeafNode
from motet.plans.detect.query import DetectQuery

# Contributions to aggregates are merged when there are so many.
MERGE_ROWS = 1 << 17


class QueryRun:
    """Run of one query over a batch. With `start_time`, only windows that began later are reported."""

    def __init__(
        self,
        runner: PlanRunner,
        planned: PlannedQuery,
        events: DecodedColumns,
        bounds: Bounds,
        start_time: int | None,
    ) -> None:
        self.runner, self.program, self.encoded = runner, runner.plan.program, runner.encoded
        self.planned = planned
        self.query = planned.query
        self.codes = runner.plan.codes[self.query.number]
        self.finds_occurrences = self.query.finds_occurrences  # the taken matches alone, in one pass
        self.bounds = bounds
        self.start_time = start_time
        self.match_limit = MatchLimit(self.program.options.match_limit, self.query.span)
        self.is_truncated = False
        self._builder = MatchTableBuilder(self.query, self.codes, runner, events)
        self._filters: dict[int, MatchFilter] = {}
        self._seen: set[bytes] = set()
        self._added: list[pa.Table] = []  # contributions to aggregates
        self._waiting: list[tuple[MatchFilter, Matches]] = []  # matches whose alternative is not certain yet
        self._taken_windows: dict[int, Any] = {}  # by block of matches that AFTER MATCH SKIP takes: in which windows
        is_bounded = bounds[0] > MIN_TIME or bounds[1] < MAX_TIME
        self._may_wait = start_time is not None or is_bounded or self.query.needs_window_close
        self._is_full = False
        self.taken: list[Matches] = []  # by AFTER MATCH SKIP

    def list_matches(self, alternative: int) -> Iterator[pa.Table]:
        """Yield the rows of an alternative whose root is not run by the kernel."""
        if self.finds_occurrences:
            yield from self._list_occurrences(alternative)
            return
        match_filter, limit = self._filter_of(alternative), self.match_limit.limit
        # One more than may be is enough to know; but where matches are filtered later, any may be the one to keep.
        most = UNLIMITED if limit is None or match_filter.is_needed or match_filter.has_open_ends else limit + 1
        since = earliest_end(self.query, self.bounds)
        for block in MatchLister(self.runner, match_filter.planned, most, since, self.match_limit).list():
            yield from self.add_matches(alternative, block)
            if self._is_full:
                break

    def add_matches(self, alternative: int, block: Matches) -> Iterator[pa.Table]:
        """Yield the rows of matches that pass the filter of an alternative; aggregates have theirs at the end."""
        match_filter = self._filter_of(alternative)
        found = match_filter.filter(block)
        kept = self._admit(found)
        if kept is not None:
            found = mask_bindings(found, kept)
        if not len(found.key) or self._is_full:
            return
        if self.query.query.after_match is not AfterMatch.ALL:
            # Which matches are taken is known when all are there.
            self._wait(match_filter, found)
        elif not self.query.query.is_aggregate:
            yield from self._list_rows(match_filter, found)
        elif not self.query.is_ambiguous:
            self._added = self._merge_when_many([*self._added, self._build_contributions([(match_filter, found)])])
        else:
            # Which of its alternatives a match counts by is known when all are there.
            self._wait(match_filter, found)

    def _admit(self, found: Matches) -> Any:
        """Return a mask of the matches that are not beyond the limit; None where all are."""
        kept = self.match_limit.admit(found.key, match_times(found, self.encoded)[1])
        if kept is not None:
            self._exceed_limit(f"more than {self.match_limit.limit:,} matches in one window")
        return kept

    def _list_occurrences(self, alternative: int) -> Iterator[pa.Table]:
        """Yield the rows of the matches that AFTER MATCH SKIP takes; of aggregates, contributions at the end."""
        found, closes = list_occurrences(self.query, self.encoded)
        takes_by_window = self.query.takes_by_window
        kept = self._admit(found)
        if takes_by_window and self.start_time is not None:  # only windows that were seen from their beginning
            seen = closes - self.query.span.within >= self.start_time
            kept = seen if kept is None else seen & kept
        if kept is not None:
            found, closes = mask_bindings(found, kept), closes[kept]
        if not len(found.key):
            return
        self.taken.append(found)
        match_filter = self._filter_of(alternative)
        if not self.query.query.is_aggregate:
            if takes_by_window:  # a match is returned once, whichever windows take it
                found = mask_bindings(found, _is_new(found, set()))
            yield from self._list_rows(match_filter, found)
            return
        if takes_by_window:
            which = np.arange(len(found.key))
            self._added = [build_contributions(self.query, found, which, {END: closes}, self.runner, self.program)]
        else:
            self._added = [self._build_contributions([(match_filter, found)])]

    def _wait(self, match_filter: MatchFilter, found: Matches) -> None:
        self._waiting.append((match_filter, found))
        self._is_full = not self.runner.budget.reserve(sum(part.nbytes for part in found), match_filter.planned.root)

    def finish(self) -> Iterator[pa.Table]:
        """Yield what could not be told before all matches were there: of aggregates, contributions."""
        if self._waiting and self.query.query.after_match is not AfterMatch.ALL:  # and so not found one by one
            yield from self._finish_taken()
        elif self._waiting:
            yield self._build_contributions(self._waiting)
        yield from self._added

    def _finish_taken(self) -> Iterator[pa.Table]:
        """Yield rows or contributions of the matches that AFTER MATCH SKIP takes."""
        candidates = []
        for match_filter, found in self._waiting:
            windows, is_reported, _ = self._list_windows(match_filter, found)
            candidates.append(Candidates(found, windows, is_reported))
        taken = self._take_matches(candidates)
        kept: list[tuple[MatchFilter, Matches]] = []
        for (match_filter, found), each, own in zip(self._waiting, candidates, taken, strict=True):
            is_taken = np.zeros(len(found.key), np.bool_)
            is_taken[each.windows.match[own]] = True
            if not is_taken.any():
                continue
            match = mask_bindings(found, is_taken)
            kept.append((match_filter, match))
            self.taken.append(match)
            self._taken_windows[id(match)] = own[is_taken[each.windows.match]]
        if self.query.query.is_aggregate and kept:
            yield self._build_contributions(kept)
        elif kept:
            for match_filter, match in kept:
                yield from self._list_rows(match_filter, match)

    def _take_matches(self, candidates: Sequence[Candidates]) -> Any:
        return take_matches(self.query, candidates, self.encoded)

    def _exceed_limit(self, what: str) -> None:
        """Raise an error, or mark the query as truncated."""
        if self.program.options.on_limit == "error":
            raise limit_error(self.query, what)
        self.is_truncated = True

    # Matches

    def _filter_of(self, alternative: int) -> MatchFilter:
        if alternative not in self._filters:
            query, planned = self.query, self.planned.alternatives[alternative]
            allows_more = isinstance(planned.root, LeafNode) or self.runner.plan.spans[planned.root] != {query.span}
            oldest = compute_oldest_starts(query.span, self.encoded) if allows_more else None
            self._filters[alternative] = MatchFilter(query, planned, self.codes, self.runner, oldest)
        return self._filters[alternative]

    def _list_rows(self, match_filter: MatchFilter, found: Matches) -> Iterator[pa.Table]:
        """Yield the rows of matches that are due."""
        if self._may_wait or match_filter.has_open_ends:
            found = mask_bindings(found, self._is_due(match_filter, found))
        if self.query.is_ambiguous:
            found = mask_bindings(found, _is_new(found, self._seen))
        if len(found.key):
            if has_structs(self.program):
                first, last = match_times(found, self.encoded)
                found = take_bindings(found, np.lexsort((last, first)))
            yield self._builder.build(found)

    def _is_due(self, match_filter: MatchFilter, found: Matches) -> Any:
        """Return a mask of the matches that become certain within the bounds, in a window to be reported."""
        certain = certain_times(self.query, found, self.encoded)
        since, until = due_range(self.query, self.bounds)
        due = (since <= certain) & (certain < until)
        if match_filter.has_open_ends or self.start_time is not None:
            windows, is_reported, _ = self._list_windows(match_filter, found)
            shown = np.zeros(len(found.key), np.bool_)
            shown[windows.match[is_reported]] = True
            due &= shown
        return due

    def _list_windows(self, match_filter: MatchFilter, found: Matches) -> tuple[MatchWindows, Any, Ints]:
        """Return each match in each window that holds it, whether that window is to be reported, and the time since
        which nothing that must be absent occurred before the match.

        A window is reported if it was seen from its beginning and no absence forbids the match.
        """
        looks_back = match_filter.looks_back
        windows = list_windows(self.query, found, self.encoded, looks_back)
        seen = windows.begins >= (MIN_TIME if self.start_time is None else self.start_time)
        if self.query.span.ranked and self.query.needs_window_close:
            seen &= windows.closes < MAX_TIME  # a window of events that is not full has not ended
        if not match_filter.has_open_ends:
            return windows, seen, np.full(len(seen), MIN_TIME)
        clear, since = match_filter.check_ends(found, windows)
        return windows, clear & seen & (since <= windows.opens), np.where(clear, since, MAX_TIME)

    # Aggregates

    def _merge_when_many(self, tables: list[pa.Table]) -> list[pa.Table]:
        """Merge contributions once there are many."""
        rows = sum(map(len, tables))
        if len(tables) < 2 or rows < max(MERGE_ROWS, 2 * len(tables[0])):
            return tables
        return [merge_contributions(self.query, pa.concat_tables(tables))]

    def _build_contributions(self, waiting: Sequence[tuple[MatchFilter, Matches]]) -> pa.Table:
        """Return what matches add in each window."""
        numbers, times = [], []
        starts = offsets_of(found.key for _, found in waiting)
        for (match_filter, found), start in zip(waiting, starts, strict=False):
            own, counts, columns = self._contribution_times(match_filter, found)
            numbers.append(start + own[counts])
            times.append({name: values[counts] for name, values in columns.items()})
        found = concat_bindings([found for _, found in waiting])
        which = np.concatenate(numbers)
        all_times = {name: np.concatenate([each[name] for each in times]) for name in times[0]}
        if self.query.is_ambiguous:
            which, all_times = _drop_duplicates(found, which, all_times)
        return build_contributions(self.query, found, which, all_times, self.runner, self.program)

    def _contribution_times(self, match_filter: MatchFilter, found: Matches) -> tuple[Ints, Any, dict[str, Any]]:
        """Return each match in each window, whether it counts there, and from when until when."""
        span = self.query.span
        windows, is_reported, since = self._list_windows(match_filter, found)
        if id(found) in self._taken_windows:
            is_reported = is_reported & self._taken_windows[id(found)]
        if not span.is_continuous or self.query.needs_window_close:
            end = windows.closes if span.within else np.zeros(len(windows.match), np.int64)
            if span.ranked:
                end = certain_times(self.query, found, self.encoded)
            return windows.match, is_reported, {END: end}
        # A NOT at the beginning looks back from the report: the match counts once what it forbids has expired.
        times = {
            END: match_times(found, self.encoded)[1],
            FROM: expired_absences(span, found, since, self.encoded),
            UNTIL: expiry_times(span, found, self.encoded),
            DUE: is_reported,
        }
        return windows.match, since < MAX_TIME, times


def limit_error(query: DetectQuery, what: str) -> RunError:
    """Return the error of a query that exceeds a limit."""
    advice = (
        "(use a smaller window or more conditions, raise --memory-limit or --match-limit, in Python "
        "memory_limit= and match_limit=, or cut off the rest with --on-limit truncate)"
    )
    return RunError(f"query {query.query.name}: {what} {advice}")


def earliest_end(query: DetectQuery, bounds: Bounds) -> int:
    """Return the earliest end of a match that is still to be reported; aggregates and AFTER MATCH SKIP need all."""
    if query.query.is_aggregate or query.query.after_match is not AfterMatch.ALL or bounds[0] == MIN_TIME:
        return NO_BOUND
    if query.needs_window_close and query.span.ranked:
        return NO_BOUND
    return bounds[0] - (query.span.within if query.needs_window_close else 0)


def _is_new(found: Matches, seen: set[bytes]) -> Any:
    """Return a mask of the matches that were not seen before, and remember them."""
    new = np.zeros(len(found.key), np.bool_)
    for at, identity in enumerate(match_identities(found)):
        new[at] = identity not in seen
        seen.add(identity)
    return new


def _drop_duplicates(found: Matches, which: Ints, times: dict[str, Any]) -> tuple[Ints, dict[str, Any]]:
    """Keep, of the alternatives that find one match in one window, the one by which it counts earliest."""
    names = match_identities(found)
    best: dict[tuple[bytes, int], int] = {}
    since = times.get(FROM)
    for at, match in enumerate(which.tolist()):
        key = (names[match], int(times[END][at]))
        if key not in best or (since is not None and since[at] < since[best[key]]):
            best[key] = at
    kept = np.array(sorted(best.values()), np.int64)
    return which[kept], {name: values[kept] for name, values in times.items()}
