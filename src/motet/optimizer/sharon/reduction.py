"""Graph reduction: drops candidates that no optimal plan has, takes those that every one has (Sharon, section V)."""

from __future__ import annotations

from dataclasses import dataclass

from motet.optimizer.solvers.graph import WeightedGraph
from motet.optimizer.solvers.independent_sets import guaranteed_weight


@dataclass(frozen=True, slots=True)
class ConflictRidden:
    """A conflict-ridden candidate: the most that a plan with it can score, less than what GWMIN guarantees."""

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
    """Prune until nothing more can be (each round is the paper's): the optimum of what is left, with the free ones, is
    the optimum of all.
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
