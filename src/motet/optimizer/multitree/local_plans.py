"""The cheapest tree of one pattern among those that contain given trees; and the cheapest order with a given beginning.

By dynamic programming over sets of units: a tree that is forced is one, and so is every other item.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from motet.optimizer.multitree.node_costs import NodeCosts
from motet.optimizer.multitree.patterns import KeyedPattern
from motet.plans.detect.build import JoinTree
from motet.plans.detect.partial_orders import Bits, items_of

# Up to so many units all trees are searched, up to so many all orders; beyond, the next best unit is taken each time.
MOST_FOR_TREES = 8
MOST_FOR_ORDERS = 13


class LocalPlans:
    """Plans of one pattern, each made once. With `ordered`, only orders: trees whose right sides are single items."""

    def __init__(self, pattern: KeyedPattern, prices: NodeCosts, ordered: bool = False) -> None:
        self.pattern = pattern
        self.prices = prices
        self.ordered = ordered
        self._known: dict[tuple[Bits, frozenset[JoinTree]], JoinTree] = {}

    def best(self, bits: Bits | None = None, required: Sequence[JoinTree] = ()) -> JoinTree:
        """The cheapest tree over a part of the pattern, or all of it, that contains some trees without common items."""
        part = self.pattern.all if bits is None else bits
        key = (part, frozenset(required))
        if key not in self._known:
            self._known[key] = self._search(part, required)
        return self._known[key]

    def _search(self, part: Bits, required: Sequence[JoinTree]) -> JoinTree:
        trees = [tree for tree in required if not isinstance(tree, int)]
        rest = part
        for tree in trees:
            rest &= ~tree_bits(tree)
        units: list[JoinTree] = [*trees, *items_of(rest)]
        if self.ordered or len(units) > MOST_FOR_TREES:
            first = trees[0] if self.ordered and trees else None
            return self._order(units, first) if len(units) <= MOST_FOR_ORDERS else self._greedy(units, first)
        return self._tree(units)

    def _tree(self, units: list[JoinTree]) -> JoinTree:
        """All trees: O(3^n)."""
        count = len(units)
        full = 1 << count
        bits = _unions([tree_bits(unit) for unit in units])
        node = self.prices.node
        best, split = [0.0] * full, [0] * full
        for s in range(1, full):
            if s & (s - 1) == 0:
                continue
            top = 1 << (s.bit_length() - 1)
            rest = s ^ top
            low, at = -1.0, 0
            left = rest  # the side without the last unit; never empty
            while left:
                right = s ^ left
                cost = best[left] + best[right] + node(bits[left], bits[right])
                if low < 0 or cost < low:
                    low, at = cost, left
                left = (left - 1) & rest
            best[s], split[s] = low, at

        def tree(s: int) -> JoinTree:
            if s & (s - 1) == 0:
                return units[s.bit_length() - 1]
            return tree(split[s]), tree(s ^ split[s])

        return tree(full - 1)

    def _order(self, units: list[JoinTree], first: JoinTree | None) -> JoinTree:
        """All orders: O(n 2^n)."""
        count = len(units)
        bits = _unions([tree_bits(unit) for unit in units])
        best: list[float | None] = [None] * (1 << count)
        last = [0] * (1 << count)
        for u, unit in enumerate(units):
            if first is None or unit == first:
                best[1 << u] = 0.0
        for s in range(1, 1 << count):
            if s & (s - 1) == 0:
                continue
            for u in items_of(s):
                before = best[s ^ 1 << u]
                if before is not None:
                    cost = before + self.prices.node(bits[s ^ 1 << u], bits[1 << u])
                    known = best[s]
                    if known is None or cost < known:
                        best[s], last[s] = cost, u

        def tree(s: int) -> JoinTree:
            return units[s.bit_length() - 1] if s & (s - 1) == 0 else (tree(s ^ 1 << last[s]), units[last[s]])

        return tree((1 << count) - 1)

    def _greedy(self, units: list[JoinTree], first: JoinTree | None) -> JoinTree:
        """From the rarest unit on, always the one that leaves fewest instances. O(n^2)."""
        made = self.prices.instances
        left = list(units)
        tree = min(left, key=lambda unit: made(tree_bits(unit))) if first is None else first
        left.remove(tree)
        bound = tree_bits(tree)
        while left:
            unit = min(left, key=lambda each, now=bound: made(now | tree_bits(each)))  # type: ignore[misc]
            left.remove(unit)
            tree, bound = (tree, unit), bound | tree_bits(unit)
        return tree


def _unions(bits: Sequence[Bits]) -> list[Bits]:
    """The union of every set of parts, by the numbers of those in it."""
    found = [0]
    for each in bits:
        found += [each | before for before in found]
    return found


@cache
def tree_bits(tree: JoinTree) -> Bits:
    """The items of a tree."""
    return 1 << tree if isinstance(tree, int) else tree_bits(tree[0]) | tree_bits(tree[1])


def map_tree(tree: JoinTree, source: Sequence[int], target: Sequence[int]) -> JoinTree:
    """A tree over items of one pattern as one over those of another."""
    places = dict(zip(source, target, strict=True))

    def moved(each: JoinTree) -> JoinTree:
        return places[each] if isinstance(each, int) else (moved(each[0]), moved(each[1]))

    return moved(tree)


def within(tree: JoinTree, bits: Bits) -> JoinTree | None:
    """The subtree over just some items, where there is one."""
    while tree_bits(tree) != bits:
        if isinstance(tree, int):
            return None
        sides = [side for side in tree if not bits & ~tree_bits(side)]
        if not sides:
            return None
        tree = sides[0]
    return tree
