"""Spark pipelines that experiments compare: the engine's, and the same with an identity function in its place."""

from __future__ import annotations

import json
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

from motet.engine import EventSchema, compile_workload
from motet.language import parse
from motet.model.query import Workload
from motet.spark import batch, stream, tables
from motet.spark.blobs import from_blob
from motet.spark.buckets import buckets_for
from motet.spark.processor import OUTPUT, OUTPUT_NAMES

TYPES = 20
WATERMARK = "5 seconds"


def sequences(count: int) -> Workload:
    """Random sequences of three types, five minutes sliding by five, per key."""
    rng = np.random.default_rng(1)
    texts = []
    for number in range(count):
        pattern = ", ".join(f"t{kind}" for kind in rng.choice(TYPES, 3, replace=False))
        texts.append(f"QUERY q{number}\nRETURN COUNT(*)\nPATTERN {pattern}\nWHERE [key] WITHIN 5 min SLIDE 5 min")
    return parse("\n\n".join(texts))


def written(table: pa.Table, folder: Path, files: int = 8) -> str:
    """The table as some parquet files."""
    folder.mkdir()
    size = -(-len(table) // files)
    for at in range(files):
        pq.write_table(table.slice(at * size, size), folder / f"{at}.parquet")
    return str(folder)


def consumed(frame: DataFrame) -> None:
    """Have all of it computed and thrown away."""
    frame.write.format("noop").mode("overwrite").save()


def identity(events: DataFrame) -> DataFrame:
    """The rows partitioned as the engine's are, through Python and back."""
    chosen = events.select("time", "type", "key")
    partitions = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 4)
    return chosen.repartition(partitions, "key").mapInArrow(lambda batches: batches, chosen.schema)


def own_way(events: DataFrame, workload: Workload) -> DataFrame:
    """The rows the way the engine gets them, hot keys looked for and rows packed, with an identity in its place."""
    schema = EventSchema(tables.arrow_schema(events), "time", "type")
    branch = compile_workload(workload, schema).branches[0]
    packed, spread = batch.spread_over_tasks(events, branch, schema, None, True, None)

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for blobs in batches:
            for blob in blobs.column("rows"):
                yield from from_blob(blob.as_buffer()).to_batches()

    return packed.mapInArrow(unpack, tables.spark_schema(spread.packed))


def rows_of(events: DataFrame) -> DataFrame:
    """All of them, but through a filter: rows that only Spark can give."""
    return events.filter("key >= 0")


def engine(events: DataFrame, workload: Workload) -> DataFrame:
    """What motet does."""
    return batch.run(events, workload).result


class Identity(StatefulProcessor):
    """Takes the packed rows of a bucket, and keeps a count: what any keyed operator costs."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "bytes BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        size = sum(len(blob) for frame in rows for blob in frame["rows"])
        before = self.seen.get()
        self.seen.update((size + (before[0] if before else 0),))
        yield pd.DataFrame([(0, 0, None, 0, 0, 0, size, None)], columns=OUTPUT_NAMES)

    def close(self) -> None:
        pass


Pipeline = Callable[[DataFrame], DataFrame]


def streaming_engine(workload: Workload) -> Pipeline:
    return lambda events: stream.run(events, workload, watermark=WATERMARK)


def streaming_identity(workload: Workload) -> Pipeline:
    """The rows packed and sent to their buckets as the engine's are."""

    def pipeline(events: DataFrame) -> DataFrame:
        buckets = buckets_for(events.sparkSession, None)
        packed = stream.packed_rows(events, stream.program_of(events, workload), WATERMARK, buckets)
        return packed.groupBy("bucket").transformWithStateInPandas(Identity(), OUTPUT, "Append", "EventTime")

    return pipeline


def batch_times(session: SparkSession, source: str, pipeline: Pipeline) -> list[float]:
    """Milliseconds of each micro-batch that had rows."""
    schema = session.read.parquet(source).schema
    events = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = pipeline(events).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [json.loads(entry.json) for entry in query.recentProgress]
    return [float(p["durationMs"]["triggerExecution"]) for p in progress if p["numInputRows"]]


def idle_times(session: SparkSession, files: str, pipeline: Pipeline) -> list[float]:
    """Milliseconds of micro-batches without rows: Spark runs one after each in which the watermark moved."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "events"
        source.mkdir()
        schema = session.read.parquet(files).schema
        writer = pipeline(session.readStream.schema(schema).parquet(str(source))).writeStream.format("noop")
        query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
        for file in sorted(Path(files).glob("*.parquet")):
            (source / file.name).write_bytes(file.read_bytes())
            query.processAllAvailable()
        progress = [json.loads(entry.json) for entry in query.recentProgress]
        query.stop()
    ran = [p for p in progress if not p["numInputRows"] and "addBatch" in p["durationMs"]]
    return [float(p["durationMs"]["triggerExecution"]) for p in ran]
