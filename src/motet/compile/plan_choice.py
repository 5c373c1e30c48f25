"""Choose the plan of a branch: the one that is asked for, or the cheapest candidate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from motet.optimizer.registry import is_sharing_optimizer
from motet.options import Options
from motet.plans.compiled import CompiledQuery
from motet.plans.cost import Load, make_load
from motet.plans.pairs import find_obstacle_to_pairs
from motet.plans.sharing import Grouping, Sharing, group_all, group_singly
from motet.plans.units import MergeCache, Unit, estimate_cost, plan_pairs, plan_units, sort_units

SEARCH = "search"  # queries divided into units at the least cost that is found
PREFIX = "prefix"  # equal beginnings of patterns computed once
PAIRS = "pairs"  # any equal parts computed once
WINDOWS = "windows"  # on a stream: as prefix, but only among queries with the same window
NONE = "none"  # every query alone
GIVEN = "given"


@dataclass(frozen=True)
class Declined:
    """What an optimizer proposed for some queries and is not run, and why."""

    queries: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class PlannedUnits:
    """The units of a plan, and what of the proposed is not among them."""

    units: tuple[Unit, ...]
    declined: tuple[Declined, ...] = ()


class PlanCandidates:
    """The candidate plans for the queries of one branch, by name, each made when it is first considered."""

    def __init__(self, queries: Sequence[CompiledQuery], options: Options, sharing: Sharing | None) -> None:
        self.queries = sorted(queries, key=lambda compiled: compiled.number)
        self.options = options
        self.sharing = sharing
        self._merge = MergeCache()
        self._plans: dict[str, PlannedUnits] = {}
        self._costs: dict[str, float] = {}

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
        usual = (PREFIX, WINDOWS, NONE) if self.options.mode else (SEARCH, PREFIX, PAIRS, NONE)
        return usual if self.given_name is None else (self.given_name, *usual)

    @cached_property
    def load(self) -> Load:
        """What is known of the events of these queries."""
        return make_load(self.options.statistics, self.queries[0].partition, bool(self.options.mode))

    def plan(self, name: str) -> PlannedUnits:
        """Return a plan."""
        if name not in self._plans:
            self._plans[name] = self._make(name)
        return self._plans[name]

    def cost(self, name: str) -> float:
        """Return the estimated cost of a plan, in nanoseconds per second of event time."""
        if name not in self._costs:
            self._costs[name] = estimate_cost(self.plan(name).units, self.load)
        return self._costs[name]

    @property
    def estimates(self) -> dict[str, float]:
        """The costs of the plans that were considered."""
        return {name: self.cost(name) for name in self.names if name in self._plans}

    def choose(self) -> str:
        """Return the name of the plan to run: the requested one, or the cheapest."""
        optimizer, live = self.options.optimizer, bool(self.options.mode)
        if live and self.options.windows == "pairs":
            compared = [self.given_name or (NONE if optimizer == NONE else PAIRS)]
        elif self.given_name is not None:
            # On a stream a plan says which queries run together, which may cost more than all together.
            compared = [self.given_name, PREFIX] if live and self.given_name != GIVEN else [self.given_name]
        elif optimizer in (NONE, PREFIX):
            compared = [optimizer]
        elif live:
            compared = [PREFIX, WINDOWS, NONE]
        else:
            # The search takes two stacks to cost what each query by itself does.
            compared = [SEARCH, PREFIX] if self.options.windows == "auto" else [SEARCH]
        return min(compared, key=self.cost) if len(compared) > 1 else compared[0]

    def _make(self, name: str) -> PlannedUnits:
        queries, merge, load = self.queries, self._merge, self.load
        windows, live = self.options.windows, bool(self.options.mode)
        if name == self.given_name:
            assert self.sharing is not None
            if live and windows != "pairs":
                return PlannedUnits(plan_units(queries, windows, self.sharing.groups(), merge, live=True))
            return self._carry_out(self.sharing)
        if name == WINDOWS:
            spans = {compiled.number: compiled.span for compiled in queries}
            return PlannedUnits(plan_units(queries, windows, spans.__getitem__, merge, live=live))
        if name == PREFIX:
            forced = "slots" if windows in ("auto", "pairs") else windows
            return PlannedUnits(plan_units(queries, forced, merge=merge, live=live))
        if name == PAIRS:
            return PlannedUnits(plan_units(queries, "pairs", merge=merge, unite=True, live=live))
        if name == NONE:
            return PlannedUnits(plan_units(queries, windows, group_singly, merge, load, live=live))
        return PlannedUnits(plan_units(queries, windows, merge=merge, load=load))

    def _carry_out(self, sharing: Sharing) -> PlannedUnits:
        """Plan units that share what a plan says, by pairs; where pairs cost more than equal beginnings, the latter.

        A plan by the costs that a paper prints is carried out as it is, and queries that share nothing run alone.
        """
        groups, merge, live = sharing.groups(), self._merge, bool(self.options.mode)
        literal = self.options.costs == "printed" or self.options.windows == "pairs"
        sizes = Counter(groups(compiled.number) for compiled in self.queries)
        proposed = [compiled for compiled in self.queries if sizes[groups(compiled.number)] > 1]
        obstacles: dict[str, list[str]] = {}
        for compiled in proposed:
            if obstacle := find_obstacle_to_pairs(compiled):
                obstacles.setdefault(obstacle, []).append(compiled.query.name)
        declined = [Declined(tuple(names), f"pairs cannot run it: {why}") for why, names in obstacles.items()]
        units = []
        for unit in plan_pairs(proposed, groups, sharing.share_key(), merge):
            by_prefix = plan_units(unit.queries, "slots", merge=merge)
            cost, least = estimate_cost([unit], self.load), estimate_cost(by_prefix, self.load)
            if literal or cost <= least:
                units.append(unit)
            else:
                names = tuple(compiled.query.name for compiled in unit.queries)
                declined.append(
                    Declined(names, f"equal beginnings alone are estimated at {least / cost:.2f} of its cost")
                )
        planned = {compiled.number for unit in units for compiled in unit.reported}
        rest = [compiled for compiled in self.queries if compiled.number not in planned]
        windows = "slots" if self.options.windows == "auto" else self.options.windows
        together = groups if live else group_singly if literal else group_all
        others = plan_units(rest, windows, together, merge, live=live)
        return PlannedUnits(sort_units([*units, *others]), tuple(declined))
