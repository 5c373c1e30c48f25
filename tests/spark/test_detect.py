"""Matches on Spark: the same as in process, also of keys that are cut by time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.language import parse
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from motet.spark import batch
from motet.spark.sample import compile_for
from tests.comparison import assert_same_results
from tests.spark.running import run

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return spark


def test_a_hot_key_is_cut_by_time_and_no_match_is_lost_or_found_twice(session: SparkSession) -> None:
    rows = [{"time": t, "type": "AB"[t % 2], "k": "hot", "x": t * 7 % 11} for t in range(120_000)]
    table = pa.Table.from_pylist(rows)
    workload = parse("RETURN a, b PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 4 s")
    expected = run_table(compile_workload(workload, EventSchema(table.schema)), table).table
    result = run(session.createDataFrame(table), workload, partitions=6).results.toArrow()
    assert len(result) == len(expected) > 10_000
    assert sorted(result.column("start").to_pylist()) == expected.column("start").to_pylist()


@pytest.mark.parametrize("returns", ["a, b", "COUNT(*)"], ids=["matches", "combined"])
def test_queries_that_a_limit_cuts_short_are_named(session: SparkSession, returns: str) -> None:
    rows = [{"time": t, "type": "AB"[t // 20], "k": k, "x": t} for t in range(40) for k in "uv"]
    condition = "[k] AND a.x < b.x AND COUNT(a) = 1"
    query = f"QUERY cut RETURN {returns} PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 60 s SLIDE 60 s"
    other = "QUERY whole RETURN a PATTERN A a WHERE [k] AND COUNT(a) > 0 WITHIN 60 s"
    started = run(
        session.createDataFrame(pa.Table.from_pylist(rows)),
        parse(f"{query}\n{other}"),
        match_limit=30,
        on_limit="truncate",
    )
    found = started.results.toArrow()
    assert started.truncated() == ("cut",)
    assert not any("truncated" in name for name in found.column_names)
    cut = [row for row in found.to_pylist() if row["query"] == "cut"]
    assert len(cut) == 60 if returns == "a, b" else [row["COUNT(*)"] for row in cut] == [60]


def test_structs_of_matches_keep_the_types_of_columns(session: SparkSession) -> None:
    frame = session.sql(
        "SELECT timestamp'2024-01-01 10:00:00' AS time, 'A' AS type, CAST(1 AS INT) AS x, array(1, 2) AS more"
    )
    result = run(frame, parse("RETURN * PATTERN A a WHERE COUNT(a) > 0 WITHIN 1 min")).results
    assert result.schema["a"].dataType.simpleString() == "struct<time:timestamp,type:string,x:int,more:array<int>>"
    (row,) = result.collect()
    assert (row["a"]["x"], row["a"]["more"]) == (1, [1, 2])


def test_a_search_for_joins_is_made_once_for_all_tasks(session: SparkSession) -> None:
    workload = parse(
        """
        QUERY one RETURN * PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < c.x WITHIN 9 s
        QUERY two RETURN * PATTERN SEQ(A a, B b, D d) WHERE [k] AND a.x < d.x WITHIN 5 s
        """
    )
    rows = [{"time": t, "type": "ABCD"[t * 5 % 7 % 4], "k": "uvw"[t % 3], "x": t * 7 % 11} for t in range(200)]
    table = pa.Table.from_pylist(rows)
    frame = session.createDataFrame(table)
    program = compile_for(frame, workload, Options(optimizer="multitree", budget=0.2))
    started = batch.run(frame, program, partitions=2)
    (branch,) = started.program.detect
    assert branch.trees is not None
    result = started.results.toArrow()
    assert_same_results(result, enumerate_table(workload, table))
