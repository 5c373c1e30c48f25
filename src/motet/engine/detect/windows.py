"""Turn windows of any kind into one number for each event: the earliest start of a match that ends with it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from motet.engine.encode import EncodedEvents, Ints
from motet.kernels.instances import MIN_TIME
from motet.plans.compiled import WindowSpan


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
