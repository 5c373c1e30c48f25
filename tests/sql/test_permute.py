"""PERMUTE: any order, the one as written preferred."""

from __future__ import annotations

from tests.sql.tables import labels, labels_by_value


def test_permute_matches_any_order_and_prefers_the_order_as_written() -> None:
    assert labels_by_value([3, 1, 2], "PERMUTE(A, B, C)") == ["1C 2A 3B"]
    assert labels([0, 0], "PERMUTE(A, B)") == ["1A 2B"]
    assert labels([0, 0], "PERMUTE(B, A)") == ["1B 2A"]


def test_permute_prefers_every_match_of_an_earlier_order_to_those_of_a_later_one() -> None:
    # A? B C, without a row for A, comes before A? C B, with one.
    assert labels([2, 3, 2], "PERMUTE(A?, B, C)", "A AS x = 2, B AS x = 2, C AS x = 3") == ["1B 2C"]
