"""Packings of intervals by Lagrangian relaxation: good choices and fair bounds quickly, also of very large packings.

The constraint that an offer needs its bundle is relaxed: instead each offer pays a part of its bundle's price. The rest
decomposes into lines, each a weighted interval scheduling problem, solved by dynamic programming for all lines at once.
The subgradient method moves the parts to where bundles are used; every round proves a bound and suggests which bundles
to open.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.optimizer.solvers.common import NEVER, Deadline
from motet.optimizer.solvers.packing import Packing, PackingSolution

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ROUNDS = 600
MOMENTUM = 0.7
PATIENCE = 8  # rounds without a better bound until steps get shorter
ROUNDS_PER_ROUNDING = 10
ROUNDINGS = (0.5, 0.3, 0.7, 0.1)
TRIALS = 60  # bundles that are opened on trial at the end


def solve_relaxation(packing: Packing, deadline: Deadline = NEVER, trials: int = TRIALS) -> PackingSolution:
    """Return a good choice of offers and a bound that it may not reach, with so many trials at the end."""
    if not packing.offers:
        return PackingSolution(frozenset(), 0.0, 0.0)
    search = _Relaxation(packing, deadline)
    search.run()
    search.improve(trials)
    return search.solution()


def relaxation_bound(packing: Packing) -> float:
    """Return a bound that no choice's value exceeds, at once: each offer pays an equal part of its bundle's price."""
    search = _Relaxation(packing, NEVER)
    return float(search.schedule_lines(search.gain - search.parts)[-1].sum())


class _Relaxation:
    """A packing as arrays, with the best choice, the lowest bound, and the prices' parts that prove it."""

    def __init__(self, packing: Packing, deadline: Deadline) -> None:
        self.packing = packing
        self.deadline = deadline
        offers = packing.offers
        self.prices: Floats = np.array(packing.prices, np.float64)
        self.bundle: Ints = np.array([offer.bundle for offer in offers], np.int64)
        self.line: Ints = np.array([offer.line for offer in offers], np.int64)
        self.begin: Ints = np.array([offer.begin for offer in offers], np.int64)
        self.end: Ints = np.array([offer.end for offer in offers], np.int64)
        self.gain: Floats = np.array([offer.gain for offer in offers], np.float64)
        self.lines = int(self.line.max(initial=-1)) + 1
        self.length = int(self.end.max(initial=0))
        self.ending = [np.flatnonzero(self.end == at) for at in range(self.length + 1)]
        sizes = np.maximum(np.bincount(self.bundle, minlength=len(self.prices)), 1)
        self.parts: Floats = (self.prices / sizes)[self.bundle]
        self.proof = self.parts
        self.bound = np.inf
        self.tiny = 1e-9 * float(np.abs(self.gain).sum())  # no more than the rounding of sums
        self.value = 0.0
        self.chosen: Bools = np.zeros(len(offers), np.bool_)

    def solution(self) -> PackingSolution:
        chosen = frozenset(np.flatnonzero(self.chosen).tolist())
        value = self.packing.value(chosen)
        return PackingSolution(chosen, value, max(self.bound, value) if self.bound > self.tiny else value)

    def run(self) -> None:
        """Run the subgradient method until the bound is reached or the time is over.

        It follows a running mean of directions, since single directions zigzag. The same mean of which bundles were
        open comes near the solution of the linear relaxation, so it is rounded to suggest some.
        """
        stride, stuck = 0.5, 0
        direction: Floats = np.zeros(len(self.gain))
        openness: Floats = np.zeros(len(self.prices))
        for number in range(ROUNDS):
            worth = self.gain - self.parts
            upto = self.schedule_lines(worth)
            surplus = self._sum_by_bundle(self.parts) - self.prices
            opened = surplus > 0
            bound = float(upto[-1].sum() + surplus[opened].sum())
            stuck = 0 if bound < self.bound * (1 - 1e-4) else stuck + 1
            if bound < self.bound:
                self.bound, self.proof = bound, self.parts
            used = self.trace_schedules(worth, upto)
            weight = MOMENTUM if number else 0.0
            direction = weight * direction + (1 - weight) * (opened[self.bundle].astype(np.float64) - used)
            openness = weight * openness + (1 - weight) * opened
            if number % ROUNDS_PER_ROUNDING == 0:
                self.try_bundles(openness > ROUNDINGS[number // ROUNDS_PER_ROUNDING % len(ROUNDINGS)])
                self.try_bundles(self._sum_by_bundle(np.where(used, self.gain, 0.0)) > self.prices)
            norm = float(direction @ direction)
            if self.bound <= self.value * (1 + 1e-9) or norm == 0.0 or stride < 1e-3 or self.deadline.is_over:
                return
            if stuck > PATIENCE:
                stride, stuck = stride / 2, 0
                self.parts = self.proof
            self.parts = np.maximum(self.parts - stride * (bound - self.value) / norm * direction, 0.0)

    def improve(self, trials: int) -> None:
        """Close and open single bundles as long as that helps, the likeliest first."""
        surplus = self._sum_by_bundle(self.proof) - self.prices
        likely: list[int] = np.argsort(-surplus)[:trials].tolist()
        better = True
        while better and self.bound > self.value * (1 + 1e-9):
            better = False
            for bundle in (*np.unique(self.bundle[self.chosen]).tolist(), *likely):
                if self.deadline.is_over:
                    return
                opened = np.zeros(len(self.prices), np.bool_)
                opened[self.bundle[self.chosen]] = True
                opened[bundle] ^= True
                better |= self.try_bundles(opened)

    def try_bundles(self, opened: Bools) -> bool:
        """Use only these bundles, drop those that do not pay, and return whether that is the best choice so far."""
        opened = opened.copy()
        while opened.any():
            worth = np.where(opened[self.bundle], self.gain, -1.0)
            used = self.trace_schedules(worth, self.schedule_lines(worth))
            earned = self._sum_by_bundle(np.where(used, self.gain, 0.0)) - self.prices
            lonely = opened & (self._count_lines(used) < 2)
            losing = opened & (lonely | (earned <= 0))
            if not losing.any():
                value = float(self.gain[used].sum() - self.prices[opened].sum())
                if value > self.value * (1 + 1e-12):
                    self.value, self.chosen = value, used
                    return True
                return False
            idle = losing & (np.bincount(self.bundle[used], minlength=len(self.prices)) == 0)
            if idle.any():
                opened &= ~idle
            else:
                opened[np.argmin(np.where(losing, earned, np.inf))] = False
        return False

    def schedule_lines(self, worth: Floats) -> Floats:
        """Return by (end, line) the most that intervals up to that end gain: dynamic programming, all lines at once."""
        upto = np.zeros((self.length + 1, self.lines))
        for at in range(1, self.length + 1):
            upto[at] = upto[at - 1]
            here = self.ending[at]
            here = here[worth[here] > 0]
            np.maximum.at(upto[at], self.line[here], worth[here] + upto[self.begin[here], self.line[here]])
        return upto

    def trace_schedules(self, worth: Floats, upto: Floats) -> Bools:
        """Return the offers of the schedules that reach these values, traced back from the ends of lines."""
        used = np.zeros(len(worth), np.bool_)
        reached = np.full(self.lines, self.length)
        for at in range(self.length, 0, -1):
            open_ = (reached == at) & (upto[at] > upto[at - 1])
            here = self.ending[at]
            here = here[(worth[here] > 0) & open_[self.line[here]]]
            here = here[worth[here] + upto[self.begin[here], self.line[here]] == upto[at, self.line[here]]]
            pick = np.full(self.lines, -1)
            pick[self.line[here]] = here
            picked = pick[pick >= 0]
            used[picked] = True
            reached[reached == at] = at - 1
            reached[self.line[picked]] = self.begin[picked]
        return used

    def _sum_by_bundle(self, values: Floats) -> Floats:
        return np.bincount(self.bundle, values, minlength=len(self.prices)).astype(np.float64)

    def _count_lines(self, used: Bools) -> Any:
        """Count the lines that each bundle serves."""
        pairs = np.unique(np.stack((self.bundle[used], self.line[used])), axis=1)
        return np.bincount(pairs[0], minlength=len(self.prices))
