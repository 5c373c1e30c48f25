"""A look into parquet files rules hot keys out, and never more than that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import motet
from motet.language import parse
from motet.spark import batch
from motet.spark.dataframes import get_arrow_schema
from motet.spark.parquet import find_scan
from motet.spark.skew import TaskLayout, estimate_key_skew, plan_even_layout
from tests.comparison import assert_same_results
from tests.spark.running import run

pytestmark = pytest.mark.spark
ROWS = 40_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files; of type A, one row in four, half have the key 7, of others none more than any other."""
    place = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 4, ROWS)
    key = np.where((kind == 0) & (rng.random(ROWS) < 0.5), 7, rng.integers(0, 100, ROWS))
    table = pa.table(
        {
            "time": pa.array(np.arange(ROWS), pa.timestamp("us")),
            "type": pa.array(["A", "B", "C", "D"]).take(pa.array(kind)),
            "key": pa.array(key),
            "other": pa.array(key),
        }
    )
    for part in range(4):
        pq.write_table(table.slice(part * ROWS // 4, ROWS // 4), place / f"{part}.parquet", row_group_size=2_000)
    return place


def seen(events: DataFrame, types: frozenset[str] | None, key: str = "key") -> tuple[float, float] | None:
    read = events.select(key, "type")
    scan = find_scan(read, get_arrow_schema(read))
    found = scan and estimate_key_skew(scan, (key,), "type", types)
    return found and (found.rows, found.largest)


def test_rows_and_the_largest_share_are_those_of_the_types_that_take_part(spark: SparkSession, folder: Path) -> None:
    events = spark.read.parquet(str(folder)).select("key", "type", "time")
    everything, hot, even = (seen(events, types) for types in (None, frozenset("A"), frozenset("BC")))
    assert everything == pytest.approx((ROWS, 0.13), rel=0.1)
    assert hot == pytest.approx((ROWS / 4, 0.5), rel=0.1)
    assert even == pytest.approx((ROWS / 2, 0.012), rel=0.3)


@pytest.mark.parametrize(
    "changed",
    [
        lambda events: events.withColumn("key", sf.pmod("key", sf.lit(2))),
        lambda events: events.limit(100),
        lambda events: events.union(events),
        lambda events: events.select(sf.col("key").cast("string"), "type", "time"),
    ],
)
def test_nothing_is_said_of_rows_that_only_spark_can_compute(
    spark: SparkSession, folder: Path, changed: Callable[[DataFrame], DataFrame]
) -> None:
    assert seen(changed(spark.read.parquet(str(folder))), None) is None


def test_filters_and_other_names_are_seen_through(spark: SparkSession, folder: Path) -> None:
    events = spark.read.parquet(str(folder))
    assert seen(events.filter("key = 7"), None) == pytest.approx((ROWS * 0.13, 1.0), rel=0.1)
    assert seen(events.selectExpr("other AS key", "type", "time"), None) == pytest.approx((ROWS, 0.13), rel=0.1)


@pytest.mark.parametrize(("types", "is_computed_twice"), [("B, C", False), ("A x, A y", True)])
def test_rows_that_only_spark_can_compute_are_computed_once_where_no_key_seems_hot(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, types: str, is_computed_twice: bool
) -> None:
    sampled: list[DataFrame] = []
    monkeypatch.setattr(batch, "_sample_all", lambda rows, read=batch._sample_all: sampled.append(rows) or read(rows))
    frame = spark.read.parquet(str(folder)).filter("pmod(key, 7) >= 0")
    text = f"RETURN COUNT(*) PATTERN SEQ({types}) GROUP BY key WITHIN 1 ms SLIDE 1 ms"
    found = run(frame, parse(text), partitions=6).results.toArrow()
    assert bool(sampled) == is_computed_twice
    expected = motet.run(frame.toArrow(), text)
    assert_same_results(found.cast(expected.schema), expected)


def test_nothing_is_said_of_columns_that_folders_name(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "region=1"
    part.mkdir()
    (part / "0.parquet").write_bytes((folder / "0.parquet").read_bytes())
    assert seen(spark.read.parquet(str(tmp_path)), None, key="region") is None
    assert seen(spark.read.parquet(str(tmp_path)), None) is not None


def test_a_share_that_may_be_hot_is_left_to_a_sample() -> None:
    assert plan_even_layout(1_000_000, 0.1, 200, 10) == TaskLayout(10)
    assert plan_even_layout(1_000_000, 0.2, 200, 10) is None
    assert plan_even_layout(1_000_000, 1.0, 200, 2) == TaskLayout(2), "with few tasks no key is cut"


def test_a_task_has_no_more_rows_than_a_worker_can_hold() -> None:
    assert plan_even_layout(300_000_000, 0.0, 4, None) == TaskLayout(60)
    assert plan_even_layout(300_000_000, 0.0, 4, 8) == TaskLayout(8), "a number that was asked for is taken"
