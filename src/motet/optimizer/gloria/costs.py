"""What a sharing plan costs: by the equations of the paper as printed, or calibrated to motet's kernels.

A cost model says what the transitions of a pool cost a query alone and a Q-set together, and what it costs to turn an
expression over snapshots into values. Weights of paths are sums of these, so any model can be put in place of another
(section 7.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from motet.optimizer.gloria.template import Pool, Template, split_queries
from motet.optimizer.rates import PositionRates
from motet.plans.cost import PRICES

PAIR_COST = PRICES["pair lane"]


class CostModel(Protocol):
    """The costs of a template. A snapshot is identified by the state at which it is made, a query by its bit."""

    def start_cost(self, state: int) -> float:
        """Return what the events cost with which a query begins."""

    def unshared_cost(self, pool: Pool, query: int) -> float:
        """Return what a pool costs a query that does not share it."""

    def shared_cost(self, pool: Pool, queries: int, snapshot: int) -> float:
        """Return what a pool costs a Q-set."""

    def evaluation_cost(self, state: int, snapshot: int) -> float:
        """Return what it costs one query to evaluate the expressions of the events of a state."""

    def snapshot_burden(self, queries: int, snapshot: int) -> float:
        """Return the burden of a snapshot: of two for one Q-set, the one with the smaller burden costs less later."""


def state_rates(template: Template, rates: PositionRates) -> list[float]:
    """Return the events of each state in a window: the mean over its queries, whose windows may differ."""
    return [sum(rates[query][at] for query, at in state.places) / len(state.places) for state in template.states]


class PrintedCosts:
    """Equations 2 to 4.

    An expression has as many terms as there are snapshots; that of an event which is a snapshot itself has one. In a
    repeated part, what leads to the snapshots is computed for each query separately (table 4).
    """

    def __init__(self, template: Template, rates: PositionRates) -> None:
        self.events = state_rates(template, rates)

    def expression_length(self, state: int, snapshot: int) -> float:
        """Return how many terms an expression has."""
        return 1.0 if state == snapshot else self.events[snapshot]

    def start_cost(self, state: int) -> float:
        return self.events[state]

    def unshared_cost(self, pool: Pool, query: int) -> float:
        # Equation 2.
        return sum(self.events[source] * self.events[target] for source, target in pool.transitions)

    def shared_cost(self, pool: Pool, queries: int, snapshot: int) -> float:
        # Equation 3; into the snapshots themselves equation 2.
        cost = 0.0
        for source, target in pool.transitions:
            if target == snapshot:
                cost += queries.bit_count() * self.events[source] * self.events[target]
            else:
                cost += self.events[source] * self.expression_length(source, snapshot)
        return cost

    def evaluation_cost(self, state: int, snapshot: int) -> float:
        # Equation 4.
        return self.events[state] * self.expression_length(state, snapshot)

    def snapshot_burden(self, queries: int, snapshot: int) -> float:
        return self.events[snapshot]


class CalibratedCosts:
    """What pairs cost motet's kernels (`motet.plans.pairs`): for each event as many lanes as there are nodes before it.

    The lanes of a Q-set from its snapshot on are computed once for all of its queries. Nothing is evaluated before a
    pane is over, and then for all plans alike. All other costs of an event are the same for all plans too.
    """

    def __init__(self, template: Template, rates: PositionRates) -> None:
        self.events = state_rates(template, rates)
        self.places = [dict(state.places) for state in template.states]
        self.queries = template.queries

    def _number(self, query: int) -> int:
        return self.queries[query.bit_length() - 1]

    def start_cost(self, state: int) -> float:
        return PAIR_COST * self.events[state]

    def unshared_cost(self, pool: Pool, query: int) -> float:
        number = self._number(query)
        return PAIR_COST * sum(
            self.events[target] * (2 + self.places[source][number]) for source, target in pool.transitions
        )

    def shared_cost(self, pool: Pool, queries: int, snapshot: int) -> float:
        first = queries & -queries
        saved = (queries.bit_count() - 1) * sum(
            self.events[target] * self._count_lanes(source, snapshot, first) for source, target in pool.transitions
        )
        return sum(self.unshared_cost(pool, query) for query in split_queries(queries)) - PAIR_COST * saved

    def _count_lanes(self, state: int, snapshot: int, query: int) -> int:
        """Return how many lanes begin at a snapshot or after it."""
        number = self._number(query)
        return max(self.places[state][number] - self.places[snapshot][number] + 1, 0)

    def evaluation_cost(self, state: int, snapshot: int) -> float:
        return 0.0

    def snapshot_burden(self, queries: int, snapshot: int) -> float:
        # The longer ago a snapshot was made, the more lanes are shared; all queries of a Q-set have come the same way.
        return float(self.places[snapshot][self._number(queries & -queries)])


COST_MODELS: dict[str, Callable[[Template, PositionRates], CostModel]] = {
    "printed": PrintedCosts,
    "calibrated": CalibratedCosts,
}
