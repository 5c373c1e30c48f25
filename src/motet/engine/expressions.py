"""Evaluate expressions over Arrow columns: one call per operator for all rows, in SQL's three-valued logic."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    attributes,
)
from motet.schema import decimals_to_doubles, is_time, plain_type

Columns = Callable[[Attribute], "pa.Array | pa.ChunkedArray"]
# A value is a column, or a scalar that stands for a column of equal values until one is needed.
Value = Any

_COMPARISONS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_FLOATING = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_TIME = pa.timestamp("us")
_TRUTH = pa.bool_()
# What a value may be: every other Arrow type is turned into one of these when it is read.
_KINDS = {
    pa.int64(): "a number",
    pa.float64(): "a number",
    pa.string(): "a text",
    _TRUTH: "a truth value",
    _TIME: "a time",
}


def evaluate(expression: Expression, columns: Columns, length: int | None = None) -> pa.Array:
    """Return the value of an expression for each row. `length` is needed only where the expression reads no column."""
    value = _evaluate(expression, columns)
    if isinstance(value, pa.Scalar):
        if length is None:
            raise ValueError("a constant expression has as many values as there are rows: say how many")
        return pa.repeat(value, length)
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def evaluate_condition(expression: Expression, columns: Columns, length: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return whether a condition holds for each row; null counts as false."""
    value = _as_truth(_evaluate(expression, columns), expression)
    if isinstance(value, pa.Scalar):
        return np.full(length, bool(value.as_py()))
    return np.asarray(pc.fill_null(value, False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _evaluate(expression: Expression, columns: Columns) -> Value:
    def recurse(operand: Expression) -> Value:
        return _evaluate(operand, columns)

    match expression:
        case Literal(value):
            return _make_scalar(value)
        case Attribute():
            return _normalize(columns(expression), expression)
        case Negative(operand):
            return _apply_checked(pc.negate_checked, [_as_number(recurse(operand), expression)], "`-` of ", expression)
        case Arithmetic(operator, left, right):
            numbers = _as_number(recurse(left), expression), _as_number(recurse(right), expression)
            return _apply_arithmetic(operator, *numbers, expression)
        case Comparison(operator, left, right):
            return _COMPARISONS[operator](*_unify_types([recurse(left), recurse(right)], expression))
        case Logical(operator, parts):
            combine = pc.and_kleene if operator == "AND" else pc.or_kleene
            return reduce(combine, [_as_truth(recurse(part), expression) for part in parts])
        case Inverse(operand):
            return pc.invert(_as_truth(recurse(operand), expression))
        case IsNull(operand, negated):
            return pc.is_valid(recurse(operand)) if negated else pc.is_null(recurse(operand))
        case Membership(operand, options, negated):
            found = _test_membership(recurse(operand), options, expression)
            return pc.invert(found) if negated else found
        case Like(operand, pattern, negated):
            found = pc.match_substring_regex(_as_text(recurse(operand), expression), _like_to_regex(pattern))
            return pc.invert(found) if negated else found
        case Call(function, arguments):
            return _call_function(function, [recurse(argument) for argument in arguments], expression)
        case KleeneAggregate():
            raise TypeError("an aggregate over the events of a match has no value for a single row")


def _make_scalar(value: float | str | bool | dt.datetime | dt.timedelta | None) -> pa.Scalar:
    match value:
        case dt.datetime():
            instant = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
            return pa.scalar(instant, _TIME)
        case int() if not -(2**63) <= value < 2**63:
            raise DataError(f"the whole number {value} does not fit in 64 bits")
        case float() if np.isnan(value):
            return pa.scalar(None)
    return pa.scalar(value)


def _normalize(column: Value, attribute: Attribute) -> Value:
    """Convert a column to one of the few types that expressions compute with."""
    if column.type in _KINDS:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        return decimals_to_doubles(column, attribute.name)
    plain = plain_type(column.type)
    if pa.types.is_integer(plain):
        return _apply_checked(column.cast, [pa.int64()], "", attribute)
    if is_time(plain):
        return column.cast(_TIME, safe=False)
    if plain in _KINDS or pa.types.is_null(plain):
        return column if column.type == plain else column.cast(plain)
    raise DataError(
        f"{_format_attribute(attribute)} is of type {plain}, which conditions cannot compute with{_location(attribute)}"
    )


def _as_number(value: Value, within: Expression) -> Value:
    return _check_kind(value, "a number", pa.int64(), within)


def _as_text(value: Value, within: Expression) -> Value:
    return _check_kind(value, "a text", pa.string(), within)


def _as_truth(value: Value, within: Expression) -> Value:
    return _check_kind(value, "a truth value", _TRUTH, within)


def _check_kind(value: Value, kind: str, null_type: pa.DataType, within: Expression) -> Value:
    """Return the value if it is of the kind that an operator takes; an untyped null is cast to that kind."""
    if pa.types.is_null(value.type):
        return value.cast(null_type)
    if _KINDS[value.type] != kind:
        raise DataError(
            f"expected {kind}, found {_KINDS[value.type]} in {_format_attributes(within)}{_location(within)}"
        )
    return value


def _unify_types(values: list[Value], within: Expression, untyped: pa.DataType = _TRUTH) -> list[Value]:
    """Cast values to one common type (`untyped` if all are null); integers beside floats become floats."""
    types = {value.type for value in values if not pa.types.is_null(value.type)}
    kinds = sorted({_KINDS[kind] for kind in types})
    if len(kinds) > 1:
        raise DataError(
            f"{kinds[0]} cannot be compared with {kinds[1]} in {_format_attributes(within)}{_location(within)}"
        )
    common = pa.float64() if len(types) > 1 else next(iter(types), untyped)
    return [value if value.type == common else value.cast(common, safe=False) for value in values]


def _apply_arithmetic(operator: str, left: Value, right: Value, within: Expression) -> Value:
    if operator in ("/", "%"):
        right = pc.if_else(pc.equal(right, 0), pa.scalar(None, right.type), right)
    if operator == "/":
        return _replace_nan(pc.divide(left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)))
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        if operator == "%":
            return _whole_remainder(left, right)
        return _apply_checked(_CHECKED[operator], [left, right], f"`{operator}` of ", within)
    left, right = _unify_types([left, right], within)
    return _replace_nan(_floating_remainder(left, right) if operator == "%" else _FLOATING[operator](left, right))


def _apply_checked(compute: Callable[..., Value], operands: Sequence[Value], what: str, within: Expression) -> Value:
    """Compute with whole numbers, and say which attributes do not fit in 64 bits."""
    try:
        return compute(*operands)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{what}{_format_attributes(within)} does not fit in a whole number of 64 bits{_location(within)}: "
            "multiplied by 1.0 it is computed as a floating number"
        ) from error


