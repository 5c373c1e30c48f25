"""The baseline that shares the longest common sub-expression first, and then the next, whatever that costs."""

from __future__ import annotations

from collections.abc import Sequence

from motet.optimizer.motto.costs import ArcCosts, needs_filter
from motet.optimizer.motto.embeddings import find_embeddings
from motet.optimizer.motto.graph import GROUND, PlanGraph, build_graph, canonicalize
from motet.optimizer.motto.subqueries import NEVER, DividedQuery, compare_operations, intersect_queries, items_at
from motet.optimizer.motto.windows import window_of, with_window
from motet.optimizer.solvers.graph import Deadline
from motet.plans.detect.build import JoinSpec


def share_longest_first(
    queries: Sequence[JoinSpec], costs: ArcCosts, deadline: Deadline = NEVER
) -> tuple[PlanGraph, dict[int, int]]:
    """The graph of queries and the sub-expressions taken, and where each is computed from. Sub-expressions are looked
    for as long as there is time.
    """
    terminals = list(dict.fromkeys(map(canonicalize, queries)))
    open_ = dict.fromkeys(terminals)
    source: dict[JoinSpec, JoinSpec] = {}
    for common in sorted(_substrings(terminals, deadline), key=lambda each: (-len(each.items), repr(each))):
        held = [query for query in open_ if window_of(query) == window_of(common) and _contains(query, common)]
        if len(held) + (common in open_) > 1:
            for query in held:
                source[query] = common
                del open_[query]
            open_.pop(common, None)
    nodes = list(dict.fromkeys((*terminals, *source.values())))
    graph = build_graph(
        terminals, nodes, costs, lambda one, other: source.get(other) == one, allow_filters=False, only_cheaper=False
    )
    number = {node: at for at, node in enumerate(graph.nodes) if isinstance(node, JoinSpec)}
    chosen = {number[query]: number[source[query]] if query in source else GROUND for query in number}
    return graph, chosen


def _contains(query: JoinSpec, common: JoinSpec) -> bool:
    """Whether a query has a sub-expression within it. One of equal size is no part of it: where types repeat, the same
    may be asked in other numbers.
    """
    return len(common.items) < len(query.items) and any(
        not needs_filter(common, query, places) for places in find_embeddings(common, query)
    )


def _substrings(terminals: Sequence[JoinSpec], deadline: Deadline) -> list[JoinSpec]:
    """The common substrings of every two queries with the same window."""
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
