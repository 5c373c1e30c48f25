"""Vertex-weighted graphs, and what a search for an independent set in one brings back."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class WeightedGraph:
    """Vertices 0, 1, ... with positive weights, and the neighbours of each."""

    weights: tuple[float, ...]
    neighbours: tuple[frozenset[int], ...]

    @classmethod
    def from_edges(cls, weights: Sequence[float], edges: Iterable[tuple[int, int]]) -> WeightedGraph:
        around: list[set[int]] = [set() for _ in weights]
        for one, other in edges:
            around[one].add(other)
            around[other].add(one)
        return cls(tuple(weights), tuple(map(frozenset, around)))

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def edges(self) -> list[tuple[int, int]]:
        return [(v, u) for v, around in enumerate(self.neighbours) for u in sorted(around) if v < u]

    def weight(self, chosen: Collection[int]) -> float:
        return sum(self.weights[v] for v in sorted(chosen))

    def is_independent(self, chosen: Collection[int]) -> bool:
        among = set(chosen)
        return not any(self.neighbours[v] & among for v in among)

    def induced_subgraph(self, kept: Collection[int]) -> WeightedGraph:
        """The graph of some vertices alone, renumbered in their order."""
        order = sorted(kept)
        number = {old: new for new, old in enumerate(order)}
        return WeightedGraph(
            tuple(self.weights[v] for v in order),
            tuple(frozenset(number[u] for u in self.neighbours[v] if u in number) for v in order),
        )

    def components(self) -> list[list[int]]:
        """The vertices of each connected part, in order."""
        seen: set[int] = set()
        parts = []
        for start in range(len(self)):
            if start in seen:
                continue
            reached, pending = {start}, [start]
            while pending:
                around = self.neighbours[pending.pop()] - reached
                reached |= around
                pending.extend(around)
            seen |= reached
            parts.append(sorted(reached))
        return parts


@dataclass(frozen=True, slots=True)
class IndependentSet:
    """An independent set, and what is proved of it.

    `bound`: no set weighs more. `visited`: how many sets (or nodes of a search) were looked at. `complete`: whether
    the search came to its end, so that the set is a heaviest one.
    """

    chosen: frozenset[int]
    weight: float
    bound: float
    visited: int = 0
    complete: bool = False


def relative_gap(weight: float, bound: float) -> float:
    """How far a weight may be from the optimum, as a share of the bound."""
    return max(bound - weight, 0.0) / bound if bound > 0 else 0.0


class Deadline:
    """A moment after which a search gives back what it has."""

    def __init__(self, seconds: float | None = None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """Seconds that remain; infinite where there is no deadline."""
        return float("inf") if self._end is None else max(self._end - time.monotonic(), 0.0)

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end
