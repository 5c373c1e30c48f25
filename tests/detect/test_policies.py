"""SKIP TILL NEXT and CONTIGUOUS: which events a match may pass over."""

from __future__ import annotations

from tests.detect.cases import found


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
