"""The kinds of values that expressions have, and what is wrong where kinds do not fit together."""

from __future__ import annotations

import datetime as dt
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from motet.model import expression as ex
from motet.model.query import Aggregate, Query

# The kind of each column of the data; None where they are not known.
Columns = Mapping[str, str] | None

# A time that is a whole number is of kind `ticks`: a number that durations may be added to and compared with.
Kind = typing.Literal["integer", "ticks", "number", "text", "boolean", "time", "duration", "other"]

# Aggregates over the events of one match; VAR and STDDEV exist over all matches only.
KLEENE_FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX")

NUMERIC: frozenset[str | None] = frozenset({"integer", "ticks", "number"})
_WHOLE: frozenset[str | None] = frozenset({"integer", "ticks"})
_ORDERED: frozenset[str | None] = NUMERIC | {"text", "time"}
_PHRASES = {
    **dict.fromkeys(("integer", "ticks", "number"), "a number"),
    "text": "a text",
    "boolean": "true or false",
    "time": "a timestamp",
    "duration": "a duration",
    "other": "a value of another kind",
}
_LITERAL_KINDS: tuple[tuple[type, Kind], ...] = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "text"), (dt.datetime, "time"),
    (dt.timedelta, "duration"),
)  # fmt: skip
# Functions that always give the same kind.
_CALL_KINDS: dict[str, Kind] = {
    "FLOOR": "integer", "CEIL": "integer", "LENGTH": "integer", "MICROSECONDS": "integer", "SQRT": "number",
    "LOWER": "text", "UPPER": "text", "DURATION": "duration", "TIMESTAMP": "time",
}  # fmt: skip
_TEXT_FUNCTIONS = ("LOWER", "UPPER", "LENGTH")
_SUM_FUNCTIONS = ("SUM", "AVG", "VAR", "STDDEV")


@dataclass(frozen=True, slots=True)
class Misfit:
    """A place in an expression where a value of the wrong kind stands."""

    node: ex.Expression
    message: str
    hint: str | None = None
    warning: bool = False


def infer_kind(expression: ex.Expression, columns: Columns = None) -> Kind | None:
    """Infer the kind of value an expression has; None where that is not known (NULL, or no columns given)."""
    match expression:
        case ex.Literal(value):
            return next((kind for type, kind in _LITERAL_KINDS if isinstance(value, type)), None)
        case ex.Attribute(_, name):
            return _look_up_column_kind(name, columns)
        case ex.KleeneAggregate(function, _, name):
            return infer_aggregate_kind(function, name, columns)
        case ex.Arithmetic(operator, left, right):
            return _infer_arithmetic_kind(operator, infer_kind(left, columns), infer_kind(right, columns))
        case ex.Negative(operand):
            return _infer_signed_kind(infer_kind(operand, columns))
        case ex.Comparison() | ex.Logical() | ex.Inverse() | ex.IsNull() | ex.Membership() | ex.Like():
            return "boolean"
        case ex.Call(function, arguments):
            return _infer_call_kind(function, [infer_kind(argument, columns) for argument in arguments])


def _infer_signed_kind(kind: Kind | None) -> Kind | None:
    """Infer the kind of a number or a duration whose sign may be changed."""
    return kind if kind in ("integer", "ticks", "duration", None) else "number"


def _infer_arithmetic_kind(operator: str, left: Kind | None, right: Kind | None) -> Kind | None:
    """Infer the kind of a sum, a difference, a product or a quotient; times are added and subtracted too."""
    kinds = {left, right}
    if None in kinds and (operator in "*/" or (operator in "+-" and not kinds & {"integer", "number"})):
        return None
    match operator:
        case "-" if left == right == "time":
            return "duration"
        case "+" | "-" if "duration" in kinds:
            return "time" if "time" in kinds else "ticks" if "ticks" in kinds else "duration"
        case "+" | "-" if "ticks" in kinds and kinds <= NUMERIC:
            return "ticks"
        case "*" | "/" if kinds & {"ticks", "duration"} and kinds & {"integer", "number"}:
            return "duration" if "duration" in kinds else "ticks"
    return "integer" if operator != "/" and kinds <= _WHOLE else "number"


