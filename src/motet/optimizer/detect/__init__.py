"""How join trees are chosen: by the order of the pattern, or by cost."""

from __future__ import annotations

from collections.abc import Callable

from motet.optimizer.detect.local import cheapest_tree
from motet.plan.detect.build import ChooseTree, PlanTrees, pattern_order
from motet.plan.detect.cost import Rates

# Name -> how to plan trees, given rates.
PLANNERS: dict[str, Callable[[Rates], PlanTrees]] = {
    "auto": lambda rates: each_apart(cheapest_tree(rates)),
    "none": lambda rates: each_apart(pattern_order),
}


def each_apart(choose: ChooseTree) -> PlanTrees:
    """Trees that are chosen without regard to one another."""
    return lambda wanted: choose


def planner(optimizer: str, rates: Rates) -> PlanTrees:
    """How an optimizer plans trees; those that only concern aggregates plan each reading by its own cost."""
    return PLANNERS.get(optimizer, PLANNERS["auto"])(rates)
