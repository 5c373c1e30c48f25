"""Queries with different windows (MOTTO, section IV-D): a source must have the larger window.

What is found for a larger window answers a smaller one after a filter at its mark point. A source with the smaller
window fails to share: it is extended, which is a query of its own, found for the larger window and at its cost; the
original is then one of those it answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from motet.plans.detect.build import JoinSpec

# Of many windows, so many are considered for one sub-query, the largest among them.
MOST_WINDOWS = 5


class MatchWindow(NamedTuple):
    """How far apart events may be in microseconds, or in events; without end where both are 0."""

    within: int
    rows: int

    @property
    def by_size(self) -> tuple[bool, int, int]:
        """Larger ones come first."""
        return self != ENDLESS, -self.within, -self.rows


ENDLESS = MatchWindow(0, 0)


def window_of(query: JoinSpec) -> MatchWindow:
    """The window of a query."""
    return MatchWindow(query.within, query.rows)


def with_window(query: JoinSpec, window: MatchWindow) -> JoinSpec:
    """What a query asks, in another window."""
    return replace(query, within=window.within, rows=window.rows)


def drop_window(query: JoinSpec) -> JoinSpec:
    """What a query asks, whatever its window."""
    return with_window(query, ENDLESS)


def covers(source: MatchWindow, beneficiary: MatchWindow) -> bool:
    """Whether what is found within one window is all that another needs."""
    if source in (ENDLESS, beneficiary):
        return True
    if source.rows or beneficiary.rows:
        return source.rows >= beneficiary.rows > 0
    return source.within >= beneficiary.within > 0


def select_windows(windows: Iterable[MatchWindow]) -> list[MatchWindow]:
    """The windows for which a sub-query of queries with some windows may be found, the largest first."""
    ordered = sorted(set(windows), key=lambda window: window.by_size)
    if len(ordered) <= MOST_WINDOWS:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(at * last / (MOST_WINDOWS - 1))] for at in range(MOST_WINDOWS)]
