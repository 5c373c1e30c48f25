"""Queries of one file are independent: no name or type in one makes another wrong or changes its result."""

from __future__ import annotations

import json
from typing import Literal

import pyarrow as pa
import pytest

import motet
from motet.io.writers import json_lines
from tests.comparison import assert_same_results

EVENTS = pa.table(
    {
        "time": [1, 2, 3, 4],
        "type": ["A", "B", "A", "B"],
        "origin": ["x", "x", "y", "y"],
        "price": [1.5, 2.5, 3.5, 4.5],
        "qty": [1, 2, 3, 4],
        "start": ["p", "p", "q", "q"],
        "end": [7, 7, 8, 8],
        "window_end": [1, 1, 2, 2],
    }
)
QUERIES = {
    "grouped": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 5 GROUP BY origin",
    "computed": "RETURN a.origin AS origin, b.qty AS top PATTERN SEQ(A a, B b) WITHIN 2",
    "text": "RETURN MAX(B.origin) AS top PATTERN SEQ(A, B) WITHIN 5",
    "number": "RETURN MAX(B.price) AS top, COUNT(*) AS start PATTERN SEQ(A, B) WITHIN 5",
    "event": "RETURN b AS top PATTERN SEQ(A a, B b) WITHIN 2",
    "events": "RETURN b AS top PATTERN SEQ(A a, B+ b) WITHIN 2",
    "by_start": "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY start WITHIN 5 HAVING start = 'p'",
    "by_end": "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY end, origin WITHIN 5 AFTER MATCH SKIP PAST LAST EVENT",
    "by_window": "RETURN a.qty AS qty, b PATTERN SEQ(A a, B b) GROUP BY window_end WITHIN 5",
    "whole_by_window": "RETURN a, b PATTERN SEQ(A a, B b) GROUP BY window_end WITHIN 5",
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
    groups = {"by_start.start", "by_end.end", "by_window.window_end", "whole_by_window.window_end"}
    assert named == {*tops, *groups, "computed.origin", "number.start"}
    assert table.schema.field("number.top").type == pa.float64()
    assert table.schema.field("computed.top").type == pa.int64()


@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_names_like_those_of_columns_that_clash_are_told_apart(engine: Literal["local", "oracle"]) -> None:
    events = EVENTS.append_column("user", pa.array([{"id": "u"}] * 4))
    queries = {
        "user": "RETURN COUNT(*) AS id PATTERN SEQ(A, B) WITHIN 5",
        "nested": "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY user.id WITHIN 5",
        "text": "RETURN MAX(B.origin) AS top PATTERN SEQ(A, B) WITHIN 5",
        "number": 'RETURN COUNT(*) AS top, MAX(B.price) AS "text.top" PATTERN SEQ(A, B) WITHIN 5',
    }
    together = motet.ask(events, "\n".join(f"QUERY {name} {text}" for name, text in queries.items()), engine=engine)
    for name, text in queries.items():
        assert together[name].equals(motet.ask(events, f"QUERY {name} {text}", engine=engine)[name])


def test_columns_that_clash_on_a_stream_and_in_json() -> None:
    stream = motet.live(EVENTS, TEXT)
    fed = pa.concat_tables([stream.feed(EVENTS), stream.feed(EVENTS.slice(0, 0), watermark=100)])
    expected = motet.run(EVENTS, TEXT)
    assert_same_results(fed, expected)
    written = list(json_lines(expected, motet.parse(TEXT)))
    groups = {row["query"]: row["group"] for row in map(json.loads, written) if "group" in row}
    assert groups["by_start"] == {"start": "p"}
    assert groups["by_end"] == {"end": 8, "origin": "y"}


@pytest.mark.spark
def test_columns_that_clash_on_spark(spark: object) -> None:
    frame = spark.createDataFrame(EVENTS)  # type: ignore[attr-defined]
    found = motet.ask(frame, TEXT)
    here = motet.ask(EVENTS, TEXT)
    for name in QUERIES:
        rows, expected = (each[name].to_pylist() for each in (found, here))
        assert sorted(map(repr, rows)) == sorted(map(repr, expected))
