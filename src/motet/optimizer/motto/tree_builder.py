"""Build the join trees of a plan from the arcs that were chosen in its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from motet.optimizer.motto.costs import SOURCE
from motet.optimizer.motto.graph import PlanGraph
from motet.optimizer.motto.sources import canonicalize, drop_window
from motet.plans.detect.build import FilterFrom, JoinSpec, PathScan, PlanTree, Unshared, renumber, restrict_spec


@dataclass
class TreeBuilder:
    """The trees of a plan: its graph, and the source that each of its nodes is computed from."""

    graph: PlanGraph
    sources: Mapping[int, int]
    trees: dict[int, PlanTree] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.number = {node: at for at, node in enumerate(self.graph.nodes) if isinstance(node, JoinSpec)}
        self.group = _number_groups(self.graph, self.sources)

    def build(self, spec: JoinSpec) -> PlanTree:
        """Return the tree of a query."""
        _, bound = restrict_spec(spec, tuple(range(len(spec.items))))
        return renumber_tree(self._build_node(self.number[canonicalize(spec)]), bound)

    def _build_node(self, node: int) -> PlanTree:
        """Return the tree of a node, over its own items."""
        if node not in self.trees:
            source = self.sources[node]
            arc = self.graph.arcs[source, node]
            one, query = self.graph.nodes[source], self.graph.nodes[node]
            tree = arc.tree
            if isinstance(one, JoinSpec) and isinstance(query, JoinSpec):
                found = renumber_tree(self._build_node(source), arc.places)
                if arc.filtered:
                    asked = renumber(one, arc.places)
                    found = FilterFrom(found, asked.order, asked.tests, asked.gaps)
                tree = _insert_source(tree, found)
            self.trees[node] = Unshared(tree, self.group[node])
        return self.trees[node]


def _number_groups(graph: PlanGraph, sources: Mapping[int, int]) -> dict[int, int]:
    """Assign numbers to nodes that find the same with different windows and are computed apart.

    The engine would make them one node with the larger window; different numbers keep them apart.
    """
    family: dict[int, int] = {}
    families: dict[JoinSpec, list[int]] = {}
    for node in sorted(sources):
        query, source = graph.nodes[node], graph.nodes[sources[node]]
        if not isinstance(query, JoinSpec):
            continue
        what = drop_window(query)
        if isinstance(source, JoinSpec) and drop_window(source) == what:
            family[node] = family[sources[node]]
        else:
            own = families.setdefault(what, [])
            own.append(node)
            family[node] = len(own) - 1
    return family


def _insert_source(tree: PlanTree, found: PlanTree) -> PlanTree:
    """Return a tree with the tree of its source put in its place."""
    if isinstance(tree, tuple):
        return _insert_source(tree[0], found), _insert_source(tree[1], found)
    return found if tree == SOURCE else tree


def renumber_tree(tree: PlanTree, places: Sequence[int]) -> PlanTree:
    """Return a tree over the items of a query as one over the items of another that contains it at some places."""
    match tree:
        case int():
            return places[tree]
        case PathScan(items):
            return PathScan(tuple(places[item] for item in items))
        case Unshared(inner, group):
            return Unshared(renumber_tree(inner, places), group)
        case FilterFrom(inner, order, tests, gaps):
            asked = renumber(JoinSpec((), order, tests, gaps, 0), places)
            return FilterFrom(renumber_tree(inner, places), asked.order, asked.tests, asked.gaps)
        case (left, right):
            return renumber_tree(left, places), renumber_tree(right, places)
