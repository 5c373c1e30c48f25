"""Runs the units of a branch over a table of events."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.encode import Encoded, encode, only_keys, unit_events
from motet.engine.partials import merge_within, partials_of
from motet.engine.program import Branch, Program
from motet.engine.trends import run_trend
from motet.kernels.slots import PANES, STARTS, WINDOWS, run_slots
from motet.kernels.stacks import run_stacks
from motet.kernels.tables import FOREVER, LONG_AGO, Events
from motet.kernels.totals import Layout, layouts_of
from motet.plan.machine import machine_for, queries_table
from motet.plan.units import Strategy, Unit

SLOT_MODES = {Strategy.PANES: PANES, Strategy.WINDOWS: WINDOWS, Strategy.STARTS: STARTS}


def run_branch(
    program: Program, branch_index: int, events: pa.Table, emit_from: int | None = None, emit_to: int | None = None
) -> pa.Table:
    """Partial results over rows in any order; with bounds, only those whose time or window end lies in [emit_from,
    emit_to).
    """
    branch = program.branches[branch_index]
    encoded = encode_branch(program, branch, events)
    bounds = (
        int(LONG_AGO) if emit_from is None else emit_from,
        int(FOREVER) + 1 if emit_to is None else emit_to,
    )
    tables = [table for unit in branch.units for table in unit_partials(program, unit, encoded, bounds)]
    partials = pa.concat_tables(tables) if tables else program.partial_schema.empty_table()
    return merge_within(program, partials) if branch.needs_combine else partials


def encode_branch(program: Program, branch: Branch, events: pa.Table) -> Encoded:
    """A branch's events in the engine's order and alphabet."""
    return encode(events, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)


def unit_partials(program: Program, unit: Unit, encoded: Encoded, bounds: tuple[int, int]) -> list[pa.Table]:
    """A unit's results; keys whose counts exceed 64 bits run once more with extended totals."""
    if not len(encoded.time):
        return []
    if unit.strategy is Strategy.TRENDS:
        return run_trend(program, unit, encoded, bounds)
    events, _ = unit_events(encoded, unit)
    if not len(events.time):
        return []
    found = run_unit(unit, encoded, events, bounds)
    return [
        partials_of(program, labels, whole, real, layout, unit.queries, encoded)
        for labels, whole, real, layout in found
    ]


def run_unit(
    unit: Unit, encoded: Encoded, events: Events, bounds: tuple[int, int] = (int(LONG_AGO), int(FOREVER) + 1)
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], Layout]]:
    """Labels and totals of results, by layout of the totals."""
    found = []
    for layout in layouts_of(*unit.queries[0].channels.shape, rarely_large=unit.strategy is Strategy.STACKS):
        labels, whole, real, overflowed = _kernel(unit, encoded, events, layout, bounds)
        found.append((labels, whole, real, layout))
        if not overflowed.any():
            break
        events = only_keys(events, overflowed)[0]
    return found


def _kernel(
    unit: Unit, encoded: Encoded, events: Events, layout: Layout, bounds: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    machine = machine_for(unit.merged, encoded.classes)
    queries = queries_table(unit.merged)
    ranked = unit.queries[0].span.ranked
    if unit.strategy is Strategy.STACKS:
        settled = np.array(unit.merged.settled, np.int32)
        rows_before = np.array(unit.merged.rows_before, np.int32)
        return run_stacks(events, machine, queries, settled, rows_before, layout, ranked, *bounds)
    return run_slots(events, machine, queries, layout, SLOT_MODES[unit.strategy], unit.width, ranked, *bounds)
