"""The plan graph (MOTTO, section V-B): queries and sub-queries, and what each costs to compute from another.

Terminals are the queries, Steiner nodes the interesting sub-queries, each with the windows it may be computed for. The
virtual ground stands for the events; an arc from it is computing from scratch. Between the two are disjunctions: the
events of several items read at once, from which conjunctions and sequences can be computed too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from motet.optimizer.motto.costs import ArcCosts, PlanArc
from motet.optimizer.motto.sources import (
    MatchWindow,
    canonicalize,
    covers,
    drop_window,
    find_embeddings,
    select_windows,
    window_of,
    with_window,
)
from motet.optimizer.motto.subqueries import find_interesting_subqueries
from motet.optimizer.solvers.common import NEVER, Deadline
from motet.optimizer.solvers.steiner import Arc, Network
from motet.plans.detect.build import JoinSpec
from motet.plans.detect.nodes import ItemNode, LeafNode

GROUND = 0


@dataclass(frozen=True)
class Disjunction:
    """The events of some symbols, read together."""

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


PlanNode = JoinSpec | Disjunction | None


@dataclass(frozen=True)
class PlanGraph:
    """Nodes in an order in which sources come before what is computed from them, and arcs by their ends.

    The ground comes first, then disjunctions, then queries.
    """

    nodes: tuple[PlanNode, ...]
    terminals: tuple[int, ...]
    arcs: dict[tuple[int, int], PlanArc]

    @property
    def network(self) -> Network:
        """The graph for the solver."""
        arcs = tuple(Arc(source, target, arc.cost) for (source, target), arc in self.arcs.items())
        return Network(len(self.nodes), frozenset(self.terminals), arcs)

    def techniques(self, source: int, target: int) -> tuple[Technique, ...]:
        """Return the techniques that an arc uses."""
        one, other = self.nodes[source], self.nodes[target]
        if not isinstance(one, JoinSpec) or not isinstance(other, JoinSpec):
            return (Technique.SCRATCH if one is None else Technique.SCAN,)
        arc = self.arcs[source, target]
        found = []
        if drop_window(one) != drop_window(other):
            found.append(Technique.MERGE if source in self.terminals else Technique.DECOMPOSE)
        if arc.filtered:
            ordered = {(arc.places[a], arc.places[b]) for a, b in one.order}
            asked = {pair for pair in other.order if set(pair) <= set(arc.places)}
            found.append(Technique.TRANSFORM if ordered != asked else Technique.LOOSEN)
        if window_of(one) != window_of(other):
            found.append(Technique.WINDOW)
        return tuple(found)


def build_plan_graph(
    queries: Sequence[JoinSpec], costs: ArcCosts, deadline: Deadline = NEVER, for_arcs: Deadline = NEVER
) -> PlanGraph:
    """Build the graph of all that can be shared, by all techniques.

    Sub-queries are searched for until one deadline, arcs until another.
    """
    terminals = list(dict.fromkeys(map(canonicalize, queries)))
    windows_of = _group_windows(terminals)
    subjects = [*windows_of, *find_interesting_subqueries(terminals, deadline=deadline)]
    masks = _encode_items(subjects)
    nodes = dict.fromkeys(terminals)
    for subject, mask in zip(subjects, masks, strict=True):
        windows = set(windows_of.get(subject, ()))
        for (other, own), other_mask in zip(windows_of.items(), masks, strict=False):
            if not mask & ~other_mask and find_embeddings(subject, other):
                windows |= own
        nodes |= dict.fromkeys(with_window(subject, window) for window in select_windows(windows))
    return build_graph(terminals, list(nodes), costs, lambda source, target: True, scans=True, deadline=for_arcs)


def build_merge_graph(queries: Sequence[JoinSpec], costs: ArcCosts, deadline: Deadline = NEVER) -> PlanGraph:
    """Build the graph of what merging alone can share: whole queries with the same operator and window."""
    terminals = list(dict.fromkeys(map(canonicalize, queries)))
    return build_graph(terminals, terminals, costs, _has_same_window, allow_filters=False, deadline=deadline)


def build_graph(
    terminals: Sequence[JoinSpec],
    queries: Sequence[JoinSpec],
    costs: ArcCosts,
    allowed: Callable[[JoinSpec, JoinSpec], bool],
    allow_filters: bool = True,
    scans: bool = False,
    only_cheaper: bool = True,
    deadline: Deadline = NEVER,
) -> PlanGraph:
    """Build the graph over some queries, with the arcs that are `allowed`.

    With `allow_filters` an arc may pass a filter; with `only_cheaper` an arc must be cheaper than computing from
    scratch, and sub-queries that fewer than two queries could use are left out. Sub-queries that there is no time to
    look at are left out too; queries are then computed from scratch.
    """
    nodes: list[JoinSpec | Disjunction] = list(_list_disjunctions(terminals) if scans else ())
    ordered: list[JoinSpec] = sorted(queries, key=_make_source_key)
    nodes += ordered
    numbers = {node: at for at, node in enumerate(nodes, 1)}
    kinds = [0] * (len(nodes) - len(ordered)) + _encode_items(ordered)
    asked = set(terminals)
    arcs: dict[tuple[int, int], PlanArc] = {}
    for target, query in enumerate(nodes, 1):
        if isinstance(query, Disjunction):
            read = costs.prices.event * sum(costs.rates.symbol_count(leaf.symbol) for leaf in query.items)
            arcs[GROUND, target] = PlanArc(read, GROUND)
            continue
        in_time = not deadline.is_over
        if not (in_time or query in asked):
            continue
        scratch = arcs[GROUND, target] = costs.from_events(query)
        for source, other in enumerate(nodes[: target - 1], 1):
            if isinstance(other, Disjunction):
                if other.items.issuperset(query.items):
                    every = range(len(query.items))
                    arcs[source, target] = replace(scratch, cost=scratch.cost - costs.scan(query, every))
            elif (
                not kinds[source - 1] & ~kinds[target - 1]
                and in_time
                and (GROUND, source) in arcs
                and covers(window_of(other), window_of(query))
                and allowed(other, query)
            ):
                found = [costs.from_source(other, query, places) for places in find_embeddings(other, query)]
                usable = [arc for arc in found if allow_filters or not arc.filtered]
                arc = min(usable, key=lambda arc: arc.cost, default=None)
                if arc is not None and (arc.cost < scratch.cost or not only_cheaper):
                    arcs[source, target] = arc
    graph = PlanGraph((None, *nodes), tuple(numbers[query] for query in terminals), arcs)
    return _prune_unused(graph) if only_cheaper else graph


def _has_same_window(one: JoinSpec, other: JoinSpec) -> bool:
    return window_of(one) == window_of(other)


def _group_windows(terminals: Sequence[JoinSpec]) -> dict[JoinSpec, set[MatchWindow]]:
    """Return the queries without windows, and the windows that each is asked for with."""
    found: dict[JoinSpec, set[MatchWindow]] = {}
    for query in terminals:
        found.setdefault(drop_window(query), set()).add(window_of(query))
    return found


def _make_source_key(query: JoinSpec) -> tuple[int, int, tuple[bool, int, int]]:
    """Return the key by which sources come first: fewer items, fewer requirements, a larger window."""
    asks = len(query.order) + len(query.tests) + len(query.gaps)
    return len(query.items), asks, window_of(query).sort_key


def _list_disjunctions(terminals: Sequence[JoinSpec]) -> list[Disjunction]:
    """Return the events of each query as a disjunction."""
    leaves = [frozenset(item for item in query.items if isinstance(item, LeafNode)) for query in terminals]
    return [Disjunction(items) for items in dict.fromkeys(leaves) if len(items) > 1]


def _encode_items(queries: Sequence[JoinSpec]) -> list[int]:
    """Return the items of each query as bits: a query can contain another only if it has all of its bits."""
    bits: dict[ItemNode, int] = {}
    found = []
    for query in queries:
        mask = 0
        for item in query.items:
            mask |= 1 << bits.setdefault(item, len(bits))
        found.append(mask)
    return found


def _prune_unused(graph: PlanGraph) -> PlanGraph:
    """Return the graph without nodes that fewer than two others could be computed from."""
    kept = {GROUND, *(target for _, target in graph.arcs)}
    arcs = graph.arcs
    while True:
        uses = Counter(source for source, _ in arcs)
        useless = {node for node in kept - {GROUND, *graph.terminals} if uses[node] < 2}
        if not useless:
            break
        kept -= useless
        arcs = {ends: arc for ends, arc in arcs.items() if useless.isdisjoint(ends)}
    number = {node: at for at, node in enumerate(sorted(kept))}
    return PlanGraph(
        tuple(graph.nodes[node] for node in sorted(kept)),
        tuple(number[node] for node in graph.terminals),
        {(number[source], number[target]): arc for (source, target), arc in arcs.items()},
    )
