"""The session that motet starts."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import motet
from motet.spark import session
from tests.spark.test_stream import Folder, random_events


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("local-cluster[2,3,1024]", 6)]
)
def test_the_cores_of_a_local_master(master: str, cores: int) -> None:
    assert session._count_cores(master, {}) == cores


@pytest.mark.spark
def test_workers_run_this_interpreter_with_motet_loaded_and_frozen(spark: SparkSession) -> None:
    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc
        import sys

        for _ in batches:
            loaded = "numba" in sys.modules and "motet.engine" in sys.modules
            yield pa.record_batch([[sys.executable], [loaded], [gc.get_freeze_count()]], ["python", "loaded", "frozen"])

    (row,) = spark.range(1).coalesce(1).mapInArrow(report, "python string, loaded boolean, frozen long").collect()
    assert row.python == sys.executable
    assert row.loaded
    assert row.frozen > 10_000


@pytest.mark.spark
def test_a_running_session_is_taken_as_it_is(spark: SparkSession) -> None:
    assert session.local_session("local[1]") is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.spark
def test_stopped_streams_leave_no_thread_that_holds_their_session(tmp_path: Path, spark: SparkSession) -> None:
    def count_monitors() -> int:
        threads = spark._jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
        named = [thread for thread in threads if thread.getName().startswith(session.IDLE_MONITOR)]
        return sum(not getattr(thread, session.FACTORY)().useDaemonEnabled() for thread in named)

    session.release_stopped_streams(spark)
    folder = Folder(tmp_path / "events", spark)
    folder.add(random_events(10, 0))
    query = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 20 s SLIDE 20 s"
    stream = motet.stream(folder.stream(), query, watermark="0 seconds")
    writer = stream.results.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "state"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert count_monitors() > 0, "Spark ends them: release_stopped_streams is needed no more"
    session.release_stopped_streams(spark)
    until = time.monotonic() + 60
    while count_monitors() and time.monotonic() < until:
        time.sleep(0.1)
    assert count_monitors() == 0
