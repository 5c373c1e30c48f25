"""A sample of events that lie in windows together, and the share of their combinations that satisfies conditions.

A few stretches of a window's length are looked at, in each a few events of each symbol. Two events and a condition make
a matrix; several conditions on the same events are those matrices multiplied, so that many more combinations are
counted than could be listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.encode import Encoded, Ints
from motet.engine.expressions import holds
from motet.errors import DataError
from motet.model.expression import Attribute, Expression, attributes, conjuncts, variables
from motet.plan.detect.selectivity import Measured, measured_test
from motet.template.symbols import Symbol

STRETCHES = 16
EVENTS = 32  # of a symbol in a stretch
Floats = NDArray[np.float64]


class Drawn(NamedTuple):
    """Events of a symbol: for each stretch a row of them, and which of its places are taken."""

    events: Ints
    taken: NDArray[np.bool_]


class Sample:
    """Events drawn from stretches of one length: in microseconds, or in events where `rows` is given; without end where
    neither is. The same events give the same sample.
    """

    def __init__(self, encoded: Encoded, within: int = 0, rows: int = 0) -> None:
        self.encoded = encoded
        self._dice = np.random.default_rng(0)
        self._stretches = [self._stretch(int(at), within, rows) for at in self._begins()]
        self._drawn: dict[Symbol, Drawn] = {}
        self._matrices: dict[Measured, Floats] = {}

    def _begins(self) -> Ints:
        count = len(self.encoded.time)
        return self._dice.integers(0, count, STRETCHES) if count else np.zeros(0, np.int64)

    def _stretch(self, begin: int, within: int, rows: int) -> tuple[int, int]:
        """The events of a key from one on that a window holds, all of the key's where it has no end."""
        offsets, time = self.encoded.offsets, self.encoded.time
        key = int(np.searchsorted(offsets, begin, "right")) - 1
        first, last = int(offsets[key]), int(offsets[key + 1])
        if rows:
            return begin, min(begin + rows, last)
        if within:
            return begin, begin + int(np.searchsorted(time[begin:last], time[begin] + within))
        return first, last

    def share(self, measured: Measured) -> float | None:
        """The share of combinations that satisfy a condition, or several at once; None where that takes too much, or
        where it cannot be computed for some: who runs the query says so, if it comes to that. Where there are no such
        events, all do.
        """
        try:
            return self._share(*measured)
        except DataError:
            return None

    def _share(self, test: Expression, symbols: Sequence[Symbol]) -> float | None:
        drawn = [self._of_symbol(symbol) for symbol in symbols]
        combinations = sum(np.prod([each.taken.sum(axis=1) for each in drawn], axis=0))
        if not combinations:
            return 1.0
        factors: dict[tuple[int, int], Floats] = {}
        for part in conjuncts(test):
            one, other = sorted(map(int, variables(part)))
            matrix = self._matrix(part, one, other, symbols)
            factors[one, other] = factors[one, other] * matrix if (one, other) in factors else matrix
        satisfied = _contracted([each.taken.astype(np.float64) for each in drawn], factors)
        return None if satisfied is None else float(satisfied / combinations)

    def _of_symbol(self, symbol: Symbol) -> Drawn:
        if symbol not in self._drawn:
            wanted = np.array([symbol in found for found in self.encoded.classes], np.bool_)
            found = Drawn(
                np.zeros((len(self._stretches), EVENTS), np.int64), np.zeros((len(self._stretches), EVENTS), np.bool_)
            )
            for at, (begin, end) in enumerate(self._stretches):
                events = begin + np.flatnonzero(wanted[self.encoded.klass[begin:end]])
                if len(events) > EVENTS:
                    events = self._dice.choice(events, EVENTS, replace=False)
                found.events[at, : len(events)] = events
                found.taken[at, : len(events)] = True
            self._drawn[symbol] = found
        return self._drawn[symbol]

    def _matrix(self, test: Expression, one: int, other: int, symbols: Sequence[Symbol]) -> Floats:
        """For each stretch: which of the events drawn for one item satisfy a test with which of those for another."""
        key = measured_test(test, {str(item): symbols[item] for item in (one, other)})
        if key not in self._matrices:
            self._matrices[key] = self._tested(*key)
        # A matrix has its rows by the event that the test speaks of first.
        turned = attributes(test)[0].variable != str(one)
        return self._matrices[key].transpose(0, 2, 1) if turned else self._matrices[key]

    def _tested(self, test: Expression, symbols: Sequence[Symbol]) -> Floats:
        rows, columns = (self._of_symbol(symbol) for symbol in symbols)
        shape = (len(self._stretches), EVENTS, EVENTS)
        events = {
            "0": np.broadcast_to(rows.events[:, :, None], shape).ravel(),
            "1": np.broadcast_to(columns.events[:, None, :], shape).ravel(),
        }
        taken = (rows.taken[:, :, None] & columns.taken[:, None, :]).ravel()
        # Nobody asks whether an event satisfies a condition with itself.
        both = np.flatnonzero(taken & (events["0"] != events["1"]))
        places: Mapping[str, Any] = {name: pa.array(each[both]) for name, each in events.items()}

        def column(attribute: Attribute) -> pa.Array:
            return self.encoded.column(attribute.name).take(places[attribute.variable])

        found = np.zeros(taken.size)
        found[both] = holds(test, column, len(both))
        return found.reshape(shape)


def _contracted(weights: list[Floats], factors: dict[tuple[int, int], Floats]) -> float | None:
    """The sum over all combinations of the product of weights and factors, item by item: an item with one neighbour
    goes into that one's weight, one with two into a factor between them. None where all that are left have more.
    """
    left = set(range(len(weights)))
    while len(left) > 1:
        around = {item: [pair for pair in factors if item in pair] for item in left}
        item = min(left, key=lambda each: (len(around[each]), each))
        pairs = around[item]
        if len(pairs) > 2:
            return None
        sides = []
        for pair in pairs:
            matrix = factors.pop(pair)
            other = pair[0] if pair[1] == item else pair[1]
            sides.append((other, matrix if pair[0] == item else matrix.transpose(0, 2, 1)))
        left.remove(item)
        if len(sides) == 1:
            other, matrix = sides[0]
            weights[other] = weights[other] * (weights[item][:, None, :] @ matrix)[:, 0, :]
        else:
            (one, ours), (other, theirs) = sorted(sides, key=lambda side: side[0])
            between = (ours * weights[item][:, :, None]).transpose(0, 2, 1) @ theirs
            factors[one, other] = factors[one, other] * between if (one, other) in factors else between
    (last,) = left
    return float(weights[last].sum())
