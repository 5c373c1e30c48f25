"""What it costs to find a query, from events alone or from what another finds (MOTTO, section VI)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from motet.optimizer.detect.local import MOST_FOR_ORDERS, Atom, cheapest_over
from motet.optimizer.detect.motto.windows import window_of
from motet.plan.detect.build import JoinTree, Parts, PlanTree, Walked, in_numbers, items_of
from motet.plan.detect.cost import PRICES, Prices, Rates, Sizes, cost_of_join, walk_cost
from motet.plan.detect.nodes import LeafNode
from motet.plan.detect.spans import Bits, bits_of

SOURCE = -1  # in a tree: what another query finds


@dataclass(frozen=True, slots=True)
class Way:
    """How a query is computed: at what cost, by which tree. `places` are the items that the source's are, where there
    is one (it stands for SOURCE in the tree), `sifted` says whether its instances have to pass a filter.
    """

    cost: float
    tree: PlanTree
    places: tuple[int, ...] = ()
    sifted: bool = False


@dataclass
class Costs:
    """Costs in nanoseconds by the rates of events and the prices of our kernels."""

    rates: Rates
    prices: Prices = PRICES
    sizes: dict[Parts, Sizes] = field(default_factory=dict)
    scratch: dict[Parts, Way] = field(default_factory=dict)

    def of(self, query: Parts) -> Sizes:
        """How many instances each part of a query has."""
        if query not in self.sizes:
            self.sizes[query] = Sizes(query, self.rates)
        return self.sizes[query]

    def instances(self, query: Parts) -> float:
        """How many instances a query has."""
        return self.of(query).of(frozenset(range(len(query.items))))

    def scan(self, query: Parts, items: Iterable[int]) -> float:
        """Reading the events of some items."""
        sizes = self.of(query)
        return self.prices.event * sum(sizes.of_item(query.items[item]) for item in items)

    def from_events(self, query: Parts) -> Way:
        """The cheapest way to compute a query from scratch: by joins, or as paths where it is a plain sequence."""
        if query not in self.scratch:
            self.scratch[query] = self._from_events(query)
        return self.scratch[query]

    def _from_events(self, query: Parts) -> Way:
        every = range(len(query.items))
        cost, tree = self._cheapest(self.of(query), [Atom(1 << item, item) for item in every])
        way = Way(cost + self.scan(query, every), tree)
        if can_walk(query):
            way = min(
                way, Way(walk_cost(self.of(query), self.prices), Walked(tuple(every))), key=lambda each: each.cost
            )
        return way

    def from_source(self, source: Parts, query: Parts, places: tuple[int, ...]) -> Way:
        """Computing a query from what another finds: filtered where that asks for less or has a larger window, then
        joined with the rest of the events.
        """
        prices, found, sizes = self.prices, self.instances(source), self.of(query)
        inside = frozenset(places)
        sifted = asks_less(source, query, places)
        cost = 0.0
        if sifted or len(inside) == len(query.items):
            cost += prices.node + prices.sifted * found
        elif window_of(source) != window_of(query):
            cost += prices.sifted * found
        rest = [item for item in range(len(query.items)) if item not in inside]
        atoms = [Atom(bits_of(inside), SOURCE), *(Atom(1 << item, item) for item in rest)]
        joined, tree = self._cheapest(sizes, atoms)
        return Way(cost + joined + self.scan(query, rest), tree, places, sifted)

    def _cheapest(self, sizes: Sizes, atoms: list[Atom]) -> tuple[float, JoinTree]:
        """The cheapest tree over what is there already; of very many parts, in the order of the pattern."""

        def price(left: Bits, right: Bits) -> float:
            return cost_of_join(sizes, left, right, self.prices)

        if len(atoms) <= MOST_FOR_ORDERS:
            return cheapest_over(atoms, price)
        whole, cost = atoms[0], 0.0
        for atom in atoms[1:]:
            cost += price(whole.items, atom.items)
            whole = Atom(whole.items | atom.items, (whole.tree, atom.tree))
        return cost, whole.tree


def asks_less(source: Parts, query: Parts, places: tuple[int, ...]) -> bool:
    """Whether a query asks more of the items that it has from a source than the source saw to."""
    own = in_numbers(query, places)
    return (own.order, own.tests, own.gaps) != (source.order, source.tests, source.gaps)


def can_walk(query: Parts) -> bool:
    """Whether a query is a sequence of events of which only neighbours have to do with each other."""
    count = len(query.items)
    if len(query.order) < count * (count - 1) // 2 or not all(isinstance(item, LeafNode) for item in query.items):
        return False
    together = [*map(items_of, query.tests), *(gap.after | gap.before for gap in query.gaps)]
    return all(max(items) - min(items) == 1 for items in together)
