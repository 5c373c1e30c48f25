"""Weighted graphs for tests of solvers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from motet.optimizer.solvers.independent_sets import WeightedGraph


def make_graph(weights: Sequence[float], edges: Iterable[tuple[int, int]]) -> WeightedGraph:
    neighbours: list[set[int]] = [set() for _ in weights]
    for one, other in edges:
        neighbours[one].add(other)
        neighbours[other].add(one)
    return WeightedGraph(tuple(weights), tuple(map(frozenset, neighbours)))


def edges_of(graph: WeightedGraph) -> list[tuple[int, int]]:
    return [(v, u) for v, around in enumerate(graph.neighbours) for u in sorted(around) if v < u]


def is_independent(graph: WeightedGraph, vertices: Collection[int]) -> bool:
    return not any(graph.neighbours[v] & set(vertices) for v in vertices)
