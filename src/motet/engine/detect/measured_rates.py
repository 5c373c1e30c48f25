"""Measure the rates and selectivities that plans are costed with from events.

Selectivities are estimated from a sample of events that lie in windows together: a few intervals of a window's length
are drawn, and in each a few events of each symbol. Two symbols and a condition make a matrix; several conditions on the
same events are products of those matrices, so many more combinations are counted than could be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.compile import Program
from motet.compile.detect import DetectBranch
from motet.compile.stated_rates import conditions_to_measure
from motet.engine.encode import EncodedEvents, Ints, encode_branch
from motet.engine.expressions import evaluate, evaluate_condition
from motet.errors import DataError
from motet.model.expression import Attribute, Comparison, Expression, attributes, conjuncts, variables
from motet.plans.detect.cost import Rates
from motet.plans.detect.selectivity import TypedTest, make_typed_test
from motet.template.symbols import Symbol, strip_variables

Floats = NDArray[np.float64]


def _are_different(x: Floats, y: Floats) -> NDArray[np.bool_]:
    """Return where two values are known to be different."""
    return (x < y) | (x > y)


_COMPARE: dict[str, Callable[[Floats, Floats], NDArray[np.bool_]]] = {
    "=": np.equal,
    "!=": _are_different,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
INTERVALS = 16
EVENTS = 32  # of a symbol in an interval


def measure_rates(branch: DetectBranch, encoded: EncodedEvents) -> Rates:
    """Count the events of each symbol, and estimate how often conditions hold for events in one window."""
    return replace(count_symbols(encoded), selectivity=_selectivities(branch, encoded))


def count_symbols(encoded: EncodedEvents) -> Rates:
    """Count the events of each symbol."""
    sizes = np.bincount(encoded.klass, minlength=len(encoded.classes))
    counts: dict[Symbol, float] = {}
    for found, size in zip(encoded.classes, sizes, strict=True):
        for symbol in found:
            counts[symbol] = counts.get(symbol, 0.0) + float(size)
    keys = int((np.diff(encoded.offsets) > 0).sum())
    duration = float(encoded.time.max() - encoded.time.min() + 1) if len(encoded.time) else 1.0
    return Rates(counts, duration, max(keys, 1), events=float(len(encoded.time)))


def measure_selectivities(program: Program, table: pa.Table) -> dict[TypedTest, float]:
    """Estimate how often the conditions of all detection queries hold, each and jointly.

    The table may lack columns that are only returned.
    """
    found: dict[TypedTest, float] = {}
    for branch in program.detect:
        events = table.select([name for name in branch.columns if name in table.column_names])
        encoded = encode_branch(program, branch, events)
        found |= {test: share for test, share in _selectivities(branch, encoded).items() if test not in found}
    return found


def _selectivities(branch: DetectBranch, encoded: EncodedEvents) -> dict[TypedTest, float]:
    """Estimate selectivities in the largest window of the queries."""
    spans = [query.span for query in branch.queries]
    endless = any(span.within == 0 for span in spans)
    within = max((span.within for span in spans if not span.ranked), default=0)
    rows = 0 if within else max((span.within - 1 for span in spans if span.ranked), default=0)
    sample = EventSample(encoded) if endless else EventSample(encoded, within, rows)
    shares = {test: sample.share(test) for test in dict.fromkeys(conditions_to_measure(branch))}
    return {test: share for test, share in shares.items() if share is not None}


class DrawnEvents(NamedTuple):
    """Events drawn for a symbol: for each interval a row of them, and which places of the row are used."""

    events: Ints
    present: NDArray[np.bool_]


class EventSample:
    """Events drawn from intervals of one length: `within` microseconds, or `rows` events; of all events of a key where
    neither is given. The same events give the same sample.
    """

    def __init__(self, encoded: EncodedEvents, within: int = 0, rows: int = 0) -> None:
        self.encoded = encoded
        self._dice = np.random.default_rng(0)
        self._intervals = [self._draw_interval(int(at), within, rows) for at in self._draw_starts()]
        self._drawn: dict[Symbol, DrawnEvents] = {}
        self._matrices: dict[TypedTest, Floats] = {}
        self._sides: dict[tuple[Expression, Symbol], Floats | None] = {}

    def _draw_starts(self) -> Ints:
        count = len(self.encoded.time)
        return self._dice.integers(0, count, INTERVALS) if count else np.zeros(0, np.int64)

    def _draw_interval(self, begin: int, within: int, rows: int) -> tuple[int, int]:
        """Return the events of a key from `begin` on that a window holds, or all of the key's."""
        offsets, time = self.encoded.offsets, self.encoded.time
        key = int(np.searchsorted(offsets, begin, "right")) - 1
        first, last = int(offsets[key]), int(offsets[key + 1])
        if rows:
            return begin, min(begin + rows, last)
        if within:
            return begin, begin + int(np.searchsorted(time[begin:last], time[begin] + within))
        return first, last

    def share(self, measured: TypedTest) -> float | None:
        """Return the share of combinations that satisfy a condition, or several at once.

        None where that takes too much or cannot be computed for some events: running the query reports that error.
        Where there are no such events, the share is 1.
        """
        try:
            return self._share(*measured)
        except DataError:
            return None

    def _share(self, test: Expression, symbols: Sequence[Symbol]) -> float | None:
        drawn = [self._draw_events(symbol) for symbol in symbols]
        combinations = sum(np.prod([each.present.sum(axis=1) for each in drawn], axis=0))
        if not combinations:
            return 1.0
        factors: dict[tuple[int, int], Floats] = {}
        for part in conjuncts(test):
            one, other = sorted(map(int, variables(part)))
            matrix = self._matrix(part, one, other, symbols)
            factors[one, other] = factors[one, other] * matrix if (one, other) in factors else matrix
        satisfied = _sum_products([each.present.astype(np.float64) for each in drawn], factors)
        return None if satisfied is None else float(satisfied / combinations)

    def _draw_events(self, symbol: Symbol) -> DrawnEvents:
        if symbol not in self._drawn:
            wanted = np.array([symbol in found for found in self.encoded.classes], np.bool_)
            found = DrawnEvents(
                np.zeros((len(self._intervals), EVENTS), np.int64), np.zeros((len(self._intervals), EVENTS), np.bool_)
            )
            for at, (begin, end) in enumerate(self._intervals):
                events = begin + np.flatnonzero(wanted[self.encoded.klass[begin:end]])
                if len(events) > EVENTS:
                    events = self._dice.choice(events, EVENTS, replace=False)
                found.events[at, : len(events)] = events
                found.present[at, : len(events)] = True
            self._drawn[symbol] = found
        return self._drawn[symbol]

    def _matrix(self, test: Expression, one: int, other: int, symbols: Sequence[Symbol]) -> Floats:
        """For each interval, return which events drawn for one item satisfy a test with which of another."""
        key = make_typed_test(test, {str(item): symbols[item] for item in (one, other)})
        if key not in self._matrices:
            self._matrices[key] = self._test_pairs(*key)
        # A matrix has its rows by the event that the test speaks of first.
        turned = attributes(test)[0].variable != str(one)
        return self._matrices[key].transpose(0, 2, 1) if turned else self._matrices[key]

    def _side(self, expression: Expression, symbol: Symbol) -> Floats | None:
        """Return a number for each event that was drawn for a symbol, null as NaN; None for what is no number."""
        key = strip_variables(expression), symbol
        if key not in self._sides:
            self._sides[key] = self._compute_side(*key)
        return self._sides[key]

    def _compute_side(self, expression: Expression, symbol: Symbol) -> Floats | None:
        drawn = self._draw_events(symbol)
        places = pa.array(drawn.events.ravel())
        found = evaluate(expression, lambda attribute: self.encoded.column(attribute.name).take(places), len(places))
        if not (pa.types.is_floating(found.type) or pa.types.is_integer(found.type)):
            return None
        numbers: Floats = found.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return numbers.reshape(drawn.events.shape)

    def _test_pairs(self, test: Expression, symbols: Sequence[Symbol]) -> Floats:
        rows, columns = (self._draw_events(symbol) for symbol in symbols)
        match test:
            case Comparison(operator, left, right) if variables(left) == {"0"} and variables(right) == {"1"}:
                x, y = self._side(left, symbols[0]), self._side(right, symbols[1])
                if x is not None and y is not None:
                    holds = _COMPARE[operator](x[:, :, None], y[:, None, :]) & rows.present[:, :, None]
                    apart = rows.events[:, :, None] != columns.events[:, None, :]
                    shares: Floats = (holds & columns.present[:, None, :] & apart).astype(np.float64)
                    return shares
        shape = (len(self._intervals), EVENTS, EVENTS)
        events = {
            "0": np.broadcast_to(rows.events[:, :, None], shape).ravel(),
            "1": np.broadcast_to(columns.events[:, None, :], shape).ravel(),
        }
        present = (rows.present[:, :, None] & columns.present[:, None, :]).ravel()
        # Nobody asks whether an event satisfies a condition with itself.
        both = np.flatnonzero(present & (events["0"] != events["1"]))
        places: Mapping[str, Any] = {name: pa.array(each[both]) for name, each in events.items()}

        def column(attribute: Attribute) -> pa.Array:
            return self.encoded.column(attribute.name).take(places[attribute.variable])

        found = np.zeros(present.size)
        found[both] = evaluate_condition(test, column, len(both))
        return found.reshape(shape)


def _sum_products(weights: list[Floats], factors: dict[tuple[int, int], Floats]) -> float | None:
    """Return the sum over all combinations of the product of weights and factors; None where it takes too much.

    Items are eliminated one by one: an item with one neighbour goes into the weight of that one, an item with two into
    a factor between them. None where all items left have more.
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
