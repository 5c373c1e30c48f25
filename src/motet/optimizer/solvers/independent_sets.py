"""Independent sets of largest weight in a graph: greedily, and by enumeration level by level."""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass

from motet.optimizer.solvers.common import NEVER, Deadline, find_components

FAMILIES_PER_CHECK = 1024  # families between two looks at the clock
MOST_SETS = 4_000_000  # of one level in memory


@dataclass(frozen=True)
class WeightedGraph:
    """Vertices 0, 1, ... with positive weights, and the neighbours of each."""

    weights: tuple[float, ...]
    neighbours: tuple[frozenset[int], ...]

    def __len__(self) -> int:
        return len(self.weights)

    def weight(self, vertices: Collection[int]) -> float:
        """Return the total weight of some vertices."""
        return sum(self.weights[v] for v in sorted(vertices))

    def induced_subgraph(self, vertices: Collection[int]) -> WeightedGraph:
        """Return the graph of some vertices alone, renumbered in their order."""
        order = sorted(vertices)
        number = {old: new for new, old in enumerate(order)}
        return WeightedGraph(
            tuple(self.weights[v] for v in order),
            tuple(frozenset(number[u] for u in self.neighbours[v] if u in number) for v in order),
        )


@dataclass(frozen=True, slots=True)
class IndependentSet:
    """An independent set; a heaviest one if the search was `complete`. `visited` is how many sets it looked at."""

    vertices: frozenset[int]
    weight: float
    visited: int
    complete: bool = False


def guaranteed_weight(graph: WeightedGraph) -> float:
    """Return what GWMIN reaches at least: each weight over the vertex's degree plus one (Sakai et al. 2003)."""
    return sum(weight / (len(around) + 1) for weight, around in zip(graph.weights, graph.neighbours, strict=True))


def gwmin(graph: WeightedGraph) -> IndependentSet:
    """Take the vertex with the most weight per closed neighbourhood, drop its neighbours, repeat. O(E log V)."""
    degree = [len(around) for around in graph.neighbours]
    alive = [True] * len(graph)
    ranked = [(-graph.weights[v] / (degree[v] + 1), v) for v in range(len(graph))]
    heapq.heapify(ranked)
    vertices: set[int] = set()
    while ranked:
        ratio, v = heapq.heappop(ranked)
        if not alive[v] or ratio != -graph.weights[v] / (degree[v] + 1):
            continue  # dropped, or ranked again since
        vertices.add(v)
        alive[v] = False
        dropped = [u for u in graph.neighbours[v] if alive[u]]
        for u in dropped:
            alive[u] = False
        for near in {w for u in dropped for w in graph.neighbours[u] if alive[w]}:
            degree[near] -= sum(1 for u in dropped if u in graph.neighbours[near])
            heapq.heappush(ranked, (-graph.weights[near] / (degree[near] + 1), near))
    return IndependentSet(frozenset(vertices), graph.weight(vertices), len(vertices))


def find_heaviest_set(graph: WeightedGraph, deadline: Deadline = NEVER, most: int = MOST_SETS) -> IndependentSet:
    """Find a heaviest independent set by enumeration, one connected component after the other.

    The optima of components add up, but their numbers of sets do not multiply.
    """
    vertices: set[int] = set()
    visited, complete = 0, True
    for component in find_components(range(len(graph)), graph.neighbours.__getitem__):
        found = enumerate_independent_sets(graph.induced_subgraph(component), deadline, most)
        vertices |= {component[v] for v in found.vertices}
        visited += found.visited
        complete &= found.complete
    return IndependentSet(frozenset(vertices), graph.weight(vertices), visited, complete)


def enumerate_independent_sets(
    graph: WeightedGraph, deadline: Deadline = NEVER, most: int = MOST_SETS
) -> IndependentSet:
    """Enumerate the independent sets in levels of one size, as Apriori does item sets, and keep the heaviest.

    Sets of one size that agree on all but their last vertex are a *family*: its stem, and the last vertices as bits.
    Two of a family make a set of the next size if their last vertices are not neighbours, and every independent set
    comes from exactly one such pair. Only one level is in memory. The search stops at the deadline, or where a level
    has more than `most` sets.
    """
    later = [(1 << len(graph)) - (1 << v + 1) for v in range(len(graph))]
    # After v, only later vertices that are not its neighbours.
    open_after = [later[v] & ~sum(1 << u for u in graph.neighbours[v]) for v in range(len(graph))]
    level: list[tuple[tuple[int, ...], float, int]] = [((), 0.0, (1 << len(graph)) - 1)] if len(graph) else []
    best: tuple[int, ...] = ()
    heaviest, visited, families = 0.0, 0, 0
    complete = True
    while level and complete:
        next_level: list[tuple[tuple[int, ...], float, int]] = []
        upcoming = 0
        for stem, weight, lasts in level:
            families += 1
            if upcoming > most or (families % FAMILIES_PER_CHECK == 0 and deadline.is_over):
                complete = False
                break
            remaining = lasts
            while remaining:
                lowest = remaining & -remaining
                remaining ^= lowest
                v = lowest.bit_length() - 1
                visited += 1
                grown = weight + graph.weights[v]
                if grown > heaviest:
                    best, heaviest = (*stem, v), grown
                further = remaining & open_after[v]
                if further:
                    next_level.append(((*stem, v), grown, further))
                    upcoming += further.bit_count()
        complete &= upcoming <= most
        level = next_level
    return IndependentSet(frozenset(best), graph.weight(best), visited, complete)
