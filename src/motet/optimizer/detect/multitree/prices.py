"""What the nodes of a pattern's trees cost, for a window as a share of the stream.

`calibrated`: what our engine takes for a node at all, the pairs that it looks at and the instances that it makes.
`printed`: instances alone, the paper's cost functions for orders (section 3.3) and trees (appendix C).
"""

from __future__ import annotations

from motet.optimizer.detect.multitree.common import Bits, Pattern, bits_of, items_of
from motet.plan.detect.cost import PRICES, Rates, Sizes

COSTS = ("calibrated", "printed")


class Prices:
    """The costs of nodes over parts of a pattern."""

    def __init__(self, pattern: Pattern, rates: Rates, share: float | None = None, costs: str = "calibrated") -> None:
        sizes = Sizes(pattern.parts, rates)
        if share is not None:
            sizes.share = share
        self.share = sizes.share
        calibrated = costs == "calibrated"
        self.of_node = PRICES.node if calibrated else 0.0
        self.of_pair, self.of_instance = (PRICES.pair, PRICES.instance) if calibrated else (0.0, 1.0)
        self._keys = rates.keys
        self._counts = [sizes.of_item(item) for item in pattern.parts.items]
        self._tests = sorted((bits_of(used), share) for used, share in sizes.tests)
        self._after = [0] * pattern.size  # what must come after each item
        for a, b in pattern.parts.order:
            self._after[a] |= 1 << b
        self._orders: dict[Bits, int] = {0: 1}
        self._combinations: dict[Bits, float] = {}
        self._passing: dict[Bits, float] = {}

    def made(self, bits: Bits) -> float:
        """Instances of a part."""
        return self.combinations(bits) * self.passing(bits)

    def node(self, left: Bits, right: Bits) -> float:
        """What it costs to join two parts."""
        both = left | right
        looked = self.passing(left) * self.passing(right)
        work = self.of_pair * looked + self.of_instance * self.passing(both)
        return self.of_node + self.combinations(both) * work

    def passing(self, bits: Bits) -> float:
        """The share of combinations that pass the tests within a part."""
        known = self._passing.get(bits)
        if known is None:
            known = 1.0
            for used, share in self._tests:
                if not used & ~bits:
                    known *= share
            self._passing[bits] = known
        return known

    def combinations(self, bits: Bits) -> float:
        """Combinations in the window and in order."""
        known = self._combinations.get(bits)
        if known is None:
            items = items_of(bits)
            known = float(self._keys) * self.share ** (len(items) - 1)
            for at, item in enumerate(items, 1):
                known *= self._counts[item] / self._keys / at
            known *= self._orders_of(bits)
            self._combinations[bits] = known
        return known

    def _orders_of(self, bits: Bits) -> int:
        """In how many orders the items may come."""
        known = self._orders.get(bits)
        if known is None:
            known = sum(self._orders_of(bits ^ 1 << i) for i in items_of(bits) if not self._after[i] & bits)
            self._orders[bits] = known
        return known
