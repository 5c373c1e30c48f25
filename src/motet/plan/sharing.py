"""Sharing plans: which runs of symbols are computed once for several queries."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from motet.template.symbols import Symbol

# Says, for the number of a query and a position of it, with what its steps may be shared: equal steps are one only
# where this is equal too.
Colours = Callable[[int, int], Hashable]


def share_all(query: int, position: int) -> Hashable:
    """Colours that let everything be shared."""
    return None


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of symbols that several queries compute once: a sharing candidate (p, Q_p) that a plan chose.

    `places` are (number of the query in the workload, offset of the run among its positions), sorted.
    """

    symbols: tuple[Symbol, ...]
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """Segments that do not get in each other's way: no two overlap in one query (Sharon, definitions 6 and 7)."""

    segments: tuple[Segment, ...] = ()

    def colours(self) -> Colours:
        """Let queries share their segments, and nothing else."""
        within = {
            (query, offset + step): (number, step)
            for number, segment in enumerate(self.segments)
            for query, offset in segment.places
            for step in range(len(segment.symbols))
        }

        def colour(query: int, position: int) -> Hashable:
            return within.get((query, position), ("its own", query, position))

        return colour
