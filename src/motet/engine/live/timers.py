"""Tell when results fall due without a further event: windows that end, matches that expire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.tables import MAX_TIME
from motet.plans.compiled import CompiledQuery
from motet.plans.detect.query import DetectQuery

Times = NDArray[np.int64]


class Timer(NamedTuple):
    """How long after an event a query may report because of it alone.

    That is when each window with the event ends or, without SLIDE, when the event leaves the window; `lag` later.
    """

    within: int
    slide: int
    lag: int


def timers_for(query: CompiledQuery | DetectQuery) -> set[Timer]:
    """Return the timers of a query; none if it only reports when a match completes."""
    # Detection looks for changes of swept values itself.
    needs_sweep = isinstance(query, CompiledQuery) and query.needs_sweep
    if query.span.ranked or not (query.reports_at_close or needs_sweep):
        return set()
    # A change of a value at some time counts once the watermark has passed that time.
    return {Timer(query.span.within, query.span.slide, 0 if query.reports_at_close else 1)}


def next_timers(timers: Iterable[Timer], times: Times, watermark: int) -> Times:
    """Return, for each event, the smallest later watermark at which some query may report because of it alone."""
    soonest = np.full(len(times), MAX_TIME, np.int64)
    for within, slide, lag in timers:
        if slide:
            first = np.maximum((times - within) // slide, (watermark - within) // slide) + 1
            ends = np.where(first <= times // slide, first * slide + within, MAX_TIME)
        else:
            ends = times + within + lag
            ends = np.where(ends > watermark, ends, MAX_TIME)
        soonest = np.minimum(soonest, ends)
    return soonest
