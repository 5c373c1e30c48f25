"""The cheapest tree of one reading, by dynamic programming over sets of items; orders are trees whose right side is one
item, and are all that is searched where there are many.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from motet.plan.detect.build import ChooseTree, JoinTree, Parts
from motet.plan.detect.cost import Rates, Sizes

# Up to so many items all trees are searched, up to so many all orders; beyond, the next best item is taken each time.
MOST_FOR_TREES = 8
MOST_FOR_ORDERS = 13


def cheapest_tree(rates: Rates) -> ChooseTree:
    """Chooses by rates and selectivities."""

    def choose(parts: Parts) -> JoinTree:
        count = len(parts.items)
        sizes = Sizes(parts, rates)
        return _greedy(count, sizes) if count > MOST_FOR_ORDERS else _best(count, sizes)

    return choose


def _best(count: int, sizes: Sizes) -> JoinTree:
    """The cheapest tree of every set of items, from small sets to large. O(3^n) trees, O(n 2^n) orders."""
    best: dict[frozenset[int], tuple[float, JoinTree]] = {
        frozenset({item}): (sizes.of(frozenset({item})), item) for item in range(count)
    }
    for size in range(2, count + 1):
        for chosen in combinations(range(count), size):
            items = frozenset(chosen)
            best[items] = min(
                (
                    (
                        best[left][0] + best[right][0] + sizes.looked_at(left, right) + sizes.of(items),
                        (best[left][1], best[right][1]),
                    )
                    for left, right in _splits(items, count <= MOST_FOR_TREES)
                ),
                key=lambda each: each[0],
            )
    return best[frozenset(range(count))][1]


def _splits(items: frozenset[int], every: bool) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
    """Two sets that make up all: one item and the rest, or any (each split once)."""
    for size in range(1, len(items) // 2 + 1 if every else 2):
        for part in combinations(sorted(items), size):
            chosen = frozenset(part)
            if 2 * size < len(items) or min(items) in chosen:
                yield items - chosen, chosen


def _greedy(count: int, sizes: Sizes) -> JoinTree:
    """From the rarest item on, always the item that leaves fewest instances. O(n^2)."""
    first = min(range(count), key=lambda item: sizes.of(frozenset({item})))
    tree: JoinTree = first
    bound = frozenset({first})
    while len(bound) < count:
        now = bound
        item = min(set(range(count)) - bound, key=lambda each: sizes.of(now | {each}))
        tree, bound = (tree, item), bound | {item}
    return tree
