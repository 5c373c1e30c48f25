"""Tabu search: always to the cheapest of some neighbours, and nowhere twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from random import Random

from motet.optimizer.solvers.local_search import Limits, Move, SearchMonitor, SearchResult, SearchSpace, Solution

NEIGHBOURS = 20
CAPACITY = 10_000


def tabu_search(
    space: SearchSpace[Move, Solution],
    rng: Random,
    limits: Limits,
    neighbours: int = NEIGHBOURS,
    capacity: int = CAPACITY,
) -> SearchResult[Solution]:
    """The best solution that a walk meets. Of so many neighbours it goes to the cheapest that it has not been to; the
    last `capacity` places are remembered.
    """
    monitor = SearchMonitor(space, limits)
    been: deque[Hashable] = deque()
    known: set[Hashable] = set()
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
            place, cost = space.state_after(move), space.cost_after(move)
            if place not in known and (best is None or cost < best[0]):
                best = (cost, move, place)
        if best is None:
            continue
        _, move, place = best
        space.apply(move)
        monitor.record(space)
        known.add(place)
        been.append(place)
        if len(been) > capacity:
            known.discard(been.popleft())
    return monitor.best
