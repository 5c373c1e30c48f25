"""Hot keys are found, cut by time, and laid out evenly."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from motet.spark import skew
from motet.spark.skew import SLICE, BigKey, Layout, Slice, arrange, find_layout

TIMES = st.integers(-(10**6), 10**6)


@given(st.lists(TIMES, min_size=1, max_size=30).map(sorted), st.integers(1, 8), st.integers(0, 10**5))
def test_slices_follow_each_other_and_are_long_beside_their_halo(times: list[int], parts: int, halo: int) -> None:
    slices = skew._slices(BigKey(0, 100, np.array(times)), 100 / parts, halo)
    bounds = [piece.bounds for piece in slices]
    assert len(slices) <= parts + 1
    assert bounds[0][0] is None
    assert bounds[-1][1] is None
    for (start, end), (next_start, _) in pairwise(bounds):
        assert end == next_start
        assert end is not None
        assert end - (times[0] if start is None else start) >= 2 * halo


@pytest.mark.parametrize(("last", "halo", "slices"), [(100, 60, 1), (1000, 100, 5), (10**6, 100, 10), (1000, 0, 10)])
def test_a_key_is_cut_less_where_slices_would_be_short(last: int, halo: int, slices: int) -> None:
    times = [last * step // 40 for step in range(41)]
    assert len(skew._slices(BigKey(0, 1000, np.array(times)), 100, halo)) == slices


@given(st.lists(st.integers(1, 100), min_size=1, max_size=20), st.integers(2, 6))
def test_no_task_has_more_than_a_slice_above_another(sizes: list[int], tasks: int) -> None:
    slices = [Slice(place, (None, None), rows) for place, rows in enumerate(sizes)]
    loads = dict.fromkeys(range(tasks), 0.0)
    for piece in skew._assign(slices, 10.0, tasks):
        loads[piece.task] += piece.rows
    assert max(loads.values()) - min(loads.values()) <= max(sizes)


def events_with_a_hot_key(spark: SparkSession) -> DataFrame:
    dice = random.Random(3)
    rows = [(dice.randrange(100_000), "hot" if dice.random() < 0.7 else f"k{dice.randrange(40)}") for _ in range(4000)]
    return spark.createDataFrame(rows, "t long, k string")


@pytest.mark.spark
def test_a_hot_key_is_spread_over_the_tasks_and_others_stay_whole(spark: SparkSession) -> None:
    events, time, halo, tasks = events_with_a_hot_key(spark), sf.col("t"), 1000, 6
    layout = find_layout(events, 1.0, ("k",), time, halo, tasks)
    assert len(layout.bounds) == 5
    placed = arrange(events, ("k",), time, layout).withColumn("task", sf.spark_partition_id()).collect()
    loads = Counter(row.task for row in placed)
    assert set(loads) == set(range(tasks))
    assert max(loads.values()) < 1.5 * len(placed) / tasks
    cold = {(row.k, row.task) for row in placed if row.k != "hot"}
    assert len(cold) == len({key for key, _ in cold})
    assert {row[SLICE] for row in placed if row.k != "hot"} == {skew.WHOLE}
    hot = sorted(row.t for row in events.collect() if row.k == "hot")
    for number, (start, end) in layout.bounds.items():
        lower = -1 if start is None else start - halo
        wanted = [time for time in hot if lower <= time and (end is None or time < end)]
        assert sorted(row.t for row in placed if row[SLICE] == number) == wanted


@pytest.mark.spark
def test_rows_without_a_partition_are_one_hot_key(spark: SparkSession) -> None:
    events, time = events_with_a_hot_key(spark), sf.col("t")
    layout = find_layout(events, 1.0, (), time, 500, 4)
    assert len(layout.bounds) == 4
    placed = arrange(events, (), time, layout).withColumn("task", sf.spark_partition_id())
    assert placed.select("task").distinct().count() == 4


@pytest.mark.spark
def test_a_sample_shows_a_hot_key_and_where_its_rows_are(spark: SparkSession) -> None:
    key = sf.when(sf.col("id") % 10 < 8, -1).otherwise(sf.col("id") % 997)
    events = spark.range(200_000).select((sf.col("id") * sf.col("id")).alias("t"), key.alias("k"))
    layout = find_layout(events.sample(fraction=0.02, seed=1), 0.02, ("k",), sf.col("t"), 1000, 5)
    assert len(layout.bounds) in (4, 5)
    loads = Counter(
        row.task
        for row in arrange(events, ("k",), sf.col("t"), layout).select(sf.spark_partition_id().alias("task")).collect()
    )
    assert max(loads.values()) < 1.4 * 200_000 / 5


@pytest.mark.spark
def test_even_keys_are_left_to_hashing(spark: SparkSession) -> None:
    even = spark.range(4000).select(sf.col("id").alias("t"), (sf.col("id") % 100).alias("k"))
    assert find_layout(even, 1.0, ("k",), sf.col("t"), 1, 5) == Layout(5)
    assert find_layout(even, 1.0, ("k",), sf.col("t"), 1, 2) == Layout(2)


@pytest.mark.spark
def test_few_rows_take_few_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skew, "ROWS_PER_TASK", 1000)
    spark.conf.set("spark.sql.shuffle.partitions", 5)
    try:
        for rows, tasks in ((0, 1), (900, 1), (3500, 3), (20_000, 5)):
            even = spark.range(rows).select(sf.col("id").alias("t"), (sf.col("id") % 100).alias("k"))
            assert find_layout(even, 1.0, ("k",), sf.col("t"), 1, None) == Layout(tasks)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 3)
