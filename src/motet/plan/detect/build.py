"""From readings of queries to a graph of shared nodes, by trees that an optimizer chooses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, reduce
from typing import TypeVar

from motet.model.expression import Expression, variables
from motet.model.names import renamed
from motet.plan.detect.conditions import EdgeTests, edge_tests_of, item_tests
from motet.plan.detect.nodes import (
    Edge,
    FilterNode,
    Gap,
    ItemNode,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PartNode,
    UnionNode,
    WalkNode,
)
from motet.plan.detect.query import DetectQuery
from motet.plan.detect.spans import Bits, bits_of, orders_of
from motet.template.readings import Block, Item, Leaf, Line, Loop, Reading, positions_of_item
from motet.template.symbols import Symbol

# A tree over the numbers of items: a number, or two trees.
JoinTree = int | tuple["JoinTree", "JoinTree"]
N = TypeVar("N", bound=Node)


@dataclass(frozen=True)
class Sifted:
    """A tree that is built by less than the pattern asks, and then filtered: by this order, these tests and gaps only,
    over the pattern's items.
    """

    tree: PlanTree
    order: frozenset[tuple[int, int]]
    tests: frozenset[Expression]
    gaps: frozenset[Gap]


@dataclass(frozen=True)
class Walked:
    """Events in sequence, found as paths. Only neighbours may be compared or have something absent between them."""

    items: tuple[int, ...]


@dataclass(frozen=True)
class Apart:
    """A tree whose nodes are one only with those of the same group."""

    tree: PlanTree
    group: int


# What the builder takes: join trees, with parts that are found in other ways.
PlanTree = int | tuple["PlanTree", "PlanTree"] | Sifted | Walked | Apart


@dataclass(frozen=True)
class Parts:
    """What a tree is to be built over: items, the pairs in order, and the tests, each over some of the items."""

    items: tuple[ItemNode, ...]
    order: frozenset[tuple[int, int]]
    tests: frozenset[Expression]
    gaps: frozenset[Gap]
    within: int  # how far apart first and last may be in microseconds; 0 where that is not known
    rows: int = 0  # how many events of a partition a window holds, where it counts them

    @cached_property
    def loops(self) -> frozenset[Bits]:
        """The items that are paths, each as a set of its own."""
        return frozenset(1 << at for at, item in enumerate(self.items) if isinstance(item, LoopNode))


ChooseTree = Callable[[Parts], PlanTree]
# How trees are chosen for all that is to be built together: each apart, or with a view to what others can share.
PlanTrees = Callable[[Sequence[Parts]], ChooseTree]


@dataclass(frozen=True)
class PlannedReading:
    """A reading of a query and the node that finds it. Column c of the node's instances has the positions
    `positions[places[c]]` and on; `residual` are the conditions that remain to be tested on whole matches.
    """

    reading: Reading
    root: Node
    positions: tuple[int, ...]
    places: tuple[int, ...]
    residual: tuple[int, ...]
    deferred: tuple[tuple[int, frozenset[int], frozenset[int]], ...]  # absence, positions before and after the gap


@dataclass(frozen=True)
class PlannedQuery:
    """A query with the nodes that find its readings."""

    query: DetectQuery
    readings: tuple[PlannedReading, ...]


def plan_queries(queries: Sequence[DetectQuery], choose: ChooseTree) -> list[PlannedQuery]:
    """The nodes of some queries, equal ones once."""
    builder = Builder(choose)
    return [builder.plan(query) for query in queries]


def trees_wanted(queries: Sequence[DetectQuery]) -> list[Parts]:
    """What trees have to be built over for some queries, in their order, each once."""
    wanted: dict[Parts, None] = {}

    def inside_a_loop(parts: Parts) -> JoinTree:
        wanted[parts] = None
        return pattern_order(parts)

    builder = Builder(inside_a_loop)
    for query in queries:
        wanted |= dict.fromkeys(parts for parts in builder.parts_of(query) if len(parts.items) > 1)
    return list(wanted)


def pattern_order(parts: Parts) -> JoinTree:
    """A left-deep tree in the order of the pattern."""

    def grown(tree: JoinTree, item: int) -> JoinTree:
        return (tree, item)

    first: JoinTree = 0
    return reduce(grown, range(1, len(parts.items)), first)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the matches of a reading: tests between its items, within those that are loops, and of a whole
    match, by their numbers among the conditions of the query.
    """

    tests: frozenset[Expression] = frozenset()
    edges: Mapping[Item, EdgeTests] = field(default_factory=dict)
    residual: tuple[int, ...] = ()


