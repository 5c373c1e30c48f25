"""How join trees are chosen: by the order of the pattern, by cost, or with a view to what others can share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from motet.optimizer.detect.choices import ChosenTrees, Searching, chosen_trees
from motet.optimizer.detect.local import cheapest_tree
from motet.optimizer.detect.multitree.search import Search
from motet.optimizer.detect.planners import Cheapest, Multitree
from motet.plan.detect.build import ChooseTree, Parts, PlanTrees, pattern_order
from motet.plan.detect.cost import Rates

BLIND = ("none", "share")  # what goes by no rates
COMPARED = ("reorder", "share", "multitree", "motto")  # what `auto` compares; of equals the first is taken
# Name -> how to plan trees, given rates.
PLANNERS: dict[str, Callable[[Rates], PlanTrees]] = {
    "none": lambda rates: each_apart(pattern_order),
    "share": lambda rates: each_apart(pattern_order),
    "reorder": lambda rates: each_apart(cheapest_tree(rates)),
    "multitree": lambda rates: Multitree("multitree", rates, Search()),
    "multitree-prefix": lambda rates: Multitree("multitree-prefix", rates, Search(ordered=True)),
    "auto": lambda rates: Cheapest(rates, {name: PLANNERS[name] for name in COMPARED if name in PLANNERS}),
}


def each_apart(choose: ChooseTree) -> PlanTrees:
    """Trees that are chosen without regard to one another."""
    return lambda wanted: choose


def planner(optimizer: str, rates: Rates) -> PlanTrees:
    """How an optimizer plans trees; those that only concern aggregates leave it to `auto`."""
    return PLANNERS.get(optimizer, PLANNERS["auto"])(rates)


def plan_trees(wanted: Sequence[Parts], optimizer: str, rates: Rates, seconds: float) -> ChosenTrees:
    """The trees that an optimizer chooses in so many seconds, with what it compared."""
    plan = planner(optimizer, rates)
    choose = plan.within(seconds)(wanted) if isinstance(plan, Searching) else plan(wanted)
    return chosen_trees(wanted, choose, optimizer, rates, apart=optimizer == "none")
