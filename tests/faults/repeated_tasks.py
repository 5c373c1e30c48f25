"""Run a batch and a stream on a Spark that loses what finished tasks wrote, so that it runs them again.

    python -m tests.faults.repeated_tasks FOLDER

prints the numbers of rows that motet reports, as JSON, and how many tasks Spark ran in all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import motet
from motet.spark.monitor import StreamMonitor
from motet.spark.session import local_session
from tests.event_files import add_event_file
from tests.spark.running import run

QUERY = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 10 s SLIDE 10 s"
ROWS = 400


def make_events(first: int) -> pa.Table:
    """Return rows of which each second is one; every fiftieth has no type."""
    times = range(first, first + ROWS)
    types = [None if time % 50 == 0 else "AB"[time // 7 % 2] for time in times]
    return pa.table({"time": pa.array(times), "type": types, "k": pa.array([time % 7 for time in times])})


def lose_shuffle_once(frame: DataFrame, folder: Path, marker: Path) -> DataFrame:
    """Return rows as they are; the first task that has some removes all that tasks before it wrote for others."""
    place, local = str(marker), str(folder)

    def lose(batches: Any) -> Any:
        for batch in batches:
            if batch.num_rows and not Path(place).exists():
                Path(place).write_text(str(TaskContext.get().partitionId()))  # type: ignore[union-attr]
                for file in Path(local).rglob("shuffle_*"):
                    file.unlink()
            yield batch

    return frame.mapInArrow(lose, frame.schema)


def run_batch(events: DataFrame, folder: Path, name: str) -> dict[str, Any]:
    """Return the metrics of a batch, and how many windows it gave."""
    started = run(events, motet.parse(QUERY), partitions=3)
    results = lose_shuffle_once(started.results, folder / "local", folder / f"lost-{name}").collect()
    return {**started.metrics(), "results": len(results)}


def run_stream(session: SparkSession, folder: Path) -> dict[str, Any]:
    """Return the metrics of a stream of two micro-batches with rows, the second of which gives results."""
    schema = session.read.parquet(str(folder / "events")).schema
    rows = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "events"))
    stream = motet.stream(rows, QUERY, watermark="0 seconds", checkpoint=str(folder / "state"))
    results = lose_shuffle_once(stream.results, folder / "local", folder / "lost-stream")
    writer = results.writeStream.format("noop").option("checkpointLocation", str(folder / "state"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    monitor = StreamMonitor(["q"])
    progress = [json.loads(each.json) for each in query.recentProgress]
    for each in progress:
        monitor.add(each)
    metrics = monitor.metrics
    counted = {"rows": metrics.rows, "set_aside": metrics.set_aside, "late": metrics.late, **metrics.types}
    return {**counted, "results": metrics.results["q"], "spark": sum(each["numInputRows"] for each in progress)}


def main(folder: Path) -> None:
    """Run all, and print what was counted."""
    for name in ("events", "local"):
        (folder / name).mkdir()
    for number in range(2):
        add_event_file(folder / "events", number, make_events(number * ROWS))
    config = {
        "spark.local.dir": str(folder / "local"),
        "spark.sql.adaptive.enabled": "false",
        "spark.stage.maxConsecutiveAttempts": "20",  # what is lost is found out file by file
    }
    session = local_session("local[1,4]", partitions=3, config=config)
    events = session.read.parquet(str(folder / "events"))
    found = {
        "files": run_batch(events, folder, "files"),
        "rows": run_batch(events.repartition(2), folder, "rows"),
        "stream": run_stream(session, folder),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
