"""Structured Streaming: a hundred queries, sequences or a fifth of each kind, against the same pipeline with an
identity function in the engine's place, an empty micro-batch, and a million keys of which one in a hundred is active.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Measurement
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting
from benchmarks.streams import SECOND
from motet.language import parse

QUERIES = 100
KEYS = 10_000
TYPES = 20
FEW = """
QUERY one RETURN COUNT(*) PATTERN SEQ(t0, t1, t2) GROUP BY key WITHIN 1 h SLIDE 1 h

QUERY two RETURN COUNT(*), SUM(t4.value) PATTERN SEQ(t3+, t4) GROUP BY key WITHIN 1 h SLIDE 1 h
"""


def measure_micro_batches(setting: Setting) -> list[Row]:
    """Measure milliseconds of micro-batches, each case next to what it is compared with."""
    from benchmarks.pipelines import (
        build_engine_stream,
        build_identity_stream,
        make_all_kinds,
        make_sequences,
        measure_batches,
        measure_idle_batches,
    )
    from motet.spark.session import stream_session

    rows, many = setting.pick((50_000, 100_000), (200_000, 1_000_000))
    batches = max(setting.repeats, setting.pick(3, 8))
    files = batches + 2  # the first ones start workers
    hundred, kinds, few = make_sequences(QUERIES), make_all_kinds(QUERIES), parse(FEW)
    session = stream_session("local[2]")
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        full = write_batches(Path(folder) / "full", files, rows, KEYS)
        empty = write_batches(Path(folder) / "empty", files, 1, 1)
        everyone = write_batches(Path(folder) / "everyone", files, many // 100, many // 100)
        some = write_batches(Path(folder) / "some", files, many // 100, many, fill=many)
        pairs = [
            (f"identity, {rows:,} rows, {KEYS:,} keys", measure_batches, full, build_identity_stream(hundred)),
            (f"{QUERIES} queries, the same", measure_batches, full, build_engine_stream(hundred)),
            ("identity, the same with a value", measure_batches, full, build_identity_stream(kinds)),
            (f"{QUERIES} queries of all kinds, the same", measure_batches, full, build_engine_stream(kinds)),
            ("identity, no row", measure_idle_batches, empty, build_identity_stream(hundred)),
            (f"{QUERIES} queries, no row, windows that end", measure_idle_batches, empty, build_engine_stream(hundred)),
            (f"{many // 100:,} keys, all active", measure_batches, everyone, build_engine_stream(few)),
            (f"{many:,} keys, 1 % active", measure_batches, some, build_engine_stream(few)),
        ]
        if setting.size == "paper":
            pairs += [
                ("identity, one row", measure_batches, empty, build_identity_stream(hundred)),
                (f"{QUERIES} queries, one row", measure_batches, empty, build_engine_stream(hundred)),
            ]
        base = Measurement(1.0, 1.0, 1.0)
        for place, (name, read_times, source, pipeline) in enumerate(pairs):
            times = Measurement.of(read_times(session, source, pipeline)[-batches:])
            base = base if place % 2 else times
            found.append({"micro-batch": name, "ms": times, "ratio": times.median / base.median, "ran": pipeline.ran})
    session.stop()
    return found


def write_batches(folder: Path, batches: int, rows: int, keys: int, fill: int = 0) -> str:
    """Write a file for each micro-batch, ten seconds of events each; with `fill`, the first has every key once."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    for batch in range(batches):
        size = fill if fill and not batch else rows
        key = np.arange(size) if fill and not batch else rng.integers(0, keys, size)
        time = np.sort(rng.integers(batch * 10 * SECOND, (batch + 1) * 10 * SECOND, size))
        kinds = np.zeros(size, np.int64) if fill and not batch else rng.integers(0, TYPES, size)
        table = pa.table(
            {
                "time": pa.array(time, pa.timestamp("us", tz="UTC")),
                "type": pa.array([f"t{kind}" for kind in range(TYPES)]).take(pa.array(kinds)),
                "key": pa.array(key),
                "value": pa.array(rng.random(size)),
            }
        )
        file = folder / f"{batch:04}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))
    return str(folder)


EXPERIMENTS = (
    Experiment(
        "streaming",
        OURS,
        "",
        "Structured Streaming, local[2]: 100 queries, 10,000 keys, against identity; empty batches; idle keys",
        Seconds(100, 180),
        measure_micro_batches,
        needs=("pyspark",),
        heavy=True,
    ),
)
