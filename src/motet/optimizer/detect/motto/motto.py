"""Plans join trees for many queries at once as a directed Steiner minimum tree (MOTTO, section V)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from motet.optimizer.detect.motto.assemble import Assembler
from motet.optimizer.detect.motto.costs import Costs
from motet.optimizer.detect.motto.graph import GROUND, PlanGraph, merge_graph, plan_graph
from motet.optimizer.detect.motto.lcse import longest_first
from motet.optimizer.solvers.graph import Deadline
from motet.optimizer.solvers.steiner import solve
from motet.plan.detect.build import Parts, PlanTree
from motet.plan.detect.cost import Rates

VARIANTS = ("motto", "motto-merge", "motto-lcse")


@dataclass(frozen=True)
class MottoOptions:
    """What to search: all that can be shared, or what a baseline can; within so many seconds, repeatably. Where it is
    not to be `exact`, all the time is for annealing.
    """

    variant: str = "motto"
    budget: float = 10.0
    seed: int = 0
    exact: bool = True


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
    """
    began = time.monotonic()
    costs = Costs(rates)
    match options.variant:
        case "motto-merge":
            graph, sources, cost, bound, proved = _searched(merge_graph(queries, costs), options)
        case "motto-lcse":
            graph, sources = longest_first(queries, costs)
            cost, bound, proved = sum(graph.ways[source, node].cost for node, source in sources.items()), 0.0, False
        case _:
            graph, sources, cost, bound, proved = _searched(
                plan_graph(queries, costs, Deadline(options.budget / 4)), options
            )
    seconds = time.monotonic() - began
    return MottoPlan(options.variant, graph, sources, cost, bound, proved, seconds, Assembler(graph, sources))


def alternatives(plan: MottoPlan, queries: Sequence[Parts], rates: Rates, budget: float) -> dict[str, float]:
    """What other plans would cost: each query alone, and what the other variants find."""
    found = {"none": plan.alone}
    for variant in VARIANTS:
        if variant != plan.variant:
            found[variant] = optimize(queries, rates, MottoOptions(variant, budget)).cost
    return found


def _searched(graph: PlanGraph, options: MottoOptions) -> tuple[PlanGraph, dict[int, int], float, float, bool]:
    """A graph, the arcs of its cheapest tree, their cost, a bound, and whether it is known to be the cheapest."""
    tree = solve(graph.network, options.budget, options.seed, options.exact)
    return graph, {arc.target: arc.source for arc in tree.arcs}, tree.cost, tree.bound, tree.proved