def infer_aggregate_kind(function: str, name: str | None, columns: Columns = None) -> Kind | None:
    """Infer the kind of an aggregate of an attribute."""
    match function:
        case "COUNT":
            return "integer"
        case "MIN" | "MAX":
            return None if name is None else _look_up_column_kind(name, columns)
        case _:
            return "number"


def infer_result_kinds(query: Query, columns: Mapping[str, str]) -> dict[str, str]:
    """Infer the kinds of the columns of an aggregate query's result, by name."""
    kinds = {name: columns.get(name, "other") for name in query.group_by}
    return kinds | {
        item.label: infer_aggregate_kind(item.function, item.name, columns) or "other" for item in query.aggregates
    }


def find_aggregate_misfit(item: Aggregate | ex.KleeneAggregate, columns: Columns) -> str | None:
    """Say what is wrong with the kind of the attribute that an aggregate is over; None where nothing is."""
    kind = None if item.name is None else _look_up_column_kind(item.name, columns)
    if kind is None or item.function == "COUNT":
        return None
    if item.function in _SUM_FUNCTIONS and kind not in NUMERIC:
        return f"{item.function} needs numbers, and '{item.name}' is {_PHRASES[kind]}"
    if kind not in _ORDERED:
        return f"{item.function} needs values with an order, and '{item.name}' is {_PHRASES[kind]}"
    return None


def find_misfits(expression: ex.Expression, columns: Columns = None) -> Iterator[Misfit]:
    """Find everything in an expression that does not fit the kinds of its operands, innermost first."""
    for operand in ex.operands(expression):
        yield from find_misfits(operand, columns)
    match expression:
        case ex.Comparison(operator, left, right):
            yield from _find_comparison_misfits(expression, operator, left, right, columns)
        case ex.Membership(operand, options):
            for option in options:
                yield from _find_pair_misfits(option, operand, option, columns)
        case ex.Arithmetic(operator, left, right):
            yield from _find_arithmetic_misfits(operator, left, right, columns)
        case ex.Negative(operand):
            wanted = NUMERIC | {"duration"}
            yield from _check_operands(wanted, "arithmetic needs numbers", (operand,), columns)
        case ex.Logical(operator, parts):
            yield from _check_operands({"boolean"}, f"{operator} joins conditions", parts, columns)
        case ex.Inverse(operand):
            yield from _check_operands({"boolean"}, "NOT takes a condition", (operand,), columns)
        case ex.Like(operand):
            yield from _check_operands({"text"}, "LIKE compares texts", (operand,), columns)
        case ex.KleeneAggregate():
            message = find_aggregate_misfit(expression, columns)
            if message is not None:
                yield Misfit(expression, message)
        case ex.Call():
            yield from _find_call_misfits(expression, columns)


def _look_up_column_kind(name: str, columns: Columns) -> Kind | None:
    kind = None if columns is None else columns.get(name)
    return typing.cast("Kind | None", kind)


def _infer_call_kind(function: str, arguments: list[Kind | None]) -> Kind | None:
    if function in _CALL_KINDS:
        return _CALL_KINDS[function]
    if function == "ABS":
        return _infer_signed_kind(arguments[0]) if len(arguments) == 1 else "number"
    known = {kind for kind in arguments if kind is not None}
    if "ticks" in known and known <= {"ticks", "integer", "duration"}:
        return "ticks"
    if known == {"integer", "number"}:
        return "number"
    return known.pop() if len(known) == 1 and None not in arguments else None


def _check_operands(
    wanted: typing.Collection[str | None], rule: str, parts: tuple[ex.Expression, ...], columns: Columns
) -> Iterator[Misfit]:
    for part in parts:
        kind = infer_kind(part, columns)
        if kind is not None and kind not in wanted:
            yield Misfit(part, f"{rule}, and this is {_PHRASES[kind]}")


