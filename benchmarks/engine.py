"""Runs of the local engine as experiments time them: Arrow table to result table, without the search for a plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from benchmarks.measure import Measurement, Timings, compute_ratio, run_interleaved
from benchmarks.registry import Row
from motet.compile import Program, compile_workload
from motet.engine.local import LocalRun, run_table
from motet.model.query import Workload
from motet.options import Options
from motet.plans.units import Unit
from motet.schema import EventSchema


def compile_plans(workload: Workload, events: pa.Table, plans: Mapping[str, Options]) -> dict[str, Program]:
    """Compile a workload once for each set of options."""
    schema = EventSchema(events.schema)
    return {name: compile_workload(workload, schema, options) for name, options in plans.items()}


def time_programs(compiled: Mapping[str, Program], events: pa.Table, repeats: int) -> Timings:
    """Measure the CPU seconds of each program over events, on one core, the programs taking turns."""
    pa.set_cpu_count(1)
    return run_interleaved(
        {name: make_runner(program, events) for name, program in compiled.items()}, repeats, time.process_time
    )


def make_runner(program: Program, events: pa.Table) -> Callable[[], object]:
    """Return a function that runs a program to its end; matches leave batch by batch and are not kept."""
    return partial(count_matches, program, events) if program.detect else partial(run_table, program, events)


def count_matches(program: Program, events: pa.Table) -> int:
    """Run a program and return how many results leave."""
    return sum(len(table) for table in LocalRun(program).run(events))


def compare_times(timings: Timings, *gaining: str, base: str = "none") -> Row:
    """Return the seconds by plan, and how many times as fast as the base some are."""
    seconds: Row = {name: Measurement.of(times) for name, times in timings.items()}
    gains: Row = {f"{name} gains": compute_ratio(timings[base], timings[name]) for name in gaining}
    return {**seconds, **gains}


def count_totals(program: Program) -> int:
    """Return how many totals one key keeps: the measure of memory that the papers on aggregation use."""
    return sum(_count_unit_totals(unit) for branch in program.branches for unit in branch.units)


def _count_unit_totals(unit: Unit) -> int:
    if unit.pairs is None:
        return len(unit.merged.settled) * unit.slots
    return unit.pairs.size + unit.pairs.rows * unit.slots
