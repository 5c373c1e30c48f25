"""What it costs to compute a query, from events or from what another query finds (MOTTO, section VI)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from motet.optimizer.motto.sources import window_of
from motet.optimizer.tree_search import JoinInput, find_cheapest_tree, single_items
from motet.plans.detect.build import JoinSpec, JoinTree, PathScan, PlanTree, can_scan_paths, select_items
from motet.plans.detect.cost import PRICES, Cardinalities, Prices, Rates, path_scan_cost, tree_join_cost
from motet.plans.detect.partial_orders import bits_of

SOURCE = -1  # in a tree: what the source finds


@dataclass(frozen=True, slots=True)
class PlanArc:
    """How a query is computed from a source: at what cost, and by which tree, in which SOURCE stands for the source.

    `places` are the query's items that the source's items are; `filtered`: what the source finds passes a filter.
    """

    cost: float
    tree: PlanTree
    places: tuple[int, ...] = ()
    filtered: bool = False


@dataclass
class ArcCosts:
    """Costs in nanoseconds by the rates of events and the prices of motet's kernels."""

    rates: Rates
    prices: Prices = PRICES
    _from_events: dict[JoinSpec, PlanArc] = field(default_factory=dict)

    def sizes(self, query: JoinSpec) -> Cardinalities:
        """Return the numbers of instances of the parts of a query."""
        return self.rates.sizes_of(query)

    def instances(self, query: JoinSpec) -> float:
        """Return the number of instances of a query."""
        return self.sizes(query).instances(bits_of(range(len(query.items))))

    def scan(self, query: JoinSpec, items: Iterable[int]) -> float:
        """Return the cost of reading the events of some items."""
        sizes = self.sizes(query)
        return self.prices.event * sum(sizes.item_instances(query.items[item]) for item in items)

    def from_events(self, query: JoinSpec) -> PlanArc:
        """Return the cheapest way to compute a query from scratch: by joins, or as paths if it is a plain sequence."""
        if query not in self._from_events:
            items = range(len(query.items))
            cost, tree = self._cheapest(query, single_items(items))
            ways = [PlanArc(cost + self.scan(query, items), tree)]
            if can_scan_paths(query):
                paths = path_scan_cost(self.sizes(query), self.prices)
                ways.append(PlanArc(paths + self.scan(query, items), PathScan(tuple(items))))
            self._from_events[query] = min(ways, key=lambda arc: arc.cost)
        return self._from_events[query]

    def from_source(self, source: JoinSpec, query: JoinSpec, places: tuple[int, ...]) -> PlanArc:
        """Return how to compute a query from what a source finds.

        It is filtered where the source requires less or has a larger window, then joined with the other items.
        """
        prices, found = self.prices, self.instances(source)
        filtered = needs_filter(source, query, places)
        cost = 0.0
        if filtered or len(places) == len(query.items):
            cost += prices.node + prices.filtered * found
        elif window_of(source) != window_of(query):
            cost += prices.filtered * found
        rest = [item for item in range(len(query.items)) if item not in places]
        joined, tree = self._cheapest(query, [JoinInput(bits_of(places), SOURCE), *single_items(rest)])
        return PlanArc(cost + joined + self.scan(query, rest), tree, places, filtered)

    def _cheapest(self, query: JoinSpec, inputs: Sequence[JoinInput]) -> tuple[float, JoinTree]:
        sizes = self.sizes(query)
        return find_cheapest_tree(
            inputs, lambda left, right: tree_join_cost(sizes, left, right, self.prices), sizes.instances
        )


def needs_filter(source: JoinSpec, query: JoinSpec, places: tuple[int, ...]) -> bool:
    """Return whether a query requires more of the items that it has from a source than the source does."""
    own = select_items(query, places)
    return (own.order, own.tests, own.gaps) != (source.order, source.tests, source.gaps)
