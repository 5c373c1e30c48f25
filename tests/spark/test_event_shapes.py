"""Events of other shapes on Spark: attributes in structs, types that are no texts, no types, times that are floats."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import motet
from motet.errors import DataError

pytestmark = pytest.mark.spark

EVENTS = pa.table(
    {
        "time": [1, 2, 3, 4, 30],
        "code": [10, 20, 10, 20, 10],
        "user": [{"name": "ann"}, {"name": "ann"}, {"name": "bob"}, {"name": "ann"}, None],
    }
)
QUERY = "RETURN user.name, COUNT(*) PATTERN SEQ(`10`, `20`) GROUP BY user.name WITHIN 10 s SLIDE 10 s"
FOUND = [{"user.name": "ann", "COUNT(*)": 2}]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return spark


def test_a_stream_reads_fields_of_structs_and_types_that_are_numbers(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(EVENTS, tmp_path / "in" / "a.parquet")
    events = session.readStream.schema(session.createDataFrame(EVENTS).schema).parquet(str(tmp_path / "in"))
    results = motet.stream(events, QUERY, watermark="0 seconds", type="code").results
    writer = results.writeStream.format("memory").queryName("shapes").outputMode("append")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert [row.asDict() for row in session.table("shapes").select("`user.name`", "`COUNT(*)`").collect()] == FOUND


def test_files_are_read_with_fields_and_types_as_in_process(session: SparkSession, tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "a.parquet")
    for engine in ("local", "spark"):
        found: Any = motet.run(str(tmp_path / "a.parquet"), QUERY, engine=engine, type="code")  # type: ignore[call-overload]
        table = found if engine == "local" else found.toArrow()
        assert table.select(["user.name", "COUNT(*)"]).to_pylist() == FOUND


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_floating_times_are_read_as_in_process(session: SparkSession, unit: Any) -> None:
    per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
    seconds = [1_700_000_000.25, 1_700_000_001.5, None, float("nan"), 1e300]
    events = pa.table(
        {
            "time": pa.array([None if at is None else at * per_second for at in seconds], pa.float64()),
            "type": ["A", "B", "B", "B", "B"],
        }
    )
    query = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s"
    found = motet.run(session.createDataFrame(events), query, time_unit=unit).toArrow()
    assert found.equals(motet.run(events, query, time_unit=unit))
    assert found["time"].to_pylist() == [dt.datetime(2023, 11, 14, 22, 13, 21, 500_000)]


@pytest.mark.parametrize("type", [pa.int64(), pa.float64()])
def test_times_of_another_unit_are_told(session: SparkSession, type: pa.DataType) -> None:
    events = pa.table({"time": pa.array([1_700_000_000_000, 1_700_000_001_000], type), "type": ["A", "B"]})
    with pytest.raises(DataError, match="--time-unit ms"):
        motet.run(session.createDataFrame(events), "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s")
