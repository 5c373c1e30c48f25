"""On real data sets, where they are at hand, the engine in process and Spark agree on large workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import motet
from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results

TRAFFIC = Path(__file__).parents[2] / "shared" / "data" / "aarhus_traffic.parquet"

# Every operator, window, kind of partition and aggregate. X, Y and Z stand for states of traffic, V for a number.
QUESTIONS = """
QUERY runs
RETURN key, COUNT(*) PATTERN SEQ(X, Y+, Z) GROUP BY key WITHIN 30 min SLIDE 30 min
QUERY nested
RETURN COUNT(*) PATTERN SEQ(X, SEQ(Y, Z)+) WHERE [key] WITHIN 30 min SLIDE 15 min
QUERY without
RETURN COUNT(*) PATTERN SEQ(X, NOT Y, Z) WHERE [key] WITHIN 1 h SLIDE 1 h
QUERY never
RETURN key, COUNT(*) PATTERN SEQ(X, Z, NEG(Y)) GROUP BY key WITHIN 1 h SLIDE 1 h
QUERY not_before
RETURN COUNT(*) PATTERN SEQ(NOT Z, X, Y) WHERE [key] WITHIN 1 h SLIDE 30 min
QUERY not_after
RETURN COUNT(*) PATTERN SEQ(X, Y, NOT Z) WHERE [key] WITHIN 1 h SLIDE 1 h
QUERY both
RETURN COUNT(*) PATTERN AND(X, Y) WHERE [key] WITHIN 20 min SLIDE 10 min
QUERY either
RETURN key, COUNT(*) PATTERN SEQ(OR(X, Y), Z) GROUP BY key WITHIN 20 min SLIDE 20 min
QUERY at_every_moment
RETURN key, COUNT(*) PATTERN SEQ(X, Y, Z) GROUP BY key WITHIN 20 min
QUERY within_few
RETURN key, COUNT(*) PATTERN SEQ(X, Y) GROUP BY key WITHIN 3 EVENTS
QUERY two_to_four
RETURN COUNT(*) PATTERN X{2,4} WHERE [key] WITHIN 30 min SLIDE 30 min
QUERY values
RETURN SUM(a.V), AVG(b.V), MIN(a.V), MAX(b.V), COUNT(b) PATTERN SEQ(X a, Y+ b) WHERE [key] WITHIN 30 min SLIDE 30 min
QUERY falling
RETURN key, COUNT(*), AVG(r.V) PATTERN X+ r WHERE NEXT(r).V < r.V GROUP BY key WITHIN 1 h SLIDE 1 h
"""


def questions(states: list[str], number: str) -> str:
    """The questions above, and one about each pair of states."""
    pairs = [(first, last) for first in states for last in states if first != last]
    changes = [
        f"QUERY {first}_to_{last}\nRETURN COUNT(*) PATTERN {first}, {last} WHERE [key] WITHIN 30 min SLIDE 15 min"
        for first, last in pairs
    ]
    text = QUESTIONS.replace(".V", f".{number}")
    for letter, state in zip("XYZ", states, strict=False):
        text = text.replace(f"({letter}", f"({state}").replace(f" {letter}", f" {state}")
    return "\n".join((text, *changes))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(not TRAFFIC.exists(), reason=f"there is no {TRAFFIC.name} in ../shared/data")
def test_local_and_spark_agree_on_thirty_queries_over_a_million_and_a_half_readings(spark: Any) -> None:
    table = pq.read_table(TRAFFIC)
    numbers = [field.name for field in table.schema if str(field.type) in ("double", "float", "int64", "int32")]
    number = next(name for name in numbers if name not in ("key", "time"))
    workload = motet.parse(questions(table.column("type").unique().to_pylist(), number))
    assert len(workload.queries) >= 30
    outcome = run_table(compile_workload(workload, EventSchema(table.schema)), table)
    assert outcome.rows > 1_500_000
    assert len(set(outcome.table.column("query").to_pylist())) >= 30
    result = motet.run(spark.read.parquet(str(TRAFFIC)), workload)
    assert_same_results(result.toArrow(), outcome.table)
