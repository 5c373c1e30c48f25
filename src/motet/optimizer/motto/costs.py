"""What it costs to find a query, from events alone or from what another finds (MOTTO, section VI)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from motet.optimizer.motto.windows import window_of
from motet.optimizer.tree_search import MOST_FOR_ORDERS, JoinInput, find_cheapest_tree
from motet.plans.detect.build import JoinSpec, JoinTree, PathScan, PlanTree, items_of_test, select_items
from motet.plans.detect.cost import PRICES, Cardinalities, Prices, Rates, path_scan_cost, tree_join_cost
from motet.plans.detect.nodes import LeafNode
from motet.plans.detect.partial_orders import Bits, bits_of

SOURCE = -1  # in a tree: what another query finds


@dataclass(frozen=True, slots=True)
class PlanArc:
    """How a query is computed: at what cost, by which tree. `places` are the items that the source's are, where there
    is one (it stands for SOURCE in the tree), `filtered` says whether its instances have to pass a filter.
    """

    cost: float
    tree: PlanTree
    places: tuple[int, ...] = ()
    filtered: bool = False


@dataclass
class ArcCosts:
    """Costs in nanoseconds by the rates of events and the prices of our kernels."""

    rates: Rates
    prices: Prices = PRICES
    sizes: dict[JoinSpec, Cardinalities] = field(default_factory=dict)
    scratch: dict[JoinSpec, PlanArc] = field(default_factory=dict)

    def of(self, query: JoinSpec) -> Cardinalities:
        """How many instances each part of a query has."""
        if query not in self.sizes:
            self.sizes[query] = Cardinalities(query, self.rates)
        return self.sizes[query]

    def instances(self, query: JoinSpec) -> float:
        """How many instances a query has."""
        return self.of(query).of(frozenset(range(len(query.items))))

    def scan(self, query: JoinSpec, items: Iterable[int]) -> float:
        """Reading the events of some items."""
        sizes = self.of(query)
        return self.prices.event * sum(sizes.item_instances(query.items[item]) for item in items)

    def from_events(self, query: JoinSpec) -> PlanArc:
        """The cheapest way to compute a query from scratch: by joins, or as paths where it is a plain sequence."""
        if query not in self.scratch:
            self.scratch[query] = self._from_events(query)
        return self.scratch[query]

    def _from_events(self, query: JoinSpec) -> PlanArc:
        every = range(len(query.items))
        cost, tree = self._cheapest(self.of(query), [JoinInput(1 << item, item) for item in every])
        way = PlanArc(cost + self.scan(query, every), tree)
        if can_scan_paths(query):
            way = min(
                way,
                PlanArc(path_scan_cost(self.of(query), self.prices), PathScan(tuple(every))),
                key=lambda each: each.cost,
            )
        return way

    def from_source(self, source: JoinSpec, query: JoinSpec, places: tuple[int, ...]) -> PlanArc:
        """Computing a query from what another finds: filtered where that asks for less or has a larger window, then
        joined with the rest of the events.
        """
        prices, found, sizes = self.prices, self.instances(source), self.of(query)
        inside = frozenset(places)
        filtered = needs_filter(source, query, places)
        cost = 0.0
        if filtered or len(inside) == len(query.items):
            cost += prices.node + prices.filtered * found
        elif window_of(source) != window_of(query):
            cost += prices.filtered * found
        rest = [item for item in range(len(query.items)) if item not in inside]
        atoms = [JoinInput(bits_of(inside), SOURCE), *(JoinInput(1 << item, item) for item in rest)]
        joined, tree = self._cheapest(sizes, atoms)
        return PlanArc(cost + joined + self.scan(query, rest), tree, places, filtered)

    def _cheapest(self, sizes: Cardinalities, atoms: list[JoinInput]) -> tuple[float, JoinTree]:
        """The cheapest tree over what is there already; of very many parts, in the order of the pattern."""

        def price(left: Bits, right: Bits) -> float:
            return tree_join_cost(sizes, left, right, self.prices)

        if len(atoms) <= MOST_FOR_ORDERS:
            return find_cheapest_tree(atoms, price)
        whole, cost = atoms[0], 0.0
        for atom in atoms[1:]:
            cost += price(whole.items, atom.items)
            whole = JoinInput(whole.items | atom.items, (whole.tree, atom.tree))
        return cost, whole.tree


def needs_filter(source: JoinSpec, query: JoinSpec, places: tuple[int, ...]) -> bool:
    """Whether a query asks more of the items that it has from a source than the source saw to."""
    own = select_items(query, places)
    return (own.order, own.tests, own.gaps) != (source.order, source.tests, source.gaps)


def can_scan_paths(query: JoinSpec) -> bool:
    """Whether a query is a sequence of events of which only neighbours have to do with each other."""
    count = len(query.items)
    if len(query.order) < count * (count - 1) // 2 or not all(isinstance(item, LeafNode) for item in query.items):
        return False
    together = [*map(items_of_test, query.tests), *(gap.after | gap.before for gap in query.gaps)]
    return all(max(items) - min(items) == 1 for items in together)
