"""How long the Gloria optimizer takes, with and without pruning, and greedily: Gloria's figures 11 to 15.

python -m benchmarks.gloria_optimizer --axis queries

Each line is one workload, by the equations of the paper. Times are CPU seconds from compiled queries to plan, template
included; `pruning gains` is how much longer it takes without. With --memory also the peak of what Python allocates on
the way, which takes several times as long.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from pathlib import Path

import numpy as np

from benchmarks.report import finish, median
from benchmarks.trends import Shape, workload
from motet.engine.survey import compiled_queries
from motet.optimizer.aggregate.gloria.gloria import GLORIA, GREEDY, UNPRUNED, VARIANTS, GloriaOptions, optimize
from motet.plan.compiled import CompiledQuery
from motet.statistics.model import Statistics

Case = tuple[str, int, Shape]
AXES: dict[str, list[Case]] = {
    "queries": [(f"{n} SEQ", n, Shape(mixed=False)) for n in (40, 80, 120, 160, 200)],
    "length": [(f"Kleene of {n}", 100, Shape(1.0, n, mixed=False)) for n in (2, 4, 6, 8, 10)],
    "nested": [(f"nested Kleene of {n}", 100, Shape(1.0, n, nested=True, mixed=False)) for n in (4, 6, 8, 10)],
    "mixed": [(f"{n}, 6:1", n, Shape(1 / 7, mixed=False)) for n in (40, 80, 120, 160, 200)],
    "percent": [(f"{n}% Kleene", 100, Shape(n / 100, mixed=False)) for n in (10, 20, 40, 60)],
}


def main() -> None:
    """Run and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axis", choices=tuple(AXES), default="queries")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [measured(*case, options.repeats, options.memory) for case in AXES[options.axis]]
    finish(f"Gloria optimizer by {options.axis}: CPU seconds", rows, options)


def measured(name: str, number: int, shape: Shape, repeats: int, memory: bool) -> dict[str, object]:
    """One line."""
    queries = compiled_queries(workload(number, shape), 1)
    known = rates(queries)
    seconds: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    found = {variant: optimize(queries, known, GloriaOptions(variant, "printed")) for variant in VARIANTS}
    for _ in range(repeats):
        for variant in VARIANTS:
            began = time.process_time()
            optimize(queries, known, GloriaOptions(variant, "printed"))
            seconds[variant].append(time.process_time() - began)
    times = {variant: median(taken) for variant, taken in seconds.items()}
    apart = found[GLORIA].alternatives["not shared"]
    return {
        "workload": name,
        **times,
        "pruning gains": times[UNPRUNED] / times[GLORIA],
        "nodes": found[GLORIA].nodes,
        "unpruned": found[UNPRUNED].nodes,
        "cost, % of not sharing": 100 * found[GLORIA].weight / apart,
        "greedy, %": 100 * found[GREEDY].weight / apart,
        "unpruned, %": 100 * found[UNPRUNED].weight / apart,
        **({f"MB {variant}": peak(queries, known, variant) for variant in (GLORIA, UNPRUNED)} if memory else {}),
    }


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


if __name__ == "__main__":
    main()
