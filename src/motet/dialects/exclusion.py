"""Tells whether conditions on one event exclude each other, from their comparisons with constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from motet.model.expression import Attribute, Comparison, Expression, Literal, Logical, Membership, conjuncts

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class _Bound:
    """What one condition asks of a column: `column operator value`."""

    column: str
    operator: str
    value: str | float


def are_exclusive(one: Sequence[Expression], other: Sequence[Expression]) -> bool:
    """Return whether no event satisfies two conjunctions of conditions, as far as can be told."""
    return all(
        any(_exclude(left, right) for left, right in product(first, second))
        for first, second in product(_alternatives(one), _alternatives(other))
    )


def _alternatives(conditions: Iterable[Expression]) -> list[list[_Bound]]:
    """Return the bounds of each way in which a conjunction may hold; what says nothing about a column is left out."""
    ways: list[list[_Bound]] = [[]]
    for condition in conditions:
        ways = [[*way, *more] for way, more in product(ways, _ways(condition))]
    return ways


def _ways(condition: Expression) -> list[list[_Bound]]:
    match condition:
        case Comparison(operator, Attribute(name=column), Literal(str() | int() | float() as value)):
            return [[_Bound(column.lower(), operator, value)]]
        case Comparison(operator, Literal(str() | int() | float() as value), Attribute(name=column)):
            return [[_Bound(column.lower(), _MIRRORED[operator], value)]]
        case Membership(Attribute() as column, options, False):
            return [way for option in options for way in _ways(Comparison("=", column, option))]
        case Logical("AND"):
            return _alternatives(conjuncts(condition))
        case Logical("OR", parts):
            return [way for part in parts for way in _ways(part)]
    return [[]]


def _exclude(one: _Bound, other: _Bound) -> bool:
    """Return whether two bounds cannot hold of one value."""
    if one.column != other.column:
        return False
    if isinstance(one.value, str) or isinstance(other.value, str):
        signs = {one.operator, other.operator}
        differ = one.value != other.value
        both_texts = isinstance(one.value, str) and isinstance(other.value, str)
        return both_texts and ((signs == {"="} and differ) or (signs == {"=", "!="} and not differ))
    match one.operator, other.operator:
        case "=", operator:
            return not _holds(one.value, operator, other.value)
        case operator, "=":
            return not _holds(other.value, operator, one.value)
        case (("<" | "<=" as below), (">" | ">=" as above)):
            return one.value < other.value or (one.value == other.value and (below, above) != ("<=", ">="))
        case ">" | ">=", "<" | "<=":
            return _exclude(other, one)
    return False


def _holds(value: float, operator: str, bound: float) -> bool:
    match operator:
        case "=":
            return value == bound
        case "!=":
            return value != bound
        case "<":
            return value < bound
        case "<=":
            return value <= bound
        case ">":
            return value > bound
    return value >= bound
