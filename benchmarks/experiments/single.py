"""What one core does: a continuous sequence by the events in its window, occurrences that do not overlap, the
strategies for sliding windows, and what share of a run its statistics take.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import motet
from benchmarks.engine import compile_plans, describe_run, describe_units, list_executed, time_programs
from benchmarks.measure import Measurement, compute_ratio, run_interleaved
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting
from benchmarks.streams import ecommerce, make_data_centre_log, make_item_queries
from motet import pipeline
from motet.compile import Program, compile_workload
from motet.engine import sampling
from motet.engine.encode import encode_branch, select_unit_events
from motet.engine.local import run_table
from motet.engine.run import run_unit
from motet.engine.workload_profile import estimate_statistics
from motet.io.events import EventSource
from motet.language import parse
from motet.model.query import Workload
from motet.options import Options
from motet.schema import EventSchema

WINDOWS = (1_000, 1_000_000)  # events
FEWEST_RUNS = 7  # of some milliseconds each


def make_letters(events: int, microseconds: int) -> pa.Table:
    """Return events of types A, B and C at random, so many microseconds apart."""
    codes = pa.array(np.random.default_rng(5).integers(0, 3, events), pa.int32())
    return pa.table(
        {
            "time": pa.array(np.arange(events) * microseconds, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(codes, pa.array(["A", "B", "C"])),
        }
    )


def measure_continuous(setting: Setting) -> list[Row]:
    """Measure one continuous SEQ of three: speed, and how it depends on the events in the window."""
    events = setting.pick(2_000_000, 4_000_000)
    pa.set_cpu_count(1)
    table = make_letters(events, 1)
    cases: dict[str, Callable[[], object]] = {}
    ran: dict[str, str] = {}
    for window in WINDOWS:
        text = f"RETURN COUNT(*) PATTERN A, B, C WITHIN {window} us"
        program = compile_workload(parse(text), EventSchema(table.schema))
        names = f"arrays to results, {window:,} events in the window", f"Arrow table to result table, {window:,}"
        cases |= zip(names, (prepare_arrays_run(program, table), partial(run_table, program, table)), strict=True)
        ran |= dict.fromkeys(names, describe_run(list_executed(program, table)))
    timings = run_interleaved(cases, setting.repeats, time.process_time)
    first = next(iter(timings.values()))
    return [
        {
            "case": name,
            "M events/s": Measurement.of(times).rate(events / 1e6),
            "time against the first": compute_ratio(times, first),
            "ran": ran[name],
        }
        for name, times in timings.items()
    ]


def prepare_arrays_run(program: Program, table: pa.Table) -> Callable[[], object]:
    """Return a run of the engine proper: events as arrays in order, results as arrays."""
    branch = program.branches[0]
    encoded = encode_branch(program, branch, table)
    unit = branch.units[0]
    events, _ = select_unit_events(encoded, unit)
    return partial(run_unit, unit, encoded, events)


WINDOWS_OF_TEN_SECONDS = ("WITHIN 10 s", "WITHIN 10 s SLIDE 10 s", "WITHIN 10 s SLIDE 1 s")


def compare_occurrences(setting: Setting) -> list[Row]:
    """Compare the count of occurrences that do not overlap with that of all matches: a SEQ of three in 100 keys."""
    events = setting.pick(500_000, 4_000_000)
    pa.set_cpu_count(1)
    table = make_letters(events, 1000)
    table = table.append_column("k", pa.array(np.random.default_rng(6).integers(0, 100, events)))

    rows: list[Row] = []
    for pattern in ("SEQ(A, B, C)", "SEQ(A, B+, C)"):
        for window in WINDOWS_OF_TEN_SECONDS:
            text = f"RETURN COUNT(*) PATTERN {pattern} GROUP BY k {window}"
            texts = {"all": text, "taken": f"{text} AFTER MATCH SKIP PAST LAST EVENT"}
            programs = {name: compile_workload(parse(each), EventSchema(table.schema)) for name, each in texts.items()}
            timings, ran = time_programs(programs, table, setting.repeats)
            rows.append(
                {
                    "pattern": pattern,
                    "window": window,
                    "all matches, M events/s": Measurement.of(timings["all"]).rate(events / 1e6),
                    "PAST LAST EVENT, M events/s": Measurement.of(timings["taken"]).rate(events / 1e6),
                    "times faster": compute_ratio(timings["all"], timings["taken"]),
                    "ran": ran,
                }
            )
    return rows


def compare_strategies(setting: Setting) -> list[Row]:
    """Compare strategies on Sharon's e-commerce stream: 20 item sequences of length 4 to 10, windows of 20 minutes."""
    table = ecommerce(setting.pick(600_000, 5_400_000))
    plans = {
        "queries alone": Options(optimizer="none"),
        "equal prefixes once": Options(optimizer="prefix"),
        "as planned": Options(),
        "two stacks": Options(windows="stacks"),
    }
    compiled = compile_plans(make_item_queries(20, 4, 10), table, plans)
    timings, _ = time_programs(compiled, table, setting.repeats)
    return [
        {
            "strategy": name,
            "M events/s": Measurement.of(times).rate(len(table) / 1e6),
            "time against as planned": compute_ratio(times, timings["as planned"]),
            "ran": describe_run(list_executed(compiled[name], table)),
        }
        for name, times in timings.items()
    ]


