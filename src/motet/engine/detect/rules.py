"""Compile what a query asks of whole matches to the tables that kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.detect.code import ExpressionCompiler, build_conditions
from motet.engine.detect.tables import gap_sides
from motet.engine.encode import Ints
from motet.kernels.expressions import Bytecode
from motet.kernels.match_filter import (
    CONTIGUOUS,
    SKIP_TILL_ANY,
    SKIP_TILL_NEXT,
    CompiledConditions,
    ReadingTables,
    Rules,
)
from motet.kernels.ragged import flatten_lists
from motet.model.expression import At, Attribute, Expression, variables
from motet.model.query import Computed, Policy
from motet.plans.detect.build import PlannedAlternative, PlannedQuery
from motet.plans.detect.query import DetectQuery
from motet.schema import is_nested
from motet.template.alternatives import Loop
from motet.template.automaton import Readings
from motet.template.positions import OPEN, Leaf, max_bindings
from motet.template.symbols import Symbol

POLICIES = {
    Policy.SKIP_TILL_ANY: SKIP_TILL_ANY,
    Policy.SKIP_TILL_NEXT: SKIP_TILL_NEXT,
    Policy.CONTIGUOUS: CONTIGUOUS,
}


@dataclass(frozen=True)
class QueryCode:
    """The numbers of a query's compiled conditions: on the match, on each absence, and of what RETURN computes."""

    match_conditions: dict[int, int]  # by number in the query, those that are tested on matches
    absent: tuple[tuple[int, ...], ...]
    computed: dict[str, int]  # by label of RETURN, values that are returned as they are left out


def is_returned_as_it_is(expression: Expression, query: DetectQuery, columns: pa.Schema) -> bool:
    """Return whether an expression is a column's value at one event. One of several events has no value, save for
    decimals, which codes have as a double, and nested values.
    """
    match expression:
        case Attribute(variable, name, at) if name in columns.names:
            kind = columns.field(name).type
            if at is not At.EACH or pa.types.is_decimal(kind) or is_nested(kind):
                return True
            return max_bindings(query.positions.graph, query.positions.find(variable)) <= 1
    return False


def compile_conditions(planned: PlannedQuery, compiler: ExpressionCompiler, columns: pa.Schema) -> QueryCode:
    """Compile what is tested on whole matches, and what RETURN computes from them."""
    query = planned.query
    names, symbols = query.names, query.name_symbols
    tested = {at for each in planned.alternatives for at in each.residual}
    if not query.obeys_policy:
        tested |= {query.match_conditions.index(condition) for condition in query.adjacent}
    computed = [
        item
        for item in query.query.returns
        if isinstance(item, Computed) and not is_returned_as_it_is(item.expression, query, columns)
    ]
    return QueryCode(
        {at: compiler.compile(query.match_conditions[at], names, symbols) for at in sorted(tested)},
        tuple(tuple(compiler.compile(each, names, symbols) for each in group) for group in query.absence_conditions),
        {item.label: compiler.compile(item.expression, names, symbols, bound=False) for item in computed},
    )


def build_query_conditions(query: DetectQuery, codes: QueryCode, code: Bytecode) -> CompiledConditions:
    """Return the conditions of a query on the match and on absences."""
    numbered = {number: query.match_conditions[at] for at, number in codes.match_conditions.items()}
    for numbers, expressions in zip(codes.absent, query.absence_conditions, strict=True):
        numbered |= dict(zip(numbers, expressions, strict=True))
    return build_conditions(numbered, query.names, code)


def position_slots(query: DetectQuery) -> NDArray[np.int32]:
    """Return the slot of each position, -1 where no condition names it."""
    slot = np.full(len(query.positions.events), -1, np.int32)
    for number, positions in enumerate(query.slots):
        slot[list(positions)] = number
    return slot


