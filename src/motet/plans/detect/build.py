"""Build a graph of shared nodes from the alternatives of queries, by trees that an optimizer chooses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, reduce
from typing import TypeVar

from motet.model.expression import Expression, variables
from motet.model.names import rename_variables
from motet.model.query import Policy
from motet.plans.detect.conditions import PlacedTests, place_run_tests, place_tests
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
    Subpattern,
    UnionNode,
    cache_hash,
    topological_order,
)
from motet.plans.detect.partial_orders import Bits, bits_of, partial_order_of
from motet.plans.detect.query import DetectQuery
from motet.template.alternatives import Alternative, Choice, Item, Loop, item_positions
from motet.template.positions import Leaf
from motet.template.symbols import Symbol

# A tree over the numbers of items: a number, or two trees.
JoinTree = int | tuple["JoinTree", "JoinTree"]
N = TypeVar("N", LeafNode, LoopNode, UnionNode)
P = TypeVar("P", JoinNode, FilterNode, PathScanNode)


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


@cache_hash
@dataclass(frozen=True)
class JoinSpec(Subpattern):
    """What a tree joins, and in which window."""

    within: int  # how far apart first and last may be in microseconds; 0 where that is not known
    rows: int = 0  # how many events of a partition a window holds, where it counts them

    @cached_property
    def loops(self) -> frozenset[Bits]:
        """The items that are loops, each as a set of its own."""
        return frozenset(1 << at for at, item in enumerate(self.items) if isinstance(item, LoopNode))


TreeChooser = Callable[[JoinSpec], PlanTree]
# How trees are chosen for all that is to be built together: each by itself, or with a view to what others can share.
TreePlanner = Callable[[Sequence[JoinSpec]], TreeChooser]


@dataclass(frozen=True)
class PlannedAlternative:
    """An alternative of a query and the node that finds it.

    `positions` are those of the node's columns, one after the other; `residual` are the numbers of the conditions left
    to test on whole matches.
    """

    alternative: Alternative
    root: Node
    positions: tuple[int, ...]
    residual: tuple[int, ...]
    deferred: tuple[tuple[int, frozenset[int], frozenset[int]], ...]  # absence, positions before and after the gap


@dataclass(frozen=True)
class PlannedQuery:
    """A query with the nodes that find its alternatives."""

    query: DetectQuery
    alternatives: tuple[PlannedAlternative, ...]

    @property
    def roots(self) -> list[Node]:
        """The nodes that find its matches."""
        return [alternative.root for alternative in self.alternatives]

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes it reads, inputs first."""
        return topological_order(self.roots)


def plan_queries(queries: Sequence[DetectQuery], choose: TreeChooser) -> list[PlannedQuery]:
    """Build the nodes of queries, equal ones once."""
    builder = PlanBuilder(choose)
    return [builder.plan(query) for query in queries]


def list_nodes(planned: Iterable[PlannedQuery]) -> list[Node]:
    """Return all nodes of some queries, inputs first."""
    return topological_order(root for each in planned for root in each.roots)


def join_specs(queries: Sequence[DetectQuery]) -> list[JoinSpec]:
    """List what trees have to be chosen for, in the order of the queries, each once."""
    found: dict[JoinSpec, None] = {}

    def add_inner(spec: JoinSpec) -> JoinTree:
        found[spec] = None
        return pattern_order(spec)

    builder = PlanBuilder(add_inner)
    for query in queries:
        found |= dict.fromkeys(spec for spec in builder.list_specs(query) if len(spec.items) > 1)
    return list(found)


def pattern_order(spec: JoinSpec) -> JoinTree:
    """Return a left-deep tree in the order of the pattern."""

    def grow(tree: JoinTree, item: int) -> JoinTree:
        return (tree, item)

    first: JoinTree = 0
    return reduce(grow, range(1, len(spec.items)), first)


def can_scan_paths(spec: JoinSpec) -> bool:
    """Return whether a spec is a sequence of events in which tests and gaps are between neighbours only."""
    count = len(spec.items)
    if len(spec.order) < count * (count - 1) // 2 or not all(isinstance(item, LeafNode) for item in spec.items):
        return False
    together = [*map(items_of_test, spec.tests), *(gap.after | gap.before for gap in spec.gaps)]
    return all(max(items) - min(items) == 1 for items in together)


def is_plain_sequence(spec: JoinSpec) -> bool:
    """Return whether a spec is a sequence of events of which nothing is compared."""
    return not spec.tests and can_scan_paths(spec)


