"""Runs of the local engine as experiments time them: Arrow table to result table, without the search for a plan."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from benchmarks.measure import Measurement, Timings, compute_ratio, run_interleaved
from benchmarks.registry import Row
from motet.compile import Program, compile_workload
from motet.engine.live import Stream
from motet.engine.live.detect import DetectOperator
from motet.engine.live.value_stacks import ValueStackUnit
from motet.engine.local import LocalRun, run_table
from motet.engine.workload_profile import profile_workload
from motet.model.query import Workload
from motet.options import Options
from motet.plans.execution import Execution
from motet.plans.units import Unit
from motet.schema import EventSchema

Executed = Sequence[Execution]
READING = "reading"  # the case that only reads, classifies and sorts the events for a published executor


def compile_plans(workload: Workload, events: pa.Table, plans: Mapping[str, Options]) -> dict[str, Program]:
    """Compile a workload once for each set of options.

    What aggregates share is planned by the statistics of the events, unless others are given.
    """
    schema = EventSchema(events.schema)
    aggregates = any(query.is_aggregate for query in workload.queries)
    known = profile_workload(events, workload, schema) if aggregates else None
    return {
        name: compile_workload(workload, schema, replace(options, statistics=options.statistics or known))
        for name, options in plans.items()
    }


def time_programs(
    compiled: Mapping[str, Program],
    events: pa.Table,
    repeats: int,
    others: Mapping[str, Callable[[], object]] = MappingProxyType({}),
) -> tuple[Timings, str]:
    """Measure the CPU seconds of each program over events, and of other cases, on one core, all taking turns.

    Returns the seconds, and what the programs executed.
    """
    pa.set_cpu_count(1)
    executed = {name: list_executed(program, events) for name, program in compiled.items()}
    for case in others.values():
        case()
    cases = {name: make_runner(program, events) for name, program in compiled.items()}
    return run_interleaved({**cases, **others}, repeats, time.process_time, warm=False), describe_runs(executed)


def list_executed(program: Program, events: pa.Table) -> Executed:
    """Run a program and return what was executed."""
    run = LocalRun(program)
    for _ in run.run(events):
        pass
    return run.executed


def describe_runs(executed: Mapping[str, Executed]) -> str:
    """Say what cases executed; cases that executed the same stand together: `greedy = sharon: panes 20 (4 shared)`."""
    same: dict[tuple[str, ...], list[str]] = {}
    for name, found in executed.items():
        same.setdefault(tuple(sorted(each.signature for each in found)), []).append(name)
    return "; ".join(f"{' = '.join(names)}: {describe_run(executed[names[0]])}" for names in same.values())


def describe_run(executed: Executed) -> str:
    """Say by which strategies queries ran, how many in how many units, and how many parts they shared."""
    return describe_units([each.describe() for each in executed])


def describe_units(executed: Sequence[Mapping[str, Any]]) -> str:
    """Say what was executed, given as plain data: see `Execution.describe`."""
    parts = []
    for strategy in dict.fromkeys(each["strategy"] for each in executed):
        units = [each for each in executed if each["strategy"] == strategy]
        count = sum(len(each["queries"]) for each in units)
        shared = sum(len(each["shared"]) for each in units)
        parts.append(
            f"{strategy} {count}{f' in {len(units)}' if 1 < len(units) < count else ''}"
            f"{' alone' if len(units) == count > 1 else ''}{f' ({shared} shared)' if shared else ''}"
        )
    return " + ".join(parts) or "nothing"


def describe_fed(stream: Stream) -> str:
    """Say how a stream carried the state of its queries on, as it stands after the last feed."""
    counts: Counter[str] = Counter()
    for operator in stream.branches:
        if isinstance(operator, DetectOperator):
            counts["matches fed"] += 0 if operator.fed is None else len(operator.fed.planned)
            counts["matches searched again"] += len(operator.rerun)
            continue
        for state in (*operator.slots, *operator.fed):
            how = "stacks by value" if isinstance(state, ValueStackUnit) else str(state.unit.strategy)
            counts[how] += len(state.unit.planned.queries)
        for unit in operator.rerun:
            counts[f"{unit.strategy} run again"] += len(unit.planned.queries)
    return " + ".join(f"{how} {count}" for how, count in counts.items() if count)


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


def compare_whole_runs(timings: Timings, published: str, ours: str) -> Measurement:
    """Return how many times as long a published executor took as ours, both from Arrow table to results.

    What reading took by itself (`READING`) is added to the time of the executor, which begins with sorted arrays.
    """
    whole = [reading + own for reading, own in zip(timings[READING], timings[published], strict=True)]
    return compute_ratio(whole, timings[ours])


def count_totals(program: Program) -> int:
    """Return how many totals one key keeps: the measure of memory that the papers on aggregation use."""
    return sum(_count_unit_totals(unit) for branch in program.branches for unit in branch.units)


def _count_unit_totals(unit: Unit) -> int:
    if unit.pairs is None:
        return len(unit.merged.settled) * unit.slots
    return unit.pairs.size + unit.pairs.rows * unit.slots
