"""Windows: continuous, sliding and of events; the ends are exact."""

from __future__ import annotations

from tests.detect.cases import found


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


def test_without_a_window_all_of_the_input_is_one() -> None:
    # SEQ(A, B)
    assert found("a1 b1000000", "RETURN * PATTERN SEQ(A a, B b)") == ["a1 b1000000"]
