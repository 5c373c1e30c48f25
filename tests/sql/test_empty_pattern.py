"""The empty pattern, and rounds of a loop that take no row."""

from __future__ import annotations

from tests.sql.tables import labels, labels_by_value


def test_the_empty_pattern_matches_no_row_everywhere() -> None:
    assert labels([1, 1], "()") == ["1-", "2-"]
    assert labels_by_value([2, 1], "A | ()") == ["1-", "2A"]
    assert labels_by_value([1, 1], "() | A") == ["1-", "2-"]


def test_a_round_of_a_loop_that_takes_no_row_is_its_last() -> None:
    assert labels_by_value([1, 1, 2], "(A?)* B") == ["1A 2A 3B"]
    assert labels_by_value([1, 1], "(() | A)*") == ["1-", "2-"]
    assert labels_by_value([1, 2], "(A ()*)* B") == ["1A 2B"]
    assert labels_by_value([1, 1], "(A*){3}") == ["1A 2A"]
    assert labels_by_value([1, 2], "(^)* A B") == ["1A 2B"]
    same = "A AS x = FIRST(x), B AS x > A.x"  # of the match so far, so that nothing is remembered
    assert labels([1, 1, 2], "(A?)* B", same) == ["1A 2A 3B"]
    assert labels([1, 1], "(() | A)*", "A AS x = FIRST(x)") == ["1-", "2-"]
