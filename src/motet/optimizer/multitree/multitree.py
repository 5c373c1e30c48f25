"""Plans all patterns together: each connected part of the multi-pattern graph by local search, anytime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from motet.optimizer.multitree.graph import MultiPatternGraph
from motet.optimizer.multitree.neighbourhood import PlanSpace
from motet.optimizer.multitree.patterns import KeyedPattern, Numbering
from motet.optimizer.multitree.placement import reuse_subtrees
from motet.optimizer.multitree.plans import MultiPlan, PlanCosts, unify_subtrees
from motet.optimizer.solvers.annealing import anneal
from motet.optimizer.solvers.graph import Deadline
from motet.optimizer.solvers.local_search import Limits
from motet.optimizer.solvers.tabu import tabu_search
from motet.plans.detect.build import JoinSpec, JoinTree
from motet.plans.detect.cost import Rates

METHODS = ("annealing", "tabu")


@dataclass(frozen=True)
class MultitreeOptions:
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
    start: Mapping[JoinSpec, JoinTree] = field(default_factory=dict)


@dataclass
class MultitreeReport:
    """Trees for all patterns, what they cost, and how that came about."""

    trees: dict[JoinSpec, JoinTree]
    cost: float
    unshared_cost: float  # what the best plans of single patterns cost together
    components: list[list[int]]
    common: int  # maximal common sub-patterns
    steps: int = 0
    traces: list[list[tuple[int, float, float]]] = field(default_factory=list)


def optimize(specs: Sequence[JoinSpec], rates: Rates, how: MultitreeOptions = MultitreeOptions()) -> MultitreeReport:  # noqa: B008
    """Trees for patterns that are planned together. The same seed and number of steps give the same trees."""
    deadline = Deadline(how.seconds)
    numbering = Numbering()
    graph = MultiPatternGraph(KeyedPattern(spec, numbering) for spec in specs)
    priced = PlanCosts(rates, how.costs)
    components = graph.components()
    result = MultiPlan(priced, graph.patterns)
    found = MultitreeReport({}, 0.0, 0.0, components, len(graph.sharers))
    left = sum(len(part) for part in components if len(part) > 1)
    for part in components:
        plans = PlanSpace(graph, part, priced, how.ordered, how.most)
        found.unshared_cost += plans.plan.exact_cost()
        plans.start_from({number: tree for number in part if (tree := how.start.get(specs[number])) is not None})
        if len(part) > 1:
            _improve_start(plans, deadline)
        trees = plans.solution()
        if len(part) > 1:
            limits = Limits(
                Deadline(None if how.seconds is None else deadline.seconds_left * len(part) / left),
                None if how.steps is None else max(how.steps * len(part) // len(specs), 1),
                None if how.patience is None else how.patience * len(part),
            )
            rng = Random(how.seed)
            walk = anneal(plans, rng, limits) if how.method == "annealing" else tabu_search(plans, rng, limits)
            trees = walk.solution
            found.steps += walk.steps
            found.traces.append(walk.trace)
            left -= len(part)
        for number, tree in trees.items():
            result.set_tree(number, tree)
    merged = MultiPlan(priced, graph.patterns)
    for number, tree in unify_subtrees(result).items():
        merged.set_tree(number, tree)
    best = min(result, merged, key=MultiPlan.exact_cost)
    found.cost = best.exact_cost()
    found.trees = {specs[number]: tree for number, tree in best.trees.items()}
    return found


def _improve_start(plans: PlanSpace, deadline: Deadline) -> None:
    """Let each pattern in turn take in what others have, where that saves: a good beginning for a walk, in no time."""
    for number in plans.members:
        if deadline.is_over:
            return
        move = ((number, reuse_subtrees(number, plans.graph, plans.plan, plans.locals[number])),)
        if plans.cost_after(move) < plans.cost:
            plans.apply(move)
