"""AFTER MATCH SKIP: where the search goes on."""

from __future__ import annotations

import pytest

from motet.errors import QueryError, RunError
from tests.sql.tables import labels

ROWS = [90, 80, 70, 80, 70, 80]
FALLS = "B AS x < PREV(x), C AS x > PREV(x), D AS false"
PATTERN = "A B+ C+ D?"
FIRST, SECOND = "1A 2B 3B 4C", "4A 5B 6C"


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        ("PAST LAST ROW", [FIRST]),
        ("TO NEXT ROW", [FIRST, "2A 3B 4C", SECOND]),
        ("TO FIRST C", [FIRST, SECOND]),
        ("TO FIRST B", [FIRST, "2A 3B 4C", SECOND]),
        ("TO LAST B", [FIRST, SECOND]),
        ("TO B", [FIRST, SECOND]),
        ("TO U", [FIRST, SECOND]),
        ("TO FIRST W", [FIRST, "2A 3B 4C", SECOND]),
    ],
)
def test_the_search_goes_on_where_skip_says(skip: str, expected: list[str]) -> None:
    assert labels(ROWS, PATTERN, FALLS, skip=skip, subset="U = (C, D), W = (B, D)") == expected


def test_past_last_row_is_the_default() -> None:
    from tests.sql.tables import rows_of

    text = "SELECT n FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES COUNT(*) AS n PATTERN (A A))"
    assert rows_of(text, t=[1, 2, 3, 4, 5]) == [(2,), (2,)]


def test_after_an_empty_match_the_search_goes_on_at_the_next_row() -> None:
    for skip in ("PAST LAST ROW", "TO NEXT ROW", "TO LAST A"):
        assert labels([0, 0], "A*", "A AS x = 1", skip=skip) == ["1-", "2-"]


@pytest.mark.parametrize("skip", ["TO FIRST A", "TO A", "TO LAST A"])
def test_to_skip_to_the_first_row_of_the_match_fails(skip: str) -> None:
    with pytest.raises(RunError, match="goes to A, which has the first row of the match, row 1"):
        labels([1, 2], "A B", skip=skip)


def test_to_skip_to_a_variable_without_rows_fails() -> None:
    with pytest.raises(RunError, match="goes to C, which has no row in the match from row 1 on"):
        labels([1, 2], "A B C?", "C AS x > 5", skip="TO C")


def test_what_is_skipped_to_must_be_in_the_pattern() -> None:
    with pytest.raises(QueryError, match="X is not in PATTERN"):
        labels([1, 2], "A B", skip="TO LAST X")
