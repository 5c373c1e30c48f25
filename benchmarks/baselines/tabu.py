"""Tabu search, the other local search of the multi-pattern paper: to the cheapest of some neighbours, nowhere twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from random import Random

from motet.optimizer.builtin import Multitree
from motet.optimizer.multitree.neighbourhood import Move as PlanMove
from motet.optimizer.multitree.neighbourhood import PlanSpace
from motet.optimizer.registry import register
from motet.optimizer.solvers.local_search import Limits, Move, SearchMonitor, SearchResult, SearchSpace, Solution
from motet.plans.detect.build import JoinTree

NEIGHBOURS = 20
CAPACITY = 10_000


def search_plans(space: PlanSpace, rng: Random, limits: Limits) -> SearchResult[dict[int, JoinTree]]:
    """Search the plans of patterns; for `MultitreeOptions.search`."""

    def state_after(move: PlanMove) -> Hashable:
        return frozenset({**space.plan.trees, **dict(move)}.items())

    return tabu_search(space, rng, limits, state_after)


def tabu_search(
    space: SearchSpace[Move, Solution],
    rng: Random,
    limits: Limits,
    state_after: Callable[[Move], Hashable],
    neighbours: int = NEIGHBOURS,
    capacity: int = CAPACITY,
) -> SearchResult[Solution]:
    """Return the best solution that tabu search meets.

    Of so many neighbours it goes to the cheapest that it has not been to; the last `capacity` states are remembered.
    """
    monitor = SearchMonitor(space, limits)
    tabu_list: deque[Hashable] = deque()
    tabu: set[Hashable] = set()
    going = True
    while going:
        best: tuple[float, Move, Hashable] | None = None
        for _ in range(neighbours):
            if not monitor.count_step():
                going = False
                break
            move = space.propose(rng)
            if move is None:
                continue
            state, cost = state_after(move), space.cost_after(move)
            if state not in tabu and (best is None or cost < best[0]):
                best = (cost, move, state)
        if best is None:
            continue
        _, move, state = best
        space.apply(move)
        monitor.record(space)
        tabu.add(state)
        tabu_list.append(state)
        if len(tabu_list) > capacity:
            tabu.discard(tabu_list.popleft())
    return monitor.best


# The combinations of the paper's figure 10 that the package does not have.
EDGE, VERTEX, WIDE_VERTEX = "multitree-tabu", "multitree-tabu-vertex", "multitree-vertex8"
register(EDGE, "as multitree, by tabu search", joins=Multitree(EDGE, local_search=search_plans))
register(
    VERTEX,
    "as multitree-vertex, by tabu search",
    joins=Multitree(VERTEX, max_patterns=4, local_search=search_plans),
)
register(
    WIDE_VERTEX,
    "as multitree, with up to eight patterns sharing a part by one move",
    joins=Multitree(WIDE_VERTEX, max_patterns=8),
)
