"""Which plan a branch runs by: those that there are, each made when it is first looked at, and the cheapest of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from motet.optimizer.aggregate import sharon
from motet.optimizer.aggregate.gloria import gloria
from motet.optimizer.aggregate.rates import frequency_of
from motet.plan.compiled import CompiledQuery
from motet.plan.sharing import Grouping, Sharing, each_alone
from motet.plan.units import Frequency, Merger, Unit, estimated_cost, least_cost_alone, one_each, plan_units

if TYPE_CHECKING:
    from motet.engine.program import Options

SEARCHING = (*sharon.VARIANTS, *gloria.VARIANTS)  # those that look for a plan, and go by statistics
ALL = "all"  # the plan that computes once whatever is equal
PREFIX = "prefix"
NONE = "none"
WINDOWS = "windows"  # on a stream: the plan in which only queries with the same window run together
GIVEN = "given"


class Plans:
    """The plans for the queries of one branch, by name.

    Where all that is equal is computed once, nothing is left to be saved by sharing less of it: no plan of an optimizer
    costs less, so none has to be looked for. On a stream, where beginnings of patterns are shared, queries that run
    together pay for the widest window among them, so there it is worth a look which do.
    """

    def __init__(self, queries: Sequence[CompiledQuery], options: Options, sharing: Sharing | None) -> None:
        self.queries = sorted(queries, key=lambda compiled: compiled.number)
        self.options = options
        self.sharing = sharing
        self._merge = Merger()
        self._made: dict[str, tuple[Unit, ...]] = {}

    @property
    def named(self) -> str | None:
        """The name of the plan that was given or searched for."""
        if self.sharing is None:
            return None
        searched = self.options.optimizer in SEARCHING and not isinstance(self.sharing, Grouping)
        return self.options.optimizer if searched else GIVEN

    @property
    def names(self) -> tuple[str, ...]:
        """All there are, the one that was searched for first."""
        usual = (ALL, WINDOWS, NONE) if self.options.live else (ALL, PREFIX, NONE)
        return usual if self.named is None else (self.named, *usual)

    @cached_property
    def frequency(self) -> Frequency:
        """Events of a symbol for one of an average symbol."""
        known = self.options.statistics
        if known is None:
            return one_each
        found = frequency_of(known)
        symbols = {symbol for compiled in self.queries for symbol in compiled.symbols}
        mean = sum(map(found, symbols)) / max(len(symbols), 1)
        return (lambda symbol: found(symbol) / mean) if mean > 0 else one_each

    def units(self, name: str) -> tuple[Unit, ...]:
        """A plan."""
        if name not in self._made:
            self._made[name] = self._planned(name)
        return self._made[name]

    def cost(self, name: str) -> float:
        """What a plan is estimated to cost."""
        return estimated_cost(self.units(name), self.frequency)

    @property
    def estimates(self) -> dict[str, float]:
        """The costs of the plans that were looked at."""
        return {name: self.cost(name) for name in self.names if name in self._made}

    def chosen(self) -> str:
        """The name of the plan to run: that which was asked for, or the cheapest. What an optimizer found is run unless
        equal prefixes alone are cheaper, which are to be had in any case.
        """
        asked, live = self.options.optimizer, bool(self.options.live)
        if self.named == GIVEN and live:
            return GIVEN
        if self.named is not None:
            beside = ALL if live else PREFIX
            candidates = [self.named, beside] if self.options.windows == "auto" else [self.named]
        elif asked in (NONE, PREFIX):
            # Equal prefixes are all that is shared on a stream.
            candidates = [ALL if asked == PREFIX and live else asked]
        else:
            candidates = [name for name in self.names if name != NONE]
            best = min(map(self.cost, candidates))
            if least_cost_alone(self.queries, self.frequency) < best:
                candidates.append(NONE)
        return min(candidates, key=self.cost)

    def _planned(self, name: str) -> tuple[Unit, ...]:
        queries, merge = self.queries, self._merge
        windows = "live" if self.options.live else self.options.windows
        if name == self.named:
            assert self.sharing is not None
            if self.options.live:
                return plan_units(queries, windows, self.sharing.groups(), merge=merge)
            return plan_units(queries, windows, colours=self.sharing.colours(), merge=merge)
        if name == WINDOWS:
            spans = {compiled.number: compiled.span for compiled in queries}
            return plan_units(queries, windows, spans.__getitem__, merge=merge)
        if name == PREFIX:
            return plan_units(queries, "slots" if windows == "auto" else windows, merge=merge)
        if name == NONE:
            return plan_units(queries, windows, each_alone, merge=merge)
        return plan_units(queries, windows, merge=merge)
