"""The cheapest tree of one reading, by dynamic programming over sets of items; orders are trees whose right side is one
item, and are all that is searched where there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from motet.plans.detect.build import JoinSpec, JoinTree, TreeChooser
from motet.plans.detect.cost import Cardinalities, Rates, tree_join_cost
from motet.plans.detect.partial_orders import Bits, items_of

# Up to so many items all trees are searched, up to so many all orders; beyond, the next best item is taken each time.
MOST_FOR_TREES = 8
MOST_FOR_ORDERS = 13


def cheapest_tree(rates: Rates) -> TreeChooser:
    """Chooses by rates and selectivities."""

    def choose(spec: JoinSpec) -> JoinTree:
        count = len(spec.items)
        sizes = Cardinalities(spec, rates)
        return _greedy(count, sizes) if count > MOST_FOR_ORDERS else _best(count, sizes)

    return choose


def _best(count: int, sizes: Cardinalities) -> JoinTree:
    """The cheapest tree over all items."""

    def price(left: Bits, right: Bits) -> float:
        return tree_join_cost(sizes, left, right)

    return find_cheapest_tree([JoinInput(1 << item, item) for item in range(count)], price)[1]


@dataclass(frozen=True, slots=True)
class JoinInput:
    """Items that are found together already, and by which tree."""

    items: Bits
    tree: JoinTree


def find_cheapest_tree(atoms: Sequence[JoinInput], price: Callable[[Bits, Bits], float]) -> tuple[float, JoinTree]:
    """The cheapest tree over some atoms and its cost, from small sets of them to large; `price` is that of one join,
    whichever side comes first.

    O(3^n) for all trees, O(n 2^n) for all orders.
    """
    every = len(atoms) <= MOST_FOR_TREES
    items = [0]
    for atom in atoms:
        items += [before | atom.items for before in items]
    cost, split = [0.0] * len(items), [0] * len(items)
    for chosen in range(1, len(items)):
        if chosen & (chosen - 1) == 0:
            continue
        low, at = -1.0, 0
        for part in _splits(chosen, every):
            rest = chosen ^ part
            found = cost[part] + cost[rest] + price(items[rest], items[part])
            if low < 0 or found < low:
                low, at = found, part
        cost[chosen], split[chosen] = low, at

    def tree(chosen: Bits) -> JoinTree:
        if chosen & (chosen - 1) == 0:
            return atoms[chosen.bit_length() - 1].tree
        return tree(chosen ^ split[chosen]), tree(split[chosen])

    return cost[-1], tree(len(items) - 1)


def _splits(chosen: Bits, every: bool) -> Iterator[Bits]:
    """One of two sets that make up all: each that has not the last of them, or each single one."""
    if not every:
        yield from (1 << at for at in items_of(chosen))
        return
    rest = chosen ^ 1 << (chosen.bit_length() - 1)
    part = rest
    while part:
        yield part
        part = (part - 1) & rest


def _greedy(count: int, sizes: Cardinalities) -> JoinTree:
    """From the rarest item on, always the item that leaves fewest instances. O(n^2)."""
    first = min(range(count), key=lambda item: sizes.of(frozenset({item})))
    tree: JoinTree = first
    bound = frozenset({first})
    while len(bound) < count:
        now = bound
        item = min(set(range(count)) - bound, key=lambda each: sizes.of(now | {each}))
        tree, bound = (tree, item), bound | {item}
    return tree
