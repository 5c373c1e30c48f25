"""What planners hand over: trees that were chosen, and what they and others cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from motet.optimizer.detect.motto.motto import MottoPlan
from motet.optimizer.detect.multitree.placing import placed
from motet.plan.detect.build import ChooseTree, JoinTree, Parts, PlanTree, PlanTrees, pattern_order
from motet.plan.detect.cost import Rates
from motet.plan.detect.work import cost_of


@dataclass(frozen=True)
class ChosenTrees:
    """Trees that were chosen for what had to be planned; what was not foreseen is joined in the order of its pattern.

    `method` chose them for certain `rates`; `considered` are the costs of all that were compared, by name, and `report`
    the graph that was searched, where one was.
    """

    trees: Mapping[Parts, PlanTree]
    method: str
    considered: Mapping[str, float] = field(default_factory=dict)
    rates: Rates = field(default_factory=Rates)
    report: MottoPlan | None = None

    def __call__(self, parts: Parts) -> PlanTree:
        found = self.trees.get(parts)
        return pattern_order(parts) if found is None else found


@runtime_checkable
class Searching(Protocol):
    """A planner that takes as much time as it is given."""

    def __call__(self, wanted: Sequence[Parts]) -> ChooseTree:
        """Plan."""

    def within(self, seconds: float) -> PlanTrees:
        """The same with so many seconds."""


def chosen_trees(wanted: Sequence[Parts], choose: ChooseTree, method: str, rates: Rates) -> ChosenTrees:
    """What a planner chose, with its cost."""
    if isinstance(choose, ChosenTrees) and choose.considered:
        return choose
    trees = {parts: choose(parts) for parts in wanted}
    report = choose if isinstance(choose, MottoPlan) else None
    return ChosenTrees(trees, method, {method: cost_of(trees, rates)}, rates, report)


def extended(chosen: ChosenTrees, wanted: Sequence[Parts], rates: Rates) -> ChosenTrees:
    """Trees of joins for other patterns: those that stay keep theirs, and others come to them."""
    known = {parts: as_joins(chosen.trees[parts]) for parts in wanted if parts in chosen.trees}
    trees = placed(wanted, known, rates)
    return ChosenTrees(trees, chosen.method, {chosen.method: cost_of(trees, rates)}, rates)


def as_joins(tree: PlanTree) -> JoinTree:
    """A tree that is of joins alone."""
    match tree:
        case int():
            return tree
        case (left, right):
            return as_joins(left), as_joins(right)
    raise TypeError(f"{type(tree).__name__} is no join")
