"""Symbols: an event type together with the local conditions its events must meet, equal up to renaming of variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from motet.model.expression import Attribute, Expression
from motet.model.names import rewrite_leaves


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
    return rewrite_leaves(expression, lambda leaf: Attribute("", leaf.name) if isinstance(leaf, Attribute) else leaf)
