"""Turn the nodes of a detection plan into the tables by which a stream is fed: see `motet.kernels.feed_matches`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from motet.compile.detect import value_type
from motet.engine.detect.code import ExpressionCompiler, build_tests
from motet.engine.detect.tables import edge_symbols, gap_sides, sort_edges
from motet.kernels.expressions import EQUAL, Bytecode
from motet.kernels.feed_matches import (
    ANY,
    EVENT,
    FILTER,
    JOIN,
    NEIGHBOUR,
    NEXT,
    STEP,
    ClassTable,
    FeedPlan,
    NodeTable,
    ProbeTable,
    ReaderTable,
    StepTable,
)
from motet.kernels.match_store import BY_KEY, FOLLOWED_STEPS, OPEN_STEPS, IndexTable
from motet.kernels.ragged import flatten_lists, offsets_of
from motet.model.expression import Call, Comparison, Expression, KleeneAggregate, Like, Literal, walk
from motet.model.query import AfterMatch, Computed, Policy
from motet.plans.compiled import WindowSpan
from motet.plans.detect.build import PlannedAlternative, PlannedQuery
from motet.plans.detect.nodes import (
    Edge,
    FilterNode,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PathScanNode,
    topological_order,
)
from motet.plans.detect.query import DetectQuery
from motet.schema import EventSchema, is_text
from motet.template.symbols import Symbol


@dataclass(frozen=True)
class AbsentEvents:
    """The events of a symbol that must not occur somewhere."""

    symbol: Symbol


@dataclass(frozen=True)
class PathStep:
    """An item of a loop, as the step of a path."""

    loop: LoopNode
    item: int


FedNode = LeafNode | AbsentEvents | JoinNode | FilterNode | PathStep


@dataclass(frozen=True)
class Reader:
    """An alternative of a query, by the number of the query among those that are fed."""

    query: int
    alternative: int


def has_history(query: DetectQuery) -> bool:
    """Return whether what a query gives depends on matches that completed before."""
    return query.query.is_aggregate or query.query.after_match is not AfterMatch.ALL


def can_feed(planned: PlannedQuery, schema: EventSchema, early: bool) -> bool:
    """Return whether the matches of a query can be found event by event, from what earlier micro-batches left.

    Its matches must be certain as they complete, in a window of time, and be found by joins of single events or as the
    paths of one loop over them. Texts have no numbers in order that hold beside other texts, so they may only be equal
    or not. Where values are reported `early`, aggregates are computed anew.
    """
    query = planned.query
    if query.needs_window_close or query.span.ranked or not query.span.within or query.finds_occurrences:
        return False
    if query.query.is_aggregate and early:
        return False
    if query.query.policy is not Policy.SKIP_TILL_ANY and not query.is_run:
        return False
    if any(query.absence_conditions) or len(query.negs):
        return False
    computed = [item.expression for item in query.query.returns if isinstance(item, Computed)]
    if any(_orders_texts(each, schema) for each in (*query.match_conditions, *computed)):
        return False
    return all(_can_feed_alternative(each) for each in planned.alternatives)


def _can_feed_alternative(planned: PlannedAlternative) -> bool:
    if planned.deferred or planned.alternative.opening or planned.alternative.closing:
        return False
    if (loop := _root_loop(planned.root)) is not None:
        return all(isinstance(item, LeafNode) for item in loop.items)
    return all(isinstance(node, LeafNode | JoinNode | FilterNode) for node in topological_order([planned.root]))


def _root_loop(root: Node) -> LoopNode | None:
    match root:
        case LoopNode():
            return root
        case PathScanNode(loop=loop):
            return loop
    return None


def _orders_texts(expression: Expression, schema: EventSchema) -> bool:
    """Return whether an expression does more with texts than compare two of them for equality."""
    for part in walk(expression):
        match part:
            case Like() | Literal(str()):
                return True
            case Comparison("=" | "!="):
                continue
            case Comparison(_, left, right):
                sides: tuple[Expression, ...] = (left, right)
            case Call(_, arguments):
                sides = arguments
            case KleeneAggregate("MIN" | "MAX"):
                sides = (part,)
            case _:
                continue
        if any(is_text(value_type(side, schema.columns)) for side in sides):
            return True
    return False


class Lookup(NamedTuple):
    """How rows are found: by key alone, or also by a value of one item; see `motet.kernels.match_store.IndexTable`."""

    item: int
    value: int
    change: int
    constant: int


KEY_LOOKUP, OPEN_LOOKUP, FOLLOWED_LOOKUP = (Lookup(kind, -1, 0, 0) for kind in (BY_KEY, OPEN_STEPS, FOLLOWED_STEPS))
POLICIES = {Policy.SKIP_TILL_ANY: ANY, Policy.SKIP_TILL_NEXT: NEXT, Policy.CONTIGUOUS: NEIGHBOUR}


@dataclass(frozen=True)
class _Probe:
    """A row of `ProbeTable`."""

    node: int
    candidates: int
    index: int
    lookup: Lookup
    takes_new: bool
    own: Sequence[int]
    other: Sequence[int]
    high: Sequence[int]
    low: Sequence[int]


@dataclass
class FeedPlanBuilder:
    """Builder of the tables of some queries. `spans` are the sets of windows that limits are computed for."""

    planned: Sequence[PlannedQuery]
    compiler: ExpressionCompiler
    spans: dict[frozenset[WindowSpan], int] = field(default_factory=dict)
    readers: list[Reader] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.windows: dict[FedNode, set[WindowSpan]] = {}
        self.read_by: dict[FedNode, list[Reader]] = {}
        inputs: set[FedNode] = set()
        for number, each in enumerate(self.planned):
            for place, alternative in enumerate(each.alternatives):
                loop = _root_loop(alternative.root)
                nodes, roots = _list_nodes(alternative.root, loop)
                for node in nodes:
                    self.windows.setdefault(node, set()).add(each.query.span)
                for root in roots:
                    self.read_by.setdefault(root, []).append(Reader(number, place))
        probed: set[FedNode] = set()
        for node in self.windows:
            inputs.update(_inputs_of(node))
            probed.update(_list_probed(node))
        every = {span for each in self.planned for span in (each.query.span,)}
        absent = [AbsentEvents(symbol) for node in self.windows for symbol in _absent_of(node)]
        self.windows = {node: set(every) for node in absent} | self.windows
        self.nodes = list(self.windows)
        self.number = {node: at for at, node in enumerate(self.nodes)}
        self.feeds = np.array([node in inputs or isinstance(node, AbsentEvents) for node in self.nodes], np.bool_)
        self.stored = np.array([node in probed or isinstance(node, AbsentEvents) for node in self.nodes], np.bool_)

    def build(self) -> FeedPlan:
        """Return the tables. All expressions that the queries need besides must be compiled before."""
        self.indexes: dict[FedNode, list[Lookup]] = {
            node: _list_lookups(node) for node, is_stored in zip(self.nodes, self.stored, strict=True) if is_stored
        }
        order: list[list[tuple[int, int]]] = []
        apart: list[list[tuple[int, int]]] = []
        tests: list[list[list[int]]] = []
        for node in self.nodes:
            order.append(_ordered_pairs(node))
            apart.append(_unordered_pairs(node))
            tests.append(self._compile_tests(node))
        equal = [self._find_equality(node, own) for node, own in zip(self.nodes, tests, strict=True)]
        for node, sides in zip(self.nodes, equal, strict=True):
            for mine, (other, lookup) in enumerate(reversed(sides)):
                if isinstance(node, JoinNode) and _may_come_last(node, mine):
                    own = self.indexes[other]
                    own += [] if lookup in own else [lookup]
        flat = [self.indexes.get(node, []) for node in self.nodes]
        lookups = np.array([lookup for own in flat for lookup in own] or [KEY_LOOKUP], np.int32)
        indexes = IndexTable(offsets_of(flat), *(np.ascontiguousarray(column) for column in lookups.T))
        self.first_index = indexes.offsets
        width = max([1, *(_width(node) for node in self.nodes)])
        gaps = [list(node.new_gaps) if isinstance(node, JoinNode | FilterNode) else [] for node in self.nodes]
        gap_rows = [gap_sides([(gap.after, gap.before) for gap in own], range(width)) for own in gaps]
        probes, first_probe = self._build_probes(equal, width)
        step_tests = sum(map(len, tests))
        steps, more = self._build_steps(step_tests)
        rows = [row for own in tests for row in own] + more
        nodes = NodeTable(
            kind=np.array([_kind(node) for node in self.nodes], np.int32),
            width=np.array([_width(node) for node in self.nodes], np.int32),
            span=np.array([self._span(self.windows[node]) for node in self.nodes], np.int32),
            feeds=self.feeds,
            stored=self.stored,
            probe=np.array(first_probe, np.int32),
            order_offsets=offsets_of(order),
            order=_table([pair for own in order for pair in own], 2),
            apart_offsets=offsets_of(apart),
            apart=_table([pair for own in apart for pair in own], 2),
            test_offsets=offsets_of(tests),
            gap_offsets=offsets_of(gaps),
            gap=np.concatenate([np.zeros((0, width), np.int8), *gap_rows]).astype(np.int32),
            gap_index=np.array([self._absent_index(gap.symbol) for own in gaps for gap in own], np.int32),
        )
        readers = self._build_readers()
        code = make_bytecode(self.compiler)
        return FeedPlan(nodes, probes, steps, readers, indexes, build_tests(rows, code).table, code)

    def _span(self, spans: Iterable[WindowSpan]) -> int:
        return self.spans.setdefault(frozenset(spans), len(self.spans))

    def _absent_index(self, symbol: Symbol) -> int:
        return int(self.first_index[self.number[AbsentEvents(symbol)]])

    def _compile_tests(self, node: FedNode) -> list[list[int]]:
        if not isinstance(node, JoinNode | FilterNode):
            return []
        slots = {str(item): item for item in range(len(node.items))}
        leaves = {str(item): leaf for item, leaf in enumerate(node.items) if isinstance(leaf, LeafNode)}
        symbols = {name: frozenset({leaf.symbol}) for name, leaf in leaves.items()}
        # Comparisons first, as in joins of whole batches: code may fail where they do not hold.
        rows = [self.compiler.compile_test(test, slots, symbols) for test in node.new_tests]
        return sorted(rows, key=lambda row: row[0] < 0)

    def _find_equality(self, node: FedNode, tests: Sequence[Sequence[int]]) -> list[tuple[FedNode, Lookup]]:
        """Return, for a join, how rows of its outer and its inner side are found."""
        if not isinstance(node, JoinNode):
            return []
        outer, inner = _as_fed_node(node.outer), _as_fed_node(node.inner)
        for comparison, one, row, other, other_row, *changes in tests:
            if comparison != EQUAL:
                continue
            sides = [(one, row, *changes[:2]), (other, other_row, *changes[2:])]
            if one in node.inner_items:
                sides.reverse()
            (one, *ours), (other, *theirs) = sides
            if one in node.outer_items and other in node.inner_items:
                return [
                    (outer, Lookup(node.outer_items.index(one), *ours)),
                    (inner, Lookup(node.inner_items.index(other), *theirs)),
                ]
        return [(outer, KEY_LOOKUP), (inner, KEY_LOOKUP)]

    def _build_probes(
        self, equal: Sequence[Sequence[tuple[FedNode, Lookup]]], width: int
    ) -> tuple[ProbeTable, list[int]]:
        """Return the probes of all joins and filters, and the first of each node."""
        probes: list[_Probe] = []
        first = []
        for each, sides in zip(self.nodes, equal, strict=True):
            first.append(len(probes))
            match each:
                case JoinNode():
                    probes += [self._join_probe(each, sides, mine) for mine in (0, 1)]
                case FilterNode():
                    to = {place: column for column, place in enumerate(each.places)}
                    columns = [to.get(column, -1) for column in range(_width(_as_fed_node(each.input)))]
                    probes.append(
                        _Probe(self.number[_as_fed_node(each.input)], -1, -1, KEY_LOOKUP, True, columns, [], [], [])
                    )
        high_offsets, high = flatten_lists([probe.high for probe in probes])
        low_offsets, low = flatten_lists([probe.low for probe in probes])
        table = ProbeTable(
            node=np.array([probe.node for probe in probes], np.int32),
            candidates=np.array([probe.candidates for probe in probes], np.int32),
            index=np.array([probe.index for probe in probes], np.int32),
            item=np.array([probe.lookup.item for probe in probes], np.int32),
            value=np.array([probe.lookup.value for probe in probes], np.int32),
            change=np.array([probe.lookup.change for probe in probes], np.int32),
            constant=np.array([probe.lookup.constant for probe in probes], np.int32),
            takes_new=np.array([probe.takes_new for probe in probes], np.bool_),
            own=_table([_pad(probe.own, width) for probe in probes], width),
            other=_table([_pad(probe.other, width) for probe in probes], width),
            high_offsets=high_offsets,
            high=high,
            low_offsets=low_offsets,
            low=low,
        )
        return table, first

    def _join_probe(self, join: JoinNode, sides: Sequence[tuple[FedNode, Lookup]], mine: int) -> _Probe:
        """Return the probe of the new rows on one side of a join."""
        (own, lookup), (other, other_lookup) = sides[mine], sides[1 - mine]
        columns = (join.outer_items, join.inner_items)
        ours, theirs = columns[mine], columns[1 - mine]
        is_probed = _may_come_last(join, mine)
        place = self.indexes[other].index(other_lookup) if is_probed else 0
        return _Probe(
            self.number[own] if is_probed else -1,
            self.number[other],
            int(self.first_index[self.number[other]]) + place,
            lookup,
            mine == 0,
            ours,
            theirs,
            high=[column for column, x in enumerate(ours) if all((y, x) in join.order for y in theirs)],
            low=[column for column, x in enumerate(ours) if any((x, y) in join.order for y in theirs)],
        )

    def _build_steps(self, first_test: int) -> tuple[StepTable, list[list[int]]]:
        """Return the tables of steps, and the rows of their tests, which have the numbers from one on."""
        edges, index, ways, tests = [], [], [], []
        for node in self.nodes:
            own = _list_edges(node)
            edges.append(own)
            for before, edge in own:
                index.append(int(self.first_index[self.number[before]]))
                ways.append([[self._absent_index(symbol) for symbol in way] for way in sorted(edge.ways, key=repr)])
                symbols = edge_symbols(before.loop, edge)
                own_tests = sorted(edge.tests, key=repr)
                tests.append([self.compiler.compile_test(test, {"0": 0, "1": 1}, symbols) for test in own_tests])
        forbids, forbidden = flatten_lists([way for each in ways for way in each])
        rows = [row for own in tests for row in own]
        earlier, numbers, sources = self._build_earlier_tests(first_test, rows)
        steps = StepTable(
            item=np.array([node.item if isinstance(node, PathStep) else 0 for node in self.nodes], np.int32),
            begins=np.array(
                [isinstance(node, PathStep) and node.item in node.loop.firsts for node in self.nodes], np.bool_
            ),
            policy=np.array([POLICIES[node.loop.policy] if isinstance(node, PathStep) else ANY for node in self.nodes]),
            edges=offsets_of(edges),
            index=np.array(index, np.int32),
            ways=offsets_of(ways),
            forbids=forbids,
            forbidden=forbidden,
            tests=first_test + offsets_of(tests),
            earlier=earlier,
            test=numbers,
            source=sources,
        )
        return steps, rows

    def _build_earlier_tests(self, first_test: int, rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the tests of each step and those before it; their own rows are added to those of edges."""
        owners, numbers, sources = [], [], []
        for node in self.nodes:
            step = node if isinstance(node, PathStep) else None
            own = [] if step is None else [test for test in step.loop.earlier if step.item in test.targets]
            owners.append(own)
            for test in own:
                numbers.append([first_test + len(rows), int(test.first_only)])
                rows.append(self.compiler.compile_test(test.test, {"0": 0, "1": 1}, {}))
                sources.append([_is_step(other, step, test.sources) for other in self.nodes])
        flags = np.array(sources, np.bool_).reshape(len(sources), len(self.nodes))
        return offsets_of(owners), _table(numbers, 2), flags

    def _build_readers(self) -> ReaderTable:
        spans, positions, counts = [], [], []
        self.readers = []
        for node in self.nodes:
            own = self.read_by.get(node, [])
            counts.append(own)
            for reader in own:
                planned = self.planned[reader.query]
                self.readers.append(reader)
                spans.append(self._span({planned.query.span}))
                positions.append(planned.alternatives[reader.alternative].positions)
        width = max([1, *map(len, positions)])
        table = _table([_pad(own, width) for own in positions], width)
        return ReaderTable(offsets_of(counts), np.array(spans, np.int32), table)

    def build_classes(self, classes: Sequence[frozenset[Symbol]]) -> ClassTable:
        """Return what each class of events may add to."""
        consumers: dict[FedNode, list[FedNode]] = {}
        for node in self.nodes:
            if not isinstance(node, PathStep):
                for each in _inputs_of(node):
                    consumers.setdefault(each, []).append(node)
        binds = np.array([[_symbol(node) in found for node in self.nodes] for found in classes], np.bool_)
        reached = []
        for flags in binds:
            concerned: set[FedNode] = set()
            pending = [node for node, is_bound in zip(self.nodes, flags, strict=True) if is_bound]
            while pending:
                node = pending.pop()
                if node not in concerned:
                    concerned.add(node)
                    pending += consumers.get(node, [])
            reached.append(sorted(self.number[node] for node in concerned))
        offsets, nodes = flatten_lists(reached)
        return ClassTable(offsets, nodes, binds.reshape(len(classes), len(self.nodes)))


