"""PREV, NEXT, FIRST, LAST, CLASSIFIER, MATCH_NUMBER, aggregates: which rows they read."""

from __future__ import annotations

from typing import Any

import pytest

from motet.errors import QueryError
from tests.sql.tables import labels, match

ROWS = [10, 20, 30]


def values_of(measure: str, pattern: str = "A+", rows: Any = ROWS, define: str = "", **clauses: str) -> list[Any]:
    """Return a measure on each row of a match."""
    return [value for (value,) in match(rows, pattern, define, f"{measure} AS value", "value", **clauses)]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("x", [10, 20, 30]),
        ("A.x", [10, 20, 30]),
        ("LAST(x)", [10, 20, 30]),
        ("RUNNING LAST(x)", [10, 20, 30]),
        ("FINAL LAST(x)", [30, 30, 30]),
        ("FINAL LAST(x, 2)", [10, 10, 10]),
        ("LAST(x, 1)", [None, 10, 20]),
        ("LAST(x, 9)", [None, None, None]),
        ("FIRST(x)", [10, 10, 10]),
        ("FINAL FIRST(A.x)", [10, 10, 10]),
        # Up to the first row there is no second one yet.
        ("FIRST(x, 1)", [None, 20, 20]),
        ("FINAL FIRST(x, 1)", [20, 20, 20]),
        ("PREV(x)", [None, 10, 20]),
        ("PREV(x, 0)", [10, 20, 30]),
        ("PREV(x, 2)", [None, None, 10]),
        ("NEXT(x)", [20, 30, None]),
        ("NEXT(FIRST(x), 2)", [30, 30, 30]),
        ("PREV(FINAL LAST(x), 1)", [20, 20, 20]),
        ("PREV(LAST(x, 1), 1)", [None, None, 10]),
        ("NEXT(LAST(x, 1), 2)", [None, 30, None]),
        ("PREV(FIRST(x, 9), 2)", [None, None, None]),
        ("LAST(x + id, 1)", [None, 11, 22]),
        ("LAST(x) - FIRST(x)", [0, 10, 20]),
        ("COALESCE(PREV(x), -1)", [-1, 10, 20]),
        ("MATCH_NUMBER() * 2", [2, 2, 2]),
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
        ("CAST(x AS VARCHAR) || '!'", ["10!", "20!", "30!"]),
    ],
)
def test_measures_read_the_rows_up_to_the_current_one_unless_they_are_final(measure: str, expected: list[Any]) -> None:
    assert values_of(measure) == expected


@pytest.mark.parametrize(
    ("measure", "expected"),
    [("PREV(B.x, 3)", 10), ("PREV(B.x, 4)", None), ("NEXT(B.x)", 40), ("NEXT(B.x, 2)", None), ("PREV(A.x)", 20)],
)
def test_physical_navigation_leaves_the_match_but_not_the_partition(measure: str, expected: int | None) -> None:
    found = values_of(measure, "A B", [10, 20, 30, 30, 40], "B AS x = PREV(x)", output="ONE ROW PER MATCH")
    assert found == [expected]


