"""What runs as the driver of a cluster: `python -m tests.cluster.jobs API MASTER ARCHIVE` starts a session, and runs
the jobs that it reads, `JOB FOLDER` a line, until there are no more. Starting a session takes longer than a job.

Each job prints what the test looks at, and `done`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import motet
from motet.spark import batch, skew
from motet.spark.session import local_session, stream_session
from tests.event_files import add_event_file

QUERIES = """
QUERY sliding RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 20 s SLIDE 10 s
QUERY combined RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 12 s SLIDE 4 s
QUERY matches RETURN a, c PATTERN SEQ(A a, C c) WHERE a.x < c.x AND c.x < a.x + 0.2 GROUP BY k WITHIN 2 s
"""
SETTINGS = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.pyspark.python": "./environment/bin/python",
    "spark.task.maxFailures": "8",
}


def make_events(rows: int, *, hot: float = 0.0) -> pa.Table:
    """Return random events of 50 keys; one key has a share of them all where it is `hot`."""
    rng = np.random.default_rng(11)
    keys = np.where(rng.random(rows) < hot, 0, rng.integers(0, 50, rows))
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(0, rows // 20, rows))),
            "type": pa.array(rng.choice(list("ABC"), rows)),
            "k": pa.array(keys),
            "x": pa.array(rng.integers(0, 64, rows) / 64),
        }
    )


def make_end(events: pa.Table) -> pa.Table:
    """Return a row that ends all windows of a stream of events."""
    return pa.table({"time": [10**6], "type": ["Z"], "k": [0], "x": [0.0]}, schema=events.schema)


def write_events(events: pa.Table, folder: Path, files: int = 8) -> None:
    """Write events as files, one after the other in time."""
    folder.mkdir()
    size = -(-len(events) // files)
    for at in range(files):
        add_event_file(folder, at, events.slice(at * size, size))


def open_session(api: str, master: str, archive: str) -> Any:
    """Start a session whose workers have what the archive holds; on Connect it is an artifact of the session."""
    if api != "connect":
        return stream_session(master, config=SETTINGS | {"spark.archives": f"{archive}#environment"})
    settings = {name: value for name, value in SETTINGS.items() if name != "spark.pyspark.python"}
    session = local_session(master, config=settings | {"spark.api.mode": "connect"})
    session.addArtifact(f"{archive}#environment", archive=True)
    session.conf.set("spark.sql.execution.pyspark.python", "./environment/bin/python")
    return session


def run_batch(spark: Any, folder: Path) -> None:
    """Run over files, and through a filter that only Spark computes; say where workers found motet, and how many slices
    of keys there were.
    """
    slices: list[int] = []

    def plan_layout(*arguments: Any) -> skew.TaskLayout:
        layout = skew.plan_layout(*arguments)
        slices.append(len(layout.slices))
        return layout

    def locate(batches: Any) -> Any:
        import motet.spark

        for _ in batches:
            yield pa.record_batch({"file": [motet.spark.__file__]})

    events = spark.read.parquet(str(folder / "events"))
    print(json.dumps(sorted({row.file for row in events.mapInArrow(locate, "file string").collect()})))
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    few_rows = mock.patch.object(skew, "ROWS_PER_TASK", 500)
    with few_rows, mock.patch.multiple(batch, SAMPLE_FRACTION=1.0, plan_layout=plan_layout):
        for name, frame in (("files", events), ("rows", events.filter("pmod(k, 50) >= 0"))):
            slices.clear()
            found = motet.run(frame, QUERIES)
            pq.write_table(found.toArrow(), folder / f"{name}.parquet")
            print(json.dumps(found.motet.metrics() | {"slices": sum(slices)}))
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


def wait_for(signal: Path, until: Callable[[], bool]) -> None:
    """Tell the test that it is time, once a condition holds."""

    def watch() -> None:
        while not until():
            time.sleep(0.02)
        signal.touch()

    threading.Thread(target=watch, daemon=True).start()


def run_through_a_kill(spark: Any, folder: Path) -> None:
    """Run a batch whose tasks take a while; the test kills an executor when the first of them is done."""
    events = spark.read.parquet(str(folder / "events"))

    def delay(batches: Any) -> Any:
        time.sleep(1.0)
        yield from batches

    slowed = events.repartition(6).mapInArrow(delay, events.schema)
    tracker = spark.sparkContext.statusTracker()

    def has_progress() -> bool:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(stage and stage.numTasks == 6 and stage.numCompletedTasks >= 2 for stage in stages)

    wait_for(folder / "kill", has_progress)
    pq.write_table(motet.run(slowed, QUERIES, statistics=None).toArrow(), folder / "killed.parquet")


def run_stream(spark: Any, folder: Path) -> None:
    """Run a stream of a file a micro-batch; the test kills a worker after the second."""
    reader = spark.readStream.schema(spark.read.parquet(str(folder / "events")).schema)
    events = reader.option("maxFilesPerTrigger", 1).parquet(str(folder / "events"))
    checkpoint = str(folder / "state")
    stream = motet.stream(events, QUERIES, watermark="5 seconds", checkpoint=checkpoint)
    writer = stream.results.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    query = writer.option("path", str(folder / "results")).trigger(availableNow=True).start()
    wait_for(folder / "kill", lambda: len(query.recentProgress) >= 2)
    query.awaitTermination()
    pq.write_table(spark.read.parquet(str(folder / "results")).toArrow(), folder / "stream.parquet")


JOBS = {"batch": run_batch, "kill": run_through_a_kill, "stream": run_stream}

if __name__ == "__main__":
    session = open_session(*sys.argv[1:])
    for line in sys.stdin:
        job, place = line.split()
        JOBS[job](session, Path(place))
        print("done", flush=True)
    session.stop()
