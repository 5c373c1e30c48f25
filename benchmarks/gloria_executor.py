"""Shared execution on one core: Gloria's figures 16 and 19, and a long Kleene.

python -m benchmarks.gloria_executor --axis queries

`queries`: SEQ and Kleene at 6:1 over a stock stream with minute timestamps, windows of 5 to 20 minutes sliding by 5,
groups, several aggregates, some predicates. `counts`: the same patterns as their authors' program runs them, COUNT(*)
without groups. `bursts`: simple and complex Kleene queries over streams with bursts. `kleene`: `A+` over ever more
events in one window, where COUNT leaves 64 bits. Times are CPU seconds from Arrow table to result table, without the
search for a plan. `times theirs` compares with what the authors' Java program does on such workloads (events of the
workload's types per CPU second).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.report import finish, median
from benchmarks.trends import MINUTE, Shape, bursty, companies, stock, workload
from motet.engine import EventSchema, Options, compile_workload
from motet.engine.local import run_table
from motet.language import parse
from motet.model.query import Workload

OPTIMIZERS = {"none": "none", "greedy": "gloria-greedy", "gloria": "gloria", "auto": "auto"}
THEIRS = {12: 82_000, 36: 64_000, 60: 51_000, 120: 37_000}  # by number of queries
EVENTS = 500_000


def main() -> None:
    """Run and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axis", choices=tuple(AXES), default="queries")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    finish(f"Kleene and SEQ by {options.axis}: CPU seconds, one core", AXES[options.axis](options.repeats), options)


def by_queries(repeats: int, shape: Shape = Shape(1 / 7)) -> list[dict[str, object]]:  # noqa: B008
    rows = []
    for number, theirs in THEIRS.items():
        events = stock(EVENTS, companies(-(-number // 10), shape.repeated))
        times = timed(workload(number, shape), events, repeats)
        rate = EVENTS / times["auto"]
        rows.append({"queries": number, **gains(times), "M events/s": rate / 1e6, "times theirs": rate / theirs})
    return rows


def by_counts(repeats: int) -> list[dict[str, object]]:
    return by_queries(repeats, Shape(1 / 7, mixed=False, grouped=False))


def by_bursts(repeats: int) -> list[dict[str, object]]:
    rows = []
    for name, share in (("simple", 0.0), ("half complex", 0.5), ("complex", 1.0)):
        for burst in (1, 10, 100):
            events = stock(EVENTS // 5, [f"C{at}" for at in range(17)], burst=burst)
            rows.append({"workload": name, "burst": burst, **gains(timed(bursty(100, share), events, repeats))})
    return rows


def gains(times: dict[str, float]) -> dict[str, object]:
    return {
        **times,
        "gloria gains": times["none"] / times["gloria"],
        "over greedy": times["greedy"] / times["gloria"],
        "auto gains": times["none"] / times["auto"],
    }


def timed(queries: Workload, events: pa.Table, repeats: int) -> dict[str, float]:
    """CPU seconds with each plan, the plans taking turns."""
    schema = EventSchema(events.schema)
    programs = {
        name: compile_workload(queries, schema, Options(optimizer=optimizer)) for name, optimizer in OPTIMIZERS.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for program in programs.values():
        run_table(program, events)
    for _ in range(repeats):
        for name, program in programs.items():
            began = time.process_time()
            run_table(program, events)
            seconds[name].append(time.process_time() - began)
    return {name: median(taken) for name, taken in seconds.items()}


LONG = """
QUERY trends
RETURN COUNT(*), AVG(a.price), MIN(a.price)
PATTERN A a+
WITHIN 100 days SLIDE 100 days
"""


def by_kleene(repeats: int) -> list[dict[str, object]]:
    """Every subset of the events of a window is a trend: each event is in as many as any other."""
    rows = []
    for events in (25_000, 50_000, 100_000, 200_000):
        price = np.random.default_rng(1).integers(1, 1000, events).astype(np.float64)
        at = pa.array(np.arange(events, dtype=np.int64) * MINUTE // 4, pa.timestamp("us"))
        table = pa.table({"time": at, "type": ["A"] * events, "price": price})
        program = compile_workload(parse(LONG), EventSchema(table.schema), Options())
        (row,) = run_table(program, table).table.to_pylist()
        assert row["COUNT(*)"] is None
        assert np.isclose(row["AVG(a.price)"], price.mean())
        assert row["MIN(a.price)"] == price.min()
        seconds = []
        for _ in range(repeats):
            began = time.process_time()
            run_table(program, table)
            seconds.append(time.process_time() - began)
        rows.append(
            {
                "events": events,
                "seconds": median(seconds),
                "ns an event": 1e9 * median(seconds) / events,
                "AVG": row["AVG(a.price)"],
                "MIN": row["MIN(a.price)"],
            }
        )
    return rows


AXES: dict[str, Callable[[int], list[dict[str, object]]]] = {
    "queries": by_queries,
    "counts": by_counts,
    "bursts": by_bursts,
    "kleene": by_kleene,
}


if __name__ == "__main__":
    main()
