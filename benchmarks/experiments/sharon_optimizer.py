"""How fast the Sharon optimizer finds how good a plan (Sharon, section VIII-C, figure 13).

Time and memory against the number of queries, with e-commerce patterns of four items as figure 2 has them, for the
greedy, the Sharon and the exhaustive optimizer, each as the paper has it, and for the packing; then the plan within a
budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.baselines import sharon_exhaustive
from benchmarks.measure import Measurement, measure_peak
from benchmarks.registry import OURS, Axes, Claim, Experiment, Row, Seconds, Setting
from benchmarks.run import get_median
from benchmarks.workloads import ecommerce
from motet.engine.workload_profile import compile_online_queries
from motet.optimizer.sharon.report import SharonReport
from motet.optimizer.sharon.sharon import SharonOptions, optimize
from motet.plans.compiled import CompiledQuery

OPTIMIZERS = {
    "greedy": SharonOptions("sharon-greedy"),
    "sharon": SharonOptions("sharon", search="finder"),
    "exhaustive": SharonOptions(sharon_exhaustive.NAME),
    "packing": SharonOptions("sharon", search="packing"),
}
MOST_OPTIONS = 20_000


def vary_queries(setting: Setting) -> list[Row]:
    """Measure each optimizer for more and more queries, until it no longer ends in time."""
    budget = setting.pick(3.0, 10.0)
    rows: list[Row] = []
    gone: set[str] = set()
    for queries in setting.pick((5, 10, 20, 40, 70), (5, 10, 15, 20, 25, 30, 40, 50, 60, 70)):
        workload = compile_online_queries(ecommerce(queries, 4), 1)
        row: Row = {"queries": queries}
        scores = []
        for name, options in OPTIMIZERS.items():
            if name in gone:
                continue
            chosen = SharonOptions(options.variant, budget, options.search, most_options=MOST_OPTIONS)
            report, seconds = time_optimizer(workload, chosen, setting.repeats)
            scores.append(report.score)
            row.setdefault("candidates", len(report.candidates))
            if report.method == {"sharon": "finder"}.get(name, name) or report.is_optimal:
                row[name] = seconds
                if seconds.median < 1:
                    row[f"MB {name}"] = measure_peak(partial(find_optimizer(chosen), workload, None, chosen))
            else:
                gone.add(name)
            if name == "sharon" and report.options and report.kept is not None:
                row["options pruned %"] = 100 * (1 - report.kept / report.options)
        rows.append({**row, "greedy score, % of best": 100 * scores[0] / max(scores)})
    return rows


def find_optimizer(options: SharonOptions) -> Callable[..., SharonReport]:
    return sharon_exhaustive.optimize if options.variant == sharon_exhaustive.NAME else optimize


def time_optimizer(
    queries: Sequence[CompiledQuery], options: SharonOptions, repeats: int
) -> tuple[SharonReport, Measurement]:
    """Return the plan, and the seconds to it."""
    times = []
    search = find_optimizer(options)
    while True:
        began = time.perf_counter()
        report = search(queries, None, options)
        times.append(time.perf_counter() - began)
        # A search that is given up after its budget need not be given up again.
        if len(times) == repeats or times[-1] > 1:
            return report, Measurement.of(times)


def measure_budgets(setting: Setting) -> list[Row]:
    """Measure the greedy plan and the best one in time, with what is proved of it."""
    budget = setting.pick(5.0, 10.0)
    rows: list[Row] = []
    for queries in (70, 500):
        for seed in range(1, 1 + setting.pick(1, 3)):
            workload = compile_online_queries(ecommerce(queries, 10, seed), 1)
            for name in ("sharon-greedy", "sharon"):
                report, seconds = time_optimizer(workload, SharonOptions(name, budget), 1)
                rows.append(
                    {
                        "queries": queries,
                        "seed": seed,
                        "optimizer": name,
                        "candidates": len(report.candidates),
                        "score": report.score,
                        "below the best by at most, %": 100 * report.gap,
                        "seconds": seconds.median,
                        "found by": report.method,
                    }
                )
    return rows


def describe_ratio(rows: Sequence[Mapping[str, Any]], queries: int, above: str, below: str) -> str:
    """State how many times as long one optimizer takes as another, where both end."""
    row = next((row for row in rows if row["queries"] == queries), None)
    if row is None or row.get(above) is None or row.get(below) is None:
        return "does not end in time"
    return f"{get_median(row[above]) / get_median(row[below]):,.0f} times"


EXPERIMENTS = (
    Experiment(
        "sharon-13",
        "Sharon",
        "13",
        "time to a plan and memory by number of queries: greedy, Sharon, exhaustive, packing",
        Seconds(10, 25),
        vary_queries,
        Axes("queries", tuple(OPTIMIZERS), "s", log_y=True),
        (
            Claim(
                "exhaustive over greedy at 20 queries",
                "10,000 times",
                lambda r: describe_ratio(r, 20, "exhaustive", "greedy"),
            ),
            Claim(
                "exhaustive over Sharon at 20 queries",
                "1,000 times",
                lambda r: describe_ratio(r, 20, "exhaustive", "sharon"),
            ),
            Claim(
                "Sharon over greedy at 70 queries", "1,000 times", lambda r: describe_ratio(r, 70, "sharon", "greedy")
            ),
            Claim(
                "memory of the exhaustive search over Sharon at 20 queries",
                "100 times",
                lambda r: describe_ratio(r, 20, "MB exhaustive", "MB sharon"),
            ),
            Claim(
                "memory of Sharon over greedy at 70 queries",
                "100 times",
                lambda r: describe_ratio(r, 70, "MB sharon", "MB greedy"),
            ),
        ),
    ),
    Experiment(
        "sharon-budget",
        OURS,
        "",
        "how good a plan for 70 and 500 queries of ten items is, within seconds",
        Seconds(11, 45),
        measure_budgets,
    ),
)
