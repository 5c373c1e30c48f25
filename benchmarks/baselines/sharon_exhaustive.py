"""Sharon's exhaustive optimizer: every set of sharing options is looked at (Sharon, section VIII-C)."""

from __future__ import annotations

from collections.abc import Sequence

from motet.optimizer.registry import SearchOptions, SharingOptimizer, SharingReport, register
from motet.optimizer.sharon.report import SharonReport
from motet.optimizer.sharon.sharon import SharonOptions, SharonSearch
from motet.optimizer.solvers.common import NEVER, Deadline
from motet.optimizer.solvers.independent_sets import IndependentSet, WeightedGraph
from motet.plans.compiled import CompiledQuery
from motet.statistics.model import Statistics

NAME = "sharon-exhaustive"
SETS_PER_CHECK = 4096  # sets between two looks at the clock


def optimize(
    queries: Sequence[CompiledQuery],
    statistics: Statistics | None = None,
    options: SharonOptions = SharonOptions(NAME),  # noqa: B008
) -> SharonReport:
    """Return the best plan of all sets of options, with nothing pruned but what is not beneficial."""
    search = SharonSearch(queries, statistics, options)
    search.find_greedy_plan()
    expanded = search.expand()
    if expanded is None:
        search.note("there are too many options to look at every set of them: the greedy plan serves")
        return search.best
    with search.time_phase("search"):
        found = search_exhaustively(expanded.graph, search.deadline)
    counts = {"options": len(expanded), "visited": found.visited}
    if found.complete:
        search.accept("exhaustive", expanded.select(found.vertices), found.weight, **counts)
    else:
        search.note_timeout(found, **counts)
    return search.best


def search_exhaustively(graph: WeightedGraph, deadline: Deadline = NEVER) -> IndependentSet:
    """Look at every set of vertices, independent or not, and return a heaviest independent one. O(2^V)."""
    size = len(graph)
    neighbours = [sum(1 << u for u in near) for near in graph.neighbours]
    best, heaviest, visited = 0, 0.0, 0
    # For each set under way: the next vertex to decide on, the set, its weight, and whether it is independent.
    pending: list[tuple[int, int, float, bool]] = [(0, 0, 0.0, True)]
    while pending:
        v, members, weight, independent = pending.pop()
        if v == size:
            visited += 1
            if independent and weight > heaviest:
                best, heaviest = members, weight
            if visited % SETS_PER_CHECK == 0 and deadline.is_over:
                break
            continue
        pending.append((v + 1, members, weight, independent))
        allowed = independent and not members & neighbours[v]
        pending.append((v + 1, members | 1 << v, weight + graph.weights[v], allowed))
    vertices = frozenset(v for v in range(size) if best >> v & 1)
    return IndependentSet(vertices, graph.weight(vertices), visited, not pending)


class SharonExhaustive(SharingOptimizer):
    """Sharon's exhaustive optimizer under the protocol of `motet.optimizer.registry`."""

    def optimize(
        self, queries: Sequence[CompiledQuery], known: Statistics | None, options: SearchOptions
    ) -> SharingReport:
        return optimize(queries, known, SharonOptions(NAME, options.seconds))


register(NAME, "as sharon, by looking at every set of options", SharonExhaustive())
