"""Structured Streaming: a hundred queries against the same pipeline with an identity function in the engine's place,
an empty micro-batch, and a million keys of which one in a hundred is active.

python -m benchmarks.streaming
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from benchmarks.report import arguments, finish, median
from benchmarks.spark_batch import TYPES, sequences
from benchmarks.streams import SECOND
from motet.language import parse
from motet.model.query import Workload
from motet.spark import stream
from motet.spark.buckets import buckets_for
from motet.spark.processor import OUTPUT, OUTPUT_NAMES
from motet.spark.session import stream_session

WATERMARK = "5 seconds"


class Identity(StatefulProcessor):
    """Takes the packed rows of a bucket, and keeps a count: what any keyed operator costs."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "bytes BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        size = sum(len(blob) for frame in rows for blob in frame["rows"])
        before = self.seen.get()
        self.seen.update((size + (before[0] if before else 0),))
        yield pd.DataFrame([(0, 0, None, 0, 0, 0, size, None)], columns=OUTPUT_NAMES)

    def close(self) -> None:
        pass


def main() -> None:
    """Run and show."""
    options = arguments(__doc__ or "", repeats=8, rows=200_000, keys=10_000, queries=100, many=1_000_000)
    session = stream_session("local[2]")
    hundred, few = sequences(options.queries), parse(FEW)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        full = written(Path(folder) / "full", options.repeats + 3, options.rows, options.keys)
        empty = written(Path(folder) / "empty", options.repeats + 3, 1, 1)
        everyone = written(Path(folder) / "everyone", options.repeats + 3, options.many // 100, options.many // 100)
        many = written(Path(folder) / "many", options.repeats + 3, options.many // 100, options.many, fill=options.many)
        cases: list[tuple[str, str, Callable[[DataFrame], DataFrame]]] = [
            (f"identity, {options.rows:,} rows, {options.keys:,} keys", full, identity(hundred)),
            (f"{options.queries} queries, the same", full, engine(hundred)),
            ("identity, one row", empty, identity(hundred)),
            (f"{options.queries} queries, one row", empty, engine(hundred)),
            ("identity, no row", "", identity(hundred)),
            (f"{options.queries} queries, no row, windows that end", "", engine(hundred)),
            (f"{options.many // 100:,} keys, all active", everyone, engine(few)),
            (f"{options.many:,} keys, 1 % active", many, engine(few)),
        ]
        for name, source, pipeline in cases:
            times = batch_times(session, source, pipeline) if source else idle_times(session, pipeline, options.repeats)
            times = times[-options.repeats :]
            rows.append(
                {"micro-batch": name, "ms": median(times), "least": float(min(times)), "most": float(max(times))}
            )
    session.stop()
    for pair in range(0, len(rows), 2):
        rows[pair]["ratio"], rows[pair + 1]["ratio"] = 1.0, rows[pair + 1]["ms"] / rows[pair]["ms"]
    finish(f"Structured Streaming, local[2], noop sink, medians of {options.repeats} micro-batches", rows, options)


FEW = """
QUERY one RETURN COUNT(*) PATTERN SEQ(t0, t1, t2) GROUP BY key WITHIN 1 h SLIDE 1 h

QUERY two RETURN COUNT(*), SUM(t4.value) PATTERN SEQ(t3+, t4) GROUP BY key WITHIN 1 h SLIDE 1 h
"""


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


def engine(workload: Workload) -> Callable[[DataFrame], DataFrame]:
    return lambda events: stream.run(events, workload, watermark=WATERMARK)


def identity(workload: Workload) -> Callable[[DataFrame], DataFrame]:
    """The rows packed and sent to their buckets as the engine's are."""

    def pipeline(events: DataFrame) -> DataFrame:
        packed = stream.packed_rows(
            events, stream.program_of(events, workload), WATERMARK, buckets_for(events.sparkSession, None)
        )
        return packed.groupBy("bucket").transformWithStateInPandas(Identity(), OUTPUT, "Append", "EventTime")

    return pipeline


def batch_times(session: SparkSession, source: str, pipeline: Callable[[DataFrame], DataFrame]) -> list[float]:
    """Milliseconds of each micro-batch that had rows."""
    schema = session.read.parquet(source).schema
    events = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = pipeline(events).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [json.loads(entry.json) for entry in query.recentProgress]
    return [float(p["durationMs"]["triggerExecution"]) for p in progress if p["numInputRows"]]


def idle_times(session: SparkSession, pipeline: Callable[[DataFrame], DataFrame], repeats: int) -> list[float]:
    """Milliseconds of micro-batches without rows: Spark runs one after each in which the watermark moved."""
    with tempfile.TemporaryDirectory() as folder:
        source, single = Path(folder) / "events", Path(folder) / "single"
        source.mkdir()
        written(single, repeats + 3, 1, 1)
        files = sorted(single.glob("*.parquet"))
        schema = session.read.parquet(str(single)).schema
        writer = pipeline(session.readStream.schema(schema).parquet(str(source))).writeStream.format("noop")
        query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
        for file in files:
            file.rename(source / file.name)
            query.processAllAvailable()
        progress = [json.loads(entry.json) for entry in query.recentProgress]
        query.stop()
    return [
        float(p["durationMs"]["triggerExecution"])
        for p in progress
        if not p["numInputRows"] and "addBatch" in p["durationMs"]
    ]


if __name__ == "__main__":
    main()
