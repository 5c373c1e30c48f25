"""SKIP TILL NEXT and CONTIGUOUS: which events a match may pass over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from motet.language.printer import to_text
from motet.model.query import Policy, Query, Workload
from motet.reference.tables import run_table as enumerate_table
from tests.chunks import assert_same_in_chunks
from tests.comparison import assert_same_results
from tests.detect.cases import found
from tests.detect.test_against_oracle import engine_results, select_supported
from tests.strategies import (
    OPERATORS,
    build_stream_table,
    conjunction_queries,
    detection_queries,
    policy_queries,
    streams,
)

Rows = list[dict[str, Any]]
FEW = ("A", "B", "C")
POLICIES = (Policy.SKIP_TILL_NEXT, Policy.CONTIGUOUS)
# Times apart, mostly, so that there are neighbours; some ties.
DENSE = streams(min_rows=8, max_rows=14, types=FEW, keys=2, earliest=-9, latest=30)


def test_skip_till_next_takes_the_first_that_fits() -> None:
    # SEQ(A, B)
    assert found("a1 z2 b3 b4", "RETURN * PATTERN SEQ(A a, B b) SKIP TILL NEXT") == ["a1 b3"]


def test_skip_till_next_passes_over_what_does_not_fit() -> None:
    # SEQ(A, B) where the first B fails an adjacent condition
    query = "RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x SKIP TILL NEXT"
    assert found("a1:5 b2:3 b3:6 b4:7", query) == ["a1 b3"]


def test_contiguous_passes_over_nothing() -> None:
    # SEQ(A, B)
    assert found("a1 b2 a3 z4 b5", "RETURN * PATTERN SEQ(A a, B b) CONTIGUOUS") == ["a1 b2"]


def test_contiguous_runs_of_a_loop() -> None:
    # SEQ(A+, B)
    assert found("a1 a2 b3", "RETURN * PATTERN SEQ(A+ a, B b) CONTIGUOUS") == ["a1 a2 b3", "a2 b3"]


def test_contiguous_is_meant_within_the_partition() -> None:
    # SEQ(A, B) with [k]
    query = "RETURN * PATTERN SEQ(A a, B b) WHERE [k] CONTIGUOUS"
    assert found("a1/u z2/v b3/u", query) == ["a1 b3"]


def test_skip_till_next_passes_over_what_the_first_event_forbids_and_then_fails() -> None:
    # SEQ(A, B, C): that C comes after A says nothing of which C is the next, so a condition on both only filters.
    query = "RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x SKIP TILL NEXT"
    assert found("a1:5 b2:3 c3:4 c4:7", query) == []


def test_last_and_first_are_compared_where_variables_meet_and_where_they_do_not() -> None:
    where = "WHERE LAST(a).x < FIRST(b).x WITHIN 20 CONTIGUOUS"
    events = "a1:1 a2:3 b3:2 b4:5 a5:1 c6:1 b7:0 a8:0 c9:9 b10:4 b11:1"
    assert found("a1:3 a2:1 b3:2 b4:0", f"RETURN * PATTERN SEQ(A+ a, B+ b) {where}") == [
        "a1 a2 b3",
        "a1 a2 b3 b4",
        "a2 b3",
        "a2 b3 b4",
    ]
    assert found(events, f"RETURN * PATTERN SEQ(A+ a, B+ b) {where}") == []
    # With a step between the two, a part that may be missing, or a way back it is a condition of the whole match.
    assert found(events, f"RETURN * PATTERN SEQ(A+ a, C? c, B+ b) {where}") == ["a8 c9 b10", "a8 c9 b10 b11"]
    assert found(events, f"RETURN * PATTERN SEQ(A? a, B+ b) {where}") == []
    found(events, f"RETURN * PATTERN SEQ(A+ a, SEQ(B b, A?)+) {where}")
    found(events, f"RETURN * PATTERN SEQ(A a, B b)+ {where}")


def test_ties_take_the_next_step_together() -> None:
    # SEQ(A, B) with two B at one time
    assert found("a1 b3:1 b3:2 b4", "RETURN * PATTERN SEQ(A a, B b) SKIP TILL NEXT") == ["a1 b3", "a1 b3"]
    assert found("a1 b3:1 b3:2 b4", "RETURN * PATTERN SEQ(A a, B b) CONTIGUOUS") == []


@pytest.mark.parametrize("policy", [Policy.SKIP_TILL_NEXT, Policy.CONTIGUOUS])
@settings(max_examples=300)
@given(data=st.data(), rows=DENSE)
def test_policies_give_the_results_of_plain_enumeration(policy: Policy, data: st.DataObject, rows: Rows) -> None:
    operators = OPERATORS if data.draw(st.integers(0, 4)) == 4 else OPERATORS - {"AND"}
    query = data.draw(detection_queries(policies=(policy,), operators=operators, types=FEW))
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table), enumerate_table(workload, table))


@settings(max_examples=400)
@given(query=policy_queries(types=FEW, policies=(Policy.SKIP_TILL_NEXT, Policy.CONTIGUOUS)), rows=DENSE)
def test_conditions_within_runs_give_the_results_of_plain_enumeration(query: Query, rows: Rows) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table), enumerate_table(workload, table))


@settings(max_examples=300)
@given(
    query=conjunction_queries(policies=POLICIES, types=FEW), rows=streams(min_rows=6, max_rows=12, types=FEW, keys=2)
)
def test_steps_of_an_and_give_the_results_of_plain_enumeration(query: Query, rows: Rows) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table), enumerate_table(workload, table))


@given(
    query=detection_queries(policies=(Policy.SKIP_TILL_NEXT, Policy.CONTIGUOUS), operators=OPERATORS - {"AND"}),
    rows=streams(min_rows=8, earliest=-9, latest=30),
    chunk=st.integers(1, 6),
)
def test_policies_give_the_same_in_chunks(query: Query, rows: Rows, chunk: int) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(sorted(rows, key=lambda row: (row["time"] is None, row["time"])))
    assert_same_in_chunks(workload, table, chunk)
