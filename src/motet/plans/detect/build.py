"""Build a graph of shared nodes from the alternatives of queries, by trees that an optimizer chooses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, reduce
from typing import TypeVar

from motet.model.expression import Expression, variables
from motet.model.names import rename_variables
from motet.plans.detect.conditions import EdgeTests, place_edge_tests, place_item_tests
from motet.plans.detect.nodes import (
    Edge,
    FilterNode,
    Gap,
    ItemNode,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PathScanNode,
    SubpatternNode,
    UnionNode,
)
from motet.plans.detect.partial_orders import Bits, bits_of, partial_order_of
from motet.plans.detect.query import DetectQuery
from motet.template.alternatives import Alternative, Choice, Item, Loop, item_positions
from motet.template.positions import Leaf
from motet.template.symbols import Symbol

# A tree over the numbers of items: a number, or two trees.
JoinTree = int | tuple["JoinTree", "JoinTree"]
N = TypeVar("N", bound=Node)


@dataclass(frozen=True)
class FilterFrom:
    """A tree built with fewer constraints than the pattern has, this order, tests and gaps only, and then filtered."""

    tree: PlanTree
    order: frozenset[tuple[int, int]]
    tests: frozenset[Expression]
    gaps: frozenset[Gap]


@dataclass(frozen=True)
class PathScan:
    """Events in sequence found as paths. Only neighbours may be compared or have something absent between them."""

    items: tuple[int, ...]


@dataclass(frozen=True)
class Unshared:
    """A tree whose nodes are shared only with those of the same group."""

    tree: PlanTree
    group: int


# What the builder takes: join trees, with parts that are found in other ways.
PlanTree = int | tuple["PlanTree", "PlanTree"] | FilterFrom | PathScan | Unshared


@dataclass(frozen=True)
class JoinSpec:
    """What a tree joins: items, the pairs of them in order, and the tests and gaps over them."""

    items: tuple[ItemNode, ...]
    order: frozenset[tuple[int, int]]
    tests: frozenset[Expression]
    gaps: frozenset[Gap]
    within: int  # how far apart first and last may be in microseconds; 0 where that is not known
    rows: int = 0  # how many events of a partition a window holds, where it counts them

    @cached_property
    def loops(self) -> frozenset[Bits]:
        """The items that are loops, each as a set of its own."""
        return frozenset(1 << at for at, item in enumerate(self.items) if isinstance(item, LoopNode))


TreeChooser = Callable[[JoinSpec], PlanTree]
# How trees are chosen for all that is to be built together: each apart, or with a view to what others can share.
TreePlanner = Callable[[Sequence[JoinSpec]], TreeChooser]


@dataclass(frozen=True)
class PlannedReading:
    """An alternative of a query and the node that finds it.

    Column c of the node's instances has the positions from `positions[places[c]]` on; `residual` are the numbers of the
    conditions left to test on whole matches.
    """

    reading: Alternative
    root: Node
    positions: tuple[int, ...]
    places: tuple[int, ...]
    residual: tuple[int, ...]
    deferred: tuple[tuple[int, frozenset[int], frozenset[int]], ...]  # absence, positions before and after the gap


@dataclass(frozen=True)
class PlannedQuery:
    """A query with the nodes that find its alternatives."""

    query: DetectQuery
    readings: tuple[PlannedReading, ...]


def plan_queries(queries: Sequence[DetectQuery], choose: TreeChooser) -> list[PlannedQuery]:
    """Build the nodes of queries, equal ones once."""
    builder = PlanBuilder(choose)
    return [builder.plan(query) for query in queries]


def join_specs(queries: Sequence[DetectQuery]) -> list[JoinSpec]:
    """List what trees have to be chosen for, in the order of the queries, each once."""
    wanted: dict[JoinSpec, None] = {}

    def inside_a_loop(parts: JoinSpec) -> JoinTree:
        wanted[parts] = None
        return pattern_order(parts)

    builder = PlanBuilder(inside_a_loop)
    for query in queries:
        wanted |= dict.fromkeys(parts for parts in builder.reading_specs(query) if len(parts.items) > 1)
    return list(wanted)


def pattern_order(parts: JoinSpec) -> JoinTree:
    """Return a left-deep tree in the order of the pattern."""

    def grown(tree: JoinTree, item: int) -> JoinTree:
        return (tree, item)

    first: JoinTree = 0
    return reduce(grown, range(1, len(parts.items)), first)


@dataclass(frozen=True, slots=True)
class ReadingTests:
    """The tests of an alternative: between its items, within its loops, and those left for whole matches, by number."""

    tests: frozenset[Expression] = frozenset()
    edges: Mapping[Item, EdgeTests] = field(default_factory=dict)
    residual: tuple[int, ...] = ()


@dataclass
class PlanBuilder:
    """Builder of the nodes of many queries, equal ones once."""

    choose: TreeChooser
    nodes: dict[Node, Node] = field(default_factory=dict)
    parts: dict[tuple[object, ...], SubpatternNode] = field(default_factory=dict)

    def plan(self, query: DetectQuery) -> PlannedQuery:
        """Build the nodes of one query."""
        return PlannedQuery(query, tuple(self._plan_reading(reading, query) for reading in query.readings))

    def reading_specs(self, query: DetectQuery) -> Iterator[JoinSpec]:
        """Yield what each alternative of a query joins."""
        for reading in query.readings:
            yield self._reading_spec(reading, query, _place_tests(reading, query))[0]

    def build(self, parts: JoinSpec) -> Node:
        """Build the node that finds a join spec."""
        return self._build_tree(self.choose(parts), parts)[0]

    def _intern(self, node: N) -> N:
        found = self.nodes.setdefault(node, node)
        assert isinstance(found, type(node))
        return found

    def _plan_reading(self, reading: Alternative, query: DetectQuery) -> PlannedReading:
        deferred = tuple(
            (guard.absence, _all_positions(guard.after), _all_positions(guard.before))
            for guard in sorted(reading.guards, key=repr)
            if not query.is_free(guard.absence)
        )
        asked = _place_tests(reading, query)
        root, columns = self._build_root(reading, query, asked)
        places = tuple(sum(map(len, columns[:at])) for at in range(len(columns)))
        flat = tuple(position for column in columns for position in column)
        return PlannedReading(reading, root, flat, places, asked.residual, deferred)

    def _build_root(
        self, reading: Alternative, query: DetectQuery, asked: ReadingTests
    ) -> tuple[Node, list[tuple[int, ...]]]:
        """Build the node of an alternative; return it with the positions of each of its columns."""
        parts, columns = self._reading_spec(reading, query, asked)
        if len(parts.items) == 1:
            return parts.items[0], columns
        root, bound = self._build_tree(self.choose(parts), parts)
        return root, [columns[item] for item in bound]

    def _reading_spec(
        self, reading: Alternative, query: DetectQuery, asked: ReadingTests
    ) -> tuple[JoinSpec, list[tuple[int, ...]]]:
        """Return what an alternative joins, and the positions of each item."""
        items = _items_in_pattern_order(reading)
        built = [self._build_item(item, query, asked.edges.get(item, {})) for item in items]
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
        return JoinSpec(tuple(node for node, _ in built), order, asked.tests, frozenset(gaps), within, rows), columns

    def _build_item(self, item: Item, query: DetectQuery, tests: EdgeTests) -> tuple[ItemNode, tuple[int, ...]]:
        match item:
            case Leaf(position):
                return self._intern(LeafNode(query.symbols[position])), (position,)
            case Loop():
                return self._build_loop(item, query, tests)

    def _build_loop(self, loop: Loop, query: DetectQuery, tests: EdgeTests) -> tuple[LoopNode, tuple[int, ...]]:
        items: list[LeafNode | UnionNode] = []
        positions: list[tuple[int, ...]] = []
        for item in loop.items:
            match item:
                case Leaf(position):
                    items.append(self._intern(LeafNode(query.symbols[position])))
                    positions.append((position,))
                case Choice(readings):
                    own = tuple(sorted(item_positions(item)))
                    items.append(self._build_union(readings, own, query))
                    positions.append(own)
        edges = tuple(
            Edge(p, q, self._free_ways(loop, (p, q), query), tests.get((p, q), frozenset()))
            for p, q in sorted(loop.follow)
        )
        places = tuple(sum(map(len, positions[:at])) for at in range(len(positions)))
        node = self._intern(LoopNode(tuple(items), loop.firsts, loop.lasts, edges, places))
        return node, tuple(position for own in positions for position in own)

    def _free_ways(self, loop: Loop, edge: tuple[int, int], query: DetectQuery) -> frozenset[frozenset[Symbol]]:
        """Return the ways to cross a gap, none where one depends on bound events: that is tested on whole matches."""
        ways = loop.follow[edge]
        if frozenset() in ways or any(not query.is_free(absence) for guards in ways for absence in guards):
            return frozenset()
        return frozenset(frozenset(query.absent[absence] for absence in guards) for guards in ways)

    def _build_union(self, readings: Sequence[Alternative], own: tuple[int, ...], query: DetectQuery) -> UnionNode:
        parts = []
        for reading in readings:
            root, columns = self._build_root(reading, query, ReadingTests())
            parts.append((root, tuple(own.index(position) for column in columns for position in column)))
        return self._intern(UnionNode(tuple(parts)))

    # Trees

    def _build_tree(self, tree: PlanTree, parts: JoinSpec, group: int = 0) -> tuple[Node, tuple[int, ...]]:
        """Build the node of a tree; return it with the items that are its columns."""
        match tree:
            case int():
                return parts.items[tree], (tree,)
            case FilterFrom():
                return self._build_filter(tree, parts, group)
            case PathScan(items):
                return self._build_path_scan(items, parts, group)
            case Unshared(inner, own_group):
                return self._build_tree(inner, parts, own_group)
            case (left, right):
                return self._build_join(left, right, parts, group)

    def _intern_subpattern(self, node: SubpatternNode) -> SubpatternNode:
        """Return the node that already finds what this one finds, however it does."""
        what = (node.items, node.order, node.tests, node.gaps, node.group)
        return self.parts.setdefault(what, node)

    def _build_join(
        self, left_tree: PlanTree, right_tree: PlanTree, parts: JoinSpec, group: int
    ) -> tuple[SubpatternNode, tuple[int, ...]]:
        left, left_items = self._build_tree(left_tree, parts, group)
        right, right_items = self._build_tree(right_tree, parts, group)
        if is_left_inner(bits_of(left_items), bits_of(right_items), parts):
            inner, inner_items, outer, outer_items = left, left_items, right, right_items
        else:
            inner, inner_items, outer, outer_items = right, right_items, left, left_items
        own, bound = restrict_spec(parts, (*left_items, *right_items))
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
                test for test in sorted(own.tests, key=repr) if not any(items_of_test(test) <= side for side in sides)
            ),
            new_gaps=tuple(
                gap for gap in sorted(own.gaps, key=repr) if not any(gap.after | gap.before <= side for side in sides)
            ),
        )
        return self._intern_subpattern(node), bound

    def _build_filter(self, tree: FilterFrom, parts: JoinSpec, group: int) -> tuple[SubpatternNode, tuple[int, ...]]:
        loose = replace(parts, order=tree.order, tests=tree.tests, gaps=tree.gaps)
        found, columns = self._build_tree(tree.tree, loose, group)
        own, bound = restrict_spec(parts, columns)
        known, known_order = restrict_spec(loose, columns)
        number = {item: at for at, item in enumerate(bound)}
        seen = renumber(known, [number[item] for item in known_order])
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
        return self._intern_subpattern(node), bound

    def _build_path_scan(
        self, items: Sequence[int], parts: JoinSpec, group: int
    ) -> tuple[SubpatternNode, tuple[int, ...]]:
        own, bound = restrict_spec(parts, items)
        steps = range(len(own.items) - 1)
        edges = tuple(
            Edge(
                at,
                at + 1,
                _gap_ways([gap.symbol for gap in own.gaps if gap.after == {at}]),
                frozenset(
                    rename_variables(test, {str(at): "0", str(at + 1): "1"})
                    for test in own.tests
                    if items_of_test(test) == {at, at + 1}
                ),
            )
            for at in steps
        )
        leaves = tuple(item for item in own.items if isinstance(item, LeafNode))
        loop = self._intern(
            LoopNode(leaves, frozenset({0}), frozenset({len(leaves) - 1}), edges, tuple(range(len(leaves))))
        )
        return self._intern_subpattern(PathScanNode(own.items, own.order, own.tests, own.gaps, group, loop)), bound


def _gap_ways(absent: Sequence[Symbol]) -> frozenset[frozenset[Symbol]]:
    """Return the one way to cross a gap in which some symbols may not occur."""
    return frozenset({frozenset(absent)}) if absent else frozenset()


def items_of_test(test: Expression) -> set[int]:
    """Return the items that a test names."""
    return {int(name) for name in variables(test)}


def restrict_spec(parts: JoinSpec, chosen: Collection[int]) -> tuple[JoinSpec, tuple[int, ...]]:
    """Return the part of a join spec over some of its items, renumbered, and those items in their new order.

    That is pattern order; items without order stand by what they are, so that equal parts compare equal.
    """
    bound = node_order(parts, chosen)
    return select_items(parts, bound), tuple(bound)


def node_order(parts: JoinSpec, chosen: Collection[int]) -> list[int]:
    """Return items of a join spec in the order in which a node has them."""
    bound: list[int] = []
    left = sorted(chosen, key=lambda item: (_name(parts.items[item]), item))
    while left:
        first = next(item for item in left if not any((other, item) in parts.order for other in left))
        left.remove(first)
        bound.append(first)
    return bound


def select_items(parts: JoinSpec, items: Sequence[int]) -> JoinSpec:
    """Return the part of a join spec over some of its items, numbered as they are given."""
    inside = set(items)
    kept = replace(
        parts,
        order=frozenset(pair for pair in parts.order if inside.issuperset(pair)),
        tests=frozenset(test for test in parts.tests if items_of_test(test) <= inside),
        gaps=frozenset(gap for gap in parts.gaps if gap.after | gap.before <= inside),
    )
    places = {item: at for at, item in enumerate(items)}
    moved = renumber(kept, [places.get(item, -1) for item in range(len(parts.items))])
    return replace(moved, items=tuple(parts.items[item] for item in items))


_name = cache(repr)


def renumber(parts: JoinSpec, numbers: Sequence[int]) -> JoinSpec:
    """Return a join spec with item i named `numbers[i]` in order, tests and gaps; `items` stays as it is."""
    names = {str(item): str(number) for item, number in enumerate(numbers)}
    return replace(
        parts,
        order=frozenset((numbers[a], numbers[b]) for a, b in parts.order),
        tests=frozenset(rename_variables(test, names) for test in parts.tests),
        gaps=frozenset(
            Gap(gap.symbol, frozenset(numbers[i] for i in gap.after), frozenset(numbers[i] for i in gap.before))
            for gap in parts.gaps
        ),
    )


def is_left_inner(left: Bits, right: Bits, parts: JoinSpec) -> bool:
    """Return whether a join searches its left side. Paths of loops are always the inner side."""
    loops = parts.loops
    if left in loops or right in loops:
        return left in loops and (right not in loops or left < right)
    return partial_order_of(parts.order).is_left_searched(left, right)


def _place_tests(reading: Alternative, query: DetectQuery) -> ReadingTests:
    """Place each condition where it is tested first."""
    items, bound = _items_in_pattern_order(reading), _all_positions(reading.items)
    tests, residual = place_item_tests(items, query)
    edges = {item: place_edge_tests(item, bound, query, residual) for item in items}
    return ReadingTests(tests, edges, tuple(residual))


def _items_in_pattern_order(reading: Alternative) -> list[Item]:
    """Return the items of an alternative in the order of the pattern."""
    return sorted(reading.items, key=lambda item: min(item_positions(item)))


def _all_positions(items: frozenset[Item]) -> frozenset[int]:
    return frozenset().union(*map(item_positions, items))
