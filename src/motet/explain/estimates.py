"""How many instances the nodes of a detection plan are expected to make, and what other plans would make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from motet.optimizer.detect import planner
from motet.plan.detect.build import Parts, PlannedQuery, plan_queries
from motet.plan.detect.cost import Rates, Sizes
from motet.plan.detect.nodes import FilterNode, JoinNode, LeafNode, LoopNode, Node, UnionNode, WalkNode, in_order

THIS = "this plan"


def expected_instances(planned: Iterable[PlannedQuery], rates: Rates) -> dict[Node, float]:
    """The instances of each node, by the widest window of the queries that need it (0: a window without bounds)."""
    widest: dict[Node, float] = {}
    for each in planned:
        span = each.query.span
        within = float("inf") if span.ranked or not span.within else span.within
        for node in nodes_of(each):
            widest[node] = max(widest.get(node, 0.0), within)
    return {
        node: _expected(node, 0 if within == float("inf") else int(within), rates) for node, within in widest.items()
    }


def nodes_of(planned: PlannedQuery) -> list[Node]:
    """All nodes that a query needs, inputs first."""
    return in_order(reading.root for reading in planned.readings)


def _expected(node: Node, within: int, rates: Rates) -> float:
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
            return sum(_expected(part, within, rates) for part, _ in members)


def compared(planned: Sequence[PlannedQuery], rates: Rates) -> dict[str, float]:
    """What all joins and loops of a plan make together, against the same without sharing, each query planned by its own
    cost, and joins in the order of the patterns.
    """
    queries = [each.query for each in planned]
    alone, written = (plan_queries(queries, planner(name, rates)) for name in ("auto", "none"))
    return {
        THIS: _total(expected_instances(planned, rates)),
        "the same, nothing shared": sum(_total(expected_instances([each], rates)) for each in planned),
        "each query by its own cost, equal joins once": _total(expected_instances(alone, rates)),
        "joined as written, equal joins once": _total(expected_instances(written, rates)),
    }


def _total(expected: Mapping[Node, float]) -> float:
    return sum(size for node, size in expected.items() if not isinstance(node, LeafNode))
