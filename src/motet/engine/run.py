"""Run the units of a branch over a table of events."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.compile import Program
from motet.engine.encode import EncodedEvents, encode_branch, select_keys, select_unit_events
from motet.engine.metrics import BranchMetrics
from motet.engine.partials import build_partials, merge_within_task
from motet.engine.ties import merge_ties
from motet.engine.trends import run_trend_query
from motet.kernels.pairs import PairMachine, WindowRows, run_pairs
from motet.kernels.ragged import offsets_of, row_numbers
from motet.kernels.resume import run_slots
from motet.kernels.slots import PANES, STARTS, WINDOWS
from motet.kernels.tables import MAX_TIME, MIN_TIME, Events, Queries, renumber_keys
from motet.kernels.totals import Layout, list_layouts, list_pair_layouts
from motet.kernels.two_stacks import run_stacks
from motet.plans.machine import build_machine, build_queries_table
from motet.plans.pairs import Pairs, encode_pairs
from motet.plans.units import Strategy, Unit, estimate_pairs_cost, estimate_slots_cost

# Labels and totals of results, and which keys overflowed.
KernelResult = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]

# Fewer events than this are not worth a thread.
MIN_EVENTS_PER_THREAD = 8_000

SLOT_MODES = {Strategy.PANES: PANES, Strategy.WINDOWS: WINDOWS, Strategy.STARTS: STARTS}


def run_branch(
    program: Program,
    branch_index: int,
    events: pa.Table,
    emit_from: int | None = None,
    emit_to: int | None = None,
    observed: BranchMetrics | None = None,
    threads: int = 1,
) -> pa.Table:
    """Return partial results over rows in any order.

    With bounds, only those whose time or window end lies in [emit_from, emit_to). Keys are split among threads.
    """
    branch = program.branches[branch_index]
    encoded = encode_branch(program, branch, events)
    bounds = (
        int(MIN_TIME) if emit_from is None else emit_from,
        int(MAX_TIME) + 1 if emit_to is None else emit_to,
    )
    if observed is not None:
        observed.count_events(encoded, emit_from, emit_to)
    tables = []
    for at, unit in enumerate(branch.units):
        with nullcontext() if observed is None else observed.timer(at):
            tables += run_unit_partials(program, unit, encoded, bounds, threads)
    partials = pa.concat_tables(tables) if tables else program.partial_schema.empty_table()
    return merge_within_task(program, partials) if branch.needs_combine else partials


def run_unit_partials(
    program: Program, unit: Unit, encoded: EncodedEvents, bounds: tuple[int, int], threads: int = 1
) -> list[pa.Table]:
    """Return a unit's partial results; keys whose counts exceed 64 bits run again with extended totals."""
    if not len(encoded.time):
        return []
    if unit.strategy is Strategy.TRENDS:
        return run_trend_query(program, unit, encoded, bounds)
    events = merge_ties(select_unit_events(encoded, unit)[0], unit, encoded.classes)
    if not len(events.time):
        return []
    found = run_unit(unit, encoded, events, bounds, threads)
    return [
        build_partials(program, labels, whole, real, layout, unit.queries, encoded)
        for labels, whole, real, layout in found
    ]


def run_unit(
    unit: Unit,
    encoded: EncodedEvents,
    events: Events,
    bounds: tuple[int, int] = (int(MIN_TIME), int(MAX_TIME) + 1),
    threads: int = 1,
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], Layout]]:
    """Return labels and totals of results, by layout of the totals."""
    attempts: list[tuple[Layout, Callable[[Events], KernelResult]]]
    shape = unit.queries[0].channels.shape
    if unit.pairs is not None and _pairs_pay_off(unit, unit.pairs, events):
        tables = _build_pair_tables(unit, unit.pairs, encoded)
        attempts = [
            (layout, partial(_run_pairs, unit.pairs.pane, tables, inner, layout, bounds))
            for inner, layout in list_pair_layouts(*shape)
        ]
    else:
        layouts = list_layouts(*shape, rarely_large=unit.strategy is Strategy.STACKS)
        attempts = [(layout, partial(_run_kernel, unit, encoded, layout, bounds)) for layout in layouts]
    found = []
    for layout, run in attempts:
        labels, whole, real, overflowed = _run_in_threads(run, events, threads)
        found.append((labels, whole, real, layout))
        if not overflowed.any():
            break
        events = select_keys(events, overflowed)[0]
    return found


