"""The plan of all patterns: their trees with equal subtrees as one node, found by a hash, and what it all costs.

With orders in place of trees it is the multi-pattern tree (equal beginnings are one), else the multitree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from motet.optimizer.multitree.local_plans import map_tree, tree_bits
from motet.optimizer.multitree.node_costs import NodeCosts
from motet.optimizer.multitree.patterns import Key, KeyedPattern
from motet.plans.detect.build import JoinTree
from motet.plans.detect.cost import Rates
from motet.plans.detect.partial_orders import Bits

Shape = int  # a subtree, whoever has it: what it finds and by which subtrees
NOTHING: frozenset[Shape] = frozenset()


@dataclass
class PlanCosts:
    """Prices of parts of patterns, by pattern and window, and of shapes."""

    rates: Rates
    costs: str = "calibrated"
    _prices: dict[tuple[KeyedPattern, float | None], NodeCosts] = field(default_factory=dict)
    _shapes: dict[tuple[Key, Shape, Shape], Shape] = field(default_factory=dict)
    _origin: list[tuple[KeyedPattern, Bits, Bits]] = field(
        default_factory=list
    )  # of each shape: where it was first seen
    _of_tree: dict[tuple[KeyedPattern, JoinTree], Shape] = field(default_factory=dict)
    _within: dict[tuple[KeyedPattern, JoinTree], frozenset[Shape]] = field(default_factory=dict)
    _known: dict[tuple[Shape, float], float] = field(default_factory=dict)

    def of(self, pattern: KeyedPattern, share: float | None = None) -> NodeCosts:
        """The prices of a pattern, for its own window or another."""
        known = self._prices.get((pattern, share))
        if known is None:
            known = self._prices[pattern, share] = NodeCosts(pattern, self.rates, share, self.costs)
            self._prices[pattern, known.share] = known
        return known

    def window(self, pattern: KeyedPattern) -> float:
        """The window of a pattern, as a share of the stream."""
        return self.of(pattern).share

    def shape(self, pattern: KeyedPattern, tree: JoinTree) -> Shape:
        """The number of a tree, the same for all patterns that have it as a subtree."""
        known = self._of_tree.get((pattern, tree))
        if known is None:
            bits = tree_bits(tree)
            if isinstance(tree, int):
                key, left = (pattern.key(bits), -1, -1), 0
            else:
                one, other = sorted((self.shape(pattern, tree[0]), self.shape(pattern, tree[1])))
                key, left = (pattern.key(bits), one, other), tree_bits(tree[0])
            known = self._shapes.setdefault(key, len(self._origin))
            if known == len(self._origin):
                self._origin.append((pattern, left, bits ^ left))
            self._of_tree[pattern, tree] = known
        return known

    def shapes(self, pattern: KeyedPattern, tree: JoinTree) -> frozenset[Shape]:
        """The subtrees of a tree, each once: two that are equal are one node even in one tree."""
        known = self._within.get((pattern, tree))
        if known is None:
            known = frozenset(self.shape(pattern, each) for each in subtrees(tree))
            self._within[pattern, tree] = known
        return known

    def cost(self, shape: Shape, share: float) -> float:
        """What a node costs that serves windows up to a share of the stream."""
        known = self._known.get((shape, share))
        if known is None:
            pattern, left, right = self._origin[shape]
            prices = self.of(pattern, share)
            known = prices.node(left, right) if left else prices.leaf(right)
            self._known[shape, share] = known
        return known


Windows = dict[float, int]  # how many patterns with which windows


@dataclass
class MultiPlan:
    """Trees of patterns. `nodes` has for each subtree how many patterns with which windows have it."""

    priced: PlanCosts
    patterns: Mapping[int, KeyedPattern]
    trees: dict[int, JoinTree] = field(default_factory=dict)
    nodes: dict[Shape, Windows] = field(default_factory=dict)
    cost: float = 0.0

    def set_tree(self, number: int, tree: JoinTree | None) -> None:
        """Give a pattern a tree in place of the one it has: subtrees that are there already are shared, those that only
        it had are gone. None takes its tree away. O(size of the tree).
        """
        self.cost += self.cost_change([(number, tree)])
        share = self.priced.window(self.patterns[number])
        old, new = self._shapes(number, self.trees.get(number)), self._shapes(number, tree)
        for shape in new - old:
            windows = self.nodes.setdefault(shape, {})
            windows[share] = windows.get(share, 0) + 1
        for shape in old - new:
            windows = self.nodes[shape]
            windows[share] -= 1
            if not windows[share]:
                del windows[share]
            if not windows:
                del self.nodes[shape]
        if tree is None:
            del self.trees[number]
        else:
            self.trees[number] = tree

    def cost_change(self, trees: Sequence[tuple[int, JoinTree | None]]) -> float:
        """By how much other trees for some patterns would change the cost. O(size of the trees)."""
        changed: dict[Shape, Windows] = {}
        for number, tree in trees:
            share = self.priced.window(self.patterns[number])
            old, new = self._shapes(number, self.trees.get(number)), self._shapes(number, tree)
            for shape in new - old:
                windows = changed.setdefault(shape, {})
                windows[share] = windows.get(share, 0) + 1
            for shape in old - new:
                windows = changed.setdefault(shape, {})
                windows[share] = windows.get(share, 0) - 1
        cost = self.priced.cost
        total = 0.0
        for shape, cost_change in changed.items():
            windows = self.nodes.get(shape, {})
            if windows:
                total -= cost(shape, max(windows))
            after = [
                share for share in {**windows, **cost_change} if windows.get(share, 0) + cost_change.get(share, 0) > 0
            ]
            if after:
                total += cost(shape, max(after))
        return total

    def exact_cost(self) -> float:
        """The cost added up anew: changes of it leave small errors behind."""
        return sum(self.priced.cost(shape, max(windows)) for shape, windows in self.nodes.items())

    def count_users(self, number: int, tree: JoinTree) -> int:
        """How many patterns have a subtree of one of them."""
        return sum(self.nodes.get(self.priced.shape(self.patterns[number], tree), {}).values())

    def _shapes(self, number: int, tree: JoinTree | None) -> frozenset[Shape]:
        return NOTHING if tree is None else self.priced.shapes(self.patterns[number], tree)


def subtrees(tree: JoinTree) -> Iterable[JoinTree]:
    """A tree and all trees within it."""
    pending = [tree]
    while pending:
        each = pending.pop()
        yield each
        if not isinstance(each, int):
            pending += each


def unify_subtrees(plan: MultiPlan) -> dict[int, JoinTree]:
    """The trees of a plan with one subtree for each part that several find in different ways: that which costs least.

    The engine has one node for all that finds the same, whatever it is joined from, so keeping both saves nothing.
    """
    priced, patterns = plan.priced, plan.patterns
    widest: dict[Key, float] = {}
    for number, tree in plan.trees.items():
        pattern = patterns[number]
        for each in subtrees(tree):
            key = pattern.key(tree_bits(each))
            widest[key] = max(widest.get(key, 0.0), priced.window(pattern))
    chosen: dict[Key, tuple[float, int, JoinTree]] = {}
    by_size = sorted(
        ((number, each) for number, tree in plan.trees.items() for each in subtrees(tree)),
        key=lambda found: tree_bits(found[1]).bit_count(),
    )

    def cost(number: int, tree: JoinTree) -> float:
        pattern = patterns[number]
        return sum(
            priced.cost(priced.shape(pattern, each), widest[pattern.key(tree_bits(each))]) for each in subtrees(tree)
        )

    def choose_subtree(number: int, tree: JoinTree) -> JoinTree:
        """The tree that was chosen for what a tree finds."""
        pattern = patterns[number]
        found = chosen.get(pattern.key(tree_bits(tree)))
        if found is None or isinstance(tree, int):
            return tree
        _, owner, other = found
        return map_tree(other, patterns[owner].ordered(tree_bits(other)), pattern.ordered(tree_bits(tree)))

    for number, tree in by_size:
        if isinstance(tree, int):
            continue
        rebuilt = (choose_subtree(number, tree[0]), choose_subtree(number, tree[1]))
        key, price = patterns[number].key(tree_bits(tree)), cost(number, rebuilt)
        if key not in chosen or price < chosen[key][0]:
            chosen[key] = (price, number, rebuilt)
    return {number: choose_subtree(number, tree) for number, tree in plan.trees.items()}
