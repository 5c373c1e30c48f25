"""Spark pipelines that experiments compare: the engine's, and the same with an identity function in its place."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from benchmarks.engine import describe_units
from motet.compile import Program
from motet.io.sample import list_sampled_columns
from motet.language import parse
from motet.model.query import Workload
from motet.options import Options
from motet.spark import batch, dataframes, stream
from motet.spark.buckets import choose_buckets
from motet.spark.monitor import StreamMonitor
from motet.spark.processor import OUTPUT, OUTPUT_NAMES
from motet.spark.sample import compile_for, make_sampler
from motet.spark.serialization import CachedPickle, table_from_ipc
from motet.spark.tasks import find_records

TYPES = 20
STREAM_OPTIONS = Options(watermark="5 seconds")


def make_sequences(count: int) -> Workload:
    """Return random sequences of three types, five minutes sliding by five, per key."""
    rng = np.random.default_rng(1)
    texts = []
    for number in range(count):
        pattern = ", ".join(f"t{kind}" for kind in rng.choice(TYPES, 3, replace=False))
        texts.append(f"QUERY q{number}\nRETURN COUNT(*)\nPATTERN {pattern}\nWHERE [key] WITHIN 5 min SLIDE 5 min")
    return parse("\n\n".join(texts))


# A fifth of the queries each: continuous, neighbours, a count window, Kleene, matches. Few events may begin one.
BEGINS = "a.value < 0.05 GROUP BY key"
KINDS = (
    f"COUNT(*) PATTERN {{0}} a, {{1}}, {{2}} WHERE {BEGINS} WITHIN {{window}}",
    f"COUNT(*) PATTERN {{0}} a, {{1}} b+ WHERE b.value < NEXT(b).value AND {BEGINS} WITHIN {{window}} SLIDE {{slide}}",
    f"COUNT(*) PATTERN {{0}} a, {{1}}, {{2}} WHERE {BEGINS} WITHIN 100 EVENTS",
    f"COUNT(*) PATTERN {{0}} a, {{1}}+, {{2}} WHERE {BEGINS} WITHIN {{window}} SLIDE {{slide}}",
    f"* PATTERN {{0}} a, {{1}} b, {{2}} c WHERE a.value < b.value AND b.value > c.value AND {BEGINS} WITHIN {{window}}",
)


def make_all_kinds(count: int, window: str = "1 min", slide: str = "30 s") -> Workload:
    """Return queries over three random types each, per key, of each kind in turn."""
    rng = np.random.default_rng(1)
    texts = []
    for number in range(count):
        types = [f"t{kind}" for kind in rng.choice(TYPES, 3, replace=False)]
        asked = KINDS[number % len(KINDS)].format(*types, window=window, slide=slide)
        texts.append(f"QUERY q{number} RETURN {asked}")
    return parse("\n\n".join(texts))


def write_parquet(table: pa.Table, folder: Path, files: int = 8) -> str:
    """Write the table as some parquet files."""
    folder.mkdir()
    size = -(-len(table) // files)
    for at in range(files):
        pq.write_table(table.slice(at * size, size), folder / f"{at}.parquet")
    return str(folder)


def consume(frame: DataFrame) -> None:
    """Compute all of it and throw it away."""
    frame.write.format("noop").mode("overwrite").save()


def run_identity(events: DataFrame) -> DataFrame:
    """Partition the rows as the engine does, through Python and back."""
    chosen = events.select("time", "type", "key")
    partitions = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 4)
    return chosen.repartition(partitions, "key").mapInArrow(lambda batches: batches, chosen.schema)


def make_job(events: DataFrame, workload: Workload) -> batch.BatchJob:
    """Compile a workload by a sample of a DataFrame's rows, to run it over them as `motet.run` does."""
    schema = dataframes.get_event_schema(events, Options())
    sampler = make_sampler(events, list_sampled_columns(workload, schema), schema)
    program = compile_for(events, workload, Options(), sampler)
    return batch.BatchJob(events, CachedPickle(program), None, cut_hot_keys=True, sampler=sampler)


def run_packed_identity(events: DataFrame, workload: Workload) -> DataFrame:
    """Prepare the rows as the engine does, hot keys looked for and rows packed, with an identity in its place."""
    job = make_job(events, workload)
    packed, plan = job.shuffle(job.program.branches[0], None)

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for blobs in batches:
            for blob in blobs.column("rows"):
                yield from table_from_ipc(blob.as_buffer()).to_batches()

    return packed.mapInArrow(unpack, dataframes.to_spark_schema(plan.blob_schema))


