"""Alternation: the earlier alternative is preferred."""

from __future__ import annotations

from tests.sql.tables import labels_by_value


def test_the_earlier_alternative_is_preferred_even_if_it_is_shorter() -> None:
    assert labels_by_value([1, 2], "A | A B") == ["1A"]
    assert labels_by_value([1, 2], "A B | A") == ["1A 2B"]


def test_an_alternative_is_given_up_where_the_rest_does_not_match() -> None:
    assert labels_by_value([1, 2, 3], "(A | A B) C") == ["1A 2B 3C"]