def test_navigation_stays_in_the_partition() -> None:
    rows = [{"k": k, "id": id, "x": id} for k in "ab" for id in (1, 2)]
    assert match(rows, "A+", "", "PREV(x) AS p, NEXT(x) AS n", "k, p, n", partition="k") == [
        ("a", None, 2),
        ("a", 1, None),
        ("b", None, 2),
        ("b", 1, None),
    ]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("A.x", [90, 90, 90, 90]),
        ("B.x", [None, 80, 70, 70]),
        ("FINAL LAST(B.x)", [70, 70, 70, 70]),
        ("FIRST(B.x, 1)", [None, None, 70, 70]),
        ("LAST(C.x)", [None, None, None, 95]),
        ("SUM(B.x)", [None, 80, 150, 150]),
        ("COUNT(B.x)", [0, 1, 2, 2]),
        ("FINAL COUNT(C.*)", [1, 1, 1, 1]),
        ("U.x", [90, 90, 90, 95]),
        ("COUNT(U.*)", [1, 1, 1, 2]),
        ("LAST(U.x, 1)", [None, None, None, 90]),
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
def test_variables_and_subsets_read_their_own_rows(measure: str, expected: list[Any]) -> None:
    found = values_of(measure, "A B+ C", [90, 80, 70, 95], "B AS x < PREV(x), C AS x > PREV(x)", subset="U = (A, C)")
    assert found == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        # The row itself, whatever it is called.
        ("B AS x = 2", "1A 2B"),
        ("B AS B.x = 2", "1A 2B"),
        ("B AS LAST(B.x) = 2", "1A 2B"),
        ("B AS U.x = 2", "1A 2B"),
        ("B AS LAST(x, 0) = 2", "1A 2B"),
        # Others of the match so far.
        ("B AS B.x > A.x", "1A 2B 3B 4B"),
        ("B AS x < FIRST(x) + 3", "1A 2B 3B"),
        ("B AS x - LAST(x, 1) = 1", "1A 2B 3B 4B"),
        ("B AS LAST(B.x, 1) IS NULL", "1A 2B"),
        ("B AS FIRST(B.x, 1) IS NULL OR x = 3", "1A 2B 3B"),
        ("B AS NEXT(A.x) = 2", "1A 2B 3B 4B"),
        ("B AS PREV(FIRST(x)) IS NULL AND PREV(x, 2) IS NULL", "1A 2B"),
        ("B AS COUNT(*) <= 3", "1A 2B 3B"),
        ("B AS COUNT(B.*) < 2", "1A 2B"),
        ("B AS SUM(x) < 8", "1A 2B 3B"),
        ("B AS SUM(B.x) < 8", "1A 2B 3B"),
        ("B AS AVG(x) <= 2", "1A 2B 3B"),
        ("B AS MAX(x) < 4", "1A 2B 3B"),
        ("B AS MIN(B.x) = x", "1A 2B"),
        ("B AS CLASSIFIER() = 'B' AND x < 4", "1A 2B 3B"),
        ("B AS PREV(CLASSIFIER()) = 'A'", "1A 2B"),
        ("B AS LAST(CLASSIFIER(U), 1) = 'A'", "1A 2B"),
        ("B AS NEXT(CLASSIFIER()) IS NULL AND x < 3", "1A 2B"),
        ("B AS MATCH_NUMBER() = 1 AND NEXT(x) IS NOT NULL", "1A 2B 3B"),
        ("B AS C.x IS NULL AND x < 4", "1A 2B 3B"),
        # What the engine knows of one row, whichever it is.
        ("B AS ABS(A.x - 5) = 4 AND SQRT(x) < 2", "1A 2B 3B"),
        ("B AS CAST(A.x AS VARCHAR) = '1' AND x BETWEEN 2 AND A.x + 2", "1A 2B 3B"),
        ("B AS COALESCE(C.x * 10, 7) = 7 AND x < 3", "1A 2B"),
        ("B AS COALESCE(PREV(x, 3), 7) = 7", "1A 2B 3B"),
        ("B AS PREV(COALESCE(x, 7), 3) IS NULL", "1A 2B 3B"),
        ("B AS CAST(x AS VARCHAR) LIKE '%2' ESCAPE '!' AND x > A.x", "1A 2B"),
        ("B AS CAST(x AS VARCHAR) NOT LIKE '4' AND x > A.x", "1A 2B 3B"),
        ("B AS (x > 3) IS NOT TRUE AND x > A.x", "1A 2B 3B"),
        ("B AS x IS DISTINCT FROM 4 AND x > A.x", "1A 2B 3B"),
        ("B AS x % 4 > 0 AND x // 4 = 0 AND 'a' || x < 'a4' AND x > A.x", "1A 2B 3B"),
        ("B AS x IN (A.x + 1, FIRST(x) + 2)", "1A 2B 3B"),
        ("B AS CASE WHEN x = A.x + 3 THEN A.x = 7 ELSE x > A.x END", "1A 2B 3B"),
        ("B AS CASE x - A.x WHEN 1 THEN TRUE WHEN 2 THEN TRUE END", "1A 2B 3B"),
        ("B AS NOT (x - A.x > 2)", "1A 2B 3B"),
        ("B AS -A.x * 2 + x < 1", "1A 2B"),
        ("B AS (x / A.x) <= 2.5", "1A 2B"),
        ("B AS x * 1.1 <= A.x * 3.3", "1A 2B 3B"),
    ],
)
def test_conditions_read_the_row_itself_and_the_match_so_far(condition: str, expected: str) -> None:
    found = labels([1, 2, 3, 4], "A B* C*?", f"{condition}, C AS false", subset="U = (A, B)", skip="TO NEXT ROW")
    assert found[0] == expected


