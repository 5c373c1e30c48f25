"""Shared execution on one core: Gloria's figures 16 and 19, and a long Kleene. CPU seconds from Arrow table to result
table, without the search for a plan.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from benchmarks.engine import compare_times, compile_plans, make_runner, time_programs
from benchmarks.measure import Measurement, compute_ratio, fit_exponent, run_interleaved
from benchmarks.registry import OURS, Axes, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from benchmarks.trends import MINUTE, Shape, list_companies, make_bursty_workload, make_stock_stream, make_workload
from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema

PLANS = {
    "none": Options(optimizer="none"),
    "greedy": Options(optimizer="gloria-greedy"),
    "gloria": Options(optimizer="gloria"),
    "auto": Options(optimizer="auto"),
}
# What the authors' Java program does on such workloads, by number of queries: events of their types a CPU second.
THEIRS = {12: 82_000, 36: 64_000, 60: 51_000, 120: 37_000}
MIXED = Shape(1 / 7)
COUNTS = Shape(1 / 7, mixed=False, grouped=False)


def vary_mixed_queries(setting: Setting) -> list[Row]:
    return vary_queries(setting, MIXED)


def vary_count_queries(setting: Setting) -> list[Row]:
    return vary_queries(setting, COUNTS)


def vary_queries(setting: Setting, shape: Shape) -> list[Row]:
    """Measure SEQ and Kleene at 6:1 over a stock stream with minute timestamps."""
    events = setting.pick(60_000, 500_000)
    rows: list[Row] = []
    for number, theirs in THEIRS.items():
        table = make_stock_stream(events, list_companies(-(-number // 10), shape.repeated))
        timings = time_programs(compile_plans(make_workload(number, shape), table, PLANS), table, setting.repeats)
        rate = Measurement.of(timings["auto"]).rate(events)
        rows.append(
            {
                "queries": number,
                **compare_times(timings, "gloria", "auto"),
                "over greedy": compute_ratio(timings["greedy"], timings["gloria"]),
                "M events/s": rate.scale(1e-6),
                "times theirs": rate.scale(1 / theirs),
            }
        )
    return rows


def measure_bursts(setting: Setting) -> list[Row]:
    """Measure simple and complex Kleene queries over streams with bursts."""
    rows: list[Row] = []
    events = setting.pick(30_000, 100_000)
    for burst in setting.pick((1, 100), (1, 10, 100)):
        table = make_stock_stream(events, [f"C{at}" for at in range(17)], burst=burst)
        for name, share in (("simple", 0.0), ("half complex", 0.5), ("complex", 1.0)):
            timings = time_programs(
                compile_plans(make_bursty_workload(100, share), table, PLANS), table, setting.repeats
            )
            rows.append({"burst": burst, "workload": name, **compare_times(timings, "gloria", "auto")})
    return rows


LONG = """
QUERY trends
RETURN COUNT(*), AVG(a.price), MIN(a.price)
PATTERN A a+
WITHIN 100 days SLIDE 100 days
"""


def measure_long_stream(setting: Setting) -> list[Row]:
    """Measure `A+` over ever more events in one window, where COUNT leaves 64 bits.

    Every subset of the events of a window is a trend, and each event is in as many as any other: so the average is
    known.
    """
    rows: list[Row] = []
    sizes = (25_000, 50_000, 100_000, 200_000)
    for events in sizes:
        price = np.random.default_rng(1).integers(1, 1000, events).astype(np.float64)
        at = pa.array(np.arange(events, dtype=np.int64) * MINUTE // 4, pa.timestamp("us"))
        table = pa.table({"time": at, "type": ["A"] * events, "price": price})
        program = compile_workload(parse(LONG), EventSchema(table.schema), Options())
        (row,) = run_table(program, table).table.to_pylist()
        right = (
            row["COUNT(*)"] is None
            and np.isclose(row["AVG(a.price)"], price.mean())
            and row["MIN(a.price)"] == price.min()
        )
        if not right:
            raise AssertionError(f"A+ over {events} events gave {row}")
        timings = run_interleaved({"": make_runner(program, table)}, setting.repeats, time.process_time)[""]
        rows.append(
            {
                "events": events,
                "seconds": Measurement.of(timings),
                "ns an event": Measurement.of(timings).scale(1e9 / events),
            }
        )
    power = fit_exponent(sizes, [to_median(row["seconds"]) for row in rows])
    return [*rows, {"events": "grows with the power", "seconds": power}]


def to_median(value: object) -> float:
    assert isinstance(value, Measurement)
    return value.median


LINES = ("none", "greedy", "gloria", "auto")
THROUGHPUT = (
    Claim(
        "throughput of the shared plan over each query alone",
        "10 times",
        lambda rows: f"{get_median(rows[0]['auto gains']):.1f} to {get_median(rows[-1]['auto gains']):.1f} times",
    ),
    Claim(
        "Gloria's plan over the greedy one",
        "3 times",
        lambda rows: f"{get_median(rows[0]['over greedy']):.1f} to {get_median(rows[-1]['over greedy']):.1f} times",
    ),
)

EXPERIMENTS = (
    Experiment(
        "gloria-16",
        "Gloria",
        "16",
        "shared against alone by number of queries: stock, windows, groups, aggregates and predicates mixed",
        Seconds(12, 35),
        vary_mixed_queries,
        Axes("queries", LINES, "CPU s"),
        THROUGHPUT,
        notes=("`times theirs`: over the authors' Java program on such workloads without windows and groups.",),
    ),
    Experiment(
        "gloria-16-counts",
        "Gloria",
        "16",
        "the same where all count in one kind of window without groups, as their program does",
        Seconds(8, 20),
        vary_count_queries,
        Axes("queries", LINES, "CPU s"),
        THROUGHPUT,
        notes=("`times theirs`: over the authors' Java program on such workloads.",),
    ),
    Experiment(
        "gloria-19",
        "Gloria",
        "19(a), (b)",
        "simple and complex Kleene queries by length of bursts, 100 queries",
        Seconds(10, 25),
        measure_bursts,
        Axes("burst", LINES, "CPU s", log_x=True, log_y=True),
        (
            Claim(
                "Gloria over HAMLET, simple and complex, bursts of 100",
                "slower; 3 times",
                lambda rows: (
                    "no HAMLET here: over each query alone "
                    f"{get_median(rows[-3]['gloria gains']):.1f} and {get_median(rows[-1]['gloria gains']):.1f} times"
                ),
            ),
        ),
    ),
    Experiment(
        "growth-kleene",
        OURS,
        "",
        "A+ over ever more events in one window, COUNT beyond 64 bits",
        Seconds(4, 8),
        measure_long_stream,
    ),
)
