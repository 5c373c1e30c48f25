"""A stream in process in feeds of any size: what it costs against one batch run, and per event of `motet.live`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

import motet
from benchmarks.engine import describe_fed, describe_run, list_executed
from benchmarks.measure import Measurement
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting
from benchmarks.streams import SECOND
from motet.compile import Program, compile_workload
from motet.engine.live import Stream
from motet.engine.local import run_table
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema

EVENTS, FEED, KEYS, TYPES = 100_000, 1_000, 500, 5
COLUMNS = pa.schema([("time", pa.timestamp("us")), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])
# A thousand events a second. The policies begin with few events, for batches follow each run to its end.
CASES = {
    "20 continuous sequences": (20, "COUNT(*) PATTERN SEQ({0}, {1}, {2}) GROUP BY k WITHIN 20 s"),
    "adjacent condition": (1, "COUNT(*) PATTERN {0} a+ WHERE a.x < NEXT(a).x GROUP BY k WITHIN 40 s SLIDE 10 s"),
    "60 sequences in panes": (60, "COUNT(*) PATTERN SEQ({0}, {1}, {2}) GROUP BY k WITHIN 60 s SLIDE 10 s"),
    "20 count windows": (20, "COUNT(*) PATTERN SEQ({0}, {1}, {2}) GROUP BY k WITHIN 100 EVENTS"),
    "20 detection": (20, "* PATTERN SEQ({0} a, {1} b, {2} c) WHERE [k] AND a.x < b.x AND b.x < c.x WITHIN 20 s"),
    "20 SKIP TILL NEXT": (20, "* PATTERN SEQ({0} a, {1} b, {2} c) WHERE [k] AND a.x < b.x WITHIN 20 s SKIP TILL NEXT"),
    "20 AFTER MATCH SKIP": (
        20,
        "* PATTERN SEQ({0} a, {1} b, {2} c) WHERE [k] AND a.x < b.x AND b.x < c.x WITHIN 20 s SLIDE 10 s "
        "AFTER MATCH SKIP PAST LAST EVENT",
    ),
}
PATTERN = "RETURN * PATTERN SEQ({0} a, {1} b, {2} c) WHERE [k] AND a.x < b.x AND b.x < c.x WITHIN 10 s"


def make_events(count: int, seed: int = 1) -> pa.Table:
    """Return events, a thousand a second."""
    rng = np.random.default_rng(seed)
    columns = [
        pa.array(np.arange(count) * (SECOND // 1000), pa.timestamp("us")),
        pa.array([f"t{kind}" for kind in range(TYPES)]).take(pa.array(rng.integers(0, TYPES, count))),
        rng.integers(0, KEYS, count),
        rng.integers(0, 100, count),
    ]
    return pa.table(columns, schema=COLUMNS)


def make_queries(count: int, text: str) -> str:
    """Return queries over three random types each."""
    rng = np.random.default_rng(1)
    types = [[f"t{kind}" for kind in rng.choice(TYPES, 3, replace=False)] for _ in range(count)]
    return "\n".join(f"QUERY q{at} {text.format(*own)}" for at, own in enumerate(types))


def measure_cpu(run: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    began = time.process_time()
    run()
    return time.process_time() - began


def measure_feeds(setting: Setting) -> list[Row]:
    """Measure feeds against one batch run in turn, and then CPU per event of `motet.live`."""
    pa.set_cpu_count(1)
    events = make_events(EVENTS)
    schema = EventSchema(COLUMNS)
    rows: list[Row] = []
    for name, (count, text) in CASES.items():
        workload = parse(make_queries(count, f"RETURN {text}"))
        fed_program = compile_workload(workload, schema, Options(mode="append"))

        def feed_all(program: Program = fed_program) -> Stream:
            stream = Stream(program)
            for at in range(0, EVENTS, FEED):
                stream.feed(events.slice(at, FEED), at * (SECOND // 1000))
            stream.finish()
            return stream

        program = compile_workload(workload, schema)
        fed, whole = [], []
        for _ in range(setting.repeats):
            whole.append(measure_cpu(partial(run_table, program, events)))
            fed.append(measure_cpu(feed_all))
        ratio = statistics.median(fed) / statistics.median(whole)
        ran = f"batch: {describe_run(list_executed(program, events))}; fed: {describe_fed(feed_all())}"
        times = {"batch, s": Measurement.of(whole), "fed, s": Measurement.of(fed)}
        rows.append({"case": name, **times, "ratio": ratio, "ran": ran})
    for patterns, size, count in ((1, 1, 500), (1, 100, 200), (1, EVENTS, 1), (50, 100, 100), (50, EVENTS, 1)):
        spent, ran = measure_live(patterns, size, count, setting.repeats)
        name = f"motet.live, {patterns} SEQ of 3, feeds of {size:,}"
        rows.append({"case": name, "us per event": Measurement.of(spent), "ran": ran})
    return rows


def measure_live(patterns: int, size: int, count: int, repeats: int) -> tuple[list[float], str]:
    """Return CPU microseconds per event of some feeds, after those that fill the window and plan, and what ran."""
    events = make_events(20_000 + repeats * size * count, seed=2)
    live = motet.live(COLUMNS, make_queries(patterns, PATTERN))
    at = 0
    for at in range(0, 20_000, 1_000):
        live.feed(events.slice(at, 1_000))
    at, times = 20_000, []

    def feed_each(feeds: Sequence[pa.Table]) -> None:
        for feed in feeds:
            live.feed(feed)

    for _ in range(repeats):
        feeds = [events.slice(at + each * size, size) for each in range(count)]
        at += size * count
        times.append(1e6 * measure_cpu(partial(feed_each, feeds)) / (size * count))
    return times, describe_fed(live._stream)


EXPERIMENTS = (
    Experiment(
        "live-feeds",
        OURS,
        "",
        f"a stream in process: feeds of {FEED:,} over {EVENTS:,} events against a batch; CPU per event of motet.live",
        Seconds(60, 60),
        measure_feeds,
        heavy=True,
    ),
)
