"""Windows: how far apart the events of a match may lie."""

from __future__ import annotations

from dataclasses import dataclass

from motet.model.span import QueryNode

# Spellings of a unit -> microseconds.
UNITS: dict[str, int] = {
    **dict.fromkeys(("us", "usec", "usecs", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000_000),
}


@dataclass(frozen=True, slots=True)
class TimeWindow(QueryNode):
    """`WITHIN size [SLIDE slide]` in microseconds, or in ticks of a whole-number time column where `ticks`.

    Without a slide the window is continuous: `last - first < size`.
    """

    size: int
    slide: int | None = None
    ticks: bool = False


@dataclass(frozen=True, slots=True)
class CountWindow(QueryNode):
    """`WITHIN size EVENTS`: all bound events are among `size` consecutive events of the partition."""

    size: int


Window = TimeWindow | CountWindow
