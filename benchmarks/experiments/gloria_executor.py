"""Gloria's figures 16 to 19 on one core, on the paper's executor and on ours, and a long Kleene.

`published` is GRETA's event graph and Gloria's snapshots on it (`benchmarks.baselines`), from sorted arrays to counts,
with plans by the paper's equations and the rates of the stream. As in the authors' program, expressions are added up as
events come, and counts of queries alone (`alone`) are pulled from every event before; `alone, running sums` adds those
up too. `motet` is ours, from Arrow table to result table, with the optimizers of the same names and `auto`, by
calibrated costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.baselines.gloria_snapshots import SnapshotGraph
from benchmarks.baselines.prepared import PreparedEvents, prepare
from benchmarks.engine import (
    READING,
    compare_times,
    compare_whole_runs,
    compile_plans,
    describe_run,
    list_executed,
    make_runner,
    time_programs,
)
from benchmarks.measure import Measurement, Timings, compute_ratio, fit_exponent, run_interleaved
from benchmarks.registry import OURS, Axes, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from benchmarks.trends import MINUTE, Shape, list_companies, make_bursty_workload, make_stock_stream, make_workload
from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.engine.workload_profile import profile_workload
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.gloria.gloria import GloriaOptions, GloriaReport, optimize
from motet.options import OptimizerName, Options
from motet.schema import EventSchema

OPTIMIZERS: dict[str, OptimizerName] = {"alone": "none", "greedy": "gloria-greedy", "gloria": "gloria", "auto": "auto"}
# What the authors' Java program does on such workloads, by number of queries: events of their types a CPU second.
THEIRS = {12: 82_000, 36: 64_000, 60: 51_000, 120: 37_000}
RUNNING = "alone, running sums"
MIXED = Shape(1 / 7)
COUNTS = Shape(1 / 7, mixed=False, grouped=False)


def list_sizes(setting: Setting) -> list[int]:
    """Return the numbers of queries to measure."""
    return [12, 60] if setting.size == "quick" else [*THEIRS]


def make_plans(setting: Setting) -> dict[str, Options]:
    """Return the options of each plan; a search has as long as `motet plan` gives it, less for a quick run."""
    return {name: Options(optimizer=each, budget=setting.pick(1.0, 10.0)) for name, each in OPTIMIZERS.items()}


def vary_mixed_queries(setting: Setting) -> list[Row]:
    """Measure SEQ and Kleene at 6:1 over a stock stream with minute timestamps, on our executor: the paper's counts."""
    rows: list[Row] = []
    for number in list_sizes(setting):
        table = make_table(setting.pick(60_000, 500_000), number, MIXED)
        compiled = compile_plans(make_workload(number, MIXED), table, make_plans(setting))
        timings, ran = time_programs(compiled, table, setting.repeats)
        rows.append({"queries": number, **describe_ours(timings, ran, len(table), THEIRS[number])})
    return rows


def vary_count_queries(setting: Setting) -> list[Row]:
    """Measure the same where all count in one window, on both executors."""
    return [
        {"queries": number, **row}
        for number in list_sizes(setting)
        for row in measure_both(
            make_workload(number, COUNTS),
            make_table(setting.pick(30_000, 500_000), number, COUNTS),
            setting,
            THEIRS[number],
        )
    ]


