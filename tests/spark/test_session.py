"""The session that motet starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from motet.spark import session


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
