"""Which queries run together, and by which strategy: the plan of the aggregate engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from motet.plan.compiled import CompiledQuery
from motet.plan.machine import Merged, merge_queries
from motet.plan.pairs import Pairs, can_run_by_pairs, merge_pairs
from motet.plan.sharing import Colours, Groups, all_together, share_all
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
    merged: Merged
    slots: int  # open at once, 0 where it depends on the data
    pairs: Pairs | None = None
    forced: bool = False

    @property
    def queries(self) -> tuple[CompiledQuery, ...]:
        return self.merged.queries

    @property
    def by_slots(self) -> Strategy:
        """How it runs where not by pairs."""
        return self.strategy if self.pairs is None else strategy_of(self.queries[0], "panes")[0]


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
MOST_PAIRS = 200_000
MOST_WINDOWS = 256


def strategy_of(compiled: CompiledQuery, forced: str = "auto") -> tuple[Strategy, int, int]:
    """The strategy for one query, with the width of its slots and how many are open at once.

    `forced` is 'panes', 'pairs' or 'stacks' where the caller wants that one wherever it is possible, 'slots' where
    anything but pairs, 'live' where the totals have to be kept between runs. Pairs are not for one query to choose:
    what they cost depends on what it shares.
    """
    span, automaton = compiled.span, compiled.automaton
    if compiled.adjacent:
        return Strategy.TRENDS, span.slide, -(-span.within // span.slide) if span.slide else 0
    if span.within == 0:
        return Strategy.PANES, 0, 1
    if span.continuous:
        if compiled.certain_at_close or (forced == "panes" and not automaton.leading_guard):
            return Strategy.STARTS, 0, 0
        return Strategy.STACKS, 0, 0
    if automaton.leading_guard:
        slots = Strategy.WINDOWS, span.slide, -(-span.within // span.slide)
    else:
        pane = math.gcd(span.within, span.slide)
        slots = Strategy.PANES, pane, span.within // pane
    by_stacks = slots_cost(compiled, slots[2]) > stacks_cost(compiled)
    return (Strategy.STACKS, 0, 0) if forced == "stacks" or (forced != "panes" and by_stacks) else slots


def slots_cost(compiled: CompiledQuery, slots: int) -> float:
    """What one transition costs with totals per slot."""
    return SLOT_OVERHEAD + SLOT_COST * slots * (1 + 3 * sum(compiled.channels.shape))


def stacks_cost(compiled: CompiledQuery) -> float:
    """What one transition costs with two stacks, whatever the window holds."""
    settled = sum(1 for node, target in enumerate(compiled.automaton.fold) if node == target)
    return STACK_OVERHEAD + STACK_COST * settled * (1 + sum(compiled.channels.shape))


def pairs_cost(merged: Merged, pairs: Pairs) -> float:
    """What all transitions of a unit cost with pairs."""
    return PAIR_OVERHEAD * len(merged.edges) + PAIR_COST * int(pairs.steps.shape[1]) * _pair_weight(merged)


def _pair_weight(merged: Merged) -> int:
    return 1 + 3 * sum(merged.queries[0].channels.shape)


# Events of a symbol, by any measure of time.
Frequency = Callable[[Symbol], float]


def one_each(symbol: Symbol) -> float:
    """One event of every symbol: what to assume where nothing is known."""
    return 1.0


def estimated_cost(units: Sequence[Unit], frequency: Frequency = one_each) -> float:
    """What so many events of every symbol cost, all taken together: plans of the same queries can be compared by it. An
    event's share is about a nanosecond for each 1.
    """
    return sum(_unit_cost(unit, frequency) for unit in units)


def least_cost_alone(queries: Sequence[CompiledQuery], frequency: Frequency = one_each) -> float:
    """What plans in which every query runs alone cost at least: each picks out its events by itself."""
    return READ_COST * sum(frequency(symbol) for compiled in queries for symbol in set(compiled.symbols))


def _unit_cost(unit: Unit, frequency: Frequency) -> float:
    first = unit.queries[0]
    reading = READ_COST * sum(map(frequency, unit.merged.symbols))
    steps = sum(frequency(edge.symbol) for edge in unit.merged.edges)
    match unit.strategy:
        case Strategy.PAIRS if unit.pairs is not None:
            numbers = np.bincount(unit.pairs.steps[0], minlength=len(unit.pairs.symbols))
            taken: float = sum(
                count * frequency(symbol) for symbol, count in zip(unit.pairs.symbols, numbers.tolist(), strict=True)
            )
            return reading + PAIR_OVERHEAD * steps + PAIR_COST * taken * _pair_weight(unit.merged)
        case Strategy.STACKS | Strategy.STARTS | Strategy.TRENDS:
            return reading + steps * stacks_cost(first)
    return reading + steps * slots_cost(first, unit.slots)


class Merger:
    """Merges queries, the same ones only once: plans that are compared have many machines in common."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], Merged] = {}

    def __call__(self, queries: Sequence[CompiledQuery]) -> Merged:
        numbers = tuple(compiled.number for compiled in queries)
        if numbers not in self._known:
            self._known[numbers] = merge_queries(queries)
        return self._known[numbers]


