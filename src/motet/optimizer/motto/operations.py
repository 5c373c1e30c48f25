"""Patterns as nested operators, divided level by level into queries without nesting (MOTTO, section IV-D).

The most inner operators are level 1. An operator's operands are events or the composite events of operators inside it;
taken as they are, without looking into them, they make up its *operand list*.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

from motet.model.pattern import And, Event, Or, Pattern, Seq
from motet.plans.detect.build import JoinSpec


class Operator(StrEnum):
    """The operators by which operands are put together."""

    SEQ = "SEQ"
    CONJ = "CONJ"
    DISJ = "DISJ"


@dataclass(frozen=True, slots=True)
class Primitive:
    """An event as an operand: what it is, and which item of a pattern."""

    what: Hashable
    item: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator over operands; those of an order-free one are sorted, so that equal ones look equal."""

    operator: Operator
    operands: tuple[Operand, ...]

    @property
    def items(self) -> tuple[int, ...]:
        """The items of the pattern that it binds, operand by operand."""
        return tuple(item for operand in self.operands for item in items_of_operand(operand))

    @property
    def level(self) -> int:
        """How deep operators are nested inside, itself included."""
        return 1 + max((each.level for each in self.operands if isinstance(each, Operation)), default=0)


Operand = Primitive | Operation


def items_of_operand(operand: Operand) -> tuple[int, ...]:
    """The items that an operand binds."""
    return operand.items if isinstance(operand, Operation) else (operand.item,)


def make_operation(operator: Operator, operands: list[Operand]) -> Operation:
    """An operator over operands, sorted where their order does not matter."""
    return Operation(operator, tuple(operands if operator is Operator.SEQ else sorted(operands, key=_sort_key)))


def _sort_key(operand: Operand) -> str:
    """What an operand is, wherever it stands."""
    if isinstance(operand, Primitive):
        return _text(operand.what)
    return f"{operand.operator}({' '.join(map(_sort_key, operand.operands))})"


_text = cache(repr)


def divide(whole: Operation) -> list[Operation]:
    """An operation and all inside it, each a query of its own over the composite events of those before it: the most
    inner ones first (Tables II and III).
    """
    inner = [part for operand in whole.operands if isinstance(operand, Operation) for part in divide(operand)]
    return [*dict.fromkeys(inner), whole]


def as_conjunction(sequence: Operation) -> Operation:
    """SEQ to CONJ: the same operands in any order (Table I); what puts them in order is a filter after it."""
    return make_operation(Operator.CONJ, list(sequence.operands))


def operation_of_pattern(pattern: Pattern) -> Operation:
    """A pattern of SEQ, AND, OR and events as it is written."""
    match pattern:
        case Seq(parts):
            return make_operation(Operator.SEQ, list(map(_make_operand, parts)))
        case And(parts):
            return make_operation(Operator.CONJ, list(map(_make_operand, parts)))
        case Or(parts):
            return make_operation(Operator.DISJ, list(map(_make_operand, parts)))
    raise ValueError("only SEQ, AND and OR put operands together")


def _make_operand(pattern: Pattern) -> Operand:
    return Primitive(pattern.type) if isinstance(pattern, Event) else operation_of_pattern(pattern)


def operation_of_spec(spec: JoinSpec) -> Operation:
    """The nested SEQ and CONJ that the order of some items comes down to; alternatives are parts of their own.

    Items of which none is in order with the rest are conjuncts; items that are in order with all of the rest, elements
    of a sequence. O(n^2) for each level.
    """
    found = _of_items(spec, tuple(range(len(spec.items))))
    return found if isinstance(found, Operation) else Operation(Operator.SEQ, (found,))


def _of_items(spec: JoinSpec, items: tuple[int, ...]) -> Operand:
    if len(items) == 1:
        return Primitive(spec.items[items[0]], items[0])

    def in_order(a: int, b: int) -> bool:
        return (a, b) in spec.order or (b, a) in spec.order

    parallel_groups = list(_connected_groups(items, in_order))
    if len(parallel_groups) > 1:
        return make_operation(Operator.CONJ, [_of_items(spec, each) for each in parallel_groups])
    one_by_one = list(_connected_groups(items, lambda a, b: not in_order(a, b)))
    if len(one_by_one) > 1:
        one_by_one.sort(key=lambda each: sum((other, each[0]) in spec.order for other in items))
        return make_operation(Operator.SEQ, [_of_items(spec, each) for each in one_by_one])
    # Neither: what AND and SEQ never make up. As a conjunction nothing wrong is said of it.
    return make_operation(Operator.CONJ, [Primitive(spec.items[item], item) for item in items])


def _connected_groups(items: tuple[int, ...], joined: Callable[[int, int], bool]) -> Iterator[tuple[int, ...]]:
    """The groups of items that a relation connects."""
    left = list(items)
    while left:
        group, pending = [], [left.pop(0)]
        while pending:
            item = pending.pop()
            group.append(item)
            beside = [other for other in left if joined(item, other)]
            left = [other for other in left if other not in beside]
            pending += beside
        yield tuple(sorted(group))