def default_tree(spec: JoinSpec) -> PlanTree:
    """Return the tree of a pattern of which nothing is known: paths for a plain sequence, else joins in its order."""
    return PathScan(tuple(range(len(spec.items)))) if is_plain_sequence(spec) else pattern_order(spec)


@dataclass
class PlanBuilder:
    """Builder of the nodes of many queries, equal ones once."""

    choose: TreeChooser
    nodes: dict[Node, Node] = field(default_factory=dict)
    subpatterns: dict[tuple[object, ...], Node] = field(default_factory=dict)

    def plan(self, query: DetectQuery) -> PlannedQuery:
        """Build the nodes of one query."""
        return PlannedQuery(query, tuple(self._plan_alternative(each, query) for each in query.alternatives))

    def list_specs(self, query: DetectQuery) -> Iterator[JoinSpec]:
        """Yield what each alternative of a query joins."""
        for alternative in query.alternatives:
            yield self._make_spec(alternative, query, _place_tests(alternative, query))[0]

    def build(self, spec: JoinSpec) -> Node:
        """Build the node that finds a join spec."""
        return self._build_tree(self.choose(spec), spec)[0]

    def _intern(self, node: N) -> N:
        """Return the equal node that is there already."""
        found = self.nodes.setdefault(node, node)
        assert isinstance(found, type(node))
        return found

    def _intern_subpattern(self, node: P) -> Node:
        """Return the node that already finds what this one finds, however it does."""
        return self.subpatterns.setdefault((node.definition, node.group), node)

    # Alternatives

    def _plan_alternative(self, alternative: Alternative, query: DetectQuery) -> PlannedAlternative:
        deferred = tuple(
            (guard.absence, _collect_positions(guard.after), _collect_positions(guard.before))
            for guard in sorted(alternative.guards, key=repr)
            if not query.is_free(guard.absence)
        )
        tests = _place_tests(alternative, query)
        root, columns = self._build_root(alternative, query, tests)
        positions = tuple(position for column in columns for position in column)
        return PlannedAlternative(alternative, root, positions, tests.residual, deferred)

    def _build_root(
        self, alternative: Alternative, query: DetectQuery, tests: PlacedTests
    ) -> tuple[Node, list[tuple[int, ...]]]:
        """Build the node of an alternative; return it with the positions of each of its columns."""
        spec, columns = self._make_spec(alternative, query, tests)
        if len(spec.items) == 1:
            return spec.items[0], columns
        root, bound = self._build_tree(self.choose(spec), spec)
        return root, [columns[item] for item in bound]

    def _make_spec(
        self, alternative: Alternative, query: DetectQuery, tests: PlacedTests
    ) -> tuple[JoinSpec, list[tuple[int, ...]]]:
        """Return what an alternative joins, and the positions of each item."""
        items = _sort_items(alternative)
        built = [self._build_item(item, query, tests) for item in items]
        number = {item: at for at, item in enumerate(items)}
        order = frozenset((number[a], number[b]) for a, b in alternative.order)
        gaps = set()
        for guard in alternative.guards:
            if query.is_free(guard.absence):
                after, before = ({number[item] for item in side} for side in (guard.after, guard.before))
                # Of items in order only the last before the gap and the first after it matter.
                last = frozenset(a for a in after if not any((a, other) in order for other in after))
                first = frozenset(b for b in before if not any((other, b) in order for other in before))
                gaps.add(Gap(query.absent[guard.absence], last, first))
        nodes = tuple(node for node, _ in built)
        return JoinSpec(nodes, order, tests.between, frozenset(gaps), *query.window), [own for _, own in built]

    def _build_item(self, item: Item, query: DetectQuery, tests: PlacedTests) -> tuple[ItemNode, tuple[int, ...]]:
        match item:
            case Leaf(position):
                return self._intern(LeafNode(query.symbols[position])), (position,)
            case Loop():
                return self._build_loop(item, query, tests)

    def _build_loop(self, loop: Loop, query: DetectQuery, tests: PlacedTests) -> tuple[LoopNode, tuple[int, ...]]:
        items: list[LeafNode | UnionNode] = []
        positions: list[tuple[int, ...]] = []
        for item in loop.items:
            match item:
                case Leaf(position):
                    items.append(self._intern(LeafNode(query.symbols[position])))
                    positions.append((position,))
                case Choice(alternatives):
                    own = tuple(sorted(item_positions(item)))
                    items.append(self._build_union(alternatives, own, query))
                    positions.append(own)
        own_tests = tests.edges.get(loop, {})
        edges = tuple(
            Edge(p, q, _free_ways(loop, (p, q), query), own_tests.get((p, q), frozenset()))
            for p, q in sorted(loop.follow)
        )
        edges += tuple(
            Edge(p, q, frozenset(), own_tests.get((p, q), frozenset()), together=True) for p, q in sorted(loop.together)
        )
        policy = query.query.policy if query.obeys_policy else Policy.SKIP_TILL_ANY
        node = self._intern(LoopNode(tuple(items), loop.firsts, loop.lasts, edges, policy, tests.earlier))
        return node, tuple(position for own in positions for position in own)

    def _build_union(self, alternatives: Iterable[Alternative], own: tuple[int, ...], query: DetectQuery) -> UnionNode:
        parts = []
        for alternative in alternatives:
            root, columns = self._build_root(alternative, query, PlacedTests())
            parts.append((root, tuple(own.index(position) for column in columns for position in column)))
        return self._intern(UnionNode(tuple(parts)))

    # Trees

    def _build_tree(self, tree: PlanTree, spec: JoinSpec, group: int = 0) -> tuple[Node, tuple[int, ...]]:
        """Build the node of a tree; return it with the items that are its columns."""
        match tree:
            case int():
                return spec.items[tree], (tree,)
            case FilterFrom():
                return self._build_filter(tree, spec, group)
            case PathScan(items):
                return self._build_path_scan(items, spec, group)
            case Unshared(inner, own_group):
                return self._build_tree(inner, spec, own_group)
            case (left, right):
                return self._build_join(left, right, spec, group)

    def _build_join(
        self, left_tree: PlanTree, right_tree: PlanTree, spec: JoinSpec, group: int
    ) -> tuple[Node, tuple[int, ...]]:
        outer, outer_items = self._build_tree(left_tree, spec, group)
        inner, inner_items = self._build_tree(right_tree, spec, group)
        own, bound = restrict_spec(spec, (*outer_items, *inner_items))
        if is_left_inner(bits_of(outer_items), bits_of(inner_items), spec):
            inner, inner_items, outer, outer_items = outer, outer_items, inner, inner_items
        number = {item: at for at, item in enumerate(bound)}
        outer_places, inner_places = (tuple(number[item] for item in side) for side in (outer_items, inner_items))
        node = JoinNode(
            *own.definition,
            group,
            outer=outer,
            inner=inner,
            outer_items=outer_places,
            inner_items=inner_places,
            new_tests=_select_unchecked(own.tests, items_of_test, outer_places, inner_places),
            new_gaps=_select_unchecked(own.gaps, _items_of_gap, outer_places, inner_places),
        )
        return self._intern_subpattern(node), bound

    def _build_filter(self, tree: FilterFrom, spec: JoinSpec, group: int) -> tuple[Node, tuple[int, ...]]:
        loose = replace(spec, order=tree.order, tests=tree.tests, gaps=tree.gaps)
        found, columns = self._build_tree(tree.tree, loose, group)
        own, bound = restrict_spec(spec, columns)
        known = select_items(loose, bound)
        node = FilterNode(
            *own.definition,
            group,
            input=found,
            places=tuple(columns.index(item) for item in bound),
            new_order=tuple(sorted(own.order - known.order)),
            new_tests=tuple(sort_texts(own.tests - known.tests)),
            new_gaps=tuple(sort_texts(own.gaps - known.gaps)),
        )
        return self._intern_subpattern(node), bound

    def _build_path_scan(self, items: tuple[int, ...], spec: JoinSpec, group: int) -> tuple[Node, tuple[int, ...]]:
        own, bound = restrict_spec(spec, items)
        leaves = tuple(item for item in own.items if isinstance(item, LeafNode))
        edges = []
        for at in range(len(leaves) - 1):
            absent = frozenset(gap.symbol for gap in own.gaps if gap.after == {at})
            tests = [test for test in own.tests if items_of_test(test) == {at, at + 1}]
            names = {str(at): "0", str(at + 1): "1"}
            renamed = frozenset(rename_variables(test, names) for test in tests)
            edges.append(Edge(at, at + 1, frozenset({absent}) if absent else frozenset(), renamed))
        last = len(leaves) - 1
        loop = LoopNode(leaves, frozenset({0}), frozenset({last}), tuple(edges))
        return self._intern_subpattern(PathScanNode(*own.definition, group, self._intern(loop))), bound


