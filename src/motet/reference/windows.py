"""Windows: which spans they hold, and where the gaps of a match's open NOTs and NEGs begin and end."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from motet.errors import Diagnostic, QueryError
from motet.model.query import Query
from motet.model.window import CountWindow, TimeWindow, Window


@dataclass(frozen=True, slots=True)
class Extent:
    """The window of one match, as times strictly between which something must not happen."""

    leading_after: int  # a leading NOT: between this and the first event
    trailing_before: int  # a trailing NOT: between the last event and this
    never_after: int  # NEG: between these two
    never_before: int
    ends: int  # when a match is certain that waits for the end of the window


def in_microseconds(query: Query, tick: int | Fraction) -> Window | None:
    """Return a query's window with its time in microseconds; `tick` is the length of a whole-number time's unit."""
    match query.window:
        case TimeWindow(size, slide, True):
            scaled = [None if part is None else part * Fraction(tick) for part in (size, slide)]
            if any(part is not None and part.denominator != 1 for part in scaled):
                message = "a window must be a whole number of microseconds"
                raise QueryError([Diagnostic(message, query.window.span, query.name)])
            return TimeWindow(int(scaled[0] or 0), None if scaled[1] is None else int(scaled[1]))
        case window:
            return window


def fits_window(window: Window | None, times: Sequence[int], first: int, last: int) -> bool:
    """Return whether a match with these first and last times lies in a window; `times` are those of its partition."""
    match window:
        case None:
            return True
        case CountWindow(size):
            return events_between(times, first, last) <= size
        case TimeWindow(size, None):
            return last - first < size
        case TimeWindow(size, slide):
            assert slide is not None
            return last < first // slide * slide + size  # the last window that holds `first`


def events_between(times: Sequence[int], first: int, last: int) -> int:
    """Count how many events of a partition lie between two times, both included."""
    return bisect_right(times, last) - bisect_left(times, first)


def window_starts(size: int, slide: int, first: int, last: int) -> list[int]:
    """Return the starts of all windows `[start, start + size)` that hold a match."""
    earliest = (last - size) // slide + 1
    return [number * slide for number in range(earliest, first // slide + 1)]


def extents(
    window: Window | None, times: Sequence[int], first: int, last: int, needs_end: bool = False
) -> list[Extent]:
    """Return the windows that hold a match with these first and last times.

    `needs_end`: a window of events that is never full does not end, and is left out.
    """
    match window:
        case TimeWindow(size, None):
            # The window opens with the first event, but a leading NOT looks back from the last.
            return [Extent(last - size, first + size, first - 1, first + size, first + size)]
        case TimeWindow(size, slide):
            assert slide is not None
            starts = window_starts(size, slide, first, last)
            return [Extent(start - 1, start + size, start - 1, start + size, start + size) for start in starts]
        case CountWindow(size):
            # It holds the events from the first one on, and ends as it is full; but a leading NOT looks back from
            # the last event.
            full = bisect_left(times, first) + size - 1
            if full >= len(times) and needs_end:
                return []
            ends = times[full] if full < len(times) else times[-1]
            before = ends + 1 if events_between(times, first, ends) <= size else ends
            return [Extent(last_window_start(times, last, size) - 1, before, first - 1, before, ends)]
        case None:
            return [Extent(times[0] - 1, times[-1] + 1, times[0] - 1, times[-1] + 1, times[-1] + 1)]


def last_window_start(times: Sequence[int], now: int, size: int) -> int:
    """Return the time from which on a partition has at most so many events until now."""
    return min((time for time in times if time <= now and events_between(times, time, now) <= size), default=now + 1)
