"""Aggregates of queries that cannot be aggregated online: their matches are found first, and the plan says so."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import motet
from motet.compile import compile_workload
from motet.explain.text import render_plan_json, render_plan_text
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.detect.cases import stream

EVENTS = "a1:1/u a2:5/u b3:3/u c4:4/u c5:9/v a6:2/v b7:1/v c8:7/v c9:3/v"
SEQUENCE = "PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x"


@pytest.mark.parametrize(
    "query",
    [
        f"RETURN COUNT(*), SUM(c.x), MIN(a.x) {SEQUENCE}",
        f"RETURN COUNT(*), AVG(c.x), MAX(c.k) {SEQUENCE} WITHIN 6 s SLIDE 2 s",
        f"RETURN COUNT(*), VAR(c.x), COUNT(a) {SEQUENCE} WITHIN 6 s",
        f"RETURN COUNT(*) {SEQUENCE} AND [k] GROUP BY k WITHIN 6 s",
        f"RETURN COUNT(*) {SEQUENCE} AND [k] WITHIN 6 s",
        f"RETURN COUNT(*) {SEQUENCE} WITHIN 5 EVENTS",
        "RETURN COUNT(*), SUM(c.x) PATTERN SEQ(NOT B, A a, C+ c, NOT B) WHERE a.x < c.x WITHIN 3 s",
        "RETURN COUNT(*) PATTERN SEQ(NOT B, A a, C c) WHERE a.x < c.x WITHIN 5 s",
        "RETURN COUNT(*) PATTERN SEQ(A a, B b, C c) SKIP TILL NEXT WITHIN 9 s",
    ],
)
def test_values_over_matches_are_those_of_plain_enumeration(query: str) -> None:
    table = stream(EVENTS)
    assert_same_results(motet.run(table, query), enumerate_table(motet.read(query), table))


def test_the_plan_says_that_matches_are_found_first_and_why() -> None:
    columns = pa.schema([("time", pa.int64()), ("type", pa.string()), ("x", pa.int64())])
    text = f"QUERY far RETURN COUNT(*) {SEQUENCE} WITHIN 6 s\nQUERY near RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 6 s"
    program = compile_workload(motet.parse(text), EventSchema(columns))
    shown = render_plan_text(program)
    assert "aggregated after detection: this condition compares events that are not neighbours in every match" in shown
    assert [compiled.query.name for compiled in program.queries.values()] == ["near"]
    plan = json.loads(render_plan_json(program))
    (detect,) = plan["detect"]
    assert detect["queries"][0]["reason"].startswith("this condition compares events")
    assert [node["kind"] for node in detect["nodes"]].count("join") == 2


def test_a_column_without_values_has_no_distinct_ones() -> None:
    events = pa.table({"time": [1, 2, 3], "type": ["A", "B", "B"], "x": pa.nulls(3)})
    for window in ("WITHIN 10 s", "WITHIN 10 s SLIDE 10 s", ""):
        query = f"RETURN COUNT(*), COUNT(DISTINCT b.x) PATTERN SEQ(A, B+ b) {window}"
        assert set(motet.run(events, query)["COUNT(DISTINCT b.x)"].to_pylist()) == {0}
