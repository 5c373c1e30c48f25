"""How long the Gloria optimizer takes, with and without pruning, and greedily: Gloria's figures 11 to 15.

Each line is one workload, by the equations of the paper. Times are CPU seconds from compiled queries to plan, template
included; `pruning gains` is how much longer it takes without.
"""

from __future__ import annotations

import time
import tracemalloc
from functools import partial

import numpy as np

from motet.bench.measure import Measured, in_turn, ratio
from motet.bench.registry import Axes, Experiment, Row, Seconds, Setting, Stated
from motet.bench.run import middle
from motet.bench.trends import Shape, workload
from motet.engine.survey import compiled_queries
from motet.optimizer.aggregate.gloria.gloria import GLORIA, GREEDY, UNPRUNED, VARIANTS, GloriaOptions, optimize
from motet.optimizer.aggregate.gloria.report import GloriaReport
from motet.plan.compiled import CompiledQuery
from motet.statistics.model import Statistics


def by_queries(setting: Setting, kleene: float, few: tuple[int, int]) -> list[Row]:
    counts = setting.pick(few, (40, 80, 120, 160, 200))
    return [measured("queries", n, n, Shape(kleene, mixed=False), setting.repeats) for n in counts]


def by_length(setting: Setting, nested: bool) -> list[Row]:
    lengths = setting.pick((4, 6), (4, 6, 8, 10)) if nested else setting.pick((2, 6), (2, 4, 6, 8, 10))
    shapes = {n: Shape(1.0, n, nested=nested, mixed=False) for n in lengths}
    count = setting.pick(40, 100)
    return [measured("length", n, count, shape, setting.repeats) for n, shape in shapes.items()]


def by_percent(setting: Setting) -> list[Row]:
    shares, count = setting.pick(((40, 60), 40), ((10, 20, 40, 60), 100))
    return [measured("% Kleene", n, count, Shape(n / 100, mixed=False), setting.repeats) for n in shares]


def measured(axis: str, value: int, number: int, shape: Shape, repeats: int) -> Row:
    """One line."""
    queries = compiled_queries(workload(number, shape), 1)
    known = rates(queries)
    found: dict[str, GloriaReport] = {}

    def search(name: str) -> None:
        found[name] = optimize(queries, known, GloriaOptions(name, "printed"))

    cases = {name: partial(search, name) for name in VARIANTS}
    taken = in_turn(cases, repeats, time.process_time, warm=False)
    apart = found[GLORIA].alternatives["not shared"]
    return {
        axis: value,
        **{name: Measured.of(times) for name, times in taken.items()},
        "pruning gains": ratio(taken[UNPRUNED], taken[GLORIA]),
        "over greedy": ratio(taken[GLORIA], taken[GREEDY]),
        "nodes": found[GLORIA].nodes,
        "unpruned": found[UNPRUNED].nodes,
        "cost, % of not sharing": 100 * found[GLORIA].weight / apart,
        "greedy, %": 100 * found[GREEDY].weight / apart,
    }


def memory(setting: Setting) -> list[Row]:
    """The most that Python allocates on the way to a plan of a mixed workload."""
    rows: list[Row] = []
    for number in setting.pick((20, 40), (40, 80, 120, 160, 200)):
        queries = compiled_queries(workload(number, Shape(1 / 7, mixed=False)), 1)
        known = rates(queries)
        peaks = {f"MB {name}": peak(queries, known, name) for name in (GREEDY, GLORIA, UNPRUNED)}
        rows.append(
            {"queries": number, **peaks, "% of unpruned": 100 * peaks[f"MB {GLORIA}"] / peaks[f"MB {UNPRUNED}"]}
        )
    return rows


def peak(queries: list[CompiledQuery], known: Statistics, variant: str) -> float:
    """Peak memory of a search."""
    tracemalloc.start()
    optimize(queries, known, GloriaOptions(variant, "printed"))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


def rates(queries: list[CompiledQuery]) -> Statistics:
    """From one event to fifty of a type in ten minutes."""
    rng = np.random.default_rng(1)
    types = sorted({symbol.type for query in queries for symbol in query.symbols})
    return Statistics(given={type: float(rng.integers(1, 50)) / 600 for type in types})


def gains(paper: str) -> Stated:
    return Stated(
        "what pruning gains",
        paper,
        lambda rows: (
            f"{min(middle(row['pruning gains']) for row in rows):.1f} to "
            f"{max(middle(row['pruning gains']) for row in rows):.1f} times"
        ),
    )


def over_greedy(paper: str) -> Stated:
    return Stated(
        "slower than greedy",
        paper,
        lambda rows: (
            f"{min(middle(row['over greedy']) for row in rows):.1f} to "
            f"{max(middle(row['over greedy']) for row in rows):.1f} times"
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
        partial(by_queries, kleene=0.0, few=(10, 16)),
        Axes("queries", LINES, "CPU s", log_y=True),
        (gains("5 to 7 times"), over_greedy("16 times")),
    ),
    Experiment(
        "gloria-12",
        "Gloria",
        "12",
        "time to a plan by length of what is repeated, 100 Kleene queries (quick: 40)",
        Seconds(7, 60),
        partial(by_length, nested=False),
        Axes("length", LINES, "CPU s", log_y=True),
        (gains("2 to 13 times"),),
    ),
    Experiment(
        "gloria-12-nested",
        "Gloria",
        "12",
        "the same with repetitions in repetitions",
        Seconds(8, 60),
        partial(by_length, nested=True),
        Axes("length", LINES, "CPU s", log_y=True),
        (gains("2 to 13 times"),),
    ),
    Experiment(
        "gloria-13",
        "Gloria",
        "13",
        "time to a plan by number of queries, 6:1 SEQ to Kleene",
        Seconds(6, 45),
        partial(by_queries, kleene=1 / 7, few=(20, 60)),
        Axes("queries", LINES, "CPU s", log_y=True),
        (gains("5 times"), over_greedy("10 times")),
    ),
    Experiment(
        "gloria-14",
        "Gloria",
        "14",
        "time to a plan by share of Kleene queries, of 100 (quick: 40)",
        Seconds(3, 40),
        by_percent,
        Axes("% Kleene", LINES, "CPU s", log_y=True),
        (gains("6 to 16 times"),),
    ),
    Experiment(
        "gloria-15",
        "Gloria",
        "15",
        "memory of the search by number of queries, 6:1 SEQ to Kleene",
        Seconds(6, 60),
        memory,
        Axes("queries", tuple(f"MB {name}" for name in VARIANTS), "MB", log_y=True),
        (
            Stated(
                "memory with pruning, of that without",
                "25 %",
                lambda rows: f"{rows[0]['% of unpruned']:.0f} to {rows[-1]['% of unpruned']:.0f} %",
            ),
        ),
    ),
)