def make_bytecode(compiler: ExpressionCompiler) -> Bytecode:
    """Return the code of all compiled expressions, which neither name nor change texts."""
    return Bytecode(
        *compiler.instructions,
        np.array([int(value) for value in compiler.ints] or [0], np.int64),
        np.array(compiler.floats or [0.0], np.float64),
        np.zeros((1, 1), np.int64),
    )


def _list_lookups(node: FedNode) -> list[Lookup]:
    """Return how rows of a node are found besides by its joins."""
    if isinstance(node, PathStep) and node.loop.policy is Policy.SKIP_TILL_NEXT:
        return [OPEN_LOOKUP, FOLLOWED_LOOKUP]
    return [KEY_LOOKUP] if isinstance(node, AbsentEvents | PathStep) else []


def _is_step(node: FedNode, other: PathStep | None, items: frozenset[int]) -> bool:
    """Return whether a node is a step to one of some items of the same loop as another."""
    return isinstance(node, PathStep) and other is not None and node.loop == other.loop and node.item in items


def _list_edges(node: FedNode) -> list[tuple[PathStep, Edge]]:
    """Return the edges that lead to a step, each with the step it comes from."""
    if not isinstance(node, PathStep):
        return []
    own = [edge for edge in sort_edges(node.loop) if edge.target == node.item]
    return [(PathStep(node.loop, edge.source), edge) for edge in own]


