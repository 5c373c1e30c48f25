"""Path search: the path of least weight in a GLORIA graph that is there already (section 5.3).

A path has one node of each pool. Growing a graph finds its best path on the way; this searches again when the weights
have changed, in time linear in the edges as long as queries that have parted do not meet again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from motet.optimizer.aggregate.gloria.graph import Path, weight_of
from motet.optimizer.aggregate.gloria.nodes import Node, Weights
from motet.optimizer.aggregate.gloria.template import Pool, Template

Nodes = Sequence[Sequence[Node]]  # by pool


def search(template: Template, nodes: Nodes, weights: Weights) -> tuple[float, Path]:
    """The weight of the best path, and the path."""
    if all(len(own) == 1 for own in nodes):
        path = {number: own[0] for number, own in enumerate(nodes)}
    elif all(len(pool.after) <= 1 for pool in template.pools):
        path = to_the_ends(template, nodes, weights)
    else:
        path = from_the_ends(template, nodes, weights)
    return weight_of(template, weights, path), path


def to_the_ends(template: Template, nodes: Nodes, weights: Weights) -> Path:
    """Case 1, no pool has two successors: each node keeps the best node of each pool before it (equation 22)."""
    distance: list[dict[Node, float]] = []
    best: dict[tuple[int, Node, int], Node] = {}
    for pool in template.pools:
        own: dict[Node, float] = {}
        for node in nodes[pool.number]:
            own[node] = weights.node(pool, node)
            for number in pool.before:
                before = template.pools[number]
                least, chosen = min(
                    (distance[number][one] + weights.edge(before, one, pool, node), at, one)
                    for at, one in enumerate(nodes[number])
                )[::2]
                own[node] += least
                best[pool.number, node, number] = chosen
        distance.append(own)
    path: Path = {}
    for pool in reversed(template.pools):
        if not pool.after:
            path[pool.number] = min(distance[pool.number], key=distance[pool.number].__getitem__)
        for number in pool.before:
            path[number] = best[pool.number, path[pool.number], number]
    return path


@dataclass(frozen=True, slots=True)
class _Rest:
    """What the pools from some on weigh at least, by the nodes of the pools before them."""

    scope: tuple[int, ...]
    weights: dict[tuple[Node, ...], float]


def from_the_ends(template: Template, nodes: Nodes, weights: Weights) -> Path:
    """Case 3, edges reversed: the pools leave, from the last to the first, and each tells those that it hangs on what
    it weighs at least. Where queries have parted and meet again, that depends on several pools at once.
    """
    rests: list[_Rest] = []
    best: list[tuple[tuple[int, ...], dict[tuple[Node, ...], Node]]] = []
    for pool in reversed(template.pools):
        own = [rest for rest in rests if pool.number in rest.scope]
        rests = [rest for rest in rests if pool.number not in rest.scope]
        scope = tuple(sorted({*pool.before, *(n for rest in own for n in rest.scope)} - {pool.number}))
        least: dict[tuple[Node, ...], float] = {}
        chosen: dict[tuple[Node, ...], Node] = {}
        for key in product(*(nodes[number] for number in scope)):
            least[key], chosen[key] = _best(template, pool, nodes, dict(zip(scope, key, strict=True)), own, weights)
        rests.append(_Rest(scope, least))
        best.append((scope, chosen))
    path: Path = {}
    for number, (scope, chosen) in enumerate(reversed(best)):
        path[number] = chosen[tuple(path[other] for other in scope)]
    return path


def _best(
    template: Template, pool: Pool, nodes: Nodes, given: Path, rests: Sequence[_Rest], weights: Weights
) -> tuple[float, Node]:
    """The node of a pool that weighs least with all that hangs on it, given the nodes of others."""
    found: list[tuple[float, int]] = []
    for at, node in enumerate(nodes[pool.number]):
        whole = {**given, pool.number: node}
        weight = weights.node(pool, node)
        weight += sum(weights.edge(template.pools[n], given[n], pool, node) for n in pool.before)
        weight += sum(rest.weights[tuple(whole[n] for n in rest.scope)] for rest in rests)
        found.append((weight, at))
    weight, at = min(found)
    return weight, nodes[pool.number][at]
