"""SPASS's choice of what to share, as the multi-pattern paper describes it (SH-RR): by redundancy ratio.

A sub-expression scores by what it costs to compute it in every query that contains it, against computing it once; the
best is shared first, and a query takes part in one. That is the greedy approximation of a cover; how SPASS weighs
correlations in time is not in that description, and not here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.baselines.motto_lcse import share_in_order
from motet.optimizer.joins import JoinPlan, make_join_plan
from motet.optimizer.motto.costs import ArcCosts
from motet.optimizer.motto.motto import MottoPlan
from motet.optimizer.registry import JoinOptimizer, SearchOptions, register
from motet.optimizer.solvers.common import Deadline
from motet.plans.detect.build import JoinSpec
from motet.plans.detect.cost import Rates

NAME = "spass"


def optimize(queries: Sequence[JoinSpec], rates: Rates, seconds: float | None = 10.0) -> MottoPlan:
    """Return the plan that shares the sub-expressions of the highest redundancy first."""
    began = time.monotonic()
    costs = ArcCosts(rates)

    def rank(common: JoinSpec, users: Sequence[JoinSpec]) -> float:
        return -(len(users) - 1) * costs.from_events(common).cost

    graph, sources = share_in_order(queries, costs, Deadline(seconds), rank)
    cost = sum(graph.arcs[source, node].cost for node, source in sources.items())
    return MottoPlan(NAME, graph, sources, cost, seconds=time.monotonic() - began)


class Spass(JoinOptimizer):
    """SH-RR under the protocol of `motet.optimizer.registry`."""

    def optimize(self, queries: Sequence[JoinSpec], known: Rates, options: SearchOptions) -> JoinPlan:
        found = optimize(queries, known, options.seconds)
        return make_join_plan({spec: found(spec) for spec in queries}, NAME, known, found)


register(
    NAME, "sub-expressions that queries repeat computed once, those of the highest redundancy first", joins=Spass()
)
