"""Which queries run together, and by which strategy: the plan of the aggregate engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from motet.plans.compiled import CompiledQuery
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
        return self.merged.queries

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
    """Return the strategy for one query, with the width of its slots and how many are open at once.

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
    """Return what one transition costs with totals per slot."""
    return SLOT_OVERHEAD + SLOT_COST * slots * (1 + 3 * sum(compiled.channels.shape))


def estimate_stacks_cost(compiled: CompiledQuery) -> float:
    """Return what one transition costs with two stacks, whatever the window holds."""
    settled = sum(1 for node, target in enumerate(compiled.automaton.fold) if node == target)
    return STACK_OVERHEAD + STACK_COST * settled * (1 + sum(compiled.channels.shape))


def estimate_pairs_cost(merged: MergedAutomaton, pairs: Pairs) -> float:
    """Return what all transitions of a unit cost with pairs."""
    return PAIR_OVERHEAD * len(merged.edges) + PAIR_COST * int(pairs.steps.shape[1]) * _weigh_pair(merged)


def _weigh_pair(merged: MergedAutomaton) -> int:
    return 1 + 3 * sum(merged.queries[0].channels.shape)


# Events of a symbol, by any measure of time.
Frequency = Callable[[Symbol], float]


def uniform_frequency(symbol: Symbol) -> float:
    """Return one event of every symbol: what to assume where nothing is known."""
    return 1.0


def estimate_cost(units: Sequence[Unit], frequency: Frequency = uniform_frequency) -> float:
    """Return what so many events of every symbol cost, to compare plans of the same queries.

    An event's share is about a nanosecond for each 1.
    """
    return sum(_estimate_unit_cost(unit, frequency) for unit in units)


def estimate_unshared_cost(queries: Sequence[CompiledQuery], frequency: Frequency = uniform_frequency) -> float:
    """Return what plans in which every query runs alone cost at least: each picks out its events by itself."""
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
        self._cache: dict[tuple[int, ...], MergedAutomaton] = {}

    def __call__(self, queries: Sequence[CompiledQuery]) -> MergedAutomaton:
        numbers = tuple(compiled.number for compiled in queries)
        if numbers not in self._cache:
            self._cache[numbers] = merge_queries(queries)
        return self._cache[numbers]


def plan_units(
    queries: Sequence[CompiledQuery],
    forced: str = "auto",
    groups: Groups = group_all,
    share_key: ShareKey = share_all,
    merge: Callable[[Sequence[CompiledQuery]], MergedAutomaton] = merge_queries,
) -> tuple[Unit, ...]:
    """Group the queries of one partitioning into units: those that can share totals run on one machine, as far as
    `groups` lets them. `share_key` limits what is shared by pairs.
    """
    members_of: dict[tuple[object, ...], list[CompiledQuery]] = {}
    slots: dict[tuple[object, ...], int] = {}
    by_pairs: dict[tuple[object, ...], list[CompiledQuery]] = {}
    units: list[Unit] = []
    for compiled in queries:
        if forced in ("auto", "pairs") and can_run_by_pairs(compiled):
            pairs_key = (*choose_strategy(compiled, "panes")[:2], compiled.channels.shape, groups(compiled.number))
            by_pairs.setdefault(pairs_key, []).append(compiled)
    for members in by_pairs.values():
        unit = _build_pairs_unit(members, share_key, forced == "pairs", merge)
        if unit is not None and (unit.forced or (unit.slots <= MAX_WINDOWS and _saves_over_slots(unit))):
            units.append(unit)
    planned = {compiled.number for unit in units for compiled in unit.queries}
    for compiled in queries:
        if compiled.number in planned:
            continue
        strategy, width, open_slots = choose_strategy(compiled, forced)
        key: tuple[object, ...] = (strategy, width, compiled.channels.shape, groups(compiled.number))
        if strategy is Strategy.STARTS:
            key = (*key, compiled.span)
        elif strategy in (Strategy.STACKS, Strategy.TRENDS):
            key = (*key, compiled.number)
        members_of.setdefault(key, []).append(compiled)
        slots[key] = max(slots.get(key, 0), open_slots)
    units += [
        Unit(Strategy(str(key[0])), int(str(key[1])), merge(members), slots[key]) for key, members in members_of.items()
    ]
    return tuple(sorted(units, key=lambda unit: unit.queries[0].number))


def _build_pairs_unit(
    queries: Sequence[CompiledQuery],
    share_key: ShareKey,
    forced: bool,
    merge: Callable[[Sequence[CompiledQuery]], MergedAutomaton],
) -> Unit | None:
    """Return the unit that runs queries of one width of slots by pairs; None where that would take too many."""
    settled = [sum(node == target for node, target in enumerate(c.automaton.fold)) for c in queries]
    if sum(count * count for count in settled) > MAX_PAIRS:
        return None
    planned = [choose_strategy(compiled, "panes") for compiled in queries]
    merged = merge(queries)
    slots = max(open_slots for _, _, open_slots in planned)
    return Unit(Strategy.PAIRS, planned[0][1], merged, slots, merge_pairs(merged, share_key), forced)


def _saves_over_slots(unit: Unit) -> bool:
    """Return whether pairs cost less than slots."""
    assert unit.pairs is not None
    first = unit.queries[0]
    return estimate_pairs_cost(unit.merged, unit.pairs) < len(unit.merged.edges) * estimate_slots_cost(
        first, unit.slots
    )
