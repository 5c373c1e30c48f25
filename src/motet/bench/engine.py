"""Runs of the local engine as experiments time them: Arrow table to result table, without the search for a plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from motet.bench.measure import Measured, Taken, in_turn, ratio
from motet.bench.registry import Row
from motet.engine import EventSchema, Options, Program, compile_workload
from motet.engine.local import LocalRun, run_table
from motet.model.query import Workload
from motet.plan.units import Unit


def programs(workload: Workload, events: pa.Table, plans: Mapping[str, Options]) -> dict[str, Program]:
    """A workload compiled by each way to plan it."""
    schema = EventSchema(events.schema)
    return {name: compile_workload(workload, schema, options) for name, options in plans.items()}


def timed(compiled: Mapping[str, Program], events: pa.Table, repeats: int) -> Taken:
    """CPU seconds of each program over events, on one core, the programs taking turns."""
    pa.set_cpu_count(1)
    return in_turn({name: runner(program, events) for name, program in compiled.items()}, repeats, time.process_time)


def runner(program: Program, events: pa.Table) -> Callable[[], object]:
    """A run that gives all its results; matches leave batch by batch and are not kept."""
    return partial(matches, program, events) if program.detect else partial(run_table, program, events)


def matches(program: Program, events: pa.Table) -> int:
    """How many results leave."""
    return sum(len(table) for table in LocalRun(program).over_table(events))


def against(taken: Taken, *gaining: str, base: str = "none") -> Row:
    """Seconds by plan, and how many times as fast as the base some are."""
    seconds: Row = {name: Measured.of(times) for name, times in taken.items()}
    gains: Row = {f"{name} gains": ratio(taken[base], taken[name]) for name in gaining}
    return {**seconds, **gains}


def totals(program: Program) -> int:
    """How many totals one key keeps: the measure of memory that the papers on aggregation use."""
    return sum(_totals(unit) for branch in program.branches for unit in branch.units)


def _totals(unit: Unit) -> int:
    if unit.pairs is None:
        return len(unit.merged.settled) * unit.slots
    return unit.pairs.size + unit.pairs.rows * unit.slots
