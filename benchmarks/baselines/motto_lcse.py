"""MOTTO's baseline LCSE: share the longest common sub-expression first, and then the next, whatever that costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from motet.optimizer.joins import JoinPlan, make_join_plan
from motet.optimizer.motto.costs import ArcCosts, needs_filter
from motet.optimizer.motto.graph import GROUND, PlanGraph, build_graph
from motet.optimizer.motto.motto import MottoPlan
from motet.optimizer.motto.sources import canonicalize, find_embeddings, window_of, with_window
from motet.optimizer.motto.subqueries import DividedQuery, compare_operations, intersect_queries, items_at
from motet.optimizer.registry import JoinOptimizer, SearchOptions, register
from motet.optimizer.solvers.common import NEVER, Deadline
from motet.plans.detect.build import JoinSpec
from motet.plans.detect.cost import PRICES, Prices, Rates

NAME = "motto-lcse"


def optimize(
    queries: Sequence[JoinSpec], rates: Rates, seconds: float | None = 10.0, prices: Prices = PRICES
) -> MottoPlan:
    """Return the plan that shares the longest common sub-expressions first."""
    began = time.monotonic()
    graph, sources = share_longest_first(queries, ArcCosts(rates, prices), Deadline(seconds))
    cost = sum(graph.arcs[source, node].cost for node, source in sources.items())
    return MottoPlan(NAME, graph, sources, cost, seconds=time.monotonic() - began)


def share_longest_first(
    queries: Sequence[JoinSpec], costs: ArcCosts, deadline: Deadline = NEVER
) -> tuple[PlanGraph, dict[int, int]]:
    """Return the graph of queries and the shared sub-expressions, and the source of each of its nodes.

    Sub-expressions are searched for until the deadline.
    """
    return share_in_order(queries, costs, deadline, lambda common, users: -len(common.items))


def share_in_order(
    queries: Sequence[JoinSpec],
    costs: ArcCosts,
    deadline: Deadline,
    rank: Callable[[JoinSpec, Sequence[JoinSpec]], float],
) -> tuple[PlanGraph, dict[int, int]]:
    """Return the graph and sources of sharing one sub-expression after the other, the one of the lowest rank first.

    A rank is that of a sub-expression and the queries that contain it.
    """
    terminals = list(dict.fromkeys(map(canonicalize, queries)))
    unshared = dict.fromkeys(terminals)
    source: dict[JoinSpec, JoinSpec] = {}

    def users_of(common: JoinSpec) -> list[JoinSpec]:
        return [query for query in unshared if window_of(query) == window_of(common) and _contains(query, common)]

    ranks = {common: rank(common, users_of(common)) for common in _find_substrings(terminals, deadline)}
    for common in sorted(ranks, key=lambda each: (ranks[each], repr(each))):
        users = users_of(common)
        if len(users) + (common in unshared) > 1:
            for query in users:
                source[query] = common
                del unshared[query]
            unshared.pop(common, None)
    nodes = list(dict.fromkeys((*terminals, *source.values())))
    graph = build_graph(
        terminals,
        nodes,
        costs,
        lambda one, other: source.get(other) == one,
        allow_filters=False,
        only_cheaper=False,
    )
    number = {node: at for at, node in enumerate(graph.nodes) if isinstance(node, JoinSpec)}
    return graph, {number[query]: number[source[query]] if query in source else GROUND for query in number}


def _contains(query: JoinSpec, common: JoinSpec) -> bool:
    """Return whether a query has a sub-expression within it.

    One of equal size is no part of it: where types repeat, equal queries may be numbered differently.
    """
    return len(common.items) < len(query.items) and any(
        not needs_filter(common, query, places) for places in find_embeddings(common, query)
    )


def _find_substrings(terminals: Sequence[JoinSpec], deadline: Deadline) -> list[JoinSpec]:
    """Return the common substrings of every two queries with the same window."""
    found: dict[JoinSpec, None] = {}
    divided = [DividedQuery(query) for query in terminals]
    for at, right in enumerate(divided):
        if deadline.is_over:
            break
        for left in divided[:at]:
            if window_of(left.query) != window_of(right.query) or left.kinds.isdisjoint(right.kinds):
                continue
            for one in left.operations:
                for other in right.operations:
                    for common, ours, theirs in compare_operations(one, other, transform=False):
                        if common.is_substring:
                            query = intersect_queries(
                                left.query, items_at(ours, common.left), right.query, items_at(theirs, common.right)
                            )
                            found[with_window(query, window_of(left.query))] = None
    return list(found)


class MottoLcse(JoinOptimizer):
    """LCSE under the protocol of `motet.optimizer.registry`."""

    def optimize(self, queries: Sequence[JoinSpec], known: Rates, options: SearchOptions) -> JoinPlan:
        found = optimize(queries, known, options.seconds)
        return make_join_plan({spec: found(spec) for spec in queries}, NAME, known, found)


register(
    NAME,
    "longest common sub-expressions of patterns computed once, the longest first",
    joins=MottoLcse(),
)