def plan_units(
    queries: Sequence[CompiledQuery],
    forced: str = "auto",
    groups: Groups = all_together,
    colours: Colours = share_all,
    merge: Callable[[Sequence[CompiledQuery]], Merged] = merge_queries,
) -> tuple[Unit, ...]:
    """Group the queries of one partitioning into units: those that can share totals run on one machine, as far as
    `groups` lets them. `colours` limits what is shared by pairs.
    """
    members_of: dict[tuple[object, ...], list[CompiledQuery]] = {}
    slots: dict[tuple[object, ...], int] = {}
    by_pairs: dict[tuple[object, ...], list[CompiledQuery]] = {}
    units: list[Unit] = []
    for compiled in queries:
        if forced in ("auto", "pairs") and can_run_by_pairs(compiled):
            alike = (*strategy_of(compiled, "panes")[:2], compiled.channels.shape, groups(compiled.number))
            by_pairs.setdefault(alike, []).append(compiled)
    for members in by_pairs.values():
        unit = _pairs_unit(members, colours, forced == "pairs", merge)
        if unit is not None and (unit.forced or (unit.slots <= MOST_WINDOWS and _pays(unit))):
            units.append(unit)
    planned = {compiled.number for unit in units for compiled in unit.queries}
    for compiled in queries:
        if compiled.number in planned:
            continue
        strategy, width, open_ = strategy_of(compiled, forced)
        key: tuple[object, ...] = (strategy, width, compiled.channels.shape, groups(compiled.number))
        if strategy is Strategy.STARTS:
            key = (*key, compiled.span)
        elif strategy in (Strategy.STACKS, Strategy.TRENDS):
            key = (*key, compiled.number)
        members_of.setdefault(key, []).append(compiled)
        slots[key] = max(slots.get(key, 0), open_)
    units += [
        Unit(Strategy(str(key[0])), int(str(key[1])), merge(members), slots[key]) for key, members in members_of.items()
    ]
    return tuple(sorted(units, key=lambda unit: unit.queries[0].number))


def _pairs_unit(
    queries: Sequence[CompiledQuery],
    colours: Colours,
    forced: bool,
    merge: Callable[[Sequence[CompiledQuery]], Merged],
) -> Unit | None:
    """The unit that runs queries of one width of slots by pairs; None where that would take too many."""
    settled = [sum(node == target for node, target in enumerate(c.automaton.fold)) for c in queries]
    if sum(count * count for count in settled) > MOST_PAIRS:
        return None
    planned = [strategy_of(compiled, "panes") for compiled in queries]
    merged = merge(queries)
    slots = max(open_ for _, _, open_ in planned)
    return Unit(Strategy.PAIRS, planned[0][1], merged, slots, merge_pairs(merged, colours), forced)


def _pays(unit: Unit) -> bool:
    """Whether pairs cost less than slots."""
    assert unit.pairs is not None
    first = unit.queries[0]
    return pairs_cost(unit.merged, unit.pairs) < len(unit.merged.edges) * slots_cost(first, unit.slots)