def make_table(events: int, queries: int, shape: Shape, skew: float = 0.0, per_minute: int = 2_000) -> pa.Table:
    companies = list_companies(-(-queries // 10), shape.repeated)
    return make_stock_stream(events, companies, per_minute=per_minute, skew=skew)


def measure_both(workload: Workload, table: pa.Table, setting: Setting, theirs: int = 0) -> list[Row]:
    """Measure a workload on both executors."""
    prepared = prepare(workload, table)
    found = find_printed_plans(prepared, workload, table, setting)
    executors = {
        "alone": SnapshotGraph(prepared),
        RUNNING: SnapshotGraph(prepared, own_running=True),
        **{name: SnapshotGraph(prepared, report.plan) for name, report in found.items()},
    }
    cases: dict[str, Callable[[], object]] = {f"their {name}": each.run for name, each in executors.items()}
    cases[READING] = prepared.read_again
    compiled = compile_plans(workload, table, make_plans(setting))
    timings, ran = time_programs(compiled, table, setting.repeats, cases)
    published: Timings = {name: timings[f"their {name}"] for name in executors}
    ours = describe_ours({name: timings[name] for name in OPTIMIZERS}, ran, len(table), theirs)
    return [
        {
            "executor": "published",
            **compare_times(published, "gloria", base="alone"),
            "over greedy": compute_ratio(published["greedy"], published["gloria"]),
            READING: Measurement.of(timings[READING]),
            "M events/s": Measurement.of(published["gloria"]).rate(len(table) / 1e6),
            "ran": describe_plans(found),
        },
        {
            "executor": "motet",
            **ours,
            "times GRETA": compare_whole_runs(timings, "their alone", "auto"),
            "times Gloria": compare_whole_runs(timings, "their gloria", "auto"),
        },
    ]


def describe_ours(timings: Timings, ran: str, events: int, theirs: int) -> Row:
    """Return what is measured on our executor, beside what the authors' program does where that is known."""
    rate = Measurement.of(timings["auto"]).rate(events)
    return {
        **compare_times(timings, "gloria", "auto", base="alone"),
        "over greedy": compute_ratio(timings["greedy"], timings["gloria"]),
        "M events/s": rate.scale(1e-6),
        **({"times theirs": rate.scale(1 / theirs)} if theirs else {}),
        "ran": ran,
    }


def find_printed_plans(
    prepared: PreparedEvents, workload: Workload, table: pa.Table, setting: Setting
) -> dict[str, GloriaReport]:
    """Return the greedy plan and Gloria's by the equations of the paper."""
    known = profile_workload(table, workload, EventSchema(table.schema))
    budget = setting.pick(1.0, 10.0)
    variants = {"greedy": "gloria-greedy", "gloria": "gloria"}
    return {
        name: optimize(prepared.queries, known, GloriaOptions(variant, "printed", budget))
        for name, variant in variants.items()
    }


def describe_plans(found: Mapping[str, GloriaReport]) -> str:
    """Say what plans of the paper's executor share, with the gain that the equations promise."""
    return "; ".join(
        f"{name}: {len(report.plan.transitions)} shared transitions, "
        f"{report.alternatives['not shared'] / report.weight:.2f} times by equations 2 to 4"
        for name, report in found.items()
    )


def measure_insertion(setting: Setting) -> list[Row]:
    """Measure what it takes to insert the values of snapshots, beside the whole run by Gloria's plan."""
    rows: list[Row] = []
    for number in list_sizes(setting):
        workload, table = make_workload(number, COUNTS), make_table(setting.pick(30_000, 200_000), number, COUNTS)
        prepared = prepare(workload, table)
        found = find_printed_plans(prepared, workload, table, setting)
        executor = SnapshotGraph(prepared, found["gloria"].plan)
        objects = executor.run().objects
        cases = {"run": executor.run, "insertion": executor.insert_again}
        timings = run_interleaved(cases, setting.repeats, time.process_time)
        rows.append(
            {
                "queries": number,
                "run, ms": Measurement.of(timings["run"]).scale(1e3),
                "insertion, ms": Measurement.of(timings["insertion"]).scale(1e3),
                "% of the run": 100
                * Measurement.of(timings["insertion"]).median
                / Measurement.of(timings["run"]).median,
                **{name: objects[name] for name in ("values inserted", "snapshots", "evaluations", "additions")},
                "ran": describe_plans({"gloria": found["gloria"]}),
            }
        )
    return rows


def count_snapshots(setting: Setting) -> list[Row]:
    """Count the snapshots that either plan creates, over companies that are alike frequent or not."""
    rows: list[Row] = []
    for stream, skew in (("all alike", 0.0), ("skewed", 1.0)):
        for number in list_sizes(setting):
            workload = make_workload(number, COUNTS)
            table = make_table(setting.pick(10_000, 200_000), number, COUNTS, skew, setting.pick(500, 1_000))
            prepared = prepare(workload, table)
            found = find_printed_plans(prepared, workload, table, setting)
            executors = {name: SnapshotGraph(prepared, report.plan) for name, report in found.items()}
            timings = run_interleaved(
                {name: each.run for name, each in executors.items()}, setting.repeats, time.process_time
            )
            created = {name: each.run().objects["snapshots"] for name, each in executors.items()}
            rows.append(
                {
                    "stream": stream,
                    "queries": number,
                    **{f"snapshots: {name}": count for name, count in created.items()},
                    **{name: Measurement.of(times) for name, times in timings.items()},
                    "over greedy": compute_ratio(timings["greedy"], timings["gloria"]),
                    "ran": describe_plans(found),
                }
            )
    return rows


def measure_bursts(setting: Setting) -> list[Row]:
    """Measure simple and complex Kleene queries over streams with bursts."""
    return [
        {"burst": burst, "workload": name, **row}
        for burst in setting.pick((1, 100), (1, 10, 100))
        for name, share in {"simple": 0.0, "complex": 1.0, **setting.pick({}, {"half complex": 0.5})}.items()
        for row in measure_both(
            make_bursty_workload(100, share),
            make_stock_stream(setting.pick(30_000, 100_000), [f"C{at}" for at in range(17)], burst=burst),
            setting,
        )
    ]


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
                "ran": describe_run(list_executed(program, table)),
                "seconds": Measurement.of(timings),
                "ns an event": Measurement.of(timings).scale(1e9 / events),
            }
        )
    power = fit_exponent(sizes, [to_median(row["seconds"]) for row in rows])
    return [*rows, {"events": "grows with the power", "seconds": power}]


def to_median(value: object) -> float:
    assert isinstance(value, Measurement)
    return value.median


