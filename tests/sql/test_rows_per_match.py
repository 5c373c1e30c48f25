"""ONE ROW and ALL ROWS PER MATCH, empty matches, unmatched rows, and the columns that come out."""

from __future__ import annotations

import pytest

import motet
from motet.errors import QueryError
from tests.sql.tables import as_table, labels, match, rows_of

FALL = "B AS x < PREV(x)"
ROWS = [90, 80, 70, 70]
MEASURES = "MATCH_NUMBER() AS n, LAST(x) AS last, CLASSIFIER() AS label, COUNT(*) AS size"


def test_one_row_per_match_is_the_default_and_shows_empty_matches() -> None:
    expected = [(1, None, None, 0), (2, 70, "B", 2), (3, None, None, 0)]
    assert match(ROWS, "B*", FALL, MEASURES, output="ONE ROW PER MATCH") == expected
    assert match(ROWS, "B*", FALL, MEASURES, output="") == expected


def test_all_rows_per_match_shows_empty_matches_unless_told_not_to() -> None:
    expected = [(1, 1, None, None, 0), (2, 2, 80, "B", 1), (3, 2, 70, "B", 2), (4, 3, None, None, 0)]
    select = "id, n, last, label, size"
    assert match(ROWS, "B*", FALL, MEASURES, select) == expected
    assert match(ROWS, "B*", FALL, MEASURES, select, "ALL ROWS PER MATCH SHOW EMPTY MATCHES") == expected
    assert match(ROWS, "B*", FALL, MEASURES, select, "ALL ROWS PER MATCH OMIT EMPTY MATCHES") == expected[1:3]


def test_unmatched_rows_have_null_measures() -> None:
    found = match(ROWS, "B+", FALL, MEASURES, "id, n, last, label, size", "ALL ROWS PER MATCH WITH UNMATCHED ROWS")
    assert found == [
        (1, None, None, None, None),
        (2, 1, 80, "B", 1),
        (3, 1, 70, "B", 2),
        (4, None, None, None, None),
    ]


def test_measures_of_unmatched_rows_are_null_even_if_they_read_no_row() -> None:
    measures = "0 AS zero, COALESCE(LAST(x), 7) AS last, COUNT(*) + 1 AS size, x IS NULL AS none"
    found = match(ROWS, "B+", FALL, measures, "id, zero, last, size, none", "ALL ROWS PER MATCH WITH UNMATCHED ROWS")
    nothing = (None, None, None, None)
    assert found == [(1, *nothing), (2, 0, 80, 2, False), (3, 0, 70, 3, False), (4, *nothing)]


def test_with_unmatched_rows_an_empty_match_is_a_match() -> None:
    found = match(ROWS, "B*", FALL, "MATCH_NUMBER() AS n", "id, n", "ALL ROWS PER MATCH WITH UNMATCHED ROWS")
    assert found == [(1, 1), (2, 2), (3, 2), (4, 3)]


def test_a_row_of_a_match_is_not_unmatched_where_matches_overlap() -> None:
    rows = labels([5, 4, 3, 9], "A B B", FALL, output="ALL ROWS PER MATCH WITH UNMATCHED ROWS", skip="TO NEXT ROW")
    assert rows == ["1A 2B 3B", "4-"]


def test_one_row_has_the_partition_columns_and_the_measures() -> None:
    rows = [{"note": "n", "id": 1, "k": "a", "x": 7}]
    found = motet.sql(
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES A.x AS y PATTERN (A))",
        {"t": as_table(rows)},
    )
    assert found.to_pylist() == [{"k": "a", "y": 7}]


def test_all_rows_have_partition_order_and_measures_before_all_other_columns() -> None:
    rows = [{"note": "n", "id": 1, "k": "a", "x": 7}]
    found = motet.sql(
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES A.x AS y ALL ROWS PER MATCH PATTERN (A))",
        {"t": as_table(rows)},
    )
    assert found.column_names == ["k", "id", "y", "note", "x"]


def test_there_need_be_no_measures() -> None:
    assert match([1, 2], "A", "A AS x = 2", "") == [(2, 2)]


def test_there_need_be_no_rows() -> None:
    table = as_table([1, 2]).slice(0, 0)
    assert match(table, "A", measures="CLASSIFIER() AS label, SUM(x) AS total, x + 1 AS more") == []


