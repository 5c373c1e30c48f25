"""Parquet files behind a DataFrame are read as Spark reads them, or left to Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import motet
from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.errors import DataError
from motet.language import parse
from motet.schema import EventSchema
from motet.spark.columns import evaluate
from motet.spark.dataframes import get_arrow_schema
from motet.spark.parquet import FileRange, find_scan, read_range, split_files
from tests.comparison import assert_same_results
from tests.spark.running import run

pytestmark = pytest.mark.spark
ROWS = 6_000
WORKLOAD = """
QUERY pairs RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A, B) WHERE [k] WITHIN 8 s SLIDE 4 s GROUP BY k
QUERY runs RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [r] WITHIN 20 s GROUP BY r
QUERY found RETURN a.x, b.x PATTERN SEQ(A a, B b) WHERE a.x < b.x AND [k] WITHIN 2 s
"""


def events(rows: int = ROWS) -> pa.Table:
    """Events with nulls and NaNs where they may be; every ninth has a type that no query names."""
    at = pa.array(range(rows))
    number = at.to_numpy()
    key = pc.binary_join_element_wise("k", pa.array(number % 40).cast(pa.string()), "-")
    types = pc.if_else(pa.array(number % 9 == 0), "other", pa.array(["A", "B"]).take(pa.array(number // 3 % 2)))
    return pa.table(
        {
            "time": pa.array(number * 250_000, pa.timestamp("us", "UTC"), mask=number % 101 == 0),
            "type": pc.if_else(pa.array(number % 97 == 0), pa.scalar(None, pa.string()), types),
            "k": pc.if_else(pa.array(number % 89 == 0), pa.scalar(None, pa.string()), key),
            "r": pc.if_else(pa.array(number % 83 == 0), float("nan"), pa.array((number % 7) / 2)),
            "x": pa.array(number % 13),
        }
    )


def stored(folder: Path, table: pa.Table, files: int = 3, **options: object) -> str:
    folder.mkdir(exist_ok=True)
    size = -(-len(table) // files)
    for part in range(files):
        pq.write_table(table.slice(part * size, size), folder / f"{part}.parquet", row_group_size=700, **options)
    return str(folder)


def behind(frame: DataFrame) -> list[Path]:
    """The files that tasks would read themselves."""
    scan = find_scan(frame, get_arrow_schema(frame))
    return list(scan.files) if scan else []


def all_rows(frame: DataFrame) -> pa.Table:
    """What tasks read of the files of a frame."""
    columns = get_arrow_schema(frame)
    scan = find_scan(frame, columns)
    assert scan is not None
    tasks = split_files(scan.files, frame.sparkSession)
    found = [table for task in tasks for piece in task for table in scan.read(piece)]
    nothing = pa.schema([(field.name, field.type) for field in columns]).empty_table()
    return pa.concat_tables([nothing, *found])


def same_rows(one: pa.Table, other: pa.Table) -> None:
    order = [(name, "ascending") for name in one.column_names]
    assert one.sort_by(order).equals(other.sort_by(order))


def assert_read_as_by_spark(frame: DataFrame) -> None:
    """Check that tasks read of files, and compute, what Spark does; doubles as texts, for a NaN equals no NaN."""
    found = all_rows(frame)
    wanted = frame.toArrow().cast(found.schema)
    assert len(found) == len(wanted)
    assert wanted.column_names == found.column_names == frame.columns
    texts = [(field.name, pa.string() if field.type == pa.float64() else field.type) for field in found.schema]
    same_rows(*(table.cast(pa.schema(texts)) for table in (wanted, found)))


STORED: dict[str, Callable[[pa.Table], tuple[pa.Table, dict[str, object]]]] = {
    "as it is": lambda table: (table, {}),
    "old timestamps": lambda table: (table, {"use_deprecated_int96_timestamps": True}),
    "milliseconds": lambda table: (table.set_column(0, "time", table["time"].cast(pa.timestamp("ms", "UTC"))), {}),
    "local times": lambda table: (table.set_column(0, "time", table["time"].cast(pa.timestamp("us"))), {}),
    "dictionaries": lambda table: (table.set_column(1, "type", table["type"].dictionary_encode()), {}),
    "large texts": lambda table: (table.set_column(2, "k", table["k"].cast(pa.large_string())), {}),
    "no row": lambda table: (table.slice(0, 0), {}),
}


@pytest.mark.parametrize("way", STORED)
def test_files_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path, way: str) -> None:
    table, options = STORED[way](events())
    frame = spark.read.parquet(stored(tmp_path / "events", table, **options))
    assert len(behind(frame)) == 3
    wanted = frame.toArrow().cast(get_arrow_schema(frame))
    comparable = [name for name in wanted.column_names if name != "r"]  # a NaN is not equal to a NaN
    same_rows(all_rows(frame).select(comparable), wanted.select(comparable))


def test_what_spark_writes_is_read(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "written")
    moment = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
    spark.createDataFrame([(moment, "A", 1), (None, None, None)], "time timestamp, type string, k long").write.parquet(
        path
    )
    frame = spark.read.parquet(path)
    assert behind(frame), "Spark's own timestamps are of the old kind"
    assert {row["time"] for row in all_rows(frame).to_pylist()} == {moment, None}


def test_every_row_group_is_in_one_piece(tmp_path: Path) -> None:
    file = Path(stored(tmp_path / "events", events(), files=1)) / "0.parquet"
    size, columns = file.stat().st_size, pq.read_schema(file)
    for parts in (1, 2, 3, 50):
        share = -(-size // parts)
        cut = [FileRange(str(file), start, min(start + share, size)) for start in range(0, size, share)]
        found = [table for piece in cut for table in read_range(piece, columns)]
        assert sum(map(len, found)) == ROWS


def test_a_file_that_is_longer_where_tasks_run_is_read_to_its_end(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.parquet(stored(tmp_path / "events", events(1_000), files=1))
    tasks = split_files(behind(frame), spark)
    stored(tmp_path / "events", events(), files=1)
    columns = get_arrow_schema(frame)
    assert sum(len(rows) for task in tasks for part in task for rows in read_range(part, columns)) == ROWS


COMPUTED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "whole numbers": lambda frame: frame.filter("x > 3 AND x <= 9 AND NOT x = 5"),
    "texts": lambda frame: frame.filter("k >= 'k2' OR k IS NULL").filter("type <> 'other'"),
    "some of few": lambda frame: frame.filter("type IN ('A', 'C') OR x IN (1, 2)"),
    "none of few": lambda frame: frame.filter("NOT k IN ('k1', 'k2', 'k3')"),
    "many": lambda frame: frame.filter(f"NOT x IN ({', '.join(map(str, range(0, 30, 2)))})"),
    "NaNs are above": lambda frame: frame.filter("r > 2.0"),
    "NaNs are not below": lambda frame: frame.filter("r < 1.5 OR NOT r <= 3.0"),
    "times": lambda frame: frame.filter("time > TIMESTAMP '1970-01-01 00:05:00'"),
    "other names": lambda frame: frame.withColumnRenamed("x", "y").withColumnRenamed("k", "x"),
    "columns that are computed": lambda frame: frame.selectExpr(
        "time",
        "CASE WHEN x > 9 THEN 'A' WHEN x > 4 THEN 'B' WHEN k IS NULL THEN 'C' END AS type",
        "concat(k, '/', type) AS k",
        "r * 2.0D + CAST(1 AS DOUBLE) AS r",
        "coalesce(type, 'none') AS x",
    ),
    "a filter on what is computed": lambda frame: frame.selectExpr(
        "time", "IF(x > 6, 'A', 'B') AS type", "k", "r", "x"
    ).filter("type = 'A' AND r IS NOT NULL"),
    "a remainder": lambda frame: frame.filter("x % 3 = 1 OR x % -4L = 2"),
    "NaN is none": lambda frame: frame.filter("NOT isnan(r) OR -r < -1.0D"),
    "parts of texts": lambda frame: frame.filter("k LIKE 'k1%' OR k LIKE '%2-' AND NOT type LIKE '%the%'"),
    "values that look like an expression": lambda frame: frame.filter("k IN ('column', 'k1-') OR x = 3"),
    "columns that are dropped": lambda frame: frame.withColumn("z", frame.x).drop("x").withColumnRenamed("z", "x"),
    "a constant": lambda frame: frame.selectExpr("time", "'A' AS type", "k", "r", "CAST(NULL AS BIGINT) AS x"),
}


@pytest.mark.parametrize("way", COMPUTED)
def test_filters_and_columns_are_computed_as_spark_does(spark: SparkSession, tmp_path: Path, way: str) -> None:
    frame = COMPUTED[way](spark.read.parquet(stored(tmp_path / "events", events())))
    assert len(behind(frame)) == 3
    assert_read_as_by_spark(frame)


def test_a_remainder_has_the_sign_of_the_dividend() -> None:
    numbers = [-(2**63), -7, -6, -1, 0, 1, 6, 7, 2**63 - 1]
    for divisor in (-(2**63), -4, -3, 1, 3, 4, 2**63 - 1):
        found = evaluate(("remainder", ("column", "x"), ("literal", divisor, pa.int64())), pa.table({"x": numbers}))
        assert found.to_pylist() == [abs(number) % abs(divisor) * (-1 if number < 0 else 1) for number in numbers]


@pytest.mark.parametrize("way", ["texts", "columns that are computed"])
def test_results_over_computed_rows_are_those_of_spark(spark: SparkSession, tmp_path: Path, way: str) -> None:
    frame = COMPUTED[way](spark.read.parquet(stored(tmp_path / "events", events())))
    text = "QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 8 s SLIDE 4 s"
    rows = frame.toArrow().cast(get_arrow_schema(frame))
    expected = run_table(compile_workload(parse(text), EventSchema(rows.schema)), rows).table
    assert_same_results(run(frame, parse(text)).results.toArrow(), expected)


@pytest.mark.parametrize(
    "changed",
    [
        lambda frame: frame.filter("pmod(x, 3) = 1"),
        lambda frame: frame.filter("x % 0 = 1 OR 7 % x = 1"),
        lambda frame: frame.filter("k LIKE 'k_-' OR k LIKE type"),
        lambda frame: frame.filter("r = CAST('NaN' AS DOUBLE)"),  # Spark may pass over row groups that have some
        lambda frame: frame.selectExpr("time", "type", "k", "r", "x + 1 AS x"),  # may overflow
        lambda frame: frame.filter("rand() > 0.5"),
        lambda frame: frame.filter("CAST(x AS STRING) = '3'"),
        lambda frame: frame.filter("s IS NOT NULL").drop("s"),  # of a type that tasks do not read
        lambda frame: frame.limit(100),
        lambda frame: frame.union(frame),
        lambda frame: frame.distinct(),
        lambda frame: frame.select("time", "type", "k", "r", "x").sample(0.5, seed=1),
    ],
)
def test_other_frames_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, changed: Callable[[DataFrame], DataFrame]
) -> None:
    rows = events(100).append_column("s", pa.array([{"of": 1}] * 100))
    assert behind(changed(spark.read.parquet(stored(tmp_path / "events", rows)))) == []


def test_columns_that_folders_name_and_other_types_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    stored(tmp_path / "region=1", events(100))
    by_folder = spark.read.parquet(str(tmp_path))
    assert behind(by_folder) == []
    assert behind(by_folder.drop("region"))
    schema = "time timestamp, type string, k string, r double, x double"
    assert behind(spark.read.schema(schema).parquet(str(tmp_path / "region=1"))) == []


def test_spark_is_left_to_pass_over_files_it_cannot_read(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.parquet(stored(tmp_path / "events", events(100)))
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        assert behind(frame) == []
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


@pytest.mark.parametrize("place", [".", "day=1"])
def test_paths_are_those_of_this_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(place).mkdir(exist_ok=True)
    pq.write_table(pa.table({"time": [1, 2], "type": ["A", "B"]}), Path(place) / "e.parquet")
    found = motet.run(f"{place}/e.parquet", "RETURN COUNT(*) AS n PATTERN SEQ(A, B)", engine="spark").toArrow()
    assert found["n"].to_pylist() == [1]


def test_a_file_without_a_column_has_nulls_and_one_with_another_type_is_named(tmp_path: Path) -> None:
    columns = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    file = str(tmp_path / "few.parquet")
    pq.write_table(pa.table({"x": [1, 2]}), file)
    (table,) = read_range(FileRange(file, 0, 1 << 20), columns)
    assert table.to_pydict() == {"x": [1, 2], "y": [None, None]}
    pq.write_table(pa.table({"x": ["one"], "y": [1]}), file)
    with pytest.raises(DataError, match=r"few.parquet: column 'x' is not int64"):
        list(read_range(FileRange(file, 0, 1 << 20), columns))


@pytest.mark.parametrize("partitions", [2, 7])
@pytest.mark.parametrize("way", ["files", "rows"])
def test_a_workload_gives_what_it_gives_in_process(
    spark: SparkSession, tmp_path: Path, way: str, partitions: int
) -> None:
    table = events()
    frame = spark.read.parquet(stored(tmp_path / "events", table))
    if way == "rows":  # that only Spark can compute
        frame = frame.filter("pmod(x, 1) = 0")
    assert bool(behind(frame)) == (way == "files")
    workload = parse(WORKLOAD)
    ran = run(frame, workload, partitions=partitions)
    expected = run_table(compile_workload(workload, EventSchema(table.schema)), table).table
    found = ran.results.toArrow().cast(expected.schema)
    assert_same_results(found, expected)
    counts = ran.metrics()
    assert counts["rows"] == ROWS
    assert counts["null_times"] == table["time"].null_count
    assert counts["null_types"] == table["type"].null_count
