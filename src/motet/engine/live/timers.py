"""Tell when results fall due without a further event: windows that end, matches that expire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.tables import MAX_TIME
from motet.plans.compiled import CompiledQuery, WindowSpan

Times = NDArray[np.int64]


class Timer(NamedTuple):
    """How long after an event a query may report because of it alone.

    That is when each window with the event ends or, without SLIDE, when the event leaves the window; `lag` later.
    """

    within: int
    slide: int
    lag: int


def timers_for(span: WindowSpan, *, reports_at_close: bool, needs_sweep: bool = False) -> set[Timer]:
    """Return the timers of a query; none if it only reports when a match completes."""
    if span.ranked or not (reports_at_close or needs_sweep):
        return set()
    # A change of a value at some time counts once the watermark has passed that time.
    return {Timer(span.within, span.slide, 0 if reports_at_close else 1)}


def reports_at_close(compiled: CompiledQuery) -> bool:
    """Return whether a query reports when a window ends rather than when a match completes."""
    return not compiled.span.is_continuous or compiled.needs_window_close


def final_bounds(compiled: CompiledQuery, before: int, watermark: int) -> tuple[int, int]:
    """Return the times [from, to) of results that become final as the watermark moves.

    A window that ends at the watermark is final; an event at the watermark may still get company.
    """
    return (before + 1, watermark + 1) if reports_at_close(compiled) else (before, watermark)


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
