"""Scalar expressions over bound events, in SQL's three-valued logic (None is NULL)."""

from __future__ import annotations

import datetime as dt
import math
import operator as op
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from motet.errors import RunError
from motet.model import expression as ex
from motet.model.kinds import infer_kind
from motet.reference.aggregates import aggregate

MICROSECOND = dt.timedelta(microseconds=1)
SMALLEST, LARGEST = -(2**63), 2**63 - 1
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": op.eq, "!=": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event of the input: its time in microseconds, its row as given, its values as conditions see them."""

    index: int
    time: int
    row: Mapping[str, Any] = field(compare=False)
    values: Mapping[str, Any] = field(compare=False)
    types: frozenset[str] = field(compare=False, default=frozenset())


@dataclass(frozen=True, slots=True)
class EvaluationScope:
    """What an expression sees: all events bound to each name, and the event (and the next one) it speaks of now."""

    bound: Mapping[str, Sequence[Occurrence]]
    current: Mapping[str, Occurrence] = field(default_factory=dict)
    following: Mapping[str, Occurrence] = field(default_factory=dict)


def normalize_value(value: Any) -> Any:
    """Convert a value to what expressions see: NaN is null, zoned times are UTC, dates midnights, decimals floats."""
    match value:
        case float() if math.isnan(value):
            return None
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC).replace(tzinfo=None)
        case dt.datetime():
            return value
        case dt.date():
            return dt.datetime(value.year, value.month, value.day)
        case Decimal() if abs(value) > 2**53:
            return value  # a double does not hold it: it is returned, and nothing is computed with it
        case Decimal():
            return normalize_value(float(value))
        case _:
            return value


