"""What units cost: work counted from a plan and from what is known of the data, at the prices of our kernels.

Work is counted per second of event time. It is a function of sums over *parts* (steps of a machine, pairs, rows of
windows), each counted once however many queries of a unit have it, so that any set of queries is priced quickly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from motet.kernels.ragged import take_rows
from motet.plans.compiled import CompiledQuery
from motet.plans.machine import MergedAutomaton, count_touched_totals
from motet.plans.pairs import Pairs
from motet.statistics.model import MICROSECONDS, Statistics, format_symbol
from motet.template.symbols import Symbol

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Work = dict[str, float]

# Nanoseconds for each piece of work, fitted to runs by `motet bench calibrate`.
PRICES: Mapping[str, float] = {
    "unit": 1.93e06,
    "scan": 0.0639,
    "event": 29.1,
    "result": 21.5,
    "slot step": 10.3,
    "slot lane": 1.43,
    "slot channel lane": 3.61,
    "slot cell": 17.9,
    "slot report lane": 2.47,
    "pair run": 1.16,
    "pair lane": 0.547,
    "pair channel lane": 5.92,
    "pair cell": 182,
    "pair total": 2.47,
    "pair join": 3.88,
    "pair product lane": 0.307,
    "pair product channel lane": 1.4,
    "pair row lane": 0.0882,
    "pair report": 17.2,
    "slot key node": 18.6,
    "stack value": 6.98,
    "stack key total": 15.7,
    "stack step": 52.7,
    "stack lane": 1.41,
    "stack channel lane": 2.15,
}

MINIMUM_WEIGHT = 2.5
MOST_NODES = 100  # of an automaton whose matches are estimated
LONG = 86_400.0  # seconds in which what a unit costs once does not count


@dataclass(frozen=True)
class Load:
    """What is known of the events of a branch.

    `rate` gives the events of a symbol per second, `cells` how many (key, pane) of a width in microseconds hold any
    event, per second; `events` are all events per second, over so many `seconds`.
    """

    rate: Callable[[Symbol], float]
    cells: Callable[[float], float]
    events: float
    seconds: float

    def cells_with(self, rate: float, width: float) -> float:
        """Return how many cells of a width, per second, hold any of the events that come at a rate.

        Every event of a cell is taken to be one of them with the same probability.
        """
        if rate <= 0 or width <= 0:
            return 0.0
        cells, events = self.cells(width), max(self.events, rate)
        share, per_cell = rate / events, events / max(cells, 1e-12)
        return cells * -math.expm1(per_cell * math.log1p(-share)) if share < 1.0 else cells

    def keys_with(self, rate: float) -> float:
        """Return how many keys have any of the events that come at a rate, divided by the seconds of all events."""
        return self.cells_with(rate, self.seconds * MICROSECONDS)


# What to assume where nothing is known: one event of every symbol in a second, all of one key.
UNKNOWN_LOAD = Load(lambda symbol: 1.0, lambda width: MICROSECONDS / width, 1.0, 3600.0)


def make_load(statistics: Statistics | None, partition: Sequence[str], endless: bool = False) -> Load:
    """Return what statistics say of the events that one partitioning sorts; of a stream they are endless."""
    if statistics is None or not any(rate > 0 for rate in statistics.rates.values()):
        return UNKNOWN_LOAD
    rates = statistics.rates
    return Load(
        lambda symbol: rates.get(format_symbol(symbol), rates.get(symbol.type, 0.0)),
        lambda width: statistics.cells_per_second(partition, round(width)),
        sum(rates[name] for name in statistics.given or statistics.counts),
        LONG if endless else statistics.seconds,
    )


def price(work: Mapping[str, float], prices: Mapping[str, float] = PRICES) -> float:
    """Return what work costs, in nanoseconds per second of event time."""
    return sum(prices[name] * amount for name, amount in work.items())


@dataclass(frozen=True)
class UnitProfile:
    """What the work of a unit depends on beside its parts: that of the whole set of its queries."""

    number: int
    widest: int
    step: int  # divides all slides
    pane: int  # divides all windows and slides
    channels: float

    @classmethod
    def of(cls, queries: Iterable[CompiledQuery]) -> UnitProfile:
        listed = list(queries)
        spans = [compiled.span for compiled in listed]
        step = math.gcd(*(span.slide for span in spans))
        return cls(
            len(listed),
            max(span.within for span in spans),
            step,
            math.gcd(step, *(span.within for span in spans)),
            weigh_channels(listed[0]),
        )

    def __or__(self, other: UnitProfile) -> UnitProfile:
        return UnitProfile(
            self.number + other.number,
            max(self.widest, other.widest),
            math.gcd(self.step, other.step),
            math.gcd(self.pane, other.pane),
            self.channels,
        )


def weigh_channels(compiled: CompiledQuery) -> float:
    """Return what the channels of a query weigh beside its count: a minimum has to be compared as well as copied."""
    counts, sums, extremes = compiled.channels.shape
    return counts + sums + MINIMUM_WEIGHT * extremes


class UnitParts:
    """The parts that queries have by one strategy: `sums[i]` is what part i adds, `own[q]` are the parts of query q."""

    sums: Floats
    own: Sequence[Ints]

    def work(self, sums: Floats, queries: UnitProfile) -> Work:
        """Return the work of a unit whose parts add up to these sums."""
        raise NotImplementedError

    def spread(self, places: Sequence[int], number: int) -> Self:
        """Renumber the queries: the first is at the first of these places among so many; others have no parts."""
        own = [np.zeros(0, np.int64)] * number
        for at, numbers in zip(places, self.own, strict=True):
            own[at] = numbers
        self.own = own
        return self

    def whole_work(self, queries: Sequence[CompiledQuery]) -> Work:
        """Return the work of one unit for all queries."""
        used = np.unique(np.concatenate(self.own))
        return self.work(self.sums[used].sum(axis=0), UnitProfile.of(queries))


class _PartsBuilder:
    """Parts collected with the queries that have them; columns are named."""

    def __init__(self, columns: Sequence[str], queries: int) -> None:
        self.columns = {name: at for at, name in enumerate(columns)}
        self.sums: list[Floats] = []
        self.own: list[list[Ints]] = [[] for _ in range(queries)]
        self.size = 0

    def add(self, owners: Sequence[Ints], **columns: NDArray[Any]) -> None:
        """Add parts, numbered from 0 for the owners, each with its numbers by column."""
        count = len(next(iter(columns.values())))
        table = np.zeros((count, len(self.columns)))
        for name, values in columns.items():
            table[:, self.columns[name]] = values
        self.sums.append(table)
        for own, numbers in zip(self.own, owners, strict=True):
            own.append(numbers + self.size)
        self.size += count

    def add_symbols(self, queries: Sequence[Iterable[Symbol]], load: Load) -> None:
        numbers: dict[Symbol, int] = {}
        owners = [
            np.array(sorted({numbers.setdefault(symbol, len(numbers)) for symbol in each}), np.int64)
            for each in queries
        ]
        self.add(owners, events=np.array([load.rate(symbol) for symbol in numbers]))

    def fill(self, parts: UnitParts) -> None:
        parts.sums = np.concatenate(self.sums)
        parts.own = [np.concatenate(each) for each in self.own]


def _number_singly(count: int) -> list[Ints]:
    """Return the parts of queries of which each has one of its own."""
    return [np.array([at], np.int64) for at in range(count)]


def _symbols_of(compiled: CompiledQuery) -> tuple[Symbol, ...]:
    return (*compiled.symbols, *compiled.absences, *compiled.negs)


def count_windows(compiled: CompiledQuery, load: Load) -> tuple[float, float]:
    """Return how many windows per second hold any event of a query, and how many of them probably a match.

    Matches in a window are taken to be as many as of independent events.
    """
    span = compiled.span
    if span.ranked or span.within == 0 or span.slide == 0:
        return 0.0, 0.0
    total = sum(load.rate(symbol) for symbol in set(compiled.symbols))
    cells = load.cells_with(total, span.within)
    windows = cells * span.within / span.slide
    if cells <= 0:
        return 0.0, 0.0
    expected = 1.0
    for at, symbol in enumerate(compiled.symbols, 1):
        expected *= load.rate(symbol) / cells / at
    return windows, windows * -math.expm1(-min(expected, 50.0))


def estimate_matches(compiled: CompiledQuery, load: Load) -> float:
    """Estimate how many matches a window of a key holds, infinite beyond the largest double.

    Events of a symbol are taken to be spread evenly over the times at which the key has any. Large automata are taken
    to have more matches than can be counted. O(nodes^3 * log times).
    """
    automaton = compiled.automaton
    if automaton.size > MOST_NODES:
        return math.inf
    within = compiled.span.within or load.seconds * MICROSECONDS
    cells = load.cells_with(sum(map(load.rate, set(compiled.symbols))), within)
    if cells <= 0:
        return 0.0
    times = max(round(load.cells(1.0) / max(load.cells(within), 1e-12)), 1)
    step = np.eye(automaton.size)
    for each in automaton.transitions:
        rate = load.rate(compiled.symbols[each.position])
        step[automaton.fold[each.source], automaton.fold[each.target]] += rate / cells / times
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(np.linalg.matrix_power(step, times)[0, sorted(automaton.accepting)].sum())
    return math.inf if math.isnan(found) else found


class SlotParts(UnitParts):
    """The steps of a merged machine with totals per slot."""

    def __init__(self, merged: MergedAutomaton, load: Load) -> None:
        self.load = load
        queries = merged.queries
        whole = UnitProfile.of(queries)
        lanes = ("start lanes", "lanes", "weighed starts", "weighed lanes")
        builder = _PartsBuilder(("events", "nodes", "steps", *lanes, "reports", "accepts"), len(queries))
        builder.add_symbols([_symbols_of(compiled) for compiled in queries], load)
        rates = np.array([load.rate(edge.symbol) for edge in merged.edges])
        source = np.array([edge.source for edge in merged.edges], np.int64)
        target = np.array([merged.fold[edge.target] for edge in merged.edges], np.int64)
        starting = np.isin(source, list(merged.starts))
        cells = max(load.cells_with(sum(map(load.rate, merged.symbols)), whole.widest), 1e-12)
        reached = estimate_reach(merged.size, sorted(merged.starts), source, target, rates / cells)
        ends = np.array([edge.target for edge in merged.edges], np.int64)
        by_end = np.argsort(ends, kind="stable")
        into = np.searchsorted(ends[by_end], np.arange(merged.size + 1))
        owners = [by_end[take_rows(into, np.array(sorted(set(own)), np.int64))[1]] for own in merged.nodes]
        live = rates * reached[source]
        weighed = live * np.isin(target, list(merged.having_channels))
        builder.add(
            owners,
            nodes=np.ones(len(rates)),
            steps=rates,
            **{"start lanes": live * starting, "lanes": live * ~starting},
            **{"weighed starts": weighed * starting, "weighed lanes": weighed * ~starting},
        )
        windows = [count_windows(compiled, load)[1] for compiled in queries]
        accepts = [count * len(own) for count, own in zip(windows, merged.accepting, strict=True)]
        builder.add(_number_singly(len(queries)), reports=np.array(windows), accepts=np.array(accepts))
        builder.fill(self)

    def work(self, sums: Floats, queries: UnitProfile) -> Work:
        events, nodes, steps, start_lanes, lanes, weighed_starts, weighed_lanes, reports, accepts = sums.tolist()
        slots = 1.0
        if queries.pane:
            slots = max(min(queries.widest, self.load.seconds * MICROSECONDS) / queries.pane, 1.0)
            # A key that has been silent for a window begins with one slot.
            cells = self.load.cells_with(events, queries.widest)
            slots = 1 + (slots - 1) * -math.expm1(-events / max(cells, 1e-12) / 2)
        return {
            "unit": 1 / self.load.seconds,
            "scan": self.load.events,
            "event": events,
            "slot step": steps,
            "slot lane": lanes * slots + start_lanes,
            "slot channel lane": (weighed_lanes * slots + weighed_starts) * queries.channels,
            "slot key node": self.load.keys_with(events) * nodes,
            "slot cell": self.load.cells_with(events, queries.pane or 1e15),
            "result": reports,
            "slot report lane": accepts * slots * (1 + queries.channels),
        }


class PairParts(UnitParts):
    """The pairs of some queries, and the rows of their windows."""

    def __init__(self, merged: MergedAutomaton, pairs: Pairs, load: Load) -> None:
        self.load = load
        queries = merged.queries
        names = ("events", "runs", "lanes", "totals", "rows", "joins", "live joins", "windows", "results")
        builder = _PartsBuilder(names, len(queries))
        builder.add_symbols([_symbols_of(compiled) for compiled in queries], load)
        rates = np.array([load.rate(symbol) for symbol in pairs.symbols])
        total = sum(map(load.rate, merged.symbols))
        cells = max(load.cells_with(total, pairs.pane), 1e-12)
        symbol, _, source, target = pairs.steps
        lanes = np.bincount(target, rates[symbol], pairs.size)
        runs = np.bincount(target, rates[symbol] * _find_run_begins(pairs), pairs.size)
        reached = estimate_reach(pairs.size, pairs.starts.tolist(), source, target, rates[symbol] / cells)
        builder.add(pairs.members, lanes=lanes, runs=runs, totals=np.ones(pairs.size))
        joins = np.array([len(row) for row in pairs.joins], np.float64)
        live = np.array([sum(reached[pair] for _, pair in row) for row in pairs.joins], np.float64)
        builder.add(pairs.row_members, rows=np.ones(pairs.rows), joins=joins, **{"live joins": live})
        windows, results = np.array([count_windows(compiled, load) for compiled in queries]).T
        builder.add(_number_singly(len(queries)), windows=windows, results=results)
        builder.fill(self)

    def work(self, sums: Floats, queries: UnitProfile) -> Work:
        events, runs, lanes, totals, rows, joins, live_joins, windows, results = sums.tolist()
        cells = self.load.cells_with(events, queries.pane)
        open_windows = queries.widest / queries.step
        return {
            "unit": 1 / self.load.seconds,
            "scan": self.load.events,
            "event": events,
            "pair run": runs,
            "pair lane": lanes,
            "pair channel lane": lanes * queries.channels,
            "pair cell": cells,
            "pair total": cells * totals * (1 + queries.channels),
            "pair join": cells * joins,
            "pair product lane": cells * live_joins * open_windows,
            "pair product channel lane": cells * live_joins * open_windows * queries.channels,
            "pair row lane": cells * rows * open_windows * (1 + queries.channels),
            "pair report": cells * queries.number + windows,
            "result": results,
        }


def _find_run_begins(pairs: Pairs) -> NDArray[np.bool_]:
    """Return for each step whether it is the first of a run of neighbours that one event takes at once."""
    symbol, weights, source, target = pairs.steps
    order = np.lexsort((target, source != target, symbol))
    jumps = [np.diff(column[order]) != by for column, by in ((symbol, 0), (weights, 0), (source, 1), (target, 1))]
    begins = np.ones(len(order), np.bool_)
    begins[order[1:]] = np.logical_or.reduce(jumps)
    return begins


class StackParts(UnitParts):
    """Queries by two stacks, each on a machine of its own."""

    def __init__(self, machines: Sequence[MergedAutomaton], load: Load) -> None:
        self.names = tuple(count_stack_work(machines[0], load))
        works = [count_stack_work(merged, load) for merged in machines]
        self.sums = np.array([[work[name] for name in self.names] for work in works])
        self.own = _number_singly(len(machines))

    def work(self, sums: Floats, queries: UnitProfile) -> Work:
        return dict(zip(self.names, sums.tolist(), strict=True))


def count_stack_work(merged: MergedAutomaton, load: Load) -> Work:
    """Count the work of a machine by two stacks."""
    touched = count_touched_totals(merged)
    rates = {symbol: load.rate(symbol) for symbol in touched}
    lanes = sum(rate * (touched[symbol].back + touched[symbol].sweep) for symbol, rate in rates.items())
    results = [count_windows(compiled, load)[1] for compiled in merged.queries]
    values = sum(
        count * sum(int(merged.stack_table.rows[node]) for node in nodes)
        for count, nodes in zip(results, merged.accepting, strict=True)
    )
    if merged.queries[0].span.is_continuous:
        values = sum(rate * touched[symbol].value for symbol, rate in rates.items())
    channels = weigh_channels(merged.queries[0])
    events = sum(rates.values())
    return {
        "unit": 1 / load.seconds,
        "scan": load.events,
        "event": events,
        "result": sum(results),
        "stack step": sum(load.rate(edge.symbol) for edge in merged.edges),
        "stack lane": lanes,
        "stack channel lane": lanes * channels,
        "stack value": values * (1 + channels),
        "stack key total": load.keys_with(events) * int(merged.stack_table.rows.sum()),
    }


def estimate_reach(size: int, starts: Sequence[int], source: Ints, target: Ints, per_cell: Floats) -> Floats:
    """Estimate for each node the probability that totals have come to it, by the shortest way from a start.

    `per_cell` are the events of each step in one cell. O(steps * length of the longest way).
    """
    expected = np.zeros(size)
    known = np.zeros(size, np.bool_)
    known[starts] = True
    expected[starts] = np.inf
    depth = 1
    latest = known.copy()
    while latest.any():
        leading = latest[source] & ~known[target]
        latest = np.zeros(size, np.bool_)
        if leading.any():
            before = np.where(np.isinf(expected[source[leading]]), 1.0, expected[source[leading]])
            np.maximum.at(expected, target[leading], before * per_cell[leading] / depth)
            latest[target[leading]] = True
            known |= latest
        depth += 1
    return -np.expm1(-expected)
