"""How many instances the nodes of a detection plan are expected to make, and what other plans would make."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from motet.optimizer.detect import planner
from motet.optimizer.detect.choices import ChosenTrees, chosen_trees
from motet.plan.detect.build import Parts, PlannedQuery, trees_wanted
from motet.plan.detect.cost import PRICES, Rates, Sizes
from motet.plan.detect.nodes import FilterNode, JoinNode, LeafNode, LoopNode, Node, UnionNode, WalkNode, in_order
from motet.plan.detect.query import DetectQuery

PLAIN = ("reorder", "share", "none")  # plans that take no search


@dataclass(frozen=True)
class Expected:
    """The instances that a node is expected to make, and for a join what that costs in microseconds."""

    instances: float
    cost: float | None = None


def expected_of(planned: Iterable[PlannedQuery], rates: Rates) -> dict[Node, Expected]:
    """What to expect of each node, by the widest window of the queries that need it."""
    widest: dict[Node, float] = {}
    for each in planned:
        span = each.query.span
        within = math.inf if span.ranked or not span.within else span.within
        for node in nodes_of(each):
            widest[node] = max(widest.get(node, 0.0), within)
    # To the cost model, 0 is a window without bounds.
    bounded = {node: 0 if math.isinf(within) else int(within) for node, within in widest.items()}
    return {node: Expected(_made(node, within, rates), _cost(node, within, rates)) for node, within in bounded.items()}


def nodes_of(planned: PlannedQuery) -> list[Node]:
    """All nodes that a query needs, inputs first."""
    return in_order(reading.root for reading in planned.readings)


def _made(node: Node, within: int, rates: Rates) -> float:
    match node:
        case LeafNode(symbol):
            return rates.of_symbol(symbol)
        case JoinNode() | FilterNode() | WalkNode():
            parts = Parts(node.items, node.order, node.tests, node.gaps, within)
            return Sizes(parts, rates).of(frozenset(range(len(node.items))))
        case LoopNode():
            parts = Parts((node,), frozenset(), frozenset(), frozenset(), within)
            return Sizes(parts, rates).of_item(node)
        case UnionNode(parts=members):
            return sum(_made(part, within, rates) for part, _ in members)


def _cost(node: Node, within: int, rates: Rates) -> float | None:
    """What a join costs: outer instances that are searched for, pairs that are looked at, instances that are made."""
    if not isinstance(node, JoinNode):
        return None
    sizes = Sizes(Parts(node.items, node.order, node.tests, node.gaps, within), rates)
    outer, inner = frozenset(node.outer_items), frozenset(node.inner_items)
    searched = PRICES.row * sizes.of(outer) + PRICES.pair * sizes.looked_at(outer, inner)
    return (searched + PRICES.instance * sizes.of(outer | inner)) / 1000


def compared(queries: Sequence[DetectQuery], trees: ChosenTrees, rates: Rates) -> dict[str, float]:
    """What some trees cost in microseconds, what else was considered with them, and plain plans to compare with."""
    wanted = trees_wanted(queries)
    found = dict(trees.considered)
    for name in PLAIN:
        if name not in found:
            found |= chosen_trees(wanted, planner(name, rates)(wanted), name, rates).considered
    return {name: round(cost / 1000, 2) for name, cost in found.items()}
