"""Spark plans by a sample, and by the same as runs in process where that is the whole."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import motet
from motet.compile import Program
from motet.model.query import Workload
from motet.spark import sample
from motet.spark.dataframes import get_event_schema
from motet.spark.sample import compile_for, make_sampler
from motet.statistics.model import Statistics

pytestmark = pytest.mark.spark

Change = Callable[[DataFrame, DataFrame], DataFrame]  # takes rows and a small table

QUERIES = """
QUERY one RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 10 s SLIDE 5 s
QUERY two RETURN COUNT(*) PATTERN SEQ(A a, C) WHERE a.x > 0.9 GROUP BY k WITHIN 10 s SLIDE 5 s
QUERY found RETURN * PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x AND b.x < c.x WITHIN 2 s
"""


def make_events(count: int) -> pa.Table:
    dice = np.random.default_rng(3)
    types = np.array(["A", "B", "C"])[dice.choice(3, count, p=[0.6, 0.3, 0.1])]
    times = np.sort(dice.integers(0, count * 1000, count))
    columns = {"time": times, "type": types, "k": dice.integers(0, 50, count), "x": dice.random(count)}
    return pa.table(columns)


def describe(program: Program) -> tuple[object, ...]:
    units = [
        (branch.chosen, unit.strategy, unit.width, [query.number for query in unit.queries])
        for branch in program.branches
        for unit in branch.units
    ]
    return units, [branch.trees and branch.trees.trees for branch in program.detect]


def test_small_data_is_planned_as_in_process(spark: SparkSession, tmp_path: Path) -> None:
    events = make_events(3_000)
    pq.write_table(events, tmp_path / "events.parquet")
    workload = motet.parse(QUERIES)
    options = motet.Options(time_unit="us")
    here = motet.plan(events, workload, options).program
    read = spark.read.parquet(str(tmp_path))
    for rows in (spark.createDataFrame(events), read, read.filter(sf.col("x") >= 0)):
        there = compile_for(rows, workload, options)
        assert there.options.statistics == here.options.statistics
        assert describe(there) == describe(here)
        assert describe(motet.plan(rows, workload, options).program) == describe(here)
        assert describe(motet.run(rows, workload, options).motet.program) == describe(here)


def test_large_data_is_planned_by_few_rows(spark: SparkSession, tmp_path: Path) -> None:
    events = make_events(200_000)
    pq.write_table(events, tmp_path / "events.parquet", row_group_size=20_000)
    workload = motet.parse(QUERIES)
    options = motet.Options(time_unit="us")
    exact = motet.profile(events, workload, time_unit="us")
    read = spark.read.parquet(str(tmp_path))
    for rows in (read, read.filter(sf.col("x") >= 0)):
        found = compile_for(rows, workload, options).options.statistics
        assert found is not None
        assert 10_000 < found.sampled <= 20_000
        for symbol in ("A", "B", "A[x > 0.9]"):
            assert found.rates[symbol] == pytest.approx(exact.rates[symbol], rel=0.15), symbol
        for width in (50_000, 1_000_000):
            assert found.cells_per_second(["k"], width) == pytest.approx(exact.cells_per_second(["k"], width), rel=0.15)


def test_one_job_brings_the_first_rows_of_every_partition_for_all_who_need_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    sizes, taken = (30_000, 15_000, 15_000), (20_001, 10_001, 6_667)
    for at, size in enumerate(sizes):
        pq.write_table(make_events(size), tmp_path / f"{at}.parquet")
    events = reduce(DataFrame.union, [spark.read.parquet(str(tmp_path / f"{at}.parquet")) for at in range(len(sizes))])
    first = make_sampler(events, ["time", "type", "k"], get_event_schema(events, motet.Options())).first_rows
    assert np.bincount(first.partitions).tolist() == [*taken]
    assert (first.cut.tolist(), first.like_rest) == ([0, 1, 2], True)
    assert len(first.take_evenly()) == 3 * 6_666
    expected = pa.concat_tables([make_events(size).slice(0, rows) for size, rows in zip(sizes, taken, strict=True)])
    assert first.rows.equals(expected.select(["time", "type", "k"]))

    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "8")  # with three tasks no hot keys are looked for
    spark.sparkContext.setJobGroup("first rows", "one job")
    motet.run(events, QUERIES, time_unit="us")
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    spark.conf.set("spark.sql.shuffle.partitions", before or "")
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("first rows")) == 1


def test_first_rows_are_all_where_no_partition_has_more(spark: SparkSession) -> None:
    events = spark.createDataFrame(make_events(9_000)).repartition(3)
    first = make_sampler(events, ["time", "k"], get_event_schema(events, motet.Options())).first_rows
    assert (len(first.rows), len(first.cut), first.like_rest) == (9_000, 0, False)
    assert first.take_evenly() == first.rows


@pytest.mark.parametrize(
    "change",
    [
        lambda rows, small: rows.filter("pmod(k, 2) < 2"),
        lambda rows, small: rows.join(small, "type").filter("hash(type) != 0"),
        lambda rows, small: small.join(rows, "type", "right").withColumn("y", sf.hash("k")),
        lambda rows, small: rows.join(sf.broadcast(small.union(small).distinct()), "type", "left_semi"),
    ],
)
def test_a_short_run_is_planned_by_the_files_that_rows_come_from(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    events = make_events(60_000)
    pq.write_table(events, tmp_path / "events.parquet", row_group_size=20_000)
    small = spark.range(3).selectExpr("char(65 + id) AS type")
    rows = change(spark.read.parquet(str(tmp_path)), small)
    workload, options = motet.parse(QUERIES), motet.Options(time_unit="us")
    found, jobs = compile_and_count_jobs(rows, workload, options)
    exact = motet.profile(events, workload, time_unit="us")
    assert (found.sampled < 25_000, jobs) == (True, 0)
    for symbol in ("A", "B", "A[x > 0.9]"):
        assert found.rates[symbol] == pytest.approx(exact.rates[symbol], rel=0.15), symbol

    monkeypatch.setattr(sample, "FILES_TELL_BELOW", 0)
    assert compile_and_count_jobs(rows, workload, options)[1] > 0


@pytest.mark.parametrize(
    "change",
    [
        lambda rows, small: rows.withColumn("k", sf.hash("k")),
        lambda rows, small: rows.join(small.withColumnRenamed("type", "kind"), rows.type == sf.col("kind")).select(
            "time", sf.col("kind").alias("type"), "k", "x"
        ),
        lambda rows, small: rows.join(rows.select("time", "k"), ["time", "k"]),
        lambda rows, small: rows.union(rows),
    ],
)
def test_columns_that_files_do_not_have_are_sampled_by_spark(
    spark: SparkSession, tmp_path: Path, change: Change
) -> None:
    pq.write_table(make_events(30_000), tmp_path / "events.parquet")
    small = spark.range(3).selectExpr("char(65 + id) AS type")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1000")
    rows = change(spark.read.parquet(str(tmp_path)), small)
    assert compile_and_count_jobs(rows, motet.parse(QUERIES), motet.Options(time_unit="us"))[1] > 0
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def compile_and_count_jobs(rows: DataFrame, workload: Workload, options: motet.Options) -> tuple[Statistics, int]:
    """Return the statistics that a workload is planned by, and how many jobs of Spark's brought them."""
    context, group = rows.sparkSession.sparkContext, uuid.uuid4().hex
    context.setJobGroup(group, "what plans are made by")
    found = compile_for(rows, workload, options).options.statistics
    context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert found is not None
    return found, len(context.statusTracker().getJobIdsForGroup(group))
