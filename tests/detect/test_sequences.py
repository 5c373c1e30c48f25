"""SEQ: strictly one after the other; what lies between does not matter, and ties never follow each other."""

from __future__ import annotations

from tests.detect.cases import found


def test_every_combination_in_order_is_a_match() -> None:
    # SEQ(A, B)
    assert found("a1 a2 b3 b4", "RETURN * PATTERN SEQ(A a, B b)") == ["a1 b3", "a1 b4", "a2 b3", "a2 b4"]


def test_equal_times_do_not_follow_each_other() -> None:
    # SEQ(A, B, C)
    assert found("a1 b1 b2 c2 c3", "RETURN * PATTERN SEQ(A a, B b, C c)") == ["a1 b2 c3"]


def test_rows_may_come_in_any_order() -> None:
    # SEQ(A, B)
    assert found("b4 a2 b1 a3", "RETURN * PATTERN SEQ(A a, B b)") == ["a2 b4", "a3 b4"]


def test_positions_of_one_type_are_told_apart() -> None:
    # SEQ(A, A) with a condition between them
    assert found("a1:1 a2:3 a3:2", "RETURN * PATTERN SEQ(A x, A y) WHERE x.x < y.x") == ["a1 a2", "a1 a3"]


def test_nothing_in_nothing_out() -> None:
    # SEQ(A, B)
    assert found("", "RETURN * PATTERN SEQ(A a, B b) WITHIN 5 s") == []
    assert found("c1 c2", "RETURN * PATTERN SEQ(A a, B b) WITHIN 5 s") == []


def test_a_sequence_of_five_with_conditions_at_its_ends() -> None:
    # SEQ(A, B, C, B, A)
    query = "RETURN * PATTERN SEQ(A v, B w, C x, B y, A z) WHERE v.x = z.x AND w.x < y.x"
    assert found("a1:1 b2:5 c3:0 b4:6 b5:4 a6:1 a7:2", query) == ["a1 b2 c3 b4 a6"]
