"""Symbols: an event type together with the local conditions its events must meet, equal up to renaming of variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from motet.model.expression import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    Like,
    Logical,
    Membership,
    Negative,
)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A type and its local conditions over bare columns, in one canonical order."""

    type: str
    conditions: tuple[Expression, ...] = ()

    def all_conditions(self, definitions: Mapping[str, Expression]) -> tuple[Expression, ...]:
        """Return its conditions, with the one that defines its type if the workload does."""
        return (definitions[self.type], *self.conditions) if self.type in definitions else self.conditions


def make_symbol(type_name: str, conditions: list[Expression]) -> Symbol:
    """Build the symbol of a position; conditions written in another order or with other variables give the same one."""
    bare = {strip_variables(condition) for condition in conditions}
    return Symbol(type_name, tuple(sorted(bare, key=repr)))


def strip_variables(expression: Expression) -> Expression:
    """Return the same expression over bare columns."""
    match expression:
        case Attribute(_, name):
            return Attribute("", name)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return replace(expression, left=strip_variables(left), right=strip_variables(right))
        case Negative(operand) | Inverse(operand) | IsNull(operand) | Membership(operand) | Like(operand):
            return replace(expression, operand=strip_variables(operand))
        case Logical(_, parts):
            return replace(expression, operands=tuple(strip_variables(part) for part in parts))
        case Call(_, parts):
            return replace(expression, arguments=tuple(strip_variables(part) for part in parts))
    return expression
