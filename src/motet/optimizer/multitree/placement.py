"""Trees around what others have, the trees of others left as they are: at once, without a search. For patterns that
come to a plan, and to begin a search with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from motet.optimizer.multitree.graph import MultiPatternGraph
from motet.optimizer.multitree.local_plans import LocalPlans, map_tree, tree_bits
from motet.optimizer.multitree.patterns import KeyedPattern, Numbering
from motet.optimizer.multitree.plans import MultiPlan, PlanCosts, subtrees
from motet.plans.detect.build import JoinSpec, JoinTree
from motet.plans.detect.cost import Rates


def place_patterns(
    specs: Sequence[JoinSpec], known: Mapping[JoinSpec, JoinTree], rates: Rates
) -> dict[JoinSpec, JoinTree]:
    """A tree for each pattern: the one that is known, or else the cheapest around subtrees that others have."""
    numbering = Numbering()
    graph = MultiPatternGraph(KeyedPattern(spec, numbering) for spec in specs)
    plan = MultiPlan(PlanCosts(rates), graph.patterns)
    for number, spec in enumerate(specs):
        if spec in known:
            plan.set_tree(number, known[spec])
    for number, spec in enumerate(specs):
        if spec not in known:
            pattern = graph.patterns[number]
            plan.set_tree(number, reuse_subtrees(number, graph, plan, LocalPlans(pattern, plan.priced.of(pattern))))
    return {spec: plan.trees[number] for number, spec in enumerate(specs)}


def reuse_subtrees(number: int, graph: MultiPatternGraph, plan: MultiPlan, local: LocalPlans) -> JoinTree:
    """The tree of a pattern that shared subtrees are taken into one by one, always the one that saves most; into an
    order but one, as its beginning.
    """
    offered = list(dict.fromkeys(_find_reusable(number, graph, plan)))
    required: list[JoinTree] = []
    best = local.best()
    cost = plan.cost_change([(number, best)])
    while not (local.ordered and required):
        taken = sum(map(tree_bits, required))
        around = [[*required, tree] for tree in offered if not tree_bits(tree) & taken]
        found = [(plan.cost_change([(number, local.best(None, trees))]), trees) for trees in around]
        cheapest = min(found, key=lambda each: each[0], default=None)
        if cheapest is None or cheapest[0] >= cost:
            break
        cost, required = cheapest
        best = local.best(None, required)
    return best


def _find_reusable(number: int, graph: MultiPatternGraph, plan: MultiPlan) -> Iterator[JoinTree]:
    """The subtrees of others that a pattern could have too."""
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
