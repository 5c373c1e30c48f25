"""Aggregates in MEASURES and DEFINE: running and final, of variables, with conditions, of the names of variables."""

from __future__ import annotations

from typing import Any

import pytest

from motet.errors import QueryError
from tests.sql.tables import labels, match, values_of

ROWS = [{"id": id, "x": x} for id, x in [(1, 5), (2, 7), (3, None), (4, 1)]]
PATTERN = "A B C B"


def measure(text: str, output: str = "ALL ROWS PER MATCH", subset: str = "U = (A, C)") -> list[Any]:
    """Return a measure on each row of the match 1A 2B 3C 4B."""
    found = match(ROWS, PATTERN, measures=f"{text} AS value", select="value", output=output, subset=subset)
    return [value for (value,) in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SUM(x)", [5, 12, 12, 13]),
        ("RUNNING SUM(B.x)", [None, 7, 7, 8]),
        ("FINAL SUM(B.x)", [8, 8, 8, 8]),
        ("SUM(C.x)", [None, None, None, None]),
        ("COUNT(x)", [1, 2, 2, 3]),
        ("COUNT(U.*)", [1, 1, 2, 2]),
        ("AVG(x)", [5.0, 6.0, 6.0, 13 / 3]),
        ("MIN(x * 2)", [10, 10, 10, 2]),
        ("FINAL MAX(x) - MAX(x)", [2, 0, 0, 0]),
        ("SUM(CASE WHEN x > 5 THEN x ELSE 0 END)", [0, 7, 7, 7]),
    ],
)
def test_aggregates_are_over_rows_that_are_mapped_so_far_unless_they_are_final(text: str, expected: list[Any]) -> None:
    assert measure(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SUM(x) FILTER (WHERE x > 1)", [5, 12, 12, 12]),
        ("SUM(B.x) FILTER (WHERE B.x > 1 AND B.id < 9)", [None, 7, 7, 7]),
        ("COUNT(*) FILTER (WHERE x IS NULL)", [0, 0, 1, 1]),
        ("FINAL COUNT(B.*) FILTER (WHERE B.x < 7)", [1, 1, 1, 1]),
        ("MIN(x) FILTER (WHERE CLASSIFIER() = 'B')", [None, 7, 7, 1]),
        ("COUNT(*) FILTER (WHERE false) + 1", [1, 1, 1, 1]),
    ],
)
def test_a_filter_leaves_rows_out(text: str, expected: list[Any]) -> None:
    assert measure(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SUM(CASE WHEN CLASSIFIER() = 'B' THEN x ELSE 100 END)", [100, 107, 207, 208]),
        ("SUM(CASE CLASSIFIER() WHEN 'C' THEN x END)", [None, None, None, None]),
        ("FINAL AVG(CASE WHEN CLASSIFIER() IN ('A', 'B') THEN x END)", [13 / 3] * 4),
        ("COUNT(CASE WHEN CLASSIFIER() <> 'B' THEN 1 END)", [1, 1, 2, 2]),
        ("MIN(CLASSIFIER())", ["A", "A", "A", "A"]),
        ("MAX(LOWER(CLASSIFIER()) || id)", ["a1", "b2", "c3", "c3"]),
        ("MAX(CLASSIFIER(U) || U.id)", ["A1", "A1", "C3", "C3"]),
        ("COUNT(CLASSIFIER(B))", [0, 1, 1, 2]),
        ("COUNT(CLASSIFIER(U))", [1, 1, 2, 2]),
    ],
)
def test_an_argument_may_ask_for_the_variable_of_its_row(text: str, expected: list[Any]) -> None:
    assert measure(text) == expected


def test_aggregates_of_an_empty_match_count_nothing() -> None:
    measures = "COUNT(*) AS n, SUM(x) AS s, COUNT(CASE WHEN CLASSIFIER() = 'A' THEN 1 END) AS c, MAX(CLASSIFIER()) AS m"
    assert match([1], "A*", "A AS x > 5", measures, "n, s, c, m") == [(0, None, 0, None)]
    unmatched = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"
    assert match([1], "A+", "A AS x > 5", measures, "n, s, c, m", unmatched) == [(None, None, None, None)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("B AS COALESCE(SUM(x) FILTER (WHERE x > 2), 0) < 7", "1A 2B 3B"),
        ("B AS COUNT(B.*) FILTER (WHERE B.x > 2) < 2", "1A 2B 3B"),
        ("B AS x IS DISTINCT FROM LAST(x, 2)", "1A 2B 3B 4B"),
        ("B AS x IS NOT DISTINCT FROM A.x + 1", "1A 2B"),
        ("B AS PREV(x, 2) IS NOT DISTINCT FROM C.x", "1A 2B"),
        ("B AS (x > A.x + 2) IS NOT TRUE", "1A 2B 3B"),
        ("B AS (x > A.x + 2) IS FALSE AND (x > C.x) IS UNKNOWN", "1A 2B 3B"),
        ("B AS (C.x > x) IS NOT FALSE AND (x < A.x + 2) IS TRUE", "1A 2B"),
        ("B AS (x > C.x) IS NOT UNKNOWN", "1A"),
    ],
)
def test_conditions_of_several_rows(condition: str, expected: str) -> None:
    assert labels([1, 2, 3, 4], "A B* C*?", f"{condition}, C AS false", skip="TO NEXT ROW")[0] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SUM(x) FILTER (x > 1)", "FILTER needs a condition"),
        ("SUM(x) FILTER (WHERE)", "FILTER needs a condition"),
        ("SUM(A.x) FILTER (WHERE B.x > 1)", "of one variable"),
        ("COUNT(*) FILTER (WHERE B.x > 1)", "of one variable"),
        ("SUM(A.x || CLASSIFIER(B))", "of one variable"),
        ("SUM(x * MATCH_NUMBER())", "cannot stand in the argument"),
        ("SUM(x) FILTER (WHERE x > 1) OVER ()", "OVER is not supported"),
        ("SUM(CLASSIFIER())", "is not supported"),
    ],
)
def test_aggregates_that_have_no_meaning_are_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        measure(text)


def test_in_define_an_argument_may_not_ask_for_the_variable_of_its_row() -> None:
    with pytest.raises(QueryError, match="in MEASURES only"):
        labels([1, 2], "A B", "B AS MAX(CLASSIFIER()) = 'B'")


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("COUNT(*)", [1, 2, 3]),
        ("FINAL COUNT(*)", [3, 3, 3]),
        ("COUNT(A.*)", [1, 2, 3]),
        ("COUNT(x)", [1, 2, 3]),
        ("SUM(x)", [10, 30, 60]),
        ("FINAL SUM(x) - SUM(x)", [50, 30, 0]),
        ("AVG(A.x)", [10.0, 15.0, 20.0]),
        ("MIN(x)", [10, 10, 10]),
        ("MAX(A.x * 2)", [20, 40, 60]),
        ("SUM(x * id) / COUNT(*)", [10.0, 25.0, 140 / 3]),
        ("CASE WHEN COUNT(*) > 1 THEN 'later' ELSE LOWER(CLASSIFIER()) END", ["a", "later", "later"]),
    ],
)
def test_aggregates_stand_in_expressions(measure: str, expected: list[Any]) -> None:
    assert values_of(measure) == expected
