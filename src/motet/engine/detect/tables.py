"""Nodes as the tables that kernels read: what a join sees to, the items and edges of a loop, rows by equal values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.code import Compiler
from motet.engine.encode import Ints
from motet.kernels.instances import Instances
from motet.kernels.join import AFTER, APART, BEFORE, FREE, JoinTable
from motet.kernels.paths import Line
from motet.kernels.stack import AT_LEAST, AT_MOST, DIFFERENT, EQUAL, LESS, MORE, Values
from motet.plan.detect.nodes import Edge, FilterNode, Gap, JoinNode, LeafNode, LoopNode, Node
from motet.template.symbols import Symbol

# What a comparison says when its sides change places.
FLIPPED = {EQUAL: EQUAL, DIFFERENT: DIFFERENT, LESS: MORE, MORE: LESS, AT_MOST: AT_LEAST, AT_LEAST: AT_MOST}
# Fewer rows are searched faster as they are than in order of a value.
WORTH_SORTING = 64


@dataclass(frozen=True)
class NodeTests:
    """What a node tests, compiled: rows of `Tests`, by edge for a loop."""

    rows: list[list[int]]
    edges: tuple[int, ...] = ()


def compile_tests(node: Node, compiler: Compiler) -> NodeTests:
    """The tests of a node over its slots: the items of the outer side first, then those of the inner."""
    match node:
        case JoinNode():
            slots = {str(item): at for at, item in enumerate((*node.outer_items, *node.inner_items))}
            return NodeTests([compiler.test(test, slots) for test in node.new_tests])
        case FilterNode():
            slots = {str(item): item for item in range(len(node.items))}
            return NodeTests([compiler.test(test, slots) for test in node.new_tests])
        case LoopNode():
            rows: list[list[int]] = []
            begins = [0]
            for edge in by_target(node):
                rows += [compiler.test(test, {"0": 0, "1": 1}) for test in sorted(edge.tests, key=repr)]
                begins.append(len(rows))
            return NodeTests(rows, tuple(begins))
    return NodeTests([])


def by_target(node: LoopNode) -> list[Edge]:
    """The edges of a loop in the order in which kernels have them."""
    return sorted(node.edges, key=lambda edge: (edge.target, edge.source))


def join_table(
    node: JoinNode, rows: Sequence[Sequence[int]], absent: Sequence[Symbol], classes: Sequence[frozenset[Symbol]]
) -> JoinTable:
    """What a join sees to; `rows` are its tests, of which those that need code are left out."""
    slots = (*node.outer_items, *node.inner_items)
    ours = len(node.outer_items)
    relation = np.full((ours, len(node.inner_items)), APART, np.int8)
    for i, one in enumerate(node.outer_items):
        for j, other in enumerate(node.inner_items):
            if (one, other) in node.order:
                relation[i, j] = BEFORE
            elif (other, one) in node.order:
                relation[i, j] = AFTER
            elif not _may_share(node.items[one], node.items[other], classes):
                relation[i, j] = FREE
    # An event is found by its time alone; what a bundle begins with is not.
    settled = (FREE, BEFORE, AFTER) if isinstance(node.inner, LeafNode) else (FREE,)
    verify = [(i, j, relation[i, j]) for i, j in np.ndindex(relation.shape) if relation[i, j] not in settled]
    compare = [_outer_first(row, ours) for row in rows if row[0] >= 0]
    return JoinTable(
        relation,
        np.array(verify, np.int32).reshape(len(verify), 3),
        (relation == AFTER).all(axis=1),
        np.array(slots, np.int32),
        *_gaps(node.new_gaps, slots, absent),
        np.array(compare, np.int32).reshape(len(compare), 5),
    )


def filter_table(node: FilterNode, absent: Sequence[Symbol]) -> JoinTable:
    """What a filter sees to besides order and tests: as a join that has nothing to join."""
    slots = range(len(node.items))
    nothing = np.zeros((0, 5), np.int32)
    relation = np.zeros((0, 0), np.int8)
    return JoinTable(
        relation,
        nothing[:, :3].copy(),
        np.zeros(0, np.bool_),
        np.zeros(0, np.int32),
        *_gaps(node.new_gaps, slots, absent),
        nothing,
    )


def _gaps(
    gaps: Sequence[Gap], slots: Sequence[int], absent: Sequence[Symbol]
) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """How each gap stands to each slot, and the number of what must not occur in it."""
    stands = np.zeros((len(gaps), len(slots)), np.int8)
    for g, each in enumerate(gaps):
        for s, item in enumerate(slots):
            stands[g, s] = 1 if item in each.after else 2 if item in each.before else 0
    return stands, np.array([absent.index(each.symbol) for each in gaps] or [0], np.int32)


def _may_share(one: Node, other: Node, classes: Sequence[frozenset[Symbol]]) -> bool:
    """Whether two items may be bound to the same event."""
    if isinstance(one, LeafNode) and isinstance(other, LeafNode):
        return any(one.symbol in found and other.symbol in found for found in classes)
    return True


def _outer_first(row: Sequence[int], ours: int) -> list[int]:
    """A comparison with its outer side on the left; the inner slot counts from the first inner item."""
    comparison, one, one_row, other, other_row = row
    if one >= ours:
        comparison, one, one_row, other, other_row = FLIPPED[comparison], other, other_row, one, one_row
    return [comparison, one, one_row, other - ours, other_row]


def by_equal_values(outer: Instances, inner: Instances, table: JoinTable, values: Values) -> tuple[Instances, Ints]:
    """The inner rows of a join in the stretches that outer rows search, and the stretch of each outer row (-1: none).

    A stretch is a key or, where two columns must be equal, a key and a value. O((n + m) log n).
    """
    key_of = np.repeat(np.arange(len(outer.offsets) - 1), np.diff(outer.offsets))
    equal = [row for row in table.compare.tolist() if row[0] == EQUAL]
    if not equal or len(inner.first) < WORTH_SORTING:
        return inner, key_of
    _, slot, row, inner_slot, inner_row = equal[0]
    wanted = values.real[row, outer.columns[slot]]
    found = values.real[inner_row, inner.columns[inner_slot]]
    known = np.flatnonzero(~np.isnan(found))
    distinct = np.unique(found[known])
    inner_keys = np.repeat(np.arange(len(inner.offsets) - 1), np.diff(inner.offsets))[known]
    code = inner_keys * np.int64(len(distinct)) + np.searchsorted(distinct, found[known])
    order = known[np.lexsort((inner.last[known], code))]
    stretches, begins = np.unique(np.sort(code), return_index=True)
    offsets = np.append(begins, len(order)).astype(np.int64)
    place = np.minimum(np.searchsorted(distinct, wanted), max(len(distinct) - 1, 0))
    outer_code = key_of * np.int64(len(distinct)) + place
    bucket = np.minimum(np.searchsorted(stretches, outer_code), max(len(stretches) - 1, 0))
    if not len(stretches):
        return inner, np.full(len(key_of), -1, np.int64)
    matched = (distinct[place] == wanted) & (stretches[bucket] == outer_code)
    columns = np.ascontiguousarray(inner.columns[:, order])
    sorted_ = Instances(columns, inner.first[order], inner.last[order], inner.end[order], offsets)
    return sorted_, np.where(matched, bucket, -1)


def line_table(
    node: LoopNode, instances: Sequence[Instances], absent: Sequence[Symbol], oldest: Ints, tests: NodeTests
) -> Line:
    """The items of a loop with their instances, and its edges."""
    starts = np.cumsum([0, *(len(each.first) for each in instances)])
    offsets = np.stack([start + each.offsets for start, each in zip(starts, instances, strict=False)])
    edges = by_target(node)
    ways = [sorted(edge.ways, key=repr) for edge in edges]
    forbidden = [[absent.index(symbol) for symbol in way] for each in ways for way in each]
    targets = np.array([edge.target for edge in edges], np.int64)
    numbers = range(len(node.items))
    return Line(
        offsets=np.ascontiguousarray(offsets, np.int64),
        what=np.concatenate([each.columns[0] for each in instances]),
        first=np.concatenate([each.first for each in instances]),
        last=np.concatenate([each.last for each in instances]),
        end=np.concatenate([each.end for each in instances]),
        oldest=oldest,
        position=np.array(node.places, np.int32),
        begins=np.array([item in node.firsts for item in numbers], np.bool_),
        ends=np.array([item in node.lasts for item in numbers], np.bool_),
        edges=np.searchsorted(targets, np.arange(len(node.items) + 1)).astype(np.int64),
        source=np.array([edge.source for edge in edges], np.int32),
        ways=np.cumsum([0, *map(len, ways)]).astype(np.int64),
        forbids=np.cumsum([0, *map(len, forbidden)]).astype(np.int64),
        forbidden=np.array([a for each in forbidden for a in each] or [0], np.int32),
        tests=np.array(tests.edges, np.int64),
    )
