"""Exclusion: rows that are matched but not given."""

from __future__ import annotations

from tests.sql.tables import labels, match

FALLS = "DOWN AS x < PREV(x), UP AS x > PREV(x)"
V = [90, 80, 70, 80, 90, 50, 40, 60]


def test_excluded_rows_are_matched_but_not_given() -> None:
    assert labels(V, "STRT {- DOWN+ -} UP+", FALLS) == ["1STRT 4UP 5UP", "6STRT 8UP"]
    assert labels(V, "STRT {- {- DOWN+ -} UP+ -}", FALLS) == ["1STRT", "6STRT"]
    assert labels(V, "{- STRT DOWN+ UP+ -}", FALLS) == []
    assert labels(V, "STRT {- DOWN -}+ UP{1}", FALLS) == ["1STRT 4UP", "5STRT 8UP"]


def test_excluded_rows_count_in_measures() -> None:
    found = match([1, 2, 3], "A {- B -} C", measures="SUM(x) AS total", select="id, total")
    assert found == [(1, 1), (3, 6)]