# What may stand on both sides of an operator beside numbers: left, operator, right.
_TIME_ARITHMETIC = frozenset(
    {("time", "-", "time"), ("time", "+", "duration"), ("time", "-", "duration"), ("duration", "+", "time")}
    | {("ticks", "+", "duration"), ("ticks", "-", "duration"), ("duration", "+", "ticks"), ("duration", "-", "ticks")}
    | {("ticks", "/", "duration"), ("duration", "/", "ticks")}
    | {("duration", sign, "duration") for sign in "+-/"}
    | {("duration", sign, kind) for sign in "*/" for kind in ("integer", "number")}
    | {(kind, "*", "duration") for kind in ("integer", "number")}
)


def _find_arithmetic_misfits(
    operator: str, left: ex.Expression, right: ex.Expression, columns: Columns
) -> Iterator[Misfit]:
    kinds = infer_kind(left, columns), infer_kind(right, columns)
    of_time = {"time", "duration"} & {*kinds}
    if not of_time:
        yield from _check_operands(NUMERIC, "arithmetic needs numbers", (left, right), columns)
    elif None not in kinds and (kinds[0], operator, kinds[1]) not in _TIME_ARITHMETIC:
        first, second = (_PHRASES[kind] for kind in kinds if kind is not None)
        hint = "as in b.time - a.time < 5 min, or a.time + 5 min < b.time"
        yield Misfit(left, f"{first} {operator} {second} means nothing", hint)


def _find_comparison_misfits(
    whole: ex.Comparison, operator: str, left: ex.Expression, right: ex.Expression, columns: Columns
) -> Iterator[Misfit]:
    if any(side == ex.Literal(None) for side in (left, right)):
        hint = "write IS NOT NULL" if operator == "!=" else "write IS NULL"
        yield Misfit(whole, "a comparison with NULL never holds", hint, warning=True)
    yield from _find_pair_misfits(whole, left, right, columns)


def _find_pair_misfits(
    place: ex.Expression,
    left: ex.Expression,
    right: ex.Expression,
    columns: Columns,
    verb: str = "cannot be compared with",
) -> Iterator[Misfit]:
    """Check that two values that meet are of one kind; whole numbers and others are."""
    kinds = (infer_kind(left, columns), infer_kind(right, columns))
    if None in kinds or "other" in kinds or kinds[0] == kinds[1] or set(kinds) <= NUMERIC:
        return
    if set(kinds) == {"ticks", "duration"}:
        return
    first, second = (_PHRASES[kind] for kind in kinds if kind is not None)
    hint = "a text stands in single quotes, a number does not"
    if "time" in kinds:
        hint = "write TIMESTAMP '...'"
    if "duration" in kinds:
        hint = "as in b.time - a.time < 5 min"
    yield Misfit(place, f"{first} {verb} {second}", hint)


def _find_call_misfits(call: ex.Call, columns: Columns) -> Iterator[Misfit]:
    if call.function not in ex.FUNCTIONS:
        yield Misfit(call, f"unknown function '{call.function}'", f"known here: {', '.join(ex.FUNCTIONS)}")
        return
    fewest, most = ex.FUNCTIONS[call.function]
    if not fewest <= len(call.arguments) <= most:
        wanted = f"{fewest} argument{'s' if fewest > 1 else ''}" if fewest == most else f"{fewest} to {most} arguments"
        yield Misfit(call, f"{call.function} takes {wanted}, not {len(call.arguments)}")
    elif call.function == "COALESCE":
        for argument in call.arguments[1:]:
            yield from _find_pair_misfits(argument, call.arguments[0], argument, columns, "cannot be replaced by")
    elif call.function in _TEXT_FUNCTIONS:
        yield from _check_operands({"text"}, f"{call.function} takes a text", call.arguments, columns)
    else:
        numbers = NUMERIC | {"duration"} if call.function == "ABS" else NUMERIC
        yield from _check_operands(numbers, f"{call.function} takes a number", call.arguments, columns)
