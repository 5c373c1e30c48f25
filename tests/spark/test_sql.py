"""SQL with MATCH_RECOGNIZE on Spark gives what it gives in process."""

from __future__ import annotations

import datetime as dt
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import motet
from motet.errors import OptionError, QueryError
from tests.command_line import Motet
from tests.sql.manuals import FIRMS, STATEMENTS, TICKER

pytestmark = pytest.mark.spark

START = dt.datetime(2024, 1, 1)


def make_ticks(size: int = 400) -> pa.Table:
    draw = random.Random(7)
    keys = [None, "a", "b", "c", "d"]
    return pa.table(
        {
            "k": [draw.choice(keys) for _ in range(size)],
            "at": pa.array([START + dt.timedelta(minutes=id) for id in range(size)], pa.timestamp("us")),
            "price": [draw.choice([None, 1.0, 2.0, 3.0, 4.0]) for _ in range(size)],
            "size": pa.array([draw.randrange(5) for _ in range(size)], pa.int32()),
            "note": [draw.choice(["x", "y", None]) for _ in range(size)],
        }
    )


V_SHAPE = """MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY at
  MEASURES STRT.at AS since, LAST(DOWN.price) AS low, COUNT(*) AS n, MATCH_NUMBER() AS number
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))"""
QUERIES = {
    "v shape": f"SELECT * FROM ticks {V_SHAPE}",
    "all rows": """SELECT * FROM ticks MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY at DESC
        MEASURES CLASSIFIER() AS label, SUM(size) AS total, FINAL LAST(note) AS note_at_end
        ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW PATTERN (A B{1,3}?  C)
        DEFINE B AS B.size > A.size, C AS C.note = A.note AND COALESCE(B.price * 2, 1) <> A.price + 1)""",
    "dependent": """SELECT k, n, span FROM ticks MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY at MEASURES COUNT(*) AS n, CAST(LAST(at) AS VARCHAR(30)) AS span
        PATTERN (A B+) DEFINE B AS at - A.at < INTERVAL '30' MINUTE AND SUM(size) < 12 AND upper(note) = 'X'
          AND AVG(B.price) > 1.5)""",
    "aggregates": """SELECT * FROM ticks MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY at
        MEASURES SUM(CASE WHEN CLASSIFIER() = 'B' THEN size END) AS b, MAX(CLASSIFIER()) AS label,
          FINAL COUNT(*) FILTER (WHERE note = 'x') AS x, AVG(CASE CLASSIFIER() WHEN 'A' THEN price ELSE 1 END) AS mean
        ALL ROWS PER MATCH PATTERN (A B+)
        DEFINE B AS size IS DISTINCT FROM A.size AND (price > A.price) IS NOT FALSE)""",
    "a guard": """SELECT * FROM ticks MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY at MEASURES COUNT(*) AS n, LAST(size) AS last_size
        PATTERN (A B+) DEFINE B AS size > 0 AND 12 / size >= 4 AND at > A.at)""",
    "no partition": """SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY at, size MEASURES A.k AS first_k, B.k AS second_k
        PATTERN (A B) DEFINE B AS B.k > A.k AND CLASSIFIER() = 'B')""",
    "computed keys": """SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY UPPER(k), size % 2 ORDER BY size * -1, at
        MEASURES FIRST(k) AS k, FIRST(size) % 2 AS odd, COUNT(*) AS n, LAST(at) AS ended PATTERN (A B+)
        DEFINE B AS size % (A.size + 1) > 0 AND GREATEST(size, A.size) >= LEAST(PREV(size), A.size))""",
    "joined": f"""WITH v AS (SELECT * FROM ticks {V_SHAPE}), late AS (SELECT * FROM ticks WHERE size > 1)
        SELECT v.k, v.low, m.n FROM v JOIN late {V_SHAPE} AS m ON v.k = m.k AND v.number = m.number
        UNION ALL SELECT k, MAX(low), COUNT(*) FROM (SELECT * FROM ticks {V_SHAPE}) AS s GROUP BY k""",
}


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


