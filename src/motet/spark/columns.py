"""Columns that are computed over Arrow data just as Spark computes them, translated from plans of Spark.

An expression is a tuple: `("column", name)`, `("literal", value, type)`, or the name of an operation and its operands.
Only those are translated that mean the same in pyarrow, nulls and NaNs included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Expression = tuple[Any, ...]
Values = Any  # a ChunkedArray, an Array or a Scalar of pyarrow

# Spark's types, by the names that it has for them.
ARROW_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
INTEGRAL = ("tinyint", "smallint", "int", "bigint")
COMPARISONS = {
    "EqualTo": "equal",
    "EqualNullSafe": "same",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
}
# Whole numbers may overflow, of which Spark makes an error.
ARITHMETIC = {"Add": "add", "Subtract": "subtract", "Multiply": "multiply"}
# What LIKE becomes where the pattern has nothing but a % at an end or both.
TEXT_TESTS = {"StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}


class CannotTranslate(Exception):
    """Pyarrow may not compute this as Spark does."""


def list_columns(expression: Expression) -> set[str]:
    """Return the columns that an expression reads."""
    operation, *operands = expression
    if operation == "column":
        return {operands[0]}
    if operation == "in":
        return list_columns(operands[0])  # what follows are values
    return set().union(*(list_columns(each) for each in operands if isinstance(each, tuple)))


def evaluate(expression: Expression, rows: pa.Table) -> Values:
    """Compute an expression for each row."""
    match expression:
        case ("column", name):
            column = rows[name]
            return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        case ("literal", value, type):
            return pa.scalar(value, type)
        case ("in", value, values, type):
            found = evaluate(value, rows)
            known = pc.is_in(found, pa.array(values, type))
            return pc.if_else(pc.is_valid(found), known, pa.scalar(None, pa.bool_()))
        case ("case", *parts):
            *pairs, otherwise = [evaluate(part, rows) for part in parts]
            # The last first: each condition that holds overrides those after it.
            steps = reversed(list(zip(pairs[::2], pairs[1::2], strict=True)))
            return reduce(lambda rest, step: pc.if_else(pc.fill_null(step[0], False), step[1], rest), steps, otherwise)
        case ("cast", value, type):
            return evaluate(value, rows).cast(type)
        case (operation, *operands):
            return _OPERATIONS[operation](*(evaluate(operand, rows) for operand in operands))
    raise AssertionError(expression)


def _greater(left: Values, right: Values) -> Values:
    found = pc.greater(left, right)
    if not pa.types.is_floating(left.type):
        return found
    return pc.or_(found, pc.and_(pc.is_nan(left), pc.invert(pc.is_nan(right))))  # to Spark, a NaN is above all


def _equal(left: Values, right: Values) -> Values:
    found = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return found
    return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _same(left: Values, right: Values) -> Values:
    """Return whether values are equal, where a null equals a null."""
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.fill_null(_equal(left, right), False), both_null)


def _greater_equal(left: Values, right: Values) -> Values:
    found = pc.greater_equal(left, right)
    return pc.or_(found, pc.is_nan(left)) if pa.types.is_floating(left.type) else found


def _remainder(left: Values, right: Values) -> Values:
    """Return the remainder of whole numbers, with the sign of the dividend."""
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


_OPERATIONS: dict[str, Callable[..., Values]] = {
    "equal": _equal,
    "same": _same,
    "greater": _greater,
    "greater_equal": _greater_equal,
    "less": lambda left, right: _greater(right, left),
    "less_equal": lambda left, right: _greater_equal(right, left),
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "is_null": pc.is_null,
    "is_not_null": pc.is_valid,
    "add": pc.add,
    "subtract": pc.subtract,
    "multiply": pc.multiply,
    "negate": pc.negate,
    "remainder": _remainder,
    "is_nan": lambda value: pc.fill_null(pc.is_nan(value), False),
    "starts_with": lambda value, text: pc.starts_with(value, text.as_py()),
    "ends_with": lambda value, text: pc.ends_with(value, text.as_py()),
    "contains": lambda value, text: pc.match_substring(value, text.as_py()),
    "coalesce": pc.coalesce,
    "concat": lambda *texts: pc.binary_join_element_wise(*texts, ""),
}


def translate_catalyst(expression: Any, columns: Mapping[int, Expression]) -> Expression:
    """Translate an expression of Catalyst, in which attributes are known by their ids.

    Raises:
        CannotTranslate: Pyarrow may not compute it as Spark does.
    """
    kind = expression.getClass().getSimpleName()

    def translate(part: Any) -> Expression:
        return translate_catalyst(part, columns)

    match kind:
        case "AttributeReference":
            return columns[expression.exprId().id()]
        case "Alias":
            return translate(expression.child())
        case "Literal":
            value = _literal_value(expression.value())
            if isinstance(value, float) and math.isnan(value):
                raise CannotTranslate("NaN")  # Spark may pass over row groups that have some
            return "literal", value, _type_of(expression)
        case "And" | "Or":
            return kind.lower(), translate(expression.left()), translate(expression.right())
        case "Not":
            return "not", translate(expression.child())
        case "IsNull" | "IsNotNull":
            return "is_null" if kind == "IsNull" else "is_not_null", translate(expression.child())
        case _ if kind in COMPARISONS or kind in ARITHMETIC:
            left, right = expression.left(), expression.right()
            if _type_of(left) != _type_of(right) or (kind in ARITHMETIC and _type_of(left) != pa.float64()):
                raise CannotTranslate(kind)
            return (COMPARISONS | ARITHMETIC)[kind], translate(left), translate(right)
        case "UnaryMinus" | "IsNaN" if _type_of(expression.child()) == pa.float64():
            return "negate" if kind == "UnaryMinus" else "is_nan", translate(expression.child())
        case "Remainder" if _type_of(expression.left()) == _type_of(expression.right()):
            return make_remainder(translate(expression.left()), translate(expression.right()))
        case _ if kind in TEXT_TESTS and _type_of(expression.left()) == pa.string():
            return make_text_test(TEXT_TESTS[kind], translate(expression.left()), translate(expression.right()))
        case "In" | "InSet":
            return _translate_in(expression, kind, translate)
        case "If":
            choices = expression.predicate(), expression.trueValue(), expression.falseValue()
            return "case", *map(translate, choices)
        case "CaseWhen":
            branches = [expression.branches().apply(at) for at in range(expression.branches().size())]
            parts = [translate(part) for branch in branches for part in (branch._1(), branch._2())]
            last = expression.elseValue()
            return (
                "case",
                *parts,
                translate(last.get()) if last.isDefined() else ("literal", None, _type_of(expression)),
            )
        case "Coalesce" | "Concat":
            children = [expression.children().apply(at) for at in range(expression.children().size())]
            if kind == "Concat" and _type_of(expression) != pa.string():
                raise CannotTranslate(kind)
            return kind.lower(), *map(translate, children)
        case "Cast":
            return _translate_cast(expression, translate)
    raise CannotTranslate(kind)


def make_remainder(value: Expression, divisor: Expression) -> Expression:
    """Return the remainder of a whole number by a constant.

    Raises:
        CannotTranslate: The divisor is none for which the remainder is always there.
    """
    if divisor[0] != "literal" or not pa.types.is_integer(divisor[2]) or divisor[1] in (None, 0, -1):
        raise CannotTranslate("remainder")
    return "remainder", value, divisor


def make_text_test(name: str, value: Expression, text: Expression) -> Expression:
    """Return the test whether a value has a constant text at its start, at its end or anywhere.

    Raises:
        CannotTranslate: The text is no constant.
    """
    if text[0] != "literal" or not isinstance(text[1], str):
        raise CannotTranslate(name)
    return name, value, text


def _translate_in(expression: Any, kind: str, translate: Callable[[Any], Expression]) -> Expression:
    value = expression.value() if kind == "In" else expression.child()
    type = _type_of(value)
    if pa.types.is_floating(type):
        raise CannotTranslate(kind)
    if kind == "In":
        members = [expression.list().apply(at) for at in range(expression.list().size())]
        listed = [translate(member) for member in members]
        if not all(member[0] == "literal" and member[2] == type for member in listed):
            raise CannotTranslate(kind)
        values = [member[1] for member in listed]
    else:
        found = expression.hset().iterator()
        values = []
        while found.hasNext():
            values.append(_literal_value(found.next()))
    if None in values:
        raise CannotTranslate(kind)
    return "in", translate(value), tuple(values), type


def _translate_cast(expression: Any, translate: Callable[[Any], Expression]) -> Expression:
    before = expression.child().dataType().simpleString()
    after = expression.dataType().simpleString()
    widens = before in INTEGRAL and after in INTEGRAL and INTEGRAL.index(before) <= INTEGRAL.index(after)
    if not widens and not (before in INTEGRAL[:3] and after == "double") and (before, after) != ("float", "double"):
        raise CannotTranslate(f"{before} as {after}")
    return "cast", translate(expression.child()), ARROW_TYPES[after]


def _type_of(expression: Any) -> pa.DataType:
    name = expression.dataType().simpleString()
    if name not in ARROW_TYPES:
        raise CannotTranslate(name)
    return ARROW_TYPES[name]


def _literal_value(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else value.toString()
