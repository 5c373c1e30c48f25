"""How fast the Sharon optimizer finds how good a plan, on e-commerce queries (Sharon, section VIII-C, figure 13).

python -m benchmarks.sharon_optimizer [--json FILE] [--chart FILE]

First the plan within a budget for 70 and 500 queries of 10 items. Then time against the number of queries, with
patterns of four items as figure 2 has them, for the greedy, the Sharon and the exhaustive optimizer, each as the paper
has it, and for the packing; `--chart` writes this as a Vega-Lite chart. Last, what greed costs on taxi queries: by
score here, the time that it costs the executor is another benchmark's (figure 14).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import show
from benchmarks.workloads import ecommerce, taxi
from motet.model.query import Workload
from motet.optimizer.aggregate.report import SharonReport
from motet.optimizer.aggregate.sharon import SharonOptions, optimize
from motet.plan.compiled import CompiledQuery, compile_query

OPTIMIZERS = {
    "greedy": SharonOptions("sharon-greedy"),
    "sharon": SharonOptions("sharon", search="finder"),
    "exhaustive": SharonOptions("sharon-exhaustive"),
    "packing": SharonOptions("sharon", search="packing"),
}
QUERIES = (2, 4, 6, 8, 10, 12, 16, 20, 24, 30, 40, 50, 60, 70)


def main() -> None:
    """Run and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds that an optimizer may take")
    parser.add_argument("--seeds", type=int, default=3, help="workloads of each size in the first table")
    parser.add_argument("--length", type=int, default=4, help="of patterns in the second table")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--chart", type=Path)
    options = parser.parse_args()
    within = [
        row
        for count in (70, 500)
        for seed in range(1, options.seeds + 1)
        for row in in_budget(count, seed, options.budget)
    ]
    show(f"A plan within {options.budget:g} s: patterns of 10 items", within)
    growing = against_queries(options.length, options.budget)
    show(f"Seconds against the number of queries: patterns of {options.length} items", list(map(flat, growing)))
    greed = greedy_against_best(options.budget)
    show("The greedy plan against the best: taxi queries of 10 streets", greed)
    if options.json:
        found = {"within_budget": within, "figure_13": growing, "greedy_against_best": greed}
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if options.chart:
        options.chart.write_text(json.dumps(chart(growing), indent=2) + "\n")


def compiled(workload: Workload) -> list[CompiledQuery]:
    outcomes = [compile_query(number, workload, 1) for number in range(len(workload.queries))]
    return [outcome for outcome in outcomes if isinstance(outcome, CompiledQuery)]


def in_budget(queries: int, seed: int, budget: float) -> list[dict[str, Any]]:
    """The greedy plan and the best one in time, with what is proved of it."""
    rows = []
    workload = compiled(ecommerce(queries, 10, seed))
    for name in ("sharon-greedy", "sharon"):
        report, seconds = timed(workload, SharonOptions(name, budget))
        rows.append(
            {
                "queries": queries,
                "seed": seed,
                "candidates": len(report.candidates),
                "runs": len(report.plan.segments),
                "score": report.score,
                "bound": report.bound,
                "gap %": 100 * report.gap,
                "seconds": seconds,
                "found": report.method,
            }
        )
    return rows


def timed(queries: Sequence[CompiledQuery], options: SharonOptions) -> tuple[SharonReport, float]:
    began = time.perf_counter()
    report = optimize(queries, None, options)
    return report, time.perf_counter() - began


def against_queries(length: int, budget: float) -> list[dict[str, Any]]:
    """Each optimizer for more and more queries, until it no longer ends in time."""
    rows = []
    gone: set[str] = set()
    for queries in QUERIES:
        workload = compiled(ecommerce(queries, length))
        row: dict[str, Any] = {"queries": queries}
        for name, options in OPTIMIZERS.items():
            if name in gone:
                continue
            chosen = SharonOptions(options.variant, budget, options.search, most_options=20_000)
            report, seconds = timed(workload, chosen)
            ended = report.method == {"sharon": "finder"}.get(name, name) or report.optimal
            row[name] = {
                "seconds": seconds if ended else None,
                "score": report.score,
                "phases": dict(report.seconds),
                "candidates": len(report.candidates),
                "options": report.options,
                "kept": report.kept,
                "visited": report.visited,
            }
            if not ended:
                gone.add(name)
        rows.append(row)
    return rows


def greedy_against_best(budget: float) -> list[dict[str, Any]]:
    """The scores of both plans for more and more queries."""
    rows = []
    for queries in (20, 60, 100, 140, 180):
        workload = compiled(taxi(queries))
        greedy, _ = timed(workload, SharonOptions("sharon-greedy", budget))
        best, seconds = timed(workload, SharonOptions("sharon", budget))
        rows.append(
            {
                "queries": queries,
                "greedy": greedy.score,
                "best": best.score,
                "best / greedy": best.score / greedy.score,
                "gap %": 100 * best.gap,
                "seconds": seconds,
            }
        )
    return rows


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people: seconds, and what the plans score."""
    some = row["greedy"]
    of_sharon = row.get("sharon") or {}
    line: dict[str, Any] = {"queries": row["queries"], "candidates": some["candidates"]}
    line["options"] = of_sharon.get("options") or "-"
    line["kept"] = of_sharon.get("kept") or "-"
    for name in OPTIMIZERS:
        seconds = row[name]["seconds"] if name in row else None
        line[name] = "-" if seconds is None else f"{seconds:.4f}"
    line["score"] = some["score"]
    line["best"] = max(row[name]["score"] for name in OPTIMIZERS if name in row)
    return line


def chart(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The second table as a Vega-Lite specification."""
    values = [
        {"queries": row["queries"], "optimizer": name, "seconds": row[name]["seconds"]}
        for row in rows
        for name in OPTIMIZERS
        if name in row and row[name]["seconds"] is not None
    ]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": "Time to a plan against the number of queries",
        "data": {"values": values},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "queries", "type": "quantitative"},
            "y": {"field": "seconds", "type": "quantitative", "scale": {"type": "log"}},
            "color": {"field": "optimizer", "type": "nominal"},
        },
    }


if __name__ == "__main__":
    main()
