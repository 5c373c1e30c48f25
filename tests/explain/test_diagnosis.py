"""An explanation names matches exactly where the oracle finds some, and else the requirement that fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import motet
from motet.errors import MotetError, QueryError, RunError
from motet.explain.diagnosis.relaxations import relax_query
from motet.explain.diagnosis.report import Explanation, render_explanation_json
from motet.language import parse
from motet.model.query import AllVariables, Query, Workload
from motet.reference import evaluate
from tests.command_line import Motet
from tests.strategies import Row, build_stream_table, detection_queries, queries, streams

SECOND = 1_000_000


def table(text: str, **columns: list[Any]) -> pa.Table:
    """Events written as `a1 b3`: a type of one letter and a time."""
    events = text.split()
    rows = {"time": [int(event[1:]) for event in events], "type": [event[0].upper() for event in events]}
    return pa.table({**rows, **columns})


def why(text: str, events: pa.Table, **asked: Any) -> Explanation:
    return motet.explain_match(events, text, **asked)


def matches(query: Query, workload: Workload, rows: list[Row]) -> list[Row]:
    """What the oracle finds of a query's matches."""
    asked = replace(query, returns=(AllVariables(),), equivalence=query.partition, group_by=())
    alone = Workload((asked,), workload.definitions)
    return list(evaluate(alone, rows, tick=SECOND).rows)


@settings(max_examples=60)
@given(query=st.one_of(queries(), detection_queries()), rows=streams(max_rows=12))
def test_matches_are_where_the_oracle_finds_them_and_steps_are_where_it_loses_them(
    query: Query, rows: list[Row]
) -> None:
    workload = Workload((query,))
    try:
        found = motet.explain_match(build_stream_table(rows), workload, limit=3)
        wanted = [len(matches(relaxation.query, workload, rows)) for relaxation in relax_query(query).relaxations]
    except (QueryError, RunError):
        return  # what detection refuses is refused here too
    assert bool(found) == bool(wanted[-1])
    assert wanted == sorted(wanted, reverse=True), "each relaxation requires more"
    on_matches = [step for step in found.steps if step.unit == "matches"]
    assert [step.left for step in on_matches] == wanted[: len(on_matches)]
    if found.first_failing_step is None:
        assert len(on_matches) == len(wanted)
        assert len(found.matches) == min(3, wanted[-1])
    elif found.first_failing_step.unit == "matches":
        assert len(on_matches) == 1 or on_matches[-2].left > 0
        assert found.first_failing_step.kind in ("order", "window") or found.nearest_match is not None
    else:
        assert wanted[0] == 0, "no events, no matches"
    by_position: dict[str | None, list[float]] = {}
    for step in found.steps:
        if step.unit == "events":
            by_position.setdefault(step.position, []).append(step.left)
    assert all(counts == sorted(counts, reverse=True) for counts in by_position.values())


@settings(max_examples=40)
@given(query=detection_queries(), rows=streams(max_rows=12), start=st.integers(0, 8), length=st.integers(0, 12))
def test_a_range_holds_the_matches_that_lie_in_it_though_events_outside_have_their_say(
    query: Query, rows: list[Row], start: int, length: int
) -> None:
    try:
        found = motet.explain_match(build_stream_table(rows), Workload((query,)), start=start, end=start + length)
        everywhere = matches(query, Workload((query,)), rows)
    except (QueryError, RunError):
        return
    inside = [m for m in everywhere if start * SECOND <= m["start"] and m["end"] < (start + length) * SECOND]
    assert found.match_count == len(inside)


STREAM = table("a1 b2 c3 a4 c9", x=[1, 2, 3, 4, 5], k=["u", "u", "v", "u", "u"])


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("PATTERN SEQ(A, D) WITHIN 5", "type", "D"),
        ("PATTERN SEQ(A a, B) WHERE a.x > 4 WITHIN 5", "local", "a.x > 4"),
        ("PATTERN SEQ(A a, C c) WHERE [k] AND c.x < 4 WITHIN 5", "key", "the same k"),
        ("PATTERN SEQ(C, B) WITHIN 9", "order", "SEQ(C, B)"),
        ("PATTERN SEQ(B, A, C) WITHIN 7", "window", "WITHIN 7"),
        ("PATTERN SEQ(A a, B, C c) WHERE a.x > c.x WITHIN 9", "condition", "a.x > c.x"),
        ("PATTERN SEQ(A, C c) WHERE c.x = 3 WITHIN 9 CONTIGUOUS", "policy", "CONTIGUOUS"),
        ("PATTERN SEQ(A a, NOT B, C c) WHERE c.x = 3 WITHIN 9", "not", "NOT B"),
        ("PATTERN SEQ(B, C c, NOT A) WHERE c.x = 3 WITHIN 9", "not", "end of the window"),
        ("PATTERN SEQ(B, C c, NEG(A)) WHERE c.x = 3 WITHIN 9", "neg", "NEG(A)"),
    ],
)
def test_the_first_requirement_that_leaves_nothing_is_named(text: str, kind: str, words: str) -> None:
    failing = why(text, STREAM).first_failing_step
    assert failing is not None
    assert (failing.kind, words in failing.words) == (kind, True)


