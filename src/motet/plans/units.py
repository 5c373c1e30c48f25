"""Which queries run together, and by which strategy: the plan of the aggregate engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from motet.plans.compiled import CompiledQuery, unite_queries
from motet.plans.machine import MergedAutomaton, merge_queries
from motet.plans.pairs import Pairs, can_run_by_pairs, merge_pairs
from motet.plans.sharing import Groups, ShareKey, group_all, share_all
from motet.template.symbols import Symbol


class Strategy(StrEnum):
    """How totals are kept so that expired matches leave them."""

    PANES = "panes"  # per pane in which matches began
    WINDOWS = "windows"  # per open window
    STARTS = "starts"  # per time at which matches began
    PAIRS = "pairs"  # per pane between pairs of nodes, and per open window
    STACKS = "stacks"  # as a sliding product of event matrices
    TRENDS = "trends"  # per event, for adjacent conditions


@dataclass(frozen=True)
class Unit:
    """Queries executed together. `width` is that of a pane, or the slide; 0 where one slot serves.

    A unit that runs by pairs can run by slots too where keys have few events, unless `forced`.
    """

    strategy: Strategy
    width: int
    merged: MergedAutomaton
    slots: int  # open at once, 0 where it depends on the data
    pairs: Pairs | None = None
    forced: bool = False

    @property
    def queries(self) -> tuple[CompiledQuery, ...]:
        """The queries that it runs, some of which may stand for several."""
        return self.merged.queries

    @property
    def reported(self) -> tuple[CompiledQuery, ...]:
        """The queries whose results it gives."""
        return tuple(member for compiled in self.queries for member in compiled.reported)

    @property
    def slot_strategy(self) -> Strategy:
        """How it runs where not by pairs."""
        return self.strategy if self.pairs is None else choose_strategy(self.queries[0], "panes")[0]


# Costs of one transition, fitted to the kernels: a slot is one lane of a vector loop, a settled node one scalar
# update in the back, one in the sweep, and a share of the product.
SLOT_COST = 0.35
SLOT_OVERHEAD = 3.0
STACK_COST = 2.5
STACK_OVERHEAD = 10.0
# A step between pairs is a lane too, of shorter loops, of which there are about as many as transitions.
PAIR_COST = 0.55
PAIR_OVERHEAD = 1.8
# What it takes to pick an event out for a unit.
READ_COST = 20.0
# More pairs than this take longer to plan than they save; with more windows open than this, keys with few events are
# better off with stacks.
MAX_PAIRS = 200_000
MAX_WINDOWS = 256


def choose_strategy(compiled: CompiledQuery, forced: str = "auto") -> tuple[Strategy, int, int]:
    """Choose the strategy for one query, with the width of its slots and how many are open at once.

    `forced` is 'panes', 'pairs' or 'stacks' where the caller wants that one wherever it is possible, 'slots' where
    anything but pairs, 'live' where the totals have to be kept between runs. Pairs are not for one query to choose:
    what they cost depends on what it shares.
    """
    span, automaton = compiled.span, compiled.automaton
    if compiled.adjacent:
        return Strategy.TRENDS, span.slide, -(-span.within // span.slide) if span.slide else 0
    if span.within == 0:
        return Strategy.PANES, 0, 1
    if span.is_continuous:
        if compiled.needs_window_close or (forced == "panes" and not automaton.leading_guard):
            return Strategy.STARTS, 0, 0
        return Strategy.STACKS, 0, 0
    if automaton.leading_guard:
        slots = Strategy.WINDOWS, span.slide, -(-span.within // span.slide)
    else:
        pane = math.gcd(span.within, span.slide)
        slots = Strategy.PANES, pane, span.within // pane
    by_stacks = estimate_slots_cost(compiled, slots[2]) > estimate_stacks_cost(compiled)
    return (Strategy.STACKS, 0, 0) if forced == "stacks" or (forced != "panes" and by_stacks) else slots


def estimate_slots_cost(compiled: CompiledQuery, slots: int) -> float:
    """Estimate what one transition costs with totals per slot."""
    return SLOT_OVERHEAD + SLOT_COST * slots * (1 + 3 * sum(compiled.channels.shape))


def estimate_stacks_cost(compiled: CompiledQuery) -> float:
    """Estimate what one transition costs with two stacks, whatever the window holds."""
    return STACK_OVERHEAD + STACK_COST * len(compiled.automaton.settled) * (1 + sum(compiled.channels.shape))


def estimate_pairs_cost(merged: MergedAutomaton, pairs: Pairs) -> float:
    """Estimate what all transitions of a unit cost with pairs."""
    return PAIR_OVERHEAD * len(merged.edges) + PAIR_COST * int(pairs.steps.shape[1]) * _weigh_pair(merged)


def _weigh_pair(merged: MergedAutomaton) -> int:
    return 1 + 3 * sum(merged.queries[0].channels.shape)


# Events of a symbol, by any measure of time.
Frequency = Callable[[Symbol], float]


def uniform_frequency(symbol: Symbol) -> float:
    """Return one event of every symbol: what to assume where nothing is known."""
    return 1.0


def estimate_cost(units: Sequence[Unit], frequency: Frequency = uniform_frequency) -> float:
    """Estimate what so many events of every symbol cost, to compare plans of the same queries.

    An event's share is about a nanosecond for each 1.
    """
    return sum(_estimate_unit_cost(unit, frequency) for unit in units)


def estimate_unshared_cost(queries: Sequence[CompiledQuery], frequency: Frequency = uniform_frequency) -> float:
    """Estimate what plans without sharing cost at least: each query picks out its events by itself."""
    return READ_COST * sum(frequency(symbol) for compiled in queries for symbol in set(compiled.symbols))


def _estimate_unit_cost(unit: Unit, frequency: Frequency) -> float:
    first = unit.queries[0]
    reading = READ_COST * sum(map(frequency, unit.merged.symbols))
    steps = sum(frequency(edge.symbol) for edge in unit.merged.edges)
    match unit.strategy:
        case Strategy.PAIRS if unit.pairs is not None:
            numbers = np.bincount(unit.pairs.steps[0], minlength=len(unit.pairs.symbols))
            pair_steps: float = sum(
                count * frequency(symbol) for symbol, count in zip(unit.pairs.symbols, numbers.tolist(), strict=True)
            )
            return reading + PAIR_OVERHEAD * steps + PAIR_COST * pair_steps * _weigh_pair(unit.merged)
        case Strategy.STACKS | Strategy.STARTS | Strategy.TRENDS:
            return reading + steps * estimate_stacks_cost(first)
    return reading + steps * estimate_slots_cost(first, unit.slots)


class MergeCache:
    """A cache of merged queries: plans that are compared have many machines in common."""

    def __init__(self) -> None:
        self._cache: dict[Hashable, MergedAutomaton] = {}

    def __call__(self, queries: Sequence[CompiledQuery]) -> MergedAutomaton:
        # A query that stands for others goes by the number of the first.
        key = tuple((compiled.channels.shape, *(each.number for each in compiled.reported)) for compiled in queries)
        if key not in self._cache:
            self._cache[key] = merge_queries(queries)
        return self._cache[key]


def plan_units(
    queries: Sequence[CompiledQuery],
    forced: str = "auto",
    groups: Groups = group_all,
    share_key: ShareKey = share_all,
    merge: Callable[[Sequence[CompiledQuery]], MergedAutomaton] = merge_queries,
    unite: bool | None = None,
) -> tuple[Unit, ...]:
    """Group the queries of one partitioning into units.

    Those that can share totals run on one machine, as far as `groups` lets them. `share_key` limits what is shared by
    pairs, `merge` merges the queries of a unit. `unite` says whether queries that differ only in what they return run
    as one; None: where that is cheaper.
    """
    united = list(queries) if unite is False or forced == "live" else unite_queries(queries, groups)
    plans = [_plan_units(united, forced, groups, share_key, merge)]
    if unite is None and len(united) < len(queries):
        plans.append(_plan_units(queries, forced, groups, share_key, merge))
    return min(plans, key=estimate_cost)


def _plan_units(
    queries: Sequence[CompiledQuery],
    forced: str,
    groups: Groups,
    share_key: ShareKey,
    merge: Callable[[Sequence[CompiledQuery]], MergedAutomaton],
) -> tuple[Unit, ...]:

    def unit_key(compiled: CompiledQuery, wanted: str) -> tuple[object, ...]:
        strategy, width, _ = choose_strategy(compiled, wanted)
        window = compiled.span, compiled.needs_sweep
        own = {Strategy.STARTS: compiled.span, Strategy.STACKS: window, Strategy.TRENDS: compiled.number}
        return strategy, width, compiled.channels.shape, groups(compiled.number), own.get(strategy)

    units: list[Unit] = []
    if forced in ("auto", "pairs"):
        candidates = [compiled for compiled in queries if can_run_by_pairs(compiled)]
        paired = {compiled.number for compiled in candidates}
        slots_only = [compiled for compiled in queries if compiled.number not in paired]
        for members in _group_queries(candidates, lambda compiled: unit_key(compiled, "panes")):
            if sum(len(compiled.automaton.settled) ** 2 for compiled in members) > MAX_PAIRS:
                continue
            unit = _build_unit(members, "panes", merge)
            pairs = merge_pairs(unit.merged, share_key)
            by_pairs = replace(unit, strategy=Strategy.PAIRS, pairs=pairs, forced=forced == "pairs")
            if forced == "pairs":
                units.append(by_pairs)
            elif unit.slots <= MAX_WINDOWS and _saves_over_slots(unit, pairs):
                key = unit_key(members[0], "panes")
                rest = [compiled for compiled in slots_only if unit_key(compiled, "panes") == key]
                # Those that pairs cannot run may share beginnings with these, which pairs would give up.
                if not rest or _saves_over_slots_of_all(by_pairs, rest, merge):
                    units.append(by_pairs)
    planned = {compiled.number for unit in units for compiled in unit.queries}
    others = [compiled for compiled in queries if compiled.number not in planned]
    for members in _group_queries(others, lambda compiled: unit_key(compiled, forced)):
        units.append(_build_unit(members, forced, merge))
    return tuple(sorted(units, key=lambda unit: unit.queries[0].number))


def _group_queries(
    queries: Sequence[CompiledQuery], key: Callable[[CompiledQuery], Hashable]
) -> Iterable[list[CompiledQuery]]:
    found: dict[Hashable, list[CompiledQuery]] = {}
    for compiled in queries:
        found.setdefault(key(compiled), []).append(compiled)
    return found.values()


def _build_unit(
    queries: Sequence[CompiledQuery], forced: str, merge: Callable[[Sequence[CompiledQuery]], MergedAutomaton]
) -> Unit:
    """Build the unit of queries with one strategy and width of slots."""
    chosen = [choose_strategy(compiled, forced) for compiled in queries]
    strategy, width, _ = chosen[0]
    return Unit(strategy, width, merge(queries), max(slots for _, _, slots in chosen))


def _saves_over_slots_of_all(
    by_pairs: Unit, rest: Sequence[CompiledQuery], merge: Callable[[Sequence[CompiledQuery]], MergedAutomaton]
) -> bool:
    """Return whether a unit by pairs beside one by slots for the rest costs less than one by slots for all of them."""
    everyone = sorted([*by_pairs.queries, *rest], key=lambda compiled: compiled.number)
    apart = [by_pairs, _build_unit(rest, "panes", merge)]
    return estimate_cost(apart) < estimate_cost([_build_unit(everyone, "panes", merge)])


def _saves_over_slots(unit: Unit, pairs: Pairs) -> bool:
    """Return whether pairs cost less than slots."""
    by_slots = len(unit.merged.edges) * estimate_slots_cost(unit.queries[0], unit.slots)
    return estimate_pairs_cost(unit.merged, pairs) < by_slots