def build_rules(
    query: DetectQuery, planned: PlannedAlternative, codes: QueryCode, classes: Sequence[frozenset[Symbol]]
) -> Rules:
    """Return all that matches of an alternative are still to be tested for."""
    size = len(query.positions.events)
    absent, absent_condition = flatten_lists(codes.absent)
    loop, step_ways, forbids, forbidden = _step_tables(query, planned)
    moves, pair_begin, pair_condition = _policy_tables(query, codes)
    return Rules(
        slot=position_slots(query),
        match_conditions=np.array([codes.match_conditions[at] for at in planned.residual], np.int32),
        absent=absent,
        absent_condition=absent_condition,
        gap=gap_sides([(after, before) for _, after, before in planned.deferred], range(size)),
        gap_absence=np.array([absence for absence, _, _ in planned.deferred], np.int32),
        loop=loop,
        step_ways=step_ways,
        forbids=forbids,
        forbidden=forbidden,
        policy=SKIP_TILL_ANY if query.obeys_policy else POLICIES[query.query.policy],
        moves=moves,
        binds=np.array([[symbol in found for symbol in query.symbols] for found in classes], np.bool_),
        pair_begin=pair_begin,
        pair_condition=pair_condition,
        readings=_reading_tables(query),
    )


def _reading_tables(query: DetectQuery) -> ReadingTables:
    """Return the readings of whole matches as arrays, the crossings in order of their positions."""
    size = len(query.positions.events)
    readings = query.readings or Readings((), (), frozenset())
    crossings = sorted(readings.crossings, key=lambda crossing: crossing.position)
    scopes = sorted({each.scope for each in crossings if OPEN not in each.ways}, key=sorted)
    ways = [[] if OPEN in each.ways else sorted(map(sorted, each.ways)) for each in crossings]
    forbids, forbidden = flatten_lists([way for own in ways for way in own])
    return ReadingTables(
        begin=np.searchsorted([each.position for each in crossings], np.arange(size + 1)).astype(np.int64),
        source=np.array([each.source for each in crossings], np.int32),
        target=np.array([each.target for each in crossings], np.int32),
        scope=np.array([-1 if OPEN in each.ways else scopes.index(each.scope) for each in crossings], np.int32),
        ways=np.cumsum([0, *map(len, ways)]).astype(np.int64),
        forbids=forbids,
        forbidden=forbidden,
        settled=np.array(readings.settled, np.int32),
        accepting=np.array([at in readings.accepting for at in range(len(readings.settled))], np.bool_),
        inside=np.array([[at in scope for at in range(size)] for scope in scopes], np.bool_).reshape(-1, size),
    )


def _step_tables(
    query: DetectQuery, planned: PlannedAlternative
) -> tuple[NDArray[np.int32], NDArray[np.int64], Ints, NDArray[np.int32]]:
    """Return the steps of loops whose absences depend on the match."""
    size = len(query.positions.events)
    loop = np.full(size, -1, np.int32)
    step_ways = np.zeros((size, size, 2), np.int64)
    found: list[list[int]] = []
    for number, item in enumerate(planned.alternative.items):
        if isinstance(item, Loop):
            for (p, q), ways in item.follow.items():
                one, other = item.items[p], item.items[q]
                depends = frozenset() not in ways and any(not query.is_free(a) for guards in ways for a in guards)
                if depends and isinstance(one, Leaf) and isinstance(other, Leaf):
                    step_ways[one.position, other.position] = (len(found), len(found) + len(ways))
                    found += [list(guards) for guards in ways]
                    loop[list(item.positions)] = number
    return loop, step_ways if found else np.zeros((0, 0, 2), np.int64), *flatten_lists(found)


def _policy_tables(
    query: DetectQuery, codes: QueryCode
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    """Return, for SKIP TILL NEXT, what may come next and the adjacent conditions of each pair of positions."""
    size = len(query.positions.events)
    if query.progress is None or query.obeys_policy:
        return np.zeros((0, 0), np.int32), np.zeros((size, size, 2), np.int64), np.zeros(0, np.int32)
    moves = np.full((len(query.progress.moves), size), -1, np.int32)
    for state, onward in enumerate(query.progress.moves):
        for position, target in onward.items():
            moves[state, position] = target
    adjacent = [(codes.match_conditions[query.match_conditions.index(c)], c) for c in query.adjacent]
    positions = query.name_positions
    offsets, conditions = flatten_lists(
        [
            [number for number, condition in adjacent if all({p, q} & positions[name] for name in variables(condition))]
            for p in range(size)
            for q in range(size)
        ]
    )
    return moves, np.stack([offsets[:-1], offsets[1:]], axis=1).reshape(size, size, 2), conditions