def test_what_would_help_is_said() -> None:
    assert why("PATTERN SEQ(B, A, C) WITHIN 7", STREAM).hint == "the quickest takes 7 units of time"
    assert why("PATTERN SEQ(A, B, B) WITHIN 7", STREAM).hint == (
        "SEQ(A, B) happens, but what must follow never comes after it"
    )
    assert why("PATTERN SEQ(C, B, A) WITHIN 7", STREAM).hint == "C happens, SEQ(C, B) never does"


def read_times(match: Any) -> dict[str, list[int]]:
    return {name: [event["time"] for event in bound] for name, bound in match["positions"].items()}


@pytest.mark.parametrize("condition", ["a.time - a.time < 1 min", "a.time + INTERVAL '2' SECOND > a.time"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us")])
def test_durations_of_one_event_are_explained(condition: str, kind: pa.DataType) -> None:
    events = table("a1 b2")
    events = events.set_column(0, "time", events["time"].cast(kind))
    assert why(f"RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE {condition} WITHIN 9 s", events)
    assert not why(f"RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE NOT ({condition}) WITHIN 9 s", events)


def test_the_nearest_match_is_shown() -> None:
    found = why("PATTERN SEQ(A a, NOT B, C c) WHERE c.x = 3 WITHIN 9", STREAM)
    assert read_times(found.nearest_match) == {"a": [1], "c": [3]}
    assert "without that: 1 to 3" in str(found)
    assert read_times(why("PATTERN SEQ(B, A, C) WITHIN 7", STREAM).nearest_match) == {"B": [2], "A": [4], "C": [9]}
    assert read_times(why("PATTERN SEQ(A a, C c) WHERE a.x > c.x WITHIN 9", STREAM).nearest_match) == {
        "a": [1],
        "c": [3],
    }
    assert why("PATTERN SEQ(A, D) WITHIN 7", STREAM).nearest_match is None


def test_an_explanation_lists_matches_by_position() -> None:
    found = why("QUERY q RETURN COUNT(*) PATTERN SEQ(A, A+, C) WITHIN 10", table("a1 a2 a3 c4"), limit=2)
    assert found.match_count == 4
    assert len(found.matches) == 2
    assert set(found.matches[0]["positions"]) == {"A", "A#2", "C"}
    assert [event["time"] for event in found.matches[0]["positions"]["C"]] == [4]
    assert "match 1: 1 to 4" in str(found)
    assert "... and 2 more matches" in str(found)
    assert json.loads(render_explanation_json(found))["found"] == 4


def test_a_great_many_matches_are_counted_as_far_as_makes_sense() -> None:
    found = why("PATTERN SEQ(A+, C) WITHIN 100", table(" ".join(f"a{n}" for n in range(60)) + " c60"), limit=1)
    assert [step.left for step in found.steps if step.unit == "matches"] == [2**60 - 1 + 1, 10_000]
    assert "at least 10,000 matches" in str(found)


def test_events_of_a_defined_type_are_told_by_their_condition() -> None:
    workload = parse("EVENT big AS type = 'A' AND x > 3\nQUERY q PATTERN SEQ(big, C) WITHIN 9")
    found = motet.explain_match(STREAM, workload)
    assert [step.left for step in found.steps] == [5, 1, 2, 1, 1]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"key": {"x": 1}}, "does not tell events apart by 'x': its keys are k"),
        ({"key": {"k": 1, "j": 2}}, "'j'"),
        ({"query": "p"}, "there is no query 'p'"),
        ({"start": "noon"}, "'noon' is no time: write a whole number"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(MotetError, match=message):
        why("QUERY q RETURN * PATTERN SEQ(A, B) WHERE [k] WITHIN 5", STREAM, **asked)


def test_the_command_line_explains(tmp_path: Path, motet: Motet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(STREAM, tmp_path / "events.parquet")
    (tmp_path / "q.motet").write_text("QUERY q RETURN COUNT(*) PATTERN SEQ(B, C) WHERE [k] WITHIN 5\n")
    arguments = ["explain-match", "q.motet", "--data", "events.parquet", "--query", "q", "--key", "k=u", "--to", "10"]
    shown = motet(*arguments).stdout
    assert "query q, k = u, to 10: no match" in shown
    assert "why: the events come in order, but never WITHIN 5" in shown
    assert json.loads(motet(*arguments, "--format", "json").stdout)["first_failing_step"]["step"] == 5