def test_matches_are_numbered_in_each_partition() -> None:
    rows = [{"k": k, "id": id} for id in (1, 2) for k in "ab"]
    found = match(rows, "A", measures="MATCH_NUMBER() AS n", select="k, id, n", partition="k")
    assert found == [("a", 1, 1), ("a", 2, 2), ("b", 1, 1), ("b", 2, 2)]


def test_rows_of_null_are_a_partition_and_so_are_rows_of_nan() -> None:
    rows = [{"k": k, "id": id} for id, k in enumerate([None, 1.0, float("nan"), None, float("nan"), 0.0, -0.0])]
    found = match(rows, "A+", measures="COUNT(*) AS size", select="size", output="", partition="k")
    assert found == [(2,), (1,), (2,), (2,)]


def test_rows_are_ordered_before_they_are_matched() -> None:
    rows = [{"id": id, "x": x} for id, x in [(3, 1), (1, 2), (2, 3)]]
    assert labels(rows, "A B C", "A AS x = 2, B AS x = 3, C AS x = 1") == ["1A 2B 3C"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("x, id", [3, 2, 4, 1]),
        ("x DESC, id", [4, 2, 3, 1]),
        ("x NULLS FIRST, id DESC", [1, 3, 2, 4]),
        ("x DESC NULLS FIRST, id", [1, 4, 2, 3]),
        ("s DESC", [4, 3, 2, 1]),
        ("s NULLS LAST", [1, 2, 3, 4]),
        ("COALESCE(x, 1.6) * -1", [4, 1, 2, 3]),
        ("s = 'b' DESC, -id ASC NULLS LAST", [2, 4, 3, 1]),
    ],
)
def test_order_by_takes_directions_and_nulls_come_last_unless_told_otherwise(order: str, expected: list[int]) -> None:
    rows = [{"id": id, "x": x, "s": s} for id, x, s in [(1, None, "a"), (2, 1.5, "b"), (3, -1.0, "c"), (4, 2.0, "d")]]
    found = match(rows, "A+", measures="COUNT(*) AS at", select="id", order=order)
    assert [id for (id,) in found] == expected


def test_partitions_may_be_computed_and_are_then_no_column() -> None:
    rows = [{"id": id, "at": {"day": day}, "x": x} for id, day, x in [(1, 1, 3), (2, 2, 4), (3, 1, 5), (4, 2, 7)]]
    by_day = match(rows, "A+", "", "at.day AS day, SUM(x) AS total", output="ONE ROW PER MATCH", partition="at.day")
    assert by_day == [(1, 8), (2, 11)]
    by_rest = match(rows, "A+", "", "SUM(x) AS total", "id, total", partition="x % 2, x > 4", order="-id")
    assert by_rest == [(1, 3), (2, 4), (4, 7), (3, 12)]


def test_no_column_need_be_read() -> None:
    assert rows_of("SELECT * FROM t MATCH_RECOGNIZE (MEASURES COUNT(*) AS n PATTERN (A A A?))", t=[1, 2]) == [(2,)]


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ({"output": "ALL ROWS PER MATCH WITH UNMATCHED ROWS", "pattern": "A {- B -}"}, "do not go together"),
        ({"measures": "x AS id"}, "two columns 'id'"),
        ({"measures": "x"}, "a measure needs a name"),
        ({"order": "LAST(id)"}, "ORDER BY takes columns and what is computed of one row"),
        ({"partition": "COUNT(x)"}, "PARTITION BY takes columns and what is computed of one row"),
        ({"order": "1"}, "ORDER BY needs a column"),
        ({"partition": "'k'"}, "PARTITION BY needs a column"),
        ({"partition": "nothing"}, "no column 'nothing'"),
        ({"order": "A.id"}, "'A' is no variable"),
        ({"order": "SUM(id) OVER ()"}, "OVER is not supported"),
        ({"order": "regr_count(id, id)"}, "GROUP BY"),
        ({"order": "id COLLATE NOCASE"}, "COLLATE is not supported in ORDER BY"),
        ({"measures": "", "output": ""}, "has no columns"),
    ],
)
def test_clauses_that_are_wrong_are_refused(clauses: dict[str, str], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        match([1], clauses.pop("pattern", "A"), **clauses)
