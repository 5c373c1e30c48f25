"""Tables of Spark's catalog by their names: events of a run and of a stream, and results of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import motet as library
from tests.command_line import Motet
from tests.comparison import assert_same_results
from tests.spark.test_stream import last_event, random_events

pytestmark = pytest.mark.spark
QUERIES = "QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 60 s SLIDE 20 s"


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> Iterator[pa.Table]:
    rows = pa.concat_tables([random_events(200, 1, last=200), last_event()])
    spark.createDataFrame(rows).coalesce(1).write.option("path", str(tmp_path / "events")).saveAsTable("kept_events")
    yield rows
    for name in ("kept_events", "kept_results"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_table_is_run_over_and_streamed_to_another(
    spark: SparkSession, events: pa.Table, motet: Motet, tmp_path: Path
) -> None:
    queries = tmp_path / "queries.motet"
    queries.write_text(QUERIES)
    expected = library.run(events, QUERIES)
    ran = motet("run", queries, "--table", "kept_events", "--engine", "spark", "--output", tmp_path / "found.parquet")
    assert ran.status == 0, ran.stderr
    assert_same_results(pq.read_table(tmp_path / "found.parquet").cast(expected.schema), expected)

    arguments = ["stream", queries, "--table", "kept_events", "--once", "--checkpoint", tmp_path / "state"]
    arguments += ["--watermark", "0 seconds", "--sink", "parquet"]
    streamed = motet(*arguments, "--output-table", "kept_results")
    assert streamed.status == 0, streamed.stderr
    found = spark.table("kept_results").toArrow().select(expected.column_names).cast(expected.schema)
    assert_same_results(found, expected)


def test_a_table_is_named_by_its_format_and_path(
    spark: SparkSession, events: pa.Table, motet: Motet, tmp_path: Path
) -> None:
    queries = tmp_path / "queries.motet"
    queries.write_text(QUERIES)
    name = f"parquet.`{tmp_path}/events`"
    ran = motet("run", queries, "--table", name, "--engine", "spark", "--output", tmp_path / "found.parquet")
    assert ran.status == 0, ran.stderr
    expected = library.run(events, QUERIES)
    assert_same_results(pq.read_table(tmp_path / "found.parquet").cast(expected.schema), expected)


def test_what_tables_do_not_take_is_refused(motet: Motet, tmp_path: Path) -> None:
    queries = tmp_path / "queries.motet"
    queries.write_text(QUERIES)
    unknown = motet("run", queries, "--table", "no.such", "--engine", "spark")
    assert unknown.status == 1
    assert "the table 'no.such' cannot be opened" in unknown.stderr
    twice = motet(
        "stream", queries, "--table", "t", "--output-table", "r", "--sink", "delta", "--late", tmp_path / "late"
    )
    assert twice.status == 2
    assert "a table would get some of them twice" in twice.stderr
