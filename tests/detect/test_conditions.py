"""Conditions of any kind: arithmetic, functions, null logic, whole numbers to the last digit."""

from __future__ import annotations

import pyarrow as pa
import pytest

import motet
from motet.errors import MotetError
from motet.reference.tables import run_table as enumerate_table
from tests.comparison import assert_same_results
from tests.detect.cases import found


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.x < b.x", ["a1 b4"]),
        ("a.x <= b.x", ["a1 b3", "a1 b4"]),
        ("a.x != b.x", ["a1 b2", "a1 b4"]),
        ("a.x + b.x = 10", ["a1 b3"]),
        ("a.x - b.x > 0", ["a1 b2"]),
        ("b.x % a.x = 0", ["a1 b3"]),
        ("b.x / a.x > 1", ["a1 b4"]),
        ("ABS(a.x - b.x) = 2", ["a1 b2", "a1 b4"]),
        ("SQRT(a.x * b.x) = 5", ["a1 b3"]),
        ("FLOOR(b.x / a.x) = 0", ["a1 b2"]),
        ("a.x < b.x OR b.x IS NULL", ["a1 b4", "a1 b5"]),
        ("NOT (a.x < b.x)", ["a1 b2", "a1 b3"]),
        ("COALESCE(b.x, a.x) = a.x", ["a1 b3", "a1 b5"]),
        ("a.x - b.x IN (0, 2, NULL)", ["a1 b2", "a1 b3"]),
        ("a.x = b.x AND b.x > 1", ["a1 b3"]),
        ("-a.x < -b.x", ["a1 b2"]),
    ],
)
def test_conditions_between_two_events(condition: str, expected: list[str]) -> None:
    # SEQ(A, B)
    assert found("a1:5 b2:3 b3:5 b4:7 b5", f"RETURN * PATTERN SEQ(A a, B b) WHERE {condition}") == expected


def test_conditions_of_three_events() -> None:
    # SEQ(A, B, C)
    query = "RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x + b.x < c.x * 2"
    assert found("a1:1 b2:2 b3:9 c4:3", query) == ["a1 b2 c4"]


def test_equality_of_texts_and_their_order() -> None:
    # SEQ(A, B) by key, without a partition
    assert found("a1/u b2/v b3/u", "RETURN * PATTERN SEQ(A a, B b) WHERE a.k < b.k") == ["a1 b2"]
    assert found("a1/u b2/v b3/u", "RETURN * PATTERN SEQ(A a, B b) WHERE UPPER(a.k) = UPPER(b.k)") == ["a1 b3"]


def test_equivalence_keeps_keys_apart_and_nulls_out() -> None:
    # SEQ(A, B) with [k]
    assert found("a1/u a2/v b3/u b4", "RETURN * PATTERN SEQ(A a, B b) WHERE [k] AND a.time < b.time") == ["a1 b3"]


def test_whole_numbers_beyond_doubles_are_told_apart() -> None:
    large = 2**53
    table = pa.table({"time": [1, 2, 3], "type": ["A", "B", "B"], "x": [large, large, large + 1]})
    query = "RETURN * PATTERN SEQ(A a, B b) WHERE a.x = b.x"
    assert [row["b"]["time"] for row in motet.run(table, query).to_pylist()] == [2]
    assert_same_results(motet.run(table, query), enumerate_table(motet.read(query), table))


def test_overflow_is_an_error_and_not_a_wrong_answer() -> None:
    table = pa.table({"time": [1, 2], "type": ["A", "B"], "x": [2**62, 2**62]})
    with pytest.raises(MotetError, match="64 bits"):
        motet.run(table, "RETURN * PATTERN SEQ(A a, B b) WHERE a.x + b.x > 0")
