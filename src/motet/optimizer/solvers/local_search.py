"""What searches from neighbour to neighbour have in common: a landscape to walk in, when to stop, what was found."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from random import Random
from typing import Generic, Protocol, TypeVar

from motet.optimizer.solvers.graph import Deadline

Move = TypeVar("Move")
Solution = TypeVar("Solution")
SolutionOut = TypeVar("SolutionOut", covariant=True)


class SearchSpace(Protocol[Move, SolutionOut]):
    """Solutions with their costs. It stands at one of them; moves lead to its neighbours."""

    @property
    def cost(self) -> float:
        """Of the solution where it stands."""

    def solution(self) -> SolutionOut:
        """Where it stands, in a form that outlives it."""

    def propose(self, rng: Random) -> Move | None:
        """A random move; None where a throw of the dice gave none."""

    def cost_after(self, move: Move) -> float:
        """The cost of the solution that a move leads to."""

    def state_after(self, move: Move) -> Hashable:
        """What tells that solution from all others."""

    def apply(self, move: Move) -> None:
        """Stand there."""


@dataclass(frozen=True)
class Limits:
    """When to stop: at a moment, after so many neighbours were looked at, or so many since the last improvement."""

    deadline: Deadline = field(default_factory=Deadline)
    steps: int | None = None
    patience: int | None = None


@dataclass
class SearchResult(Generic[Solution]):
    """The best solution of a search, how many neighbours were looked at, and when it improved: after how many steps and
    seconds to which cost.
    """

    solution: Solution
    cost: float
    steps: int = 0
    trace: list[tuple[int, float, float]] = field(default_factory=list)


class SearchMonitor(Generic[Solution]):
    """Keeps the best solution of a walk, and says when to stop.

    What a walk does next depends on its dice alone and never on its limits: with more time it goes on from where it
    would have ended, and what it finds is never worse.
    """

    def __init__(self, space: SearchSpace[Move, Solution], limits: Limits) -> None:
        self.limits = limits
        self.best = SearchResult(space.solution(), space.cost, trace=[(0, 0.0, space.cost)])
        self._began = time.monotonic()
        self._improved = 0

    def count_step(self) -> bool:
        """Count one neighbour; False where no more may be looked at."""
        limits, steps = self.limits, self.best.steps
        if limits.steps is not None and steps >= limits.steps:
            return False
        if limits.patience is not None and steps - self._improved >= limits.patience:
            return False
        if limits.deadline.is_over:
            return False
        self.best.steps += 1
        return True

    def record(self, space: SearchSpace[Move, Solution]) -> None:
        """Look at where the walk stands now."""
        if space.cost < self.best.cost:
            self.best.solution, self.best.cost = space.solution(), space.cost
            self._improved = self.best.steps
            self.best.trace.append((self.best.steps, time.monotonic() - self._began, space.cost))
