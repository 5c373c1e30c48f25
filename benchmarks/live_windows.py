"""A stream in process: what a micro-batch costs where totals are carried on, and where the events of live windows are
run again, by how many micro-batches a window holds.

python -m benchmarks.live_windows
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from benchmarks.report import arguments, finish, median
from motet.engine import EventSchema, Options, compile_workload
from motet.engine.live import Stream
from motet.language import parse

SECOND = 1_000_000
LENGTH = 10  # seconds of a micro-batch
COLUMNS = pa.schema([("time", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])
QUERIES = {
    "totals in panes": "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN {w} s SLIDE {w} s",
    "continuous": "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN {w} s",
    "adjacent condition": "RETURN COUNT(*) PATTERN A a+ WHERE a.x < NEXT(a).x GROUP BY k WITHIN {w} s",
    "matches": "RETURN a, b PATTERN SEQ(A a, B b) WHERE [k] AND a.x = b.x WITHIN {w} s",
}


def main() -> None:
    """Run and show."""
    options = arguments(__doc__ or "", repeats=10, rows=10_000, keys=10_000)
    pa.set_cpu_count(1)
    rows = []
    for name, query in QUERIES.items():
        row: dict[str, str | float] = {"query": name}
        for held in (2, 10, 20):
            times = micro_batches(query.format(w=held * LENGTH), held + options.repeats, options.rows, options.keys)
            row[f"{held} micro-batches in a window, ms"] = 1000 * median(times[-options.repeats :])
        rows.append(row)
    title = f"CPU time of a micro-batch of {options.rows:,} rows, {options.keys:,} keys, one core"
    finish(title, rows, options)


def micro_batches(query: str, count: int, rows: int, keys: int) -> list[float]:
    """CPU seconds of each of some micro-batches; every row waits for the next one."""
    stream = Stream(compile_workload(parse(query), EventSchema(COLUMNS), Options(live="append")))
    rng = np.random.default_rng(1)
    seconds = []
    for number in range(count):
        first = number * LENGTH
        columns = [
            np.sort(rng.integers(first, first + LENGTH, rows)),
            rng.choice(list("AB"), rows),
            rng.integers(0, keys, rows),
            rng.integers(0, 9, rows),
        ]
        events = pa.table(columns, schema=COLUMNS)
        began = time.process_time()
        stream.feed(events, first * SECOND)
        seconds.append(time.process_time() - began)
    return seconds


if __name__ == "__main__":
    main()
