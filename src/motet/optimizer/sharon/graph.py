"""The Sharon graph: candidates weighed by their benefit, joined where they are in conflict (Sharon, section IV)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from motet.optimizer.sharon.benefit import BenefitModel
from motet.optimizer.sharon.candidates import Candidate
from motet.optimizer.solvers.graph import WeightedGraph
from motet.plans.sharing import Segment


@dataclass(frozen=True, slots=True)
class SharingOption:
    """A way to share a candidate, and what it brings (BValue). `candidate` is its number."""

    candidate: int
    segment: Segment
    benefit: float


@dataclass(frozen=True)
class SharonGraph:
    """Vertices are ways to share candidates; the weight of one is its benefit, an edge is a conflict."""

    vertices: tuple[SharingOption, ...]
    graph: WeightedGraph

    def __len__(self) -> int:
        return len(self.vertices)

    def subgraph(self, kept: Iterable[int]) -> SharonGraph:
        """The graph of some vertices."""
        order = sorted(kept)
        return SharonGraph(tuple(self.vertices[v] for v in order), self.graph.induced_subgraph(order))


def value_candidates(candidates: Sequence[Candidate], benefit: BenefitModel) -> list[SharingOption]:
    """Each candidate shared by all queries that contain it, as the paper has it (equation 8)."""
    found = []
    for number, candidate in enumerate(candidates):
        segment, length = candidate.full_segment, len(candidate.symbols)
        gains = sum(benefit.gain(place, length) for place in segment.places)
        found.append(SharingOption(number, segment, gains - benefit.cost(candidate)))
    return found


def build_sharon_graph(choices: Iterable[SharingOption]) -> SharonGraph:
    """The graph of the beneficial ones (algorithm 1): two that cover the same position of a query are in conflict."""
    vertices = tuple(choice for choice in choices if choice.benefit > 0)
    covering: dict[tuple[int, int], set[int]] = {}
    for v, vertex in enumerate(vertices):
        for covered in covered_positions(vertex.segment):
            covering.setdefault(covered, set()).add(v)
    around = (
        frozenset().union(*(covering[covered] for covered in covered_positions(vertex.segment))) - {v}
        for v, vertex in enumerate(vertices)
    )
    return SharonGraph(vertices, WeightedGraph(tuple(vertex.benefit for vertex in vertices), tuple(around)))


def covered_positions(segment: Segment) -> list[tuple[int, int]]:
    """Every (query, position) that a segment covers."""
    length = len(segment.symbols)
    return [(number, offset + step) for number, offset in segment.places for step in range(length)]
