"""Which queries run together, and by which strategy: the plan of the aggregate engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from motet.plans.compiled import CompiledQuery, pad_channels, unite_queries
from motet.plans.cost import (
    UNKNOWN_LOAD,
    Load,
    PairParts,
    SlotParts,
    StackParts,
    UnitParts,
    Work,
    count_stack_work,
    estimate_matches,
    price,
)
from motet.plans.execution import Execution, describe_machine_run, describe_pairs_run
from motet.plans.machine import MergedAutomaton, merge_queries
from motet.plans.pairs import Pairs, can_run_by_pairs, merge_pairs
from motet.plans.search import Form, UnitSearch
from motet.plans.sharing import Groups, ShareKey, group_all, group_connected, share_all


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

    `pairs` are there if and only if they are its strategy.
    """

    strategy: Strategy
    width: int
    merged: MergedAutomaton
    slots: int  # open at once, 0 where it depends on the data
    pairs: Pairs | None = None

    @property
    def queries(self) -> tuple[CompiledQuery, ...]:
        """The queries that it runs, some of which may stand for several."""
        return self.merged.queries

    @cached_property
    def planned(self) -> Execution:
        """What a run of it will have executed."""
        if self.pairs is not None:
            return describe_pairs_run(self.queries, self.pairs)
        return describe_machine_run(self.strategy, self.merged, self.width)

    @property
    def reported(self) -> tuple[CompiledQuery, ...]:
        """The queries whose results it gives."""
        return tuple(member for compiled in self.queries for member in compiled.reported)


# More pairs than this take longer to plan than they save; with more windows open than this, rows take too much room.
MAX_PAIRS = 200_000
MAX_WINDOWS = 2_048
# With more matches in a window than this, a count may leave 64 bits, and only totals of counts alone take that lightly.
MOST_MATCHES = 2.0**40

Merge = Callable[[Sequence[CompiledQuery]], MergedAutomaton]


