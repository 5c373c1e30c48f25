"""NOT and NEG: in gaps, at either end, in loops, and with conditions on what is bound."""

from __future__ import annotations

from tests.detect.cases import found


def test_not_between_two_events() -> None:
    # SEQ(A, NOT N, B)
    assert found("a1 n2 a3 b4", "RETURN * PATTERN SEQ(A a, NOT N, B b) WHERE a.x IS NULL") == ["a3 b4"]


def test_a_tie_lies_in_no_gap() -> None:
    # SEQ(A, NOT N, B): N at the times of both
    assert found("a1 n1 n3 b3", "RETURN * PATTERN SEQ(A a, NOT N, B b)") == ["a1 b3"]


def test_not_with_a_condition_on_a_bound_variable() -> None:
    # SEQ(A, NOT N, B) where only an N larger than A counts
    query = "RETURN * PATTERN SEQ(A a, NOT N n, B b) WHERE n.x > a.x"
    assert found("a1:5 n2:3 b3 n4:6 b5", query) == ["a1 b3"]


def test_not_first_looks_back_to_the_start_of_the_window() -> None:
    # SEQ(NOT N, A, B) in five seconds
    query = "RETURN * PATTERN SEQ(NOT N, A a, B b) WITHIN 5 s"
    assert found("n1 a2 b3 a8 b9", query) == ["a8 b9"]


def test_not_last_looks_on_to_the_end_of_the_window() -> None:
    # SEQ(A, B, NOT N) in five seconds
    query = "RETURN * PATTERN SEQ(A a, B b, NOT N) WHERE a.x <= b.x WITHIN 5 s"
    assert found("a1:1 b2:1 n3 a10:1 b11:1 n15", query) == ["a10 b11"]


def test_neg_forbids_anywhere_in_the_window() -> None:
    # SEQ(A, NEG(N), B) sliding: one of two windows is clear
    query = "RETURN * PATTERN SEQ(A a, NEG(N), B b) WITHIN 4 s SLIDE 2 s"
    assert found("n1 a2 b3", query) == ["a2 b3"]
    assert found("n1 a2 b3 n4", query) == []


def test_neg_with_a_condition_on_a_bound_variable() -> None:
    # AND(A, NEG(N), B)
    query = "RETURN * PATTERN AND(A a, NEG(N n), B b) WHERE n.x = a.x WITHIN 10 s"
    assert found("a1:1 n2:1 b3 a4:2", query) == ["a4 b3"]


def test_not_in_a_loop_guards_each_round() -> None:
    # (A, NOT N, B)+
    query = "RETURN * PATTERN (A a, NOT N, B b)+"
    assert found("a1 b2 n3 a4 b5", query) == ["a1 a4 b2 b5", "a1 b2", "a4 b5"]


def test_not_in_a_loop_with_a_condition_on_another_variable() -> None:
    # SEQ(C, (NOT N, A)+) where N must be as large as C
    query = "RETURN * PATTERN SEQ(C c, (NOT N n, A a)+) WHERE n.x = c.x"
    assert found("c0:1 a1 n2:1 a3 n4:2 a5", query) == ["c0 a1"]


def test_not_at_both_ends_and_a_condition_between_neighbours() -> None:
    # SEQ(NOT N, A, B, NOT N): refused by online aggregation, so it is detected
    query = "RETURN * PATTERN SEQ(NOT N, A a, B b, NOT N) WHERE a.x < b.x WITHIN 3 s"
    assert found("n0 a4:1 b5:2 n7 n9 a13:1 b14:2 n15", query) == ["a4 b5"]
