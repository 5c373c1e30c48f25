"""The cheapest tree of one reading, by dynamic programming over sets of items; orders are trees whose right side is one
item, and are all that is searched where there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from motet.plan.detect.build import ChooseTree, JoinTree, Parts
from motet.plan.detect.cost import Rates, Sizes, cost_of_join
from motet.plan.detect.spans import bits_of

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
    """The cheapest tree over all items."""

    def price(left: frozenset[int], right: frozenset[int]) -> float:
        return cost_of_join(sizes, bits_of(left), bits_of(right))

    atoms = [Atom(frozenset({item}), 0.0, item) for item in range(count)]
    return cheapest_over(atoms, price)[1]


@dataclass(frozen=True, slots=True)
class Atom:
    """Items that are found together already: at what cost, and by which tree."""

    items: frozenset[int]
    cost: float
    tree: JoinTree


def cheapest_over(
    atoms: Sequence[Atom], price: Callable[[frozenset[int], frozenset[int]], float]
) -> tuple[float, JoinTree]:
    """The cheapest tree over some atoms and its cost, from small sets of them to large; `price` is that of one join.

    O(3^n) for all trees, O(n 2^n) for all orders.
    """
    every = len(atoms) <= MOST_FOR_TREES
    best = {frozenset({at}): atom for at, atom in enumerate(atoms)}
    for size in range(2, len(atoms) + 1):
        for chosen in combinations(range(len(atoms)), size):
            found: Atom | None = None
            for one, other in _splits(frozenset(chosen), every):
                left, right = best[one], best[other]
                cost = left.cost + right.cost + price(left.items, right.items)
                if found is None or cost < found.cost:
                    found = Atom(left.items | right.items, cost, (left.tree, right.tree))
            assert found is not None
            best[frozenset(chosen)] = found
    whole = best[frozenset(range(len(atoms)))]
    return whole.cost, whole.tree


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
