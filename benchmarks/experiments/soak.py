"""A soak: a stream at a steady rate for many minutes, all kinds of query; time of each micro-batch, memory, state."""

from __future__ import annotations

import json
import os
import tempfile
import time
from typing import Any

from benchmarks.measure import Measurement, read_tree_memory
from benchmarks.registry import OURS, Axes, Experiment, Row, Seconds, Setting

STARTING = 3  # micro-batches in which workers start and kernels are loaded: the time counts from there on
LONGEST_START = 300  # seconds
RATE, KEYS, QUERIES = 5_000, 10_000, 20
WINDOW, SLIDE = "10 min", "1 min"
CURVES = ("batch seconds", "memory MB", "state MB")


def measure_steady_stream(setting: Setting) -> list[Row]:
    """Measure what micro-batches took and held, in ten parts of the time."""
    samples, ran = soak(setting.pick(3, 15) * 60)
    parts = [samples[at * len(samples) // 10 : (at + 1) * len(samples) // 10] for at in range(10)]
    return [
        {
            "minute": part[-1]["minute"],
            **{name: Measurement.of([sample[name] for sample in part]) for name in CURVES},
            "rows": int(part[-1]["rows"]),
            "ran": ran,
        }
        for part in parts
        if part
    ]


def soak(seconds: float) -> tuple[list[dict[str, float]], str]:
    """Return what each micro-batch took and held, in so many seconds from when the stream runs steadily, and what was
    run.
    """
    from benchmarks.pipelines import TYPES, build_engine_stream, make_all_kinds
    from motet.spark import stream
    from motet.spark.session import stream_session

    session = stream_session("local[2]")
    rate = session.readStream.format("rate").option("rowsPerSecond", RATE).option("numPartitions", 2).load()
    events = rate.selectExpr(
        "timestamp AS time",
        f"concat('t', pmod(xxhash64(value), {TYPES})) AS type",
        f"pmod(xxhash64(value, 7), {KEYS}) AS key",
        "pmod(xxhash64(value, 8), 1000) / 1000 AS value",
    )
    samples: list[dict[str, float]] = []
    rows = state = finished = 0
    began = time.monotonic()
    until = began + LONGEST_START
    with tempfile.TemporaryDirectory() as checkpoint:
        pipeline = build_engine_stream(make_all_kinds(QUERIES, WINDOW, SLIDE))
        writer = pipeline(events).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="1 second").start()
        seen = -1
        while time.monotonic() < until:
            time.sleep(0.2)
            last = query.lastProgress
            if last is None or last.batchId == seen:
                continue
            seen = last.batchId
            finished += 1
            progress: dict[str, Any] = json.loads(last.json)
            rows += progress["numInputRows"]
            state += (progress.get("observedMetrics", {}).get(stream.METRICS) or {}).get("state_bytes") or 0
            if finished == STARTING:
                began = time.monotonic()
                until = began + seconds
            if finished <= STARTING:
                continue
            samples.append(
                {
                    "minute": (time.monotonic() - began) / 60,
                    "batch seconds": progress["durationMs"]["triggerExecution"] / 1000,
                    "memory MB": read_tree_memory(os.getpid()) / 1e6,
                    "state MB": state / 1e6,
                    "rows": rows,
                }
            )
        pipeline.read_progress(query)
        query.stop()
    session.stop()
    if not samples:
        raise AssertionError(f"only {finished} micro-batches were over in {LONGEST_START} s")
    return samples, pipeline.ran


EXPERIMENTS = (
    Experiment(
        "soak",
        OURS,
        "",
        "5,000 rows/s, 10,000 keys, 20 queries of all kinds, windows of 10 min: batches, memory and state over time",
        Seconds(220, 1000),
        measure_steady_stream,
        Axes("minute", CURVES, "s, MB", log_y=True),
        needs=("pyspark",),
        heavy=True,
    ),
)
