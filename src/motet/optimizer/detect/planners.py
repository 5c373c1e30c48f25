"""Planners that look at all patterns together, and the one that compares planners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from motet.optimizer.detect.choices import ChosenTrees, Searching, chosen_trees
from motet.optimizer.detect.motto.motto import MottoOptions, MottoPlan, optimize
from motet.optimizer.detect.multitree.search import Search, search
from motet.plan.detect.build import ChooseTree, Parts, PlanTrees
from motet.plan.detect.cost import Rates

# Seconds that a comparison of planners gives each that searches, at most.
GLANCE = 1.0


@dataclass(frozen=True)
class Multitree:
    """Trees of all patterns by local search."""

    name: str
    rates: Rates
    how: Search

    def __call__(self, wanted: Sequence[Parts]) -> ChosenTrees:
        found = search(wanted, self.rates, self.how)
        return ChosenTrees(found.trees, self.name, {self.name: found.cost, "each pattern by itself": found.alone})

    def within(self, seconds: float) -> Multitree:
        return replace(self, how=replace(self.how, seconds=seconds))


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
    """The cheapest plan of some planners, those that search with little time."""

    rates: Rates
    planners: Mapping[str, Callable[[Rates], PlanTrees]]
    seconds: float = GLANCE

    def __call__(self, wanted: Sequence[Parts]) -> ChosenTrees:
        found = []
        for name, plan in self.planners.items():
            made = plan(self.rates)
            made = made.within(self.seconds) if isinstance(made, Searching) else made
            choose: ChooseTree = made(wanted)
            found.append(chosen_trees(wanted, choose, name, self.rates))
        considered = {each.method: each.considered[each.method] for each in found}
        return replace(min(found, key=lambda each: each.considered[each.method]), considered=considered)

    def within(self, seconds: float) -> Cheapest:
        return replace(self, seconds=min(seconds, GLANCE))
