"""How an event that another system tells by conditions becomes a type of ours."""

from __future__ import annotations

from collections.abc import Sequence

from motet.model.expression import (
    Attribute,
    Comparison,
    Expression,
    IsNull,
    KleeneAggregate,
    Literal,
    Logical,
)
from motet.model.names import rewritten
from motet.model.query import EventDefinition


def conjunction(conditions: Sequence[Expression]) -> Expression:
    """One condition that holds where all do."""
    return conditions[0] if len(conditions) == 1 else Logical("AND", tuple(conditions))


def parts_of(condition: Expression) -> list[Expression]:
    """The conditions that a conjunction joins."""
    match condition:
        case Logical("AND", operands):
            return [part for operand in operands for part in parts_of(operand)]
    return [condition]


def named_type(conditions: Sequence[Expression], variable: str, type: str) -> tuple[str | None, list[Expression]]:
    """The type that one of the conditions asks for, `variable.type = 'x'`, and the other conditions."""
    for at, condition in enumerate(conditions):
        match condition:
            case Comparison("=", Attribute(owner, name), Literal(str(text))) | Comparison(
                "=", Literal(str(text)), Attribute(owner, name)
            ) if owner == variable and name.lower() == type.lower():
                return text, [*conditions[:at], *conditions[at + 1 :]]
    return None, list(conditions)


def definition(name: str, conditions: Sequence[Expression], type: str) -> EventDefinition:
    """A type made of the rows that satisfy conditions on one variable; of all rows where there are none."""

    def bare(leaf: Attribute | KleeneAggregate) -> Expression:
        return Attribute("", leaf.name or "")

    plain = [rewritten(condition, bare) for condition in conditions] or [IsNull(Attribute("", type), negated=True)]
    return EventDefinition(name, conjunction(plain))