def count_units(expression: ex.Expression, tick: int | Fraction, columns: Mapping[str, str]) -> ex.Expression:
    """Return an expression whose durations are numbers of units where they meet a whole-number time.

    `columns` are the kinds of attributes, as `motet.model.kinds` has them.
    """

    def convert(part: ex.Expression) -> ex.Expression:
        match part:
            case ex.Membership(operand, options):
                operand, *counted = convert_compared(operand, *options)
                return replace(part, operand=operand, options=tuple(counted))
            case ex.Comparison() | ex.Arithmetic() | ex.Call():
                changed = iter(convert_compared(*ex.operands(part)))
                return ex.map_operands(part, lambda _: next(changed))
        return ex.map_operands(part, convert)

    def convert_compared(*parts: ex.Expression) -> list[Any]:
        kinds = [infer_kind(part, columns) for part in parts]
        if "ticks" not in kinds:
            return list(map(convert, parts))
        return [
            count_duration(part) if kind == "duration" else convert(part)
            for part, kind in zip(parts, kinds, strict=True)
        ]

    def count_duration(duration: ex.Expression) -> ex.Expression:
        match duration:
            case ex.Literal(dt.timedelta() as length):
                units = Fraction(length // MICROSECOND) / tick
                return ex.Literal(int(units) if units.denominator == 1 else float(units))
            case ex.Arithmetic(_, left, right) if "time" not in {infer_kind(left, columns), infer_kind(right, columns)}:
                return ex.map_operands(duration, count_units_of_part)
            case ex.Negative() | ex.Call():
                return ex.map_operands(duration, count_units_of_part)
        micros = ex.Arithmetic("/", convert(duration), ex.Literal(MICROSECOND))
        if tick < 1:
            return ex.Arithmetic("*", micros, ex.Literal(int(1 / tick)))
        return ex.Arithmetic("/", micros, ex.Literal(int(tick)))

    def count_units_of_part(part: ex.Expression) -> ex.Expression:
        return count_duration(part) if infer_kind(part, columns) == "duration" else convert(part)

    return convert(expression)


def evaluate_expression(expression: ex.Expression, scope: EvaluationScope) -> Any:
    """Evaluate an expression; None where it is null."""
    match expression:
        case ex.Literal(value):
            return normalize_value(value)
        case ex.Attribute():
            return read_attribute(expression, scope)
        case ex.KleeneAggregate(function, variable, name):
            events = scope.bound[variable]
            if name is None:
                return len(events)
            return aggregate(function, [event.values.get(name) for event in events])
        case ex.Arithmetic(operator, left, right):
            return calculate(operator, evaluate_expression(left, scope), evaluate_expression(right, scope))
        case ex.Negative(operand):
            return calculate("-", 0, evaluate_expression(operand, scope))
        case ex.Comparison(operator, left, right):
            return compare(operator, evaluate_expression(left, scope), evaluate_expression(right, scope))
        case ex.Logical("AND", parts):
            return conjunction([evaluate_expression(part, scope) for part in parts])
        case ex.Logical(_, parts):
            return negation(conjunction([negation(evaluate_expression(part, scope)) for part in parts]))
        case ex.Inverse(operand):
            return negation(evaluate_expression(operand, scope))
        case ex.IsNull(operand, negated):
            return (evaluate_expression(operand, scope) is None) != negated
        case ex.Membership(operand, options, negated):
            inside = is_member(
                evaluate_expression(operand, scope), [normalize_value(option.value) for option in options]
            )
            return negation(inside) if negated else inside
        case ex.Like(operand, pattern, negated):
            alike = is_like(evaluate_expression(operand, scope), pattern)
            return negation(alike) if negated else alike
        case ex.Call(function, arguments):
            return call_function(function, [evaluate_expression(argument, scope) for argument in arguments])


def read_attribute(node: ex.Attribute, scope: EvaluationScope) -> Any:
    """Read an attribute of the event that `node.at` picks; null where the match binds none."""
    event = pick_event(node, scope)
    return None if event is None else event.values.get(node.name)


def pick_event(node: ex.Attribute, scope: EvaluationScope) -> Occurrence | None:
    """Return the event whose attribute is meant, None where there is none."""
    match node.at:
        case ex.At.EACH:
            return scope.current.get(node.variable)
        case ex.At.NEXT:
            return scope.following.get(node.variable)
        case ex.At.FIRST:
            return next(iter(scope.bound[node.variable]), None)
        case ex.At.LAST:
            return next(reversed(scope.bound[node.variable]), None)


def kind(value: Any) -> str:
    """Return what a value is compared with: numbers with numbers, texts with texts."""
    match value:
        case bool():
            return "truth value"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return type(value).__name__


def compare(operator: str, left: Any, right: Any) -> bool | None:
    """Compare two values, which must be of one kind; None where one is null."""
    if left is None or right is None:
        return None
    if kind(left) != kind(right):
        raise RunError(f"a {kind(left)} cannot be compared with a {kind(right)}: {left!r} {operator} {right!r}")
    if isinstance(left, float) != isinstance(right, float) and kind(left) == "number":
        left, right = float(left), float(right)
    if operator not in COMPARISONS:
        raise RunError(f"unknown comparison {operator!r}")
    try:
        return bool(COMPARISONS[operator](left, right))
    except TypeError:
        raise RunError(f"a {kind(left)} has no order: {left!r} {operator} {right!r}") from None


def conjunction(values: Sequence[Any]) -> bool | None:
    """Compute AND: false beats null, null beats true."""
    if any(value is not None and not isinstance(value, bool) for value in values):
        raise RunError(f"AND, OR and NOT take truth values, not {values!r}")
    if False in values:
        return False
    return None if None in values else True


def negation(value: Any) -> bool | None:
    """Return NOT of a truth value, None where it is null."""
    if value is not None and not isinstance(value, bool):
        raise RunError(f"AND, OR and NOT take truth values, not {value!r}")
    return None if value is None else not value


def is_member(value: Any, options: Sequence[Any]) -> bool | None:
    """Compute IN as an OR of equalities, so a null option leaves the answer open."""
    return negation(conjunction([negation(compare("=", value, option)) for option in options]))


def is_like(value: Any, pattern: str) -> bool | None:
    """Return whether a text matches a pattern of LIKE, None where it is null."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise RunError(f"LIKE takes a text, not {value!r}")
    return like_pattern(pattern).fullmatch(value) is not None


@lru_cache(maxsize=256)
def like_pattern(pattern: str) -> re.Pattern[str]:
    """Return a pattern of LIKE as a regular expression."""
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(letter, re.escape(letter)) for letter in pattern), re.DOTALL)


def calculate_time(operator: str, left: Any, right: Any) -> Any:
    """Compute with times and durations: what Python's own do."""
    try:
        match operator:
            case "+":
                return left + right
            case "-":
                return left - right if left != 0 else -right
            case "*":
                return left * right
            case "/":
                return None if not right else left / right
    except TypeError:
        pass
    raise RunError(f"this means nothing: {left!r} {operator} {right!r}")


def calculate(operator: str, left: Any, right: Any) -> Any:
    """Compute exactly on whole numbers, with an error where one leaves 64 bits, and floating otherwise."""
    if left is None or right is None:
        return None
    if isinstance(left, dt.datetime | dt.timedelta) or isinstance(right, dt.datetime | dt.timedelta):
        return calculate_time(operator, left, right)
    if kind(left) != "number" or kind(right) != "number":
        raise RunError(f"arithmetic takes numbers: {left!r} {operator} {right!r}")
    match operator:
        case "+":
            return check_range(left + right)
        case "-":
            return check_range(left - right)
        case "*":
            return check_range(left * right)
        case "/":
            return None if right == 0 else check_range(float(left) / float(right))
        case "%":
            return None if right == 0 else check_range(compute_remainder(left, right))
    raise RunError(f"unknown operator {operator!r}")


def check_range(value: int | float) -> int | float | None:
    """Check that a result is in range: an overflow of whole numbers is an error, a floating NaN is null."""
    if isinstance(value, int) and not SMALLEST <= value <= LARGEST:
        raise RunError(f"a whole number left the range of 64 bits: {value}")
    return None if isinstance(value, float) and math.isnan(value) else value


def compute_remainder(left: int | float, right: int | float) -> int | float:
    """Return the remainder with the sign of the dividend."""
    if isinstance(left, int) and isinstance(right, int):
        return (abs(left) % abs(right)) * (1 if left >= 0 else -1)
    return math.fmod(left, right) if math.isfinite(left) else math.nan


def call_function(function: str, arguments: Sequence[Any]) -> Any:
    """Call a scalar function; null in, null out, save for COALESCE."""
    if function == "COALESCE":
        return next((argument for argument in arguments if argument is not None), None)
    (argument,) = arguments
    if argument is None:
        return None
    if function in ("LOWER", "UPPER", "LENGTH"):
        if not isinstance(argument, str):
            raise RunError(f"{function} takes a text, not {argument!r}")
        return {"LOWER": str.lower, "UPPER": str.upper, "LENGTH": len}[function](argument)
    if function == "ABS" and isinstance(argument, dt.timedelta):
        return abs(argument)
    if kind(argument) != "number":
        raise RunError(f"{function} takes a number, not {argument!r}")
    match function:
        case "ABS":
            return check_range(abs(argument))
        case "SQRT":
            return math.sqrt(argument) if argument >= 0 else None
        case "FLOOR":
            return check_range(to_whole(argument, math.floor))
        case "CEIL":
            return check_range(to_whole(argument, math.ceil))
    raise RunError(f"unknown function {function!r}")


def to_whole(value: int | float, towards: Any) -> int:
    """Round a number to a whole one by a function such as `floor`."""
    if not math.isfinite(value):
        raise RunError(f"a whole number left the range of 64 bits: {value}")
    return int(towards(value))
