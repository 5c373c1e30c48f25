"""Plans all patterns together: each connected part of the multi-pattern graph by local search, anytime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from motet.optimizer.detect.multitree.common import Pattern, Vocabulary
from motet.optimizer.detect.multitree.graph import MultiPatternGraph
from motet.optimizer.detect.multitree.neighbours import Plans
from motet.optimizer.detect.multitree.placing import around_others
from motet.optimizer.detect.multitree.plans import MultiPlan, Priced, unified
from motet.optimizer.solvers.annealing import anneal
from motet.optimizer.solvers.graph import Deadline
from motet.optimizer.solvers.local_search import Limits
from motet.optimizer.solvers.tabu import tabu_search
from motet.plan.detect.build import JoinTree, Parts
from motet.plan.detect.cost import Rates

METHODS = ("annealing", "tabu")


@dataclass(frozen=True)
class Search:
    """How to search: by the method "annealing" or "tabu"; `ordered` for orders in place of trees, `most` patterns that
    share a part by one move (2: the edge neighbourhood), seconds and steps that it may take for all patterns, and
    neighbours without improvement after which it gives up, for each pattern. It begins with the trees of `start`, where
    there are any, else with the best tree of each pattern.
    """

    method: str = "annealing"
    ordered: bool = False
    most: int = 2
    seconds: float | None = 10.0
    steps: int | None = None
    patience: int | None = 400
    seed: int = 0
    costs: str = "calibrated"
    start: Mapping[Parts, JoinTree] = field(default_factory=dict)


@dataclass
class Searched:
    """Trees for all patterns, what they cost, and how that came about."""

    trees: dict[Parts, JoinTree]
    cost: float
    alone: float  # what the best plans of single patterns cost together
    components: list[list[int]]
    common: int  # maximal common sub-patterns
    steps: int = 0
    traces: list[list[tuple[int, float, float]]] = field(default_factory=list)


def search(wanted: Sequence[Parts], rates: Rates, how: Search = Search()) -> Searched:  # noqa: B008
    """Trees for patterns that are planned together. The same seed and number of steps give the same trees."""
    deadline = Deadline(how.seconds)
    vocabulary = Vocabulary()
    graph = MultiPatternGraph(Pattern(parts, vocabulary) for parts in wanted)
    priced = Priced(rates, how.costs)
    components = graph.components()
    result = MultiPlan(priced, graph.patterns)
    found = Searched({}, 0.0, 0.0, components, len(graph.sharers))
    left = sum(len(part) for part in components if len(part) > 1)
    for part in components:
        plans = Plans(graph, part, priced, how.ordered, how.most)
        found.alone += plans.plan.exact_cost()
        plans.begin_with({number: tree for number in part if (tree := how.start.get(wanted[number])) is not None})
        if len(part) > 1:
            _settle(plans, deadline)
        trees = plans.solution()
        if len(part) > 1:
            limits = Limits(
                Deadline(None if how.seconds is None else deadline.left * len(part) / left),
                None if how.steps is None else max(how.steps * len(part) // len(wanted), 1),
                None if how.patience is None else how.patience * len(part),
            )
            dice = Random(how.seed)
            walk = anneal(plans, dice, limits) if how.method == "annealing" else tabu_search(plans, dice, limits)
            trees = walk.solution
            found.steps += walk.steps
            found.traces.append(walk.trace)
            left -= len(part)
        for number, tree in trees.items():
            result.put(number, tree)
    merged = MultiPlan(priced, graph.patterns)
    for number, tree in unified(result).items():
        merged.put(number, tree)
    best = min(result, merged, key=MultiPlan.exact_cost)
    found.cost = best.exact_cost()
    found.trees = {wanted[number]: tree for number, tree in best.trees.items()}
    return found


def _settle(plans: Plans, deadline: Deadline) -> None:
    """Let each pattern in turn take in what others have, where that saves: a good beginning for a walk, in no time."""
    for number in plans.members:
        if deadline.passed:
            return
        move = ((number, around_others(number, plans.graph, plans.plan, plans.locals[number])),)
        if plans.cost_after(move) < plans.cost:
            plans.make(move)
