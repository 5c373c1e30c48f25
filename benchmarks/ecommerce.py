"""Sharon's e-commerce stream: 20 item sequences of length 4 to 10, 20 minutes sliding by one, on one core.

python -m benchmarks.ecommerce
"""

from __future__ import annotations

import pyarrow as pa

from benchmarks.report import arguments, finish, in_turn, median
from benchmarks.streams import ecommerce, item_queries
from motet.engine import EventSchema, Options, compile_workload
from motet.engine.local import run_table


def main() -> None:
    """Run and show."""
    options = arguments(__doc__ or "", repeats=3, events=5_400_000)
    pa.set_cpu_count(1)
    table = ecommerce(options.events)
    workload = item_queries(20, 4, 10)
    cases = {}
    for name, chosen in {
        "panes, queries alone": Options(optimizer="none"),
        "panes, equal prefixes once": Options(),
        "two stacks": Options(windows="stacks"),
    }.items():
        program = compile_workload(workload, EventSchema(table.schema), chosen)
        cases[name] = lambda program=program: run_table(program, table)
    seconds = in_turn(cases, options.repeats)
    fastest = min(median(times) for times in seconds.values())
    rows = [
        {
            "strategy": name,
            "M events/s": options.events / median(times) / 1e6,
            "best": options.events / min(times) / 1e6,
            "time against the fastest": median(times) / fastest,
        }
        for name, times in seconds.items()
    ]
    finish(
        "20 queries over 50 items, 20 customers, 3,000 events/s; Arrow table to result table, one core", rows, options
    )


if __name__ == "__main__":
    main()
