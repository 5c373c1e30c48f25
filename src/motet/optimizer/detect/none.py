"""No optimization: items are joined in the order in which the pattern has them."""

from __future__ import annotations

from functools import reduce

from motet.plan.detect.build import JoinTree, Parts


def pattern_order(parts: Parts) -> JoinTree:
    """A left-deep tree in the order of the pattern."""

    def grown(tree: JoinTree, item: int) -> JoinTree:
        return (tree, item)

    first: JoinTree = 0
    return reduce(grown, range(1, len(parts.items)), first)
