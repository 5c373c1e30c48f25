"""Repetition without end: all subsets in order, NEXT, nesting, and aggregates over what one match binds."""

from __future__ import annotations

from tests.detect.cases import found


def test_all_subsets_are_matches() -> None:
    # A+
    assert found("a1 a2 a3", "RETURN * PATTERN A+ a") == ["a1", "a1 a2", "a1 a2 a3", "a1 a3", "a2", "a2 a3", "a3"]


def test_a_loop_in_a_loop_is_the_loop() -> None:
    # (A+)+
    assert found("a1 a2", "RETURN * PATTERN (A+ a)+") == ["a1", "a1 a2", "a2"]


def test_rounds_of_a_sequence() -> None:
    # SEQ(C, SEQ(A, B)+, D)
    assert found("c0 a1 b2 a3 b4 d5", "RETURN * PATTERN SEQ(C c, (A a, B b)+, D d)") == [
        "c0 a1 a3 b2 b4 d5",
        "c0 a1 b2 d5",
        "c0 a1 b4 d5",
        "c0 a3 b4 d5",
    ]


def test_next_compares_neighbours_in_a_match() -> None:
    # A+ rising
    query = "RETURN * PATTERN A+ a WHERE a.x < NEXT(a).x"
    assert found("a1:1 a2:3 a3:2", query) == ["a1", "a1 a2", "a1 a3", "a2", "a3"]


def test_next_in_a_loop_beside_other_parts() -> None:
    # SEQ(B, A+, C) rising, compared at its ends
    query = "RETURN * PATTERN SEQ(B b, A+ a, C c) WHERE a.x < NEXT(a).x AND b.x < c.x AND LAST(a).x < c.x"
    assert found("b0:0 a1:1 a2:3 a3:2 c4:3", query) == ["b0 a1 a3 c4", "b0 a1 c4", "b0 a3 c4"]


def test_aggregates_over_one_match() -> None:
    # SEQ(A+, B) with COUNT, AVG and SUM over the As
    query = "RETURN * PATTERN SEQ(A+ a, B b) WHERE COUNT(a) >= 2 AND AVG(a.x) > b.x AND SUM(a.x) < 9"
    assert found("a1:1 a2:4 a3:6 b4:2", query) == ["a1 a2 b4", "a1 a3 b4"]


def test_first_and_last_of_a_loop() -> None:
    # SEQ(A+, B)
    query = "RETURN FIRST(a).x AS first, LAST(a).x AS last PATTERN SEQ(A+ a, B b) WHERE FIRST(a).x < LAST(a).x"
    assert found("a1:1 a2:4 b4:2", query) == ["1 4"]


def test_at_least_two_rounds() -> None:
    # A{2,}
    assert found("a1 a2 a3", "RETURN * PATTERN A{2,} a") == ["a1 a2", "a1 a2 a3", "a1 a3", "a2 a3"]


def test_nulls_are_passed_over_by_aggregates_and_fail_comparisons() -> None:
    # A+ with nulls
    query = "RETURN a, MAX(a.x) - 0 AS most PATTERN A+ a WHERE MIN(a.x) > 1"
    assert found("a1 a2:2", query) == ["a1 a2 2", "a2 2"]
