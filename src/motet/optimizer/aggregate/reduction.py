"""Graph reduction: drops candidates that no optimal plan has, takes those that every one has (Sharon, section V)."""

from __future__ import annotations

from dataclasses import dataclass

from motet.optimizer.solvers.graph import WeightedGraph
from motet.optimizer.solvers.independent import guaranteed_weight


@dataclass(frozen=True, slots=True)
class Ridden:
    """A conflict-ridden candidate: the most that a plan with it can score, less than what GWMIN guarantees."""

    highest_score: float
    guaranteed: float


@dataclass(frozen=True, slots=True)
class Reduction:
    """What is left of a graph: `ridden` was dropped, `free` belongs to every optimal plan, `kept` is to be searched."""

    guaranteed: float
    ridden: dict[int, Ridden]
    free: frozenset[int]
    kept: frozenset[int]


def reduce_graph(graph: WeightedGraph) -> Reduction:
    """Prune until nothing more can be (each round is the paper's): the optimum of what is left, with the free ones, is
    the optimum of all.
    """
    ridden: dict[int, Ridden] = {}
    free: set[int] = set()
    kept = set(range(len(graph)))
    while True:
        part = graph.induced(kept)
        order = sorted(kept)
        bound = guaranteed_weight(part)
        total = sum(part.weights)
        dropped: dict[int, Ridden] = {}
        for v, number in enumerate(order):
            highest = total - sum(part.weights[u] for u in part.neighbours[v])  # equation 11
            # Equation 12, with room for the rounding of sums: what ties is kept.
            if highest < bound - 1e-9 * total:
                dropped[number] = Ridden(highest, bound)
        alone = {order[v] for v, around in enumerate(part.neighbours) if not around} - dropped.keys()
        if not dropped and not alone:
            return Reduction(guaranteed_weight(graph), ridden, frozenset(free), frozenset(kept))
        ridden |= dropped
        free |= alone
        kept -= dropped.keys() | alone
