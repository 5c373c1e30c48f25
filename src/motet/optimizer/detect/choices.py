"""What planners hand over: trees that were chosen, and what they and others cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from motet.optimizer.detect.multitree.common import Pattern, Vocabulary
from motet.optimizer.detect.multitree.plans import MultiPlan, Priced
from motet.plan.detect.build import Apart, ChooseTree, JoinTree, Parts, PlanTree, PlanTrees, pattern_order
from motet.plan.detect.cost import Rates


@dataclass(frozen=True)
class ChosenTrees:
    """Trees that were chosen for what had to be planned; what was not foreseen is joined in the order of its pattern.

    `method` chose them; `considered` are the costs of all that were compared, by name.
    """

    trees: Mapping[Parts, PlanTree]
    method: str
    considered: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, parts: Parts) -> PlanTree:
        found = self.trees.get(parts)
        return pattern_order(parts) if found is None else found


@runtime_checkable
class Costed(Protocol):
    """A choice of trees that knows what they cost together."""

    cost: float

    def __call__(self, parts: Parts) -> PlanTree:
        """The tree of some parts."""


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
    if isinstance(choose, Costed):
        return ChosenTrees(trees, method, {method: choose.cost})
    if any(isinstance(tree, Apart) for tree in trees.values()):
        return ChosenTrees(trees, method, {method: sum(cost_of({p: _plain(t)}, rates) for p, t in trees.items())})
    return ChosenTrees(trees, method, {method: cost_of({p: _plain(t) for p, t in trees.items()}, rates)})


def _plain(tree: PlanTree) -> JoinTree:
    """A tree of joins alone, whoever it is built for."""
    match tree:
        case int():
            return tree
        case Apart(inner, _):
            return _plain(inner)
        case (left, right):
            return _plain(left), _plain(right)
    raise TypeError(f"{type(tree).__name__} is no join")


def cost_of(trees: Mapping[Parts, JoinTree], rates: Rates, costs: str = "calibrated") -> float:
    """What trees cost together, equal subtrees once."""
    vocabulary = Vocabulary()
    patterns = dict(enumerate(Pattern(parts, vocabulary) for parts in trees))
    plan = MultiPlan(Priced(rates, costs), patterns)
    for number, tree in enumerate(trees.values()):
        plan.put(number, tree)
    return plan.exact_cost()
