"""AFTER MATCH SKIP: leave out the matches of a partition that overlap a match taken before, or begin where one did."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.bindings import concat_bindings, match_identities, match_times
from motet.engine.detect.windows import compute_oldest_starts
from motet.engine.encode import EncodedEvents, Ints
from motet.kernels.after_match import first_events, take_first, take_occurrences, take_past_last
from motet.kernels.arrays import MIN_TIME
from motet.kernels.match_filter import KeyedEvents, Matches, MatchWindows
from motet.kernels.numbering import RowIndex
from motet.kernels.ragged import offsets_from_counts
from motet.model.query import AfterMatch
from motet.plans.detect.query import DetectQuery

Flags = NDArray[np.bool_]


class Candidates(NamedTuple):
    """Matches in the windows that hold them, and in which of these windows they count."""

    found: Matches
    windows: MatchWindows
    counts: Any


class TakenMatches:
    """When the last match ended that was taken in each group of a stream, a group being of one key, window and, where
    each first event gives a match, first event.
    """

    def __init__(self, query: DetectQuery) -> None:
        self.span = query.span
        self.groups = RowIndex(3)
        self.ends = np.full(0, MIN_TIME)

    def read(self, groups: Sequence[Ints]) -> tuple[Ints, Ints]:
        """Return the numbers of groups, and when the last match taken in each ended. O(groups)."""
        rows = np.stack([*groups, *([np.zeros_like(groups[0])] * (3 - len(groups)))], axis=1)
        numbers = self.groups.number(rows)
        more = self.groups.count - len(self.ends)
        if more > 0:
            self.ends = np.concatenate((self.ends, np.full(len(self.ends) + more, MIN_TIME)))
        return numbers, self.ends[numbers]

    def forget(self, watermark: int) -> None:
        """Forget windows that have closed and, where there is no SLIDE, matches that ended a window ago. O(groups)."""
        count = self.groups.count
        needed_until = self.groups.words[:count, 1] if self.span.slide else self.ends[:count] + self.span.within
        kept = np.flatnonzero(needed_until > watermark)
        rows, ends = self.groups.words[kept], self.ends[kept]
        self.groups, self.ends = RowIndex(3), ends
        self.groups.number(rows)


def take_matches(
    query: DetectQuery,
    candidates: Sequence[Candidates],
    encoded: EncodedEvents,
    before: TakenMatches | None = None,
    names: Ints | None = None,
) -> list[Flags]:
    """Return for each match and window of the candidates whether it is taken, `before` being those taken before.

    `names` are the numbers of events that hold from one call to the next. O(candidates * log candidates): all matches
    are there already.
    """
    found = concat_bindings([each.found for each in candidates])
    starts = np.cumsum([0, *(len(each.found.key) for each in candidates)])
    match = np.concatenate([start + each.windows.match for start, each in zip(starts, candidates, strict=False)])
    closes = np.concatenate([each.windows.closes for each in candidates])
    open_rows = np.flatnonzero(np.concatenate([each.counts for each in candidates]))
    if query.is_ambiguous:
        open_rows = open_rows[_first_of_each(found, match[open_rows], closes[open_rows])]
    first, last = match_times(found, encoded)
    own = match[open_rows]
    window = closes[open_rows] if query.span.slide else np.zeros(len(own), np.int64)
    groups: list[Ints] = [found.key[own].astype(np.int64), window]
    if query.query.after_match is AfterMatch.TO_NEXT_EVENT:
        events = first_events(found, encoded.time)[own]
        groups.append(events if names is None else names[events])
    order = np.lexsort((first[own], last[own], *groups))
    is_new = np.zeros(len(order), np.bool_)
    is_new[:1] = True
    for values in groups:
        is_new[1:] |= values[order][1:] != values[order][:-1]
    offsets = np.append(np.flatnonzero(is_new), len(order))
    take = take_past_last if query.query.after_match is AfterMatch.PAST_LAST_EVENT else take_first
    chosen = np.zeros(len(order), np.bool_)
    before = TakenMatches(query) if before is None else before
    numbers, ends = before.read([values[order][offsets[:-1]] for values in groups])
    take(found, encoded.time, first, last, own[order], offsets, ends, chosen)
    before.ends[numbers] = ends
    taken = np.zeros(len(match), np.bool_)
    taken[open_rows[order[chosen]]] = True
    bounds = offsets_from_counts(np.array([len(each.windows.match) for each in candidates]))
    return [taken[begin:end] for begin, end in pairwise(bounds)]


def list_occurrences(query: DetectQuery, encoded: EncodedEvents) -> Matches:
    """Return the matches that a plain sequence takes PAST LAST EVENT, one after the other. O(events * positions)."""
    length = len(query.symbols)
    places = [sum(1 << at for at, symbol in enumerate(query.symbols) if symbol in own) for own in encoded.classes]
    events = KeyedEvents(encoded.offsets, encoded.time, encoded.enter, encoded.leave, encoded.klass)
    oldest = compute_oldest_starts(query.span, encoded)
    bound, keys = take_occurrences(events, np.array(places, np.int64), length, oldest)
    positions = np.tile(np.arange(length, dtype=np.int32), len(keys))
    return Matches(np.arange(len(keys) + 1) * length, positions, bound, keys)


def _first_of_each(found: Matches, match: Ints, window: Ints) -> Ints:
    """Return one row for each match and window: several alternatives may find the same match."""
    names = match_identities(found)
    rows: dict[tuple[bytes, int], int] = {}
    for at, (number, end) in enumerate(zip(match.tolist(), window.tolist(), strict=True)):
        rows.setdefault((names[number], end), at)
    return np.array(sorted(rows.values()), np.int64)