def _list_nodes(root: Node, loop: LoopNode | None) -> tuple[list[FedNode], list[FedNode]]:
    """Return all nodes that an alternative reads, inputs first, and those at which its matches end."""
    if loop is None:
        nodes = [_as_fed_node(node) for node in topological_order([root])]
        return nodes, [_as_fed_node(root)]
    steps: list[FedNode] = [PathStep(loop, item) for item in range(len(loop.items))]
    return steps, [steps[item] for item in sorted(loop.lasts)]


def _as_fed_node(node: Node) -> FedNode:
    assert isinstance(node, LeafNode | JoinNode | FilterNode)
    return node


def _inputs_of(node: FedNode) -> list[FedNode]:
    match node:
        case JoinNode():
            return [_as_fed_node(node.outer), _as_fed_node(node.inner)]
        case FilterNode():
            return [_as_fed_node(node.input)]
        case PathStep(loop, item):
            return [PathStep(loop, edge.source) for edge in loop.edges if edge.target == item]
    return []


def _list_probed(node: FedNode) -> list[FedNode]:
    """Return the inputs of a node that later events look for."""
    match node:
        case JoinNode():
            sides = _inputs_of(node)
            return [sides[1 - side] for side in (0, 1) if _may_come_last(node, side)]
        case PathStep():
            return _inputs_of(node)
    return []


