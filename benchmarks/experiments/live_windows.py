"""A stream in process: what a micro-batch costs, by how many micro-batches a window holds."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from benchmarks.engine import describe_fed
from benchmarks.measure import Measurement
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting
from benchmarks.streams import SECOND
from motet.compile import compile_workload
from motet.engine.live import Stream
from motet.language import parse
from motet.options import Options, WindowStrategy
from motet.schema import EventSchema

ROWS = KEYS = 10_000
HELD = (2, 20, 200)  # micro-batches in a window
LENGTH = 10  # seconds of a micro-batch
COLUMNS = pa.schema(
    [("time", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64()), ("id", pa.int64())]
)
QUERIES = {
    "totals in panes": "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN {w} s SLIDE {w} s",
    "continuous": "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN {w} s",
    "adjacent condition": "RETURN COUNT(*) PATTERN A a+ WHERE a.x < NEXT(a).x GROUP BY k WITHIN {w} s",
    "count window": "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN {held} EVENTS",
    "adjacent, sliding": "RETURN COUNT(*) PATTERN A a+ WHERE a.x < NEXT(a).x GROUP BY k WITHIN {w} s SLIDE {w} s",
    "pairs": """
        QUERY one RETURN COUNT(*) PATTERN SEQ(A, B, A) GROUP BY k WITHIN {w} s SLIDE {half} s
        QUERY other RETURN COUNT(*) PATTERN SEQ(B, B, A) GROUP BY k WITHIN {w} s SLIDE {half} s
    """,
    # Each B has the number of one A of the micro-batch before, so windows of any length have as many matches.
    "matches of a key": "RETURN a, b PATTERN SEQ(A a, B b) WHERE [k] AND a.id = b.id AND a.x >= b.x WITHIN {w} s",
    "matches by value": "RETURN a, b PATTERN SEQ(A a, B b) WHERE a.id + 0 = b.id AND a.x >= b.x WITHIN {w} s",
    "paths": "RETURN a, b PATTERN SEQ(A a, B b) WHERE [id] WITHIN {w} s",
}


def measure_live_windows(setting: Setting) -> list[Row]:
    """Measure CPU milliseconds of a micro-batch, by kind of query and length of its window."""
    pa.set_cpu_count(1)
    batches = max(setting.repeats, setting.pick(5, 15))
    rows: list[Row] = []
    for name, query in QUERIES.items():
        row: Row = {"query": name}
        ran: dict[str, None] = {}
        for held in HELD:
            text = query.format(w=held * LENGTH, held=held, half=held * LENGTH // 2)
            times, how = measure_micro_batches(text, held + batches, "pairs" if name == "pairs" else "auto")
            ran[how] = None
            row[f"ms, {held} micro-batches in a window"] = Measurement.of(times[-batches:])
        rows.append({**row, "ran": "; ".join(ran)})
    return rows


def measure_micro_batches(query: str, count: int, windows: WindowStrategy = "auto") -> tuple[list[float], str]:
    """Measure CPU milliseconds of each of some micro-batches; every row waits for the next one. Say what ran."""
    options = Options(mode="append", windows=windows)
    stream = Stream(compile_workload(parse(query), EventSchema(COLUMNS), options))
    rng = np.random.default_rng(1)
    times = []
    before = np.zeros(ROWS, np.int64)  # the keys of the A rows of the micro-batch before
    for number in range(count):
        first = number * LENGTH
        kinds, key = rng.choice(list("AB"), ROWS), rng.integers(0, KEYS, ROWS)
        own = np.arange(ROWS)
        answered = rng.permutation(ROWS)
        is_answer = kinds == "B"
        columns = [
            np.sort(rng.integers(first, first + LENGTH, ROWS)),
            kinds,
            np.where(is_answer, before[answered], key),
            rng.integers(0, 9, ROWS),
            np.where(is_answer, (number - 1) * ROWS + answered, number * ROWS + own),
        ]
        before = key
        events = pa.table(columns, schema=COLUMNS)
        began = time.process_time()
        stream.feed(events, first * SECOND)
        times.append(1000 * (time.process_time() - began))
    return times, describe_fed(stream)


EXPERIMENTS = (
    Experiment(
        "live-windows",
        OURS,
        "",
        f"a stream in process: micro-batches of {ROWS:,} rows and {KEYS:,} keys, by what a window holds",
        Seconds(40, 90),
        measure_live_windows,
    ),
)