def test_a_condition_may_ask_for_a_match_that_is_not_preferred_at_first() -> None:
    assert labels([1, 1], "(A | B)* X", "X AS x = A.x") == ["1A 2X"]
    assert labels([1, 1], "(A | B)* X", "X AS x = B.x") == ["1B 2X"]


def test_two_variables_can_be_told_apart_by_what_comes_much_later() -> None:
    define = "X AS x = PREV(LAST(A.x), 3) + FIRST(A.x) + PREV(LAST(B.x), 2)"
    assert labels([1, 2, 3, 4, 5, 6], "(A | B)* X", define) == ["1B 2A 3A 4A 5B 6X"]


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ("PREV(PREV(x))", "do not stand in each other"),
        ("FIRST(PREV(x))", "takes columns, no other navigation"),
        ("LAST(A.x + B.x)", "of one variable"),
        ("SUM(A.x + B.x)", "of one variable"),
        ("SUM(LAST(x))", "cannot stand in the argument"),
        ("LAST(1)", "needs a column"),
        ("LAST(x, id)", "must be written out"),
        ("LAST(x, -1)", "must be written out"),
        ("LAST()", "needs an argument"),
        ("FINAL PREV(x)", "cannot stand before PREV"),
        ("COUNT(DISTINCT x)", "not supported"),
        ("ARRAY_AGG(x)", "not supported"),
        ("SUM(x) OVER ()", "OVER is not supported"),
        ("ROW_NUMBER() OVER ()", "window function"),
        ("CLASSIFIER(Z)", "takes a variable"),
        ("Z.x", "no variable of PATTERN"),
        ("y", "no column 'y'"),
        ("MATCH_NUMBER(1)", "takes no argument"),
        ("CASE WHEN x > 1", "no END"),
        ("UNNEST([1, 2])", "several rows of one"),
        ("SUM(CAST(x AS VARCHAR))", "is not supported"),
        ("x +", "breaks off"),
        ("regr_count(x, x)", "GROUP BY"),
    ],
)
def test_measures_that_have_no_meaning_are_refused(measure: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        values_of(measure, "A+ B?")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("FINAL LAST(x) > 1", "no meaning in DEFINE"),
        ("FINAL SUM(x) > 1", "no meaning in DEFINE"),
        ("x + A.x", "true or false"),
        ("CONCAT(s, A.s) = 'ab'", "values of several rows"),
        ("s || A.s = 'ab'", "values of several rows"),
        ("s LIKE A.s", "values of several rows"),
        ("x % A.x = 1", "values of several rows"),
        ("s > A.x", "cannot be compared"),
        ("s = A.x", "cannot be compared"),
        ("x = 1 AND A.x", "true or false"),
        ("NOT (A.x + x)", "NOT takes conditions"),
        ("s + A.s > 1", "takes numbers or times"),
        ("x - A.x < 99999999999999999999", "does not fit into 64 bits"),
        ("nothing > 1", "no column 'nothing'"),
        ("(SELECT COUNT(*) FROM t MATCH_RECOGNIZE (ORDER BY id PATTERN (Q))) > 1", "MATCH_RECOGNIZE cannot stand"),
    ],
)
def test_conditions_that_cannot_be_evaluated_are_refused(condition: str, message: str) -> None:
    rows = [{"id": 1, "x": 1, "s": "a"}, {"id": 2, "x": 2, "s": "b"}]
    with pytest.raises(QueryError, match=message):
        labels(rows, "A B", f"B AS {condition}")
