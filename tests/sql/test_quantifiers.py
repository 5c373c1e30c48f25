"""Greedy and reluctant quantifiers."""

from __future__ import annotations

import pytest

from tests.sql.tables import labels


@pytest.mark.parametrize(
    ("quantifier", "expected"),
    [
        ("*", ["1-", "2A 3A 4A", "5-"]),
        ("*?", ["1-", "2-", "3-", "4-", "5-"]),
        ("+", ["2A 3A 4A"]),
        ("+?", ["2A", "3A", "4A"]),
        ("?", ["1-", "2A", "3A", "4A", "5-"]),
        ("??", ["1-", "2-", "3-", "4-", "5-"]),
        ("{2}", ["2A 3A"]),
        ("{2}?", ["2A 3A"]),
        ("{2,}", ["2A 3A 4A"]),
        ("{2,}?", ["2A 3A"]),
        ("{,2}", ["1-", "2A 3A", "4A", "5-"]),
        ("{,2}?", ["1-", "2-", "3-", "4-", "5-"]),
        ("{1,2}", ["2A 3A", "4A"]),
        ("{1,2}?", ["2A", "3A", "4A"]),
        ("{,}", ["1-", "2A 3A 4A", "5-"]),
        ("{0}", ["1-", "2-", "3-", "4-", "5-"]),
        ("{4,}", []),
        ("{4,5}?", []),
    ],
)
def test_greedy_quantifiers_take_as_much_and_reluctant_ones_as_little_as_they_can(
    quantifier: str, expected: list[str]
) -> None:
    assert labels([0, 1, 1, 1, 0], f"A{quantifier}", "A AS x = 1") == expected


def test_a_greedy_quantifier_gives_rows_back_and_a_reluctant_one_takes_more_where_the_rest_asks_for_it() -> None:
    assert labels([1, 1, 1], "A+ B") == ["1A 2A 3B"]
    assert labels([1, 1, 1], "A+? B") == ["1A 2B"]
    assert labels([1, 1, 2], "A+? B", "A AS x = 1, B AS x = 2") == ["1A 2A 3B"]


def test_any_number_of_the_empty_pattern_is_none() -> None:
    for empty in ("()", "(A{0})", "((){9000000000})"):
        assert labels([1, 1, 2], f"{empty}{{9000000000}} B", "B AS x = 2") == ["3B"]
