"""Compile a plan once for all batches: the operator table, expressions, and what queries do with the matches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.compile import Program
from motet.compile.detect import match_columns
from motet.engine.detect.code import ExpressionCompiler, TestRows
from motet.engine.detect.rules import QueryCode, compile_conditions
from motet.engine.detect.tables import (
    OperatorChecks,
    build_edge_rules,
    compile_loop_tests,
    compile_operator,
    sort_edges,
)
from motet.engine.detect.values import Exactness, PlannedColumns
from motet.engine.encode import Ints
from motet.kernels.instances import TEST_WIDTH
from motet.kernels.operators import (
    BEGIN_WIDTH,
    COMPARE,
    EDGE,
    FILTER,
    IS_KEPT,
    JOIN,
    KIND,
    LEAF,
    OPERATOR_WIDTH,
    OTHER,
    OUTER_ITEMS,
    SCAN,
    SINK,
    TEST,
    UNREAD,
    Operators,
)
from motet.kernels.paths import EdgeRules
from motet.kernels.ragged import offsets_from_counts
from motet.model.expression import Attribute, Expression
from motet.model.query import AfterMatch, Policy
from motet.plans.compiled import WindowSpan
from motet.plans.detect.build import PlannedQuery, list_nodes
from motet.plans.detect.nodes import (
    Edge,
    FilterNode,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PathScanNode,
    column_items,
    inputs,
)

Spans = frozenset[WindowSpan]


@dataclass(frozen=True, slots=True)
class Sink:
    """A query that reads the instances of an operator as the matches of one of its alternatives."""

    planned: PlannedQuery
    alternative: int


@dataclass(frozen=True)
class RowLayout:
    """What rows of matches are made of, the same for many queries: for each column of a group its attribute, and for
    each label the attribute that is returned, or None for the event.
    """

    groups: tuple[tuple[str, str], ...]
    labels: tuple[tuple[str, str | None], ...]


class PlainSinks(NamedTuple):
    """How the rows of each sink are built: the number of its layout, -1 where matches need a closer look; the column of
    each of its labels; and the name of its query.
    """

    layouts: tuple[RowLayout, ...]
    layout: NDArray[np.int32]
    columns: NDArray[np.int64]
    names: pa.Array


class CompiledPlan:
    """A plan for events of one schema.

    `nodes` are its operators, inputs first. `sinks` read those that the kernel runs, `others` has the sinks of all that
    is listed query by query.
    """

    def __init__(
        self,
        program: Program,
        planned: Sequence[PlannedQuery],
        types: pa.Schema,
        inexact: frozenset[Exactness] = frozenset(),
    ) -> None:
        self.program, self.planned, self.types = program, planned, types
        self.nodes = list_nodes(planned)
        self.number = {node: at for at, node in enumerate(self.nodes)}
        self.spans = _node_spans(planned)
        self.windows = list(dict.fromkeys(frozenset(spans) for spans in self.spans.values()))
        self.windows += [own for each in planned if (own := frozenset({each.query.span})) not in self.windows]
        self.window_number = {spans: at for at, spans in enumerate(self.windows)}
        self.absent = tuple(dict.fromkeys(symbol for each in planned for symbol in each.query.absent))
        self.symbols = [node.symbol for node in self.nodes if isinstance(node, LeafNode)]
        self.columns = PlannedColumns(types.empty_table(), inexact)
        self.compiler = ExpressionCompiler(self.columns)
        self.loop_tests: Mapping[LoopNode, TestRows] = {
            node: compile_loop_tests(node, self.compiler) for node in self.nodes if isinstance(node, LoopNode)
        }
        self.codes: Mapping[int, QueryCode] = {
            each.query.number: compile_conditions(each, self.compiler, types) for each in planned
        }
        self.others: dict[int, list[Sink]] = {}
        self.sinks: list[Sink] = []
        self._build_operators()
        self.plain_sinks = self._lay_out_sinks()

    @cached_property
    def last_use(self) -> NDArray[np.int64]:
        """The last operator that reads each operator."""
        found = np.arange(len(self.nodes))
        for at, node in enumerate(self.nodes):
            for each in list_reads(node):
                found[self.number[each]] = at
        return found

    @property
    def width(self) -> int:
        """The most items that an operator has."""
        return max((len(column_items(node)) for node in self.nodes), default=1)

    @property
    def has_scans(self) -> bool:
        """Whether the kernel lists paths."""
        return bool((self.operators.table[:, KIND] == SCAN).any())

    @property
    def most_comparisons(self) -> int:
        """The most comparisons that a join makes."""
        return int(np.diff(self.operators.begin[:, COMPARE]).max(initial=0))

    @property
    def most_sinks(self) -> int:
        """The most sinks that an operator of the kernel has."""
        return int(np.diff(self.operators.begin[:, SINK]).max(initial=0))

    def window_of(self, node: Node) -> int:
        """Return the number of the window of an operator."""
        return self.window_number[frozenset(self.spans[node])]

    def queries_of(self, node: Node) -> list[PlannedQuery]:
        """Return the queries that need an operator."""
        return [each for each in self.planned if node in each.nodes]

    def _build_operators(self) -> None:
        readers: dict[Node, list[Sink]] = {}
        for each in self.planned:
            for at, root in enumerate(each.roots):
                readers.setdefault(root, []).append(Sink(each, at))
        read = {each for node in self.nodes for each in list_reads(node)}
        table = np.zeros((len(self.nodes), OPERATOR_WIDTH), np.int32)
        checks: list[OperatorChecks] = []
        own_windows: list[int] = []
        sink_counts = []
        for at, node in enumerate(self.nodes):
            sinks = readers.get(node, [])
            kind = kind_of_operator(node)
            if isinstance(node, PathScanNode) and self._is_limited(node, sinks, read):
                kind = OTHER
            elif kind == OTHER and not sinks and node not in read:
                kind = UNREAD
            found = compile_operator(node, self.number, self.compiler, self.absent, self.program.definitions)
            checks.append(found)
            ends = [self.number[each] for each in inputs(node)] if kind in (JOIN, FILTER) else []
            symbol = self.symbols.index(node.symbol) if isinstance(node, LeafNode) else 0
            outer, inner = (*ends, 0, 0)[:2]
            table[at] = (kind, outer, inner, *found.items, self.window_of(node), node in read, symbol)
            if kind == OTHER:
                self.others[at], sinks = sinks, []
                table[at, IS_KEPT] |= len(self.others[at]) > 1  # what several queries list is found once
            self.sinks += sinks
            sink_counts.append(len(sinks))
            own_windows += [self._own_window(node, sink) for sink in sinks]
        begin = np.zeros((len(self.nodes) + 1, BEGIN_WIDTH), np.int64)
        for column in range(EDGE):
            begin[:, column] = offsets_from_counts([len(each.tables[column]) for each in checks])
        scans = [at for at, node in enumerate(self.nodes) if isinstance(node, PathScanNode)]
        begin[[at + 1 for at in scans], EDGE] = table[scans, OUTER_ITEMS]
        np.cumsum(begin[:, EDGE], out=begin[:, EDGE])
        begin[:, SINK] = offsets_from_counts(sink_counts)

        def stack(column: int, dtype: Any, width: int = 0) -> Any:
            rows = [row for each in checks for row in each.tables[column]]
            return np.array(rows, dtype).reshape((len(rows), width) if width else len(rows))

        self.tests = stack(TEST, np.int32, TEST_WIDTH)
        self.operators = Operators(
            table,
            begin,
            stack(0, np.int8),
            stack(1, np.int32, 3),
            stack(2, np.bool_),
            stack(3, np.int32),
            stack(4, np.int8),
            stack(5, np.int32),
            stack(COMPARE, np.int32, TEST_WIDTH),
            self._build_scan_rules(begin),
            np.array(own_windows, np.int32),
        )

    def _is_limited(self, scan: PathScanNode, sinks: Sequence[Sink], read: Collection[Node]) -> bool:
        """Return whether the paths of a scan are listed for one query alone, up to a limit."""
        return self.program.options.match_limit is not None and len(sinks) == 1 and scan not in read

    def _build_scan_rules(self, begin: Ints) -> EdgeRules:
        """Return the rules of the edges of path scans; each has one more before its first, which nobody reads."""
        edges: list[Edge] = []
        tests: list[int] = []
        end = 0
        for node, own in zip(self.nodes, begin[:-1, TEST].tolist(), strict=True):
            if isinstance(node, PathScanNode):
                edges += [Edge(0, 0, frozenset(), frozenset()), *sort_edges(node.loop)]
                tests += [end, own]
                for edge in sort_edges(node.loop)[:-1]:
                    own += len(edge.tests)
                    tests.append(own)
                end = own + len(sort_edges(node.loop)[-1].tests)
        return build_edge_rules(edges, self.absent)._replace(tests=np.array([*tests, end], np.int64))

    def _own_window(self, node: Node, sink: Sink) -> int:
        """Return the window of a sink where its operator may find more, else -1."""
        own = frozenset({sink.planned.query.span})
        return self.window_number[own] if isinstance(node, LeafNode) or own != self.spans[node] else -1

    def is_kept(self, at: int) -> bool:
        """Return whether other operators read one."""
        return bool(self.operators.table[at, IS_KEPT])

    def _lay_out_sinks(self) -> PlainSinks:
        found = [self._find_layout(sink) for sink in self.sinks]
        layouts = {layout: None for each in found if each is not None for layout in each[:1]}
        number = {layout: at for at, layout in enumerate(layouts)}
        columns = np.zeros((len(found), max((len(layout.labels) for layout in layouts), default=0)), np.int64)
        for at, each in enumerate(found):
            if each is not None:
                columns[at, : len(each[1])] = each[1]
        return PlainSinks(
            tuple(layouts),
            np.array([-1 if each is None else number[each[0]] for each in found], np.int32),
            columns,
            pa.array([sink.planned.query.query.name for sink in self.sinks], pa.string()),
        )

    def _find_layout(self, sink: Sink) -> tuple[RowLayout, tuple[int, ...]] | None:
        """Return what the rows of a sink are made of, where that needs nothing but the events of a match."""
        query, planned = sink.planned.query, sink.planned.alternatives[sink.alternative]
        alternative = planned.alternative
        if (
            query.query.is_aggregate
            or query.is_ambiguous
            or query.needs_window_close
            or query.query.policy is not Policy.SKIP_TILL_ANY
            or query.query.after_match is not AfterMatch.ALL
            or planned.residual
            or planned.deferred
            or alternative.opening
            or len(query.negs)
            or self.program.options.match_limit is not None
            or not all(isinstance(item, LeafNode) for item in column_items(planned.root))
        ):
            return None
        labels, columns = [], []
        names = self.program.column_names[query.number]
        for label, what in match_columns(query):
            read = self._read_label(names[label], what, sink)
            if read is None:
                return None
            labels.append((names[label], read[0]))
            columns.append(read[1])
        groups = tuple((names[name], name) for name in query.query.group_by)
        return RowLayout(groups, tuple(labels)), tuple(columns)

    def _read_label(self, name: str, what: frozenset[int] | Expression, sink: Sink) -> tuple[str | None, int] | None:
        """Return the attribute of a label (None for the whole event) and the column that has it; None if there is no
        such single column.
        """
        query, positions = sink.planned.query, sink.planned.alternatives[sink.alternative].positions
        attribute = None
        if isinstance(what, Attribute):
            attribute, what = what.name, query.positions.find(what.variable)
        if not isinstance(what, frozenset) or pa.types.is_list(self.program.result_schema.field(name).type):
            return None
        columns = [at for at, position in enumerate(positions) if position in what]
        return (attribute, columns[0]) if len(columns) == 1 else None


def list_reads(node: Node) -> tuple[Node, ...]:
    """Return the nodes whose instances a node reads: of a loop whose paths it lists itself, those of its items."""
    match node:
        case JoinNode(inner=LoopNode() as loop):
            return (node.outer, *loop.items)
        case PathScanNode():
            return node.items
    return inputs(node)


def kind_of_operator(node: Node) -> int:
    """Return what the kernel does for a node."""
    match node:
        case LeafNode():
            return LEAF
        case JoinNode(inner=LoopNode()):
            return OTHER
        case JoinNode():
            return JOIN
        case FilterNode():
            return FILTER
        case PathScanNode():
            return SCAN
    return OTHER


def _node_spans(planned: Sequence[PlannedQuery]) -> dict[Node, set[WindowSpan]]:
    """Map each node to the windows it serves."""
    found: dict[Node, set[WindowSpan]] = {}
    for each in planned:
        for node in each.nodes:
            found.setdefault(node, set()).add(each.query.span)
    return found
