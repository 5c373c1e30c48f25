"""Nodes of the GLORIA graph: how the queries of a pool are parted into Q-sets, and how such partings are generated.

A Q-set is a set of at least two queries and the state whose snapshots their common expression is made of. Queries of a
pool that are in no Q-set share it with nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod

from motet.optimizer.gloria.costs import CostModel
from motet.optimizer.gloria.template import Pool

QSet = tuple[int, int]  # queries, the state of their snapshots
Node = tuple[QSet, ...]  # in order

# Nodes that are generated from one node (or one from each preceding pool) before coarser choices take over.
MOST_EXACT = 96
MOST_GROUPED = 48


@dataclass(frozen=True, slots=True)
class IncomingQSets:
    """The form in which queries come to a pool: Q-sets of two or more with their snapshots, the others as values."""

    shared: Node
    values: int


def collect_incoming(pool: Pool, preceding: Iterable[tuple[Pool, Node]]) -> IncomingQSets:
    """What the nodes of the preceding pools bring."""
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


def generate_paper_nodes(pool: Pool, coming: IncomingQSets) -> list[Node]:
    """The nodes of a pool by the paper's principles: each Q-set is reused, or given local snapshots and merged with all
    others that are; what comes as values is merged too, or goes on not shared.
    """
    found: dict[Node, None] = {}
    choices = len(coming.shared)
    kept = (
        product(*((0, qset[0]) for qset in coming.shared)) if 2**choices <= MOST_GROUPED else _keep_whole_qsets(coming)
    )
    for staying in kept:
        leaving = pool.queries & ~coming.values & ~sum(staying)
        for merged in (leaving, leaving | coming.values):
            _add_nodes(found, pool, coming, staying, merged)
    return list(found)


def generate_nodes(pool: Pool, coming: IncomingQSets) -> tuple[list[Node], bool]:
    """The nodes of a pool that can be on a path of least weight, and whether all of them are here.

    The principles as above, and more: of a Q-set some queries may stay and others leave, and those that leave need not
    be shared. That pays where they go different ways, which the paper's lemma 5.2 leaves out. Queries that come alike
    and go on alike are interchangeable: it only matters how many of them do what. Where that are too many choices, they
    all do the same; where those are too many too, whole Q-sets are kept or merged.
    """
    groups = [
        [queries & interchangeable for interchangeable in pool.interchangeable if queries & interchangeable]
        for queries, _ in coming.shared
    ]
    sizes = [group.bit_count() for parts in groups for group in parts]
    size = (
        prod(n + 1 for n in sizes)
        * prod(interchangeable.bit_count() + 1 for interchangeable in pool.interchangeable)
        * len(pool.snapshot_states)
    )
    if size <= MOST_EXACT:
        kept = _choose_staying(groups, each=True)
        return _enumerate_nodes(pool, coming, kept, each=True), True
    if 2 ** (len(sizes) + len(pool.interchangeable)) * len(pool.snapshot_states) <= MOST_GROUPED:
        return _enumerate_nodes(pool, coming, _choose_staying(groups, each=False), each=False), False
    return _enumerate_nodes(pool, coming, _keep_whole_qsets(coming), each=None), False


def _choose_staying(groups: list[list[int]], each: bool) -> Iterator[tuple[int, ...]]:
    """Of each Q-set the queries that stay in it."""
    choices = [list(_choose_unions(parts, each)) for parts in groups]
    return product(*choices)


def _choose_unions(parts: Sequence[int], each: bool) -> Iterator[int]:
    """Unions of as many queries of each part as there may be: any number, or all and none."""
    for taken in product(*(_prefixes(part) if each else (0, part) for part in parts)):
        yield sum(taken)


def _prefixes(queries: int) -> list[int]:
    """The first none, one, two, ... of a set of queries."""
    found = [0]
    while queries:
        lowest = queries & -queries
        found.append(found[-1] | lowest)
        queries ^= lowest
    return found


def _keep_whole_qsets(coming: IncomingQSets) -> Iterator[tuple[int, ...]]:
    """All Q-sets stay, none does, or all but one."""
    all_ = tuple(queries for queries, _ in coming.shared)
    yield all_
    if all_:
        yield (0,) * len(all_)
    if len(all_) > 1:
        for at in range(len(all_)):
            yield (*all_[:at], 0, *all_[at + 1 :])


def _enumerate_nodes(
    pool: Pool, coming: IncomingQSets, kept: Iterable[tuple[int, ...]], each: bool | None
) -> list[Node]:
    found: dict[Node, None] = {}
    for staying in kept:
        if any(queries.bit_count() == 1 for queries in staying):
            continue
        free = pool.queries & ~sum(staying)
        parts = (
            [free]
            if each is None
            else [free & interchangeable for interchangeable in pool.interchangeable if free & interchangeable]
        )
        for merged in _choose_unions(parts, bool(each)):
            _add_nodes(found, pool, coming, staying, merged)
    return list(found)


def _add_nodes(found: dict[Node, None], pool: Pool, coming: IncomingQSets, staying: Sequence[int], merged: int) -> None:
    """The nodes in which these stay in their Q-sets, those are merged, and the others are not shared."""
    reused = tuple(
        (queries, snapshot) for queries, (_, snapshot) in zip(staying, coming.shared, strict=True) if queries
    )
    if not merged:
        found[reused] = None
    elif merged.bit_count() > 1:
        for snapshot in pool.snapshot_states:
            found[tuple(sorted((*reused, (merged, snapshot))))] = None


def restrict_node(node: Node, queries: int) -> Node:
    """What a node says of some queries."""
    return tuple(sorted((own & queries, snapshot) for own, snapshot in node if own & queries))


def choose_greedy_node(pool: Pool, coming: IncomingQSets) -> Node:
    """The one node of the greedy variant: every Q-set is reused, and what comes as values is shared if it can be."""
    reused = coming.shared
    if coming.values.bit_count() > 1:
        return tuple(sorted((*reused, (coming.values, pool.entry))))
    return reused


class Weights:
    """The weight of nodes and edges under a cost model: together, what a plan costs (lemma 4.4).

    The transitions of a pool and the evaluations at the ends of queries are the weight of its node, evaluations between
    two pools that of the edge. In a graph in which every pool has one successor that parts the paper's weights of edges
    in two; where queries of a Q-set go different ways, what they compute together is counted once.
    """

    def __init__(self, costs: CostModel) -> None:
        self.costs = costs
        self._known: dict[tuple[int, Node], float] = {}

    def start_weight(self, pool: Pool) -> float:
        """What the events cost with which queries begin."""
        return pool.starting.bit_count() * self.costs.start_cost(pool.entry) if pool.starting else 0.0

    def node_weight(self, pool: Pool, node: Node) -> float:
        """The transitions of a pool, and the evaluations for queries that end with it."""
        known = self._known.get((pool.number, node))
        if known is None:
            known = self._known[pool.number, node] = self.transition_weight(pool, node) + self.end_weight(pool, node)
        return known

    def end_weight(self, pool: Pool, node: Node) -> float:
        """What is evaluated for queries that end with a pool."""
        return sum(
            ending * self.costs.evaluation_cost(pool.exit, snapshot)
            for queries, snapshot in node
            if (ending := (queries & pool.ending).bit_count())
        )

    def transition_weight(self, pool: Pool, node: Node) -> float:
        """The transitions of a pool."""
        alone = pool.queries
        weight = 0.0
        for queries, snapshot in node:
            alone &= ~queries
            weight += self.costs.shared_cost(pool, queries, snapshot)
        while alone:
            query = alone & -alone
            weight += self.costs.unshared_cost(pool, query)
            alone ^= query
        return weight

    def edge_weight(self, before: Pool, one: Node, after: Pool, other: Node) -> float:
        """What is evaluated between two consecutive pools; infinite where a Q-set has no snapshots to go on with."""
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
