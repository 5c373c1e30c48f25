"""Interesting sub-queries: what two queries could both be computed from (MOTTO, sections IV-B to IV-D).

Every operator of one query is compared with every operator of the other, as it is or, where one is a sequence and the
other a conjunction, with the sequence as a conjunction. What they have in common is a query of its own, with the order,
conditions and absences that both require. It is compared with all others in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from motet.optimizer.motto.common_strings import CommonString, find_common_strings
from motet.optimizer.motto.operations import (
    Operand,
    Operation,
    as_conjunction,
    divide,
    items_of_operand,
    operation_of_spec,
)
from motet.optimizer.motto.sources import canonicalize, drop_window
from motet.optimizer.solvers.common import NEVER, Deadline
from motet.plans.detect.build import JoinSpec, select_items

# There may be very many sub-queries of sub-queries.
MOST_SUBQUERIES = 300


def find_interesting_subqueries(
    queries: Sequence[JoinSpec], transform: bool = True, deadline: Deadline = NEVER
) -> list[JoinSpec]:
    """Return the sub-queries that two queries, or two of such sub-queries, have in common, without windows.

    There are at most `MOST_SUBQUERIES`, and they are searched for until the deadline.
    """
    known = dict.fromkeys(drop_window(canonicalize(query)) for query in queries)
    given = len(known)
    pending = deque(map(DividedQuery, known))
    compared: list[DividedQuery] = []
    while pending and not deadline.is_over:
        one = pending.popleft()
        for other in compared:
            for common in find_common_subqueries(other, one, transform):
                if len(known) < given + MOST_SUBQUERIES and common not in known:
                    known[common] = None
                    pending.append(DividedQuery(common))
        compared.append(one)
    return list(known)[given:]


class DividedQuery:
    """A query with its operators, the innermost first."""

    def __init__(self, query: JoinSpec) -> None:
        self.query = query
        self.kinds = frozenset(query.items)
        self.has_repeats = len(self.kinds) < len(query.items)
        self.operations = divide(operation_of_spec(query))


def find_common_subqueries(left: DividedQuery, right: DividedQuery, transform: bool = True) -> Iterator[JoinSpec]:
    """Yield what two queries have in common, operator by operator."""
    if len(left.kinds & right.kinds) < 2 and not (left.has_repeats and right.has_repeats):
        return
    for one in left.operations:
        for other in right.operations:
            for common, ours, theirs in compare_operations(one, other, transform):
                yield intersect_queries(
                    left.query, items_at(ours, common.left), right.query, items_at(theirs, common.right)
                )


def compare_operations(
    one: Operation, other: Operation, transform: bool = True
) -> Iterator[tuple[CommonString, tuple[Operand, ...], tuple[Operand, ...]]]:
    """Yield what two operators have in common, and the operand lists that it refers to."""
    if one.operator is not other.operator:
        if not transform:
            return
        one, other = as_conjunction(one), as_conjunction(other)
    for common in find_common_strings(one.operands, other.operands):
        yield common, one.operands, other.operands


def intersect_queries(left: JoinSpec, ours: Sequence[int], right: JoinSpec, theirs: Sequence[int]) -> JoinSpec:
    """Return what two queries both require of some of their items, which correspond one by one."""
    one, other = select_items(left, ours), select_items(right, theirs)
    common = replace(
        drop_window(one), order=one.order & other.order, tests=one.tests & other.tests, gaps=one.gaps & other.gaps
    )
    return canonicalize(common)


def items_at(operands: Sequence[Operand], places: Sequence[int]) -> list[int]:
    """Return the items of the operands at some places of a list."""
    return [item for place in places for item in items_of_operand(operands[place])]
