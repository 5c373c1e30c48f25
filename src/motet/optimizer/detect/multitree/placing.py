"""Trees around what others have, the trees of others left as they are: at once, without a search. For patterns that
come to a plan, and to begin a search with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from motet.optimizer.detect.multitree.common import Pattern, Vocabulary
from motet.optimizer.detect.multitree.forced import LocalPlans, mapped, tree_bits
from motet.optimizer.detect.multitree.graph import MultiPatternGraph
from motet.optimizer.detect.multitree.plans import MultiPlan, Priced, subtrees
from motet.plan.detect.build import JoinTree, Parts
from motet.plan.detect.cost import Rates


def placed(wanted: Sequence[Parts], known: Mapping[Parts, JoinTree], rates: Rates) -> dict[Parts, JoinTree]:
    """A tree for each pattern: the one that is known, or else the cheapest around subtrees that others have."""
    vocabulary = Vocabulary()
    graph = MultiPatternGraph(Pattern(parts, vocabulary) for parts in wanted)
    plan = MultiPlan(Priced(rates), graph.patterns)
    for number, parts in enumerate(wanted):
        if parts in known:
            plan.put(number, known[parts])
    for number, parts in enumerate(wanted):
        if parts not in known:
            pattern = graph.patterns[number]
            plan.put(number, around_others(number, graph, plan, LocalPlans(pattern, plan.priced.of(pattern))))
    return {parts: plan.trees[number] for number, parts in enumerate(wanted)}


def around_others(number: int, graph: MultiPatternGraph, plan: MultiPlan, local: LocalPlans) -> JoinTree:
    """The tree of a pattern that shared subtrees are taken into one by one, always the one that saves most; into an
    order but one, as its beginning.
    """
    offered = list(dict.fromkeys(_offered(number, graph, plan)))
    forced: list[JoinTree] = []
    best = local.best()
    cost = plan.change([(number, best)])
    while not (local.ordered and forced):
        taken = sum(map(tree_bits, forced))
        around = [[*forced, tree] for tree in offered if not tree_bits(tree) & taken]
        found = [(plan.change([(number, local.best(None, trees))]), trees) for trees in around]
        cheapest = min(found, key=lambda each: each[0], default=None)
        if cheapest is None or cheapest[0] >= cost:
            break
        cost, forced = cheapest
        best = local.best(None, forced)
    return best


def _offered(number: int, graph: MultiPatternGraph, plan: MultiPlan) -> Iterator[JoinTree]:
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
                            yield mapped(tree, *items)
