"""Spark, the engine in process and the oracle agree, exactly, on random workloads over random streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, note, settings
from pyspark.sql import SparkSession

from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.errors import Diagnostic
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.plans.compiled import compile_query
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.spark.running import run
from tests.strategies import STREAM_SCHEMA, build_stream_table, streams, workloads

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return spark


def test_local_spark_and_oracle_agree_on_twenty_queries_at_once(session: SparkSession) -> None:
    # Each example has all operators, several partitionings, ties, nulls and shuffled rows.
    @settings(max_examples=8)
    @given(workload=workloads(min_queries=20, max_queries=24), rows=streams())
    def check(workload: Workload, rows: list[dict[str, Any]]) -> None:
        kept = [
            query
            for number, query in enumerate(workload.queries)
            if not isinstance(compile_query(number, workload, 1), Diagnostic)
        ]
        asked = replace(workload, queries=tuple(kept))
        note(to_text(asked))
        table = build_stream_table(rows)
        expected = enumerate_table(asked, table)
        local = run_table(compile_workload(asked, EventSchema(STREAM_SCHEMA)), table).table
        assert_same_results(local, expected)
        frame = session.createDataFrame(table)
        assert_same_results(run(frame, asked, partitions=2).results.toArrow(), expected)

    check()
