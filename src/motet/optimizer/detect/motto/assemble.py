"""From the arcs of a plan to the trees that the engine builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from motet.optimizer.detect.motto.costs import SOURCE
from motet.optimizer.detect.motto.graph import PlanGraph, canonical
from motet.optimizer.detect.motto.windows import at_any_time
from motet.plan.detect.build import Apart, Parts, PlanTree, Sifted, Walked, part_of, renumbered


@dataclass
class Assembler:
    """A plan: the graph, and where each of its nodes is computed from."""

    graph: PlanGraph
    sources: Mapping[int, int]
    trees: dict[int, PlanTree] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.number = {node: at for at, node in enumerate(self.graph.nodes) if isinstance(node, Parts)}
        self.group = _groups(self.graph, self.sources)

    def choose(self, parts: Parts) -> PlanTree:
        """The tree of a query."""
        _, bound = part_of(parts, range(len(parts.items)))
        return moved(self._tree(self.number[canonical(parts)]), bound)

    def _tree(self, node: int) -> PlanTree:
        """The tree of a node, over its own items."""
        if node not in self.trees:
            source = self.sources[node]
            way = self.graph.ways[source, node]
            one, query = self.graph.nodes[source], self.graph.nodes[node]
            tree = way.tree
            if isinstance(one, Parts) and isinstance(query, Parts):
                found = moved(self._tree(source), way.places)
                if way.sifted:
                    asked = renumbered(one, way.places)
                    found = Sifted(found, asked.order, asked.tests, asked.gaps)
                tree = _with_source(tree, found)
            self.trees[node] = Apart(tree, self.group[node])
        return self.trees[node]


def _groups(graph: PlanGraph, sources: Mapping[int, int]) -> dict[int, int]:
    """Nodes that find the same for different windows are one to the engine, for the larger window; so where they are
    computed apart, they are told apart by group.
    """
    family: dict[int, int] = {}
    families: dict[Parts, list[int]] = {}
    for node in sorted(sources):
        query, source = graph.nodes[node], graph.nodes[sources[node]]
        if not isinstance(query, Parts):
            continue
        what = at_any_time(query)
        if isinstance(source, Parts) and at_any_time(source) == what:
            family[node] = family[sources[node]]
        else:
            own = families.setdefault(what, [])
            own.append(node)
            family[node] = len(own) - 1
    return family


def _with_source(tree: PlanTree, found: PlanTree) -> PlanTree:
    """A tree with what a source finds put in its place."""
    if isinstance(tree, tuple):
        return _with_source(tree[0], found), _with_source(tree[1], found)
    return found if tree == SOURCE else tree


def moved(tree: PlanTree, places: Sequence[int]) -> PlanTree:
    """A tree over the items of a query as one over the items of another that holds it at some places."""
    match tree:
        case int():
            return places[tree]
        case Walked(items):
            return Walked(tuple(places[item] for item in items))
        case Apart(inner, group):
            return Apart(moved(inner, places), group)
        case Sifted(inner, order, tests, gaps):
            asked = renumbered(Parts((), order, tests, gaps, 0), places)
            return Sifted(moved(inner, places), asked.order, asked.tests, asked.gaps)
        case (left, right):
            return moved(left, places), moved(right, places)
