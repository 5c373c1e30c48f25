"""Expressions over columns mean what the reference says of each row."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.engine.expressions import evaluate, evaluate_condition
from motet.errors import DataError
from motet.model.expression import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    KleeneAggregate,
    Like,
    Literal,
    Logical,
    Membership,
    Negative,
)
from motet.reference.expressions import EvaluationScope, Occurrence, evaluate_expression

Row = dict[str, Any]


def row_value(expression: Expression, row: Row) -> Any:
    """The value of an expression for one row, as the reference states it."""
    return evaluate_expression(expression, EvaluationScope({}, {"v": Occurrence(0, 0, row, row)}))


TYPES = {
    "i": pa.int64(),
    "j": pa.int32(),
    "x": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "t": pa.timestamp("us"),
}
WHOLE = st.integers(-9, 9)
FLOATING = st.integers(-12, 12).map(lambda quarters: quarters / 4)
TEXTS = st.text("aAb%_.\n", max_size=4)
TIMES = st.integers(0, 3).map(lambda day: dt.datetime(2024, 1, 1 + day))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | WHOLE,
            "j": st.none() | WHOLE,
            "x": st.none() | FLOATING | st.just(math.nan),
            "s": st.none() | TEXTS,
            "b": st.none() | st.booleans(),
            "t": st.none() | TIMES,
        }
    ),
    max_size=8,
)


def attribute(*names: str) -> st.SearchStrategy[Expression]:
    return st.sampled_from(names).map(lambda name: Attribute("v", name))


def literal(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Literal]:
    return (st.none() | values).map(Literal)


numbers = st.recursive(
    attribute("i", "j", "x") | literal(WHOLE | FLOATING),
    lambda inner: (
        st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner)
        | st.builds(Negative, inner)
        | st.builds(Call, st.sampled_from(["ABS", "FLOOR", "CEIL", "SQRT"]), st.tuples(inner))
        | st.builds(Call, st.just("COALESCE"), st.tuples(inner, inner))
    ),
    max_leaves=5,
)
texts = st.recursive(
    attribute("s") | literal(TEXTS),
    lambda inner: (
        st.builds(Call, st.sampled_from(["LOWER", "UPPER"]), st.tuples(inner))
        | st.builds(Call, st.just("COALESCE"), st.tuples(inner, inner))
    ),
    max_leaves=3,
)
lengths = st.builds(Call, st.just("LENGTH"), st.tuples(texts))
times = attribute("t") | literal(TIMES)
truths = attribute("b") | literal(st.booleans())
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


def options(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Literal, ...]]:
    return st.lists(literal(values), min_size=1, max_size=4).map(tuple)


atoms = (
    truths
    | st.builds(Comparison, OPERATORS, numbers, numbers | lengths)
    | st.builds(Comparison, OPERATORS, texts, texts)
    | st.builds(Comparison, OPERATORS, times, times)
    | st.builds(Comparison, OPERATORS, truths, truths)
    | st.builds(IsNull, numbers | texts | times, st.booleans())
    | st.builds(Membership, numbers, options(WHOLE | FLOATING), st.booleans())
    | st.builds(Membership, texts, options(TEXTS), st.booleans())
    | st.builds(Membership, times, options(TIMES), st.booleans())
    | st.builds(Like, texts, TEXTS, st.booleans())
)
conditions = st.recursive(
    atoms,
    lambda inner: (
        st.builds(Logical, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Inverse, inner)
        | st.builds(IsNull, inner, st.booleans())
    ),
    max_leaves=6,
)


def columns_of(rows: list[Row], chunked: bool = False) -> Callable[[Attribute], pa.Array | pa.ChunkedArray]:
    arrays = {name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()}
    if chunked:
        half = len(rows) // 2
        chunks = {name: pa.chunked_array([a[:half], a[half:]], a.type) for name, a in arrays.items()}
        return lambda attribute: chunks[attribute.name]
    return lambda attribute: arrays[attribute.name]


def same(got: Any, wanted: Any) -> bool:
    if isinstance(got, float) and isinstance(wanted, int | float):
        return math.isclose(got, wanted, rel_tol=1e-12, abs_tol=1e-12)
    return type(got) is type(wanted) and got == wanted


@given(conditions, ROWS, st.booleans())
def test_a_condition_over_columns_is_the_condition_of_each_row(
    condition: Expression, rows: list[Row], chunked: bool
) -> None:
    wanted = [row_value(condition, row) for row in rows]
    columns = columns_of(rows, chunked)
    assert evaluate(condition, columns, len(rows)).to_pylist() == wanted
    assert evaluate_condition(condition, columns, len(rows)).tolist() == [value is True for value in wanted]


@given(numbers | texts | lengths, ROWS, st.booleans())
def test_a_value_over_columns_is_the_value_of_each_row(expression: Expression, rows: list[Row], chunked: bool) -> None:
    got = evaluate(expression, columns_of(rows, chunked), len(rows)).to_pylist()
    for value, row in zip(got, rows, strict=True):
        wanted = row_value(expression, row)
        assert same(value, wanted), (value, wanted)


def test_whole_numbers_are_exact_beyond_doubles() -> None:
    big = 2**60 + 1
    column = {"i": pa.array([big, None, -big])}
    twice = Arithmetic("+", Attribute("v", "i"), Attribute("v", "i"))
    assert evaluate(twice, lambda a: column[a.name]).to_pylist() == [2 * big, None, -2 * big]
    assert evaluate(Call("FLOOR", (Attribute("v", "i"),)), lambda a: column[a.name]).to_pylist() == [big, None, -big]


@pytest.mark.parametrize(
    "expression",
    [
        Arithmetic("*", Attribute("v", "i"), Literal(2)),
        Arithmetic("-", Literal(-2), Attribute("v", "i")),
        Negative(Attribute("v", "least")),
        Call("ABS", (Attribute("v", "least"),)),
        Call("CEIL", (Attribute("v", "huge"),)),
    ],
)
def test_overflow_of_whole_numbers_is_an_error_that_names_it(expression: Expression) -> None:
    columns = {"i": pa.array([1, 2**63 - 1]), "least": pa.array([-(2**63)]), "huge": pa.array([1e300])}
    with pytest.raises(DataError, match=r"v\.(i|least|huge) does not fit in a whole number"):
        evaluate(expression, lambda a: columns[a.name])


def test_what_null_rows_hide_cannot_overflow() -> None:
    hidden = pa.Array.from_buffers(
        pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([1, 2**63 - 1]).tobytes())]
    )
    assert evaluate(Arithmetic("+", Attribute("v", "i"), Literal(1)), lambda _: hidden).to_pylist() == [2, None]


def test_the_remainder_of_the_least_whole_number_by_minus_one_is_zero() -> None:
    least = pa.array([-(2**63), 7])
    assert evaluate(Arithmetic("%", Attribute("", "i"), Literal(-1)), lambda _: least).to_pylist() == [0, 0]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (Comparison("=", Attribute("v", "s"), Literal(3)), "a number cannot be compared with a text in v.s"),
        (Comparison("<", Attribute("v", "i"), Literal("3")), "a number cannot be compared with a text in v.i"),
        (Comparison("=", Attribute("v", "b"), Literal(1)), "a number cannot be compared with a truth value in v.b"),
        (Membership(Attribute("v", "s"), (Literal("a"), Literal(1))), "a number cannot be compared with a text"),
        (Arithmetic("+", Attribute("v", "s"), Literal(1)), "expected a number, found a text in v.s"),
        (Like(Attribute("v", "i"), "a%"), "expected a text, found a number in v.i"),
        (Inverse(Attribute("v", "i")), "expected a truth value, found a number in v.i"),
        (Call("LOWER", (Attribute("v", "i"),)), "expected a text, found a number in v.i"),
    ],
)
def test_kinds_that_do_not_go_together_are_an_error(expression: Expression, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        evaluate(expression, columns_of([]), 0)


@pytest.mark.parametrize(
    ("column", "literal_value"),
    [
        (pa.array(["a", None]).dictionary_encode(), "a"),
        (pa.array(["a", None], pa.large_string()), "a"),
        (pa.array([3, None], pa.uint8()), 3),
        (pa.array([3, None], pa.float32()), 3),
        (pa.array([3, None]).cast(pa.decimal128(30, 2)), 3.0),
        (pa.array([dt.date(2024, 1, 2), None]), dt.datetime(2024, 1, 2)),
        (pa.array([dt.datetime(2024, 1, 2), None], pa.timestamp("ns", "Asia/Tokyo")), dt.datetime(2024, 1, 2)),
        (
            pa.array([dt.datetime(2024, 1, 2), None], pa.timestamp("s")),
            dt.datetime(2024, 1, 2, 9, tzinfo=dt.timezone(dt.timedelta(hours=9))),
        ),
    ],
)
def test_columns_of_every_type_compare(column: pa.Array, literal_value: Any) -> None:
    equal = Comparison("=", Attribute("v", "a"), Literal(literal_value))
    assert evaluate(equal, lambda _: column).to_pylist() == [True, None]


def test_a_column_of_untyped_nulls_is_null_of_any_kind() -> None:
    nothing = pa.nulls(2)
    for expression in (
        Comparison("=", Attribute("v", "n"), Literal("a")),
        Arithmetic("+", Attribute("v", "n"), Literal(1)),
        Inverse(Attribute("v", "n")),
        Like(Attribute("v", "n"), "%"),
    ):
        assert evaluate(expression, lambda _: nothing).to_pylist() == [None, None]


def test_results_that_are_no_number_are_null() -> None:
    infinite = pa.array([math.inf])
    x = Attribute("v", "x")
    for expression in (Arithmetic("-", x, x), Arithmetic("%", x, Literal(2)), Call("SQRT", (Negative(x),))):
        assert evaluate(expression, lambda _: infinite).to_pylist() == [None]


def test_a_constant_needs_a_length() -> None:
    with pytest.raises(ValueError, match="say how many"):
        evaluate(Literal(1), columns_of([]))
    assert evaluate(Literal(1), columns_of([]), 3).to_pylist() == [1, 1, 1]
    assert evaluate_condition(Literal(None), columns_of([]), 2).tolist() == [False, False]


def test_an_aggregate_over_a_match_has_no_value_here() -> None:
    with pytest.raises(TypeError, match="aggregate"):
        evaluate(KleeneAggregate("COUNT", "b", None), columns_of([]))


def test_a_type_without_meaning_in_conditions_is_an_error() -> None:
    with pytest.raises(DataError, match=r"v\.l is of type list"):
        evaluate(IsNull(Attribute("v", "l")), lambda _: pa.array([[1]]))