def _free_ways(loop: Loop, edge: tuple[int, int], query: DetectQuery) -> frozenset[frozenset[Symbol]]:
    """Return the ways to cross a gap, none where one depends on bound events: that is tested on whole matches."""
    ways = loop.follow[edge]
    if frozenset() in ways or any(not query.is_free(absence) for guards in ways for absence in guards):
        return frozenset()
    return frozenset(frozenset(query.absent[absence] for absence in guards) for guards in ways)


T = TypeVar("T", Expression, Gap)


def _select_unchecked(
    found: Collection[T], items: Callable[[T], Collection[int]], *sides: Collection[int]
) -> tuple[T, ...]:
    """Return the tests or gaps whose items are not all on one side, so that no input of a join has checked them."""
    return tuple(each for each in sort_texts(found) if not any(set(items(each)) <= set(side) for side in sides))


def items_of_test(test: Expression) -> set[int]:
    """Return the items that a test names."""
    return {int(name) for name in variables(test)}


def _items_of_gap(gap: Gap) -> frozenset[int]:
    return gap.after | gap.before


@lru_cache(maxsize=1 << 14)  # trees that are compared have most parts in common
def restrict_spec(spec: JoinSpec, chosen: tuple[int, ...]) -> tuple[JoinSpec, tuple[int, ...]]:
    """Return the part of a join spec over some of its items, renumbered, and those items in their new order.

    That is pattern order; items without order stand by what they are, so that equal parts compare equal.
    """
    bound = node_order(spec, chosen)
    return select_items(spec, bound), tuple(bound)


