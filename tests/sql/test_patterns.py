"""PATTERN: what each operator matches, and which of several matches is preferred."""

from __future__ import annotations

import pytest

from motet.errors import QueryError
from tests.sql.tables import labels, match

FALLS = "DOWN AS x < PREV(x), UP AS x > PREV(x)"
V = [90, 80, 70, 80, 90, 50, 40, 60]


def labels_by_value(rows: list[int], pattern: str) -> list[str]:
    """Return the matches where an A is a 1, a B a 2 and a C a 3."""
    values = {"A": 1, "B": 2, "C": 3}
    return labels(rows, pattern, ", ".join(f"{name} AS x = {x}" for name, x in values.items() if name in pattern))


def test_concatenation_matches_neighbouring_rows() -> None:
    assert labels_by_value([1, 2, 3, 1, 3], "A B C") == ["1A 2B 3C"]


def test_a_v_shape_is_a_fall_and_a_rise() -> None:
    assert labels(V, "STRT DOWN+ UP+", FALLS) == ["1STRT 2DOWN 3DOWN 4UP 5UP", "6STRT 7DOWN 8UP"]


def test_the_earlier_alternative_is_preferred_even_if_it_is_shorter() -> None:
    assert labels_by_value([1, 2], "A | A B") == ["1A"]
    assert labels_by_value([1, 2], "A B | A") == ["1A 2B"]


def test_an_alternative_is_given_up_where_the_rest_does_not_match() -> None:
    assert labels_by_value([1, 2, 3], "(A | A B) C") == ["1A 2B 3C"]


@pytest.mark.parametrize(
    ("quantifier", "expected"),
    [
        ("*", ["1-", "2A 3A 4A", "5-"]),
        ("*?", ["1-", "2-", "3-", "4-", "5-"]),
        ("+", ["2A 3A 4A"]),
        ("+?", ["2A", "3A", "4A"]),
        ("?", ["1-", "2A", "3A", "4A", "5-"]),
        ("??", ["1-", "2-", "3-", "4-", "5-"]),
        ("{2}", ["2A 3A"]),
        ("{2}?", ["2A 3A"]),
        ("{2,}", ["2A 3A 4A"]),
        ("{2,}?", ["2A 3A"]),
        ("{,2}", ["1-", "2A 3A", "4A", "5-"]),
        ("{,2}?", ["1-", "2-", "3-", "4-", "5-"]),
        ("{1,2}", ["2A 3A", "4A"]),
        ("{1,2}?", ["2A", "3A", "4A"]),
        ("{,}", ["1-", "2A 3A 4A", "5-"]),
        ("{0}", ["1-", "2-", "3-", "4-", "5-"]),
        ("{4,}", []),
        ("{4,5}?", []),
    ],
)
def test_greedy_quantifiers_take_as_much_and_reluctant_ones_as_little_as_they_can(
    quantifier: str, expected: list[str]
) -> None:
    assert labels([0, 1, 1, 1, 0], f"A{quantifier}", "A AS x = 1") == expected


def test_a_greedy_quantifier_gives_rows_back_and_a_reluctant_one_takes_more_where_the_rest_asks_for_it() -> None:
    assert labels([1, 1, 1], "A+ B") == ["1A 2A 3B"]
    assert labels([1, 1, 1], "A+? B") == ["1A 2B"]
    assert labels([1, 1, 2], "A+? B", "A AS x = 1, B AS x = 2") == ["1A 2A 3B"]


def test_groups_are_repeated_as_a_whole() -> None:
    assert labels_by_value([1, 2, 1, 2, 1], "(A B)+") == ["1A 2B 3A 4B"]
    assert labels_by_value([1, 2, 1, 2, 3], "(A | B){3,} C") == ["1A 2B 3A 4B 5C"]


