"""PATTERN as a whole: what takes long, and what is refused."""

from __future__ import annotations

import pytest

from motet.errors import QueryError
from tests.sql.tables import labels, match


def test_a_pattern_that_fails_in_many_ways_ends_all_the_same() -> None:
    assert labels([1] * 40, "((A | B)+)+ C", "A AS x = 1, B AS x = 1, C AS x = 2") == []
    assert labels([1] * 2000, "(A+)+ B", "A AS x = 1, B AS x = 2") == []


def test_long_matches_are_found() -> None:
    size = 200_000
    found = match([1] * size, "A+ B?", "A AS x = 1", "COUNT(*) AS size", "size", "ONE ROW PER MATCH")
    assert found == [(size,)]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "PATTERN needs a variable"),
        ("A |", "PATTERN needs a variable here"),
        ("(A", "never closed"),
        ("{- A", "never closed"),
        ("A+*", "a quantifier follows a quantifier"),
        ("A{3,2}", "allows nothing"),
        ("A{0,0}", "allows nothing"),
        ("A{x}", "not understood"),
        ("A, B", "not understood"),
        ("A & B", "not understood"),
        ("A{30000}", "too many steps"),
        ("PERMUTE(A, B, C, D, E, F, G)", "too many orders"),
    ],
)
def test_patterns_that_are_wrong_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        labels([1], pattern)
