"""How join trees are chosen: by the order of the pattern, by cost, or with a view to what queries can share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from motet.optimizer.detect.choices import ChosenTrees, Searching, as_joins, chosen_trees
from motet.optimizer.detect.local import cheapest_tree
from motet.optimizer.detect.motto.motto import MottoOptions
from motet.optimizer.detect.multitree.search import Search
from motet.optimizer.detect.planners import Cheapest, Motto, Multitree
from motet.plan.detect.build import Apart, ChooseTree, Parts, PlanTree, PlanTrees, pattern_order
from motet.plan.detect.cost import Rates

BLIND = ("none", "share")  # what goes by no rates
COMPARED = ("reorder", "share", "multitree", "motto")  # what `auto` compares; of equals the first is taken
# Name -> how to plan trees, given rates.
PLANNERS: dict[str, Callable[[Rates], PlanTrees]] = {
    "none": lambda rates: unshared(pattern_order),
    "share": lambda rates: each_apart(pattern_order),
    "reorder": lambda rates: each_apart(cheapest_tree(rates)),
    "motto": lambda rates: Motto(rates, MottoOptions("motto")),
    "motto-merge": lambda rates: Motto(rates, MottoOptions("motto-merge")),
    "motto-lcse": lambda rates: Motto(rates, MottoOptions("motto-lcse")),
    "multitree": lambda rates: Multitree("multitree", rates, Search()),
    "multitree-prefix": lambda rates: Multitree("multitree-prefix", rates, Search(ordered=True)),
    "auto": lambda rates: Cheapest(rates, {name: PLANNERS[name] for name in COMPARED}),
}


def each_apart(choose: ChooseTree) -> PlanTrees:
    """Trees that are chosen without regard to one another."""
    return lambda wanted: choose


def unshared(choose: ChooseTree) -> PlanTrees:
    """Trees of which no two have a join in common, even where they find the same."""

    def plan(wanted: Sequence[Parts]) -> ChooseTree:
        number = {parts: at for at, parts in enumerate(wanted, 1)}

        def apart(parts: Parts) -> PlanTree:
            return Apart(choose(parts), number[parts])

        return apart

    return plan


def planner(optimizer: str, rates: Rates, seconds: float = 10.0) -> PlanTrees:
    """How an optimizer plans trees in so many seconds; those that only concern aggregates leave it to `auto`."""
    plan = PLANNERS.get(optimizer, PLANNERS["auto"])(rates)
    return plan.within(seconds) if isinstance(plan, Searching) else plan


def plan_trees(wanted: Sequence[Parts], optimizer: str, rates: Rates, seconds: float) -> ChosenTrees:
    """The trees that an optimizer chooses in so many seconds, with what it compared."""
    return chosen_trees(wanted, planner(optimizer, rates, seconds)(wanted), optimizer, rates)


def replanned(
    chosen: ChosenTrees, wanted: Sequence[Parts], optimizer: str, rates: Rates, seconds: float
) -> ChosenTrees:
    """The trees that an optimizer chooses in place of others, for other rates; multi-pattern trees by a search that
    begins with those that are there.
    """
    plan = planner(optimizer, rates, seconds)
    if isinstance(plan, Multitree) and chosen.method == plan.name:
        plan = plan.beginning_with({parts: as_joins(tree) for parts, tree in chosen.trees.items()})
    return chosen_trees(wanted, plan(wanted), optimizer, rates)


def alternatives(wanted: Sequence[Parts], rates: Rates) -> dict[str, float]:
    """What plans that need no search would cost."""
    return {name: plan_trees(wanted, name, rates, 0.0).considered[name] for name in ("none", "share", "reorder")}
