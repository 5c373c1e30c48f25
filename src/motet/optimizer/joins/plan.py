"""What planners hand over: trees that were chosen, and what they and others cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from motet.optimizer.motto.motto import MottoPlan
from motet.optimizer.multitree.placement import place_patterns
from motet.plans.detect.build import JoinSpec, JoinTree, PlanTree, TreeChooser, TreePlanner, pattern_order
from motet.plans.detect.cost import Rates
from motet.plans.detect.estimates import estimate_tree_cost


@dataclass(frozen=True)
class JoinPlan:
    """Trees that were chosen for what had to be planned; what was not foreseen is joined in the order of its pattern.

    `method` chose them for certain `rates`; `considered` are the costs of all that were compared, by name, and `report`
    the graph that was searched, where one was.
    """

    trees: Mapping[JoinSpec, PlanTree]
    method: str
    considered: Mapping[str, float] = field(default_factory=dict)
    rates: Rates = field(default_factory=Rates)
    report: MottoPlan | None = None

    def __call__(self, spec: JoinSpec) -> PlanTree:
        found = self.trees.get(spec)
        return pattern_order(spec) if found is None else found


@runtime_checkable
class BudgetedPlanner(Protocol):
    """A planner that takes as much time as it is given."""

    def __call__(self, specs: Sequence[JoinSpec]) -> TreeChooser:
        """Plan."""

    def with_budget(self, seconds: float) -> TreePlanner:
        """The same with so many seconds."""


def evaluate_trees(specs: Sequence[JoinSpec], choose: TreeChooser, method: str, rates: Rates) -> JoinPlan:
    """What a planner chose, with its cost."""
    if isinstance(choose, JoinPlan) and choose.considered:
        return choose
    trees = {spec: choose(spec) for spec in specs}
    report = choose if isinstance(choose, MottoPlan) else None
    return JoinPlan(trees, method, {method: estimate_tree_cost(trees, rates)}, rates, report)


def extend_plan(chosen: JoinPlan, specs: Sequence[JoinSpec], rates: Rates) -> JoinPlan:
    """Trees of joins for other patterns: those that stay keep theirs, and others come to them."""
    known = {spec: as_join_tree(chosen.trees[spec]) for spec in specs if spec in chosen.trees}
    trees = place_patterns(specs, known, rates)
    return JoinPlan(trees, chosen.method, {chosen.method: estimate_tree_cost(trees, rates)}, rates)


def as_join_tree(tree: PlanTree) -> JoinTree:
    """A tree that is of joins alone."""
    match tree:
        case int():
            return tree
        case (left, right):
            return as_join_tree(left), as_join_tree(right)
    raise TypeError(f"{type(tree).__name__} is no join")
