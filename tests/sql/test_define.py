"""DEFINE: conditions on the row itself and on the match so far, and what is refused in expressions."""

from __future__ import annotations

import pytest

from motet.errors import QueryError
from tests.sql.tables import labels, values_of


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
        # A remainder has the sign of the dividend.
        ("B AS x % (A.x + 3) > 1", "1A 2B 3B"),
        ("B AS MOD(A.x - x, A.x + 2) <> 0 AND (A.x - x) % (A.x + 2) < 0", "1A 2B 3B"),
        ("B AS (x - A.x) % (-2 * A.x) >= 0 AND x % -A.x = 0", "1A 2B 3B 4B"),
        ("B AS (x % C.x) IS NULL AND x < 3", "1A 2B"),
        # Functions that choose among values.
        ("B AS NULLIF(x, A.x + 3) > A.x", "1A 2B 3B"),
        ("B AS NULLIF(x, C.x) < 4", "1A 2B 3B"),
        ("B AS IF(x > A.x + 2, A.x > 9, x > A.x)", "1A 2B 3B"),
        ("B AS IFNULL(C.x, A.x + 3) > x", "1A 2B 3B"),
        ("B AS GREATEST(C.x, A.x, x) < 4", "1A 2B 3B"),
        (f"B AS GREATEST(A.x{', x' * 24}) < 4", "1A 2B 3B"),  # does not grow beyond bounds
        ("B AS LEAST(C.x, x, A.x + 2) = x AND LEAST(x, C.x) = x", "1A 2B 3B"),
        ("B AS GREATEST(PREV(x, 9), C.x) IS NULL AND x < 3", "1A 2B"),
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


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("kind = 'number' AND CAST(text AS INT) > 5", "2B 4B"),
        ("(id > 0 AND is_number) AND (CAST(text AS INT) > 0 AND 10 / CAST(text AS INT) > 2)", "3B"),
        ("kind LIKE 'n%' AND id > COALESCE(PREV(id), 0) AND CAST(text AS INT) > 5 AND COUNT(B.*) < 2", "2B 4B"),
        ("NOT kind = 'text' AND CAST(text AS INT) < 0", ""),
    ],
)
def test_a_condition_on_a_row_is_evaluated_where_those_before_it_hold(condition: str, expected: str) -> None:
    texts = [("text", "none"), ("number", "7"), ("number", "3"), ("number", "8"), (None, "?")]
    rows = [
        {"id": id, "kind": kind, "text": text, "is_number": kind == "number"}
        for id, (kind, text) in enumerate(texts, 1)
    ]
    assert " ".join(labels(rows, "B", f"B AS {condition}")) == expected


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
        ("DATEDIFF('day', A.x, x) = 1", "subtract the times, as in B.at"),
        ("s LIKE A.s", "values of several rows"),
        ("x % (A.x + 0.5) = 1", "takes whole numbers"),
        ("NULLIF(s, A.x) = 1", "cannot be compared"),
        ("LEAST(s, A.x) = 1", "cannot be compared"),
        ("MOD(x, A.x, 1) = 1", "values of several rows"),
        ("s = (A.s COLLATE NOCASE)", "COLLATE is not supported in DEFINE"),
        ("s > A.x", "cannot be compared"),
        ("s = A.x", "cannot be compared"),
        ("x = 1 AND A.x", "true or false"),
        ("x AND x = 1", "AND takes conditions"),
        ("x = 1 AND x + 1", "AND takes conditions|true or false"),
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