def _whole_remainder(left: Value, right: Value) -> Value:
    # x % -1 is x % 1, and the least whole number cannot be divided by -1.
    right = pc.if_else(pc.equal(right, -1), 1, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _floating_remainder(left: Value, right: Value) -> Value:
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _floating_remainder(pa.array([left.as_py()], left.type), right)[0]
    with np.errstate(invalid="ignore"):
        return pa.array(np.fmod(_to_numpy(left), _to_numpy(right)), pa.float64(), from_pandas=True)


def _to_numpy(value: Value) -> Any:
    """Convert floating values to numpy, with NaN for null."""
    if isinstance(value, pa.Scalar):
        return np.nan if value.as_py() is None else value.as_py()
    return value.to_numpy() if isinstance(value, pa.ChunkedArray) else value.to_numpy(zero_copy_only=False)


def _replace_nan(value: Value) -> Value:
    return pc.if_else(pc.is_nan(value), pa.scalar(None, pa.float64()), value)


def _test_membership(value: Value, options: tuple[Literal, ...], within: Expression) -> Value:
    """Evaluate SQL's IN: null where the operand is null, or not found while the options contain a null."""
    value, *alternatives = _unify_types([value, *(_make_scalar(option.value) for option in options)], within)
    known = pa.array([option.as_py() for option in alternatives if option.is_valid], value.type)
    # A value_set with the null would find null operands; taking it out leaves them not found.
    found = pc.is_in(value, value_set=known)
    if len(known) < len(alternatives):
        found = pc.if_else(found, True, pa.scalar(None, _TRUTH))
    return pc.if_else(pc.is_valid(value), found, pa.scalar(None, _TRUTH))


def _like_to_regex(pattern: str) -> str:
    wildcards = {"%": ".*", "_": "."}
    return "(?s)^" + "".join(wildcards.get(character, re.escape(character)) for character in pattern) + "$"


def _call_function(function: str, arguments: list[Value], within: Expression) -> Value:
    first = arguments[0]
    match function:
        case "ABS":
            return _apply_checked(pc.abs_checked, [_as_number(first, within)], "ABS of ", within)
        case "FLOOR" | "CEIL":
            number = _as_number(first, within)
            if pa.types.is_integer(number.type):
                return number
            rounded = pc.floor(number) if function == "FLOOR" else pc.ceil(number)
            return _apply_checked(rounded.cast, [pa.int64()], "", within)
        case "SQRT":
            return _replace_nan(pc.sqrt(_as_number(first, within).cast(pa.float64(), safe=False)))
        case "LOWER":
            return pc.utf8_lower(_as_text(first, within))
        case "UPPER":
            return pc.utf8_upper(_as_text(first, within))
        case "LENGTH":
            return pc.utf8_length(_as_text(first, within)).cast(pa.int64())
        case "MICROSECONDS":
            return first.cast(pa.int64())
        case "DURATION":
            return first
        case "TIMESTAMP":
            return _apply_checked(first.cast, [_TIME], "", within)
        case "COALESCE":
            return pc.coalesce(*_unify_types(arguments, within, untyped=pa.null()))
    raise TypeError(f"no function {function}")


def _format_attributes(expression: Expression) -> str:
    """List the attributes that an expression reads, for a message."""
    names = dict.fromkeys(_format_attribute(attribute) for attribute in attributes(expression))
    return ", ".join(names) or "a constant"


def _format_attribute(attribute: Attribute) -> str:
    return f"{attribute.variable}.{attribute.name}" if attribute.variable else attribute.name


def _location(expression: Expression) -> str:
    span = expression.span
    return f" (line {span.line}, column {span.column})" if span else ""
