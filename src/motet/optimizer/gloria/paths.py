"""Path search: the path of least weight in a GLORIA graph that is there already (section 5.3).

A path has one node of each pool. Growing a graph finds its best path on the way; this searches again when the weights
have changed, in time linear in the edges as long as queries that have parted do not meet again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from motet.optimizer.gloria.graph import Path, path_weight
from motet.optimizer.gloria.nodes import Node, Weights
from motet.optimizer.gloria.template import Pool, Template

Nodes = Sequence[Sequence[Node]]  # by pool


def find_best_path(template: Template, nodes: Nodes, weights: Weights) -> tuple[float, Path]:
    """The weight of the best path, and the path."""
    if all(len(own) == 1 for own in nodes):
        path = {number: own[0] for number, own in enumerate(nodes)}
    elif all(len(pool.successors) <= 1 for pool in template.pools):
        path = search_forward(template, nodes, weights)
    else:
        path = search_backward(template, nodes, weights)
    return path_weight(template, weights, path), path


def search_forward(template: Template, nodes: Nodes, weights: Weights) -> Path:
    """Case 1, no pool has two successors: each node keeps the best node of each pool before it (equation 22)."""
    distance: list[dict[Node, float]] = []
    best: dict[tuple[int, Node, int], Node] = {}
    for pool in template.pools:
        own: dict[Node, float] = {}
        for node in nodes[pool.number]:
            own[node] = weights.node_weight(pool, node)
            for number in pool.predecessors:
                before = template.pools[number]
                least, chosen = min(
                    (distance[number][one] + weights.edge_weight(before, one, pool, node), at, one)
                    for at, one in enumerate(nodes[number])
                )[::2]
                own[node] += least
                best[pool.number, node, number] = chosen
        distance.append(own)
    path: Path = {}
    for pool in reversed(template.pools):
        if not pool.successors:
            path[pool.number] = min(distance[pool.number], key=distance[pool.number].__getitem__)
        for number in pool.predecessors:
            path[number] = best[pool.number, path[pool.number], number]
    return path


@dataclass(frozen=True, slots=True)
class _Remainder:
    """What the pools from some on weigh at least, by the nodes of the pools before them."""

    scope: tuple[int, ...]
    weights: dict[tuple[Node, ...], float]


def search_backward(template: Template, nodes: Nodes, weights: Weights) -> Path:
    """Case 3, edges reversed: the pools leave, from the last to the first, and each tells those that it hangs on what
    it weighs at least. Where queries have parted and meet again, that depends on several pools at once.
    """
    rests: list[_Remainder] = []
    best: list[tuple[tuple[int, ...], dict[tuple[Node, ...], Node]]] = []
    for pool in reversed(template.pools):
        own = [rest for rest in rests if pool.number in rest.scope]
        rests = [rest for rest in rests if pool.number not in rest.scope]
        scope = tuple(sorted({*pool.predecessors, *(n for rest in own for n in rest.scope)} - {pool.number}))
        least: dict[tuple[Node, ...], float] = {}
        chosen: dict[tuple[Node, ...], Node] = {}
        for key in product(*(nodes[number] for number in scope)):
            least[key], chosen[key] = _choose_node(
                template, pool, nodes, dict(zip(scope, key, strict=True)), own, weights
            )
        rests.append(_Remainder(scope, least))
        best.append((scope, chosen))
    path: Path = {}
    for number, (scope, chosen) in enumerate(reversed(best)):
        path[number] = chosen[tuple(path[other] for other in scope)]
    return path


def _choose_node(
    template: Template, pool: Pool, nodes: Nodes, given: Path, rests: Sequence[_Remainder], weights: Weights
) -> tuple[float, Node]:
    """The node of a pool that weighs least with all that hangs on it, given the nodes of others."""
    found: list[tuple[float, int]] = []
    for at, node in enumerate(nodes[pool.number]):
        whole = {**given, pool.number: node}
        weight = weights.node_weight(pool, node)
        weight += sum(weights.edge_weight(template.pools[n], given[n], pool, node) for n in pool.predecessors)
        weight += sum(rest.weights[tuple(whole[n] for n in rest.scope)] for rest in rests)
        found.append((weight, at))
    weight, at = min(found)
    return weight, nodes[pool.number][at]
