"""Sharing plans: which runs of symbols are computed once for several queries."""

from __future__ import annotations

from dataclasses import dataclass

from motet.template.symbols import Symbol


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
