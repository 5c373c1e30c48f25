"""SUBSET: the rows of several variables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.tables import values_of


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("U.x", [90, 90, 90, 95]),
        ("COUNT(U.*)", [1, 1, 1, 2]),
        ("LAST(U.x, 1)", [None, None, None, 90]),
        ("CLASSIFIER(U)", ["A", "A", "A", "C"]),
        ("FIRST(CLASSIFIER(U))", ["A", "A", "A", "A"]),
    ],
)
def test_subsets_read_their_own_rows(measure: str, expected: list[Any]) -> None:
    found = values_of(measure, "A B+ C", [90, 80, 70, 95], "B AS x < PREV(x), C AS x > PREV(x)", subset="U = (A, C)")
    assert found == expected
