"""The benefit of sharing a pattern: what it saves each query, less what it costs once.

By the equations that the paper prints (1-8), or by what pairs cost our kernels (`motet.plans.pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Protocol

from motet.optimizer.rates import PositionRates
from motet.optimizer.sharon.candidates import Candidate, Place
from motet.plans.compiled import CompiledQuery
from motet.plans.cost import PRICES


class BenefitModel(Protocol):
    """What sharing is worth: a gain for each place, and a cost once, by the printed costs or another executor's."""

    def gain(self, place: Place, length: int) -> float:
        """Return what the query at a place saves if it shares a pattern of so many positions there."""

    def cost(self, candidate: Candidate) -> float:
        """Return the cost of computing the pattern once; not negative."""


@dataclass(frozen=True, slots=True)
class PatternSplit:
    """The rates of a query's positions, split into prefix, shared pattern and suffix (definition 4)."""

    prefix: tuple[float, ...]
    pattern: tuple[float, ...]
    suffix: tuple[float, ...]

    @property
    def not_shared(self) -> float:
        """Equations 1 and 2: every event of the pattern updates one count for each START event."""
        return _sweep_cost((*self.prefix, *self.pattern, *self.suffix))

    @property
    def computation(self) -> float:
        """Equation 4: prefix and suffix on their own."""
        return _sweep_cost(self.prefix) + _sweep_cost(self.suffix)

    @property
    def combination(self) -> float:
        """Equation 5: the product of the numbers of counts of the parts; 0 where the pattern is the whole query."""
        product = 1.0
        for part in (self.prefix, self.pattern, self.suffix):
            product *= part[0] if part else 1.0
        return product if self.prefix or self.suffix else 0.0

    @property
    def shared(self) -> float:
        """Equation 6."""
        return self.computation + self.combination

    @property
    def gain(self) -> float:
        """What a query saves: its part of equation 8."""
        return self.not_shared - self.shared

    @property
    def cost(self) -> float:
        """The pattern on its own: the first term of equation 7."""
        return _sweep_cost(self.pattern)


def _sweep_cost(part: tuple[float, ...]) -> float:
    """Return the cost of a part on its own: every event updates one count for each START event.

    A type that occurs k times is counted k times, because its events update k counts (section VII).
    """
    return part[0] * sum(part) if part else 0.0


@dataclass(frozen=True, slots=True)
class PrintedBenefit:
    """The printed model over given rates. A score adds up over places, so any subset of them is easily valued."""

    rates: PositionRates
    _gains: dict[tuple[Place, int], float] = field(default_factory=dict, compare=False, repr=False)

    def split_pattern(self, place: Place, length: int) -> PatternSplit:
        """Split a query around a pattern of so many positions."""
        number, offset = place
        rates = self.rates[number]
        return PatternSplit(rates[:offset], rates[offset : offset + length], rates[offset + length :])

    def gain(self, place: Place, length: int) -> float:
        known = self._gains.get((place, length))
        if known is None:
            known = self._gains[place, length] = self.split_pattern(place, length).gain
        return known

    def cost(self, candidate: Candidate) -> float:
        """Return the cost of computing the pattern once, for the longest of the windows that use it."""
        length = len(candidate.symbols)
        return max(self.split_pattern(place, length).cost for place in candidate.places)


@dataclass(frozen=True, slots=True)
class CalibratedBenefit:
    """What pairs cost our kernels, in nanoseconds per window of one partition.

    Each event of a pattern of n positions steps as many pairs as there are positions before it in the pattern, and one
    more; its n (n + 1) / 2 pairs are emptied for every pane. Shared, they are computed once.
    """

    rates: PositionRates
    panes: Mapping[int, float]  # in a window, by number of a query

    @staticmethod
    def of(queries: Sequence[CompiledQuery], rates: PositionRates) -> CalibratedBenefit:
        spans = {compiled.number: compiled.span for compiled in queries}
        panes = {number: span.within / (gcd(span.within, span.slide) or 1) for number, span in spans.items()}
        return CalibratedBenefit(rates, panes)

    def gain(self, place: Place, length: int) -> float:
        number, offset = place
        lanes = sum(rate * at for at, rate in enumerate(self.rates[number][offset : offset + length], 1))
        pairs = length * (length + 1) / 2
        return PRICES["pair lane"] * lanes + PRICES["pair total"] * pairs * self.panes[number]

    def cost(self, candidate: Candidate) -> float:
        """Return the cost of computing the pattern once, for the query that it costs most."""
        return max(self.gain(place, len(candidate.symbols)) for place in candidate.places)


BENEFIT_MODELS: dict[str, Callable[[Sequence[CompiledQuery], PositionRates], BenefitModel]] = {
    "printed": lambda queries, rates: PrintedBenefit(rates),
    "calibrated": CalibratedBenefit.of,
}
