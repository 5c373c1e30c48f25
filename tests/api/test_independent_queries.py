"""Queries of one file are independent: no name or type in one makes another wrong or changes its result."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pytest

import motet

EVENTS = pa.table(
    {
        "time": [1, 2, 3, 4],
        "type": ["A", "B", "A", "B"],
        "origin": ["x", "x", "y", "y"],
        "price": [1.5, 2.5, 3.5, 4.5],
        "qty": [1, 2, 3, 4],
    }
)
QUERIES = {
    "grouped": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 5 GROUP BY origin",
    "computed": "RETURN a.origin AS origin, b.qty AS top PATTERN SEQ(A a, B b) WITHIN 2",
    "text": "RETURN MAX(B.origin) AS top PATTERN SEQ(A, B) WITHIN 5",
    "number": "RETURN MAX(B.price) AS top, COUNT(*) AS start PATTERN SEQ(A, B) WITHIN 5",
    "event": "RETURN b AS top PATTERN SEQ(A a, B b) WITHIN 2",
    "events": "RETURN b AS top PATTERN SEQ(A a, B+ b) WITHIN 2",
}
TEXT = "\n".join(f"QUERY {name} {text}" for name, text in QUERIES.items())


@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_each_query_has_the_result_it_has_alone(engine: Literal["local", "oracle"]) -> None:
    together = motet.ask(EVENTS, TEXT, engine=engine)
    for name, text in QUERIES.items():
        alone = motet.ask(EVENTS, f"QUERY {name} {text}", engine=engine)
        assert together[name].equals(alone[name])
        assert len(alone[name]) > 0


@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_columns_that_clash_are_qualified_in_the_one_table(engine: Literal["local", "oracle"]) -> None:
    table = motet.run(EVENTS, TEXT, engine=engine)
    named = {name for name in table.column_names if "." in name}
    tops = {f"{name}.top" for name in ("computed", "text", "number", "event", "events")}
    assert named == {*tops, "computed.origin", "number.start"}
    assert table.schema.field("number.top").type == pa.float64()
    assert table.schema.field("computed.top").type == pa.int64()


@pytest.mark.spark
def test_columns_that_clash_on_spark(spark: object) -> None:
    frame = spark.createDataFrame(EVENTS)  # type: ignore[attr-defined]
    found = motet.ask(frame, TEXT)
    here = motet.ask(EVENTS, TEXT)
    for name in QUERIES:
        rows, expected = (each[name].to_pylist() for each in (found, here))
        assert sorted(map(repr, rows)) == sorted(map(repr, expected))
