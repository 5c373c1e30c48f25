"""The GLORIA graph: pools of nodes, grown from the beginnings of queries to their ends, and pruned as it grows.

Growing goes pool by pool and keeps, for each choice of nodes of the pools that have successors to come, the partial
path of least weight (the edge pruning principle). Where all pools have one successor, a choice is one node with the
distance of equation 22. Where queries part, the node of that pool stays part of the choice until all its successors are
there, as far as queries still to come are concerned: only then can two partial paths be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from motet.optimizer.gloria.nodes import (
    GraphWeights,
    Node,
    NodeGenerator,
    SearchAborted,
    generate_nodes,
    generate_paper_nodes,
    restrict_node,
)
from motet.optimizer.gloria.template import Pool, Template
from motet.optimizer.solvers.common import NEVER, Deadline

Path = dict[int, Node]  # by number of a pool


@dataclass(slots=True)
class GeneratedNode:
    """A node of a pool, its distance from the starts (equation 22, or 24 where repeated), and what became of it."""

    node: Node
    distance: float
    pruned: bool = False


@dataclass
class GloriaGraph:
    """Pools with the nodes generated in them, and the path of least weight found while it grew.

    `complete`: whatever was left out cannot be on a path that weighs less.
    """

    template: Template
    pools: list[list[GeneratedNode]]
    path: Path
    weight: float
    complete: bool

    @property
    def nodes(self) -> int:
        return sum(map(len, self.pools))


_PathStep = tuple[
    int, Node, tuple["_PathStep", ...]
]  # the pool that was last, its node, and how the choices before came about


@dataclass(slots=True)
class _PartialPaths:
    """For each choice of nodes of the pools in `scope`, the least weight of all pools so far, and the path to it."""

    scope: tuple[int, ...]
    entries: dict[tuple[Node, ...], tuple[float, tuple[_PathStep, ...]]]

    def restrict(self, changed: Mapping[int, int]) -> _PartialPaths:
        """Return the best path to each choice that still matters: of the `changed` pools, what these queries do."""
        left = [at for at, pool in enumerate(self.scope) if changed.get(pool, -1)]
        narrow = [(place, changed[self.scope[at]]) for place, at in enumerate(left) if self.scope[at] in changed]
        seen: dict[tuple[Node, int], Node] = {}
        entries: dict[tuple[Node, ...], tuple[float, tuple[_PathStep, ...]]] = {}
        for key, entry in self.entries.items():
            short = [key[at] for at in left]
            for place, queries in narrow:
                whole = short[place], queries
                if whole not in seen:
                    seen[whole] = restrict_node(*whole)
                short[place] = seen[whole]
            found = tuple(short)
            known = entries.get(found)
            if known is None or entry[0] < known[0]:
                entries[found] = entry
        return _PartialPaths(tuple(self.scope[at] for at in left), entries)


@dataclass(frozen=True, slots=True)
class _SnapshotBurdens:
    """The queries of a node's Q-sets, the burdens of their snapshots, and the least that these can be from here on."""

    sets: tuple[int, ...]
    burdens: tuple[float, ...]
    at_least: tuple[float, ...]