DATA_CENTRE = """
QUERY unacknowledged
RETURN COUNT(*) PATTERN SEQ(start, delivered, end, NEG(acknowledged)) WHERE [machine] WITHIN 10 s SLIDE 10 s

QUERY round_trips
RETURN COUNT(*) PATTERN SEQ(start, end, acknowledged) WHERE [machine] WITHIN 10 s SLIDE 10 s

QUERY delivered
RETURN COUNT(*) PATTERN SEQ(start, delivered, end) WHERE [machine] WITHIN 10 s SLIDE 10 s
"""


def measure_data_centre(setting: Setting) -> list[Row]:
    """Measure MOTTO's sample queries for a data centre, counted: alone and together."""
    table = make_data_centre_log(setting.pick(500_000, 4_000_000))
    plans = {"alone": Options(optimizer="none"), "together": Options()}
    compiled = compile_plans(parse(DATA_CENTRE), table, plans)
    timings, _ = time_programs(compiled, table, setting.repeats)
    return [
        {
            "queries": name,
            "M events/s": Measurement.of(times).rate(len(table) / 1e6),
            "times faster": compute_ratio(timings["alone"], times),
            "ran": describe_run(list_executed(compiled[name], table)),
        }
        for name, times in timings.items()
    ]


def measure_samples(setting: Setting) -> list[Row]:
    """Measure what share of a run goes into statistics: taking a sample of the events, and what is estimated of it.

    Small files are read once for both, which counts as a part of the run.
    """
    pa.set_cpu_count(1)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for events in setting.pick((10_000, 500_000), (1_000, 10_000, 100_000, 2_000_000, 8_000_000)):
            table = ecommerce(events)
            file = Path(folder) / f"{events}.parquet"
            pq.write_table(table, file)
            for queries in (1, 20):
                workload = make_item_queries(queries, 4, 10)
                for source, kind in ((table, "memory"), (file, "parquet")):
                    spent: list[float] = []
                    run = partial(run_sampled, source, workload, spent)
                    times = run_interleaved({"": run}, max(setting.repeats, FEWEST_RUNS), time.process_time)[""]
                    rows.append(
                        {
                            "events": events,
                            "queries": queries,
                            "from": kind,
                            "run, ms": Measurement.of(times).scale(1e3),
                            "sample, ms": Measurement.of(spent[1:]).scale(1e3),
                            "% of the run": compute_ratio(spent[1:], times).scale(100),
                            "ran": describe_units([each.describe() for each in motet.ask(source, workload).executed]),
                        }
                    )
    return rows


def run_sampled(source: pa.Table | Path, workload: Workload, spent: list[float]) -> None:
    """Plan and run queries over a source, and add the CPU seconds that went into statistics."""
    spent.append(0.0)

    def timed(work: Callable[..., Any], sign: int = 1) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            begin = time.thread_time()  # what opening the files has begun may go on in other threads
            try:
                return work(*arguments)
            finally:
                spent[-1] += sign * (time.thread_time() - begin)

        return run

    keep = timed(EventSource.keep, -1)

    read = mock.patch.object(pipeline, "_read_sample", timed(pipeline._read_sample))
    estimate = mock.patch.object(sampling, "estimate_statistics", timed(estimate_statistics))
    reading = mock.patch.object(EventSource, "keep", lambda *arguments: keep(*arguments))
    with read, estimate, reading:
        motet.run(source, workload)


EXPERIMENTS = (
    Experiment(
        "sample",
        OURS,
        "",
        "what share of a run its statistics take, sampled from memory and from parquet, by number of events",
        Seconds(5, 15),
        measure_samples,
    ),
    Experiment(
        "data-centre",
        OURS,
        "",
        "MOTTO's sample queries over a data centre's log, counted, alone and together",
        Seconds(3, 8),
        measure_data_centre,
    ),
    Experiment(
        "continuous",
        OURS,
        "",
        "one continuous SEQ(A, B, C), a value at every completion, by events in the window",
        Seconds(5, 12),
        measure_continuous,
    ),
    Experiment(
        "occurrences",
        OURS,
        "",
        "occurrences that do not overlap, counted against all matches: a sequence of three in 100 keys",
        Seconds(10, 80),
        compare_occurrences,
    ),
    Experiment(
        "strategies",
        OURS,
        "",
        "20 item sequences of length 4 to 10 over Sharon's e-commerce stream, by strategy",
        Seconds(6, 40),
        compare_strategies,
    ),
)
