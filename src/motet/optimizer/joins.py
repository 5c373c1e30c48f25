"""A plan of joins: the tree of each pattern, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from motet.plans.detect.build import JoinSpec, JoinTree, PlanTree, default_tree
from motet.plans.detect.cost import Rates
from motet.plans.detect.estimates import estimate_tree_cost


@dataclass(frozen=True)
class JoinPlan:
    """The join trees that an optimizer chose; a pattern without one has its default tree.

    `method` is the name of the optimizer, `rates` is what it went by. `considered` has the costs of all plans that were
    compared, by name, and `report` the graph that was searched, where there was one. `index` is what the optimizer
    keeps of the patterns to extend the plan; it is not sent anywhere.
    """

    trees: Mapping[JoinSpec, PlanTree]
    method: str
    considered: Mapping[str, float] = field(default_factory=dict)
    rates: Rates = field(default_factory=Rates)
    report: object = None
    index: object | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "index": None}

    def __call__(self, spec: JoinSpec) -> PlanTree:
        found = self.trees.get(spec)
        return default_tree(spec) if found is None else found

    @property
    def cost(self) -> float:
        """The estimated cost in nanoseconds."""
        return self.considered[self.method]


def make_join_plan(trees: Mapping[JoinSpec, PlanTree], method: str, rates: Rates, report: object = None) -> JoinPlan:
    """Return a plan of these trees with its estimated cost."""
    return JoinPlan(trees, method, {method: estimate_tree_cost(trees, rates)}, rates, report)


def as_join_tree(tree: PlanTree) -> JoinTree | None:
    """Return a tree that consists of joins alone as such, None for any other."""
    match tree:
        case int():
            return tree
        case (left, right):
            one, other = as_join_tree(left), as_join_tree(right)
            return None if one is None or other is None else (one, other)
    return None


def select_join_trees(trees: Mapping[JoinSpec, PlanTree]) -> dict[JoinSpec, JoinTree]:
    """Return the trees that consist of joins alone."""
    found = {spec: as_join_tree(tree) for spec, tree in trees.items()}
    return {spec: tree for spec, tree in found.items() if tree is not None}
