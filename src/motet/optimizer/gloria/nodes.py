"""Nodes of the GLORIA graph: how the queries of a pool are divided into Q-sets, how nodes are generated and weighted.

A Q-set is a set of at least two queries and the state whose snapshots their common expression is made of. Queries of a
pool that are in no Q-set do not share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import inf, prod

from motet.optimizer.gloria.costs import CostModel
from motet.optimizer.gloria.template import Pool, split_queries

QSet = tuple[int, int]  # queries, the state of their snapshots
Node = tuple[QSet, ...]  # in order
# From a pool and a node of each preceding pool to the nodes that they lead to.
NodeGenerator = Callable[[Pool, Sequence[tuple[Pool, "Node"]]], list["Node"]]

MOST_EXACT = 96  # nodes that follow from one choice of preceding nodes, for all of them to be generated
MOST_REUSED = 48  # choices of the Q-sets that are reused


class SearchAborted(Exception):
    """There were too many nodes to search all of them, or too little time."""


@dataclass(frozen=True, slots=True)
class IncomingQSets:
    """The form in which queries reach a pool: Q-sets of two or more with their snapshots, the others as values."""

    shared: Node
    values: int


def collect_incoming(pool: Pool, preceding: Iterable[tuple[Pool, Node]]) -> IncomingQSets:
    """Return the form in which queries reach a pool from nodes of the preceding pools."""
    shared: list[QSet] = []
    values = pool.queries
    for _, node in preceding:
        for queries, snapshot in node:
            coming = queries & pool.queries
            # Snapshots of the state at which the pool begins are values of its events.
            if coming.bit_count() > 1 and snapshot != pool.entry:
                shared.append((coming, snapshot))
                values &= ~coming
    return IncomingQSets(tuple(sorted(shared)), values)


def generate_paper_nodes(pool: Pool, preceding: Sequence[tuple[Pool, Node]]) -> list[Node]:
    """Return the nodes of a pool by the paper's principles (section 5.1).

    Each Q-set is reused, or gets local snapshots and is merged with all others that do; what comes as values is merged
    too, or is not shared.
    """
    coming = collect_incoming(pool, preceding)
    found: dict[Node, None] = {}
    every = tuple(queries for queries, _ in coming.shared)
    if 2 ** len(every) <= MOST_REUSED:
        choices = list(product(*((0, queries) for queries in every)))
    else:  # all Q-sets stay, none does, or all but one
        choices = [every, (0,) * len(every), *((*every[:at], 0, *every[at + 1 :]) for at in range(len(every)))]
    for staying in choices:
        leaving = pool.queries & ~coming.values & ~sum(staying)
        for merged in (leaving, leaving | coming.values):
            _add_nodes(found, pool, coming, staying, merged)
    return list(found)


def generate_nodes(pool: Pool, preceding: Sequence[tuple[Pool, Node]]) -> list[Node]:
    """Return all nodes of a pool that can be on a path of least weight. Raises `SearchAborted` if there are too many.

    Beyond the principles, some queries of a Q-set may stay and others leave, and those that leave need not be shared.
    That pays where they go different ways, which the paper's lemma 5.2 leaves out. Of queries that come and continue in
    the same way it only matters how many do what.
    """
    coming = collect_incoming(pool, preceding)
    groups = [_split(queries, pool.interchangeable) for queries, _ in coming.shared]
    sizes = [part.bit_count() + 1 for parts in (*groups, pool.interchangeable) for part in parts]
    if prod(sizes) * len(pool.snapshot_states) > MOST_EXACT:
        raise SearchAborted
    found: dict[Node, None] = {}
    for staying in product(*map(_choose_unions, groups)):
        if any(queries.bit_count() == 1 for queries in staying):
            continue
        for merged in _choose_unions(_split(pool.queries & ~sum(staying), pool.interchangeable)):
            _add_nodes(found, pool, coming, staying, merged)
    return list(found)


def _split(queries: int, parts: Sequence[int]) -> list[int]:
    """Return a set of queries divided by how they continue."""
    return [queries & part for part in parts if queries & part]


def _choose_unions(parts: Sequence[int]) -> list[int]:
    """Return the unions of the first none, one, two, ... queries of each part."""
    return [sum(chosen) for chosen in product(*map(_list_prefixes, parts))]


def _list_prefixes(queries: int) -> list[int]:
    """Return the first none, one, two, ... of a set of queries."""
    return list(accumulate(split_queries(queries), initial=0))


def _add_nodes(found: dict[Node, None], pool: Pool, coming: IncomingQSets, staying: Sequence[int], merged: int) -> None:
    """Add the nodes in which some queries stay in their Q-sets, some are merged, and the others are not shared."""
    reused = tuple(
        (queries, snapshot) for queries, (_, snapshot) in zip(staying, coming.shared, strict=True) if queries
    )
    if not merged:
        found[reused] = None
    elif merged.bit_count() > 1:
        for snapshot in pool.snapshot_states:
            found[tuple(sorted((*reused, (merged, snapshot))))] = None


def restrict_node(node: Node, queries: int) -> Node:
    """Return what a node decides for some queries."""
    return tuple(sorted((own & queries, snapshot) for own, snapshot in node if own & queries))


def generate_greedy_node(pool: Pool, preceding: Sequence[tuple[Pool, Node]]) -> list[Node]:
    """Return the node of the greedy variant: every Q-set is reused, and what comes as values is shared if possible."""
    coming = collect_incoming(pool, preceding)
    shared = ((coming.values, pool.entry),) if coming.values.bit_count() > 1 else ()
    return [tuple(sorted((*coming.shared, *shared)))]


class GraphWeights:
    """The weights of nodes and edges under a cost model: their sum is the cost of a plan (lemma 4.4).

    The weight of a node has the transitions of its pool and the evaluations at the ends of queries, that of an edge the
    evaluations between two pools. Where every pool has one successor, that divides the paper's weights of edges in two;
    where queries of a Q-set go different ways, what they compute together is counted once.
    """

    def __init__(self, costs: CostModel) -> None:
        self.costs = costs
        self._known: dict[tuple[int, Node], float] = {}

    def start_weight(self, pool: Pool) -> float:
        """Return the cost of the events with which queries begin."""
        return pool.starting.bit_count() * self.costs.start_cost(pool.entry) if pool.starting else 0.0

    def node_weight(self, pool: Pool, node: Node) -> float:
        """Return the cost of the transitions of a pool, and of the evaluations for queries that end with it."""
        known = self._known.get((pool.number, node))
        if known is None:
            known = self._known[pool.number, node] = self.transition_weight(pool, node) + self.end_weight(pool, node)
        return known

    def end_weight(self, pool: Pool, node: Node) -> float:
        """Return the cost of evaluations for queries that end with a pool."""
        return sum(
            ending * self.costs.evaluation_cost(pool.exit, snapshot)
            for queries, snapshot in node
            if (ending := (queries & pool.ending).bit_count())
        )

    def transition_weight(self, pool: Pool, node: Node) -> float:
        """Return the cost of the transitions of a pool."""
        alone = pool.queries
        weight = 0.0
        for queries, snapshot in node:
            alone &= ~queries
            weight += self.costs.shared_cost(pool, queries, snapshot)
        return weight + sum(self.costs.unshared_cost(pool, query) for query in split_queries(alone))

    def edge_weight(self, before: Pool, one: Node, after: Pool, other: Node) -> float:
        """Return the cost of evaluations between two pools; infinite where a Q-set has no snapshots to go on with."""
        common = before.queries & after.queries
        held = dict.fromkeys((snapshot for _, snapshot in one), 0)
        for queries, snapshot in other:
            if not queries & common:
                continue
            if snapshot in after.snapshot_states:
                if snapshot in held:
                    held[snapshot] |= queries
                continue
            if not any(snapshot == old and queries & ~had == 0 for had, old in one):
                return inf
            held[snapshot] |= queries
        weight = 0.0
        for queries, snapshot in one:
            gone = queries & common & ~held[snapshot]
            if gone:
                weight += gone.bit_count() * self.costs.evaluation_cost(after.entry, snapshot)
        return weight
