"""Which queries run together, and by which strategy: the plan of the aggregate engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from motet.plan.compiled import CompiledQuery
from motet.plan.machine import Merged, merge_queries


class Strategy(StrEnum):
    """How totals are kept so that expired matches leave them."""

    PANES = "panes"  # per pane in which matches began
    WINDOWS = "windows"  # per open window
    STARTS = "starts"  # per time at which matches began
    STACKS = "stacks"  # as a sliding product of event matrices
    TRENDS = "trends"  # per event, for adjacent conditions


@dataclass(frozen=True)
class Unit:
    """Queries executed together. `width` is that of a pane, or the slide; 0 where one slot serves."""

    strategy: Strategy
    width: int
    merged: Merged
    slots: int  # open at once, 0 where it depends on the data

    @property
    def queries(self) -> tuple[CompiledQuery, ...]:
        return self.merged.queries


# Costs of one transition, fitted to the kernels: a slot is one lane of a vector loop, a settled node one scalar
# update in the back, one in the sweep, and a share of the product.
SLOT_COST = 0.35
SLOT_OVERHEAD = 3.0
STACK_COST = 2.5
STACK_OVERHEAD = 10.0


def strategy_of(compiled: CompiledQuery, forced: str = "auto") -> tuple[Strategy, int, int]:
    """The strategy for one query, with the width of its slots and how many are open at once.

    `forced` is 'panes' or 'stacks' where the caller wants that one wherever it is possible, 'live' where the totals
    have to be kept between runs.
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
    if forced == "stacks" or (forced in ("auto", "live") and slots_cost(compiled, slots[2]) > stacks_cost(compiled)):
        return Strategy.STACKS, 0, 0
    return slots


def slots_cost(compiled: CompiledQuery, slots: int) -> float:
    """What one transition costs with totals per slot."""
    return SLOT_OVERHEAD + SLOT_COST * slots * (1 + 3 * sum(compiled.channels.shape))


def stacks_cost(compiled: CompiledQuery) -> float:
    """What one transition costs with two stacks, whatever the window holds."""
    settled = sum(1 for node, target in enumerate(compiled.automaton.fold) if node == target)
    return STACK_OVERHEAD + STACK_COST * settled * (1 + sum(compiled.channels.shape))


def plan_units(queries: Sequence[CompiledQuery], forced: str = "auto", share: bool = True) -> tuple[Unit, ...]:
    """Group the queries of one partitioning into units: those that can share totals run on one machine, unless told
    not to.
    """
    groups: dict[tuple[object, ...], list[CompiledQuery]] = {}
    slots: dict[tuple[object, ...], int] = {}
    for compiled in queries:
        strategy, width, open_ = strategy_of(compiled, forced)
        key: tuple[object, ...] = (strategy, width, compiled.channels.shape)
        if share and strategy is Strategy.STARTS:
            key = (*key, compiled.span)
        elif not share or strategy in (Strategy.STACKS, Strategy.TRENDS):
            key = (*key, compiled.number)
        groups.setdefault(key, []).append(compiled)
        slots[key] = max(slots.get(key, 0), open_)
    return tuple(
        Unit(Strategy(str(key[0])), int(str(key[1])), merge_queries(members), slots[key])
        for key, members in groups.items()
    )
