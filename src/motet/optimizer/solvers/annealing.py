"""Simulated annealing: worse neighbours are taken too, ever more rarely."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from motet.optimizer.solvers.local_search import Found, Landscape, Limits, Move, Solution, Watch


@dataclass(frozen=True)
class Cooling:
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
    landscape: Landscape[Move, Solution],
    dice: Random,
    limits: Limits,
    cooling: Cooling = Cooling(),  # noqa: B008
) -> Found[Solution]:
    """The best solution that a walk meets; O(1) moves are proposed and costed for every step."""
    watch = Watch(landscape, limits)
    worse_by = []
    for _ in range(cooling.sampled):
        if not watch.step():
            return watch.best
        move = landscape.propose(dice)
        if move is not None:
            worse_by.append(landscape.cost_after(move) - landscape.cost)
    if not worse_by:
        return watch.best
    differences = sorted(each for each in worse_by if each > 0) or [0.0]
    hottest = differences[min(int(cooling.quantile * len(differences)), len(differences) - 1)]
    threshold, lowest, since = hottest, landscape.cost, 0
    while watch.step():
        move = landscape.propose(dice)
        since += 1
        if move is not None:
            worse = landscape.cost_after(move) - landscape.cost
            if worse <= 0 or (threshold > 0 and dice.random() < math.exp(-worse / threshold)):
                landscape.make(move)
                watch.see(landscape)
        if landscape.cost < lowest:
            lowest, since = landscape.cost, 0
        threshold = max(threshold * cooling.factor, cooling.frozen * hottest)
        if since > cooling.stale and threshold <= cooling.frozen * hottest:
            threshold, lowest, since = hottest, landscape.cost, 0
    return watch.best
