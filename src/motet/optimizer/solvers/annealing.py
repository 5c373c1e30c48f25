"""Simulated annealing: worse neighbours are taken too, ever more rarely."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from motet.optimizer.solvers.local_search import Limits, Move, SearchMonitor, SearchResult, SearchSpace, Solution


@dataclass(frozen=True)
class CoolingSchedule:
    """The threshold begins with a difference among `sampled` neighbours that cost more: that which `quantile` of them
    do not exceed (1: the largest). It is multiplied by `factor` after every step, down to `frozen` of its beginning.
    When `stale` steps have led no further down, the walk is warmed up again.
    """

    factor: float = 0.99
    sampled: int = 100
    quantile: float = 0.5
    frozen: float = 1e-6
    stale: int = 1000


def anneal(
    space: SearchSpace[Move, Solution],
    rng: Random,
    limits: Limits,
    cooling: CoolingSchedule = CoolingSchedule(),  # noqa: B008
) -> SearchResult[Solution]:
    """The best solution that a walk meets; O(1) moves are proposed and costed for every step."""
    monitor = SearchMonitor(space, limits)
    worse_by = []
    for _ in range(cooling.sampled):
        if not monitor.count_step():
            return monitor.best
        move = space.propose(rng)
        if move is not None:
            worse_by.append(space.cost_after(move) - space.cost)
    if not worse_by:
        return monitor.best
    differences = sorted(each for each in worse_by if each > 0) or [0.0]
    hottest = differences[min(int(cooling.quantile * len(differences)), len(differences) - 1)]
    threshold, lowest, since = hottest, space.cost, 0
    while monitor.count_step():
        move = space.propose(rng)
        since += 1
        if move is not None:
            worse = space.cost_after(move) - space.cost
            if worse <= 0 or (threshold > 0 and rng.random() < math.exp(-worse / threshold)):
                space.apply(move)
                monitor.record(space)
        if space.cost < lowest:
            lowest, since = space.cost, 0
        threshold = max(threshold * cooling.factor, cooling.frozen * hottest)
        if since > cooling.stale and threshold <= cooling.frozen * hottest:
            threshold, lowest, since = hottest, space.cost, 0
    return monitor.best
