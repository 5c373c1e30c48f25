"""Plan the joins of all patterns together: each connected part of the multi-pattern graph by local search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from motet.optimizer.multitree.graph import PatternIndex
from motet.optimizer.multitree.neighbourhood import PlanSpace
from motet.optimizer.multitree.plans import MultiPlan, PlanCosts
from motet.optimizer.solvers.common import Deadline
from motet.optimizer.solvers.local_search import Limits, SearchResult, anneal
from motet.plans.detect.build import JoinSpec, JoinTree, PathScan, PlanTree, can_scan_paths
from motet.plans.detect.cost import PRICES, Rates, path_scan_cost

LocalSearch = Callable[[PlanSpace, Random, Limits], SearchResult[dict[int, JoinTree]]]


@dataclass(frozen=True)
class MultitreeOptions:
    """How to search.

    Attributes:
        orders_only: Search orders in place of trees.
        max_patterns: How many patterns share a part by one move (2: the edge neighbourhood).
        seconds: Time for all patterns; None for no limit.
        steps: Neighbours to look at for all patterns; None for no limit.
        patience: Neighbours without improvement after which the search stops, for each pattern; None for no limit.
        seed: Seed of the random numbers.
        costs: 'calibrated' to motet's kernels, or 'printed' in the paper.
        start: Trees to begin with; other patterns begin with the best tree of their own.
        search: The local search; simulated annealing unless given.
        index: What is known of the patterns from a search before; it is brought up to date with them.
    """

    orders_only: bool = False
    max_patterns: int = 2
    seconds: float | None = 10.0
    steps: int | None = None
    patience: int | None = 400
    seed: int = 0
    costs: str = "calibrated"
    start: Mapping[JoinSpec, JoinTree] = field(default_factory=dict)
    search: LocalSearch = anneal
    index: PatternIndex | None = None


@dataclass
class MultitreeReport:
    """Trees for all patterns, what they cost, and how they were found.

    `unshared_cost` is what the best plans of single patterns cost together, `common` the number of maximal common
    sub-patterns, `traces` the improvements of the search in each component.
    """

    trees: dict[JoinSpec, JoinTree]
    cost: float
    unshared_cost: float
    components: list[list[int]]
    common: int
    scanned: frozenset[JoinSpec] = frozenset()  # patterns that are cheaper to find as paths
    steps: int = 0
    traces: list[list[tuple[int, float, float]]] = field(default_factory=list)

    @property
    def plan_trees(self) -> dict[JoinSpec, PlanTree]:
        """The trees, paths in place of those of patterns that are cheaper so."""
        scans = {spec: PathScan(tuple(range(len(spec.items)))) for spec in self.scanned}
        return {**self.trees, **scans}


def optimize(
    specs: Sequence[JoinSpec],
    rates: Rates,
    options: MultitreeOptions = MultitreeOptions(),  # noqa: B008
) -> MultitreeReport:
    """Return trees for patterns that are planned together. The same seed and number of steps give the same trees."""
    deadline = Deadline(options.seconds)
    index = options.index or PatternIndex()
    numbers, graph = index.update(specs), index.graph
    spec_of = {number: spec for spec, number in numbers.items()}
    costs = PlanCosts(rates, options.costs)
    components = graph.find_components()
    plan = MultiPlan(costs, graph.patterns)
    report = MultitreeReport({}, 0.0, 0.0, components, len(graph.sharers))
    left = sum(len(part) for part in components if len(part) > 1)
    for part in components:
        space = PlanSpace(graph, part, costs, options.orders_only, options.max_patterns)
        report.unshared_cost += space.plan.exact_cost()
        space.start_from({number: tree for number in part if (tree := options.start.get(spec_of[number])) is not None})
        trees = space.solution()
        if len(part) > 1:
            # A good plan to begin with, in no time: each pattern in turn takes in what others have.
            for number in part:
                if not deadline.is_over:
                    space.reuse_subtrees(number)
            limits = Limits(
                Deadline(None if options.seconds is None else deadline.seconds_left * len(part) / left),
                None if options.steps is None else max(options.steps * len(part) // len(specs), 1),
                None if options.patience is None else options.patience * len(part),
            )
            found = options.search(space, Random(options.seed), limits)
            trees = found.solution
            report.steps += found.steps
            report.traces.append(found.trace)
            left -= len(part)
        for number, tree in trees.items():
            plan.set_tree(number, tree)
    report.trees = {spec_of[number]: tree for number, tree in plan.trees.items()}
    report.cost = plan.exact_cost()
    if options.costs == "calibrated":
        scanned, saved = _choose_scans(numbers, rates, plan)
        report.scanned, report.cost = scanned, report.cost - saved
    return report


def _choose_scans(numbers: Mapping[JoinSpec, int], rates: Rates, plan: MultiPlan) -> tuple[frozenset[JoinSpec], float]:
    """Return the sequences that cost less as paths than what only they need of the plan, and what that saves.

    Others keep what they share; one after the other, so that the last sharer pays for it.
    """
    found, saved = [], 0.0
    for spec, number in numbers.items():
        if can_scan_paths(spec):
            sizes = rates.sizes_of(spec)
            paths = path_scan_cost(sizes) + PRICES.event * sum(map(sizes.item_instances, spec.items))
            change = plan.cost_change([(number, None)]) + paths
            if change < 0:
                plan.set_tree(number, None)
                found.append(spec)
                saved -= change
    return frozenset(found), saved
