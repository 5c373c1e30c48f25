"""Runs the units of a branch over a table of events."""

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

from motet.engine.encode import Encoded, encode, only_keys, unit_events
from motet.engine.observed import Observed
from motet.engine.partials import merge_within, partials_of
from motet.engine.program import Branch, Program
from motet.engine.ties import without_ties
from motet.engine.trends import run_trend
from motet.kernels.pairs import Rows, run_pairs
from motet.kernels.slots import PANES, STARTS, WINDOWS, run_slots
from motet.kernels.stacks import run_stacks
from motet.kernels.tables import FOREVER, LONG_AGO, Events, of_later_keys
from motet.kernels.totals import Layout, layouts_of, pair_layouts_of
from motet.plan.machine import machine_for, offsets_of, queries_table
from motet.plan.pairs import Pairs, pairs_code
from motet.plan.units import Strategy, Unit, pairs_cost, slots_cost

# Labels and totals of results, and which keys overflowed.
Found = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]

# Fewer events than this are not worth a thread.
LEAST_EVENTS = 8_000

SLOT_MODES = {Strategy.PANES: PANES, Strategy.WINDOWS: WINDOWS, Strategy.STARTS: STARTS}


def run_branch(
    program: Program,
    branch_index: int,
    events: pa.Table,
    emit_from: int | None = None,
    emit_to: int | None = None,
    observed: Observed | None = None,
    threads: int = 1,
) -> pa.Table:
    """Partial results over rows in any order; with bounds, only those whose time or window end lies in [emit_from,
    emit_to). Threads share the keys out among them.
    """
    branch = program.branches[branch_index]
    encoded = encode_branch(program, branch, events)
    bounds = (
        int(LONG_AGO) if emit_from is None else emit_from,
        int(FOREVER) + 1 if emit_to is None else emit_to,
    )
    if observed is not None:
        observed.see(encoded, emit_from, emit_to)
    tables = []
    for at, unit in enumerate(branch.units):
        with nullcontext() if observed is None else observed.timed(at):
            tables += unit_partials(program, unit, encoded, bounds, threads)
    partials = pa.concat_tables(tables) if tables else program.partial_schema.empty_table()
    return merge_within(program, partials) if branch.needs_combine else partials


def encode_branch(program: Program, branch: Branch, events: pa.Table) -> Encoded:
    """A branch's events in the engine's order and alphabet."""
    return encode(events, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)


def unit_partials(
    program: Program, unit: Unit, encoded: Encoded, bounds: tuple[int, int], threads: int = 1
) -> list[pa.Table]:
    """A unit's results; keys whose counts exceed 64 bits run once more with extended totals."""
    if not len(encoded.time):
        return []
    if unit.strategy is Strategy.TRENDS:
        return run_trend(program, unit, encoded, bounds)
    events = without_ties(unit_events(encoded, unit)[0], unit, encoded.classes)
    if not len(events.time):
        return []
    found = run_unit(unit, encoded, events, bounds, threads)
    return [
        partials_of(program, labels, whole, real, layout, unit.queries, encoded)
        for labels, whole, real, layout in found
    ]


def run_unit(
    unit: Unit,
    encoded: Encoded,
    events: Events,
    bounds: tuple[int, int] = (int(LONG_AGO), int(FOREVER) + 1),
    threads: int = 1,
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], Layout]]:
    """Labels and totals of results, by layout of the totals."""
    attempts: list[tuple[Layout | None, Layout]]
    if unit.pairs is not None and _are_full(unit, unit.pairs, events):
        attempts = [*pair_layouts_of(*unit.queries[0].channels.shape)]
    else:
        layouts = layouts_of(*unit.queries[0].channels.shape, rarely_large=unit.strategy is Strategy.STACKS)
        attempts = [(None, layout) for layout in layouts]
    found = []
    for inner, layout in attempts:
        run = partial(_kernel, unit, encoded, layout, bounds)
        if inner is not None:
            run = partial(_run_by_pairs, unit, encoded, inner, layout, bounds)
        labels, whole, real, overflowed = _by_threads(run, events, threads)
        found.append((labels, whole, real, layout))
        if not overflowed.any():
            break
        events = only_keys(events, overflowed)[0]
    return found


