"""Variables: without a definition, in several places, with quoted names."""

from __future__ import annotations

from tests.sql.tables import labels, labels_by_value


def test_a_variable_without_a_definition_matches_every_row() -> None:
    assert labels([5, 7], "A B", "A AS x = 5") == ["1A 2B"]


def test_a_variable_may_stand_in_several_places() -> None:
    assert labels_by_value([1, 2, 1], "A B A") == ["1A 2B 3A"]


def test_names_of_variables_are_in_capitals_unless_they_are_quoted() -> None:
    assert labels([1, 2], 'a "b"', 'a AS x = 1, "b" AS "b".x = 2') == ["1A 2b"]
    assert labels([1, 2], "a `b`", "A AS a.x = 1, `b` AS x = 2") == ["1A 2b"]
