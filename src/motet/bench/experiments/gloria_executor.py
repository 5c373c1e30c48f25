"""Shared execution on one core: Gloria's figures 16 and 19, and a long Kleene. CPU seconds from Arrow table to result
table, without the search for a plan.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from motet.bench.engine import against, programs, runner, timed
from motet.bench.measure import Measured, exponent, in_turn, ratio
from motet.bench.registry import OURS, Axes, Experiment, Row, Seconds, Setting, Stated
from motet.bench.run import middle
from motet.bench.trends import MINUTE, Shape, bursty, companies, stock, workload
from motet.engine import EventSchema, Options, compile_workload
from motet.engine.local import run_table
from motet.language import parse

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


def mixed(setting: Setting) -> list[Row]:
    return by_queries(setting, MIXED)


def counts(setting: Setting) -> list[Row]:
    return by_queries(setting, COUNTS)


def by_queries(setting: Setting, shape: Shape) -> list[Row]:
    """SEQ and Kleene at 6:1 over a stock stream with minute timestamps."""
    events = setting.pick(60_000, 500_000)
    rows: list[Row] = []
    for number, theirs in THEIRS.items():
        table = stock(events, companies(-(-number // 10), shape.repeated))
        taken = timed(programs(workload(number, shape), table, PLANS), table, setting.repeats)
        rate = Measured.of(taken["auto"]).rate(events)
        rows.append(
            {
                "queries": number,
                **against(taken, "gloria", "auto"),
                "over greedy": ratio(taken["greedy"], taken["gloria"]),
                "M events/s": rate.scaled(1e-6),
                "times theirs": rate.scaled(1 / theirs),
            }
        )
    return rows


def bursts(setting: Setting) -> list[Row]:
    """Simple and complex Kleene queries over streams with bursts."""
    rows: list[Row] = []
    events = setting.pick(30_000, 100_000)
    for burst in setting.pick((1, 100), (1, 10, 100)):
        table = stock(events, [f"C{at}" for at in range(17)], burst=burst)
        for name, share in (("simple", 0.0), ("half complex", 0.5), ("complex", 1.0)):
            taken = timed(programs(bursty(100, share), table, PLANS), table, setting.repeats)
            rows.append({"burst": burst, "workload": name, **against(taken, "gloria", "auto")})
    return rows


LONG = """
QUERY trends
RETURN COUNT(*), AVG(a.price), MIN(a.price)
PATTERN A a+
WITHIN 100 days SLIDE 100 days
"""


def kleene(setting: Setting) -> list[Row]:
    """`A+` over ever more events in one window, where COUNT leaves 64 bits. Every subset of the events of a window is a
    trend: each event is in as many as any other, which tells what the average must be."""
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
        taken = in_turn({"": runner(program, table)}, setting.repeats, time.process_time)[""]
        rows.append(
            {"events": events, "seconds": Measured.of(taken), "ns an event": Measured.of(taken).scaled(1e9 / events)}
        )
    power = exponent(sizes, [middle_of(row["seconds"]) for row in rows])
    return [*rows, {"events": "grows with the power", "seconds": power}]


def middle_of(value: object) -> float:
    assert isinstance(value, Measured)
    return value.median


LINES = ("none", "greedy", "gloria", "auto")
THROUGHPUT = (
    Stated(
        "throughput of the shared plan over each query alone",
        "10 times",
        lambda rows: f"{middle(rows[0]['auto gains']):.1f} to {middle(rows[-1]['auto gains']):.1f} times",
    ),
    Stated(
        "Gloria's plan over the greedy one",
        "3 times",
        lambda rows: f"{middle(rows[0]['over greedy']):.1f} to {middle(rows[-1]['over greedy']):.1f} times",
    ),
)

EXPERIMENTS = (
    Experiment(
        "gloria-16",
        "Gloria",
        "16",
        "shared against alone by number of queries: stock, windows, groups, aggregates and predicates mixed",
        Seconds(12, 35),
        mixed,
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
        counts,
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
        bursts,
        Axes("burst", LINES, "CPU s", log_x=True, log_y=True),
        (
            Stated(
                "Gloria over HAMLET, simple and complex, bursts of 100",
                "slower; 3 times",
                lambda rows: (
                    "no HAMLET here: over each query alone "
                    f"{middle(rows[-3]['gloria gains']):.1f} and {middle(rows[-1]['gloria gains']):.1f} times"
                ),
            ),
        ),
    ),
    Experiment(
        "growth-kleene", OURS, "", "A+ over ever more events in one window, COUNT beyond 64 bits", Seconds(4, 8), kleene
    ),
)
