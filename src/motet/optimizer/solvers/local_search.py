"""Local search from neighbour to neighbour: the space that is searched, when to stop, and simulated annealing."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from random import Random
from typing import Generic, Protocol, TypeVar

from motet.optimizer.solvers.common import NEVER, Deadline

Move = TypeVar("Move")
Solution = TypeVar("Solution")
SolutionOut = TypeVar("SolutionOut", covariant=True)


class SearchSpace(Protocol[Move, SolutionOut]):
    """Solutions and the moves between neighbours; the space holds the current solution."""

    @property
    def cost(self) -> float:
        """The cost of the current solution."""

    def solution(self) -> SolutionOut:
        """Return the current solution in a form that later moves do not change."""

    def propose(self, rng: Random) -> Move | None:
        """Return a random move, or None where the draw gave none."""

    def cost_after(self, move: Move) -> float:
        """Return the cost of the solution that a move leads to."""

    def apply(self, move: Move) -> None:
        """Make a move."""


@dataclass(frozen=True)
class Limits:
    """When to stop: at a deadline, after so many neighbours, or so many neighbours after the last improvement."""

    deadline: Deadline = NEVER
    steps: int | None = None
    patience: int | None = None


@dataclass
class SearchResult(Generic[Solution]):
    """The best solution of a search and the number of neighbours looked at.

    `trace` has an entry for each improvement: steps, seconds and cost.
    """

    solution: Solution
    cost: float
    steps: int = 0
    trace: list[tuple[int, float, float]] = field(default_factory=list)


class SearchMonitor(Generic[Solution]):
    """Keeps the best solution of a search, and says when to stop.

    What a search does next depends on its random numbers and never on its limits: with more time it goes on from where
    it would have ended, so it never finds anything worse.
    """

    def __init__(self, space: SearchSpace[Move, Solution], limits: Limits) -> None:
        self.limits = limits
        self.best = SearchResult(space.solution(), space.cost, trace=[(0, 0.0, space.cost)])
        self._began = time.monotonic()
        self._improved_at = 0

    def count_step(self) -> bool:
        """Count one neighbour; return False where no more may be looked at."""
        limits, steps = self.limits, self.best.steps
        if limits.steps is not None and steps >= limits.steps:
            return False
        if limits.patience is not None and steps - self._improved_at >= limits.patience:
            return False
        if limits.deadline.is_over:
            return False
        self.best.steps += 1
        return True

    def record(self, space: SearchSpace[Move, Solution]) -> None:
        """Keep the current solution if it is the best so far."""
        if space.cost < self.best.cost:
            self.best.solution, self.best.cost = space.solution(), space.cost
            self._improved_at = self.best.steps
            self.best.trace.append((self.best.steps, time.monotonic() - self._began, space.cost))


@dataclass(frozen=True)
class CoolingSchedule:
    """How the temperature of annealing falls.

    It begins with a cost difference among `sampled` worse neighbours: the one that `quantile` of them do not exceed
    (1: the largest). It is multiplied by `factor` after every step, down to `floor` of its beginning. After `patience`
    steps without improvement at the lowest temperature it is raised again.
    """

    factor: float = 0.99
    sampled: int = 100
    quantile: float = 0.5
    floor: float = 1e-6
    patience: int = 1000


def anneal(
    space: SearchSpace[Move, Solution],
    rng: Random,
    limits: Limits,
    cooling: CoolingSchedule = CoolingSchedule(),  # noqa: B008
) -> SearchResult[Solution]:
    """Return the best solution that simulated annealing meets; each step proposes one move."""
    monitor = SearchMonitor(space, limits)
    increases = []
    for _ in range(cooling.sampled):
        if not monitor.count_step():
            return monitor.best
        move = space.propose(rng)
        if move is not None:
            increases.append(space.cost_after(move) - space.cost)
    if not increases:
        return monitor.best
    positive = sorted(increase for increase in increases if increase > 0) or [0.0]
    hottest = positive[min(int(cooling.quantile * len(positive)), len(positive) - 1)]
    coldest = cooling.floor * hottest
    temperature, lowest, idle_steps = hottest, space.cost, 0
    while monitor.count_step():
        move = space.propose(rng)
        idle_steps += 1
        if move is not None:
            increase = space.cost_after(move) - space.cost
            if increase <= 0 or (temperature > 0 and rng.random() < math.exp(-increase / temperature)):
                space.apply(move)
                monitor.record(space)
        if space.cost < lowest:
            lowest, idle_steps = space.cost, 0
        temperature = max(temperature * cooling.factor, coldest)
        if idle_steps > cooling.patience and temperature <= coldest:
            temperature, lowest, idle_steps = hottest, space.cost, 0
    return monitor.best
