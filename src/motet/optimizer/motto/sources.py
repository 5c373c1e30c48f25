"""Which query can be computed from which: a source lies within its beneficiary, and has at least its window.

Lying within covers merging (section IV-A: a substring or any subsequence of the operands), decomposition (IV-B: a
sub-query of both) and operator transformation (IV-C: a filter puts in order what the source finds in any order).

A source may have a larger window (IV-D): a filter at its mark point leaves what the smaller window needs. A source with
the smaller window cannot be used. It has to be extended, which is a query of its own with the larger window; the
original is then one of those that it answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from motet.plans.detect.build import JoinSpec, renumber, restrict_spec

# A pattern that repeats a type may contain another in very many ways.
MOST_EMBEDDINGS = 6
# Of many windows, so many are considered for one sub-query, the largest among them.
MOST_WINDOWS = 5


def find_embeddings(source: JoinSpec, target: JoinSpec) -> tuple[tuple[int, ...], ...]:
    """Return the ways a source lies within a target: the target's item for each item of the source.

    All that the source requires, the target requires of these items.
    """
    if len(source.items) > len(target.items):
        return ()
    found = []
    for places in _place_items(source, target, ()):
        moved = renumber(source, places)
        if moved.tests <= target.tests and moved.gaps <= target.gaps:
            found.append(places)
            if len(found) == MOST_EMBEDDINGS:
                break
    return tuple(found)


def _place_items(source: JoinSpec, target: JoinSpec, chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all ways to place the items of a source in the order that it requires."""
    item = len(chosen)
    if item == len(source.items):
        yield chosen
        return
    for place, other in enumerate(target.items):
        if place in chosen or other != source.items[item]:
            continue
        if all(
            ((before, item) not in source.order or (at, place) in target.order)
            and ((item, before) not in source.order or (place, at) in target.order)
            for before, at in enumerate(chosen)
        ):
            yield from _place_items(source, target, (*chosen, place))


class MatchWindow(NamedTuple):
    """How far apart events may be in microseconds, or in events; without limit where both are 0."""

    within: int
    rows: int

    @property
    def sort_key(self) -> tuple[bool, int, int]:
        """Larger windows come first."""
        return self != ENDLESS, -self.within, -self.rows


ENDLESS = MatchWindow(0, 0)


def window_of(query: JoinSpec) -> MatchWindow:
    """Return the window of a query."""
    return MatchWindow(query.within, query.rows)


def with_window(query: JoinSpec, window: MatchWindow) -> JoinSpec:
    """Return a query with another window."""
    return replace(query, within=window.within, rows=window.rows)


def drop_window(query: JoinSpec) -> JoinSpec:
    """Return a query without its window."""
    return with_window(query, ENDLESS)


def canonicalize(query: JoinSpec) -> JoinSpec:
    """Return a query with its items in the order that is the same for all equal queries."""
    return restrict_spec(query, tuple(range(len(query.items))))[0]


def covers(source: MatchWindow, beneficiary: MatchWindow) -> bool:
    """Return whether what is found in one window contains all that another needs."""
    if source in (ENDLESS, beneficiary):
        return True
    if source.rows or beneficiary.rows:
        return source.rows >= beneficiary.rows > 0
    return source.within >= beneficiary.within > 0


def select_windows(windows: Iterable[MatchWindow]) -> list[MatchWindow]:
    """Return the windows that a sub-query of queries with some windows may be computed for, the largest first."""
    ordered = sorted(set(windows), key=lambda window: window.sort_key)
    if len(ordered) <= MOST_WINDOWS:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(at * last / (MOST_WINDOWS - 1))] for at in range(MOST_WINDOWS)]
