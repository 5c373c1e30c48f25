"""The sharing plan finder: all valid plans of a reduced graph, level by level (Sharon, section VI)."""

from __future__ import annotations

from motet.optimizer.solvers.graph import Deadline, IndependentSet, WeightedGraph
from motet.optimizer.solvers.independent_sets import clique_cover_bound
from motet.optimizer.solvers.levels import MOST_SETS, enumerate_independent_sets


def find_plan(graph: WeightedGraph, deadline: Deadline | None = None, most: int = MOST_SETS) -> IndependentSet:
    """An optimal plan by lemmas 4-6: only valid plans are made, each of two of the level before.

    Parts of the graph that no conflict joins are searched one by one: their optima add up, their plans need not
    multiply.
    """
    chosen: set[int] = set()
    bound, visited, complete = 0.0, 0, True
    for part in graph.components():
        inner = graph.induced_subgraph(part)
        found = enumerate_independent_sets(inner, deadline, most)
        chosen |= {part[v] for v in found.chosen}
        bound += found.weight if found.complete else clique_cover_bound(inner, range(len(inner)))
        visited += found.visited
        complete &= found.complete
    return IndependentSet(frozenset(chosen), graph.weight(chosen), bound, visited, complete)
