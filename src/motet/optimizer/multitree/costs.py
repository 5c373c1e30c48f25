"""What the nodes of a pattern's trees cost, for a window as a share of the stream.

`calibrated`: what motet's kernels take for a node, the pairs that it looks at and the instances that it makes.
`printed`: instances alone, the paper's cost functions for orders (section 3.3) and trees (appendix C).
"""

from __future__ import annotations

from motet.optimizer.multitree.patterns import KeyedPattern
from motet.plans.detect.cost import PRICES, Cardinalities, Rates, tree_join_cost
from motet.plans.detect.partial_orders import Bits, share_in_window


class NodeCosts:
    """The costs of nodes over parts of a pattern."""

    def __init__(
        self, pattern: KeyedPattern, rates: Rates, share: float | None = None, costs: str = "calibrated"
    ) -> None:
        self._sizes = Cardinalities(pattern.spec, rates, share)
        self.share = self._sizes.share
        self.instances = self._sizes.instances
        self._calibrated = costs == "calibrated"
        self._joins: dict[tuple[Bits, Bits], float] = {}

    def leaf(self, bits: Bits) -> float:
        """Return the cost of a single item."""
        return PRICES.event * self.instances(bits) if self._calibrated else self.instances(bits)

    def join(self, left: Bits, right: Bits) -> float:
        """Return the cost of joining two parts."""
        known = self._joins.get((left, right))
        if known is None:
            known = (
                tree_join_cost(self._sizes, left, right) if self._calibrated else self._count_as_printed(left | right)
            )
            self._joins[left, right] = known
        return known

    def _count_as_printed(self, bits: Bits) -> float:
        """Return instances as the paper counts them: in windows side by side."""
        count = bits.bit_count()
        return self.instances(bits) * self.share ** (count - 1) / share_in_window(count, self.share)
