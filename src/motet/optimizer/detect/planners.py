"""Planners that look at all patterns together, and the one that compares planners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from motet.optimizer.detect.choices import ChosenTrees, Searching, chosen_trees
from motet.optimizer.detect.motto.motto import MottoOptions, MottoPlan, optimize
from motet.optimizer.detect.multitree.search import Search, search
from motet.plan.detect.build import JoinTree, Parts, PlanTrees
from motet.plan.detect.cost import Rates
from motet.plan.detect.work import cost_of

# Seconds that a comparison of planners gives each that searches: at most so many, and a part of what a run by the best
# plan without search may take, since more may not come back; where that is very little, none.
GLANCE = 1.0
PART = 0.15
GRACE = 0.02
LEAST = 0.01


@dataclass(frozen=True)
class Multitree:
    """Trees of all patterns by local search."""

    name: str
    rates: Rates
    how: Search

    def __call__(self, wanted: Sequence[Parts]) -> ChosenTrees:
        found = search(wanted, self.rates, self.how)
        return ChosenTrees(found.trees, self.name, {self.name: cost_of(found.trees, self.rates)}, self.rates)

    def within(self, seconds: float) -> Multitree:
        return replace(self, how=replace(self.how, seconds=seconds))

    def beginning_with(self, trees: Mapping[Parts, JoinTree]) -> Multitree:
        """The same from a plan that is there already."""
        return replace(self, how=replace(self.how, start=trees))


@dataclass(frozen=True)
class Motto:
    """Trees of all patterns as a Steiner tree of sub-queries."""

    rates: Rates
    options: MottoOptions

    def __call__(self, wanted: Sequence[Parts]) -> MottoPlan:
        return optimize(wanted, self.rates, self.options)

    def within(self, seconds: float) -> Motto:
        return replace(self, options=replace(self.options, budget=seconds))


@dataclass(frozen=True)
class Cheapest:
    """The cheapest plan of some planners, those that search with no more time than that may save."""

    rates: Rates
    planners: Mapping[str, Callable[[Rates], PlanTrees]]
    seconds: float = GLANCE

    def __call__(self, wanted: Sequence[Parts]) -> ChosenTrees:
        made = {name: plan(self.rates) for name, plan in self.planners.items()}
        found = [self._chosen(wanted, name, plan) for name, plan in made.items() if not isinstance(plan, Searching)]
        cheapest = min(map(_cost, found), default=float("inf")) * 1e-9
        seconds = min(self.seconds, max(PART * cheapest, GRACE))
        if cheapest >= LEAST:
            searching = {name: plan for name, plan in made.items() if isinstance(plan, Searching)}
            found += [self._chosen(wanted, name, plan.within(seconds)) for name, plan in searching.items()]
        return replace(min(found, key=_cost), considered={each.method: _cost(each) for each in found})

    def _chosen(self, wanted: Sequence[Parts], name: str, plan: PlanTrees) -> ChosenTrees:
        return chosen_trees(wanted, plan(wanted), name, self.rates)

    def within(self, seconds: float) -> Cheapest:
        return replace(self, seconds=min(seconds, GLANCE))


def _cost(chosen: ChosenTrees) -> float:
    return chosen.considered[chosen.method]
