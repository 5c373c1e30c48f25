"""Windows: continuous, sliding and of events; the ends are exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, note

import motet
from motet.language.printer import to_text
from motet.model.pattern import Event, Neg, Not, Seq
from motet.model.query import Query, Workload
from motet.reference.tables import run_table as enumerate_table
from tests.comparison import assert_same_results
from tests.detect.cases import found, stream
from tests.detect.test_against_oracle import engine_results, select_supported
from tests.strategies import build_stream_table, detection_queries, streams


def test_a_continuous_window_is_open_at_its_end() -> None:
    # SEQ(A, B) in three seconds
    assert found("a1 b3 b4", "RETURN * PATTERN SEQ(A a, B b) WITHIN 3 s") == ["a1 b3"]


def test_a_match_in_several_sliding_windows_is_returned_once() -> None:
    # SEQ(A, B) in windows of four seconds every two
    assert found("a2 b3 b5 b6", "RETURN * PATTERN SEQ(A a, B b) WITHIN 4 s SLIDE 2 s") == ["a2 b3", "a2 b5"]


def test_times_before_the_epoch() -> None:
    # SEQ(A, B)
    assert found("a-3 b-1 b0", "RETURN * PATTERN SEQ(A a, B b) WITHIN 3 s SLIDE 3 s") == ["a-3 b-1"]


def test_a_window_of_events_counts_all_of_the_partition() -> None:
    # SEQ(A, B) among three events
    assert found("a1 z2 b3 b4", "RETURN * PATTERN SEQ(A a, B b) WITHIN 3 EVENTS") == ["a1 b3"]


def test_ties_enter_and_leave_a_window_of_events_together() -> None:
    # SEQ(A, B) among three events, two of them tied
    assert found("a1 b2 z2 z2", "RETURN * PATTERN SEQ(A a, B b) WITHIN 3 EVENTS") == []
    assert found("a1 a1", "RETURN * PATTERN A a WITHIN 1 EVENTS") == []


def test_a_not_before_a_match_looks_back_as_many_events_as_a_window_holds() -> None:
    query = "RETURN * PATTERN SEQ(NOT N, A a, B b) WITHIN 4 EVENTS"
    assert found("n1 a2 b3", query) == []
    assert found("n1 z2 a3 z4 b5", query) == ["a3 b5"]
    assert found("a1 b2", query) == ["a1 b2"]


def test_a_not_after_a_match_holds_until_the_window_of_events_is_full() -> None:
    query = "RETURN * PATTERN SEQ(A a, B b, NOT N) WITHIN 4 EVENTS"
    assert found("a1 b2 z3 z4 n5", query) == ["a1 b2"]
    assert found("a1 b2 z3 n4 z5", query) == []
    assert found("a1 b2 z3", query) == []  # not full: nobody knows
    # Both events of time 4 would be too many: the window is full without them.
    assert found("a1 b2 z3 n4 z4", query) == ["a1 b2"]


def test_what_must_be_nowhere_in_a_window_of_events() -> None:
    query = "RETURN * PATTERN SEQ(A a, B b, NEG(N)) WITHIN 4 EVENTS"
    assert found("n1 a2 b3 z4 z5", query) == ["a2 b3"]
    assert found("a2 n3 b4 z5", query) == []
    counted = "RETURN COUNT(*) PATTERN SEQ(A, B, NEG(N)) WITHIN 4 EVENTS"
    results = motet.run(stream("a1 a2 b3 z4 z5 z6"), counted).to_pylist()
    assert [(row["time"], row["COUNT(*)"]) for row in results] == [(4, 1), (5, 1)]


@given(
    query=detection_queries(operators=frozenset({"SEQ", "REPEAT", "OR"}), windows=frozenset({"count"})),
    rows=streams(latest=3),
)
def test_absences_at_the_edges_of_windows_of_events(query: Query, rows: list[dict[str, Any]]) -> None:
    whole, absent = query.pattern, Event("D")
    edges = [(Not(absent), whole), (whole, Not(absent)), (Not(absent), whole, Not(absent)), (whole, Neg(absent))]
    variants = [replace(query, name=f"q{at}", pattern=Seq(parts)) for at, parts in enumerate(edges)]
    workload = select_supported(Workload(tuple(variants)))
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table), enumerate_table(workload, table))


def test_without_a_window_all_of_the_input_is_one() -> None:
    # SEQ(A, B)
    assert found("a1 b1000000", "RETURN * PATTERN SEQ(A a, B b)") == ["a1 b1000000"]
