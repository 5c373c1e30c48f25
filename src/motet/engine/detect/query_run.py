"""Run one query over a batch: from the instances of its roots to matches, or to contributions to aggregates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from motet.compile.contributions import DUE, END, FROM, UNTIL
from motet.engine.detect.aggregate import build_contributions, merge_contributions
from motet.engine.detect.batch import Batch
from motet.engine.detect.bindings import concat_bindings, mask_bindings, match_identities, match_times, take_bindings
from motet.engine.detect.instances import NO_BOUND, UNLIMITED, MemoryLimitReached
from motet.engine.detect.match_limit import MatchLimit
from motet.engine.detect.matches import MatchFilter, MatchLister
from motet.engine.detect.results import MatchTableBuilder
from motet.engine.detect.windows import (
    Bounds,
    certain_times,
    compute_oldest_starts,
    due_range,
    expiry_times,
    list_windows,
)
from motet.engine.encode import Ints
from motet.errors import RunError
from motet.kernels.match_filter import Matches, MatchWindows
from motet.kernels.ragged import offsets_of
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.plans.detect.build import PlannedAlternative, PlannedQuery
from motet.plans.detect.nodes import LeafNode

# Contributions to aggregates are merged when there are so many.
MERGE_ROWS = 1 << 17


class QueryRun:
    """Run of one query over a batch. With `start_time`, only windows that began later are reported."""

    def __init__(self, batch: Batch, planned: PlannedQuery, bounds: Bounds, start_time: int | None = None) -> None:
        self.batch = batch
        self.program, self.encoded, self.runner = batch.program, batch.encoded, batch.runner
        self.planned = planned
        self.query = planned.query
        self.codes = batch.codes[self.query.number]
        self.bounds = bounds
        self.start_time = start_time
        self.match_limit = MatchLimit(self.program.options.match_limit, self.query.span)
        self.is_truncated = False

    def process(self) -> Iterator[pa.Table]:
        """Yield tables of matches or contributions."""
        try:
            yield from self._contribute() if self.query.query.is_aggregate else self._list_rows()
        except MemoryLimitReached:
            limit = self.program.options.memory_bytes
            self._exceed_limit(f"parts of matches need more than {limit / 2**20:,.0f} MiB")
        if self.runner.budget.truncated.intersection(self.planned.nodes):
            self.is_truncated = True

    def _exceed_limit(self, what: str) -> None:
        """Raise an error, or mark the query as truncated."""
        if self.program.options.on_limit == "error":
            raise RunError(
                f"query {self.query.query.name}: {what} "
                "(use a smaller window or more conditions, raise --memory-limit or --match-limit, in Python "
                "memory_limit= and match_limit=, or cut off the rest with --on-limit truncate)"
            )
        self.is_truncated = True

    # Matches

    def _make_filter(self, planned: PlannedAlternative) -> MatchFilter:
        query, spans = self.query, self.batch.spans[planned.root]
        allows_more = isinstance(planned.root, LeafNode) or spans != {query.span}
        oldest = compute_oldest_starts(query.span, self.encoded) if allows_more else None
        return MatchFilter(query, planned, self.codes, self.runner, oldest)

    def _find_matches(self, match_filter: MatchFilter) -> Iterator[Matches]:
        """Yield the matches of an alternative that pass its filter and are within the limit."""
        root, limit = match_filter.planned.root, self.match_limit.limit
        # One more than may be is enough to know; but where matches are filtered later, any may be the one to keep.
        most = UNLIMITED if limit is None or match_filter.is_needed or match_filter.has_open_ends else limit + 1
        is_shared = self.batch.readers[root] > 1
        since = self._earliest_end()
        lister = MatchLister(self.runner, match_filter.planned, is_shared, most, since, self.match_limit)
        for block in lister.list():
            found = match_filter.filter(block)
            kept = self.match_limit.admit(found.key, match_times(found, self.encoded)[1])
            if kept is not None:
                self._exceed_limit(f"more than {limit:,} matches in one window")
                found = mask_bindings(found, kept)
            if len(found.key):
                yield found

    def _earliest_end(self) -> int:
        """Return the earliest end of a match that is still to be reported; aggregates need all."""
        if self.query.query.is_aggregate or self.bounds[0] == MIN_TIME:
            return NO_BOUND
        return self.bounds[0] - (self.query.span.within if self.query.needs_window_close else 0)

    def _list_rows(self) -> Iterator[pa.Table]:
        """Yield the rows of matches that are due."""
        builder = MatchTableBuilder(self.query, self.codes, self.runner, self.batch.event_columns, self.program)
        seen: set[bytes] = set()
        for planned in self.planned.alternatives:
            match_filter = self._make_filter(planned)
            for found in self._find_matches(match_filter):
                found = mask_bindings(found, self._is_due(match_filter, found))
                if self.query.is_ambiguous:
                    found = mask_bindings(found, _is_new(found, seen))
                if len(found.key):
                    first, last = match_times(found, self.encoded)
                    yield builder.build(take_bindings(found, np.lexsort((last, first))))

    def _is_due(self, match_filter: MatchFilter, found: Matches) -> Any:
        """Return a mask of the matches that become certain within the bounds, in a window to be reported."""
        certain = certain_times(self.query, *match_times(found, self.encoded))
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
        windows = list_windows(self.query, *match_times(found, self.encoded), looks_back)
        seen = windows.begins >= (MIN_TIME if self.start_time is None else self.start_time)
        if not match_filter.has_open_ends:
            return windows, seen, np.full(len(seen), MIN_TIME)
        clear, since = match_filter.check_ends(found, windows)
        return windows, clear & seen & (since <= windows.opens), np.where(clear, since, MAX_TIME)

    # Aggregates

    def _contribute(self) -> Iterator[pa.Table]:
        """Yield what matches add to aggregates."""
        waiting: list[tuple[MatchFilter, Matches]] = []
        added: list[pa.Table] = []
        for planned in self.planned.alternatives:
            match_filter = self._make_filter(planned)
            for found in self._find_matches(match_filter):
                if not self.query.is_ambiguous:
                    added = self._merge_when_many([*added, self._build_contributions([(match_filter, found)])])
                    continue
                # Which of its alternatives a match counts by is known when all are there.
                waiting.append((match_filter, found))
                if not self.runner.budget.reserve(sum(part.nbytes for part in found), planned.root):
                    break
        if waiting:
            yield self._build_contributions(waiting)
        yield from added

    def _merge_when_many(self, tables: list[pa.Table]) -> list[pa.Table]:
        """Merge contributions once there are many."""
        rows = sum(map(len, tables))
        if any(item.distinct for item in self.query.query.aggregates):
            return tables
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
        if not span.is_continuous or self.query.needs_window_close:
            end = windows.closes if span.within else np.zeros(len(windows.match), np.int64)
            return windows.match, is_reported, {END: end}
        # A NOT at the beginning looks back from the report: the match counts once what it forbids has expired.
        begin = since if span.ranked else np.where(since == MIN_TIME, MIN_TIME, since + span.within)
        times = {
            END: match_times(found, self.encoded)[1],
            FROM: begin,
            UNTIL: expiry_times(span, found, self.encoded),
            DUE: is_reported,
        }
        return windows.match, since < MAX_TIME, times


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
