"""Statistics taken by Spark equal those taken in process."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from motet import api
from motet.engine.workload_profile import profile_workload
from motet.errors import DataError, QueryError
from motet.language import parse
from motet.schema import EventSchema
from motet.spark.profile import profile as spark_profile
from motet.statistics.model import Statistics
from motet.statistics.profile import profile

EVENTS = pa.table(
    {
        "time": pa.array([10, 10, 13, None, 20, 10, 15], pa.int64()),
        "type": ["A", "B", "A", "A", None, "A", "B"],
        "k": ["p", "p", "q", "p", "q", "p", None],
        "f": pa.array([1.0, 1.0, float("nan"), 0.0, 0.0, 1.0, 2.0]),
    }
)


def test_the_statistics_of_a_small_table() -> None:
    assert profile(EVENTS, keys=["k"]) == Statistics(
        counts={"A": 3, "B": 2},
        first=10_000_000,
        last=15_000_000,
        keys=("k",),
        partitions=2,
        largest_partition=3,
        ties=2,
        null_times=1,
        null_types=1,
        set_aside=2,
    )


def test_rates_are_per_second() -> None:
    statistics = profile(EVENTS)
    assert statistics.events == 5
    assert statistics.rates == {"A": 3 / 5, "B": 2 / 5}
    assert profile(EVENTS.slice(0, 2)).rates == {"A": 1.0, "B": 1.0}


def test_statistics_survive_json() -> None:
    statistics = profile(EVENTS, keys=["k", "f"])
    assert Statistics.from_json(statistics.to_json()) == statistics
    assert Statistics.from_json('{"counts": {"A": 3}}') == Statistics(counts={"A": 3})
    with pytest.raises(DataError, match="no statistics"):
        Statistics.from_json("[")


def test_rates_by_hand_are_events_per_second() -> None:
    given = Statistics.from_json('{"rates": {"A": 2, "A[x > 3]": 0.5}, "keys": ["k"], "partitions": 4}')
    assert given.rates == {"A": 2.0, "A[x > 3]": 0.5}
    assert given.events_per_window("A", "A", 60_000_000) == 120
    assert given.events_per_window("A[x > 3]", "A", 60_000_000, ["k"]) == 0.5 * 60 / 4
    assert given.events_per_window("A[x > 4]", "A", 60_000_000) == 120, "nothing is known of that condition"
    assert given.events_per_window("B", "B", 60_000_000) == 0
    assert Statistics.from_json(given.to_json()) == given
    for wrong in ('{"rates": {"A": -1}}', '{"rates": {"A": "many"}}', '{"rates": [1]}', '{"rates": {"A": NaN}}'):
        with pytest.raises(DataError, match="no statistics"):
            Statistics.from_json(wrong)


QUERIES = parse(
    """\
EVENT big AS f > 0.5

QUERY one RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE [k] AND a.f >= 1 WITHIN 10 s SLIDE 5 s
QUERY two RETURN COUNT(*) PATTERN SEQ(big, B) WHERE [k] GROUP BY f WITHIN 10 s SLIDE 5 s
QUERY three RETURN COUNT(*) PATTERN SEQ(A, B)
"""
)


def test_a_workload_has_its_symbols_and_partitions_counted() -> None:
    found = profile_workload(EVENTS, QUERIES, EventSchema(EVENTS.schema))
    assert found.symbols == {"A[f >= 1]": 2, "big": 4}
    assert found.partitionings == {"k": 2, "f, k": 1}
    assert found.count_partitions(["k", "f"]) == 1
    # Two in five seconds, in windows of ten, for two keys.
    assert found.events_per_window("A[f >= 1]", "A", 10_000_000, ["k"]) == 2 / 5 * 10 / 2
    assert found == api.profile(EVENTS, QUERIES)
    assert found.counts == profile(EVENTS).counts
    assert Statistics.from_json(found.to_json()) == found


def test_a_workload_whose_columns_are_missing_is_an_error() -> None:
    with pytest.raises(QueryError, match="no column 'f'"):
        api.profile(EVENTS.drop_columns("f"), QUERIES)


def test_times_of_every_type_are_microseconds() -> None:
    nanoseconds = pa.array([-1, 1_700_000_000_000_000_999], pa.int64())
    for times, unit in ((nanoseconds, "ns"), (nanoseconds.cast(pa.timestamp("ns")), "s")):
        statistics = profile(pa.table({"time": times, "type": ["A", "A"]}), time_unit=unit)
        assert (statistics.first, statistics.last) == (-1, 1_700_000_000_000_000)
    dates = pa.table({"time": pa.array([1, 2], pa.int32()).cast(pa.date32()), "type": ["A", "A"]})
    assert profile(dates).last == 2 * 86_400_000_000


def test_a_column_that_is_missing_or_no_time_is_an_error() -> None:
    with pytest.raises(DataError, match="no column 'tims'; did you mean 'time'"):
        profile(EVENTS, time="tims")
    with pytest.raises(DataError, match="time column 'k'"):
        profile(EVENTS, time="k")


@pytest.mark.spark
@pytest.mark.parametrize("keys", [(), ("k",), ("k", "f")])
@pytest.mark.parametrize("rows", [0, 7])
def test_spark_takes_the_same_statistics(spark: SparkSession, keys: tuple[str, ...], rows: int) -> None:
    events = EVENTS.slice(0, rows)
    assert spark_profile(spark.createDataFrame(EVENTS).limit(rows), keys=keys) == profile(events, keys=keys)


@pytest.mark.spark
@pytest.mark.parametrize("rows", [0, 7])
def test_spark_counts_the_same_symbols_and_partitions(spark: SparkSession, rows: int) -> None:
    events = EVENTS.slice(0, rows)
    found = api.profile(spark.createDataFrame(EVENTS).limit(rows), QUERIES, keys=["k"])
    assert found == profile_workload(events, QUERIES, EventSchema(EVENTS.schema), ["k"])
