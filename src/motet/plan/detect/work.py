"""What the nodes of a plan are expected to do, whoever planned them: so that plans of all optimizers compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from motet.plan.detect.build import Builder, Parts, PlannedQuery, PlanTree
from motet.plan.detect.cost import PRICES, Rates, Sizes, join_cost, walk_cost
from motet.plan.detect.nodes import (
    FilterNode,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PartNode,
    UnionNode,
    WalkNode,
    in_order,
)
from motet.plan.detect.spans import bits_of

# How long a window is in microseconds, and how many events it holds where it counts them.
Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Work:
    """The instances that a node makes, the pairs it looks at for them, and what that takes in nanoseconds."""

    instances: float
    pairs: float
    cost: float


def cost_of(trees: Mapping[Parts, PlanTree], rates: Rates) -> float:
    """What trees cost together in nanoseconds, equal nodes once."""
    builder = Builder(trees.__getitem__)
    return total_cost(expected_work(((builder.build(parts), (parts.within, parts.rows)) for parts in trees), rates))


def total_cost(work: Mapping[Node, Work]) -> float:
    return sum(each.cost for each in work.values())


def roots_of(planned: Iterable[PlannedQuery]) -> Iterable[tuple[Node, Window]]:
    """The nodes that find the matches of some queries, and their windows."""
    for each in planned:
        span = each.query.span
        window = (0, span.within - 1) if span.ranked else (span.within, 0)
        for reading in each.readings:
            yield reading.root, window


def expected_work(roots: Iterable[tuple[Node, Window]], rates: Rates) -> dict[Node, Work]:
    """The work of all nodes below some roots, each for the largest window that it serves."""
    windows: dict[Node, set[Window]] = {}
    for root, window in roots:
        for node in in_order(iter((root,))):
            windows.setdefault(node, set()).add(window)
    found: dict[Node, Work] = {}
    for node in in_order(iter(windows)):
        found[node] = max((_work(node, window, rates, found) for window in windows[node]), key=lambda work: work.cost)
    return found


def _work(node: Node, window: Window, rates: Rates, known: Mapping[Node, Work]) -> Work:
    match node:
        case LeafNode(symbol):
            events = rates.of_symbol(symbol)
            return Work(events, 0.0, PRICES.event * events)
        case LoopNode(items):
            alone = Parts((node,), frozenset(), frozenset(), frozenset(), *window)
            events = sum(known[item].instances for item in items)
            return Work(Sizes(alone, rates).of_item(node), 0.0, PRICES.walked * events)
        case UnionNode(parts):
            instances = sum(known[part].instances for part, _ in parts)
            return Work(instances, 0.0, PRICES.instance * instances)
        case JoinNode() | FilterNode() | WalkNode():
            return _part(node, Sizes(Parts(node.items, node.order, node.tests, node.gaps, *window), rates), known)


def _part(node: PartNode, sizes: Sizes, known: Mapping[Node, Work]) -> Work:
    made = sizes.made(bits_of(range(len(node.items))))
    match node:
        case JoinNode():
            outer, inner = bits_of(node.outer_items), bits_of(node.inner_items)
            return Work(made, sizes.looked_at(outer, inner), join_cost(sizes, outer, inner))
        case FilterNode():
            return Work(made, 0.0, PRICES.node + PRICES.sifted * known[node.input].instances)
        case WalkNode():
            return Work(made, 0.0, walk_cost(sizes))
