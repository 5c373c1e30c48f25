"""The Sharon graph, candidates weighted by benefit with an edge for each conflict; its reduction (sections IV, V)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from motet.optimizer.sharon.benefit import BenefitModel
from motet.optimizer.sharon.candidates import Candidate, Place
from motet.optimizer.solvers.independent_sets import WeightedGraph, guaranteed_weight
from motet.plans.sharing import Segment


@dataclass(frozen=True, slots=True)
class SharingOption:
    """A way to share a candidate, and its benefit (BValue). `candidate` is its number."""

    candidate: int
    segment: Segment
    benefit: float


@dataclass(frozen=True)
class SharonGraph:
    """Vertices are options to share candidates; weights are their benefits, edges conflicts."""

    vertices: tuple[SharingOption, ...]
    graph: WeightedGraph

    def __len__(self) -> int:
        return len(self.vertices)

    def select(self, vertices: Iterable[int]) -> list[SharingOption]:
        """Return the options that are some vertices."""
        return [self.vertices[v] for v in sorted(vertices)]

    def subgraph(self, kept: Iterable[int]) -> SharonGraph:
        """Return the graph of some vertices alone."""
        order = sorted(kept)
        return SharonGraph(tuple(self.vertices[v] for v in order), self.graph.induced_subgraph(order))


def value_candidates(candidates: Sequence[Candidate], benefit: BenefitModel) -> list[SharingOption]:
    """Return the option of each candidate in which all queries that contain it share it (equation 8)."""
    found = []
    for number, candidate in enumerate(candidates):
        segment, length = candidate.full_segment, len(candidate.symbols)
        gains = sum(benefit.gain(place, length) for place in segment.places)
        found.append(SharingOption(number, segment, gains - benefit.cost(candidate)))
    return found


def build_sharon_graph(options: Iterable[SharingOption]) -> SharonGraph:
    """Build the graph of the beneficial options (algorithm 1): two that cover the same position of a query conflict."""
    vertices = tuple(option for option in options if option.benefit > 0)
    covering: dict[Place, set[int]] = {}
    for v, vertex in enumerate(vertices):
        for covered in covered_positions(vertex.segment):
            covering.setdefault(covered, set()).add(v)
    around = (
        frozenset().union(*(covering[covered] for covered in covered_positions(vertex.segment))) - {v}
        for v, vertex in enumerate(vertices)
    )
    return SharonGraph(vertices, WeightedGraph(tuple(vertex.benefit for vertex in vertices), tuple(around)))


def covered_positions(run: Segment | Candidate) -> list[Place]:
    """Return every (query, position) that a run of symbols covers at its places."""
    return [(number, offset + step) for number, offset in run.places for step in range(len(run.symbols))]


@dataclass(frozen=True, slots=True)
class ConflictRidden:
    """Why a candidate is conflict-ridden: a plan with it scores at most this, less than what GWMIN guarantees."""

    highest_score: float
    guaranteed: float


@dataclass(frozen=True, slots=True)
class Reduction:
    """What is left of a graph: `conflict_ridden` was dropped, `conflict_free` belongs to every optimal plan, `kept` is
    to be searched.
    """

    guaranteed: float
    conflict_ridden: dict[int, ConflictRidden]
    conflict_free: frozenset[int]
    kept: frozenset[int]


def reduce_graph(graph: WeightedGraph) -> Reduction:
    """Prune conflict-ridden vertices and take conflict-free ones, until there are none (each round is the paper's).

    The optimum of what is left, with the conflict-free vertices, is the optimum of all.
    """
    conflict_ridden: dict[int, ConflictRidden] = {}
    conflict_free: set[int] = set()
    kept = set(range(len(graph)))
    while True:
        part = graph.induced_subgraph(kept)
        order = sorted(kept)
        bound = guaranteed_weight(part)
        total = sum(part.weights)
        dropped: dict[int, ConflictRidden] = {}
        for v, number in enumerate(order):
            highest = total - sum(part.weights[u] for u in part.neighbours[v])  # equation 11
            # Equation 12, with room for the rounding of sums: what ties is kept.
            if highest < bound - 1e-9 * total:
                dropped[number] = ConflictRidden(highest, bound)
        alone = {order[v] for v, around in enumerate(part.neighbours) if not around} - dropped.keys()
        if not dropped and not alone:
            return Reduction(guaranteed_weight(graph), conflict_ridden, frozenset(conflict_free), frozenset(kept))
        conflict_ridden |= dropped
        conflict_free |= alone
        kept -= dropped.keys() | alone