Rows = Sequence[Mapping[str, Any]]
LINES = ("alone", RUNNING, "greedy", "gloria", "auto")


def describe_span(rows: Rows, column: str, executor: str = "") -> str:
    """State the least and the most of a column, on one executor where there are two."""
    found = [get_median(row[column]) for row in rows if not executor or row["executor"] == executor]
    return f"{min(found):.1f} to {max(found):.1f}"


def describe_both(rows: Rows, column: str) -> str:
    published, motet = (describe_span(rows, column, executor) for executor in ("published", "motet"))
    return f"{published} on the paper's executor, {motet} on ours"


def describe_running_sums(rows: Rows) -> str:
    found = [get_median(row["gloria"]) / get_median(row[RUNNING]) for row in rows if row["executor"] == "published"]
    return f"{min(found):.1f} to {max(found):.1f} times as fast as Gloria's plan on the paper's executor"


def describe_snapshots(rows: Rows) -> str:
    fewer = [row for row in rows if row["snapshots: gloria"] < row["snapshots: greedy"]]
    return f"fewer than the greedy plan in {len(fewer)} of {len(rows)} workloads, more in the others"


WHOLE_RUNS = (
    "The paper's executor is timed from sorted arrays; `times GRETA` and `times Gloria` compare whole runs, with what "
    "it takes to read and sort them."
)
PUBLISHED = (
    Claim(
        "throughput of Gloria's plan over each query alone",
        "10 times",
        lambda rows: describe_both(rows, "gloria gains"),
    ),
    Claim("Gloria's plan over the greedy one", "3 times", lambda rows: describe_both(rows, "over greedy")),
    Claim("queries alone with running sums", "", describe_running_sums),
    Claim(
        "motet's auto against GRETA and against Gloria's plan, each on the paper's executor",
        "",
        lambda rows: (
            f"{describe_span(rows, 'times GRETA', 'motet')} and "
            f"{describe_span(rows, 'times Gloria', 'motet')} times as fast"
        ),
    ),
)

EXPERIMENTS = (
    Experiment(
        "gloria-16",
        "Gloria",
        "16",
        "shared against alone by number of queries: stock, windows, groups, aggregates and predicates mixed",
        Seconds(10, 35),
        vary_mixed_queries,
        Axes("queries", LINES, "CPU s"),
        (
            Claim(
                "throughput of the shared plan over each query alone",
                "10 times",
                lambda rows: (
                    f"{describe_span(rows, 'gloria gains')} by Gloria's plan, "
                    f"{describe_span(rows, 'auto gains')} by auto"
                ),
            ),
            Claim("Gloria's plan over the greedy one", "3 times", lambda rows: describe_span(rows, "over greedy")),
        ),
        notes=("`times theirs`: over the authors' Java program on such workloads without windows and groups.",),
    ),
    Experiment(
        "gloria-16-counts",
        "Gloria",
        "16",
        "the same where all count in one kind of window without groups, as their program does",
        Seconds(10, 300),
        vary_count_queries,
        Axes("queries", LINES, "CPU s", by="executor"),
        PUBLISHED,
        notes=("`times theirs`: over the authors' Java program on such workloads.", WHOLE_RUNS),
    ),
    Experiment(
        "gloria-17",
        "Gloria",
        "17",
        "inserting the values of snapshots, beside the whole run by Gloria's plan, paper's executor",
        Seconds(5, 60),
        measure_insertion,
        Axes("queries", ("run, ms", "insertion, ms"), "CPU ms", log_y=True),
        (
            Claim(
                "insertion of values",
                "less than 1 ms with any number of queries",
                lambda rows: (
                    f"{describe_span(rows, 'insertion, ms')} ms, {describe_span(rows, '% of the run')} % of the run"
                ),
            ),
        ),
    ),
    Experiment(
        "gloria-18",
        "Gloria",
        "18",
        "how many snapshots the greedy plan and Gloria's create, paper's executor",
        Seconds(6, 90),
        count_snapshots,
        Axes("queries", ("snapshots: greedy", "snapshots: gloria"), "snapshots", by="stream"),
        (
            Claim("snapshots of Gloria's plan", "fewer or more than the greedy plan, and faster", describe_snapshots),
            Claim("Gloria's plan over the greedy one", "3 times", lambda rows: describe_span(rows, "over greedy")),
        ),
    ),
    Experiment(
        "gloria-19",
        "Gloria",
        "19(a), (b)",
        "simple and complex Kleene queries by length of bursts, 100 queries",
        Seconds(17, 90),
        measure_bursts,
        Axes("burst", LINES, "CPU s", log_x=True, log_y=True, by="executor"),
        (
            Claim(
                "Gloria over HAMLET, simple and complex, bursts of 100",
                "slower; 3 times",
                lambda rows: f"no HAMLET here: over each query alone {describe_both(rows, 'gloria gains')}",
            ),
            *PUBLISHED[1:],
        ),
        notes=(WHOLE_RUNS,),
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
