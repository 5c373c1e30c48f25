"""What the nodes of a pattern's trees cost, for a window as a share of the stream.

`calibrated`: what our engine takes for a node at all, the pairs that it looks at and the instances that it makes.
`printed`: instances alone, the paper's cost functions for orders (section 3.3) and trees (appendix C).
"""

from __future__ import annotations

from motet.optimizer.detect.multitree.common import Pattern
from motet.plan.detect.cost import PRICES, Rates, Sizes, cost_of_join
from motet.plan.detect.spans import Bits, fitting

COSTS = ("calibrated", "printed")


class Prices:
    """The costs of nodes over parts of a pattern."""

    def __init__(self, pattern: Pattern, rates: Rates, share: float | None = None, costs: str = "calibrated") -> None:
        self._sizes = Sizes(pattern.parts, rates, share)
        self.share = self._sizes.share
        self.made = self._sizes.made
        self._calibrated = costs == "calibrated"
        self._joins: dict[tuple[Bits, Bits], float] = {}

    def leaf(self, bits: Bits) -> float:
        """What it costs to have a single item."""
        return PRICES.event * self.made(bits) if self._calibrated else self.made(bits)

    def node(self, left: Bits, right: Bits) -> float:
        """What it costs to join two parts."""
        known = self._joins.get((left, right))
        if known is None:
            known = cost_of_join(self._sizes, left, right) if self._calibrated else self._printed(left | right)
            self._joins[left, right] = known
        return known

    def _printed(self, bits: Bits) -> float:
        """Instances as the paper counts them: those that begin and end in one window of many side by side."""
        count = bits.bit_count()
        return self.made(bits) * self.share ** (count - 1) / fitting(count, self.share)