def _run_in_threads(run: Callable[[Events], KernelResult], events: Events, threads: int) -> KernelResult:
    """Run a kernel with the keys split among threads: kernels release the GIL."""
    keys = len(events.offsets) - 1
    shares = min(threads, keys, len(events.time) // MIN_EVENTS_PER_THREAD)
    if shares < 2:
        return run(events)
    even = np.linspace(0, events.offsets[-1], shares + 1)[1:-1]
    cuts = np.unique([0, *np.searchsorted(events.offsets, even), keys]).tolist()
    parts = [events._replace(offsets=events.offsets[first : last + 1]) for first, last in pairwise(cuts)]
    with ThreadPoolExecutor(len(parts)) as pool:
        found = list(pool.map(run, parts))
    labels = [renumber_keys(part[0], first) for part, first in zip(found, cuts, strict=False)]
    _, whole, real, overflowed = zip(*found, strict=True)
    return np.concatenate(labels), np.concatenate(whole), np.concatenate(real), np.concatenate(overflowed)


def _run_kernel(
    unit: Unit, encoded: EncodedEvents, layout: Layout, bounds: tuple[int, int], events: Events
) -> KernelResult:
    machine = build_machine(unit.merged, encoded.classes)
    queries = build_queries_table(unit.merged)
    ranked = unit.queries[0].span.ranked
    if unit.strategy is Strategy.STACKS:
        settled = np.array(unit.merged.settled, np.int32)
        reachable_rows = np.array(unit.merged.reachable_rows, np.int32)
        return run_stacks(events, machine, queries, settled, reachable_rows, layout, ranked, *bounds)
    return run_slots(events, machine, queries, layout, SLOT_MODES[unit.slot_strategy], unit.width, ranked, *bounds)


# What it takes to empty a pair before a pane, and to multiply a lane by one, beside a step between pairs.
EMPTY_COST = 0.4
JOIN_COST = 1.2


def _pairs_pay_off(unit: Unit, pairs: Pairs, events: Events) -> bool:
    """Return whether keys have enough events per pane to outweigh the fixed cost of a pane."""
    if unit.forced:
        return True
    first = unit.queries[0]
    pane = events.time // pairs.pane
    key = row_numbers(events.offsets)
    used = 1 + np.count_nonzero((np.diff(pane) != 0) | (np.diff(key) != 0))
    per_pane = EMPTY_COST * pairs.size + JOIN_COST * sum(map(len, pairs.joins)) * unit.slots
    # Costs of all transitions, each symbol being as frequent as another.
    symbols = max(1, len(unit.merged.symbols))
    saved = len(unit.merged.edges) * estimate_slots_cost(first, unit.slots) - estimate_pairs_cost(unit.merged, pairs)
    return bool(len(events.time) * saved / symbols > used * per_pane * (1 + 3 * sum(first.channels.shape)))


def _build_pair_tables(unit: Unit, pairs: Pairs, encoded: EncodedEvents) -> tuple[PairMachine, WindowRows, Queries]:
    rows = WindowRows(
        join_offsets=offsets_of(pairs.joins),
        joins=np.array([word for row in pairs.joins for join in row for word in join], np.int32),
        keeps=pairs.keeps,
        circles=pairs.circles,
        begin=np.array(sorted(set(pairs.begin)), np.int32),
        accept_offsets=offsets_of(pairs.accept),
        accept=np.array([row for rows in pairs.accept for row in rows], np.int32),
    )
    code = encode_pairs(pairs, encoded.classes, unit.merged.negs)
    return PairMachine(code, pairs.starts.astype(np.int32), pairs.size), rows, build_queries_table(unit.merged)


def _run_pairs(
    pane: int,
    tables: tuple[PairMachine, WindowRows, Queries],
    inner: Layout,
    layout: Layout,
    bounds: tuple[int, int],
    events: Events,
) -> KernelResult:
    machine, rows, queries = tables
    step = math.gcd(*queries.slide.tolist())
    return run_pairs(events, machine, rows, queries, inner, layout, pane, step, bounds)
