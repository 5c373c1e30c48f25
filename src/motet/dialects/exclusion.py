"""Tells whether conditions on one event exclude each other, from their comparisons with constants."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from motet.model.expression import FLIPPED, Attribute, Comparison, Expression, Literal, Logical, Membership, conjuncts

_TESTS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip


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
        for first, second in product(_list_alternatives(one), _list_alternatives(other))
    )


def _list_alternatives(conditions: Iterable[Expression]) -> list[list[_Bound]]:
    """Return the bounds of each way in which a conjunction may hold; what says nothing about a column is left out."""
    ways: list[list[_Bound]] = [[]]
    for condition in conditions:
        ways = [[*way, *more] for way, more in product(ways, _list_ways(condition))]
    return ways


def _list_ways(condition: Expression) -> list[list[_Bound]]:
    match condition:
        case Comparison(sign, Attribute(name=column), Literal(str() | int() | float() as value)):
            return [[_Bound(column.lower(), sign, value)]]
        case Comparison(sign, Literal(str() | int() | float() as value), Attribute(name=column)):
            return [[_Bound(column.lower(), FLIPPED[sign], value)]]
        case Membership(Attribute() as column, options, False):
            return [way for option in options for way in _list_ways(Comparison("=", column, option))]
        case Logical("AND"):
            return _list_alternatives(conjuncts(condition))
        case Logical("OR", parts):
            return [way for part in parts for way in _list_ways(part)]
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
        case "=", sign:
            return not _TESTS[sign](one.value, other.value)
        case sign, "=":
            return not _TESTS[sign](other.value, one.value)
        case (("<" | "<=" as below), (">" | ">=" as above)):
            return one.value < other.value or (one.value == other.value and (below, above) != ("<=", ">="))
        case ">" | ">=", "<" | "<=":
            return _exclude(other, one)
    return False
