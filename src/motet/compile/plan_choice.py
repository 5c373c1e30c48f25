"""Choose the plan of a branch: the cheapest candidate, each built when it is first considered."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from motet.optimizer.rates import symbol_frequency
from motet.optimizer.registry import is_sharing_optimizer
from motet.options import Options
from motet.plans.compiled import CompiledQuery
from motet.plans.sharing import Grouping, Sharing, group_singly
from motet.plans.units import (
    Frequency,
    MergeCache,
    Unit,
    estimate_cost,
    estimate_unshared_cost,
    plan_units,
    uniform_frequency,
)

ALL = "all"  # the plan that computes once whatever is equal
PREFIX = "prefix"
NONE = "none"
WINDOWS = "windows"  # on a stream: the plan in which only queries with the same window run together
GIVEN = "given"


class PlanCandidates:
    """The candidate plans for the queries of one branch, by name.

    The plan `all` computes everything that is equal once, so no plan of an optimizer can cost less, and none has to be
    searched for. On a stream, where prefixes are shared, queries that run together pay for the widest window among
    them, so there it is worth comparing which of them do.
    """

    def __init__(self, queries: Sequence[CompiledQuery], options: Options, sharing: Sharing | None) -> None:
        self.queries = sorted(queries, key=lambda compiled: compiled.number)
        self.options = options
        self.sharing = sharing
        self._merge = MergeCache()
        self._units: dict[str, tuple[Unit, ...]] = {}

    @property
    def given_name(self) -> str | None:
        """The name of the plan that was given or searched for."""
        if self.sharing is None:
            return None
        searched = is_sharing_optimizer(self.options.optimizer) and not isinstance(self.sharing, Grouping)
        return self.options.optimizer if searched else GIVEN

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all candidates, a searched one first."""
        usual = (ALL, WINDOWS, NONE) if self.options.mode else (ALL, PREFIX, NONE)
        return usual if self.given_name is None else (self.given_name, *usual)

    @cached_property
    def frequency(self) -> Frequency:
        """The frequency of a symbol relative to the average symbol."""
        known = self.options.statistics
        if known is None:
            return uniform_frequency
        found = symbol_frequency(known)
        symbols = {symbol for compiled in self.queries for symbol in compiled.symbols}
        mean = sum(map(found, symbols)) / max(len(symbols), 1)
        return (lambda symbol: found(symbol) / mean) if mean > 0 else uniform_frequency

    def units(self, name: str) -> tuple[Unit, ...]:
        """Return the units of a plan."""
        if name not in self._units:
            self._units[name] = self._build(name)
        return self._units[name]

    def cost(self, name: str) -> float:
        """Return the estimated cost of a plan."""
        return estimate_cost(self.units(name), self.frequency)

    @property
    def estimates(self) -> dict[str, float]:
        """The costs of the plans that were considered."""
        return {name: self.cost(name) for name in self.names if name in self._units}

    def choose(self) -> str:
        """Return the name of the plan to run: the requested one, or the cheapest.

        A plan that an optimizer found runs unless sharing equal prefixes alone is cheaper.
        """
        optimizer, live = self.options.optimizer, bool(self.options.mode)
        if self.given_name == GIVEN and live:
            return GIVEN
        if self.given_name is not None:
            beside = ALL if live else PREFIX
            candidates = [self.given_name, beside] if self.options.windows == "auto" else [self.given_name]
        elif optimizer in (NONE, PREFIX):
            # Equal prefixes are all that is shared on a stream.
            candidates = [ALL if optimizer == PREFIX and live else optimizer]
        else:
            candidates = [name for name in self.names if name != NONE]
            best = min(map(self.cost, candidates))
            if estimate_unshared_cost(self.queries, self.frequency) < best:
                candidates.append(NONE)
        return min(candidates, key=self.cost)

    def _build(self, name: str) -> tuple[Unit, ...]:
        queries, merge = self.queries, self._merge
        windows = "live" if self.options.mode else self.options.windows
        if name == self.given_name:
            assert self.sharing is not None
            if self.options.mode:
                return plan_units(queries, windows, self.sharing.groups(), merge=merge)
            return plan_units(queries, windows, share_key=self.sharing.share_key(), merge=merge)
        if name == WINDOWS:
            spans = {compiled.number: compiled.span for compiled in queries}
            return plan_units(queries, windows, spans.__getitem__, merge=merge)
        if name == PREFIX:
            return plan_units(queries, "slots" if windows == "auto" else windows, merge=merge)
        if name == NONE:
            return plan_units(queries, windows, group_singly, merge=merge)
        return plan_units(queries, windows, merge=merge)
