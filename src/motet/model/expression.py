"""Expressions: the conditions of a WHERE clause, of an event definition, and what RETURN computes from a match."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

from motet.model.span import QueryNode


class At(StrEnum):
    """Which of the events bound to a variable an attribute speaks of."""

    EACH = "each"
    NEXT = "next"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Literal(QueryNode):
    """A constant; None is SQL's NULL. `unquoted` texts were written as bare names."""

    value: int | float | str | bool | dt.datetime | dt.timedelta | None
    unquoted: bool = field(default=False, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Attribute(QueryNode):
    """`variable.name`; `NEXT(variable).name` and the like by `at`. In an EVENT definition `variable` is empty."""

    variable: str
    name: str
    at: At = At.EACH


@dataclass(frozen=True, slots=True)
class KleeneAggregate(QueryNode):
    """An aggregate over the events one match binds to a variable: `AVG(b.price)`, `COUNT(b)` (name is None)."""

    function: str  # COUNT, SUM, AVG, MIN, MAX
    variable: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Arithmetic(QueryNode):
    """Two numbers, or times, and an operator between them."""

    operator: str  # + - * / %
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negative(QueryNode):
    """A number with a minus before it."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Comparison(QueryNode):
    """Two values that are compared."""

    operator: str  # = != < <= > >=
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Logical(QueryNode):
    """Conditions that must all hold, or of which one must."""

    operator: str  # AND OR
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Inverse(QueryNode):
    """Logical NOT."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class IsNull(QueryNode):
    """`operand IS NULL`."""

    operand: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Membership(QueryNode):
    """`operand IN (options)`."""

    operand: Expression
    options: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(QueryNode):
    """SQL LIKE: `%` any run of characters, `_` any one."""

    operand: Expression
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Call(QueryNode):
    """A scalar function: see `FUNCTIONS`."""

    function: str
    arguments: tuple[Expression, ...]


Expression = (
    Literal
    | Attribute
    | KleeneAggregate
    | Arithmetic
    | Negative
    | Comparison
    | Logical
    | Inverse
    | IsNull
    | Membership
    | Like
    | Call
)

# name -> fewest and most arguments
FUNCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("ABS", "FLOOR", "CEIL", "SQRT", "LOWER", "UPPER", "LENGTH"), (1, 1)),
    "COALESCE": (1, 16),
}

# What a comparison says when its sides change places.
FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def operands(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly below one."""
    match expression:
        case Literal() | Attribute() | KleeneAggregate():
            return ()
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case Negative(operand) | Inverse(operand) | IsNull(operand) | Membership(operand) | Like(operand):
            return (operand,)
        case Logical(_, parts) | Call(_, parts):
            return parts


def map_operands(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return an expression with every expression directly below it changed."""
    match expression:
        case Literal() | Attribute() | KleeneAggregate():
            return expression
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return replace(expression, left=change(left), right=change(right))
        case Negative(operand) | Inverse(operand) | IsNull(operand) | Membership(operand) | Like(operand):
            return replace(expression, operand=change(operand))
        case Logical(_, parts):
            return replace(expression, operands=tuple(map(change, parts)))
        case Call(_, parts):
            return replace(expression, arguments=tuple(map(change, parts)))


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all below it, parents first."""
    yield expression
    for operand in operands(expression):
        yield from walk(operand)


def conjuncts(*conditions: Expression) -> Iterator[Expression]:
    """Yield the conditions that hold exactly where all of these do and that are no conjunctions themselves."""
    for condition in conditions:
        match condition:
            case Logical("AND", parts):
                yield from conjuncts(*parts)
            case _:
                yield condition


def conjoin(conditions: Sequence[Expression]) -> Expression:
    """Return one condition that holds where all of these do."""
    return conditions[0] if len(conditions) == 1 else Logical("AND", tuple(conditions))


def attributes(expression: Expression) -> list[Attribute]:
    """Return every attribute an expression reads, in the order written."""
    return [node for node in walk(expression) if isinstance(node, Attribute)]


@lru_cache(maxsize=1 << 14)
def variables(expression: Expression) -> frozenset[str]:
    """Return every variable an expression speaks of."""
    return frozenset(node.variable for node in walk(expression) if isinstance(node, Attribute | KleeneAggregate))


def has_aggregate(expression: Expression) -> bool:
    """Return whether an expression aggregates the events that a match binds to a variable."""
    return any(isinstance(node, KleeneAggregate) for node in walk(expression))


def is_local(condition: Expression) -> bool:
    """Return whether a condition reads single events of at most one variable."""
    is_plain = not has_aggregate(condition) and all(attribute.at is At.EACH for attribute in attributes(condition))
    return is_plain and len(variables(condition)) <= 1