def _by_threads(run: Callable[[Events], Found], events: Events, threads: int) -> Found:
    """What a kernel finds, the keys shared out among threads: kernels hold no lock of Python's."""
    keys = len(events.offsets) - 1
    shares = min(threads, keys, len(events.time) // LEAST_EVENTS)
    if shares < 2:
        return run(events)
    even = np.linspace(0, events.offsets[-1], shares + 1)[1:-1]
    cuts = np.unique([0, *np.searchsorted(events.offsets, even), keys]).tolist()
    parts = [events._replace(offsets=events.offsets[first : last + 1]) for first, last in pairwise(cuts)]
    with ThreadPoolExecutor(len(parts)) as pool:
        found = list(pool.map(run, parts))
    labels = [of_later_keys(part[0], first) for part, first in zip(found, cuts, strict=False)]
    _, whole, real, overflowed = zip(*found, strict=True)
    return np.concatenate(labels), np.concatenate(whole), np.concatenate(real), np.concatenate(overflowed)


def _kernel(unit: Unit, encoded: Encoded, layout: Layout, bounds: tuple[int, int], events: Events) -> Found:
    machine = machine_for(unit.merged, encoded.classes)
    queries = queries_table(unit.merged)
    ranked = unit.queries[0].span.ranked
    if unit.strategy is Strategy.STACKS:
        settled = np.array(unit.merged.settled, np.int32)
        rows_before = np.array(unit.merged.rows_before, np.int32)
        return run_stacks(events, machine, queries, settled, rows_before, layout, ranked, *bounds)
    return run_slots(events, machine, queries, layout, SLOT_MODES[unit.by_slots], unit.width, ranked, *bounds)


# What it takes to empty a pair before a pane, and to multiply a lane by one, beside a step between pairs.
EMPTY_COST = 0.4
JOIN_COST = 1.2


def _are_full(unit: Unit, pairs: Pairs, events: Events) -> bool:
    """Whether a key has events enough in a pane to make up for what each pane costs."""
    if unit.forced:
        return True
    first = unit.queries[0]
    pane = events.time // pairs.pane
    key = np.repeat(np.arange(len(events.offsets) - 1), np.diff(events.offsets))
    used = 1 + np.count_nonzero((np.diff(pane) != 0) | (np.diff(key) != 0))
    per_pane = EMPTY_COST * pairs.size + JOIN_COST * sum(map(len, pairs.joins)) * unit.slots
    # Costs of all transitions, each symbol being as frequent as another.
    symbols = max(1, len(unit.merged.symbols))
    saved = len(unit.merged.edges) * slots_cost(first, unit.slots) - pairs_cost(unit.merged, pairs)
    return bool(len(events.time) * saved / symbols > used * per_pane * (1 + 3 * sum(first.channels.shape)))


def _run_by_pairs(
    unit: Unit, encoded: Encoded, inner: Layout, layout: Layout, bounds: tuple[int, int], events: Events
) -> Found:
    pairs, queries = unit.pairs, queries_table(unit.merged)
    assert pairs is not None
    rows = Rows(
        join_offsets=offsets_of(pairs.joins),
        joins=np.array([word for row in pairs.joins for join in row for word in join], np.int32),
        begin=np.array(sorted(set(pairs.begin)), np.int32),
        accept_offsets=offsets_of(pairs.accept),
        accept=np.array([row for rows in pairs.accept for row in rows], np.int32),
    )
    code = pairs_code(pairs, encoded.classes, unit.merged.negs)
    starts = pairs.starts.astype(np.int32)
    step = math.gcd(*queries.slide.tolist())
    return run_pairs(events, code, starts, pairs.size, rows, queries, inner, layout, pairs.pane, step, *bounds)
