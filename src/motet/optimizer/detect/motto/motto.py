"""Plans join trees for many queries at once as a directed Steiner minimum tree (MOTTO, section V)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from motet.optimizer.detect.motto.assemble import Assembler
from motet.optimizer.detect.motto.costs import Costs
from motet.optimizer.detect.motto.graph import GROUND, PlanGraph, merge_graph, plan_graph
from motet.optimizer.detect.motto.lcse import longest_first
from motet.optimizer.solvers.graph import Deadline
from motet.optimizer.solvers.steiner import solve
from motet.plan.detect.build import Parts, PlanTree
from motet.plan.detect.cost import PRICES, Prices, Rates

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
    proved: bool
    seconds: float
    assembler: Assembler

    @property
    def alone(self) -> float:
        """What queries cost that are computed from scratch."""
        return sum(self.graph.ways[GROUND, node].cost for node in self.graph.terminals)

    def __call__(self, parts: Parts) -> PlanTree:
        """The tree of a query."""
        return self.assembler.choose(parts)


def optimize(queries: Sequence[Parts], rates: Rates, options: MottoOptions = MottoOptions()) -> MottoPlan:  # noqa: B008
    """The cheapest plan that the variant can find for some queries. Depends on nothing but what is given; on the clock
    only where the budget ends the search.

    What the baselines find comes first, so that however little time is left for the rest, no plan is worse than theirs.
    """
    began, deadline = time.monotonic(), Deadline(options.budget)
    share = 1.0 if options.variant != "motto" else 0.25  # of the time for what a baseline does
    costs = Costs(rates, options.prices)
    found: list[_Found] = []
    if options.variant != "motto-merge":
        found.append(_longest(queries, costs, Deadline(options.budget * share)))
    if options.variant != "motto-lcse":
        graph = merge_graph(queries, costs, Deadline(deadline.left * share))
        found.append(_searched(graph, options, deadline.left * share))
    if options.variant == "motto":
        shared = found[0].graph.queries
        graph = plan_graph(queries, costs, shared, Deadline(deadline.left / 4), Deadline(deadline.left * 3 / 4))
        found.insert(0, _searched(graph, options, deadline.left))
    best = min(found, key=lambda each: each.cost)
    if options.variant == "motto":  # what cannot be undercut is known of the graph of all techniques alone
        best = replace(best, bound=min(found[0].bound, best.cost), proved=found[0].proved and best is found[0])
    seconds = time.monotonic() - began
    assembler = Assembler(best.graph, best.sources)
    return MottoPlan(options.variant, best.graph, best.sources, best.cost, best.bound, best.proved, seconds, assembler)


@dataclass(frozen=True)
class _Found:
    """A graph, where each of its nodes is computed from in the best tree that was found, what that costs, a bound for
    all trees of the graph, and whether it is known to be the cheapest.
    """

    graph: PlanGraph
    sources: dict[int, int]
    cost: float
    bound: float
    proved: bool


def alternatives(plan: MottoPlan, queries: Sequence[Parts], rates: Rates, budget: float) -> dict[str, float]:
    """What other plans would cost: each query alone, and what the other variants find."""
    found = {"none": plan.alone}
    for variant in VARIANTS:
        if variant != plan.variant:
            found[variant] = optimize(queries, rates, MottoOptions(variant, budget)).cost
    return found


def _longest(queries: Sequence[Parts], costs: Costs, deadline: Deadline) -> _Found:
    graph, sources = longest_first(queries, costs, deadline)
    return _Found(graph, sources, sum(graph.ways[source, node].cost for node, source in sources.items()), 0.0, False)


def _searched(graph: PlanGraph, options: MottoOptions, seconds: float) -> _Found:
    tree = solve(graph.network, seconds, options.seed, options.exact)
    return _Found(graph, {arc.target: arc.source for arc in tree.arcs}, tree.cost, tree.bound, tree.proved)
