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
from motet.engine.encode import EncodedEvents, encode_branch, select_keys
from motet.engine.key_shares import cut_keys
from motet.engine.metrics import BranchMetrics
from motet.engine.partials import build_partials, merge_within_task
from motet.engine.ties import select_merged_events
from motet.engine.trends import run_trend_query
from motet.kernels.pairs import PairMachine, WindowRows, run_pairs
from motet.kernels.ragged import offsets_of
from motet.kernels.resume import run_slots
from motet.kernels.resume_stacks import run_stacks
from motet.kernels.slots import PANES, STARTS, WINDOWS
from motet.kernels.tables import MAX_TIME, MIN_TIME, Events, Queries, renumber_keys
from motet.kernels.totals import Layout, list_layouts, list_pair_layouts
from motet.plans.execution import Execution, Executions, describe_machine_run, describe_pairs_run
from motet.plans.machine import build_machine, build_queries_table
from motet.plans.pairs import Pairs, encode_pairs
from motet.plans.units import Strategy, Unit

# Labels and totals of results, and which keys overflowed.
KernelResult = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]

SLOT_MODES = {Strategy.PANES: PANES, Strategy.WINDOWS: WINDOWS, Strategy.STARTS: STARTS}


def run_branch(
    program: Program,
    branch_index: int,
    events: pa.Table,
    emit_from: int | None = None,
    emit_to: int | None = None,
    observed: BranchMetrics | None = None,
    threads: int = 1,
    executions: Executions | None = None,
) -> pa.Table:
    """Return partial results over rows in any order.

    With bounds, only those whose time or window end lies in [emit_from, emit_to). Keys are split among threads.
    `executions` is where to note what was executed.
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
            found, executed = run_unit_partials(program, unit, encoded, bounds, threads)
        tables += found
        if executions is not None and executed is not None:
            executions[branch_index, at] = executed
    partials = pa.concat_tables(tables) if tables else program.partial_schema.empty_table()
    return merge_within_task(program, partials) if branch.needs_combine else partials


def run_unit_partials(
    program: Program, unit: Unit, encoded: EncodedEvents, bounds: tuple[int, int], threads: int = 1
) -> tuple[list[pa.Table], Execution | None]:
    """Return a unit's partial results, and what was executed; None where no event concerns it.

    Keys whose counts exceed 64 bits run again with extended totals.
    """
    if not len(encoded.time):
        return [], None
    if unit.strategy is Strategy.TRENDS:
        tables = run_trend_query(program, unit, encoded, bounds)
        return tables, describe_machine_run(Strategy.TRENDS, unit.merged, unit.width) if tables else None
    events = select_merged_events(encoded, unit)
    if not len(events.time):
        return [], None
    found, executed = run_unit(unit, encoded, events, bounds, threads)
    return [
        build_partials(program, labels, whole, real, layout, unit.queries, encoded)
        for labels, whole, real, layout in found
    ], executed


def run_unit(
    unit: Unit,
    encoded: EncodedEvents,
    events: Events,
    bounds: tuple[int, int] = (int(MIN_TIME), int(MAX_TIME) + 1),
    threads: int = 1,
) -> tuple[list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], Layout]], Execution]:
    """Return labels and totals of results, by layout of the totals, and what was executed."""
    attempts: list[tuple[Callable[[Events], KernelResult], Layout]]
    shape = unit.queries[0].channels.shape
    if unit.pairs is not None:
        executed = describe_pairs_run(unit.queries, unit.pairs)
        tables = build_pair_tables(unit, unit.pairs, encoded)
        attempts = [
            (partial(_run_pairs, unit.pairs.pane, tables, inner, layout, bounds), layout)
            for inner, layout in list_pair_layouts(*shape)
        ]
    else:
        executed = describe_machine_run(unit.strategy, unit.merged, unit.width)
        layouts = list_layouts(*shape, rarely_large=unit.strategy is Strategy.STACKS)
        attempts = [(partial(_run_machine, unit, encoded, layout, bounds), layout) for layout in layouts]
    found = []
    for run, layout in attempts:
        labels, whole, real, overflowed = _run_in_threads(run, events, threads)
        found.append((labels, whole, real, layout))
        if not overflowed.any():
            break
        events = select_keys(events, overflowed)[0]
    return found, executed


def _run_in_threads(run: Callable[[Events], KernelResult], events: Events, threads: int) -> KernelResult:
    """Run a kernel with the keys split among threads: kernels release the GIL."""
    cuts = cut_keys(events.offsets, threads)
    if len(cuts) == 2:
        return run(events)
    parts = [events._replace(offsets=events.offsets[first : last + 1]) for first, last in pairwise(cuts)]
    with ThreadPoolExecutor(len(parts)) as pool:
        found = list(pool.map(run, parts))
    labels = [renumber_keys(part[0], first) for part, first in zip(found, cuts, strict=False)]
    _, whole, real, overflowed = zip(*found, strict=True)
    return np.concatenate(labels), np.concatenate(whole), np.concatenate(real), np.concatenate(overflowed)


def _run_machine(
    unit: Unit, encoded: EncodedEvents, layout: Layout, bounds: tuple[int, int], events: Events
) -> KernelResult:
    machine = build_machine(unit.merged, encoded.classes)
    queries = build_queries_table(unit.merged)
    ranked = unit.queries[0].span.ranked
    if unit.strategy is Strategy.STACKS:
        return run_stacks(events, machine, queries, unit.merged.stack_table, layout, ranked, *bounds)
    return run_slots(events, machine, queries, layout, SLOT_MODES[unit.strategy], unit.width, ranked, *bounds)


def build_pair_tables(unit: Unit, pairs: Pairs, encoded: EncodedEvents) -> tuple[PairMachine, WindowRows, Queries]:
    """Return the tables that a unit by pairs runs on."""
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
