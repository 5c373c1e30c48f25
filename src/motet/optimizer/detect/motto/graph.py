"""The plan graph (MOTTO, section V-B): queries and sub-queries, and what each costs to compute from another.

Terminals are the queries, Steiner nodes the interesting sub-queries, each for the windows it may be found for. The
virtual ground stands for the events; an arc from it is computing from scratch. Between the two are disjunctions:
reading the events of several queries at once, from which conjunctions and sequences can be had too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from motet.optimizer.detect.motto.costs import Costs, Way
from motet.optimizer.detect.motto.decompose import NEVER, interesting, without_window
from motet.optimizer.detect.motto.embed import embeddings
from motet.optimizer.detect.motto.windows import (
    Window,
    at_any_time,
    covers,
    in_window,
    window_of,
    worth_finding_for,
)
from motet.optimizer.solvers.graph import Deadline
from motet.optimizer.solvers.steiner import Arc, Network
from motet.plan.detect.build import Parts
from motet.plan.detect.nodes import ItemNode, LeafNode

GROUND = 0


@dataclass(frozen=True)
class Disjunction:
    """The events of some symbols, read at once."""

    items: frozenset[LeafNode]


class Technique(StrEnum):
    """How a query is computed from another."""

    SCRATCH = "from events"
    SCAN = "from events read for a disjunction"
    MERGE = "merge"
    DECOMPOSE = "decomposition"
    TRANSFORM = "operator transformation"
    LOOSEN = "fewer conditions"
    WINDOW = "larger window"


PlanNode = Parts | Disjunction | None


@dataclass(frozen=True)
class PlanGraph:
    """Nodes in an order in which sources come before what is computed from them: the ground, then disjunctions, then
    queries. `ways` are the arcs, by their ends.
    """

    nodes: tuple[PlanNode, ...]
    terminals: tuple[int, ...]
    ways: dict[tuple[int, int], Way]

    @property
    def network(self) -> Network:
        """The same for a solver."""
        arcs = tuple(Arc(source, target, way.cost) for (source, target), way in self.ways.items())
        return Network(len(self.nodes), frozenset(self.terminals), arcs)

    @property
    def queries(self) -> list[Parts]:
        """The queries and sub-queries among the nodes."""
        return [node for node in self.nodes if isinstance(node, Parts)]

    def techniques(self, source: int, target: int) -> tuple[Technique, ...]:
        """What an arc makes use of."""
        one, other = self.nodes[source], self.nodes[target]
        if not isinstance(one, Parts) or not isinstance(other, Parts):
            return (Technique.SCRATCH if one is None else Technique.SCAN,)
        way = self.ways[source, target]
        found = []
        if at_any_time(one) != at_any_time(other):
            found.append(Technique.MERGE if source in self.terminals else Technique.DECOMPOSE)
        if way.sifted:
            ordered = {(way.places[a], way.places[b]) for a, b in one.order}
            asked = {pair for pair in other.order if set(pair) <= set(way.places)}
            found.append(Technique.TRANSFORM if ordered != asked else Technique.LOOSEN)
        if window_of(one) != window_of(other):
            found.append(Technique.WINDOW)
        return tuple(found)


def canonical(query: Parts) -> Parts:
    """A query in numbers that are the same for all that ask the same, with its window."""
    return in_window(without_window(query), window_of(query))


def plan_graph(
    queries: Sequence[Parts],
    costs: Costs,
    known: Iterable[Parts] = (),
    deadline: Deadline = NEVER,
    for_arcs: Deadline = NEVER,
) -> PlanGraph:
    """Everything that could be shared, by all techniques, sub-queries that are `known` already among it. Sub-queries
    and then arcs are looked for as long as there is time for either.
    """
    terminals = list(dict.fromkeys(map(canonical, queries)))
    asked = _windows(terminals)
    subjects = [*asked, *interesting(terminals, deadline=deadline)]
    kinds = _kinds(subjects)
    found = dict.fromkeys((*terminals, *known))
    for what, kind in zip(subjects, kinds, strict=True):
        windows = set(asked.get(what, ()))
        for (other, own), others in zip(asked.items(), kinds, strict=False):
            if not kind & ~others and embeddings(what, other):
                windows |= own
        found |= dict.fromkeys(in_window(what, window) for window in worth_finding_for(windows))
    return graph_of(terminals, list(found), costs, lambda source, target: True, scans=True, deadline=for_arcs)


def merge_graph(queries: Sequence[Parts], costs: Costs, deadline: Deadline = NEVER) -> PlanGraph:
    """What merging alone can share: whole queries with the same operator and window."""
    terminals = list(dict.fromkeys(map(canonical, queries)))
    return graph_of(terminals, terminals, costs, _same_window, loose=False, deadline=deadline)


def graph_of(
    terminals: Sequence[Parts],
    queries: Sequence[Parts],
    costs: Costs,
    allowed: Callable[[Parts, Parts], bool],
    loose: bool = True,
    scans: bool = False,
    frugal: bool = True,
    deadline: Deadline = NEVER,
) -> PlanGraph:
    """The graph over some queries, with the arcs that are allowed: `loose` ones may pass a filter, and those of a
    `frugal` graph are cheaper than computing from scratch. Sub-queries that fewer than two could use are left out; so
    are those that there is no time to look at, and queries are then computed from scratch.
    """
    nodes: list[Parts | Disjunction] = list(_disjunctions(terminals) if scans else ())
    ordered: list[Parts] = sorted(queries, key=_size)
    nodes += ordered
    numbers = {node: at for at, node in enumerate(nodes, 1)}
    kinds = [0] * (len(nodes) - len(ordered)) + _kinds(ordered)
    asked = set(terminals)
    ways: dict[tuple[int, int], Way] = {}
    for target, query in enumerate(nodes, 1):
        if isinstance(query, Disjunction):
            read = costs.prices.event * sum(costs.rates.of_symbol(leaf.symbol) for leaf in query.items)
            ways[GROUND, target] = Way(read, GROUND)
            continue
        in_time = not deadline.passed
        if not (in_time or query in asked):
            continue
        scratch = ways[GROUND, target] = costs.from_events(query)
        for source, other in enumerate(nodes[: target - 1], 1):
            if isinstance(other, Disjunction):
                if other.items.issuperset(query.items):
                    every = range(len(query.items))
                    ways[source, target] = replace(scratch, cost=scratch.cost - costs.scan(query, every))
            elif (
                not kinds[source - 1] & ~kinds[target - 1]
                and in_time
                and (GROUND, source) in ways
                and covers(window_of(other), window_of(query))
                and allowed(other, query)
            ):
                found = [costs.from_source(other, query, places) for places in embeddings(other, query)]
                way = min((way for way in found if loose or not way.sifted), key=lambda each: each.cost, default=None)
                if way is not None and (way.cost < scratch.cost or not frugal):
                    ways[source, target] = way
    graph = PlanGraph((None, *nodes), tuple(numbers[query] for query in terminals), ways)
    return _pruned(graph) if frugal else graph


def _same_window(one: Parts, other: Parts) -> bool:
    return window_of(one) == window_of(other)


def _windows(terminals: Sequence[Parts]) -> dict[Parts, set[Window]]:
    """What queries ask for, with the windows that they ask it for."""
    found: dict[Parts, set[Window]] = {}
    for query in terminals:
        found.setdefault(at_any_time(query), set()).add(window_of(query))
    return found


def _size(query: Parts) -> tuple[int, int, tuple[bool, int, int]]:
    """Sources come first: fewer items, fewer things asked for, a larger window."""
    asks = len(query.order) + len(query.tests) + len(query.gaps)
    return len(query.items), asks, window_of(query).by_size


def _disjunctions(terminals: Sequence[Parts]) -> list[Disjunction]:
    """The events of each query, read at once."""
    leaves = [frozenset(item for item in query.items if isinstance(item, LeafNode)) for query in terminals]
    return [Disjunction(items) for items in dict.fromkeys(leaves) if len(items) > 1]


def _kinds(queries: Sequence[Parts]) -> list[int]:
    """What the items of each query are, as bits: a query may hold another only where it has all of that one's bits."""
    bits: dict[ItemNode, int] = {}
    found = []
    for query in queries:
        mask = 0
        for item in query.items:
            mask |= 1 << bits.setdefault(item, len(bits))
        found.append(mask)
    return found


def _pruned(graph: PlanGraph) -> PlanGraph:
    """The graph without what fewer than two could be computed from."""
    kept = {GROUND, *(target for _, target in graph.ways)}
    ways = graph.ways
    while True:
        uses = Counter(source for source, _ in ways)
        useless = {node for node in kept - {GROUND, *graph.terminals} if uses[node] < 2}
        if not useless:
            break
        kept -= useless
        ways = {ends: way for ends, way in ways.items() if useless.isdisjoint(ends)}
    number = {node: at for at, node in enumerate(sorted(kept))}
    return PlanGraph(
        tuple(graph.nodes[node] for node in sorted(kept)),
        tuple(number[node] for node in graph.terminals),
        {(number[source], number[target]): way for (source, target), way in ways.items()},
    )
