"""Compute when matches fit a window of any kind, in which windows they lie, and when they are certain or expire."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from motet.engine.encode import EncodedEvents, Ints
from motet.kernels.match_filter import Matches, MatchWindows
from motet.kernels.ragged import expand_ranges
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


def list_windows(query: DetectQuery, first: Ints, last: Ints, looks_back: bool) -> MatchWindows:
    """List the windows of matches by their first and last times.

    `looks_back`: whether something must be absent before the match.
    """
    span = query.span
    match = np.arange(len(first))
    if span.within == 0 or span.ranked:
        opens = np.full(len(match), MIN_TIME)
        return MatchWindows(match, opens, np.full(len(match), MAX_TIME), opens, last)
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

    A window that ends at the bound is complete; an event at the bound may still have others beside it.
    """
    return (bounds[0] + 1, bounds[1] + 1) if query.reports_at_close else bounds


def certain_times(query: DetectQuery, first: Ints, last: Ints) -> Ints:
    """Return when each match is known to be one."""
    span = query.span
    if not query.needs_window_close or span.within == 0:
        return last
    return first // span.slide * span.slide + span.within if span.slide else first + span.within


def expiry_times(span: WindowSpan, found: Matches, encoded: EncodedEvents) -> Ints:
    """Return when each match leaves a continuous window."""
    event = found.event[found.begin[:-1]]
    if not span.ranked:
        return encoded.time[event] + span.within
    at = encoded.offsets[found.key] + encoded.enter[event] + span.within - 1
    expires = encoded.time[np.minimum(at, len(encoded.time) - 1)]
    return np.where(at < encoded.offsets[found.key + 1], expires, MAX_TIME)
