"""The cheapest tree of one pattern that contains given trees, or the cheapest order with a given beginning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from motet.optimizer.multitree.costs import NodeCosts
from motet.optimizer.multitree.patterns import KeyedPattern
from motet.optimizer.tree_search import JoinInput, find_cheapest_tree, single_items
from motet.plans.detect.build import JoinTree
from motet.plans.detect.partial_orders import Bits, items_of


class LocalPlans:
    """The cheapest trees of one pattern, each searched once; with `orders_only`, trees whose right sides are items."""

    def __init__(self, pattern: KeyedPattern, costs: NodeCosts, orders_only: bool = False) -> None:
        self.pattern = pattern
        self.costs = costs
        self.orders_only = orders_only
        self._known: dict[tuple[Bits, frozenset[JoinTree]], JoinTree] = {}

    def find_best(self, part: Bits | None = None, required: Sequence[JoinTree] = ()) -> JoinTree:
        """Return the cheapest tree over a part of the pattern, or all of it, that contains the required trees.

        These have no items in common. An order begins with the first of them.
        """
        part = self.pattern.all if part is None else part
        key = (part, frozenset(required))
        if key not in self._known:
            trees = [JoinInput(tree_bits(tree), tree) for tree in required if not isinstance(tree, int)]
            rest = part & ~sum(each.items for each in trees)
            self._known[key] = find_cheapest_tree(
                [*trees, *single_items(items_of(rest))],
                self.costs.join,
                self.costs.instances,
                self.orders_only,
                first=0 if self.orders_only and trees else None,
            )[1]
        return self._known[key]


@cache
def tree_bits(tree: JoinTree) -> Bits:
    """Return the items of a tree."""
    return 1 << tree if isinstance(tree, int) else tree_bits(tree[0]) | tree_bits(tree[1])


def subtrees(tree: JoinTree) -> Iterator[JoinTree]:
    """Yield a tree and all trees within it."""
    pending = [tree]
    while pending:
        each = pending.pop()
        yield each
        if not isinstance(each, int):
            pending += each


def map_tree(tree: JoinTree, source: Sequence[int], target: Sequence[int]) -> JoinTree:
    """Return a tree over items of one pattern as a tree over the corresponding items of another."""
    places = dict(zip(source, target, strict=True))

    def move(each: JoinTree) -> JoinTree:
        return places[each] if isinstance(each, int) else (move(each[0]), move(each[1]))

    return move(tree)