@dataclass
class Builder:
    """Builds the nodes of many queries, equal ones once."""

    choose: ChooseTree
    nodes: dict[Node, Node] = field(default_factory=dict)
    parts: dict[tuple[object, ...], PartNode] = field(default_factory=dict)

    def plan(self, query: DetectQuery) -> PlannedQuery:
        """The nodes for one query."""
        return PlannedQuery(query, tuple(self._reading(reading, query) for reading in query.readings))

    def parts_of(self, query: DetectQuery) -> Iterator[Parts]:
        """What each reading of a query joins."""
        for reading in query.readings:
            yield self._parts(reading, query, _asked(reading, query))[0]

    def build(self, parts: Parts) -> Node:
        """The node that finds some parts."""
        return self._built(self.choose(parts), parts)[0]

    def _once(self, node: N) -> N:
        found = self.nodes.setdefault(node, node)
        assert isinstance(found, type(node))
        return found

    def _reading(self, reading: Reading, query: DetectQuery) -> PlannedReading:
        deferred = tuple(
            (guard.absence, _all_positions(guard.after), _all_positions(guard.before))
            for guard in sorted(reading.guards, key=repr)
            if not query.is_free(guard.absence)
        )
        asked = _asked(reading, query)
        root, columns = self._root(reading, query, asked)
        places = tuple(sum(map(len, columns[:at])) for at in range(len(columns)))
        flat = tuple(position for column in columns for position in column)
        return PlannedReading(reading, root, flat, places, asked.residual, deferred)

    def _root(self, reading: Reading, query: DetectQuery, asked: Asked) -> tuple[Node, list[tuple[int, ...]]]:
        """The node of a reading, and the positions that each of its items counts by."""
        parts, columns = self._parts(reading, query, asked)
        if len(parts.items) == 1:
            return parts.items[0], columns
        root, bound = self._built(self.choose(parts), parts)
        return root, [columns[item] for item in bound]

    def _parts(self, reading: Reading, query: DetectQuery, asked: Asked) -> tuple[Parts, list[tuple[int, ...]]]:
        """What a reading joins, and the positions that each item counts by."""
        items = _in_order(reading)
        built = [self._item(item, query, asked.edges.get(item, {})) for item in items]
        columns = [positions for _, positions in built]
        number = {item: at for at, item in enumerate(items)}
        within, rows = (0, query.span.within - 1) if query.span.ranked else (query.span.within, 0)
        order = frozenset((number[a], number[b]) for a, b in reading.order)
        gaps = set()
        for guard in reading.guards:
            if query.is_free(guard.absence):
                after, before = ({number[item] for item in side} for side in (guard.after, guard.before))
                # Of items in order only the last before the gap and the first after it matter.
                last = frozenset(a for a in after if not any((a, other) in order for other in after))
                first = frozenset(b for b in before if not any((other, b) in order for other in before))
                gaps.add(Gap(query.absent[guard.absence], last, first))
        return Parts(tuple(node for node, _ in built), order, asked.tests, frozenset(gaps), within, rows), columns

    def _item(self, item: Item, query: DetectQuery, tests: EdgeTests) -> tuple[ItemNode, tuple[int, ...]]:
        match item:
            case Leaf(position):
                return self._once(LeafNode(query.symbols[position])), (position,)
            case Loop(line, firsts, lasts):
                return self._loop(line, firsts, lasts, query, tests)

    def _loop(
        self,
        line: Line,
        firsts: frozenset[int],
        lasts: frozenset[int],
        query: DetectQuery,
        tests: EdgeTests,
    ) -> tuple[LoopNode, tuple[int, ...]]:
        items: list[LeafNode | UnionNode] = []
        positions: list[tuple[int, ...]] = []
        for item in line.items:
            match item:
                case Leaf(position):
                    items.append(self._once(LeafNode(query.symbols[position])))
                    positions.append((position,))
                case Block(readings):
                    own = tuple(
                        sorted(position for each in readings for i in each.items for position in positions_of_item(i))
                    )
                    own = tuple(dict.fromkeys(own))
                    items.append(self._union(readings, own, query))
                    positions.append(own)
        edges = tuple(
            Edge(p, q, self._ways(line, (p, q), query), tests.get((p, q), frozenset())) for p, q in sorted(line.follow)
        )
        places = tuple(sum(map(len, positions[:at])) for at in range(len(positions)))
        node = self._once(LoopNode(tuple(items), firsts, lasts, edges, places))
        return node, tuple(position for own in positions for position in own)

    def _ways(self, line: Line, edge: tuple[int, int], query: DetectQuery) -> frozenset[frozenset[Symbol]]:
        """The ways to cross a gap; free here where one of them depends on bound events: that is tested later."""
        ways = line.follow[edge]
        if frozenset() in ways or any(not query.is_free(absence) for guards in ways for absence in guards):
            return frozenset()
        return frozenset(frozenset(query.absent[absence] for absence in guards) for guards in ways)

    def _union(self, readings: Sequence[Reading], own: tuple[int, ...], query: DetectQuery) -> UnionNode:
        parts = []
        for reading in readings:
            root, columns = self._root(reading, query, Asked())
            parts.append((root, tuple(own.index(position) for column in columns for position in column)))
        return self._once(UnionNode(tuple(parts)))

    # Trees

    def _built(self, tree: PlanTree, parts: Parts, group: int = 0) -> tuple[Node, tuple[int, ...]]:
        """The node of a tree, and the items of the reading that its columns are."""
        match tree:
            case int():
                return parts.items[tree], (tree,)
            case Sifted():
                return self._filtered(tree, parts, group)
            case Walked(items):
                return self._walked(items, parts, group)
            case Apart(inner, own_group):
                return self._built(inner, parts, own_group)
            case (left, right):
                return self._joined(left, right, parts, group)

    def _part_once(self, node: PartNode) -> PartNode:
        """The node that finds what this one finds, however it does."""
        what = (node.items, node.order, node.tests, node.gaps, node.group)
        return self.parts.setdefault(what, node)

    def _joined(
        self, left_tree: PlanTree, right_tree: PlanTree, parts: Parts, group: int
    ) -> tuple[PartNode, tuple[int, ...]]:
        left, left_items = self._built(left_tree, parts, group)
        right, right_items = self._built(right_tree, parts, group)
        if left_is_inner(bits_of(left_items), bits_of(right_items), parts):
            inner, inner_items, outer, outer_items = left, left_items, right, right_items
        else:
            inner, inner_items, outer, outer_items = right, right_items, left, left_items
        own, bound = part_of(parts, (*left_items, *right_items))
        number = {item: at for at, item in enumerate(bound)}
        outer_places, inner_places = (tuple(number[item] for item in side) for side in (outer_items, inner_items))
        sides = (set(outer_places), set(inner_places))
        node = JoinNode(
            items=own.items,
            order=own.order,
            tests=own.tests,
            gaps=own.gaps,
            group=group,
            outer=outer,
            inner=inner,
            outer_items=outer_places,
            inner_items=inner_places,
            new_tests=tuple(
                test for test in sorted(own.tests, key=repr) if not any(items_of(test) <= side for side in sides)
            ),
            new_gaps=tuple(
                gap for gap in sorted(own.gaps, key=repr) if not any(gap.after | gap.before <= side for side in sides)
            ),
        )
        return self._part_once(node), bound

    def _filtered(self, tree: Sifted, parts: Parts, group: int) -> tuple[PartNode, tuple[int, ...]]:
        loose = replace(parts, order=tree.order, tests=tree.tests, gaps=tree.gaps)
        found, columns = self._built(tree.tree, loose, group)
        own, bound = part_of(parts, columns)
        known, known_order = part_of(loose, columns)
        number = {item: at for at, item in enumerate(bound)}
        seen = renumbered(known, [number[item] for item in known_order])
        node = FilterNode(
            items=own.items,
            order=own.order,
            tests=own.tests,
            gaps=own.gaps,
            group=group,
            input=found,
            places=tuple(columns.index(item) for item in bound),
            new_order=tuple(sorted(own.order - seen.order)),
            new_tests=tuple(sorted(own.tests - seen.tests, key=repr)),
            new_gaps=tuple(sorted(own.gaps - seen.gaps, key=repr)),
        )
        return self._part_once(node), bound

    def _walked(self, items: Sequence[int], parts: Parts, group: int) -> tuple[PartNode, tuple[int, ...]]:
        own, bound = part_of(parts, items)
        steps = range(len(own.items) - 1)
        edges = tuple(
            Edge(
                at,
                at + 1,
                _crossing([gap.symbol for gap in own.gaps if gap.after == {at}]),
                frozenset(
                    renamed(test, {str(at): "0", str(at + 1): "1"})
                    for test in own.tests
                    if items_of(test) == {at, at + 1}
                ),
            )
            for at in steps
        )
        leaves = tuple(item for item in own.items if isinstance(item, LeafNode))
        loop = self._once(
            LoopNode(leaves, frozenset({0}), frozenset({len(leaves) - 1}), edges, tuple(range(len(leaves))))
        )
        return self._part_once(WalkNode(own.items, own.order, own.tests, own.gaps, group, loop)), bound


