"""The cheapest tree that leads from a root to all terminals of an acyclic directed graph, through other nodes or not.

Arcs lead from lower to higher numbers; node 0 is the root, and an arc from it leads to every other node. So once it is
decided which nodes are in the tree, each takes the cheapest arc from one of them, and the search is over sets of nodes.
Branch and bound is exact, with dual ascent (Wong 1984) for a bound; annealing is for what it cannot finish in time.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from motet.optimizer.solvers import annealing
from motet.optimizer.solvers.graph import Deadline
from motet.optimizer.solvers.local_search import Limits, SearchResult

ROOT = 0
# Steps of annealing for each node that may be left out, and at most.
STEPS_A_NODE = 300
MOST_STEPS = 60_000
NEVER = Deadline()


@dataclass(frozen=True, slots=True)
class Arc:
    """From one node to another that it leads to, at a cost."""

    source: int
    target: int
    cost: float


@dataclass(frozen=True)
class Network:
    """A graph with its terminals."""

    size: int
    terminals: frozenset[int]
    arcs: tuple[Arc, ...]

    def __post_init__(self) -> None:
        if any(not 0 <= arc.source < arc.target < self.size for arc in self.arcs):
            raise ValueError("arcs lead from lower to higher numbers")
        if {arc.target for arc in self.arcs if arc.source == ROOT} != set(range(1, self.size)):
            raise ValueError("an arc leads from the root to every node")

    @cached_property
    def into(self) -> tuple[tuple[Arc, ...], ...]:
        """The arcs into each node, the cheapest first, up to that from the root: none beyond it is ever taken."""
        found: list[list[Arc]] = [[] for _ in range(self.size)]
        for arc in sorted(self.arcs, key=lambda arc: (arc.cost, arc.source)):
            own = found[arc.target]
            if not own or own[-1].source != ROOT:
                own.append(arc)
        return tuple(map(tuple, found))

    @cached_property
    def out(self) -> tuple[tuple[Arc, ...], ...]:
        """The arcs out of each node that may be taken."""
        found: list[list[Arc]] = [[] for _ in range(self.size)]
        for own in self.into:
            for arc in own:
                found[arc.source].append(arc)
        return tuple(map(tuple, found))

    def components(self) -> list[list[int]]:
        """Nodes that arcs connect, the root apart; those without a terminal are left out."""
        seen: set[int] = {ROOT}
        found = []
        for start in range(1, self.size):
            if start in seen:
                continue
            seen.add(start)
            own, pending = [], [start]
            while pending:
                node = pending.pop()
                own.append(node)
                beside = {arc.source for arc in self.into[node]} | {arc.target for arc in self.out[node]}
                fresh = beside - seen
                seen |= fresh
                pending += sorted(fresh)
            if self.terminals.intersection(own):
                found.append(sorted(own))
        return found


@dataclass(frozen=True)
class SteinerTree:
    """The arc into each node of a tree, and a lower `bound` on the cost of every tree; `is_optimal`: it is reached."""

    arcs: tuple[Arc, ...]
    cost: float
    bound: float
    is_optimal: bool


@dataclass
class NodeSet:
    """A set of nodes with the cheapest arc into each, changed one node at a time."""

    network: Network
    inside: list[bool] = field(init=False)
    cost: float = 0.0

    def __post_init__(self) -> None:
        self.inside = [node == ROOT or node in self.network.terminals for node in range(self.network.size)]
        self.cost = math.fsum(self.cheapest_arc(node).cost for node in range(1, self.network.size) if self.inside[node])

    def cheapest_arc(self, node: int, without: int = -1) -> Arc:
        """The cheapest arc into a node from one inside."""
        return next(arc for arc in self.network.into[node] if self.inside[arc.source] and arc.source != without)

    def cost_change(self, node: int) -> float:
        """What the tree would cost more if a node went in or out. O(arcs at the node)."""
        if self.inside[node]:
            more = -self.cheapest_arc(node).cost
            for arc in self.network.out[node]:
                if self.inside[arc.target] and self.cheapest_arc(arc.target).source == node:
                    more += self.cheapest_arc(arc.target, without=node).cost - arc.cost
            return more
        more = self.cheapest_arc(node).cost
        for arc in self.network.out[node]:
            if self.inside[arc.target]:
                more += min(arc.cost - self.cheapest_arc(arc.target).cost, 0.0)
        return more

    def toggle(self, node: int, more: float) -> None:
        """Take a node in or out, where that changes the cost by so much."""
        self.inside[node] = not self.inside[node]
        self.cost += more

    def assign(self, nodes: Iterable[int]) -> None:
        """Make exactly these, and the terminals, the nodes inside."""
        wanted = self.network.terminals | set(nodes) | {ROOT}
        for node in range(self.network.size):
            self.inside[node] = node in wanted
        self.cost = math.fsum(self.cheapest_arc(node).cost for node in wanted if node != ROOT)

    def steiner_nodes(self) -> frozenset[int]:
        """The nodes inside that need not be."""
        return frozenset(n for n in range(1, self.network.size) if self.inside[n] and n not in self.network.terminals)

    def improve_greedily(self, free: Sequence[int]) -> None:
        """Take nodes in or out as long as that makes the tree cheaper."""
        changed = True
        while changed:
            changed = False
            for node in free:
                more = self.cost_change(node)
                if more < -1e-9 * max(self.cost, 1.0):
                    self.toggle(node, more)
                    changed = True


def tree_cost(network: Network, nodes: Iterable[int]) -> float:
    """What the cheapest tree over the terminals and these nodes costs."""
    chosen = NodeSet(network)
    chosen.assign(nodes)
    return chosen.cost


def solve_steiner(network: Network, budget: float = 10.0, seed: int = 0, exact: bool = True) -> SteinerTree:
    """The cheapest tree: by branch and bound for half of the budget (seconds), then by annealing, or by that alone.
    Parts of the graph that only the root connects are solved one by one, each with its share of the time.
    """
    nodes: set[int] = set()
    bound, is_optimal = 0.0, True
    components = sorted(network.components(), key=len)
    deadline = Deadline(budget)
    for at, component in enumerate(components):
        share = deadline.seconds_left / 2 * len(component) / sum(map(len, components[at:]))
        part, numbers = _subnetwork(network, component)
        best, low, done = branch_and_bound(part, Deadline(share if exact else 0.0))
        if not done:
            # What the exact search had in hand is where the walk begins, so it never ends with anything worse.
            best = anneal(part, seed, Deadline(share), start=best).solution
        nodes |= {numbers[node] for node in best}
        bound += low
        is_optimal = is_optimal and done
    chosen = NodeSet(network)
    chosen.assign(nodes)
    arcs = tuple(chosen.cheapest_arc(node) for node in range(1, network.size) if chosen.inside[node])
    return SteinerTree(arcs, chosen.cost, chosen.cost if is_optimal else bound, is_optimal)


def _subnetwork(network: Network, component: Sequence[int]) -> tuple[Network, list[int]]:
    """A component with the root as a network of its own, and what its nodes are called outside."""
    numbers = [ROOT, *component]
    number = {node: at for at, node in enumerate(numbers)}
    arcs = tuple(
        Arc(number[arc.source], number[arc.target], arc.cost) for node in component for arc in network.into[node]
    )
    terminals = frozenset(number[node] for node in network.terminals if node in number)
    return Network(len(numbers), terminals, arcs), numbers


# Exact


def branch_and_bound(network: Network, deadline: Deadline = NEVER) -> tuple[frozenset[int], float, bool]:
    """The nodes of the cheapest tree by branch and bound, a bound, and whether there was time to prove it.

    A node may be in or out; what is left undecided in the dual solution is decided first.
    """
    chosen = NodeSet(network)
    optional = [node for node in range(1, network.size) if node not in network.terminals]
    if not optional:
        return frozenset(), chosen.cost, True
    low, reached = dual_ascent(network, network.terminals, frozenset())
    chosen.assign(reached)
    chosen.improve_greedily(optional)
    best_cost, best = chosen.cost, chosen.steiner_nodes()
    done = True
    open_: list[tuple[frozenset[int], frozenset[int], float, frozenset[int]]] = [
        (frozenset(), frozenset(), low, reached)
    ]
    while open_:
        wanted, barred, bound, reached = open_.pop()
        if bound >= best_cost - 1e-9 * max(best_cost, 1.0):
            continue
        if deadline.is_over:
            done = False
            break
        chosen.assign(wanted | (reached - barred))
        chosen.improve_greedily([node for node in optional if node not in wanted and node not in barred])
        if chosen.cost < best_cost:
            best_cost, best = chosen.cost, chosen.steiner_nodes()
        undecided = [node for node in optional if node not in wanted and node not in barred]
        if not undecided:
            continue
        inside = [node for node in undecided if chosen.inside[node] or node in reached] or undecided
        node = max(inside, key=lambda each: (len(network.out[each]), -each))
        for more_wanted, more_barred in ((wanted, barred | {node}), (wanted | {node}, barred)):
            own, seen = dual_ascent(network, network.terminals | more_wanted, more_barred)
            if own < best_cost - 1e-9 * max(best_cost, 1.0):
                open_.append((more_wanted, more_barred, own, seen))
    return best, best_cost if done else low, done


def dual_ascent(network: Network, terminals: frozenset[int], barred: frozenset[int]) -> tuple[float, frozenset[int]]:
    """A bound from below for trees to some terminals that avoid some nodes, and the other nodes that arcs without any
    cost left lead to from the root.

    Every set of nodes with a terminal in it and no arc left without cost into it must be entered: the cheapest way in
    is paid for, and taken off all ways in. Those with the fewest ways in come first.
    """
    left = {(arc.source, arc.target): arc.cost for own in network.into for arc in own if arc.source not in barred}
    ways = [[arc.source for arc in own if arc.source not in barred] for own in network.into]
    bound = 0.0
    waiting = [(len(ways[terminal]), terminal) for terminal in terminals]
    heapq.heapify(waiting)
    while waiting:
        _, terminal = heapq.heappop(waiting)
        inside, pending = {terminal}, [terminal]
        while pending:
            node = pending.pop()
            for source in ways[node]:
                if source not in inside and left[source, node] <= 0.0:
                    inside.add(source)
                    pending.append(source)
        if ROOT in inside:
            continue
        entries = [(source, node) for node in inside for source in ways[node] if source not in inside]
        if waiting and len(entries) > waiting[0][0]:
            heapq.heappush(waiting, (len(entries), terminal))
            continue
        step = min(left[entry] for entry in entries)
        for entry in entries:
            left[entry] -= step
            if left[entry] <= 1e-12:
                left[entry] = 0.0
        bound += step
        heapq.heappush(waiting, (len(entries), terminal))
    reached, pending = {ROOT}, [ROOT]
    while pending:
        node = pending.pop()
        for arc in network.out[node]:
            if arc.target not in reached and left.get((node, arc.target), 1.0) <= 0.0 and arc.target not in barred:
                reached.add(arc.target)
                pending.append(arc.target)
    return bound, frozenset(reached - terminals - {ROOT})


# Approximate


@dataclass
class SteinerSpace(NodeSet):
    """Sets of nodes as a landscape: a move takes one node in or out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.optional = [node for node in range(1, self.network.size) if node not in self.network.terminals]

    def solution(self) -> frozenset[int]:
        return self.steiner_nodes()

    def propose(self, rng: random.Random) -> int | None:
        return rng.choice(self.optional) if self.optional else None

    def cost_after(self, move: int) -> float:
        return self.cost + self.cost_change(move)

    def state_after(self, move: int) -> frozenset[int]:
        return self.steiner_nodes() ^ {move}

    def apply(self, move: int) -> None:
        self.toggle(move, self.cost_change(move))


def anneal(
    network: Network,
    seed: int = 0,
    deadline: Deadline = NEVER,
    start: Iterable[int] = (),
    steps: int | None = None,
) -> SearchResult[frozenset[int]]:
    """The nodes of the best tree that a random walk finds, taken down to where no single node makes it cheaper. Equal
    seeds walk equally.
    """
    walk = SteinerSpace(network)
    walk.assign(start)
    count = min(STEPS_A_NODE * len(walk.optional), MOST_STEPS) if steps is None else steps
    found = annealing.anneal(walk, random.Random(seed), Limits(deadline, count))
    walk.assign(found.solution)
    walk.improve_greedily(walk.optional)
    return replace(found, solution=walk.steiner_nodes(), cost=walk.cost)
