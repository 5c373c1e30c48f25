"""OR, `?` and `{n,m}`: alternatives, each with variables that others leave unbound."""

from __future__ import annotations

from tests.detect.cases import found


def test_either_part_and_the_other_is_null() -> None:
    # SEQ(A, OR(B, C))
    assert found("a1 b2 c3", "RETURN * PATTERN SEQ(A a, OR(B b, C c))") == ["a1 b2", "a1 c3"]


def test_a_condition_on_what_is_unbound_holds() -> None:
    # SEQ(A, OR(B, C)) with a condition that only the first has
    query = "RETURN * PATTERN SEQ(A a, OR(B b, C c)) WHERE a.x < b.x"
    assert found("a1:5 b2:3 b3:6 c4:1", query) == ["a1 b3", "a1 c4"]


def test_what_is_optional_may_be_left_out() -> None:
    # SEQ(A, B?, C)
    query = "RETURN * PATTERN SEQ(A a, B? b, C c) WHERE a.x < c.x"
    assert found("a1:1 b2 c3:2", query) == ["a1 b2 c3", "a1 c3"]


def test_copies_of_a_counted_repetition_are_all_compared() -> None:
    # SEQ(A, B{1,2}) with a condition that each B must meet
    query = "RETURN * PATTERN SEQ(A a, B{1,2} b) WHERE a.x < b.x"
    assert found("a1:1 b2:2 b3:0 b4:3", query) == ["a1 b2", "a1 b2 b4", "a1 b4"]


def test_two_ors_of_the_same_event_are_two_matches() -> None:
    # OR(A, A)
    assert found("a1", "RETURN * PATTERN OR(A x, A y)") == ["a1", "a1"]