def _crossing(absent: Sequence[Symbol]) -> frozenset[frozenset[Symbol]]:
    """The one way to cross a gap in which some symbols may not occur."""
    return frozenset({frozenset(absent)}) if absent else frozenset()


def items_of(test: Expression) -> set[int]:
    """The items that a test speaks of."""
    return {int(name) for name in variables(test)}


def part_of(parts: Parts, chosen: Collection[int]) -> tuple[Parts, tuple[int, ...]]:
    """What a pattern asks of some of its items, numbered anew; and those items in the order of their new numbers.

    The order is that of the pattern; items that may come in any order stand by what they are, so that what means the
    same is the same.
    """
    bound = node_order(parts, chosen)
    return in_numbers(parts, bound), tuple(bound)


def node_order(parts: Parts, chosen: Collection[int]) -> list[int]:
    """Some items of a pattern in the order in which a node has them."""
    bound: list[int] = []
    left = sorted(chosen, key=lambda item: (_name(parts.items[item]), item))
    while left:
        first = next(item for item in left if not any((other, item) in parts.order for other in left))
        left.remove(first)
        bound.append(first)
    return bound


def in_numbers(parts: Parts, items: Sequence[int]) -> Parts:
    """What a pattern asks of some of its items, numbered as they are given."""
    inside = set(items)
    kept = replace(
        parts,
        order=frozenset(pair for pair in parts.order if inside.issuperset(pair)),
        tests=frozenset(test for test in parts.tests if items_of(test) <= inside),
        gaps=frozenset(gap for gap in parts.gaps if gap.after | gap.before <= inside),
    )
    places = {item: at for at, item in enumerate(items)}
    moved = renumbered(kept, [places.get(item, -1) for item in range(len(parts.items))])
    return replace(moved, items=tuple(parts.items[item] for item in items))


