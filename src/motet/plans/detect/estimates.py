"""Estimate the work of the nodes of a plan, whichever optimizer made it, so that all plans compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from motet.plans.detect.build import JoinSpec, PlanBuilder, PlannedQuery, PlanTree
from motet.plans.detect.cost import PRICES, Cardinalities, Rates, join_cost, path_scan_cost
from motet.plans.detect.nodes import (
    FilterNode,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PathScanNode,
    UnionNode,
    topological_order,
)
from motet.plans.detect.partial_orders import bits_of

# How long a window is in microseconds, and how many events it holds where it counts them.
Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NodeEstimate:
    """The instances a node makes, the pairs it looks at for them, and its cost in nanoseconds."""

    instances: float
    pairs: float
    cost: float


def estimate_tree_cost(trees: Mapping[JoinSpec, PlanTree], rates: Rates) -> float:
    """Return the cost of trees together in nanoseconds, shared nodes counted once."""
    known, key = rates.known_costs, tuple(trees.items())  # optimizers often find the same trees
    if key not in known:
        builder = PlanBuilder(trees.__getitem__)
        roots = ((builder.build(spec), (spec.within, spec.rows)) for spec in trees)
        known[key] = sum_costs(estimate_nodes(roots, rates))
    return known[key]


def sum_costs(work: Mapping[Node, NodeEstimate]) -> float:
    """Return the cost of all nodes in nanoseconds."""
    return sum(each.cost for each in work.values())


def list_roots(planned: Iterable[PlannedQuery]) -> Iterable[tuple[Node, Window]]:
    """Return the nodes that find the matches of queries, each with its window."""
    return ((root, each.query.window) for each in planned for root in each.roots)


def estimate_nodes(roots: Iterable[tuple[Node, Window]], rates: Rates) -> dict[Node, NodeEstimate]:
    """Estimate all nodes below some roots, each for the largest window that it serves."""
    windows: dict[Node, set[Window]] = {}
    for root, window in roots:
        for node in topological_order([root]):
            windows.setdefault(node, set()).add(window)
    found: dict[Node, NodeEstimate] = {}
    scanned = {node.loop for node in windows if isinstance(node, PathScanNode)}  # listed by the scan, and paid there
    for node in topological_order(windows):
        estimates = [_estimate(node, window, rates, found) for window in windows[node]]
        found[node] = max(estimates, key=lambda estimate: estimate.cost)
        if node in scanned:
            found[node] = replace(found[node], cost=0.0)
    return found


def _estimate(node: Node, window: Window, rates: Rates, known: Mapping[Node, NodeEstimate]) -> NodeEstimate:
    match node:
        case LeafNode(symbol):
            events = rates.symbol_count(symbol)
            return NodeEstimate(events, 0.0, PRICES.event * events)
        case LoopNode(items):
            alone = JoinSpec((node,), frozenset(), frozenset(), frozenset(), *window)
            events = sum(known[item].instances for item in items)
            return NodeEstimate(rates.sizes_of(alone).item_instances(node), 0.0, PRICES.scanned * events)
        case UnionNode(parts):
            instances = sum(known[part].instances for part, _ in parts)
            return NodeEstimate(instances, 0.0, PRICES.instance * instances)
        case JoinNode() | FilterNode() | PathScanNode():
            return _estimate_subpattern(node, rates.sizes_of(JoinSpec(*node.definition, *window)), known)


def _estimate_subpattern(
    node: JoinNode | FilterNode | PathScanNode, sizes: Cardinalities, known: Mapping[Node, NodeEstimate]
) -> NodeEstimate:
    made = sizes.instances(bits_of(range(len(node.items))))
    match node:
        case JoinNode():
            outer, inner = bits_of(node.outer_items), bits_of(node.inner_items)
            return NodeEstimate(made, sizes.candidate_pairs(outer, inner), join_cost(sizes, outer, inner))
        case FilterNode():
            return NodeEstimate(made, 0.0, PRICES.node + PRICES.filtered * known[node.input].instances)
        case PathScanNode():
            return NodeEstimate(made, 0.0, path_scan_cost(sizes))
