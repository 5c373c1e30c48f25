"""PREV and NEXT: rows beside another, in the match or not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.tables import match, values_of


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("PREV(x)", [None, 10, 20]),
        ("PREV(x, 0)", [10, 20, 30]),
        ("PREV(x, 2)", [None, None, 10]),
        ("NEXT(x)", [20, 30, None]),
        ("NEXT(x, 99999999999999999999)", [None, None, None]),
        ("NEXT(FIRST(x), 2)", [30, 30, 30]),
        ("PREV(FINAL LAST(x), 1)", [20, 20, 20]),
        ("PREV(LAST(x, 1), 1)", [None, None, 10]),
        ("NEXT(LAST(x, 1), 2)", [None, 30, None]),
        ("PREV(FIRST(x, 9), 2)", [None, None, None]),
        ("COALESCE(PREV(x), -1)", [-1, 10, 20]),
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