def _absent_of(node: FedNode) -> list[Symbol]:
    match node:
        case JoinNode() | FilterNode():
            return [gap.symbol for gap in node.new_gaps]
        case PathStep(loop):
            return [symbol for edge in loop.edges for way in edge.ways for symbol in way]
    return []


def _symbol(node: FedNode) -> Symbol | None:
    match node:
        case LeafNode(symbol) | AbsentEvents(symbol):
            return symbol
        case PathStep(loop, item):
            leaf = loop.items[item]
            return leaf.symbol if isinstance(leaf, LeafNode) else None
    return None


def _kind(node: FedNode) -> int:
    match node:
        case JoinNode():
            return JOIN
        case FilterNode():
            return FILTER
        case PathStep():
            return STEP
    return EVENT


def _width(node: FedNode) -> int:
    return len(node.items) if isinstance(node, JoinNode | FilterNode) else 1


def _ordered_pairs(node: FedNode) -> list[tuple[int, int]]:
    match node:
        case JoinNode():
            crossed = {*((i, j) for i in node.outer_items for j in node.inner_items)}
            return sorted((i, j) for i, j in node.order if (i, j) in crossed or (j, i) in crossed)
        case FilterNode():
            return list(node.new_order)
    return []


def _unordered_pairs(node: FedNode) -> list[tuple[int, int]]:
    if not isinstance(node, JoinNode):
        return []
    crossed = [(i, j) for i in node.outer_items for j in node.inner_items]
    return [(i, j) for i, j in crossed if (i, j) not in node.order and (j, i) not in node.order]


def _may_come_last(join: JoinNode, side: int) -> bool:
    """Return whether the newest event of a match may be on one side of a join, the outer (0) or the inner (1)."""
    own, other = (join.outer_items, join.inner_items) if side == 0 else (join.inner_items, join.outer_items)
    last = [x for x in own if not any((x, y) in join.order for y in own)]
    return any(not any((x, y) in join.order for y in other) for x in last)


def _pad(values: Sequence[int], width: int) -> list[int]:
    return [*values, *([-1] * (width - len(values)))]


def _table(rows: Sequence[Sequence[int]], width: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    return np.array(rows, np.int32).reshape(len(rows), width)
