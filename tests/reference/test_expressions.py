"""Scalar expressions in three-valued logic, and exact aggregates."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest

from motet.errors import RunError
from motet.model.expression import (
    Arithmetic,
    Call,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    Like,
    Literal,
    Logical,
    Membership,
    Negative,
)
from motet.model.query import Aggregate
from motet.reference.aggregates import aggregate, aggregate_bag
from motet.reference.expressions import EvaluationScope, evaluate_expression
from motet.reference.results import OracleTotals, finish_value

NULL = Literal(None)


def value(expression: Expression) -> Any:
    return evaluate_expression(expression, EvaluationScope({}))


def calculated(operator: str, left: Any, right: Any) -> Any:
    return value(Arithmetic(operator, Literal(left), Literal(right)))


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        ("+", 2, 3, 5),
        ("-", 2, 3.5, -1.5),
        ("*", 2**53 + 1, 3, (2**53 + 1) * 3),
        ("/", 7, 2, 3.5),
        ("/", 1, 0, None),
        ("/", 1.0, 0.0, None),
        ("%", 7, 3, 1),
        ("%", -7, 3, -1),
        ("%", 7, -3, 1),
        ("%", -7.5, 2, -1.5),
        ("%", 7, 0, None),
        ("+", None, 1, None),
        ("-", math.inf, math.inf, None),
    ],
)
def test_arithmetic(operator: str, left: Any, right: Any, expected: Any) -> None:
    found = calculated(operator, left, right)
    assert found == expected
    assert type(found) is type(expected)


def test_whole_numbers_that_leave_64_bits_are_errors() -> None:
    assert calculated("+", 2**63 - 2, 1) == 2**63 - 1
    with pytest.raises(RunError, match="64 bits"):
        calculated("+", 2**63 - 1, 1)
    with pytest.raises(RunError, match="64 bits"):
        value(Negative(Literal(-(2**63))))


def test_comparing_a_text_with_a_number_is_an_error() -> None:
    with pytest.raises(RunError, match="text cannot be compared with a number"):
        value(Comparison("=", Literal("1"), Literal(1)))


def test_zoned_times_compare_in_utc() -> None:
    paris = dt.datetime(2024, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert value(Comparison("=", Literal(paris), Literal(dt.datetime(2024, 1, 1, 12)))) is True


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (Comparison("=", NULL, NULL), None),
        (Logical("AND", (Literal(False), NULL)), False),
        (Logical("AND", (Literal(True), NULL)), None),
        (Logical("OR", (Literal(True), NULL)), True),
        (Logical("OR", (Literal(False), NULL)), None),
        (Inverse(NULL), None),
        (IsNull(NULL), True),
        (IsNull(NULL, negated=True), False),
        (IsNull(Literal(math.nan)), True),
        (Membership(Literal(1), (Literal(1), Literal(None))), True),
        (Membership(Literal(2), (Literal(1), Literal(None))), None),
        (Membership(Literal(2), (Literal(1), Literal(None)), negated=True), None),
        (Membership(Literal(2), (Literal(1),), negated=True), True),
        (Like(Literal("a.b\nc"), "a.%c"), True),
        (Like(Literal("axb"), "a.b"), False),
        (Like(Literal("axb"), "a_b"), True),
        (Like(NULL, "%"), None),
    ],
)
def test_three_valued_logic(expression: Expression, expected: bool | None) -> None:
    assert value(expression) is expected


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        ("ABS", (-3,), 3),
        ("FLOOR", (-1.5,), -2),
        ("CEIL", (-1.5,), -1),
        ("SQRT", (9,), 3.0),
        ("SQRT", (-1,), None),
        ("LOWER", ("Ab",), "ab"),
        ("UPPER", ("Ab",), "AB"),
        ("LENGTH", ("Ab",), 2),
        ("LENGTH", (None,), None),
        ("COALESCE", (None, None, 3), 3),
        ("COALESCE", (None,), None),
    ],
)
def test_functions(function: str, arguments: tuple[Any, ...], expected: Any) -> None:
    assert value(Call(function, tuple(Literal(argument) for argument in arguments))) == expected


def test_sums_are_rounded_once_and_averages_are_right_beyond_every_double() -> None:
    assert aggregate("SUM", [0.1] * 10) == 1.0
    huge = {3: 10**400, 5: 10**400, 4: 1}
    assert aggregate_bag("AVG", huge) == 4.0
    assert aggregate_bag("VAR", huge) == 1.0
    assert aggregate_bag("SUM", huge) == math.inf
    assert aggregate_bag("MAX", huge) == 5


def test_infinities_add_as_floats_do() -> None:
    assert aggregate("SUM", [math.inf, 1.0]) == math.inf
    assert aggregate("SUM", [math.inf, -math.inf]) is None


def test_a_sample_of_one_has_no_variance() -> None:
    assert aggregate("VAR", [1]) is None
    assert aggregate("STDDEV", [1]) is None
    assert aggregate("STDDEV", [1, 3]) == pytest.approx(2**0.5)


def test_a_count_beyond_64_bits_is_null_and_counted() -> None:
    totals = OracleTotals()
    count = Aggregate("COUNT")
    assert finish_value(2**63 - 1, count, "exact", totals) == 2**63 - 1
    assert totals.overflows == 0
    assert finish_value(2**63, count, "exact", totals) is None
    assert totals.overflows == 1
    assert finish_value(2**63, count, "double", totals) == 2.0**63
    assert totals.overflows == 1


def test_a_sum_of_whole_numbers_that_a_double_cannot_hold_is_null_and_counted() -> None:
    totals = OracleTotals()
    item = Aggregate("SUM", "A", "x")
    assert finish_value(2**53 - 1, item, "exact", totals) == 2.0**53 - 1
    assert totals.overflows == 0
    assert finish_value(-(2**53), item, "exact", totals) is None
    assert totals.overflows == 1
    assert finish_value(0.5, item, "exact", totals) == 0.5
