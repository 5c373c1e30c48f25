"""Values in conditions: nulls, NaN, decimals, times, texts, and what does not fit."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest

import motet
from motet.errors import DataError, RunError
from tests.sql.tables import as_table, labels, match

NAN = float("nan")


def holds(condition: str, first: Any, second: Any, type: pa.DataType | None = None) -> bool:
    """Return whether a condition of B holds on a second row after a first."""
    table = pa.table({"id": [1, 2], "x": pa.array([first, second], type)})
    return labels(table, "A B", f"B AS {condition}") == ["1A 2B"]


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_a_comparison_with_null_is_not_true(operator: str) -> None:
    for pair in ((None, 1), (1, None), (None, None)):
        assert not holds(f"x {operator} A.x", *pair, pa.int64())
        assert not holds(f"NOT (x {operator} A.x)", *pair, pa.int64())
        assert not holds(f"x {operator} PREV(x)", *pair, pa.float64())


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x = A.x OR A.x = 1", True),
        ("x = A.x AND A.x = 2", False),
        ("NOT (x = A.x AND A.x = 2)", True),
        ("(x = A.x) IS NULL", True),
        ("x + A.x IS NULL", True),
        ("COALESCE(x, A.x) = 1", True),
        ("x IN (A.x, 1)", False),
        ("A.x IN (x, 1)", True),
        ("A.x NOT IN (x, 2)", False),
        ("A.x NOT BETWEEN x AND 0", True),
        ("SUM(x) = 1", True),
        ("COUNT(x) = 1 AND COUNT(*) = 2", True),
        ("AVG(x) = A.x", True),
        ("MIN(B.x) IS NULL", True),
        ("CASE WHEN x = A.x THEN FALSE ELSE A.x = 1 END", True),
    ],
)
def test_logic_has_three_values(condition: str, expected: bool) -> None:
    assert holds(condition, 1, None, pa.int64()) == expected


def test_nan_is_equal_to_itself_and_greater_than_all_numbers() -> None:
    assert holds("x = A.x", NAN, NAN)
    assert holds("x > A.x", float("inf"), NAN)
    assert not holds("x < A.x", 1.0, NAN)
    assert holds("MAX(x) = x", 1.0, NAN)
    assert holds("MIN(x) = A.x", 1.0, NAN)


def test_decimals_are_exact() -> None:
    cents = pa.decimal128(10, 2)
    one, other = decimal.Decimal("0.10"), decimal.Decimal("0.20")
    assert holds("A.x + x = 0.3", one, other, cents)
    assert holds("A.x * 2 = x", one, other, cents)
    assert holds("A.x * x = 0.02", one, other, cents)
    assert holds("x - A.x >= 0.1 AND SUM(x) = 0.30 AND AVG(x) < x", one, other, cents)
    assert holds("ABS(A.x - x) = 0.1 AND -A.x > -x", one, other, cents)


def test_whole_numbers_and_decimal_constants_are_exact_together() -> None:
    assert holds("A.x * 1.1 = x", 10, 11)
    assert not holds("A.x * 1.1 < x", 10, 11)
    assert holds("A.x + 1_000 = x", 2**60 + 1, 2**60 + 1001)
    assert not holds("A.x + 1_000 = x", 2**60 + 1, 2**60 + 1002)


def test_whole_numbers_are_exact_beyond_what_a_double_holds() -> None:
    assert not holds("x = A.x", 2**53, 2**53 + 1)
    assert holds("x - A.x = 1", 2**62, 2**62 + 1)


def test_times_are_compared_and_subtracted() -> None:
    noon = dt.datetime(2024, 3, 1, 12)
    later = noon + dt.timedelta(minutes=10)
    for type in (pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("us", "UTC")):
        assert holds("x > A.x AND x - A.x <= INTERVAL '10' MINUTE", noon, later, type)
        assert holds("x <= A.x + INTERVAL 600 SECOND AND x - INTERVAL '1 hour' < A.x", noon, later, type)
        assert not holds("x - A.x > INTERVAL '10 minutes'", noon, later, type)
    assert holds("x - A.x = 1 AND x > A.x", noon.date(), noon.date() + dt.timedelta(days=1))
    assert holds("MAX(x) = x AND MIN(x) = A.x", noon, later)


def test_a_date_is_its_midnight_where_it_is_compared_with_a_time() -> None:
    days = [dt.date(2024, 1, day) for day in (1, 2, 3, 5)]
    rows = [{"id": at, "d": day, "t": dt.datetime(day.year, day.month, day.day, 12)} for at, day in enumerate(days)]
    for condition, expected in {
        "d <= A.d + INTERVAL '2' DAY": "0A 1B 2B",
        "d > A.t": "0A 1B 2B 3B",
        "PREV(t) > d": "0A",
        "COALESCE(C.t, d) > A.d AND d - A.d < 4": "0A 1B 2B",
        "d = A.d + INTERVAL '24' HOUR": "0A 1B",
    }.items():
        define = f"B AS {condition}, C AS false"
        assert labels(rows, "A B* C*?", define, skip="TO NEXT ROW")[0] == expected, condition


def test_the_least_whole_number_has_a_remainder() -> None:
    rows = [{"id": 1, "x": -1}, {"id": 2, "x": -(2**63)}, {"id": 3, "x": 2**63 - 1}]
    assert labels(rows, "A B", "B AS x % A.x = 0") == ["1A 2B"]
    assert labels(rows, "A B", "B AS x % A.x = -1 OR A.x % x = A.x") == ["1A 2B"]


def test_texts_are_compared_by_their_letters() -> None:
    assert holds("x > A.x AND A.x < x AND MIN(x) = 'a' AND MAX(x) = 'b'", "a", "b")
    assert holds("x > A.x AND x > 'é' AND A.x = 'z'", "z", "😀")
    assert holds("x = A.x", "a", "a", pa.dictionary(pa.int32(), pa.string()))
    assert holds("x <> A.x AND A.x = 'it''s'", "it's", "", pa.large_string())


def test_truth_values_are_compared() -> None:
    assert holds("x <> A.x AND A.x", True, False)


def test_an_overflow_in_a_condition_is_an_error_where_it_decides() -> None:
    with pytest.raises(RunError, match="does not fit into 64 bits near row 1"):
        holds("x + A.x > 0", 2**62, 2**62)
    with pytest.raises(RunError, match="does not fit into 64 bits"):
        holds("SUM(x) > 0", 2**62, 2**62)
    with pytest.raises(RunError, match="does not fit into 64 bits"):
        holds("x * PREV(x) > 0", 2**32, 2**31)
    assert holds("x * PREV(x) > 0 OR x = 7", 2**62, 7)
    assert not holds("A.x = 0 AND x * A.x > 0", 2**32, 2**32)


def test_a_division_by_zero_in_a_condition_is_an_error() -> None:
    with pytest.raises(RunError, match="divides by zero"):
        holds("x / A.x > 1", 0, 1)
    assert not holds("A.x <> 0 AND x / A.x > 1", 0, 1)


def test_measures_keep_the_types_of_their_columns() -> None:
    table = pa.table(
        {
            "id": [1],
            "i": pa.array([1], pa.int16()),
            "d": pa.array([decimal.Decimal("1.50")], pa.decimal128(9, 2)),
            "t": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us")),
            "l": [[1, 2]],
        }
    )
    found = motet.sql(
        """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES A.i AS i, FIRST(A.d) AS d, MAX(t) AS t, A.l AS l,
           MIN(d) AS least, SUM(i) AS total, SUM(d) AS sum, AVG(d) AS mean PATTERN (A))""",
        {"t": table},
    )
    assert found.to_pylist() == [
        {
            "i": 1,
            "d": decimal.Decimal("1.50"),
            "t": dt.datetime(2024, 1, 1),
            "l": [1, 2],
            "least": decimal.Decimal("1.50"),
            "total": 1,
            "sum": decimal.Decimal("1.50"),
            "mean": 1.5,
        }
    ]
    assert [str(type) for type in found.schema.types[:3]] == ["int16", "decimal128(9, 2)", "timestamp[us]"]


def test_a_sum_of_measures_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(RunError, match="SUM in MEASURES does not fit"):
        match([2**62, 2**62], "A+", measures="SUM(x) AS total")


@pytest.mark.parametrize(("order", "expected"), [("at", [2, 1, 3]), ("at DESC", [1, 2, 3]), ("at, id", [2, 1, 3])])
def test_rows_are_ordered_by_times_finer_than_microseconds(order: str, expected: list[int]) -> None:
    table = pa.table({"id": [1, 2, 3], "at": pa.array([2_001, 2_000, None], pa.timestamp("ns"))})
    assert [id for (id,) in match(table, "A+", select="id", order=order)] == expected


def test_times_finer_than_microseconds_are_refused_where_they_are_compared() -> None:
    table = pa.table({"id": [1, 2], "x": pa.array([1, 2_001], pa.timestamp("ns"))})
    with pytest.raises(DataError, match="microseconds"):
        labels(table, "A B", "B AS x > A.x")


def test_a_match_that_is_too_long_names_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STACK_ENTRIES", "MAX_STACK_ENTRIES"):
        monkeypatch.setattr(f"motet.row_patterns.matching.{name}", 4)
    with pytest.raises(RunError, match="a match from row 2 on is too long to be searched"):
        labels([1, 0, 0, 0, 0, 0, 0, 0], "A+ B", "A AS SUM(x) = 0, B AS x > 1")


def test_a_search_that_takes_too_long_names_the_partition_and_the_option() -> None:
    rows = [{"k": "slow", "id": id, "x": 1} for id in range(30)]
    text = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES COUNT(*) AS n
              PATTERN ((A | B)+ C) DEFINE A AS SUM(x) > 0, C AS SUM(x) < 0)"""
    with pytest.raises(
        RunError, match=r"partition k = 'slow': the search takes more than 10,000 steps \(option step_limit"
    ):
        motet.sql(text, {"t": as_table(rows)}, step_limit=10_000)
