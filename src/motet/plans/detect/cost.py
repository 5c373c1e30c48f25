"""Estimate what a join tree costs: the instances each of its nodes makes, and the pairs it looks at for them.

The expected number of instances is that of the multi-pattern paper (section 3.3): the product of rates, windows and
selectivities. Here the share of combinations that are in order is a factor too, since only those are looked at, and
conditions on the same events use their joint selectivity where it was measured: prices that rise twice are rarer than
the product of two single rises says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from motet.model.expression import Comparison, Expression, variables
from motet.plans.detect.build import JoinSpec, is_left_inner, sort_texts
from motet.plans.detect.nodes import ItemNode, LeafNode, LoopNode
from motet.plans.detect.partial_orders import Bits, bits_of, items_of, partial_order_of, share_in_window
from motet.plans.detect.selectivity import (
    TypedTest,
    group_overlapping,
    guess_selectivity,
    is_equi_join,
    make_joint_test,
    make_typed_test,
    symbols_of,
)
from motet.template.symbols import Symbol

MOST_PATHS = 1e7
MANY_PARTS = 20.0  # parts of matches for each event
MOST_LISTED = 100.0  # matches for each event
LEAST_SHARE = 1e-4  # that a test never holds was not seen of enough pairs


@dataclass(frozen=True)
class Prices:
    """What our kernels take in nanoseconds, fitted to runs by `benchmarks/fit_prices.py`.

    For a node, an event read, an outer instance searched for, a pair looked at, an instance made, an instance that a
    filter reads; for a path scan, an event in it, a step back from one event, and a path. Events that are fed have
    prices of their own, which are not fitted: for a path scan, its steps and paths, those of paths that are listed one
    by one; and for an instance that is kept for later events, that of a profile.
    """

    node: float = 4_000.0
    event: float = 4.0
    row: float = 70.0
    pair: float = 2.5
    instance: float = 50.0
    filtered: float = 10.0
    scan: float = 10_000.0
    scanned: float = 60.0
    step: float = 3.5
    path: float = 5.0
    fed_scan: float = 500_000.0
    fed_step: float = 40.0
    fed_path: float = 90.0
    kept: float = 150.0


PRICES = Prices()


@dataclass(frozen=True)
class Rates:
    """What plans know of a stream: events per symbol, its duration in microseconds, its keys, selectivities where they
    were measured, and the events in all. Without counts all symbols are taken to be equally frequent. Whether events
    `are_fed`: joined as they come, as in a stream, and not all at once.
    """

    counts: Mapping[Symbol, float] = field(default_factory=dict)
    duration: float = 1.0
    keys: int = 1
    selectivity: Mapping[TypedTest, float] = field(default_factory=dict)
    events: float = 0.0
    are_fed: bool = False
    _joint: dict[tuple[object, ...], float] = field(default_factory=dict, init=False, compare=False, repr=False)
    _sizes: dict[JoinSpec, Cardinalities] = field(default_factory=dict, init=False, compare=False, repr=False)
    known_costs: dict[object, float] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_joint": {}, "_sizes": {}, "known_costs": {}}

    def sizes_of(self, spec: JoinSpec) -> Cardinalities:
        """Return the expected instances of a spec, computed once."""
        if spec not in self._sizes:
            self._sizes[spec] = Cardinalities(spec, self)
        return self._sizes[spec]

    def symbol_count(self, symbol: Symbol) -> float:
        """Return the expected number of events of a symbol."""
        return max(self.counts.get(symbol, 1000.0 if not self.counts else 0.0), 1e-3)

    def test_selectivity(self, test: Expression, symbols: Mapping[str, Symbol]) -> float:
        """Return the share of combinations that satisfy a test; `symbols` has those of its variables."""
        known = self.selectivity and variables(test) <= symbols.keys()
        measured = self.selectivity.get(make_typed_test(test, symbols)) if known else None
        return guess_selectivity(test) if measured is None else max(measured, LEAST_SHARE)

    def joint_selectivity(self, tests: Sequence[Expression], symbols: Mapping[str, Symbol]) -> float:
        """Return the share of combinations that satisfy all tests: the product of each, unless measured jointly."""
        names = sorted(frozenset().union(*map(variables, tests)))
        key = (*tests, *((name, symbols.get(name)) for name in names))
        if key not in self._joint:
            measured = None
            if len(tests) > 1 and self.selectivity and symbols.keys() >= set(names):
                measured = self.selectivity.get(make_joint_test(tests, symbols))
            single = (self.test_selectivity(test, symbols) for test in tests)
            self._joint[key] = math.prod(single) if measured is None else max(measured, LEAST_SHARE ** len(tests))
        return self._joint[key]


def window_share(spec: JoinSpec, rates: Rates) -> float:
    """Return the share of a stream that a window holds."""
    if spec.within:
        return min(spec.within / rates.duration, 1.0)
    if spec.rows and rates.events:
        return min(spec.rows * rates.keys / rates.events, 1.0)
    return 1.0


class Cardinalities:
    """The expected instances of any set of items of a join, for its own window or another share of the stream."""

    def __init__(self, spec: JoinSpec, rates: Rates, share: float | None = None) -> None:
        self.spec = spec
        self.rates = rates
        self.share = window_share(spec, rates) if share is None else share
        self.orders = partial_order_of(spec.order)
        self._symbols = symbols_of(spec)
        self._tests = sort_texts(spec.tests)
        self._used = [bits_of(map(int, variables(test))) for test in self._tests]
        self._equal = [number for number, test in enumerate(self._tests) if is_equi_join(test)]
        self._gaps = [
            (bits_of(gap.after | gap.before), rates.symbol_count(gap.symbol) / rates.keys) for gap in spec.gaps
        ]
        self._counts = [self.item_instances(item) for item in spec.items]
        self.events = sum(self._counts)
        # Caches by set of items or tests: one wrapper of functools.cache for each would cost more than they save.
        self._instances: dict[Bits, float] = {}
        self._selectivities: dict[Bits, float] = {}
        self._joint: dict[tuple[int, ...], float] = {}

    def instances(self, items: Bits) -> float:
        """Return the expected instances of items given as bits."""
        if items not in self._instances:
            found = self.combinations(items) * self.selectivity(items)
            self._instances[items] = found * self.gap_selectivity(items) if self._gaps else found
        return self._instances[items]

    def gap_selectivity(self, items: Bits) -> float:
        """Return the share of combinations that have nothing absent in the gaps among some items.

        A gap between neighbours of n events is a part of a window that is about exponentially distributed, with mean
        1/n. The share of such gaps without one of m events in the window is then 1 / (1 + m/n).
        """
        count = items.bit_count()
        absent = [events for used, events in self._gaps if not used & ~items]
        return math.prod(count / (count + events * self.share) for events in absent)

    def candidate_pairs(self, outer: Bits, inner: Bits) -> float:
        """Return the pairs a join looks at: those its search by time, and by an equal value, finds."""
        near, far = self.orders.search_range(outer, inner)
        found = self.share * ((1 - self.share) * near + self.share * far)
        for number in self._equal:
            used = self._used[number]
            if used & outer and used & inner and not used & ~(outer | inner):
                found *= self._joint_selectivity((number,))
                break
        return self.instances(outer) * self.instances(inner) / self.rates.keys * found

    def selectivity(self, items: Bits) -> float:
        """Return the share of combinations that pass the tests among some items."""
        if items not in self._selectivities:
            inside = [number for number, used in enumerate(self._used) if not used & ~items]
            groups = group_overlapping([self._used[number] for number in inside])
            shares = [self._joint_selectivity(tuple(inside[at] for at in group)) for group in groups]
            self._selectivities[items] = math.prod(shares)
        return self._selectivities[items]

    def _joint_selectivity(self, tests: tuple[int, ...]) -> float:
        if tests not in self._joint:
            chosen = [self._tests[number] for number in tests]
            self._joint[tests] = self.rates.joint_selectivity(chosen, self._symbols)
        return self._joint[tests]

    def combinations(self, items: Bits) -> float:
        """Return the combinations of items that lie in one window and in order."""
        keys = self.rates.keys
        per_key = math.prod(self._counts[item] / keys for item in items_of(items))
        return keys * per_key * share_in_window(items.bit_count(), self.share) * self.orders.probability(items)

    def item_instances(self, item: ItemNode) -> float:
        """Return the instances of one item; for a loop, the subsets of its events in a window, up to a limit."""
        match item:
            case LeafNode(symbol):
                return self.rates.symbol_count(symbol)
            case LoopNode(items):
                events = sum(self.rates.symbol_count(each.symbol) for each in items if isinstance(each, LeafNode))
                window = events / self.rates.keys * self.share
                return float(max(events, 1.0) * min(2.0 ** min(window, 60.0), MOST_PATHS))


def join_cost(sizes: Cardinalities, outer: Bits, inner: Bits, prices: Prices = PRICES) -> float:
    """Return the cost of a join: a search for each outer instance, a look at each candidate pair, and the instances
    made.

    Parts of a plain sequence could be left unlisted by a path scan, and no condition keeps them few. So many of them
    cost more than listing does: they take memory, and may come to nothing. Of events that are fed, the instances of a
    side are kept where the other one may have the last event.
    """
    made = sizes.instances(outer | inner)
    cost = prices.node + prices.row * sizes.instances(outer) + prices.pair * sizes.candidate_pairs(outer, inner)
    if not sizes.spec.tests and (outer | inner).bit_count() < len(sizes.spec.items):
        made *= 1 + made / (MANY_PARTS * sizes.events)
    if sizes.rates.are_fed:
        for side, other in ((outer, inner), (inner, outer)):
            if sizes.orders.may_end(other, side):
                cost += prices.kept * sizes.instances(side)
    return cost + prices.instance * made


def tree_join_cost(sizes: Cardinalities, left: Bits, right: Bits, prices: Prices = PRICES) -> float:
    """Return the cost of joining two sides of a tree, whichever of them the engine searches."""
    if is_left_inner(left, right, sizes.spec):
        left, right = right, left
    return join_cost(sizes, left, right, prices)


def path_scan_cost(sizes: Cardinalities, prices: Prices = PRICES) -> float:
    """Return the cost of listing a sequence backwards from its end: a look at each event that may come before.

    Where nothing is compared, every step leads to a path.
    """
    spec, count = sizes.spec, len(sizes.spec.items)
    # More are not listed to the end, or the estimate is wrong.
    paths = min(sizes.instances(bits_of(range(count))), MOST_LISTED * sizes.events)
    if spec.tests:
        steps = sum(sizes.candidate_pairs(bits_of(range(begin, count)), 1 << (begin - 1)) for begin in range(1, count))
    else:
        steps = count * paths
    scan, step, path = prices.scan, prices.step, prices.path
    if sizes.rates.are_fed:
        scan, step, path = prices.fed_scan, prices.fed_step, prices.fed_path
    return scan + prices.scanned * sizes.events + step * steps + path * paths


def estimate_by_counts(spec: JoinSpec, rates: Rates, rarest_first: bool = False) -> float:
    """Return the cost of joining a pattern from the counts of events and how often its conditions hold, guessed where
    that was not measured: in the order of the pattern, or from the rarest event on. O(items + tests), much cheaper
    than estimating a tree.
    """
    if spec.loops:
        return math.inf
    counts = [rates.symbol_count(item.symbol) for item in spec.items if isinstance(item, LeafNode)]
    share, is_ordered = window_share(spec, rates), len(spec.order) == len(counts) * (len(counts) - 1) // 2
    order = sorted(range(len(counts)), key=counts.__getitem__) if rarest_first else range(len(counts))
    place = {str(item): at for at, item in enumerate(order)}
    selectivity, searched, symbols = [1.0] * len(counts), [1.0] * len(counts), symbols_of(spec)
    together: dict[frozenset[str], list[Expression]] = {}
    for test in spec.tests:
        together.setdefault(variables(test), []).append(test)
    for names, tests in together.items():
        at = max(place[name] for name in names)
        selectivity[at] *= rates.joint_selectivity(tests, symbols)
        for test in tests:
            if isinstance(test, Comparison) and test.operator == "=":  # by which inner rows are sorted
                searched[at] = min(searched[at], rates.joint_selectivity([test], symbols))
    made, cost = float(rates.keys), PRICES.row * sum(counts)
    for size, item in enumerate(order, 1):
        looked_at = made * counts[item] / rates.keys / (size if is_ordered else 1)
        made = looked_at * selectivity[size - 1]
        if size > 1:
            in_window = share_in_window(size, share)
            cost += in_window * (PRICES.pair * looked_at * searched[size - 1] + (PRICES.row + PRICES.instance) * made)
    return cost
