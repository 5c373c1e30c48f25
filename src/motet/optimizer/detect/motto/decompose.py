"""Interesting sub-queries: what two queries could both be computed from (MOTTO, sections IV-B to IV-D).

Every operator of one query is compared with every operator of the other, as it is or, where one is a sequence and the
other a conjunction, with the sequence as a conjunction. What is common is a query of its own, with the order,
conditions and absences that both ask for, and is compared with all others in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from motet.optimizer.detect.motto.operations import (
    Operand,
    Operation,
    as_conjunction,
    divide,
    items_of_operand,
    of_parts,
)
from motet.optimizer.detect.motto.sequences import Common, common_strings
from motet.optimizer.detect.motto.windows import at_any_time
from motet.optimizer.solvers.graph import Deadline
from motet.plan.detect.build import Parts, in_numbers, part_of

NEVER = Deadline()
# There may be very many sub-queries of sub-queries.
MOST_SUBQUERIES = 300


def interesting(
    queries: Sequence[Parts], transform: bool = True, most: int = MOST_SUBQUERIES, deadline: Deadline = NEVER
) -> list[Parts]:
    """All sub-queries that two of some queries, or two of such sub-queries, have in common, up to a number and as long
    as there is time.

    They have no windows: what is in common is, whatever the windows.
    """
    known = dict.fromkeys(without_window(query) for query in queries)
    given = len(known)
    pending = deque(map(Divided, known))
    compared: list[Divided] = []
    while pending and not deadline.passed:
        one = pending.popleft()
        for other in compared:
            for common in common_parts(other, one, transform):
                if len(known) < given + most and common not in known:
                    known[common] = None
                    pending.append(Divided(common))
        compared.append(one)
    return list(known)[given:]


class Divided:
    """A query with its operators, the most inner ones first."""

    def __init__(self, query: Parts) -> None:
        self.query = query
        self.kinds = frozenset(query.items)
        self.repeats = len(self.kinds) < len(query.items)
        self.operations = divide(of_parts(query))


def without_window(query: Parts) -> Parts:
    """What a query asks of its items alone, in numbers that are the same for all that ask it."""
    return at_any_time(part_of(query, range(len(query.items)))[0])


def common_parts(left: Divided, right: Divided, transform: bool = True) -> Iterator[Parts]:
    """What two queries have in common, operator by operator."""
    if len(left.kinds & right.kinds) < 2 and not (left.repeats and right.repeats):
        return
    for one in left.operations:
        for other in right.operations:
            for common, ours, theirs in compare(one, other, transform):
                yield both(left.query, items_at(ours, common.left), right.query, items_at(theirs, common.right))


def compare(
    one: Operation, other: Operation, transform: bool = True
) -> Iterator[tuple[Common, tuple[Operand, ...], tuple[Operand, ...]]]:
    """What two operators have in common, and the operand lists that it is told by."""
    if one.operator is not other.operator:
        if not transform:
            return
        one, other = as_conjunction(one), as_conjunction(other)
    for common in common_strings(one.operands, other.operands):
        yield common, one.operands, other.operands


def both(left: Parts, ours: Sequence[int], right: Parts, theirs: Sequence[int]) -> Parts:
    """What two queries both ask of some of their items, which are the same one by one."""
    one, other = in_numbers(left, ours), in_numbers(right, theirs)
    common = replace(
        at_any_time(one), order=one.order & other.order, tests=one.tests & other.tests, gaps=one.gaps & other.gaps
    )
    return part_of(common, range(len(ours)))[0]


def items_at(operands: Sequence[Operand], places: Sequence[int]) -> list[int]:
    """The items of the operands at some places of a list."""
    return [item for place in places for item in items_of_operand(operands[place])]
