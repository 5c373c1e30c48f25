"""The baseline that shares the longest common sub-expression first, and then the next, whatever that costs."""

from __future__ import annotations

from collections.abc import Sequence

from motet.optimizer.detect.motto.costs import Costs, asks_less
from motet.optimizer.detect.motto.decompose import NEVER, Divided, both, compare, items_at
from motet.optimizer.detect.motto.embed import embeddings
from motet.optimizer.detect.motto.graph import GROUND, PlanGraph, canonical, graph_of
from motet.optimizer.detect.motto.windows import in_window, window_of
from motet.optimizer.solvers.graph import Deadline
from motet.plan.detect.build import Parts


def longest_first(
    queries: Sequence[Parts], costs: Costs, deadline: Deadline = NEVER
) -> tuple[PlanGraph, dict[int, int]]:
    """The graph of queries and the sub-expressions taken, and where each is computed from. Sub-expressions are looked
    for as long as there is time.
    """
    terminals = list(dict.fromkeys(map(canonical, queries)))
    open_ = dict.fromkeys(terminals)
    source: dict[Parts, Parts] = {}
    for common in sorted(_substrings(terminals, deadline), key=lambda each: (-len(each.items), repr(each))):
        held = [query for query in open_ if window_of(query) == window_of(common) and _holds(query, common)]
        if len(held) + (common in open_) > 1:
            for query in held:
                source[query] = common
                del open_[query]
            open_.pop(common, None)
    nodes = list(dict.fromkeys((*terminals, *source.values())))
    graph = graph_of(terminals, nodes, costs, lambda one, other: source.get(other) == one, loose=False, frugal=False)
    number = {node: at for at, node in enumerate(graph.nodes) if isinstance(node, Parts)}
    chosen = {number[query]: number[source[query]] if query in source else GROUND for query in number}
    return graph, chosen


def _holds(query: Parts, common: Parts) -> bool:
    return query != common and any(not asks_less(common, query, places) for places in embeddings(common, query))


def _substrings(terminals: Sequence[Parts], deadline: Deadline) -> list[Parts]:
    """The common substrings of every two queries with the same window."""
    found: dict[Parts, None] = {}
    divided = [Divided(query) for query in terminals]
    for at, right in enumerate(divided):
        if deadline.passed:
            break
        for left in divided[:at]:
            if window_of(left.query) != window_of(right.query) or left.kinds.isdisjoint(right.kinds):
                continue
            for one in left.operations:
                for other in right.operations:
                    for common, ours, theirs in compare(one, other, transform=False):
                        if common.is_substring:
                            query = both(
                                left.query, items_at(ours, common.left), right.query, items_at(theirs, common.right)
                            )
                            found[in_window(query, window_of(left.query))] = None
    return list(found)
