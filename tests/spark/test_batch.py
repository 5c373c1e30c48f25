"""A workload on Spark gives what it gives in process."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import motet
from motet.compile import compile_workload
from motet.engine.partials import finish, merge
from motet.engine.run import run_branch
from motet.errors import DataError, QueryError, RunError
from motet.language import parse
from motet.schema import EventSchema
from motet.spark import batch
from motet.spark.buckets import hash_text
from tests.comparison import assert_same_results
from tests.spark.running import run

pytestmark = pytest.mark.spark

WORKLOAD = """
QUERY sliding RETURN COUNT(*), SUM(A.x), MIN(B.y) PATTERN SEQ(A+, B) WITHIN 40 s SLIDE 10 s GROUP BY k
QUERY combined RETURN COUNT(*), AVG(A.x) PATTERN SEQ(A, NOT C, B) WHERE [k] AND A.x > 2 WITHIN 60 s SLIDE 20 s
QUERY continuous RETURN COUNT(*), MAX(B.y) PATTERN SEQ(A, B) WITHIN 15 s GROUP BY k
QUERY absent RETURN COUNT(*) PATTERN SEQ(A, B, NOT C) WITHIN 20 s GROUP BY k
QUERY moving RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 12 s
QUERY alone RETURN COUNT(*) PATTERN SEQ(C, C) WITHIN 9 s
QUERY two_keys RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 50 s SLIDE 50 s GROUP BY k, n
QUERY whole RETURN COUNT(*) PATTERN SEQ(B, C) GROUP BY n
"""
COLUMNS = pa.schema(
    [
        ("time", pa.int64()),
        ("type", pa.string()),
        ("k", pa.string()),
        ("n", pa.int32()),
        ("x", pa.int64()),
        ("y", pa.float64()),
    ]
)


def random_events(rows: int = 1500, seed: int = 1) -> pa.Table:
    """Events of which most have one key, and some no time, type, key or value."""
    dice = random.Random(seed)

    def sometimes(value: Any) -> Any:
        return None if dice.random() < 0.03 else value

    table = [
        {
            "time": sometimes(dice.randrange(2000)),
            "type": sometimes(dice.choice("ABCD")),
            "k": sometimes("hot" if dice.random() < 0.7 else dice.choice("pqrs")),
            "n": sometimes(dice.randrange(3)),
            "x": sometimes(dice.randrange(10)),
            "y": sometimes(float("nan") if dice.random() < 0.05 else dice.randrange(100) / 4),
        }
        for _ in range(rows)
    ]
    return pa.Table.from_pylist(table, COLUMNS)


def in_process(events: pa.Table, text: str, **schema: str) -> pa.Table:
    program = compile_workload(parse(text), EventSchema(events.schema, **schema))
    partials = pa.concat_tables(run_branch(program, index, events) for index in range(len(program.branches)))
    return finish(program, merge(program, partials))


def with_time(df: DataFrame, kind: str) -> DataFrame:
    """The same events with their seconds (days, for dates) as another type."""
    as_kind = {
        "timestamp": "timestamp_seconds(time)",
        "timestamp_ntz": "timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, time)",
        "date": "date_from_unix_date(int(time))",
        "int": "int(time)",
    }
    return df.withColumn("time", sf.expr(as_kind[kind]))


@pytest.mark.parametrize("skew", ["auto", "off"])
def test_a_workload_gives_what_it_gives_in_process(spark: SparkSession, skew: Any) -> None:
    events = random_events()
    result = run(spark.createDataFrame(events), parse(WORKLOAD), partitions=6, skew=skew).results
    assert_same_results(result.toArrow(), in_process(events, WORKLOAD))


def test_the_number_of_tasks_may_be_left_to_spark(spark: SparkSession) -> None:
    events = random_events(300)
    result = run(spark.createDataFrame(events), parse(WORKLOAD)).results
    assert_same_results(result.toArrow(), in_process(events, WORKLOAD))


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date", "int"])
def test_times_of_every_type_come_back_as_they_came(spark: SparkSession, kind: str) -> None:
    text = """
    QUERY sliding RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 20 {unit} SLIDE 5 {unit} GROUP BY k
    QUERY continuous RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 15 {unit} GROUP BY k
    """.format(unit="days" if kind == "date" else "s")
    df = with_time(spark.createDataFrame(random_events(600)), kind)
    result = run(df, parse(text), partitions=6).results
    wanted = {"int": "bigint", "date": "timestamp_ntz"}.get(kind, kind)
    assert {result.schema[name].dataType.simpleString() for name in ("window_start", "time")} == {wanted}
    arrow = result.toArrow()
    assert arrow.num_rows > 50
    assert_same_results(arrow, in_process(df.toArrow(), text))


def test_the_zone_of_the_session_changes_nothing(spark: SparkSession) -> None:
    text = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 2 days SLIDE 1 day GROUP BY k"
    rows = [(dt.datetime(2024, 3, 10, hour), "AB"[hour % 2], "hot") for hour in range(24)]
    schema = "time timestamp_ntz, type string, k string"
    wanted = run(spark.createDataFrame(rows, schema), parse(text), partitions=2).results.toArrow()
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        result = run(spark.createDataFrame(rows, schema), parse(text), partitions=2).results.toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert_same_results(result, wanted)


@pytest.mark.parametrize("unit", ["ms", "ns"])
def test_whole_numbers_count_in_their_unit(spark: SparkSession, unit: str) -> None:
    text = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 20 us SLIDE 5 us GROUP BY k"
    text = text.replace("us", "s") if unit == "ms" else text
    events = random_events(600)
    start, step = (0, 1000) if unit == "ms" else (1_700_000_000_000_000_000, 1000)
    times = pa.array([None if t is None else start + t * step for t in events["time"].to_pylist()], pa.int64())
    events = events.set_column(0, "time", times)
    result = run(spark.createDataFrame(events), parse(text), time_unit=unit, partitions=6).results
    assert_same_results(result.toArrow(), in_process(events, text, time_unit=unit))


@pytest.mark.parametrize(
    "key",
    [
        "k = 'hot'",
        "double(n)",
        "float(n)",
        "cast(n as decimal(10, 2))",
        "timestamp_seconds(n)",
        "if(n = 1, double('NaN'), double(n))",
    ],
)
def test_keys_of_every_type(spark: SparkSession, key: str) -> None:
    text = "QUERY q RETURN COUNT(*), MAX(B.d) PATTERN SEQ(A, B) WITHIN 20 s SLIDE 10 s GROUP BY key"
    columns = {"key": sf.expr(key), "d": sf.expr("cast(y as decimal(8, 2))")}
    df = spark.createDataFrame(random_events(600)).withColumns(columns)
    result = run(df, parse(text), partitions=6).results.toArrow()
    assert result.num_rows > 20
    assert_same_results(result, in_process(df.toArrow(), text))


def test_rows_without_time_or_type_are_counted(spark: SparkSession) -> None:
    events = random_events()
    done = run(spark.createDataFrame(events), parse(WORKLOAD), partitions=6)
    done.results.count()
    missing = [(row["time"] is None, row["type"] is None) for row in events.to_pylist()]
    assert done.metrics() == {
        "rows": 1500,
        "null_times": sum(time for time, _ in missing),
        "null_types": sum(type for _, type in missing),
        "set_aside": sum(time or type for time, type in missing),
        "overflows": 0,
    }


def test_a_dataframe_of_results_knows_its_run(spark: SparkSession) -> None:
    query = "RETURN a, b PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 40 s"
    result = motet.run(spark.createDataFrame(random_events(300)), query, match_limit=1, on_limit="truncate")
    assert result.count() > 0
    assert result.motet.metrics()["rows"] == 300
    assert result.motet.truncated() == ("q1",)
    assert [each.name for each in result.motet.program.workload.queries] == ["q1"]


def test_tasks_say_what_they_executed(spark: SparkSession) -> None:
    text = """
    QUERY sliding RETURN COUNT(*) PATTERN SEQ(A, B, C) WITHIN 40 s SLIDE 10 s GROUP BY k
    QUERY longer RETURN COUNT(*) PATTERN SEQ(A, B, D) WITHIN 40 s SLIDE 10 s GROUP BY k
    QUERY no_events RETURN COUNT(*) PATTERN SEQ(X, Y) WITHIN 7 s
    QUERY found RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 40 s
    """
    events = random_events(600)
    here = motet.ask(events, text)
    there = motet.ask(spark.createDataFrame(events), text)
    assert [each.strategy for each in here.executed].count("joins") == 1
    assert {each.signature for each in there.executed} == {each.signature for each in here.executed}
    assert all("no_events" not in each.queries for each in there.executed)
    described = {each.signature: each.describe() for each in here.executed}
    assert all(each.describe() == described[each.signature] for each in there.executed)


def test_what_was_executed_comes_with_an_action(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "METRICS_TIMEOUT", 0.1)
    query = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 40 s SLIDE 10 s"
    results = motet.run(spark.createDataFrame(random_events(30)), query)
    with pytest.raises(RunError, match="none has run yet"):
        results.motet.executed()


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_files_are_read_alike_on_spark_and_in_process(spark: SparkSession, tmp_path: Path, format: str) -> None:
    file = tmp_path / f"events.{format}"
    events = random_events(200)
    csv.write_csv(events, file) if format == "csv" else pq.write_table(events, file)
    query = "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A, B) WITHIN 40 s SLIDE 10 s GROUP BY k"
    assert_same_results(motet.run(str(file), query, engine="spark").toArrow(), motet.run(str(file), query))


@pytest.mark.parametrize("most_taken", [0.0, 1.0], ids=["counted in tasks", "observed by Spark"])
def test_rows_may_be_counted_by_spark_or_in_tasks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most_taken: float
) -> None:
    # The names have the same hash, and only the first is asked for.
    assert hash_text("tdwo") == hash_text("cmjoqlp")
    names = {"A": "tdwo", "D": "cmjoqlp"}
    events = random_events()
    types = [names.get(type, type) for type in events["type"].to_pylist()]
    events = events.set_column(1, "type", pa.array(types, pa.string()))
    text = "QUERY q RETURN COUNT(*), SUM(B.x) PATTERN SEQ(tdwo, B) WITHIN 40 s SLIDE 10 s GROUP BY k, n"
    monkeypatch.setattr("motet.spark.batch.SAMPLE_FRACTION", 1.0)
    monkeypatch.setattr("motet.spark.batch.COUNT_IN_TASKS_ABOVE", most_taken)
    done = run(spark.createDataFrame(events), parse(text), partitions=6)
    assert_same_results(done.results.toArrow(), in_process(events, text))
    plan = done.results._jdf.queryExecution().optimizedPlan().toString()
    assert ("sum(counted rows" in plan) == (most_taken == 0.0)
    missing = [row["time"] is None or row["type"] is None for row in events.to_pylist()]
    assert (done.metrics()["rows"], done.metrics()["set_aside"]) == (1500, sum(missing))


def test_counts_beyond_64_bits_are_null_and_counted(spark: SparkSession) -> None:
    df = spark.range(70).select(sf.col("id").alias("time"), sf.lit("A").alias("type"))
    done = run(df, parse("QUERY q RETURN COUNT(*), COUNT(A) PATTERN A+\nQUERY r RETURN COUNT(*) AS n PATTERN A"))
    rows = {row["query"]: row for row in done.results.collect()}
    assert rows["q"]["COUNT(*)"] is None
    assert rows["r"]["n"] == 70
    assert done.metrics()["overflows"] == 2


def test_metrics_before_any_action_are_an_error(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.spark.batch.METRICS_TIMEOUT", 0.1)
    with pytest.raises(RunError, match="first action"):
        run(spark.createDataFrame(random_events(10)), parse(WORKLOAD), skew="off").metrics()


def test_no_rows_give_no_results(spark: SparkSession) -> None:
    done = run(spark.createDataFrame(random_events(10)).limit(0), parse(WORKLOAD))
    assert done.results.collect() == []
    assert done.metrics() == dict.fromkeys(("rows", "null_times", "null_types", "set_aside", "overflows"), 0)


def test_rows_are_counted_also_where_none_matters(spark: SparkSession) -> None:
    others = spark.createDataFrame(random_events(50)).withColumn("type", sf.lit("unknown"))
    done = run(others, parse(WORKLOAD))
    assert done.results.collect() == []
    assert done.metrics()["rows"] == 50


def test_columns_with_odd_names_work(spark: SparkSession) -> None:
    events = random_events(200).rename_columns(["event.time", "my type", "k", "n", "x`y", "y"])
    text = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 20 s SLIDE 10 s GROUP BY k"
    result = run(spark.createDataFrame(events), parse(text), time="event.time", type="my type", partitions=2).results
    assert_same_results(result.toArrow(), in_process(events, text, time="event.time", type="my type"))


def test_a_query_may_group_by_type(spark: SparkSession) -> None:
    text = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, A) WITHIN 20 s SLIDE 10 s GROUP BY type"
    events = random_events(400)
    result = run(spark.createDataFrame(events), parse(text), partitions=2).results.toArrow()
    assert set(result["type"].to_pylist()) == {"A"}
    assert_same_results(result, in_process(events, text))


def test_types_defined_by_conditions(spark: SparkSession) -> None:
    text = """
    EVENT Big AS x > 6 OR type = 'D'
    QUERY q RETURN COUNT(*) PATTERN SEQ(Big, A) WITHIN 20 s SLIDE 10 s GROUP BY k
    """
    events = random_events(400)
    result = run(spark.createDataFrame(events), parse(text), partitions=6).results
    assert_same_results(result.toArrow(), in_process(events, text))


def test_more_types_than_have_codes(spark: SparkSession) -> None:
    types = [f"T{number}" for number in range(40)]
    text = "".join(f"QUERY {t} RETURN COUNT(*) PATTERN SEQ(T0, {t}) WITHIN 50 s GROUP BY k\n" for t in types[1:])
    events = random_events(500)
    dice = random.Random(2)
    events = events.set_column(1, "type", pa.array([dice.choice(types) for _ in range(500)]))
    result = run(spark.createDataFrame(events), parse(text), partitions=2).results
    assert_same_results(result.toArrow(), in_process(events, text))


def test_what_is_wrong_is_said_before_anything_runs(spark: SparkSession) -> None:
    df = spark.createDataFrame(random_events(5))
    query = parse("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 20 s SLIDE 10 s GROUP BY k")
    with pytest.raises(DataError, match="'when'"):
        run(df, query, time="when")
    with pytest.raises(DataError, match="time column 'flag'"):
        run(df.selectExpr("*", "true AS flag"), query, time="flag")
    with pytest.raises(DataError, match="more than one column 'k'"):
        run(df.select("*", "k"), query)
    with pytest.raises(QueryError, match="kk"):
        run(df, parse("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 20 s GROUP BY kk"))
    with pytest.raises(DataError, match="stream"):
        run(spark.readStream.format("rate").load().selectExpr("timestamp AS time", "'A' AS type", "value AS k"), query)
