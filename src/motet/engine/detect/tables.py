"""Turn nodes into the tables that kernels read: joins, filters, and the items and edges of loops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.code import ExpressionCompiler, TestRows
from motet.engine.encode import Ints
from motet.kernels.expressions import AT_LEAST, AT_MOST, DIFFERENT, EQUAL, LESS, MORE
from motet.kernels.instances import Instances
from motet.kernels.operators import AFTER, APART, BEFORE, EDGE, FREE
from motet.kernels.path_join import PathJoinTable
from motet.kernels.paths import EdgeRules, PathGraph
from motet.kernels.ragged import flatten_lists, offsets_from_counts, offsets_of
from motet.kernels.runs import EarlierTests, RunTable
from motet.model.expression import Expression
from motet.model.query import Policy
from motet.plans.detect.nodes import (
    Edge,
    FilterNode,
    Gap,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PathScanNode,
    column_items,
    count_positions,
)
from motet.template.symbols import Symbol

# What a comparison says when its sides change places.
FLIPPED = {EQUAL: EQUAL, DIFFERENT: DIFFERENT, LESS: MORE, MORE: LESS, AT_MOST: AT_LEAST, AT_LEAST: AT_MOST}


@dataclass(frozen=True, slots=True)
class OperatorChecks:
    """What an operator checks: the items of its sides, and the rows that it adds to each table of `Operators` up to
    tests, in the order of `begin`.
    """

    items: tuple[int, int]
    tables: tuple[Sequence[Any], ...] = ((),) * EDGE


def compile_operator(
    node: Node,
    numbers: Mapping[Node, int],
    compiler: ExpressionCompiler,
    absent: Sequence[Symbol],
    definitions: Collection[str],
) -> OperatorChecks:
    """Return what a join, filter or path scan checks, and by `numbers` which operators that reads; other nodes check
    nothing in the kernel.
    """
    match node:
        case JoinNode(inner=LoopNode()):
            return OperatorChecks((len(node.items), 0))
        case JoinNode():
            return _compile_join(node, compiler, absent, definitions)
        case PathScanNode():
            tests = compile_loop_tests(node.loop, compiler)
            places = [numbers[item] for item in node.items]
            return OperatorChecks((len(places), 0), ((), (), (), places, (), (), (), tests))
        case FilterNode():
            slots = range(len(node.items))
            verify = [(one, other, BEFORE) for one, other in node.new_order]
            gaps = _gap_tables(node.new_gaps, slots, absent)
            tests = _compile_item_tests(node, slots, compiler)
            return OperatorChecks((len(slots), 0), ((), verify, (), node.places, *gaps, (), tests))
    return OperatorChecks((len(column_items(node)), 0))


def _compile_join(
    node: JoinNode, compiler: ExpressionCompiler, absent: Sequence[Symbol], definitions: Collection[str]
) -> OperatorChecks:
    slots = (*node.outer_items, *node.inner_items)
    ours = len(node.outer_items)
    relation = join_relation(node, definitions)
    # Where an outer item is before or after all inner ones, their first and last times tell.
    settled = [any((row == way).all() for way in (BEFORE, AFTER)) for row in relation]
    verify = [
        (i, j, relation[i, j]) for i, j in np.ndindex(relation.shape) if relation[i, j] != FREE and not settled[i]
    ]
    tests = _compile_item_tests(node, slots, compiler)
    compare = [_outer_first(row, ours) for row in tests if row[0] >= 0]
    return OperatorChecks(
        (ours, len(node.inner_items)),
        (
            relation.ravel().tolist(),
            verify,
            (relation == AFTER).all(axis=1).tolist(),
            slots,
            *_gap_tables(node.new_gaps, slots, absent),
            compare,
            [row for row in tests if row[0] < 0],
        ),
    )


def _compile_item_tests(node: JoinNode | FilterNode, slots: Sequence[int], compiler: ExpressionCompiler) -> TestRows:
    """Compile the tests of a node over its slots: the items of the outer side first, then those of the inner."""
    numbers = {str(item): at for at, item in enumerate(slots)}
    symbols = {str(at): frozenset({each.symbol}) for at, each in enumerate(node.items) if isinstance(each, LeafNode)}
    return [compiler.compile_test(test, numbers, symbols) for test in node.new_tests]


def join_relation(node: JoinNode, definitions: Collection[str]) -> NDArray[np.int8]:
    """Return how each item of the outer side stands to each of the inner."""
    relation = np.full((len(node.outer_items), len(node.inner_items)), APART, np.int8)
    for i, one in enumerate(node.outer_items):
        for j, other in enumerate(node.inner_items):
            if (one, other) in node.order:
                relation[i, j] = BEFORE
            elif (other, one) in node.order:
                relation[i, j] = AFTER
            elif not _may_share(node.items[one], node.items[other], definitions):
                relation[i, j] = FREE
    return relation


def compile_loop_tests(node: LoopNode, compiler: ExpressionCompiler) -> TestRows:
    """Compile the tests of a loop: those of its edges, edge by edge, and then those of earlier events."""
    pair = {"0": 0, "1": 1}
    rows = []
    for edge in sort_edges(node):
        symbols = edge_symbols(node, edge)
        rows += [compiler.compile_test(test, pair, symbols) for test in sorted(edge.tests, key=repr)]
    return rows + [compiler.compile_test(earlier.test, pair, {}) for earlier in node.earlier]


def edge_symbols(node: LoopNode, edge: Edge) -> dict[str, frozenset[Symbol]]:
    """Return what the two events of an edge are; of a policy any, since it tests whatever comes next."""
    items = {"0": node.items[edge.source], "1": node.items[edge.target]}
    if node.policy is not Policy.SKIP_TILL_ANY:
        return {}
    return {name: frozenset({item.symbol}) for name, item in items.items() if isinstance(item, LeafNode)}


def sort_edges(node: LoopNode) -> list[Edge]:
    """Return the edges of a loop in the order of the kernels: runs go forward, paths are walked from their ends."""
    if node.policy is not Policy.SKIP_TILL_ANY:
        return sorted(node.edges, key=lambda edge: (edge.source, edge.target, edge.together))
    return sorted(node.edges, key=lambda edge: (edge.target, edge.source))


def build_path_join_table(node: JoinNode, absent: Sequence[Symbol], definitions: Collection[str]) -> PathJoinTable:
    """Return what a join with the paths of a loop checks."""
    slots = (*node.outer_items, *node.inner_items)
    sides, absences = _gap_tables(node.new_gaps, slots, absent)
    return PathJoinTable(
        join_relation(node, definitions),
        np.array(sides, np.int8).reshape(len(absences), len(slots)),
        np.array(absences, np.int32),
    )


def _gap_tables(
    gaps: Sequence[Gap], slots: Sequence[int], absent: Sequence[Symbol]
) -> tuple[Sequence[int], Sequence[int]]:
    """Return the side of each gap that each slot is on, and the number of the absent symbol."""
    sides = gap_sides([(gap.after, gap.before) for gap in gaps], slots)
    return sides.ravel().tolist(), [absent.index(gap.symbol) for gap in gaps]


def gap_sides(gaps: Sequence[tuple[frozenset[int], frozenset[int]]], columns: Sequence[int]) -> NDArray[np.int8]:
    """Return for each gap and column 1 where the gap comes after it, 2 where it comes before it, else 0."""
    sides = [[1 if each in after else 2 if each in before else 0 for each in columns] for after, before in gaps]
    return np.array(sides, np.int8).reshape(len(gaps), len(columns))


def _may_share(one: Node, other: Node, definitions: Collection[str]) -> bool:
    """Return whether two items may be bound to the same event."""
    if isinstance(one, LeafNode) and isinstance(other, LeafNode):
        types = {one.symbol.type, other.symbol.type}
        return len(types) == 1 or any(name in definitions for name in types)
    return True


def _outer_first(row: Sequence[int], ours: int) -> list[int]:
    """Return a comparison with its outer side on the left; the inner slot counts from the first inner item."""
    comparison, one, one_row, other, other_row, *changes = row
    if one >= ours:
        comparison, one, one_row, other, other_row = FLIPPED[comparison], other, other_row, one, one_row
        changes = changes[2:] + changes[:2]
    return [comparison, one, one_row, other - ours, other_row, *changes]


def position_starts(items: Iterable[Node]) -> NDArray[np.int32]:
    """Return where the positions of each item begin among those of all."""
    return offsets_from_counts([count_positions(item) for item in items])[:-1].astype(np.int32)


def build_line_table(
    node: LoopNode, instances: Sequence[Instances], absent: Sequence[Symbol], oldest: Ints
) -> PathGraph:
    """Return the items of a loop with their instances, and its edges."""
    starts = offsets_of(each.first for each in instances)
    offsets = np.stack([start + each.offsets for start, each in zip(starts, instances, strict=False)])
    edges = sort_edges(node)
    targets = np.array([edge.target for edge in edges], np.int64)
    numbers = range(len(node.items))
    return PathGraph(
        offsets=np.ascontiguousarray(offsets, np.int64),
        what=np.concatenate([each.columns[0] for each in instances]),
        first=np.concatenate([each.first for each in instances]),
        last=np.concatenate([each.last for each in instances]),
        end=np.concatenate([each.end for each in instances]),
        oldest=oldest,
        position=position_starts(node.items),
        begins=np.array([item in node.firsts for item in numbers], np.bool_),
        ends=np.array([item in node.lasts for item in numbers], np.bool_),
        edges=np.searchsorted(targets, np.arange(len(node.items) + 1)).astype(np.int64),
        source=np.array([edge.source for edge in edges], np.int32),
        rules=build_edge_rules(edges, absent),
    )


def build_edge_rules(edges: Sequence[Edge], absent: Sequence[Symbol]) -> EdgeRules:
    """Return the absences and tests of edges."""
    ways = [sorted(edge.ways, key=repr) for edge in edges]
    forbids, forbidden = flatten_lists([[absent.index(symbol) for symbol in way] for each in ways for way in each])
    return EdgeRules(offsets_of(ways), forbids, forbidden, offsets_of(edge.tests for edge in edges))


def build_run_table(node: LoopNode, absent: Sequence[Symbol], classes: Sequence[frozenset[Symbol]]) -> RunTable:
    """Return the items of a loop that is run by a policy, and its edges."""
    edges, size = sort_edges(node), len(node.items)
    is_contiguous, has_ties = node.policy is Policy.CONTIGUOUS, any(edge.together for edge in edges)
    distinct, asked = _number_tests(edges) if is_contiguous and not has_ties else ({}, [0] * len(edges))
    symbols = [item.symbol for item in node.items if isinstance(item, LeafNode)]

    def mask(items: Collection[int]) -> list[bool]:
        return [item in items for item in range(size)]

    binds = np.array([[symbol in found for symbol in symbols] for found in classes], np.bool_).reshape(-1, size)
    return RunTable(
        binds=binds,
        is_bound=np.logical_or.reduce(binds, axis=1),
        begins=np.array(mask(node.firsts), np.bool_),
        ends=np.array(mask(node.lasts), np.bool_),
        leaving=np.searchsorted([edge.source for edge in edges], np.arange(size + 1)).astype(np.int64),
        target=np.array([edge.target for edge in edges], np.int32),
        together=np.array([edge.together for edge in edges], np.bool_),
        rules=build_edge_rules(edges, absent),
        distinct=np.array(list(distinct.values()), np.int32),
        asked=np.array(asked, np.int64),
        earlier=EarlierTests(
            sum(len(edge.tests) for edge in edges),
            np.array([mask(test.sources) for test in node.earlier], np.bool_).reshape(-1, size),
            np.array([mask(test.targets) for test in node.earlier], np.bool_).reshape(-1, size),
            np.array([test.first_only for test in node.earlier], np.bool_),
        ),
        is_contiguous=is_contiguous,
        has_ties=has_ties,
    )


def _number_tests(edges: Sequence[Edge]) -> tuple[dict[Expression, int], list[int]]:
    """Return the number of each distinct test, and for each edge the bits of its tests; none if they are too many."""
    written = [test for edge in edges for test in sorted(edge.tests, key=repr)]
    first = {test: at for at, test in reversed(list(enumerate(written)))}
    if len(first) > 62:
        return {}, [0] * len(edges)
    bit = {test: 1 << at for at, test in enumerate(first)}
    return first, [sum(bit[test] for test in edge.tests) for edge in edges]
