"""Structured Streaming: a hundred queries against the same pipeline with an identity function in the engine's place,
an empty micro-batch, and a million keys of which one in a hundred is active.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from motet.bench.measure import Measured
from motet.bench.registry import OURS, Experiment, Row, Seconds, Setting
from motet.bench.streams import SECOND
from motet.language import parse

QUERIES = 100
KEYS = 10_000
TYPES = 20
FEW = """
QUERY one RETURN COUNT(*) PATTERN SEQ(t0, t1, t2) GROUP BY key WITHIN 1 h SLIDE 1 h

QUERY two RETURN COUNT(*), SUM(t4.value) PATTERN SEQ(t3+, t4) GROUP BY key WITHIN 1 h SLIDE 1 h
"""


def micro_batches(setting: Setting) -> list[Row]:
    """Milliseconds of micro-batches, each case next to what it is compared with."""
    from motet.bench.pipelines import batch_times, idle_times, sequences, streaming_engine, streaming_identity
    from motet.spark.session import stream_session

    rows, many = setting.pick((50_000, 100_000), (200_000, 1_000_000))
    batches = max(setting.repeats, setting.pick(3, 8))
    files = batches + 2  # the first ones start workers
    hundred, few = sequences(QUERIES), parse(FEW)
    session = stream_session("local[2]")
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        full = written(Path(folder) / "full", files, rows, KEYS)
        empty = written(Path(folder) / "empty", files, 1, 1)
        everyone = written(Path(folder) / "everyone", files, many // 100, many // 100)
        some = written(Path(folder) / "some", files, many // 100, many, fill=many)
        pairs = [
            (f"identity, {rows:,} rows, {KEYS:,} keys", batch_times, full, streaming_identity(hundred)),
            (f"{QUERIES} queries, the same", batch_times, full, streaming_engine(hundred)),
            ("identity, no row", idle_times, empty, streaming_identity(hundred)),
            (f"{QUERIES} queries, no row, windows that end", idle_times, empty, streaming_engine(hundred)),
            (f"{many // 100:,} keys, all active", batch_times, everyone, streaming_engine(few)),
            (f"{many:,} keys, 1 % active", batch_times, some, streaming_engine(few)),
        ]
        if setting.size == "paper":
            pairs += [
                ("identity, one row", batch_times, empty, streaming_identity(hundred)),
                (f"{QUERIES} queries, one row", batch_times, empty, streaming_engine(hundred)),
            ]
        base = Measured(1.0, 1.0, 1.0)
        for place, (name, times_of, source, pipeline) in enumerate(pairs):
            times = Measured.of(times_of(session, source, pipeline)[-batches:])
            base = base if place % 2 else times
            found.append({"micro-batch": name, "ms": times, "ratio": times.median / base.median})
    session.stop()
    return found


def written(folder: Path, batches: int, rows: int, keys: int, fill: int = 0) -> str:
    """A file for each micro-batch, ten seconds of events each; with `fill`, the first has every key once."""
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
        Seconds(75, 130),
        micro_batches,
        needs=("pyspark",),
    ),
)
