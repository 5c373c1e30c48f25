"""The benefit of sharing a run: what it saves each query, less what the run costs once (Sharon, equations 1-8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from motet.optimizer.rates import PositionRates
from motet.optimizer.sharon.candidates import Candidate, Place


class BenefitModel(Protocol):
    """What sharing is worth: a gain for each place, and a cost once for the run. Searches need no more, so a model of
    another executor's costs can take the place of the printed one.
    """

    def gain(self, place: Place, length: int) -> float:
        """What the query at a place saves if it shares a run of so many positions there."""

    def cost(self, candidate: Candidate) -> float:
        """What it costs to compute the run once; not negative."""


@dataclass(frozen=True, slots=True)
class PatternSplit:
    """The rates of a query's positions, cut into prefix, shared run and suffix (definition 4)."""

    prefix: tuple[float, ...]
    run: tuple[float, ...]
    suffix: tuple[float, ...]

    @property
    def not_shared(self) -> float:
        """Equations 1 and 2: every event of the pattern updates one count for each START event."""
        pattern = (*self.prefix, *self.run, *self.suffix)
        return pattern[0] * sum(pattern)

    @property
    def computation(self) -> float:
        """Equation 4: prefix and suffix on their own."""
        return _sweep_cost(self.prefix) + _sweep_cost(self.suffix)

    @property
    def combination(self) -> float:
        """Equation 5: the product of the numbers of counts, of the parts that there are; 0 where the run is all."""
        product = 1.0
        for part in (self.prefix, self.run, self.suffix):
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
        """The run on its own: the first term of equation 7."""
        return _sweep_cost(self.run)


def _sweep_cost(part: tuple[float, ...]) -> float:
    """A part computed on its own: every event updates one count for each START event. A type that occurs k times is
    counted k times, because its events update k counts (section VII).
    """
    return part[0] * sum(part) if part else 0.0


@dataclass(frozen=True, slots=True)
class PrintedBenefit:
    """The printed model over given rates. A score adds up over places, so any subset of them is easily valued."""

    rates: PositionRates
    _gains: dict[tuple[Place, int], float] = field(default_factory=dict, compare=False, repr=False)

    def split_pattern(self, place: Place, length: int) -> PatternSplit:
        """A query around a run of so many positions."""
        number, offset = place
        rates = self.rates[number]
        return PatternSplit(rates[:offset], rates[offset : offset + length], rates[offset + length :])

    def gain(self, place: Place, length: int) -> float:
        known = self._gains.get((place, length))
        if known is None:
            known = self._gains[place, length] = self.split_pattern(place, length).gain
        return known

    def cost(self, candidate: Candidate) -> float:
        """The run computed once, for the longest of the windows that use it."""
        length = len(candidate.symbols)
        return max(self.split_pattern(place, length).cost for place in candidate.places)
