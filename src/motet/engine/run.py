"""Runs the units of a branch over a table of events."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.encode import Encoded, encode, unit_events
from motet.engine.partials import merge_within, partials_of
from motet.engine.program import Branch, Program
from motet.engine.trends import run_trend
from motet.kernels.slots import PANES, STARTS, WINDOWS, run_slots
from motet.kernels.stacks import run_stacks
from motet.kernels.tables import FOREVER, LONG_AGO, Events, Rows
from motet.plan.machine import machine_for, queries_table
from motet.plan.units import Strategy, Unit

SLOT_MODES = {Strategy.PANES: PANES, Strategy.WINDOWS: WINDOWS, Strategy.STARTS: STARTS}


def run_branch(
    program: Program, branch_index: int, events: pa.Table, emit_from: int | None = None, emit_to: int | None = None
) -> pa.Table:
    """Partial results over rows in any order; with bounds, only those whose time or window end lies in [emit_from, emit_to)."""
    branch = program.branches[branch_index]
    encoded = encode(events, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)
    bounds = (
        int(LONG_AGO) if emit_from is None else emit_from,
        int(FOREVER) + 1 if emit_to is None else emit_to,
    )
    tables = [table for unit in branch.units for table in _run_unit(program, branch, unit, encoded, bounds)]
    partials = pa.concat_tables(tables) if tables else program.partial_schema.empty_table()
    return merge_within(program, partials) if branch.needs_combine else partials


def _run_unit(
    program: Program, branch: Branch, unit: Unit, encoded: Encoded, bounds: tuple[int, int]
) -> list[pa.Table]:
    """A unit's results; keys whose counts exceed 64 bits run once more with extended totals."""
    if not len(encoded.time):
        return []
    if unit.strategy is Strategy.TRENDS:
        return run_trend(program, unit, encoded, bounds)
    events, _ = unit_events(encoded, unit)
    if not len(events.time):
        return []
    rows, overflowed = _kernel(unit, encoded, events, bounds, False)
    tables = [partials_of(program, rows, unit.queries, encoded, False)]
    if overflowed.any():
        rows, _ = _kernel(unit, encoded, _only_keys(events, overflowed), bounds, True)
        tables.append(partials_of(program, rows, unit.queries, encoded, True))
    return tables


def _kernel(
    unit: Unit, encoded: Encoded, events: Events, bounds: tuple[int, int], extended: bool
) -> tuple[Rows, NDArray[np.bool_]]:
    machine = machine_for(unit.merged, encoded.classes)
    queries = queries_table(unit.merged)
    channels = unit.queries[0].channels.shape
    ranked = unit.queries[0].span.ranked
    if unit.strategy is Strategy.STACKS:
        settled = np.array(unit.merged.settled, np.int32)
        return run_stacks(events, machine, queries, settled, channels, extended, ranked, *bounds)
    mode = SLOT_MODES[unit.strategy]
    return run_slots(events, machine, queries, mode, unit.width, channels, extended, ranked, *bounds)


def _only_keys(events: Events, keys: NDArray[np.bool_]) -> Events:
    """The events of some keys; the others stay as keys without events."""
    counts = np.diff(events.offsets)
    kept = np.repeat(keys, counts)
    offsets = np.concatenate(([0], np.cumsum(np.where(keys, counts, 0)))).astype(np.int64)
    return Events(
        offsets,
        events.time[kept],
        events.enter[kept],
        events.leave[kept],
        events.klass[kept],
        events.valid[:, kept],
        events.value[:, kept],
        events.place[:, kept],
    )
