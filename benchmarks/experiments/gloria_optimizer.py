"""How long the Gloria optimizer takes, with and without pruning, and greedily: Gloria's figures 11 to 15.

Each line is one workload, by the equations of the paper. Times are CPU seconds from compiled queries to plan, template
included; `pruning gains` is how much longer it takes without.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks.measure import Measurement, compute_ratio, measure_peak, run_interleaved
from benchmarks.registry import Axes, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from benchmarks.trends import Shape, make_workload
from motet.engine.workload_profile import compile_online_queries
from motet.optimizer.gloria.gloria import GloriaOptions, GloriaReport, optimize
from motet.plans.compiled import CompiledQuery
from motet.statistics.model import Statistics

GLORIA, GREEDY, UNPRUNED = VARIANTS = ("gloria", "gloria-greedy", "gloria-noprune")


def vary_queries(setting: Setting, kleene: float, few: tuple[int, int]) -> list[Row]:
    counts = setting.pick(few, (40, 80, 120, 160, 200))
    return [compare_searches("queries", n, n, Shape(kleene, mixed=False), setting.repeats) for n in counts]


def vary_length(setting: Setting, nested: bool) -> list[Row]:
    lengths = setting.pick((4, 6), (4, 6, 8, 10)) if nested else setting.pick((2, 6), (2, 4, 6, 8, 10))
    shapes = {n: Shape(1.0, n, nested=nested, mixed=False) for n in lengths}
    count = setting.pick(40, 100)
    return [compare_searches("length", n, count, shape, setting.repeats) for n, shape in shapes.items()]


def vary_kleene_share(setting: Setting) -> list[Row]:
    shares, count = setting.pick(((40, 60), 40), ((10, 20, 40, 60), 100))
    return [compare_searches("% Kleene", n, count, Shape(n / 100, mixed=False), setting.repeats) for n in shares]


def compare_searches(axis: str, value: int, number: int, shape: Shape, repeats: int) -> Row:
    """Time the variants of the search on one workload."""
    queries = compile_online_queries(make_workload(number, shape), 1)
    known = draw_rates(queries)
    found: dict[str, GloriaReport] = {}

    def search(name: str) -> None:
        found[name] = optimize(queries, known, GloriaOptions(name, "printed"))

    cases = {name: partial(search, name) for name in VARIANTS}
    timings = run_interleaved(cases, repeats, time.process_time, warm=False)
    apart = found[GLORIA].alternatives["not shared"]
    return {
        axis: value,
        **{name: Measurement.of(times) for name, times in timings.items()},
        "pruning gains": compute_ratio(timings[UNPRUNED], timings[GLORIA]),
        "over greedy": compute_ratio(timings[GLORIA], timings[GREEDY]),
        "nodes": found[GLORIA].nodes,
        "unpruned": found[UNPRUNED].nodes,
        "cost, % of not sharing": 100 * found[GLORIA].weight / apart,
        "greedy, %": 100 * found[GREEDY].weight / apart,
    }


def measure_memory(setting: Setting) -> list[Row]:
    """Measure the most that Python allocates on the way to a plan of a mixed workload."""
    rows: list[Row] = []
    for number in setting.pick((20, 40), (40, 80, 120, 160, 200)):
        queries = compile_online_queries(make_workload(number, Shape(1 / 7, mixed=False)), 1)
        known = draw_rates(queries)
        peaks = {
            f"MB {name}": measure_peak(partial(optimize, queries, known, GloriaOptions(name, "printed")))
            for name in (GREEDY, GLORIA, UNPRUNED)
        }
        rows.append(
            {"queries": number, **peaks, "% of unpruned": 100 * peaks[f"MB {GLORIA}"] / peaks[f"MB {UNPRUNED}"]}
        )
    return rows


def draw_rates(queries: list[CompiledQuery]) -> Statistics:
    """Draw from one event to fifty of a type in ten minutes."""
    rng = np.random.default_rng(1)
    types = sorted({symbol.type for query in queries for symbol in query.symbols})
    return Statistics(given={type: float(rng.integers(1, 50)) / 600 for type in types})


def claim_gains(paper: str) -> Claim:
    return Claim(
        "what pruning gains",
        paper,
        lambda rows: (
            f"{min(get_median(row['pruning gains']) for row in rows):.1f} to "
            f"{max(get_median(row['pruning gains']) for row in rows):.1f} times"
        ),
    )


def claim_over_greedy(paper: str) -> Claim:
    return Claim(
        "slower than greedy",
        paper,
        lambda rows: (
            f"{min(get_median(row['over greedy']) for row in rows):.1f} to "
            f"{max(get_median(row['over greedy']) for row in rows):.1f} times"
        ),
    )


LINES = tuple(VARIANTS)

EXPERIMENTS = (
    Experiment(
        "gloria-11",
        "Gloria",
        "11",
        "time to a plan by number of queries, sequences",
        Seconds(7, 180),
        partial(vary_queries, kleene=0.0, few=(10, 16)),
        Axes("queries", LINES, "CPU s", log_y=True),
        (claim_gains("5 to 7 times"), claim_over_greedy("16 times")),
    ),
    Experiment(
        "gloria-12",
        "Gloria",
        "12",
        "time to a plan by length of what is repeated, 100 Kleene queries (quick: 40)",
        Seconds(7, 60),
        partial(vary_length, nested=False),
        Axes("length", LINES, "CPU s", log_y=True),
        (claim_gains("2 to 13 times"),),
    ),
    Experiment(
        "gloria-12-nested",
        "Gloria",
        "12",
        "the same with repetitions in repetitions",
        Seconds(8, 60),
        partial(vary_length, nested=True),
        Axes("length", LINES, "CPU s", log_y=True),
        (claim_gains("2 to 13 times"),),
    ),
    Experiment(
        "gloria-13",
        "Gloria",
        "13",
        "time to a plan by number of queries, 6:1 SEQ to Kleene",
        Seconds(6, 45),
        partial(vary_queries, kleene=1 / 7, few=(20, 60)),
        Axes("queries", LINES, "CPU s", log_y=True),
        (claim_gains("5 times"), claim_over_greedy("10 times")),
    ),
    Experiment(
        "gloria-14",
        "Gloria",
        "14",
        "time to a plan by share of Kleene queries, of 100 (quick: 40)",
        Seconds(3, 40),
        vary_kleene_share,
        Axes("% Kleene", LINES, "CPU s", log_y=True),
        (claim_gains("6 to 16 times"),),
    ),
    Experiment(
        "gloria-15",
        "Gloria",
        "15",
        "memory of the search by number of queries, 6:1 SEQ to Kleene",
        Seconds(6, 60),
        measure_memory,
        Axes("queries", tuple(f"MB {name}" for name in VARIANTS), "MB", log_y=True),
        (
            Claim(
                "memory with pruning, of that without",
                "25 %",
                lambda rows: f"{rows[0]['% of unpruned']:.0f} to {rows[-1]['% of unpruned']:.0f} %",
            ),
        ),
    ),
)
