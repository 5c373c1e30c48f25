"""FIRST and LAST with offsets, running and final; columns of a variable."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.tables import values_of


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
        ("LAST(x, 99999999999999999999)", [None, None, None]),
        ("FIRST(x)", [10, 10, 10]),
        ("FINAL FIRST(A.x)", [10, 10, 10]),
        # Up to the first row there is no second one yet.
        ("FIRST(x, 1)", [None, 20, 20]),
        ("FINAL FIRST(x, 1)", [20, 20, 20]),
        ("LAST(x + id, 1)", [None, 11, 22]),
        ("LAST(x) - FIRST(x)", [0, 10, 20]),
        ("CAST(x AS VARCHAR) || '!'", ["10!", "20!", "30!"]),
    ],
)
def test_measures_read_the_rows_up_to_the_current_one_unless_they_are_final(measure: str, expected: list[Any]) -> None:
    assert values_of(measure) == expected


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("A.x", [90, 90, 90, 90]),
        ("B.x", [None, 80, 70, 70]),
        ("FINAL LAST(B.x)", [70, 70, 70, 70]),
        ("FIRST(B.x, 1)", [None, None, 70, 70]),
        ("LAST(C.x)", [None, None, None, 95]),
    ],
)
def test_variables_read_their_own_rows(measure: str, expected: list[Any]) -> None:
    found = values_of(measure, "A B+ C", [90, 80, 70, 95], "B AS x < PREV(x), C AS x > PREV(x)", subset="U = (A, C)")
    assert found == expected
