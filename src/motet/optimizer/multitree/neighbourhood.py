"""Neighbours of a plan: some patterns get trees that share a part they have in common (the paper's section 4.2 and 5).

With two patterns at a time it is the edge neighbourhood, with up to k the vertex neighbourhood.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from motet.optimizer.multitree.graph import MultiPatternGraph
from motet.optimizer.multitree.local_plans import LocalPlans, map_tree, tree_bits
from motet.optimizer.multitree.plans import MultiPlan, PlanCosts
from motet.plans.detect.build import JoinTree
from motet.plans.detect.partial_orders import Bits, items_of

# How often a move takes one pattern back to the plan that is best for itself: sharing nothing is a choice too.
ALONE = 0.1
# How often the whole of a maximal common sub-pattern is shared, and not just any part of it.
WHOLE = 0.5

Move = tuple[tuple[int, JoinTree], ...]


@dataclass
class PlanSpace:
    """Plans of connected patterns as a landscape: moves give some of them new trees."""

    graph: MultiPatternGraph
    members: Sequence[int]
    priced: PlanCosts
    ordered: bool = False
    max_patterns: int = 2  # patterns that share a part by one move
    plan: MultiPlan = field(init=False)

    def __post_init__(self) -> None:
        patterns = self.graph.patterns
        self.locals = {
            number: LocalPlans(patterns[number], self.priced.of(patterns[number]), self.ordered)
            for number in self.members
        }
        self.plan = MultiPlan(self.priced, patterns)
        for number in self.members:
            self.plan.set_tree(number, self.locals[number].best())
        self._place = sum(map(hash, self.plan.trees.items()))
        self._parts = {
            number: [
                part for key in sorted(self.graph.shared[number]) for part in sorted(self.graph.sharers[key][number])
            ]
            for number in self.members
        }

    @property
    def cost(self) -> float:
        return self.plan.cost

    def solution(self) -> dict[int, JoinTree]:
        return dict(self.plan.trees)

    def start_from(self, trees: Mapping[int, JoinTree]) -> None:
        """Stand where some patterns have these trees, if that costs less."""
        move = self._make_move(dict(trees))
        if move is not None and self.cost_after(move) < self.cost:
            self.apply(move)

    def propose(self, rng: Random) -> Move | None:
        number = rng.choice(self.members)
        if rng.random() < ALONE or not self._parts[number]:
            return self._make_move({number: self._plan_around(number, None, rng)})
        whole = rng.choice(self._parts[number])
        part = whole if rng.random() < WHOLE else self._choose_subset(whole, rng)
        places = self.graph.find_containing(number, part)
        others = [peer for peer in places if peer != number]
        chosen = rng.sample(others, min(self.max_patterns - 1, len(others)))
        tree = self._plan_part(number, part, rng)
        trees = {number: self._plan_around(number, tree, rng)}
        for peer in chosen:
            place = rng.choice(sorted(places[peer]))
            items = self.graph.patterns[number].ordered(part), self.graph.patterns[peer].ordered(place)
            trees[peer] = self._plan_around(peer, map_tree(tree, *items), rng)
        return self._make_move(trees)

    def cost_after(self, move: Move) -> float:
        return self.plan.cost + self.plan.cost_change(move)

    def state_after(self, move: Move) -> Hashable:
        trees = self.plan.trees
        return self._place + sum(hash((n, tree)) - hash((n, trees[n])) for n, tree in move)

    def apply(self, move: Move) -> None:
        place = self.state_after(move)
        for number, tree in move:
            self.plan.set_tree(number, tree)
        assert isinstance(place, int)
        self._place = place

    def _make_move(self, trees: dict[int, JoinTree]) -> Move | None:
        """The move that gives patterns these trees; None where they have them."""
        return tuple((n, tree) for n, tree in trees.items() if self.plan.trees[n] != tree) or None

    def _choose_subset(self, whole: Bits, rng: Random) -> Bits:
        """At least two items of a part."""
        size = whole.bit_count()
        if size == 2:
            return whole
        ranks = rng.sample(range(size), rng.randint(2, size - 1))
        items = items_of(whole)
        return sum(1 << items[rank] for rank in ranks)

    def _plan_part(self, number: int, part: Bits, rng: Random) -> JoinTree:
        """The best tree for a part, with or without what the pattern shares within it already."""
        inside = [tree for tree in self._shared(number) if not tree_bits(tree) & ~part]
        keep = inside and rng.random() < 0.5
        return self.locals[number].best(part, inside if keep else ())

    def _plan_around(self, number: int, tree: JoinTree | None, rng: Random) -> JoinTree:
        """The best tree of a pattern that contains a tree, with or without what it shares already elsewhere."""
        required = [] if tree is None else [tree]
        if not self.ordered and rng.random() < 0.5:
            bits = 0 if tree is None else tree_bits(tree)
            required += [each for each in self._shared(number) if not tree_bits(each) & bits]
        return self.locals[number].best(None, required)

    def _shared(self, number: int) -> list[JoinTree]:
        """The largest subtrees of a pattern that others have too."""
        found: list[JoinTree] = []
        pending = [self.plan.trees[number]]
        while pending:
            tree = pending.pop()
            if isinstance(tree, int):
                continue
            if self.plan.count_users(number, tree) > 1:
                found.append(tree)
            else:
                pending += tree
        return found
