"""PATTERN as a whole: what takes long, and what is refused."""

from __future__ import annotations

import pytest

import motet
from motet.errors import QueryError
from motet.row_patterns import matching
from tests.sql.tables import as_table, labels, match


def test_a_pattern_that_fails_in_many_ways_ends_all_the_same() -> None:
    assert labels([1] * 40, "((A | B)+)+ C", "A AS x = 1, B AS x = 1, C AS x = 2") == []
    assert labels([1] * 2000, "(A+)+ B", "A AS x = 1, B AS x = 2") == []


def test_what_failed_before_a_match_is_not_tried_again_from_the_next_row() -> None:
    text = """SELECT COUNT(*) FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES COUNT(*) AS n AFTER MATCH SKIP TO NEXT ROW
              PATTERN (A (B+ C)?) DEFINE C AS x = 2)"""
    found = motet.sql(text, {"t": as_table([1] * 1000)}, step_limit=20_000)
    assert found[0].to_pylist() == [1000]


def test_what_failed_in_a_partition_is_tried_again_in_the_next_and_its_steps_count_anew() -> None:
    rows = [{"k": k, "id": id, "x": x} for k, values in enumerate([[1, 1], [1, 2]] * 20) for id, x in enumerate(values)]
    text = """SELECT k FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES COUNT(*) AS n PATTERN (A+ B)
              DEFINE A AS x = 1, B AS x = 2)"""
    found = motet.sql(text, {"t": as_table(rows)}, step_limit=20)
    assert found["k"].to_pylist() == list(range(1, 40, 2))


@pytest.mark.parametrize("output", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"])
@pytest.mark.parametrize("skip", ["PAST LAST ROW", "TO NEXT ROW"])
def test_a_search_goes_on_where_its_room_was_full(output: str, skip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> list[tuple[object, ...]]:
        rows = [{"id": id, "k": id % 2, "x": 7 * id % 5} for id in range(60)]
        measures = "MATCH_NUMBER() AS n, FIRST(x) AS first, SUM(x) AS total, CLASSIFIER() AS label"
        return match(rows, "A (B | C)+ D?", "B AS x > PREV(x)", measures, "*", output, skip, partition="k")

    expected = run()
    monkeypatch.setattr(matching, "OUTPUT_ROWS", 3)
    monkeypatch.setattr(matching, "STACK_ENTRIES", 2)
    assert run() == expected


def test_long_matches_are_found() -> None:
    size = 200_000
    found = match([1] * size, "A+ B?", "A AS x = 1", "COUNT(*) AS size", "size", "ONE ROW PER MATCH")
    assert found == [(size,)]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "PATTERN needs a variable"),
        ("A |", "PATTERN needs a variable here"),
        ("(A", "never closed"),
        ("{- A", "never closed"),
        ("A+*", "a quantifier follows a quantifier"),
        ("A{3,2}", "allows nothing"),
        ("A{0,0}", "allows nothing"),
        ("A{x}", "not understood"),
        ("A, B", "not understood"),
        ("A & B", "not understood"),
        ("A{30000}", "too many steps"),
        ("PERMUTE(A, B, C, D, E, F, G)", "too many orders"),
    ],
)
def test_patterns_that_are_wrong_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        labels([1], pattern)