@pytest.mark.parametrize("name", QUERIES)
def test_spark_gives_what_a_run_in_process_gives(spark: SparkSession, name: str) -> None:
    ticks = make_ticks()
    expected = motet.sql(QUERIES[name], {"ticks": ticks})
    found = motet.sql(QUERIES[name], {"ticks": spark.createDataFrame(ticks)})
    assert len(expected)
    assert found.columns == expected.column_names
    assert sorted_rows(found.toArrow().cast(expected.schema)) == sorted_rows(expected)


@pytest.mark.skipif(not os.environ.get("MOTET_LONG"), reason="a job for each statement")
@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_of_manuals_give_the_same_on_spark(spark: SparkSession, name: str) -> None:
    found = motet.sql(
        STATEMENTS[name].text, {"ticker": spark.createDataFrame(TICKER), "firms": spark.createDataFrame(FIRMS)}
    )
    assert sorted(map(repr, map(tuple, found.collect()))) == sorted(map(repr, STATEMENTS[name].rows))


def test_files_are_read_in_the_tasks(spark: SparkSession, tmp_path: Path) -> None:
    ticks = make_ticks()
    for part in range(3):
        pq.write_table(ticks.slice(part * 150, 150), tmp_path / f"{part}.parquet")
    expected = sorted_rows(motet.sql(QUERIES["v shape"], {"ticks": ticks}))
    for source in (spark.read.parquet(str(tmp_path)), tmp_path):
        found = motet.sql(QUERIES["v shape"], {"ticks": source}, engine="spark")
        plan = found._jdf.queryExecution().toString()
        assert "parquet" not in plan.lower()
        assert sorted_rows(found.toArrow()) == expected


def test_tables_of_the_catalog_are_known(spark: SparkSession) -> None:
    ticks = make_ticks()
    spark.createDataFrame(ticks).createOrReplaceTempView("ticks_in_catalog")
    try:
        found = motet.sql(f"SELECT * FROM ticks_in_catalog {V_SHAPE}", engine="spark")
        expected = motet.sql(QUERIES["v shape"], {"ticks": ticks})
        assert sorted_rows(found.toArrow().cast(expected.schema)) == sorted_rows(expected)
    finally:
        spark.catalog.dropTempView("ticks_in_catalog")


