"""What a join tree costs: how many instances each of its nodes makes, and how many pairs it looks at for them.

The expected number of instances is that of the multi-pattern paper (section 3.3): rates, windows and selectivities
multiplied; here also the share of combinations that are in order, since only those are ever looked at, and conditions
on the same events taken together where that was measured: prices that go up twice are rarer than twice going up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from motet.model.expression import Expression, variables
from motet.plan.detect.build import Parts, left_is_inner
from motet.plan.detect.nodes import ItemNode, LeafNode, LoopNode
from motet.plan.detect.selectivity import (
    Measured,
    grouped,
    guess,
    is_equality,
    measured_test,
    measured_together,
    symbols_of,
)
from motet.plan.detect.spans import Bits, bits_of, fitting, items_of, orders_of
from motet.template.symbols import Symbol

MOST_PATHS = 1e7
LEAST_SHARE = 1e-4  # that a test never holds was not seen of enough pairs


@dataclass(frozen=True)
class Prices:
    """What our kernels take, in nanoseconds, fitted to runs by `benchmarks/prices.py`: for a node at all, an event that
    is read, an outer instance that is searched for, a pair that is looked at, an instance that is made, one that comes
    to a filter; for an event of a sequence that is walked, a step back from one event that is looked at, and a path.
    """

    node: float = 75_000.0
    event: float = 4.0
    row: float = 80.0
    pair: float = 5.5
    instance: float = 50.0
    sifted: float = 25.0
    walked: float = 100.0
    step: float = 430.0
    path: float = 590.0


PRICES = Prices()


@dataclass(frozen=True)
class Rates:
    """How many events of each symbol there are, over how long in microseconds and how many keys, how often tests hold
    where that was measured, and how many events there are in all. Without counts all symbols are as frequent.
    """

    counts: Mapping[Symbol, float] = field(default_factory=dict)
    duration: float = 1.0
    keys: int = 1
    selectivity: Mapping[Measured, float] = field(default_factory=dict)
    events: float = 0.0
    _together: dict[tuple[object, ...], float] = field(default_factory=dict, init=False, compare=False, repr=False)

    def of_symbol(self, symbol: Symbol) -> float:
        return max(self.counts.get(symbol, 1000.0 if not self.counts else 0.0), 1e-3)

    def of_test(self, test: Expression, symbols: Mapping[str, Symbol]) -> float:
        """The share of combinations that satisfy a test; `symbols` has those of its variables."""
        known = self.selectivity and variables(test) <= symbols.keys()
        measured = self.selectivity.get(measured_test(test, symbols)) if known else None
        return guess(test) if measured is None else max(measured, LEAST_SHARE)

    def of_tests(self, tests: Sequence[Expression], symbols: Mapping[str, Symbol]) -> float:
        """The share of combinations that satisfy all of some tests; each by itself where they were not measured
        together.
        """
        names = sorted(frozenset().union(*map(variables, tests)))
        key = (*tests, *((name, symbols.get(name)) for name in names))
        known = self._together.get(key)
        if known is None:
            known = self._together[key] = self._of_tests(tests, symbols)
        return known

    def _of_tests(self, tests: Sequence[Expression], symbols: Mapping[str, Symbol]) -> float:
        if len(tests) > 1 and self.selectivity and all(variables(test) <= symbols.keys() for test in tests):
            measured = self.selectivity.get(measured_together(tests, symbols))
            if measured is not None:
                return max(measured, LEAST_SHARE ** len(tests))
        return math.prod(self.of_test(test, symbols) for test in tests)


def window_share(parts: Parts, rates: Rates) -> float:
    """The share of a stream that a window holds."""
    if parts.within:
        return min(parts.within / rates.duration, 1.0)
    if parts.rows and rates.events:
        return min(parts.rows * rates.keys / rates.events, 1.0)
    return 1.0


class Sizes:
    """The expected number of instances of any set of a reading's items, for its own window or another share of the
    stream.
    """

    def __init__(self, parts: Parts, rates: Rates, share: float | None = None) -> None:
        self.parts = parts
        self.rates = rates
        self.share = window_share(parts, rates) if share is None else share
        self.orders = orders_of(parts.order)
        self._symbols = symbols_of(parts)
        self._tests = sorted(parts.tests, key=repr)
        self._used = [bits_of(map(int, variables(test))) for test in self._tests]
        self._equal = [number for number, test in enumerate(self._tests) if is_equality(test)]
        self._counts = [self.of_item(item) for item in parts.items]
        self._together: dict[tuple[int, ...], float] = {}
        self._passing: dict[Bits, float] = {}
        self._made: dict[Bits, float] = {}

    def of(self, items: frozenset[int]) -> float:
        """Instances in all."""
        return self.made(bits_of(items))

    def made(self, items: Bits) -> float:
        """The same of items as bits."""
        known = self._made.get(items)
        if known is None:
            known = self._made[items] = self.combinations(items) * self.passing(items)
        return known

    def looked_at(self, outer: Bits, inner: Bits) -> float:
        """Pairs that a join looks at: those that its search by time finds, and by an equal value where there is one."""
        near, far = self.orders.searched(outer, inner)
        found = self.share * ((1 - self.share) * near + self.share * far)
        for number in self._equal:
            used = self._used[number]
            if used & outer and used & inner and not used & ~(outer | inner):
                found *= self._share((number,))
                break
        return self.made(outer) * self.made(inner) / self.rates.keys * found

    def passing(self, items: Bits) -> float:
        """The share of combinations that pass the tests among some items."""
        known = self._passing.get(items)
        if known is None:
            inside = [number for number, used in enumerate(self._used) if not used & ~items]
            groups = grouped([self._used[number] for number in inside])
            known = math.prod(self._share(tuple(inside[at] for at in group)) for group in groups)
            self._passing[items] = known
        return known

    def _share(self, numbers: tuple[int, ...]) -> float:
        if numbers not in self._together:
            tests = [self._tests[number] for number in numbers]
            self._together[numbers] = self.rates.of_tests(tests, self._symbols)
        return self._together[numbers]

    def combinations(self, items: Bits) -> float:
        """Combinations in the window and in order."""
        keys = self.rates.keys
        per_key = math.prod(self._counts[item] / keys for item in items_of(items))
        return keys * per_key * fitting(items.bit_count(), self.share) * self.orders.chance(items)

    def of_item(self, item: ItemNode) -> float:
        """Instances of one item; for a loop, the subsets of its events in a window, up to a limit."""
        match item:
            case LeafNode(symbol):
                return self.rates.of_symbol(symbol)
            case LoopNode(items):
                events = sum(self.rates.of_symbol(each.symbol) for each in items if isinstance(each, LeafNode))
                window = events / self.rates.keys * self.share
                return float(max(events, 1.0) * min(2.0 ** min(window, 60.0), MOST_PATHS))


def join_cost(sizes: Sizes, outer: Bits, inner: Bits, prices: Prices = PRICES) -> float:
    """One join: a search for each outer instance, a look at each pair that may fit, and what is made."""
    return (
        prices.node
        + prices.row * sizes.made(outer)
        + prices.pair * sizes.looked_at(outer, inner)
        + prices.instance * sizes.made(outer | inner)
    )


def cost_of_join(sizes: Sizes, left: Bits, right: Bits, prices: Prices = PRICES) -> float:
    """The same for two sides of a tree, whichever the engine searches in."""
    if left_is_inner(left, right, sizes.parts):
        left, right = right, left
    return join_cost(sizes, left, right, prices)


def walk_cost(sizes: Sizes, prices: Prices = PRICES) -> float:
    """Listing a sequence from its end backwards: a look at each event that may come before what is there; where nothing
    is compared, no step is in vain.
    """
    parts, count = sizes.parts, len(sizes.parts.items)
    every = bits_of(range(count))
    if parts.tests or parts.gaps:
        steps = sum(sizes.looked_at(bits_of(range(begin, count)), 1 << (begin - 1)) for begin in range(1, count))
    else:
        steps = count * sizes.made(every)
    walked = prices.walked * sum(map(sizes.of_item, parts.items))
    return prices.node + walked + prices.step * steps + prices.path * sizes.made(every)
