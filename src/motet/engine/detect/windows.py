"""Compute when matches fit a window of any kind, in which windows they lie, and when they are certain or expire."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from motet.engine.detect.bindings import match_times
from motet.engine.encode import EncodedEvents, Ints
from motet.kernels.match_filter import Matches, MatchWindows
from motet.kernels.ragged import expand_ranges, row_numbers
from motet.kernels.tables import MAX_TIME, MIN_TIME
from motet.plans.compiled import CompiledQuery, WindowSpan
from motet.plans.detect.query import DetectQuery

Bounds = tuple[int, int]


def compute_oldest_starts(span: WindowSpan, encoded: EncodedEvents) -> Ints:
    """Return for each event the earliest start of a match that ends with it. It never decreases over time."""
    time = encoded.time
    if span.within == 0:
        return np.full(len(time), MIN_TIME, np.int64)
    if span.ranked:
        return _oldest_by_rank(span.within - 1, encoded)
    if span.slide:
        return ((time - span.within) // span.slide + 1) * span.slide
    return time - span.within + 1


def _oldest_by_rank(size: int, encoded: EncodedEvents) -> Ints:
    """Return, for count windows, the time from which on at most `size` events lie up to each event."""
    time, enter, leave = encoded.time, encoded.enter, encoded.leave
    if not len(time):
        return np.zeros(0, np.int64)
    counts = np.diff(encoded.offsets)
    base, end = np.repeat(encoded.offsets[:-1], counts), np.repeat(encoded.offsets[1:], counts)
    rank = leave - size
    at = base + np.maximum(rank, 0)
    # Where the rank falls within a tie, the window begins after it.
    within = np.minimum(at, len(time) - 1)
    at = np.where((at < end) & (enter[within] < rank), base + leave[within], at)
    begins = time[np.minimum(at, len(time) - 1)]
    # More events than the window holds share the time of the last one: no match ends there.
    nowhere = (at >= end) | (begins > time)
    return np.where(rank <= 0, MIN_TIME, np.where(nowhere, time + 1, begins)).astype(np.int64)


def compute_widest_starts(spans: Iterable[WindowSpan], encoded: EncodedEvents) -> Ints:
    """Return the earliest start that the largest of several windows allows for each event."""
    oldest: Ints = np.minimum.reduce([compute_oldest_starts(span, encoded) for span in spans])
    return oldest


def list_windows(query: DetectQuery, found: Matches, encoded: EncodedEvents, looks_back: bool) -> MatchWindows:
    """List the windows of matches, whose events are in time order.

    `looks_back`: whether something must be absent before the match.
    """
    span = query.span
    first, last = match_times(found, encoded)
    match = np.arange(len(first))
    if span.within == 0:
        opens = np.full(len(match), MIN_TIME)
        return MatchWindows(match, opens, np.full(len(match), MAX_TIME), opens, last)
    if span.ranked:
        opens = first - 1
        if looks_back:
            oldest = compute_oldest_starts(span, encoded)[found.event[found.begin[1:] - 1]]
            opens = np.maximum(oldest, MIN_TIME + 1) - 1
        return MatchWindows(match, opens, _count_window_ends(span, found, encoded)[1], first - 1, last)
    if span.slide:
        earliest = (last - span.within) // span.slide + 1
        counts = first // span.slide - earliest + 1
        start = expand_ranges(earliest, counts) * span.slide
        return MatchWindows(np.repeat(match, counts), start - 1, start + span.within, start - 1, start)
    opens = last - span.within
    begins = first if query.needs_window_close and not looks_back else opens
    return MatchWindows(match, opens, first + span.within, first - 1, begins)


def due_range(query: CompiledQuery | DetectQuery, bounds: Bounds) -> Bounds:
    """Return the times of results that become certain when the watermark moves from one bound to the other.

    A window that ends at the bound is complete; an event at the bound may still have others beside it, and so may one
    that fills a window of events.
    """
    if query.span.ranked or not query.reports_at_close:
        return bounds
    delay = query.report_delay if isinstance(query, DetectQuery) else 0
    return bounds[0] + 1 - delay, bounds[1] + 1 - delay


def certain_times(query: DetectQuery, found: Matches, encoded: EncodedEvents) -> Ints:
    """Return when each match is known to be one: MAX_TIME where its window of events is not full."""
    span = query.span
    first, last = match_times(found, encoded)
    if not query.needs_window_close or span.within == 0:
        return last
    if span.ranked:
        return _count_window_ends(span, found, encoded)[0]
    return first // span.slide * span.slide + span.within if span.slide else first + span.within


def _count_window_ends(span: WindowSpan, found: Matches, encoded: EncodedEvents) -> tuple[Ints, Ints]:
    """Return when the window of events that opens with each match is full, and the time before which its events lie.

    Both are MAX_TIME where it is not full. Events that share a time and are too many together are not in it.
    """
    size, event = span.within - 1, found.event[found.begin[:-1]]
    at = encoded.offsets[found.key] + encoded.enter[event] + size - 1
    is_full = at < encoded.offsets[found.key + 1]
    at = np.minimum(at, len(encoded.time) - 1)
    fits = encoded.leave[at] - encoded.enter[event] <= size
    full = np.where(is_full, encoded.time[at], MAX_TIME)
    return full, np.where(is_full & fits, full + 1, full)


def expired_absences(span: WindowSpan, found: Matches, since: Ints, encoded: EncodedEvents) -> Ints:
    """Return when what a leading NOT forbids has left the window: `since` is its latest time before each match.

    O(events * log events) for windows of events.
    """
    if not span.ranked:
        return np.where(since == MIN_TIME, MIN_TIME, since + span.within)
    begin, end = encoded.offsets[found.key], encoded.offsets[found.key + 1]
    moments, codes = np.unique(encoded.time, return_inverse=True)
    places = row_numbers(encoded.offsets) * (len(moments) + 1) + codes
    event = np.searchsorted(places, found.key * (len(moments) + 1) + np.searchsorted(moments, since))
    at = begin + encoded.enter[np.minimum(event, len(encoded.time) - 1)] + span.within - 1
    expires = np.where(at < end, encoded.time[np.minimum(at, len(encoded.time) - 1)], MAX_TIME)
    return np.where((since == MIN_TIME) | (since == MAX_TIME), since, expires)


def expiry_times(span: WindowSpan, found: Matches, encoded: EncodedEvents) -> Ints:
    """Return when each match leaves a continuous window."""
    event = found.event[found.begin[:-1]]
    if not span.ranked:
        return encoded.time[event] + span.within
    at = encoded.offsets[found.key] + encoded.enter[event] + span.within - 1
    expires = encoded.time[np.minimum(at, len(encoded.time) - 1)]
    return np.where(at < encoded.offsets[found.key + 1], expires, MAX_TIME)