def test_views_of_the_session_are_as_they_were(spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("ticks")
    before = [each.name for each in spark.catalog.listTables()]
    try:
        found = motet.sql(QUERIES["v shape"], {"ticks": spark.createDataFrame(make_ticks())})
        assert found.count() > 0
        assert spark.table("ticks").count() == 3
        assert [each.name for each in spark.catalog.listTables()] == before
    finally:
        spark.catalog.dropTempView("ticks")


def test_quoted_names_are_names_in_both_quotes(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.table({"a b": [1, 2], "x.y": ["p", "q"]}))
    text = 'SELECT "end one" FROM t MATCH_RECOGNIZE (ORDER BY "a b" MEASURES B.`x.y` AS "end one" PATTERN (A B))'
    assert motet.sql(text, {"t": frame}).toArrow().to_pylist() == [{"end one": "q"}]


def test_values_in_parts_may_be_missing_where_their_rows_are(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT id, named_struct('q', id, 'r', array(id)) AS s, map('a', id) AS m, array(named_struct('z', id)) AS l "
        "FROM range(2)"
    )
    text = """SELECT p, x, y, z, v FROM t MATCH_RECOGNIZE (ORDER BY id
        MEASURES PREV(s) AS p, PREV(m) AS x, PREV(l) AS y, PREV(s.r) AS z, struct(FIRST(id) AS id, s.q AS s) AS v
        ALL ROWS PER MATCH PATTERN (A B) DEFINE B AS B.s.q > A.s.q)"""
    first, second = (row.asDict(recursive=True) for row in motet.sql(text, {"t": frame}).collect())
    assert first == {"p": None, "x": None, "y": None, "z": None, "v": {"id": 0, "s": 0}}
    assert second == {"p": {"q": 0, "r": [0]}, "x": {"a": 0}, "y": [{"z": 0}], "z": [0], "v": {"id": 0, "s": 1}}


def test_an_empty_table_gives_an_empty_result(spark: SparkSession) -> None:
    frame = spark.createDataFrame(make_ticks().slice(0, 0))
    for text in QUERIES.values():
        assert motet.sql(text, {"ticks": frame}).count() == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY k PATTERN (A))", "needs an ORDER BY on Spark"),
        ("SELECT wrong FROM ticks", "wrong"),
        ("SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY at MEASURES (SELECT n) AS x PATTERN (A))", "`n` cannot be"),
        (
            "SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY at MEASURES regr_count(size, size) AS x PATTERN (A))",
            "an aggregate that is not supported",
        ),
        ("SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY at MEASURES sum(DISTINCT size) AS x PATTERN (A))", "DISTINCT"),
        ("SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY at MEASURES nothing(size) AS x PATTERN (A))", "nothing"),
        (
            "SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY at MEASURES A.k AS k PATTERN (A B) "
            "DEFINE B AS size / 1.5 > A.size / 1.5 AND A.size / CAST(size AS DECIMAL(9, 2)) > 1)",
            "decimals of different rows are not divided",
        ),
    ],
)
def test_mistakes_are_found_before_anything_runs(spark: SparkSession, text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        motet.sql(text, {"ticks": spark.createDataFrame(make_ticks())})


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"SELECT nothing\nFROM ticks {V_SHAPE}", (1, 8)),
        (f"SELECT low FROM ticks {V_SHAPE}\nWHERE low FRM 1", (6, 11)),
        (f"SELECT low\nFROM nowhere {V_SHAPE}", (2, 6)),
        (f"SELECT low FROM ticks {V_SHAPE.replace('COUNT(*) AS n', 'nothing(at) AS n')}", (3, 55)),
    ],
)
def test_a_mistake_that_spark_finds_is_shown_in_its_place(
    spark: SparkSession, text: str, place: tuple[int, int]
) -> None:
    with pytest.raises(QueryError, match="Spark: ") as caught:
        motet.sql(text, {"ticks": spark.createDataFrame(make_ticks())})
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert (span.line, span.column) == place


def test_days_are_refused_where_they_may_have_23_hours(spark: SparkSession) -> None:
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES COUNT(*) AS n PATTERN (A B)
              DEFINE B AS B.at < COALESCE(A.at, B.at) + INTERVAL '{}')"""
    frame = spark.sql("SELECT 1 AS id, TIMESTAMP '2024-03-01 12:00:00' AS at")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for long in ("1 day", "24 hours"):
            with pytest.raises(QueryError, match="days differ in length"):
                motet.sql(text.format(long), {"t": frame})
        motet.sql(text.format("23 hours"), {"t": frame})
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_other_uses_are_refused(spark: SparkSession) -> None:
    frame: Any = spark.createDataFrame(make_ticks())
    with pytest.raises(OptionError, match="runs on Spark"):
        motet.sql("SELECT 1", {"ticks": frame}, engine="local")


def test_a_run_that_fails_in_a_task_says_why(spark: SparkSession, tmp_path: Path, motet: Motet) -> None:
    pq.write_table(make_ticks(), tmp_path / "ticks.parquet")
    (tmp_path / "q.sql").write_text(QUERIES["v shape"])
    arguments = ["sql", tmp_path / "q.sql", "--events", tmp_path / "ticks.parquet", "--engine", "spark"]
    assert motet(*arguments).status == 0
    failed = motet(*arguments, "--step-limit", "5")
    assert failed.status == 1
    assert "takes more than 5 steps (option step_limit)" in failed.stderr
