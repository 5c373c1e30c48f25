"""Annealing and tabu search on landscapes of numbers: better with time, repeatable, and not stuck in the first dip."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from benchmarks.baselines.tabu import tabu_search
from motet.optimizer.solvers.common import Deadline
from motet.optimizer.solvers.local_search import Limits, SearchResult, anneal

# A state of the space below is the number that a move leads to.
tabu = partial(tabu_search, state_after=lambda move: move)
SOLVERS = [anneal, tabu]
Solver = Callable[..., SearchResult[int]]


class Hills:
    """Whole numbers on a ring, with a cost that has many dips; a move is a step of up to three."""

    def __init__(self, seed: int, size: int = 60) -> None:
        rng = Random(seed)
        self.costs = [rng.random() + abs(at - size / 3) / size for at in range(size)]
        self.at = size - 1

    @property
    def cost(self) -> float:
        return self.costs[self.at]

    def solution(self) -> int:
        return self.at

    def propose(self, rng: Random) -> int | None:
        return (self.at + rng.choice([-3, -2, -1, 1, 2, 3])) % len(self.costs)

    def cost_after(self, move: int) -> float:
        return self.costs[move]

    def apply(self, move: int) -> None:
        self.at = move


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(3))
def test_more_steps_never_find_worse(solver: Solver, seed: int) -> None:
    costs = [solver(Hills(seed), Random(1), Limits(steps=steps)).cost for steps in (0, 30, 130, 400, 1200)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_seed_finds_the_same(solver: Solver) -> None:
    runs: list[Any] = [solver(Hills(3), Random(5), Limits(steps=500)) for _ in range(2)]
    assert runs[0].solution == runs[1].solution
    assert [(step, cost) for step, _, cost in runs[0].trace] == [(step, cost) for step, _, cost in runs[1].trace]


@pytest.mark.parametrize("solver", [anneal, partial(tabu, neighbours=3, capacity=10)])
def test_the_best_is_found_among_dips(solver: Solver) -> None:
    hills = Hills(4)
    assert solver(hills, Random(2), Limits(steps=3000)).cost == min(hills.costs)


@pytest.mark.parametrize("solver", SOLVERS)
def test_time_and_patience_end_a_search(solver: Solver) -> None:
    assert solver(Hills(1), Random(1), Limits(Deadline(0.0))).steps == 0
    found = solver(Hills(1), Random(1), Limits(patience=50))
    assert 0 < found.steps <= found.trace[-1][0] + 50


class Nowhere(Hills):
    """A place that no move leads away from."""

    def propose(self, rng: Random) -> int | None:
        return None


@pytest.mark.parametrize("solver", SOLVERS)
def test_without_neighbours_the_beginning_stays(solver: Solver) -> None:
    assert solver(Nowhere(1), Random(1), Limits(steps=300)).solution == 59
