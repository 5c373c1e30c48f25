"""How join trees are chosen: by the order of the pattern, or by cost."""

from __future__ import annotations

from collections.abc import Callable

from motet.optimizer.detect.local import cheapest_tree
from motet.optimizer.detect.none import pattern_order
from motet.plan.detect.build import ChooseTree
from motet.plan.detect.cost import Rates

# Name -> how to choose trees, given rates.
PLANNERS: dict[str, Callable[[Rates], ChooseTree]] = {
    "auto": cheapest_tree,
    "local": cheapest_tree,
    "prefix": cheapest_tree,
    "none": lambda rates: pattern_order,
}


def planner(optimizer: str, rates: Rates) -> ChooseTree:
    """How an optimizer chooses trees; those that only concern aggregates plan each reading by its own cost."""
    return PLANNERS.get(optimizer, cheapest_tree)(rates)
