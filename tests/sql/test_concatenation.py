"""Concatenation and groups: variables that follow each other."""

from __future__ import annotations

from tests.sql.tables import labels, labels_by_value

FALLS = "DOWN AS x < PREV(x), UP AS x > PREV(x)"
V = [90, 80, 70, 80, 90, 50, 40, 60]


def test_concatenation_matches_neighbouring_rows() -> None:
    assert labels_by_value([1, 2, 3, 1, 3], "A B C") == ["1A 2B 3C"]


def test_a_v_shape_is_a_fall_and_a_rise() -> None:
    assert labels(V, "STRT DOWN+ UP+", FALLS) == ["1STRT 2DOWN 3DOWN 4UP 5UP", "6STRT 7DOWN 8UP"]


def test_groups_are_repeated_as_a_whole() -> None:
    assert labels_by_value([1, 2, 1, 2, 1], "(A B)+") == ["1A 2B 3A 4B"]
    assert labels_by_value([1, 2, 1, 2, 3], "(A | B){3,} C") == ["1A 2B 3A 4B 5C"]
