"""Queries with different windows (MOTTO, section IV-D): a source must have the larger window.

What is found for a larger window answers a smaller one after a filter at its mark point. A source with the smaller
window fails to share: it is extended, which is a query of its own, found for the larger window and at its cost; the
original is then one of those it answers.
"""

from __future__ import annotations

from collections.abc import Iterable

# Of many windows, so many are considered for one sub-query, the largest among them.
MOST_WINDOWS = 5


def covers(source: int, beneficiary: int) -> bool:
    """Whether what is found within one window is all that another needs; 0 is a window without end."""
    return source == 0 or (beneficiary != 0 and source >= beneficiary)


def worth_finding_for(windows: Iterable[int]) -> list[int]:
    """The windows for which a sub-query of queries with some windows may be found, the largest first."""
    ordered = sorted(set(windows), key=lambda within: (within != 0, -within))
    if len(ordered) <= MOST_WINDOWS:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(at * last / (MOST_WINDOWS - 1))] for at in range(MOST_WINDOWS)]
