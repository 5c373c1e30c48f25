"""Plan the joins of many queries together as a directed Steiner minimum tree (MOTTO, section V)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from motet.optimizer.motto.costs import ArcCosts
from motet.optimizer.motto.graph import GROUND, PlanGraph, build_merge_graph, build_plan_graph
from motet.optimizer.motto.tree_builder import TreeBuilder
from motet.optimizer.solvers.common import Deadline
from motet.optimizer.solvers.steiner import solve_steiner
from motet.plans.detect.build import JoinSpec, PlanTree
from motet.plans.detect.cost import PRICES, Prices, Rates

VARIANTS = ("motto", "motto-merge")
SHARE_FOR_MERGE = 0.25  # of the time of `motto`, for the plan by merging alone


@dataclass(frozen=True)
class MottoOptions:
    """How to search.

    Attributes:
        variant: 'motto', or 'motto-merge' for sharing by merging alone.
        seconds: How long to search; None for no limit.
        seed: Seed of the random numbers.
        exact: Search by branch and bound first, and not by annealing alone.
        prices: The prices of motet's kernels, or of another engine.
    """

    variant: str = "motto"
    seconds: float | None = 10.0
    seed: int = 0
    exact: bool = True
    prices: Prices = PRICES


@dataclass(frozen=True)
class MottoPlan:
    """The source of each query and sub-query that is computed, by numbers in the graph.

    `cost` is in nanoseconds, and no plan costs less than `bound`. It returns the join tree of a query when called.
    """

    variant: str
    graph: PlanGraph
    sources: Mapping[int, int]
    cost: float
    bound: float = 0.0
    is_optimal: bool = False
    seconds: float = 0.0

    @cached_property
    def tree_builder(self) -> TreeBuilder:
        """The builder of its join trees."""
        return TreeBuilder(self.graph, self.sources)

    @property
    def unshared_cost(self) -> float:
        """The cost of computing every query from scratch."""
        return sum(self.graph.arcs[GROUND, node].cost for node in self.graph.terminals)

    def __call__(self, spec: JoinSpec) -> PlanTree:
        """Return the tree of a query."""
        return self.tree_builder.build(spec)

    def estimate_alternatives(self, queries: Sequence[JoinSpec], rates: Rates, seconds: float) -> dict[str, float]:
        """Return what other plans would cost: each query alone, and what other variants find."""
        found = {"none": self.unshared_cost}
        for variant in VARIANTS:
            if variant != self.variant:
                found[variant] = optimize(queries, rates, MottoOptions(variant, seconds)).cost
        return found


def optimize(
    queries: Sequence[JoinSpec],
    rates: Rates,
    options: MottoOptions = MottoOptions(),  # noqa: B008
) -> MottoPlan:
    """Return the cheapest plan that the variant can find.

    The result depends on the clock only where time ends the search. What merging alone finds comes first, so however
    little time is left for the rest, no plan is worse than that.
    """
    began, deadline = time.monotonic(), Deadline(options.seconds)
    costs = ArcCosts(rates, options.prices)
    share = 1.0 if options.variant == "motto-merge" else SHARE_FOR_MERGE
    for_graph = Deadline(deadline.seconds_left * share)
    graph = build_merge_graph(queries, costs, for_graph)
    best = _solve(graph, options, deadline.seconds_left * share, is_complete=not for_graph.is_over)
    if options.variant == "motto":
        left = deadline.seconds_left
        for_subqueries, for_graph = Deadline(left / 4), Deadline(left * 3 / 4)
        graph = build_plan_graph(queries, costs, for_subqueries, for_graph)
        is_complete = not (for_subqueries.is_over or for_graph.is_over)
        found = _solve(graph, options, deadline.seconds_left, is_complete)
        # The bound of the graph of all techniques holds for plans by merging too.
        best = found if found.cost <= best.cost else replace(best, bound=min(found.bound, best.cost), is_optimal=False)
    return replace(best, seconds=time.monotonic() - began)


def _solve(graph: PlanGraph, options: MottoOptions, seconds: float, is_complete: bool) -> MottoPlan:
    """Return the best plan in a graph. Of one that time cut short neither a bound nor an optimum is known."""
    tree = solve_steiner(graph.network, seconds, options.seed, options.exact)
    sources = {arc.target: arc.source for arc in tree.arcs}
    bound = tree.bound if is_complete else 0.0
    return MottoPlan(options.variant, graph, sources, tree.cost, bound, tree.is_optimal and is_complete)