_name = cache(repr)


def renumbered(parts: Parts, numbers: Sequence[int]) -> Parts:
    """Order, tests and gaps with item i called `numbers[i]`; the items stay where they are."""
    names = {str(item): str(number) for item, number in enumerate(numbers)}
    return replace(
        parts,
        order=frozenset((numbers[a], numbers[b]) for a, b in parts.order),
        tests=frozenset(renamed(test, names) for test in parts.tests),
        gaps=frozenset(
            Gap(gap.symbol, frozenset(numbers[i] for i in gap.after), frozenset(numbers[i] for i in gap.before))
            for gap in parts.gaps
        ),
    )


def left_is_inner(left: Bits, right: Bits, parts: Parts) -> bool:
    """Which of two sides a join searches, whichever of them is called left: paths are listed for what they are joined
    with.
    """
    loops = parts.loops
    if left in loops or right in loops:
        return left in loops and (right not in loops or left < right)
    return orders_of(parts.order).searches_left(left, right)


def _asked(reading: Reading, query: DetectQuery) -> Asked:
    """Put each condition where it is tested first."""
    items, bound = _in_order(reading), _all_positions(reading.items)
    tests, residual = item_tests(items, query)
    edges = {item: edge_tests_of(item, bound, query, residual) for item in items}
    return Asked(tests, edges, tuple(residual))


def _in_order(reading: Reading) -> list[Item]:
    """The items of a reading in the order of the pattern."""
    return sorted(reading.items, key=lambda item: min(positions_of_item(item)))


def _all_positions(items: frozenset[Item]) -> frozenset[int]:
    return frozenset().union(*map(positions_of_item, items))
