"""AFTER MATCH SKIP: leave out the matches of a partition that overlap a match taken before, or begin where one did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.bindings import concat_bindings, match_identities
from motet.engine.detect.windows import compute_oldest_starts
from motet.engine.encode import EncodedEvents, Ints
from motet.kernels.after_match import first_events, take_first, take_from_each, take_occurrences, take_past_last
from motet.kernels.arrays import MIN_TIME
from motet.kernels.match_filter import KeyedEvents, Matches, MatchWindows
from motet.kernels.numbering import RowIndex
from motet.kernels.ragged import offsets_from_counts
from motet.model.query import AfterMatch
from motet.plans.compiled import WindowSpan
from motet.plans.detect.query import DetectQuery

Flags = NDArray[np.bool_]


class Candidates(NamedTuple):
    """Matches in the windows that hold them, and in which of these windows they count."""

    found: Matches
    windows: MatchWindows
    counts: Any


class TakenMatches:
    """When the last match ended that was taken in each group of a stream, a group being of one query, key, window and,
    where each first event gives a match, first event. A query without SLIDE has no windows here.
    """

    def __init__(self) -> None:
        self.groups = RowIndex(4)
        self.ends = np.full(0, MIN_TIME)

    def number(self, *groups: Ints | int) -> Ints:
        """Return the numbers of groups: queries, keys, ends of windows and first events. O(groups)."""
        numbers = self.groups.number(np.stack(np.broadcast_arrays(*groups), axis=1).astype(np.int64, copy=False))
        more = self.groups.count - len(self.ends)
        if more > 0:
            self.ends = np.concatenate((self.ends, np.full(len(self.ends) + more, MIN_TIME)))
        return numbers

    def take(self, kind: AfterMatch, found: Matches, time: Ints, match: Ints, numbers: Ints) -> Flags:
        """Return of some rows, each a match in a group, whether it is taken. O(rows * log rows)."""
        times = time[found.event]
        first, last = (ends.reduceat(times, found.begin[:-1]) for ends in (np.minimum, np.maximum))
        order = np.lexsort((first[match], last[match], numbers))
        offsets = np.append(np.flatnonzero(np.diff(numbers[order], prepend=-1)), len(order))
        own, chosen = numbers[order[offsets[:-1]]], np.zeros(len(order), np.bool_)
        ends = self.ends[own]
        take = take_past_last if kind is AfterMatch.PAST_LAST_EVENT else take_first
        take(found, time, first, last, match[order], offsets, ends, chosen)
        self.ends[own] = ends
        taken = np.zeros(len(order), np.bool_)
        taken[order] = chosen
        return taken

    def forget(self, watermark: int, spans: Mapping[int, WindowSpan]) -> None:
        """Forget windows that have closed and, where there is no SLIDE, matches that ended a window ago. O(groups).

        `spans` has the window of each query.
        """
        if not self.groups.count:
            return
        words, ends = self.groups.words[: self.groups.count], self.ends[: self.groups.count]
        slides, within = np.zeros((2, max(spans) + 1), np.int64)
        for number, span in spans.items():
            slides[number], within[number] = span.slide, span.within
        needed_until = np.where(slides[words[:, 0]] > 0, words[:, 2], ends + within[words[:, 0]])
        kept = np.flatnonzero(needed_until > watermark)
        self.groups, self.ends = RowIndex(4), ends[kept]
        self.groups.number(words[kept])


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
    own, kind = match[open_rows], query.query.after_match
    events: Ints | int = 0
    if kind is AfterMatch.TO_NEXT_EVENT:
        events = first_events(found, encoded.time)[own]
        events = events if names is None else names[events]
    before = TakenMatches() if before is None else before
    numbers = before.number(query.number, found.key[own], closes[open_rows] if query.span.slide else 0, events)
    taken = np.zeros(len(match), np.bool_)
    taken[open_rows] = before.take(kind, found, encoded.time, own, numbers)
    bounds = offsets_from_counts(np.array([len(each.windows.match) for each in candidates]))
    return [taken[begin:end] for begin, end in pairwise(bounds)]


def list_occurrences(query: DetectQuery, encoded: EncodedEvents) -> tuple[Matches, Ints]:
    """Return the matches that a sequence takes, and no other is looked at: see `motet.kernels.after_match`.

    With them comes the end of the window that takes each, where windows do.
    """
    length, span = len(query.symbols), query.span
    places = np.array(
        [sum(1 << at for at, symbol in enumerate(query.symbols) if symbol in own) for own in encoded.classes], np.int64
    )
    events = KeyedEvents(encoded.offsets, encoded.time, encoded.enter, encoded.leave, encoded.klass)
    oldest = compute_oldest_starts(span, encoded)
    if query.query.after_match is AfterMatch.PAST_LAST_EVENT:
        found = take_occurrences(events, places, length, oldest, span.within, span.slide)
    else:
        found = take_from_each(events, places, length, oldest)
    positions = np.tile(np.arange(length, dtype=np.int32), len(found.key))
    return Matches(np.arange(len(found.key) + 1) * length, positions, found.event, found.key), found.closes


def _first_of_each(found: Matches, match: Ints, window: Ints) -> Ints:
    """Return one row for each match and window: several alternatives may find the same match."""
    names = match_identities(found)
    rows: dict[tuple[bytes, int], int] = {}
    for at, (number, end) in enumerate(zip(match.tolist(), window.tolist(), strict=True)):
        rows.setdefault((names[number], end), at)
    return np.array(sorted(rows.values()), np.int64)
