"""Neighbours of a plan: some patterns get trees that share a part they have in common (the paper's sections 4.2 and 5).

With two patterns at a time it is the edge neighbourhood, with up to k the vertex neighbourhood.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from motet.optimizer.multitree.graph import MultiPatternGraph, PatternIndex
from motet.optimizer.multitree.local_plans import LocalPlans, map_tree, subtrees, tree_bits
from motet.optimizer.multitree.plans import MultiPlan, PlanCosts
from motet.plans.detect.build import JoinSpec, JoinTree
from motet.plans.detect.cost import Rates
from motet.plans.detect.partial_orders import Bits, items_of

# How often a move gives one pattern the plan that is best for itself: sharing nothing is a choice too.
SHARE_OF_UNSHARED_MOVES = 0.1
# How often the whole of a maximal common sub-pattern is shared, and not just some of it.
SHARE_OF_WHOLE_PARTS = 0.5

Move = tuple[tuple[int, JoinTree], ...]


@dataclass
class PlanSpace:
    """The plans of connected patterns as a space to search; a move gives some patterns new trees.

    `max_patterns` is how many patterns share a part by one move.
    """

    graph: MultiPatternGraph
    members: Sequence[int]
    costs: PlanCosts
    orders_only: bool = False
    max_patterns: int = 2
    plan: MultiPlan = field(init=False)

    def __post_init__(self) -> None:
        patterns = self.graph.patterns
        self.local = {
            number: LocalPlans(patterns[number], self.costs.node_costs(patterns[number]), self.orders_only)
            for number in self.members
        }
        self.plan = MultiPlan(self.costs, patterns)
        for number in self.members:
            self.plan.set_tree(number, self.local[number].find_best())
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

    def propose(self, rng: Random) -> Move | None:
        number = rng.choice(self.members)
        if rng.random() < SHARE_OF_UNSHARED_MOVES or not self._parts[number]:
            return self._make_move({number: self._plan_around(number, None, rng)})
        whole = rng.choice(self._parts[number])
        part = whole if rng.random() < SHARE_OF_WHOLE_PARTS else _choose_subset(whole, rng)
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

    def apply(self, move: Move) -> None:
        for number, tree in move:
            self.plan.set_tree(number, tree)

    def start_from(self, trees: Mapping[int, JoinTree]) -> None:
        """Give some patterns these trees, if that costs less."""
        move = self._make_move(trees)
        if move is not None and self.cost_after(move) < self.cost:
            self.apply(move)

    def reuse_subtrees(self, number: int) -> None:
        """Let a pattern take in the subtrees of others, if that costs less."""
        self.start_from({number: reuse_subtrees(number, self.graph, self.plan, self.local[number])})

    def _make_move(self, trees: Mapping[int, JoinTree]) -> Move | None:
        """Return the move that gives patterns these trees, or None where they have them."""
        return tuple((n, tree) for n, tree in trees.items() if self.plan.trees[n] != tree) or None

    def _plan_part(self, number: int, part: Bits, rng: Random) -> JoinTree:
        """Return the best tree for a part, with or without what the pattern shares within it already."""
        inside = [tree for tree in self._find_shared_subtrees(number) if not tree_bits(tree) & ~part]
        keep = inside and rng.random() < 0.5
        return self.local[number].find_best(part, inside if keep else ())

    def _plan_around(self, number: int, tree: JoinTree | None, rng: Random) -> JoinTree:
        """Return the best tree of a pattern that contains a tree, with or without what it shares already elsewhere."""
        required = [] if tree is None else [tree]
        if not self.orders_only and rng.random() < 0.5:
            bits = 0 if tree is None else tree_bits(tree)
            required += [each for each in self._find_shared_subtrees(number) if not tree_bits(each) & bits]
        return self.local[number].find_best(None, required)

    def _find_shared_subtrees(self, number: int) -> list[JoinTree]:
        """Return the largest subtrees of a pattern that others have too."""
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


def _choose_subset(whole: Bits, rng: Random) -> Bits:
    """Return at least two items of a part."""
    items = items_of(whole)
    if len(items) == 2:
        return whole
    return sum(1 << item for item in rng.sample(items, rng.randint(2, len(items) - 1)))


def place_patterns(
    specs: Sequence[JoinSpec], known: Mapping[JoinSpec, JoinTree], rates: Rates, index: PatternIndex
) -> dict[JoinSpec, JoinTree]:
    """Return a tree for each pattern without a search: the known one, or the cheapest around subtrees of others.

    The index is brought up to date with the patterns.
    """
    numbers, graph = index.update(specs), index.graph
    plan = MultiPlan(PlanCosts(rates), graph.patterns)
    for spec, number in numbers.items():
        if spec in known:
            plan.set_tree(number, known[spec])
    for spec, number in numbers.items():
        if spec not in known:
            local = LocalPlans(graph.patterns[number], plan.costs.node_costs(graph.patterns[number]))
            plan.set_tree(number, reuse_subtrees(number, graph, plan, local))
    return {spec: plan.trees[number] for spec, number in numbers.items()}


def reuse_subtrees(number: int, graph: MultiPatternGraph, plan: MultiPlan, local: LocalPlans) -> JoinTree:
    """Return the tree of a pattern into which subtrees of others are taken one by one, always the one that saves most.

    An order takes in one, as its beginning.
    """
    reusable = list(dict.fromkeys(_find_reusable(number, graph, plan)))
    required: list[JoinTree] = []
    best = local.find_best()
    cost = plan.cost_change([(number, best)])
    while not (local.orders_only and required):
        used = sum(map(tree_bits, required))
        extended = [[*required, tree] for tree in reusable if not tree_bits(tree) & used]
        found = [(plan.cost_change([(number, local.find_best(None, trees))]), trees) for trees in extended]
        cheapest = min(found, key=lambda each: each[0], default=None)
        if cheapest is None or cheapest[0] >= cost:
            break
        cost, required = cheapest
        best = local.find_best(None, required)
    return best


def _find_reusable(number: int, graph: MultiPatternGraph, plan: MultiPlan) -> Iterator[JoinTree]:
    """Yield the subtrees of others that a pattern could have too."""
    for key in sorted(graph.shared[number]):
        for peer, wholes in sorted(graph.sharers[key].items()):
            if peer == number or peer not in plan.trees:
                continue
            for theirs in sorted(wholes):
                for ours in sorted(graph.sharers[key][number]):
                    items = graph.patterns[peer].ordered(theirs), graph.patterns[number].ordered(ours)
                    for tree in subtrees(plan.trees[peer]):
                        if not isinstance(tree, int) and not tree_bits(tree) & ~theirs:
                            yield map_tree(tree, *items)