def node_order(spec: JoinSpec, chosen: Collection[int]) -> list[int]:
    """Return items of a join spec in the order in which a node has them."""
    bound: list[int] = []
    left = sorted(chosen, key=lambda item: (_name(spec.items[item]), item))
    while left:
        first = next(item for item in left if not any((other, item) in spec.order for other in left))
        left.remove(first)
        bound.append(first)
    return bound


_name = cache(repr)


def sort_texts(found: Collection[T]) -> list[T]:
    """Return tests or gaps in the order of their text: the same in every process."""
    return sorted(found, key=repr) if len(found) > 1 else list(found)


def select_items(spec: JoinSpec, items: Sequence[int]) -> JoinSpec:
    """Return the part of a join spec over some of its items, numbered as they are given."""
    if list(items) == list(range(len(spec.items))):
        return spec
    inside = set(items)
    kept = replace(
        spec,
        order=frozenset(pair for pair in spec.order if inside.issuperset(pair)),
        tests=frozenset(test for test in spec.tests if items_of_test(test) <= inside),
        gaps=frozenset(gap for gap in spec.gaps if _items_of_gap(gap) <= inside),
    )
    places = {item: at for at, item in enumerate(items)}
    moved = renumber(kept, [places.get(item, -1) for item in range(len(spec.items))])
    return replace(moved, items=tuple(spec.items[item] for item in items))


def renumber(spec: JoinSpec, numbers: Sequence[int]) -> JoinSpec:
    """Return a join spec with item i named `numbers[i]` in order, tests and gaps; `items` stays as it is."""
    names = {str(item): str(number) for item, number in enumerate(numbers)}
    return replace(
        spec,
        order=frozenset((numbers[a], numbers[b]) for a, b in spec.order),
        tests=frozenset(rename_variables(test, names) for test in spec.tests),
        gaps=frozenset(
            Gap(gap.symbol, frozenset(numbers[i] for i in gap.after), frozenset(numbers[i] for i in gap.before))
            for gap in spec.gaps
        ),
    )


def is_left_inner(left: Bits, right: Bits, spec: JoinSpec) -> bool:
    """Return whether a join searches its left side. Paths of loops are always the inner side."""
    loops = spec.loops
    if left in loops or right in loops:
        return left in loops and (right not in loops or left < right)
    return partial_order_of(spec.order).is_left_searched(left, right)


def _place_tests(alternative: Alternative, query: DetectQuery) -> PlacedTests:
    items = _sort_items(alternative)
    if query.obeys_policy:
        return place_run_tests(items, query.match_conditions, query.adjacent, query.name_positions, query.query.policy)
    return place_tests(items, query.match_conditions, query.name_positions)


def _sort_items(alternative: Alternative) -> list[Item]:
    """Return the items of an alternative in the order of the pattern."""
    return sorted(alternative.items, key=lambda item: min(item_positions(item)))


def _collect_positions(items: Iterable[Item]) -> frozenset[int]:
    return frozenset().union(*map(item_positions, items))
