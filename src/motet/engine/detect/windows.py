"""Windows of any kind as one number for each event: the earliest first time of the matches that may end with it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from motet.engine.encode import Encoded, Ints
from motet.kernels.instances import LONG_AGO
from motet.plan.compiled import Span


def oldest_of(span: Span, encoded: Encoded) -> Ints:
    """For each event, the earliest first time of a match that ends with it. Later events never have an earlier one."""
    time = encoded.time
    if span.within == 0:
        return np.full(len(time), LONG_AGO, np.int64)
    if span.ranked:
        return _oldest_by_rank(span.within - 1, encoded)
    if span.slide:
        return ((time - span.within) // span.slide + 1) * span.slide
    return time - span.within + 1


def _oldest_by_rank(size: int, encoded: Encoded) -> Ints:
    """Of windows that count events: the time from which on at most `size` events lie up to each one."""
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
    return np.where(rank <= 0, LONG_AGO, np.where(nowhere, time + 1, begins)).astype(np.int64)


def widest(spans: Iterable[Span], encoded: Encoded) -> Ints:
    """What the largest of some windows allows, event by event."""
    oldest: Ints = np.minimum.reduce([oldest_of(span, encoded) for span in spans])
    return oldest
