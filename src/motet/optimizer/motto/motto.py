"""Plans join trees for many queries at once as a directed Steiner minimum tree (MOTTO, section V)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from motet.optimizer.motto.costs import ArcCosts
from motet.optimizer.motto.graph import GROUND, PlanGraph, build_merge_graph, build_plan_graph
from motet.optimizer.motto.lcse import share_longest_first
from motet.optimizer.motto.tree_builder import TreeBuilder
from motet.optimizer.solvers.graph import Deadline
from motet.optimizer.solvers.steiner import solve_steiner
from motet.plans.detect.build import JoinSpec, PlanTree
from motet.plans.detect.cost import PRICES, Prices, Rates

VARIANTS = ("motto", "motto-merge", "motto-lcse")


@dataclass(frozen=True)
class MottoOptions:
    """What to search: all that can be shared, or what a baseline can; within so many seconds, repeatably. Where it is
    not to be `exact`, all the time is for annealing. `prices` are those of our kernels or of another engine.
    """

    variant: str = "motto"
    budget: float = 10.0
    seed: int = 0
    exact: bool = True
    prices: Prices = PRICES


@dataclass(frozen=True)
class MottoPlan:
    """Where each query and each sub-query that is computed is computed from, by numbers in the graph; what that costs
    in nanoseconds, and what nothing can cost less than.
    """

    variant: str
    graph: PlanGraph
    sources: Mapping[int, int]
    cost: float
    bound: float
    is_optimal: bool
    seconds: float
    tree_builder: TreeBuilder

    @property
    def unshared_cost(self) -> float:
        """What queries cost that are computed from scratch."""
        return sum(self.graph.arcs[GROUND, node].cost for node in self.graph.terminals)

    def __call__(self, spec: JoinSpec) -> PlanTree:
        """The tree of a query."""
        return self.tree_builder.build(spec)


def optimize(queries: Sequence[JoinSpec], rates: Rates, options: MottoOptions = MottoOptions()) -> MottoPlan:  # noqa: B008
    """The cheapest plan that the variant can find for some queries. Depends on nothing but what is given; on the clock
    only where the budget ends the search.

    What the baselines find comes first, so that however little time is left for the rest, no plan is worse than theirs.
    """
    began, deadline = time.monotonic(), Deadline(options.budget)
    share = 1.0 if options.variant != "motto" else 0.25  # of the time for what a baseline does
    costs = ArcCosts(rates, options.prices)
    found: list[_Solution] = []
    if options.variant != "motto-merge":
        found.append(_solve_longest_first(queries, costs, Deadline(options.budget * share)))
    if options.variant != "motto-lcse":
        graph = build_merge_graph(queries, costs, Deadline(deadline.seconds_left * share))
        found.append(_solve_graph(graph, options, deadline.seconds_left * share))
    if options.variant == "motto":
        shared = found[0].graph.queries
        graph = build_plan_graph(
            queries, costs, shared, Deadline(deadline.seconds_left / 4), Deadline(deadline.seconds_left * 3 / 4)
        )
        found.insert(0, _solve_graph(graph, options, deadline.seconds_left))
    best = min(found, key=lambda each: each.cost)
    if options.variant == "motto":  # what cannot be undercut is known of the graph of all techniques alone
        best = replace(best, bound=min(found[0].bound, best.cost), is_optimal=found[0].is_optimal and best is found[0])
    seconds = time.monotonic() - began
    tree_builder = TreeBuilder(best.graph, best.sources)
    return MottoPlan(
        options.variant, best.graph, best.sources, best.cost, best.bound, best.is_optimal, seconds, tree_builder
    )


@dataclass(frozen=True)
class _Solution:
    """A graph, where each of its nodes is computed from in the best tree that was found, what that costs, a bound for
    all trees of the graph, and whether it is known to be the cheapest.
    """

    graph: PlanGraph
    sources: dict[int, int]
    cost: float
    bound: float
    is_optimal: bool


def estimate_alternatives(
    plan: MottoPlan, queries: Sequence[JoinSpec], rates: Rates, budget: float
) -> dict[str, float]:
    """What other plans would cost: each query alone, and what the other variants find."""
    found = {"none": plan.unshared_cost}
    for variant in VARIANTS:
        if variant != plan.variant:
            found[variant] = optimize(queries, rates, MottoOptions(variant, budget)).cost
    return found


def _solve_longest_first(queries: Sequence[JoinSpec], costs: ArcCosts, deadline: Deadline) -> _Solution:
    graph, sources = share_longest_first(queries, costs, deadline)
    return _Solution(graph, sources, sum(graph.arcs[source, node].cost for node, source in sources.items()), 0.0, False)


def _solve_graph(graph: PlanGraph, options: MottoOptions, seconds: float) -> _Solution:
    tree = solve_steiner(graph.network, seconds, options.seed, options.exact)
    return _Solution(graph, {arc.target: arc.source for arc in tree.arcs}, tree.cost, tree.bound, tree.is_optimal)
