"""Turns conditions by which other systems describe events into event types."""

from __future__ import annotations

from collections.abc import Sequence

from motet.model.expression import (
    Attribute,
    Comparison,
    Expression,
    IsNull,
    KleeneAggregate,
    Literal,
    conjoin,
)
from motet.model.names import rewrite_leaves
from motet.model.query import EventDefinition


def extract_type(conditions: Sequence[Expression], variable: str, type: str) -> tuple[str | None, list[Expression]]:
    """Return the type that one of the conditions asks for, `variable.type = 'x'`, and the other conditions."""
    for at, condition in enumerate(conditions):
        match condition:
            case Comparison("=", Attribute(owner, name), Literal(str(text))) | Comparison(
                "=", Literal(str(text)), Attribute(owner, name)
            ) if owner == variable and name.lower() == type.lower():
                return text, [*conditions[:at], *conditions[at + 1 :]]
    return None, list(conditions)


def define_type(name: str, conditions: Sequence[Expression], type: str) -> EventDefinition:
    """Define a type of the rows that satisfy conditions on one variable; of all rows where there are none."""

    def bare(leaf: Attribute | KleeneAggregate) -> Expression:
        return Attribute("", leaf.name or "")

    plain = [rewrite_leaves(condition, bare) for condition in conditions] or [IsNull(Attribute("", type), negated=True)]
    return EventDefinition(name, conjoin(plain))
