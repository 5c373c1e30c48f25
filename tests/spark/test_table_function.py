"""`SELECT * FROM motet(TABLE(events), '...')` gives what a run over the same rows gives, with a known schema."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import motet
from tests.comparison import assert_same_results
from tests.spark.test_batch import random_events

pytestmark = pytest.mark.spark
KEYED = """
QUERY sliding RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 40 s SLIDE 10 s
QUERY found RETURN a.x, b.x PATTERN SEQ(A a, B b) WHERE a.x < b.x GROUP BY k WITHIN 5 s
"""
COMBINED = "QUERY combined RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 12 s SLIDE 4 s"


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> Iterator[pa.Table]:
    rows = random_events(600)
    motet.register(spark)
    spark.createDataFrame(rows).createOrReplaceTempView("seen_events")
    yield rows
    spark.catalog.dropTempView("seen_events")


@pytest.mark.parametrize("queries", [KEYED, COMBINED, KEYED + COMBINED])
def test_rows_are_those_of_a_run(spark: SparkSession, events: pa.Table, queries: str) -> None:
    found = spark.sql(f"SELECT * FROM motet(TABLE(seen_events), '{queries}')")
    expected = motet.run(events, queries)
    assert found.columns == expected.column_names  # known before anything runs
    assert_same_results(found.toArrow().cast(expected.schema), expected)


def test_results_can_be_joined_and_options_be_given(spark: SparkSession, events: pa.Table) -> None:
    statement = f"""
        SELECT k, sum(`COUNT(*)`) AS total
        FROM motet(
            TABLE(SELECT time AS at, type AS kind, k, x FROM seen_events), '{KEYED}', time => 'at', type => 'kind'
        )
        WHERE query = 'sliding' GROUP BY k
    """
    rows = motet.run(events, KEYED).filter(pc.equal(pc.field("query"), "sliding"))
    expected = rows.group_by("k").aggregate([("COUNT(*)", "sum")]).rename_columns(["k", "total"])
    found = {row["k"]: int(row["total"]) for row in spark.sql(statement).collect()}
    assert found == {row["k"]: int(row["total"]) for row in expected.to_pylist()}


def test_rows_of_keys_are_divided_among_tasks(spark: SparkSession, events: pa.Table) -> None:
    keyed = spark.sql(f"SELECT * FROM motet(TABLE(seen_events), '{KEYED}')")
    assert "hashpartitioning" in keyed._jdf.queryExecution().executedPlan().toString()
    combined = spark.sql(f"SELECT * FROM motet(TABLE(seen_events), '{COMBINED}')")
    assert "SinglePartition" in combined._jdf.queryExecution().executedPlan().toString()


def test_mistakes_are_told_before_anything_runs(spark: SparkSession, events: pa.Table) -> None:
    with pytest.raises(AnalysisException, match="PATTERN SEQ"):
        spark.sql("SELECT * FROM motet(TABLE(seen_events), 'RETURN COUNT(*) PATTERN SEQ(A,')")
    with pytest.raises(AnalysisException, match="kind"):
        spark.sql("SELECT * FROM motet(TABLE(seen_events), 'RETURN COUNT(*) PATTERN A', type => 'kind')")
