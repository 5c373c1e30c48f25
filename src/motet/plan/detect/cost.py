"""What a join tree costs: how many instances each of its nodes makes, and how many pairs it looks at for them.

The expected number of instances is that of the multi-pattern paper (section 3.3): rates, windows and selectivities
multiplied; here also the share of combinations that are in order, since only those are ever looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from motet.model.expression import (
    Comparison,
    Expression,
    Inverse,
    IsNull,
    Like,
    Logical,
    Membership,
    attributes,
    variables,
)
from motet.model.names import renamed
from motet.plan.detect.build import Parts
from motet.plan.detect.nodes import ItemNode, LeafNode, LoopNode
from motet.template.symbols import Symbol

MOST_PATHS = 1e7


@dataclass(frozen=True)
class Prices:
    """What our kernels take, in nanoseconds, fitted to runs over 20,000 events: for a node at all, an event that is
    read, an outer instance that is searched for, a pair that is looked at, an instance that is made, one that comes to
    a filter; for an event of a sequence that is walked, and a step on its paths.
    """

    node: float = 80_000.0
    event: float = 4.0
    row: float = 25.0
    pair: float = 25.0
    instance: float = 50.0
    sifted: float = 11.0
    walked: float = 300.0
    step: float = 300.0


PRICES = Prices()

# A test over variables "0", "1", ... and the symbol of each.
Measured = tuple[Expression, tuple[Symbol, ...]]


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

    def of_symbol(self, symbol: Symbol) -> float:
        return max(self.counts.get(symbol, 1000.0 if not self.counts else 0.0), 1e-3)

    def of_test(self, test: Expression, symbols: Mapping[str, Symbol]) -> float:
        """The share of combinations that satisfy a test; `symbols` are those of its variables."""
        known = self.selectivity and symbols.keys() == variables(test)
        measured = self.selectivity.get(measured_test(test, symbols)) if known else None
        return guess(test) if measured is None else max(measured, 1e-4)


def measured_test(test: Expression, symbols: Mapping[str, Symbol]) -> Measured:
    """A test whatever its variables are called: they are numbered as it speaks of them, each with its symbol."""
    names = list(dict.fromkeys(attribute.variable for attribute in attributes(test)))
    return renamed(test, {name: str(at) for at, name in enumerate(names)}), tuple(symbols[name] for name in names)


def guess(test: Expression) -> float:
    """The share of events that satisfy a condition of which nothing is known."""
    match test:
        case Comparison("="):
            return 0.1
        case Comparison("!="):
            return 0.9
        case Comparison():
            return 0.4
        case Logical("AND", parts):
            return math.prod(map(guess, parts))
        case Logical(_, parts):
            return 1 - math.prod(1 - guess(part) for part in parts)
        case Inverse(operand):
            return 1 - guess(operand)
        case IsNull(_, negated):
            return 0.9 if negated else 0.1
        case Membership(_, options, negated):
            share = min(0.1 * len(options), 0.9)
            return 1 - share if negated else share
        case Like(_, _, negated):
            return 0.8 if negated else 0.2
    return 0.5


def window_share(parts: Parts, rates: Rates) -> float:
    """The share of a stream that a window holds."""
    if parts.within:
        return min(parts.within / rates.duration, 1.0)
    if parts.rows and rates.events:
        return min(parts.rows * rates.keys / rates.events, 1.0)
    return 1.0


@dataclass
class Sizes:
    """The expected number of instances of any set of a reading's items."""

    parts: Parts
    rates: Rates
    known: dict[frozenset[int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.share = window_share(self.parts, self.rates)
        symbols = {str(at): item.symbol for at, item in enumerate(self.parts.items) if isinstance(item, LeafNode)}
        self.tests = []
        for test in self.parts.tests:
            names = variables(test)
            own = {name: symbol for name, symbol in symbols.items() if name in names}
            self.tests.append((frozenset(map(int, names)), self.rates.of_test(test, own)))
        self.extensions = cache(self._extensions)

    def of(self, items: frozenset[int]) -> float:
        """Instances in all."""
        if items not in self.known:
            selectivity = math.prod(share for used, share in self.tests if used <= items)
            self.known[items] = self._combinations(items) * selectivity
        return self.known[items]

    def looked_at(self, left: frozenset[int], right: frozenset[int]) -> float:
        """Pairs that joining two sets looks at."""
        together = self._combinations(left | right)
        seen = self._combinations(left) * self._combinations(right)
        return self.of(left) * self.of(right) * together / max(seen, 1e-300)

    def _combinations(self, items: frozenset[int]) -> float:
        """Combinations in the window and in order."""
        keys = self.rates.keys
        per_key = math.prod(self.of_item(self.parts.items[item]) / keys for item in items)
        in_order = self.extensions(items) / math.factorial(len(items))
        return float(keys * per_key * self.share ** (len(items) - 1) * in_order)

    def _extensions(self, items: frozenset[int]) -> int:
        """In how many orders the items may come."""
        if len(items) <= 1:
            return 1
        last = [i for i in items if not any((i, other) in self.parts.order for other in items)]
        return sum(self.extensions(items - {i}) for i in last)

    def of_item(self, item: ItemNode) -> float:
        """Instances of one item; for a loop, the subsets of its events in a window, up to a limit."""
        match item:
            case LeafNode(symbol):
                return self.rates.of_symbol(symbol)
            case LoopNode(items):
                events = sum(self.rates.of_symbol(each.symbol) for each in items if isinstance(each, LeafNode))
                window = events / self.rates.keys * self.share
                return float(max(events, 1.0) * min(2.0 ** min(window, 60.0), MOST_PATHS))


def join_cost(sizes: Sizes, outer: frozenset[int], inner: frozenset[int], prices: Prices = PRICES) -> float:
    """One join: a search for each outer instance, a look at each pair that may fit, and what is made."""
    return (
        prices.node
        + prices.row * sizes.of(outer)
        + prices.pair * sizes.looked_at(outer, inner)
        + prices.instance * sizes.of(outer | inner)
    )


def walk_cost(sizes: Sizes, prices: Prices = PRICES) -> float:
    """Listing a sequence from its end backwards: where nothing is compared, no step is in vain."""
    parts, count = sizes.parts, len(sizes.parts.items)
    begun = [frozenset(range(begin, count)) for begin in range(count)]
    steps = sum(map(sizes.of, begun)) if parts.tests or parts.gaps else count * sizes.of(begun[0])
    return prices.node + prices.walked * sum(map(sizes.of_item, parts.items)) + prices.step * steps
