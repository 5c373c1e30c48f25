"""Patterns as nested operators, divided level by level into queries without nesting (MOTTO, section IV-D).

The innermost operators are level 1. The *operand list* of an operator has events, and the composite events of the
operators inside it as they are.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

from motet.optimizer.solvers.common import find_components
from motet.plans.detect.build import JoinSpec


class Operator(StrEnum):
    """The operators of patterns."""

    SEQ = "SEQ"
    CONJ = "CONJ"
    DISJ = "DISJ"


@dataclass(frozen=True, slots=True)
class Primitive:
    """An event as an operand: what it is, and which item of the pattern."""

    what: Hashable
    item: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator over operands, which are sorted where their order does not matter, so that equal ones are equal."""

    operator: Operator
    operands: tuple[Operand, ...]

    @property
    def items(self) -> tuple[int, ...]:
        """The items of the pattern that it binds, operand by operand."""
        return tuple(item for operand in self.operands for item in items_of_operand(operand))


Operand = Primitive | Operation


def items_of_operand(operand: Operand) -> tuple[int, ...]:
    """Return the items that an operand binds."""
    return operand.items if isinstance(operand, Operation) else (operand.item,)


def make_operation(operator: Operator, operands: list[Operand]) -> Operation:
    """Return an operator over operands, sorted where their order does not matter."""
    return Operation(operator, tuple(operands if operator is Operator.SEQ else sorted(operands, key=_sort_key)))


def _sort_key(operand: Operand) -> str:
    """Return what an operand is, wherever it stands."""
    if isinstance(operand, Primitive):
        return _text(operand.what)
    return f"{operand.operator}({' '.join(map(_sort_key, operand.operands))})"


_text = cache(repr)


def divide(whole: Operation) -> list[Operation]:
    """Return an operation and all inside it, the innermost first (Tables II and III).

    Each is a query of its own over the composite events of those before it.
    """
    inner = [part for operand in whole.operands if isinstance(operand, Operation) for part in divide(operand)]
    return [*dict.fromkeys(inner), whole]


def as_conjunction(sequence: Operation) -> Operation:
    """Return a sequence as a conjunction of the same operands (Table I); a filter after it puts them in order."""
    return make_operation(Operator.CONJ, list(sequence.operands))


def operation_of_spec(spec: JoinSpec) -> Operation:
    """Return the nested SEQ and CONJ that the order of a spec's items comes down to. O(n^2) for each level.

    Groups of items that no order connects are conjuncts. Groups that are in order with all of the rest are the elements
    of a sequence.
    """
    found = _operand_of_items(spec, list(range(len(spec.items))))
    return found if isinstance(found, Operation) else Operation(Operator.SEQ, (found,))


def _operand_of_items(spec: JoinSpec, items: list[int]) -> Operand:
    if len(items) == 1:
        return Primitive(spec.items[items[0]], items[0])

    def are_ordered(a: int, b: int) -> bool:
        return (a, b) in spec.order or (b, a) in spec.order

    conjuncts = find_components(items, lambda a: (b for b in items if are_ordered(a, b)))
    if len(conjuncts) > 1:
        return make_operation(Operator.CONJ, [_operand_of_items(spec, each) for each in conjuncts])
    elements = find_components(items, lambda a: (b for b in items if not are_ordered(a, b)))
    if len(elements) > 1:
        elements.sort(key=lambda each: sum((other, each[0]) in spec.order for other in items))
        return make_operation(Operator.SEQ, [_operand_of_items(spec, each) for each in elements])
    # Neither: AND and SEQ never make that up. As a conjunction nothing wrong is said of it.
    return make_operation(Operator.CONJ, [Primitive(spec.items[item], item) for item in items])
