"""The plan of all patterns: their trees with equal subtrees as one node, and what it costs.

With orders in place of trees it is the paper's multi-pattern tree (equal beginnings are one node), else the multitree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from motet.optimizer.multitree.costs import NodeCosts
from motet.optimizer.multitree.local_plans import subtrees, tree_bits
from motet.optimizer.multitree.patterns import Key, KeyedPattern
from motet.plans.detect.build import JoinTree
from motet.plans.detect.cost import Rates
from motet.plans.detect.partial_orders import Bits

Shape = int  # a subtree, whichever patterns have it: what it finds, and from which subtrees
Windows = dict[float, int]  # how many patterns have which windows, as shares of the stream
Trees = Sequence[tuple[int, JoinTree | None]]  # a tree for some patterns; None: no tree


@dataclass
class PlanCosts:
    """The shapes of trees and what they cost, each computed once."""

    rates: Rates
    costs: str = "calibrated"
    _node_costs: dict[tuple[KeyedPattern, float | None], NodeCosts] = field(default_factory=dict)
    _shapes: dict[tuple[Key, Shape, Shape], Shape] = field(default_factory=dict)
    _origins: list[tuple[KeyedPattern, Bits, Bits]] = field(default_factory=list)  # where each shape was first seen
    _shape_of: dict[tuple[KeyedPattern, JoinTree], Shape] = field(default_factory=dict)
    _shapes_in: dict[tuple[KeyedPattern, JoinTree], frozenset[Shape]] = field(default_factory=dict)
    _costs: dict[tuple[Shape, float], float] = field(default_factory=dict)

    def node_costs(self, pattern: KeyedPattern, share: float | None = None) -> NodeCosts:
        """Return the costs of a pattern's nodes, for its own window or another."""
        known = self._node_costs.get((pattern, share))
        if known is None:
            known = self._node_costs[pattern, share] = NodeCosts(pattern, self.rates, share, self.costs)
            self._node_costs[pattern, known.share] = known
        return known

    def window(self, pattern: KeyedPattern) -> float:
        """Return the window of a pattern, as a share of the stream."""
        return self.node_costs(pattern).share

    def shape(self, pattern: KeyedPattern, tree: JoinTree) -> Shape:
        """Return the number of a tree, the same for all patterns that have it as a subtree."""
        known = self._shape_of.get((pattern, tree))
        if known is None:
            bits = tree_bits(tree)
            if isinstance(tree, int):
                key, left = (pattern.key(bits), -1, -1), 0
            else:
                one, other = sorted((self.shape(pattern, tree[0]), self.shape(pattern, tree[1])))
                key, left = (pattern.key(bits), one, other), tree_bits(tree[0])
            known = self._shapes.setdefault(key, len(self._origins))
            if known == len(self._origins):
                self._origins.append((pattern, left, bits ^ left))
            self._shape_of[pattern, tree] = known
        return known

    def shapes(self, pattern: KeyedPattern, tree: JoinTree | None) -> frozenset[Shape]:
        """Return the subtrees of a tree, each once: two that are equal are one node even in one tree."""
        if tree is None:
            return frozenset()
        known = self._shapes_in.get((pattern, tree))
        if known is None:
            known = frozenset(self.shape(pattern, each) for each in subtrees(tree))
            self._shapes_in[pattern, tree] = known
        return known

    def cost(self, shape: Shape, share: float) -> float:
        """Return the cost of a node that serves windows up to a share of the stream."""
        known = self._costs.get((shape, share))
        if known is None:
            pattern, left, right = self._origins[shape]
            costs = self.node_costs(pattern, share)
            known = self._costs[shape, share] = costs.join(left, right) if left else costs.leaf(right)
        return known


@dataclass
class MultiPlan:
    """The trees of patterns. `nodes` has for each subtree how many patterns with which windows have it."""

    costs: PlanCosts
    patterns: Mapping[int, KeyedPattern]
    trees: dict[int, JoinTree] = field(default_factory=dict)
    nodes: dict[Shape, Windows] = field(default_factory=dict)
    cost: float = 0.0

    def set_tree(self, number: int, tree: JoinTree | None) -> None:
        """Give a pattern a tree in place of its present one, or take it away. O(size of the tree).

        Subtrees that other patterns have are shared; those that only this pattern had are dropped.
        """
        changes = self._find_changes([(number, tree)])
        self.cost += self._sum_costs(changes)
        for shape, windows in changes.items():
            after = _add(self.nodes.get(shape, {}), windows)
            if after:
                self.nodes[shape] = after
            else:
                del self.nodes[shape]
        if tree is None:
            del self.trees[number]
        else:
            self.trees[number] = tree

    def cost_change(self, trees: Trees) -> float:
        """Return by how much other trees for some patterns would change the cost. O(size of the trees)."""
        return self._sum_costs(self._find_changes(trees))

    def exact_cost(self) -> float:
        """Return the cost added up again: its changes accumulate rounding errors."""
        return sum(self.costs.cost(shape, max(windows)) for shape, windows in self.nodes.items())

    def count_users(self, number: int, tree: JoinTree) -> int:
        """Return how many patterns have a subtree of one of them."""
        return sum(self.nodes.get(self.costs.shape(self.patterns[number], tree), {}).values())

    def _find_changes(self, trees: Trees) -> dict[Shape, Windows]:
        """Return for each node that trees would gain or lose, by how much its numbers of windows change."""
        changes: dict[Shape, Windows] = {}
        for number, tree in trees:
            pattern = self.patterns[number]
            share = self.costs.window(pattern)
            old, new = (self.costs.shapes(pattern, each) for each in (self.trees.get(number), tree))
            for shape in old ^ new:
                windows = changes.setdefault(shape, {})
                windows[share] = windows.get(share, 0) + (1 if shape in new else -1)
        return changes

    def _sum_costs(self, changes: Mapping[Shape, Windows]) -> float:
        total, cost = 0.0, self.costs.cost
        for shape, windows in changes.items():
            before = self.nodes.get(shape, {})
            after = _add(before, windows)
            total += (cost(shape, max(after)) if after else 0.0) - (cost(shape, max(before)) if before else 0.0)
        return total


def _add(windows: Windows, changes: Windows) -> Windows:
    counts = {share: windows.get(share, 0) + changes.get(share, 0) for share in {**windows, **changes}}
    return {share: count for share, count in counts.items() if count > 0}