def choose_strategy(compiled: CompiledQuery, forced: str = "auto") -> tuple[Strategy, int, int]:
    """Choose the strategy for one query by itself, with the width of its slots and how many are open at once.

    `forced` is 'panes' or 'stacks' where the caller wants that one wherever it is possible. Pairs are not for one query
    to choose: what they cost depends on what it shares.
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
    if forced == "stacks" or (forced != "panes" and _are_stacks_cheaper(compiled, slots[2])):
        return Strategy.STACKS, 0, 0
    return slots


def _are_stacks_cheaper(compiled: CompiledQuery, slots: int) -> bool:
    """Return whether a step costs less by two stacks than with so many slots, each of them in use."""
    channels, settled = sum(compiled.channels.shape), len(compiled.automaton.settled)
    by_slots = {"slot step": 1, "slot lane": slots, "slot channel lane": slots * channels}
    by_stacks = {"stack step": 1, "stack lane": settled, "stack channel lane": settled * channels}
    return price(by_stacks) < price(by_slots)


def count_work(unit: Unit, load: Load) -> Work:
    """Count the work of a unit per second of event time."""
    if unit.pairs is not None:
        return PairParts(unit.merged, unit.pairs, load).whole_work(unit.queries)
    if unit.strategy in (Strategy.PANES, Strategy.WINDOWS):
        return SlotParts(unit.merged, load).whole_work(unit.queries)
    return count_stack_work(unit.merged, load)


def estimate_cost(units: Sequence[Unit], load: Load = UNKNOWN_LOAD) -> float:
    """Estimate what units cost, in nanoseconds per second of event time."""
    return math.fsum(price(count_work(unit, load)) for unit in units)


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
    merge: Merge = merge_queries,
    load: Load = UNKNOWN_LOAD,
    unite: bool | None = None,
    live: bool = False,
) -> tuple[Unit, ...]:
    """Divide the queries of one partitioning into units, those of a unit in the same group.

    `forced` is 'auto' for the cheapest division that a search finds, 'panes', 'pairs' or 'stacks' where that strategy
    is wanted wherever it is possible, 'slots' where anything but pairs. `unite` says whether queries that differ only
    in what they return run as one; None: where that is cheaper. `live` is where totals are kept between runs: the
    strategy of a query depends on itself alone then, so that it stays as it is beside others.
    """
    united = list(queries) if unite is False or live else unite_queries(queries, groups)
    plans = [_plan_units(united, forced, groups, merge, load, live)]
    if live:
        return plans[0]
    # Of equal queries one is always enough; others may have to keep more totals together than each by itself.
    grown = any(member.channels != compiled.channels for compiled in united for member in compiled.reported)
    if unite is None and grown:
        plans.append(_plan_units(queries, forced, groups, merge, load, live))
    if unite is None and forced == "auto" and (padded := _pad_queries(united, groups, load)) != united:
        plans.append(_plan_units(padded, forced, groups, merge, load, live))
    return min(plans, key=lambda units: estimate_cost(units, load)) if len(plans) > 1 else plans[0]


def _pad_queries(queries: list[CompiledQuery], groups: Groups, load: Load) -> list[CompiledQuery]:
    """Give queries totals of one kind, so that one unit can run them, where slots may serve them and counts are small.

    Before the events that channels read, a step costs no more than one of counts alone.
    """

    def kind(compiled: CompiledQuery) -> tuple[object, ...]:
        strategy, width, _ = choose_strategy(compiled, "panes")
        return strategy, width, groups(compiled.number)

    alike = [
        members
        for members in _group_queries(queries, kind)
        if choose_strategy(members[0], "panes")[0] in (Strategy.PANES, Strategy.WINDOWS)
        and len({compiled.channels.shape for compiled in members}) > 1
    ]
    found = {compiled.number: compiled for compiled in queries}
    for members in alike:
        small = [compiled for compiled in members if estimate_matches(compiled, load) < MOST_MATCHES]
        found |= {compiled.number: compiled for compiled in pad_channels(small)} if small else {}
    return [found[compiled.number] for compiled in queries]


def _plan_units(
    queries: Sequence[CompiledQuery], forced: str, groups: Groups, merge: Merge, load: Load, live: bool
) -> tuple[Unit, ...]:
    if forced == "pairs" or (forced == "auto" and not live):
        units = [
            unit
            for members in _group_queries(queries, lambda compiled: _unit_key(compiled, "panes", groups, live))
            for unit in (
                _search_units(members, merge, load) if forced == "auto" else _force_pairs(members, merge, live)
            )
        ]
    else:
        divided = _group_queries(queries, lambda compiled: _unit_key(compiled, forced, groups, live))
        units = [_build_unit(members, forced, merge) for members in divided]
    return sort_units(units)


def sort_units(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """Return units in the order of their first queries."""
    return tuple(sorted(units, key=lambda unit: unit.queries[0].number))


def plan_pairs(
    queries: Sequence[CompiledQuery], groups: Groups, share_key: ShareKey, merge: Merge = merge_queries
) -> list[Unit]:
    """Plan a unit by pairs for each group of queries that pairs can run, which share what has the same key."""
    able = [compiled for compiled in queries if can_run_by_pairs(compiled)]
    divided = _group_queries(able, lambda compiled: _unit_key(compiled, "panes", groups))
    return [_build_pairs_unit(members, merge, share_key) for members in divided]


def _unit_key(compiled: CompiledQuery, forced: str, groups: Groups, live: bool = False) -> tuple[object, ...]:
    """Return what queries of one unit have in common: how totals are kept, and in which group they are."""
    strategy, width, _ = choose_strategy(compiled, forced)
    window = compiled.span, compiled.needs_sweep
    own = {Strategy.STARTS: compiled.span, Strategy.STACKS: window, Strategy.TRENDS: compiled.number}
    # Totals of texts are not kept between runs: whether a query's are may not depend on those beside it.
    extremes = frozenset(channel.column for channel in compiled.channels.extremes) if live else None
    return strategy, width, compiled.channels.shape, groups(compiled.number), own.get(strategy), extremes


def _search_units(queries: Sequence[CompiledQuery], merge: Merge, load: Load) -> list[Unit]:
    """Divide queries with the same kind of totals into units at the least cost that is found."""
    unit = _build_unit(queries, "panes", merge)
    if unit.strategy not in (Strategy.PANES, Strategy.WINDOWS) or not unit.width:
        divided = _group_queries(queries, lambda compiled: _unit_key(compiled, "auto", group_all))
        units = [_build_unit(members, "auto", merge) for members in divided]
        return [part for each in units for part in _divide_stacks(each, merge, load)]
    parts: dict[Form, UnitParts] = {"slots": SlotParts(unit.merged, load)}
    if any(_are_stacks_cheaper(compiled, 2 * unit.slots) for compiled in queries):
        parts["stacks"] = StackParts([merge([compiled]) for compiled in queries], load)
    able = [at for at, compiled in enumerate(queries) if can_run_by_pairs(compiled)]
    if unit.slots > MAX_WINDOWS or sum(len(queries[at].automaton.settled) ** 2 for at in able) > MAX_PAIRS:
        able = []
    if able:
        paired = merge([queries[at] for at in able])
        parts["pairs"] = PairParts(paired, merge_pairs(paired, share_all), load).spread(able, len(queries))
    is_able = set(able)
    search = UnitSearch(queries, parts, lambda form, at: form != "pairs" or at in is_able, load)
    found: list[Unit] = []
    for form, places in search.find_division():
        members = [queries[at] for at in places]
        if form == "pairs":
            found.append(_build_pairs_unit(members, merge, share_all))
        elif form == "slots":
            found.append(_build_unit(members, "panes", merge))
        else:
            windows = _group_queries(members, lambda compiled: _unit_key(compiled, "stacks", group_all))
            found += [
                part for each in windows for part in _divide_stacks(_build_unit(each, "stacks", merge), merge, load)
            ]
    return found


def _divide_stacks(unit: Unit, merge: Merge, load: Load) -> list[Unit]:
    """Divide a unit by two stacks where that is cheaper: into queries with beginnings in common, or one by one."""
    if unit.strategy is not Strategy.STACKS or len(unit.queries) == 1:
        return [unit]
    merged = unit.merged
    having: dict[int, list[int]] = {}
    for at, nodes in enumerate(merged.nodes):
        for node in set(nodes) - merged.starts:
            having.setdefault(node, []).append(at)
    connected = group_connected(having.values())
    places = {compiled.number: at for at, compiled in enumerate(unit.queries)}
    alike = _group_queries(unit.queries, lambda compiled: connected(places[compiled.number]))
    divisions = [
        [unit],
        [_build_unit(members, "stacks", merge) for members in alike],
        [_build_unit([compiled], "stacks", merge) for compiled in unit.queries],
    ]
    return min(divisions, key=lambda units: estimate_cost(units, load))


def _force_pairs(queries: Sequence[CompiledQuery], merge: Merge, live: bool) -> list[Unit]:
    """Run by pairs the queries that can be."""
    paired = [compiled for compiled in queries if can_run_by_pairs(compiled)]
    others = [compiled for compiled in queries if not can_run_by_pairs(compiled)]
    units = [_build_pairs_unit(paired, merge, share_all)] if paired else []
    divided = _group_queries(others, lambda compiled: _unit_key(compiled, "pairs", group_all, live))
    return units + [_build_unit(members, "pairs", merge) for members in divided]


def _group_queries(
    queries: Sequence[CompiledQuery], key: Callable[[CompiledQuery], Hashable]
) -> Iterable[list[CompiledQuery]]:
    found: dict[Hashable, list[CompiledQuery]] = {}
    for compiled in queries:
        found.setdefault(key(compiled), []).append(compiled)
    return found.values()


def _build_unit(queries: Sequence[CompiledQuery], forced: str, merge: Merge) -> Unit:
    """Build the unit of queries with one strategy and width of slots."""
    chosen = [choose_strategy(compiled, forced) for compiled in queries]
    strategy, width, _ = chosen[0]
    return Unit(strategy, width, merge(queries), max(slots for _, _, slots in chosen))


def _build_pairs_unit(queries: Sequence[CompiledQuery], merge: Merge, share_key: ShareKey) -> Unit:
    unit = _build_unit(queries, "panes", merge)
    return replace(unit, strategy=Strategy.PAIRS, pairs=merge_pairs(unit.merged, share_key))
