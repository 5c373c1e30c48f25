"""When results fall due without a further event: windows that end, matches that expire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.tables import FOREVER
from motet.plan.compiled import CompiledQuery, Span

Times = NDArray[np.int64]


class Report(NamedTuple):
    """How long after an event a query may report because of it alone: when each window with it ends or, without SLIDE,
    when it leaves the window; `lag` later.
    """

    within: int
    slide: int
    lag: int


def reports_of(span: Span, *, closes: bool, swept: bool = False) -> set[Report]:
    """The reports of a query that come without an event; none where it only ever reports when a match completes."""
    if span.ranked or not (closes or swept):
        return set()
    # A change of a value at some time counts once the watermark has passed that time.
    return {Report(span.within, span.slide, 0 if closes else 1)}


def closes(compiled: CompiledQuery) -> bool:
    """Whether a query reports when a window ends rather than when a match completes."""
    return not compiled.span.continuous or compiled.certain_at_close


def final_bounds(compiled: CompiledQuery, before: int, watermark: int) -> tuple[int, int]:
    """The times [from, to) of results that become final as the watermark moves.

    A window that ends at the watermark is final; an event at the watermark may still have others beside it.
    """
    return (before + 1, watermark + 1) if closes(compiled) else (before, watermark)


def next_reports(reports: Iterable[Report], times: Times, watermark: int) -> Times:
    """For each event, the least later watermark at which some query may report because of it alone."""
    soonest = np.full(len(times), FOREVER, np.int64)
    for within, slide, lag in reports:
        if slide:
            first = np.maximum((times - within) // slide, (watermark - within) // slide) + 1
            ends = np.where(first <= times // slide, first * slide + within, FOREVER)
        else:
            ends = times + within + lag
            ends = np.where(ends > watermark, ends, FOREVER)
        soonest = np.minimum(soonest, ends)
    return soonest
