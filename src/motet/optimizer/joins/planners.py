"""Planners that look at all patterns together, and the one that compares planners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from motet.optimizer.joins.plan import BudgetedPlanner, JoinPlan, evaluate_trees
from motet.optimizer.motto.motto import MottoOptions, MottoPlan, optimize
from motet.optimizer.multitree import multitree
from motet.optimizer.multitree.multitree import MultitreeOptions
from motet.plans.detect.build import JoinSpec, JoinTree, TreePlanner
from motet.plans.detect.cost import Rates
from motet.plans.detect.estimates import estimate_tree_cost

# Seconds that a comparison of planners gives each that searches: at most so many, and a part of what a run by the best
# plan without search may take, since more may not come back; where that is very little, none.
GLANCE = 1.0
PART = 0.15
GRACE = 0.02
LEAST = 0.01


@dataclass(frozen=True)
class MultitreePlanner:
    """Trees of all patterns by local search."""

    name: str
    rates: Rates
    how: MultitreeOptions

    def __call__(self, specs: Sequence[JoinSpec]) -> JoinPlan:
        found = multitree.optimize(specs, self.rates, self.how)
        return JoinPlan(found.trees, self.name, {self.name: estimate_tree_cost(found.trees, self.rates)}, self.rates)

    def with_budget(self, seconds: float) -> MultitreePlanner:
        return replace(self, how=replace(self.how, seconds=seconds))

    def starting_from(self, trees: Mapping[JoinSpec, JoinTree]) -> MultitreePlanner:
        """The same from a plan that is there already."""
        return replace(self, how=replace(self.how, start=trees))


@dataclass(frozen=True)
class MottoPlanner:
    """Trees of all patterns as a Steiner tree of sub-queries."""

    rates: Rates
    options: MottoOptions

    def __call__(self, specs: Sequence[JoinSpec]) -> MottoPlan:
        return optimize(specs, self.rates, self.options)

    def with_budget(self, seconds: float) -> MottoPlanner:
        return replace(self, options=replace(self.options, budget=seconds))


@dataclass(frozen=True)
class CheapestPlanner:
    """The cheapest plan of some planners, those that search with no more time than that may save."""

    rates: Rates
    planners: Mapping[str, Callable[[Rates], TreePlanner]]
    seconds: float = GLANCE

    def __call__(self, specs: Sequence[JoinSpec]) -> JoinPlan:
        made = {name: plan(self.rates) for name, plan in self.planners.items()}
        found = [self._plan(specs, name, plan) for name, plan in made.items() if not isinstance(plan, BudgetedPlanner)]
        cheapest = min(map(_cost, found), default=float("inf")) * 1e-9
        seconds = min(self.seconds, max(PART * cheapest, GRACE))
        if cheapest >= LEAST:
            searching = {name: plan for name, plan in made.items() if isinstance(plan, BudgetedPlanner)}
            found += [self._plan(specs, name, plan.with_budget(seconds)) for name, plan in searching.items()]
        return replace(min(found, key=_cost), considered={each.method: _cost(each) for each in found})

    def _plan(self, specs: Sequence[JoinSpec], name: str, plan: TreePlanner) -> JoinPlan:
        return evaluate_trees(specs, plan(specs), name, self.rates)

    def with_budget(self, seconds: float) -> CheapestPlanner:
        return replace(self, seconds=min(seconds, GLANCE))


def _cost(chosen: JoinPlan) -> float:
    return chosen.considered[chosen.method]