def filter_rows(events: DataFrame) -> DataFrame:
    """Return all rows, but through a filter, which tasks apply to files themselves."""
    return events.filter("key >= 0")


def compute_rows(events: DataFrame) -> DataFrame:
    """Return all rows, but through a filter that only Spark can compute."""
    return events.filter("pmod(key, 2) < 2")


def join_rows(events: DataFrame) -> DataFrame:
    """Return all rows, but joined with a small table."""
    kinds = events.sparkSession.range(TYPES).selectExpr("concat('t', id) AS type", "id AS kind")
    return events.join(sf.broadcast(kinds), "type")


def run_engine(events: DataFrame, workload: Workload) -> DataFrame:
    """Run the workload with motet."""
    return batch.compile_and_run(events, workload, Options()).results


def describe_batch(results: DataFrame) -> str:
    """Say what tasks executed for results once an action is done: units of motet's program, or an identity."""
    run = getattr(results, "motet", None)  # a column of that name, on Connect, where there is no run
    return (
        "identity"
        if not isinstance(run, batch.SparkRun)
        else describe_units([each.describe() for each in run.executed()])
    )


class Identity(StatefulProcessor):
    """Takes the packed rows of a bucket, and keeps a count: what any keyed operator costs."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "bytes BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        size = sum(len(blob) for frame in rows for blob in frame["rows"])
        before = self.seen.get()
        self.seen.update((size + (before[0] if before else 0),))
        yield pd.DataFrame([(0, 0, None, 0, 0, 0, size, None, None)], columns=OUTPUT_NAMES)

    def close(self) -> None:
        pass


@dataclass
class Pipeline:
    """A pipeline of a workload: `build` makes results of events and a program; `ran` is what was executed."""

    workload: Workload
    build: Callable[[DataFrame, Program], DataFrame]
    is_identity: bool = False
    ran: str = "identity"
    program: Program | None = None

    def __call__(self, events: DataFrame) -> DataFrame:
        self.program = stream.compile_stream(events, self.workload, STREAM_OPTIONS)
        return self.build(events, self.program)

    def read_progress(self, query: StreamingQuery) -> list[dict[str, Any]]:
        """Return the progress of each micro-batch; note what workers said they executed."""
        progress = [json.loads(entry.json) for entry in query.recentProgress]
        if self.program is not None and not self.is_identity:
            monitor = StreamMonitor([query.name for query in self.program.workload.queries])
            for each in progress:
                monitor.add(each)
            self.ran = describe_units([each.describe() for each in find_records(self.program, monitor.list_executed())])
        return progress


def build_engine_stream(workload: Workload) -> Pipeline:
    return Pipeline(workload, lambda events, program: stream.run(events, program).results)


def build_identity_stream(workload: Workload) -> Pipeline:
    """Pack the rows and send them to their buckets as the engine does."""

    def build(events: DataFrame, program: Program) -> DataFrame:
        packed = stream.pack_stream(events, program, choose_buckets(events.sparkSession, None))
        return packed.groupBy("bucket").transformWithStateInPandas(Identity(), OUTPUT, "Append", "EventTime")

    return Pipeline(workload, build, is_identity=True)


def measure_batches(session: SparkSession, source: str, pipeline: Pipeline) -> list[float]:
    """Measure milliseconds of each micro-batch that had rows."""
    schema = session.read.parquet(source).schema
    events = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = pipeline(events).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = pipeline.read_progress(query)
    return [float(p["durationMs"]["triggerExecution"]) for p in progress if p["numInputRows"]]


def measure_idle_batches(session: SparkSession, files: str, pipeline: Pipeline) -> list[float]:
    """Measure milliseconds of micro-batches without rows: Spark runs one after each in which the watermark moved."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "events"
        source.mkdir()
        schema = session.read.parquet(files).schema
        writer = pipeline(session.readStream.schema(schema).parquet(str(source))).writeStream.format("noop")
        query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
        for file in sorted(Path(files).glob("*.parquet")):
            (source / file.name).write_bytes(file.read_bytes())
            query.processAllAvailable()
        progress = pipeline.read_progress(query)
        query.stop()
    ran = [p for p in progress if not p["numInputRows"] and "addBatch" in p["durationMs"]]
    return [float(p["durationMs"]["triggerExecution"]) for p in ran]