@dataclass
class _ChoiceGraphBuilder:
    """One run over the pools of a template."""

    template: Template
    weights: GraphWeights
    generate: NodeGenerator
    prune: bool
    most: int
    deadline: Deadline
    complete: bool
    pools: list[list[GeneratedNode]] = field(default_factory=list)
    open: dict[int, _PartialPaths] = field(default_factory=dict)  # by pool in its scope
    waiting: list[int] = field(default_factory=list)  # by pool: the queries whose next pool is still to come
    done: list[_PartialPaths] = field(default_factory=list)

    def run(self) -> GloriaGraph:
        self.waiting = [pool.queries & ~pool.ending for pool in self.template.pools]
        for pool in self.template.pools:
            self._add_pool(pool)
        weight, path = 0.0, {}
        for choices in self.done:
            best, ways = choices.entries[()]
            weight += best
            path.update(_trace_path(ways))
        return GloriaGraph(self.template, self.pools, path, weight, self.complete)

    def _add_pool(self, pool: Pool) -> None:
        before = self._join_open(pool)
        places = [before.scope.index(number) for number in pool.predecessors]
        known: dict[tuple[Node, ...], list[tuple[Node, float]]] = {}
        start = self.weights.start_weight(pool)
        entries: dict[tuple[Node, ...], tuple[float, tuple[_PathStep, ...]]] = {}
        for key, (weight, ways) in before.entries.items():
            preceding = tuple(key[place] for place in places)
            if self.deadline.is_over:
                raise SearchAborted
            if preceding not in known:
                known[preceding] = self._expand(pool, preceding)
            for node, more in known[preceding]:
                entries[(*key, node)] = (weight + start + more, ((pool.number, node, ways),))
        for number in pool.predecessors:
            self.waiting[number] &= ~pool.queries
        choices = _PartialPaths((*before.scope, pool.number), entries)
        choices = choices.restrict(self._select_waiting(pool.predecessors))
        generated = self._collect_nodes(pool, choices)
        if self.prune:
            self._prune(choices)
        self._limit(choices)
        left = {key[-1] for key in choices.entries}
        for each in generated:
            each.pruned = each.node not in left
        self.pools.append(generated)
        choices = choices.restrict(self._select_waiting([pool.number]))
        if not choices.scope:
            self.done.append(choices)
        for number in choices.scope:
            self.open[number] = choices

    def _select_waiting(self, pools: Sequence[int]) -> dict[int, int]:
        """Return the queries of some pools whose choices still matter: without pruning all, until none does."""
        return {number: self.waiting[number] for number in pools if self.prune or not self.waiting[number]}

    def _join_open(self, pool: Pool) -> _PartialPaths:
        """Return the open choices before a pool, joined."""
        tables = {id(self.open[number]): self.open[number] for number in pool.predecessors}
        joined = _PartialPaths((), {(): (0.0, ())})
        for table in tables.values():
            joined = _PartialPaths(
                (*joined.scope, *table.scope),
                {
                    (*key, *other): (weight + more, (*ways, *others))
                    for key, (weight, ways) in joined.entries.items()
                    for other, (more, others) in table.entries.items()
                },
            )
        self._limit(joined)
        return joined

    def _expand(self, pool: Pool, preceding: tuple[Node, ...]) -> list[tuple[Node, float]]:
        """Return the nodes that some preceding nodes lead to, with the weights of the edges and of the node."""
        before = [
            (self.template.pools[number], node) for number, node in zip(pool.predecessors, preceding, strict=True)
        ]
        nodes: list[Node] = [()] if pool.queries.bit_count() == 1 else self.generate(pool, before)
        found = []
        for node in nodes:
            weight = self.weights.node_weight(pool, node)
            weight += sum(self.weights.edge_weight(one, own, pool, node) for one, own in before)
            if weight < inf:
                found.append((node, weight))
        return found

    def _collect_nodes(self, pool: Pool, choices: _PartialPaths) -> list[GeneratedNode]:
        least: dict[Node, float] = {}
        for key, (weight, _) in choices.entries.items():
            least[key[-1]] = min(weight, least.get(key[-1], weight))
        beyond = self.weights.end_weight if pool.is_repeated else self.weights.node_weight
        return [GeneratedNode(node, weight - beyond(pool, node)) for node, weight in least.items()]

    def _prune(self, choices: _PartialPaths) -> None:
        """Apply the node pruning principle: of comparable choices, those with the same Q-sets, drop one if another
        weighs no more up to here and its snapshots are a smaller burden everywhere.

        Weights include the transitions of the pool: an event that is a snapshot itself has an expression of one term,
        so that for one transition even snapshots of a frequent type come cheap.
        """
        alike: dict[tuple[tuple[int, ...], ...], list[tuple[Node, ...]]] = {}
        exits = [self.template.pools[number].exit for number in choices.scope]
        nodes = [set(column) for column in zip(*choices.entries, strict=True)]
        judged = [
            {node: self._weigh_snapshots(node, exit) for node in own} for own, exit in zip(nodes, exits, strict=True)
        ]
        # Pools of which all choices have the same node tell no two of them apart.
        varied = [at for at, own in enumerate(nodes) if len(own) > 1]
        for key in choices.entries:
            alike.setdefault(tuple(judged[at][key[at]].sets for at in varied), []).append(key)
        for keys in alike.values():
            if len(keys) == 1:
                continue
            kept: list[list[float]] = []
            for key in sorted(keys, key=lambda key: choices.entries[key][0]):
                at_least = [least for at in varied for least in judged[at][key[at]].at_least]
                if any(all(map(float.__le__, other, at_least)) for other in kept):
                    del choices.entries[key]
                else:
                    kept.append([burden for at in varied for burden in judged[at][key[at]].burdens])

    def _weigh_snapshots(self, node: Node, exit: int) -> _SnapshotBurdens:
        burdens = tuple(self.weights.costs.snapshot_burden(*qset) for qset in node)
        if self.generate is generate_paper_nodes:
            at_least = burdens
        else:
            # Where a repetition ends with the snapshots themselves, the next transition comes cheap with them.
            at_least = tuple(
                -inf if snapshot == exit else burden for burden, (_, snapshot) in zip(burdens, node, strict=True)
            )
        return _SnapshotBurdens(tuple(queries for queries, _ in node), burdens, at_least)

    def _limit(self, choices: _PartialPaths) -> None:
        """Keep the choices that weigh least if there are too many."""
        if len(choices.entries) > self.most:
            self.complete = False
            ranked = sorted(choices.entries.items(), key=lambda entry: entry[1][0])
            choices.entries = dict(ranked[: self.most])


def _trace_path(ways: Sequence[_PathStep]) -> Path:
    path: Path = {}
    waiting = list(ways)
    while waiting:
        pool, node, before = waiting.pop()
        path[pool] = node
        waiting += before
    return path


def grow_graph(
    template: Template,
    weights: GraphWeights,
    generate: NodeGenerator = generate_nodes,
    prune: bool = True,
    most: int = 100_000,
    deadline: Deadline = NEVER,
) -> GloriaGraph:
    """Return the graph of a template with the nodes that are generated, and the path of least weight.

    At most so many choices are kept at once: of more, those that weigh least so far, so the best path may be lost.
    Raises `SearchAborted` after the deadline, or where there are too many nodes to generate all of them.
    """
    return _ChoiceGraphBuilder(
        template, weights, generate, prune, most, deadline, complete=generate is generate_nodes
    ).run()


def reuse_nodes(graph: GloriaGraph) -> NodeGenerator:
    """Return a generator of the nodes left in a graph, to find its best path by other weights (section 5.3)."""
    return lambda pool, before: [each.node for each in graph.pools[pool.number] if not each.pruned]


def path_weight(template: Template, weights: GraphWeights, path: Path) -> float:
    """Return the weight of a path: the sum of its nodes and edges."""
    total = 0.0
    for pool in template.pools:
        total += weights.start_weight(pool) + weights.node_weight(pool, path[pool.number])
        for number in pool.predecessors:
            total += weights.edge_weight(template.pools[number], path[number], pool, path[pool.number])
    return total
