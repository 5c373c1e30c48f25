"""How join trees are chosen: by the order of the pattern, by cost, or with a view to what queries can share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from motet.optimizer.detect.local import cheapest_tree
from motet.optimizer.detect.motto.motto import VARIANTS, Motto, MottoOptions
from motet.plan.detect.build import Apart, ChooseTree, Parts, PlanTree, PlanTrees, pattern_order
from motet.plan.detect.cost import Rates

# Name -> how to plan trees, given rates.
PLANNERS: dict[str, Callable[[Rates], PlanTrees]] = {
    "auto": lambda rates: each_apart(cheapest_tree(rates)),
    "none": lambda rates: unshared(pattern_order),
}
for variant in VARIANTS:
    PLANNERS[variant] = partial(Motto, options=MottoOptions(variant))


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


def planner(optimizer: str, rates: Rates, budget: float = 10.0) -> PlanTrees:
    """How an optimizer plans trees; those that only concern aggregates plan each reading by its own cost."""
    plan = PLANNERS.get(optimizer, PLANNERS["auto"])(rates)
    return plan.within(budget) if isinstance(plan, Motto) else plan
