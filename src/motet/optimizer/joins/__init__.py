"""How join trees are chosen: by the order of the pattern, by cost, or with a view to what queries can share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from motet.optimizer.joins.plan import BudgetedPlanner, JoinPlan, as_join_tree, evaluate_trees
from motet.optimizer.joins.planners import CheapestPlanner, MottoPlanner, MultitreePlanner
from motet.optimizer.motto.motto import MottoOptions
from motet.optimizer.multitree.multitree import MultitreeOptions
from motet.optimizer.tree_search import cheapest_tree
from motet.plans.detect.build import JoinSpec, PlanTree, TreeChooser, TreePlanner, Unshared, pattern_order
from motet.plans.detect.cost import Rates

WITHOUT_RATES = ("none", "share")  # what goes by no rates
COMPARED = ("reorder", "share", "multitree", "motto")  # what `auto` compares; of equals the first is taken
# Name -> how to plan trees, given rates.
PLANNERS: dict[str, Callable[[Rates], TreePlanner]] = {
    "none": lambda rates: plan_unshared(pattern_order),
    "share": lambda rates: plan_individually(pattern_order),
    "reorder": lambda rates: plan_individually(cheapest_tree(rates)),
    "motto": lambda rates: MottoPlanner(rates, MottoOptions("motto")),
    "motto-merge": lambda rates: MottoPlanner(rates, MottoOptions("motto-merge")),
    "motto-lcse": lambda rates: MottoPlanner(rates, MottoOptions("motto-lcse")),
    "multitree": lambda rates: MultitreePlanner("multitree", rates, MultitreeOptions()),
    "multitree-prefix": lambda rates: MultitreePlanner("multitree-prefix", rates, MultitreeOptions(ordered=True)),
    "auto": lambda rates: CheapestPlanner(rates, {name: PLANNERS[name] for name in COMPARED}),
}


def plan_individually(choose: TreeChooser) -> TreePlanner:
    """Trees that are chosen without regard to one another."""
    return lambda specs: choose


def plan_unshared(choose: TreeChooser) -> TreePlanner:
    """Trees of which no two have a join in common, even where they find the same."""

    def plan(specs: Sequence[JoinSpec]) -> TreeChooser:
        number = {spec: at for at, spec in enumerate(specs, 1)}

        def choose_apart(spec: JoinSpec) -> PlanTree:
            return Unshared(choose(spec), number[spec])

        return choose_apart

    return plan


def make_planner(optimizer: str, rates: Rates, seconds: float = 10.0) -> TreePlanner:
    """How an optimizer plans trees in so many seconds; those that only concern aggregates leave it to `auto`."""
    plan = PLANNERS.get(optimizer, PLANNERS["auto"])(rates)
    return plan.with_budget(seconds) if isinstance(plan, BudgetedPlanner) else plan


def plan_trees(specs: Sequence[JoinSpec], optimizer: str, rates: Rates, seconds: float) -> JoinPlan:
    """The trees that an optimizer chooses in so many seconds, with what it compared."""
    return evaluate_trees(specs, make_planner(optimizer, rates, seconds)(specs), optimizer, rates)


def replan_trees(chosen: JoinPlan, specs: Sequence[JoinSpec], optimizer: str, rates: Rates, seconds: float) -> JoinPlan:
    """The trees that an optimizer chooses in place of others, for other rates; multi-pattern trees by a search that
    begins with those that are there.
    """
    plan = make_planner(optimizer, rates, seconds)
    if isinstance(plan, MultitreePlanner) and chosen.method == plan.name:
        plan = plan.starting_from({spec: as_join_tree(tree) for spec, tree in chosen.trees.items()})
    return evaluate_trees(specs, plan(specs), optimizer, rates)


def estimate_alternatives(specs: Sequence[JoinSpec], rates: Rates) -> dict[str, float]:
    """What plans that need no search would cost."""
    return {name: plan_trees(specs, name, rates, 0.0).considered[name] for name in ("none", "share", "reorder")}
