"""CLASSIFIER and MATCH_NUMBER: the variable of a row, and the number of the match."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.tables import values_of


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("MATCH_NUMBER() * 2", [2, 2, 2]),
        ("CASE WHEN COUNT(*) > 1 THEN 'later' ELSE LOWER(CLASSIFIER()) END", ["a", "later", "later"]),
    ],
)
def test_measures_read_the_rows_up_to_the_current_one_unless_they_are_final(measure: str, expected: list[Any]) -> None:
    assert values_of(measure) == expected


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("CLASSIFIER()", ["A", "B", "B", "C"]),
        ("CLASSIFIER(U)", ["A", "A", "A", "C"]),
        ("CLASSIFIER(B)", [None, "B", "B", "B"]),
        ("FINAL LAST(CLASSIFIER())", ["C", "C", "C", "C"]),
        ("LAST(CLASSIFIER(), 1)", [None, "A", "B", "B"]),
        ("PREV(CLASSIFIER())", [None, "A", "B", "B"]),
        ("NEXT(CLASSIFIER())", ["B", "B", "C", None]),
        ("FIRST(CLASSIFIER(U))", ["A", "A", "A", "A"]),
        ("COUNT(CLASSIFIER())", [1, 2, 3, 4]),
    ],
)
def test_the_variable_of_a_row_is_read_where_navigation_leads(measure: str, expected: list[Any]) -> None:
    found = values_of(measure, "A B+ C", [90, 80, 70, 95], "B AS x < PREV(x), C AS x > PREV(x)", subset="U = (A, C)")
    assert found == expected


def test_a_row_outside_the_match_has_no_variable() -> None:
    assert values_of("PREV(CLASSIFIER())", "A B", [1, 2, 3, 4, 5]) == [None, "A", None, "A"]
    assert values_of("NEXT(CLASSIFIER())", "A B", [1, 2, 3, 4, 5]) == ["B", None, "B", None]