def test_permute_matches_any_order_and_prefers_the_order_as_written() -> None:
    assert labels_by_value([3, 1, 2], "PERMUTE(A, B, C)") == ["1C 2A 3B"]
    assert labels([0, 0], "PERMUTE(A, B)") == ["1A 2B"]
    assert labels([0, 0], "PERMUTE(B, A)") == ["1B 2A"]


def test_permute_prefers_every_match_of_an_earlier_order_to_those_of_a_later_one() -> None:
    # A? B C, without a row for A, comes before A? C B, with one.
    assert labels([2, 3, 2], "PERMUTE(A?, B, C)", "A AS x = 2, B AS x = 2, C AS x = 3") == ["1B 2C"]


def test_anchors_are_the_ends_of_the_partition() -> None:
    assert labels([1, 1, 1], "^ A") == ["1A"]
    assert labels([1, 1, 1], "A $") == ["3A"]
    assert labels([1, 1, 1], "A+ ^") == []
    assert labels([1, 1, 1], "^ A{2} $") == []
    assert labels([1, 1], "^ A{2} $") == ["1A 2A"]
    assert labels([1, 1, 1], "A$", "A AS x = 1") == ["3A"]
    assert labels([1, 1, 1], "^A$") == []


def test_anchors_hold_in_every_partition() -> None:
    rows = [{"k": k, "id": id} for k in "ab" for id in (1, 2)]
    assert match(rows, "^ A", select="k, id", partition="k") == [("a", 1), ("b", 1)]


def test_the_empty_pattern_matches_no_row_everywhere() -> None:
    assert labels([1, 1], "()") == ["1-", "2-"]
    assert labels_by_value([2, 1], "A | ()") == ["1-", "2A"]
    assert labels_by_value([1, 1], "() | A") == ["1-", "2-"]


def test_a_round_of_a_loop_that_takes_no_row_is_its_last() -> None:
    assert labels_by_value([1, 1, 2], "(A?)* B") == ["1A 2A 3B"]
    assert labels_by_value([1, 1], "(() | A)*") == ["1-", "2-"]
    assert labels_by_value([1, 2], "(A ()*)* B") == ["1A 2B"]
    assert labels_by_value([1, 1], "(A*){3}") == ["1A 2A"]
    assert labels_by_value([1, 2], "(^)* A B") == ["1A 2B"]


def test_excluded_rows_are_matched_but_not_given() -> None:
    assert labels(V, "STRT {- DOWN+ -} UP+", FALLS) == ["1STRT 4UP 5UP", "6STRT 8UP"]
    assert labels(V, "STRT {- {- DOWN+ -} UP+ -}", FALLS) == ["1STRT", "6STRT"]
    assert labels(V, "{- STRT DOWN+ UP+ -}", FALLS) == []
    assert labels(V, "STRT {- DOWN -}+ UP{1}", FALLS) == ["1STRT 4UP", "5STRT 8UP"]


def test_excluded_rows_count_in_measures() -> None:
    found = match([1, 2, 3], "A {- B -} C", measures="SUM(x) AS total", select="id, total")
    assert found == [(1, 1), (3, 6)]


def test_a_variable_without_a_definition_matches_every_row() -> None:
    assert labels([5, 7], "A B", "A AS x = 5") == ["1A 2B"]


def test_a_variable_may_stand_in_several_places() -> None:
    assert labels_by_value([1, 2, 1], "A B A") == ["1A 2B 3A"]


def test_names_of_variables_are_in_capitals_unless_they_are_quoted() -> None:
    assert labels([1, 2], 'a "b"', 'a AS x = 1, "b" AS "b".x = 2') == ["1A 2b"]
    assert labels([1, 2], "a `b`", "A AS a.x = 1, `b` AS x = 2") == ["1A 2b"]


def test_a_pattern_that_fails_in_many_ways_ends_all_the_same() -> None:
    assert labels([1] * 40, "((A | B)+)+ C", "A AS x = 1, B AS x = 1, C AS x = 2") == []
    assert labels([1] * 2000, "(A+)+ B", "A AS x = 1, B AS x = 2") == []


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
