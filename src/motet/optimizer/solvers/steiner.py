"""The cheapest directed tree from a root to all terminals of an acyclic graph, through other nodes or not.

Arcs lead from lower to higher numbers; node 0 is the root, and an arc from it leads to every other node. So once it is
decided which nodes are in the tree, each takes the cheapest arc from one of them, and the search is over sets of nodes.
Branch and bound is exact, with dual ascent (Wong 1984) for a bound; annealing is for what it cannot finish in time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

from motet.optimizer.solvers import local_search
from motet.optimizer.solvers.common import NEVER, Deadline, find_components
from motet.optimizer.solvers.local_search import Limits, SearchResult

ROOT = 0
# Steps of annealing for each node that may be left out, and at most.
STEPS_PER_NODE = 300
MOST_STEPS = 60_000


@dataclass(frozen=True, slots=True)
class Arc:
    """A directed arc with its cost."""

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
    def optional(self) -> tuple[int, ...]:
        """The nodes that a tree may leave out."""
        return tuple(node for node in range(1, self.size) if node not in self.terminals)

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

    def find_components(self) -> list[list[int]]:
        """Return the sets of nodes that arcs connect other than through the root, where they have a terminal."""
        found = find_components(
            range(1, self.size),
            lambda node: [*(arc.source for arc in self.into[node]), *(arc.target for arc in self.out[node])],
        )
        return [component for component in found if self.terminals.intersection(component)]

    def subnetwork(self, nodes: Sequence[int]) -> tuple[Network, list[int]]:
        """Return some nodes with the root as a network of its own, and the numbers that its nodes have here."""
        numbers = [ROOT, *nodes]
        number = {node: at for at, node in enumerate(numbers)}
        arcs = tuple(Arc(number[arc.source], number[arc.target], arc.cost) for node in nodes for arc in self.into[node])
        terminals = frozenset(number[node] for node in self.terminals if node in number)
        return Network(len(numbers), terminals, arcs), numbers


@dataclass(frozen=True)
class SteinerTree:
    """The arc into each node of a tree, and a lower `bound` on the cost of every tree; `is_optimal`: it is reached."""

    arcs: tuple[Arc, ...]
    cost: float
    bound: float
    is_optimal: bool


class NodeSet:
    """A set of nodes with the cheapest arc into each; a move takes one node in or out."""

    def __init__(self, network: Network, nodes: Iterable[int] = ()) -> None:
        self.network = network
        self.inside: list[bool] = []
        self.cost = 0.0
        self.assign(nodes)

    def assign(self, nodes: Iterable[int]) -> None:
        """Make exactly these, and the terminals, the nodes inside."""
        chosen = self.network.terminals | set(nodes) | {ROOT}
        self.inside = [node in chosen for node in range(self.network.size)]
        self.cost = math.fsum(self.cheapest_arc(node).cost for node in chosen if node != ROOT)

    def solution(self) -> frozenset[int]:
        """Return the nodes inside that are not terminals."""
        return frozenset(node for node in self.network.optional if self.inside[node])

    def cheapest_arc(self, node: int, without: int = -1) -> Arc:
        """Return the cheapest arc into a node from one inside."""
        return next(arc for arc in self.network.into[node] if self.inside[arc.source] and arc.source != without)

    def cost_change(self, node: int) -> float:
        """Return what the tree would cost more if a node went in or out. O(arcs at the node)."""
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

    def propose(self, rng: Random) -> int | None:
        return rng.choice(self.network.optional) if self.network.optional else None

    def cost_after(self, move: int) -> float:
        return self.cost + self.cost_change(move)

    def apply(self, move: int) -> None:
        self._toggle(move, self.cost_change(move))

    def improve_greedily(self, nodes: Sequence[int]) -> None:
        """Take nodes in or out as long as that makes the tree cheaper."""
        changed = True
        while changed:
            changed = False
            for node in nodes:
                more = self.cost_change(node)
                if more < -1e-9 * max(self.cost, 1.0):
                    self._toggle(node, more)
                    changed = True

    def _toggle(self, node: int, more: float) -> None:
        self.inside[node] = not self.inside[node]
        self.cost += more


def solve_steiner(network: Network, seconds: float = 10.0, seed: int = 0, exact: bool = True) -> SteinerTree:
    """Find the cheapest tree: by branch and bound for half of the time where it is to be `exact`, then by annealing.

    Parts of the graph that only the root connects are solved one by one, each with its share of the time.
    """
    nodes: set[int] = set()
    bound, is_optimal = 0.0, True
    components = sorted(network.find_components(), key=len)
    deadline = Deadline(seconds)
    for at, component in enumerate(components):
        share = deadline.seconds_left / 2 * len(component) / sum(map(len, components[at:]))
        part, numbers = network.subnetwork(component)
        best, low, done = branch_and_bound(part, Deadline(share if exact else 0.0))
        if not done:
            # Annealing begins with the best of the exact search, so it never ends with anything worse.
            best = anneal(part, seed, Deadline(share), start=best).solution
        nodes |= {numbers[node] for node in best}
        bound += low
        is_optimal = is_optimal and done
    chosen = NodeSet(network, nodes)
    arcs = tuple(chosen.cheapest_arc(node) for node in range(1, network.size) if chosen.inside[node])
    return SteinerTree(arcs, chosen.cost, chosen.cost if is_optimal else bound, is_optimal)


def branch_and_bound(network: Network, deadline: Deadline = NEVER) -> tuple[frozenset[int], float, bool]:
    """Return the optional nodes of the cheapest tree, a lower bound, and whether there was time to prove it.

    A branch decides of one node whether it is in or out, first of those that the dual solution leaves undecided.
    """
    optional = network.optional
    low, reached = dual_ascent(network, network.terminals, frozenset())
    chosen = NodeSet(network, reached)
    chosen.improve_greedily(optional)
    best_cost, best = chosen.cost, chosen.solution()
    done = True
    pending: list[tuple[frozenset[int], frozenset[int], float, frozenset[int]]] = []
    if optional:
        pending.append((frozenset(), frozenset(), low, reached))
    else:
        low = best_cost
    while pending:
        required, barred, bound, reached = pending.pop()
        if bound >= best_cost - 1e-9 * max(best_cost, 1.0):
            continue
        if deadline.is_over:
            done = False
            break
        undecided = [node for node in optional if node not in required and node not in barred]
        chosen.assign(required | (reached - barred))
        chosen.improve_greedily(undecided)
        if chosen.cost < best_cost:
            best_cost, best = chosen.cost, chosen.solution()
        if not undecided:
            continue
        inside = [node for node in undecided if chosen.inside[node] or node in reached] or undecided
        node = max(inside, key=lambda each: (len(network.out[each]), -each))
        for more_required, more_barred in ((required, barred | {node}), (required | {node}, barred)):
            own, seen = dual_ascent(network, network.terminals | more_required, more_barred)
            if own < best_cost - 1e-9 * max(best_cost, 1.0):
                pending.append((more_required, more_barred, own, seen))
    return best, best_cost if done else low, done


def dual_ascent(network: Network, terminals: frozenset[int], barred: frozenset[int]) -> tuple[float, frozenset[int]]:
    """Return a lower bound for trees to some terminals that avoid `barred` nodes, and a set of nodes to begin with.

    Every set of nodes with a terminal in it that no arc of zero remaining cost enters must be entered: the cheapest
    entry is paid for, and its price taken off all entries. Sets with the fewest entries come first. The nodes returned
    are those that arcs of zero remaining cost lead to from the root.
    """
    left = {(arc.source, arc.target): arc.cost for own in network.into for arc in own if arc.source not in barred}
    sources = [[arc.source for arc in own if arc.source not in barred] for own in network.into]
    bound = 0.0
    waiting = [(len(sources[terminal]), terminal) for terminal in terminals]
    heapq.heapify(waiting)
    while waiting:
        _, terminal = heapq.heappop(waiting)
        inside, pending = {terminal}, [terminal]
        while pending:
            node = pending.pop()
            for source in sources[node]:
                if source not in inside and left[source, node] <= 0.0:
                    inside.add(source)
                    pending.append(source)
        if ROOT in inside:
            continue
        entries = [(source, node) for node in inside for source in sources[node] if source not in inside]
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


def anneal(
    network: Network, seed: int = 0, deadline: Deadline = NEVER, start: Iterable[int] = (), steps: int | None = None
) -> SearchResult[frozenset[int]]:
    """Return the nodes of the best tree that annealing finds, improved until no single node makes it cheaper.

    Equal seeds give equal results.
    """
    nodes = NodeSet(network, start)
    count = min(STEPS_PER_NODE * len(network.optional), MOST_STEPS) if steps is None else steps
    found = local_search.anneal(nodes, Random(seed), Limits(deadline, count))
    nodes.assign(found.solution)
    nodes.improve_greedily(network.optional)
    return replace(found, solution=nodes.solution(), cost=nodes.cost)
