"""The cheapest join tree of one pattern, by dynamic programming over sets of what is joined.

Orders are trees whose right sides are single inputs; they are all that is searched where there are many inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from motet.plans.detect.build import JoinSpec, JoinTree, PathScan, PlanTree, TreeChooser, can_scan_paths
from motet.plans.detect.cost import Rates, path_scan_cost, tree_join_cost
from motet.plans.detect.partial_orders import Bits, items_of

# Up to so many inputs all trees are searched, up to so many all orders; beyond, inputs are joined greedily.
MOST_FOR_TREES = 8
MOST_FOR_ORDERS = 13


@dataclass(frozen=True, slots=True)
class JoinInput:
    """Items that are joined as one, and the tree that finds them."""

    items: Bits
    tree: JoinTree


def single_items(items: Sequence[int]) -> list[JoinInput]:
    """Return each item as an input of its own."""
    return [JoinInput(1 << item, item) for item in items]


def choose_cheapest(rates: Rates) -> TreeChooser:
    """Return a chooser of the cheapest tree of a pattern by rates and selectivities, paths where these are cheaper."""

    def choose(spec: JoinSpec) -> PlanTree:
        sizes, items = rates.sizes_of(spec), range(len(spec.items))
        cost, tree = find_cheapest_tree(
            single_items(items), lambda left, right: tree_join_cost(sizes, left, right), sizes.instances
        )
        if can_scan_paths(spec) and path_scan_cost(sizes) <= cost:
            return PathScan(tuple(items))
        return tree

    return choose


def find_cheapest_tree(
    inputs: Sequence[JoinInput],
    join_cost: Callable[[Bits, Bits], float],
    instances: Callable[[Bits], float],
    orders_only: bool = False,
    first: int | None = None,
) -> tuple[float, JoinTree]:
    """Return the cost of the cheapest tree over some inputs, and the tree.

    O(3^n) for all trees, O(n 2^n) for all orders, O(n^2) beyond that.

    Args:
        inputs: What is joined.
        join_cost: The cost of joining two sets of items, whichever side comes first.
        instances: The expected number of instances of a set of items, for what is too large to search.
        orders_only: Search orders and no other trees.
        first: The number of the input that an order must begin with.
    """
    if len(inputs) > MOST_FOR_ORDERS:
        return _join_greedily(inputs, join_cost, instances, first)
    orders_only = orders_only or len(inputs) > MOST_FOR_TREES
    items = [0]
    for each in inputs:
        items += [before | each.items for before in items]
    cost, split = [0.0] * len(items), [0] * len(items)
    for chosen in range(1, len(items)):
        if chosen & (chosen - 1) == 0:
            continue
        lowest, at = -1.0, 0
        for part in _list_splits(chosen, orders_only, first):
            rest = chosen ^ part
            found = cost[part] + cost[rest] + join_cost(items[rest], items[part])
            if lowest < 0 or found < lowest:
                lowest, at = found, part
        cost[chosen], split[chosen] = lowest, at

    def tree(chosen: int) -> JoinTree:
        if chosen & (chosen - 1) == 0:
            return inputs[chosen.bit_length() - 1].tree
        return tree(chosen ^ split[chosen]), tree(split[chosen])

    return cost[-1], tree(len(items) - 1)


def _list_splits(chosen: int, orders_only: bool, first: int | None) -> Iterator[int]:
    """Yield one side of each split of a set of inputs: all sides without the last of them, or single inputs."""
    if orders_only:
        yield from (1 << at for at in items_of(chosen) if at != first)
        return
    rest = chosen ^ 1 << (chosen.bit_length() - 1)
    part = rest
    while part:
        yield part
        part = (part - 1) & rest


def _join_greedily(
    inputs: Sequence[JoinInput],
    join_cost: Callable[[Bits, Bits], float],
    instances: Callable[[Bits], float],
    first: int | None,
) -> tuple[float, JoinTree]:
    """Begin with the rarest input, and always join the one that leaves the fewest instances."""
    left = list(inputs)
    joined = left.pop(min(range(len(left)), key=lambda at: instances(left[at].items)) if first is None else first)
    cost = 0.0
    while left:
        at = min(range(len(left)), key=lambda at: instances(joined.items | left[at].items))
        other = left.pop(at)
        cost += join_cost(joined.items, other.items)
        joined = JoinInput(joined.items | other.items, (joined.tree, other.tree))
    return cost, joined.tree
