"""Run the nodes of a plan over the events of a branch: each once, its instances kept for all that read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.bindings import BundleStore, check_overflow, concat_bindings, mask_bindings
from motet.engine.detect.code import TestRows, build_tests
from motet.engine.detect.match_limit import MatchLimit
from motet.engine.detect.tables import (
    build_filter_table,
    build_join_table,
    build_line_table,
    build_run_table,
    position_starts,
    sort_by_equal_values,
)
from motet.engine.detect.values import CompiledExpressions
from motet.engine.encode import EncodedEvents, Ints
from motet.kernels.expressions import EventScope, new_stack
from motet.kernels.instances import Absences, Bundles, EvalContext, Instances, Tests
from motet.kernels.join import (
    MAX_TIME,
    JoinCursor,
    JoinOutput,
    JoinTable,
    allocate_join_output,
    filter_instances,
    flatten_bindings,
    join,
    prepare_join,
)
from motet.kernels.path_join import filter_paths, find_path_ends_for_rows
from motet.kernels.paths import (
    PathEnds,
    PathGraph,
    PathList,
    PathStarts,
    allocate_paths,
    find_path_ends,
    latest_starts,
    list_paths,
    new_cursor,
)
from motet.kernels.ragged import offsets_of, row_numbers
from motet.kernels.runs import RunEvents, list_runs, new_run_state
from motet.model.query import Policy
from motet.plans.detect.nodes import (
    FilterNode,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PathScanNode,
    UnionNode,
    column_items,
)
from motet.template.symbols import Symbol

BLOCK_ROWS = 1 << 16
BLOCK_ENTRIES = 1 << 20
# Outer instances for which paths are listed at a time.
OUTER_ROWS = 1 << 12
UNLIMITED = 1 << 62
NO_BOUND = -(1 << 62)

T = TypeVar("T")


class MemoryLimitReached(Exception):
    """The memory budget of a run is used up."""


@dataclass
class MemoryBudget:
    """The bytes of instances that may be kept, and those that are. With `truncate` a run goes on with what fits."""

    most: int
    truncate: bool
    used: dict[Node, int] = field(default_factory=dict)
    truncated: set[Node] = field(default_factory=set)  # nodes of which not all instances were kept

    @property
    def left(self) -> int:
        """The bytes that may still be kept."""
        return max(self.most - sum(self.used.values()), 0)

    def reserve(self, size: int, node: Node) -> bool:
        """Reserve bytes for the instances of a node; return whether they fit."""
        if sum(self.used.values()) + size <= self.most:
            self.used[node] = self.used.get(node, 0) + size
            return True
        if not self.truncate:
            raise MemoryLimitReached
        self.truncated.add(node)
        return False


class PreparedLoop(NamedTuple):
    """A loop with the tables that listing its paths needs."""

    line: PathGraph
    tests: Tests
    starts: PathStarts


@dataclass
class NodeRunner:
    """Run of the nodes of a plan over the events of a branch, with the instances of each node."""

    encoded: EncodedEvents
    expressions: CompiledExpressions
    tests: Mapping[Node, TestRows]
    oldest: Mapping[Node, Ints]  # what each node's windows allow, event by event
    absent: tuple[Symbol, ...]
    budget: MemoryBudget
    kept: dict[Node, Instances] = field(default_factory=dict)
    prepared: dict[Node, PreparedLoop] = field(default_factory=dict)
    instance_counts: Counter[Node] = field(default_factory=Counter)  # instances so far

    def __post_init__(self) -> None:
        self.values, self.code = self.expressions.values, self.expressions.code
        self.of_class = {
            symbol: np.array([symbol in found for found in self.encoded.classes], np.bool_)
            for symbol in {symbol for found in self.encoded.classes for symbol in found}
        }
        self.absences = self.absences_of(self.absent)
        self.stack = new_stack()
        self.store = BundleStore(self.encoded.time)

    # Events and bundles

    def events_of(self, symbol: Symbol) -> Ints:
        """Return the events of a symbol, in order."""
        mask = self.of_class.get(symbol)
        if mask is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(mask[self.encoded.klass]).astype(np.int64)

    def absences_of(self, symbols: tuple[Symbol, ...]) -> Absences:
        """Return the events of some symbols, by symbol and key."""
        events = [self.events_of(symbol) for symbol in symbols]
        starts = offsets_of(events)
        keys = len(self.encoded.offsets)
        offsets = np.zeros((max(len(events), 1), keys), np.int64)
        for at, own in enumerate(events):
            offsets[at] = starts[at] + np.searchsorted(own, self.encoded.offsets)
        event = np.concatenate([*events, np.zeros(0, np.int64)])
        return Absences(offsets, event, self.encoded.time[event])

    @property
    def bundles(self) -> Bundles:
        """All that items may be bound to: events and bundles."""
        return self.store.arrays

    def _as_bundles(self, paths: PathList) -> Instances:
        """Keep paths as bundles; return them as instances of one item."""
        numbers = self.store.add(paths) + np.arange(len(paths.first))
        return self._sort_blocks([JoinOutput(numbers[None, :], paths.first, paths.last, paths.end, paths.key)])

    # Nodes

    def instances(self, node: Node) -> Instances:
        """Return all instances of a node, kept from then on."""
        if node not in self.kept:
            self.kept[node] = self._run(node)
        return self.kept[node]

    def release(self, node: Node) -> None:
        """Drop the instances of a node that nothing reads any more; paths kept as bundles stay."""
        if not isinstance(node, LoopNode | UnionNode):
            self.kept.pop(node, None)
            self.budget.used.pop(node, None)

    def _run(self, node: Node) -> Instances:
        match node:
            case JoinNode():
                return self._sort_blocks(self._collect(node, self.join_blocks(node), _bytes))
            case LoopNode():
                paths = self._collect(node, self.path_blocks(node), lambda block: _bytes(block[1:7]))
                return self._as_bundles(concat_bindings(paths))
            case UnionNode():
                return self._as_bundles(self._union(node))
            case LeafNode(symbol):
                return self._count(node, self._leaf(symbol))
            case FilterNode():
                return self._count(node, self._filter(node))
            case PathScanNode():
                blocks = self._collect(node, self._scan_paths(node), _bytes)
                return self._count(node, self._sort_blocks(blocks))

    def _count(self, node: Node, found: Instances) -> Instances:
        self.instance_counts[node] += len(found.first)
        return found

    def _collect(self, node: Node, blocks: Iterable[T], size: Callable[[T], int]) -> list[T]:
        """Collect the instances of a node as long as they fit in memory; one block always does."""
        kept = []
        for block in blocks:
            kept.append(block)
            if not self.budget.reserve(size(block), node):
                break
        return kept

    def _leaf(self, symbol: Symbol) -> Instances:
        events = self.events_of(symbol)
        time = self.encoded.time[events]
        offsets = np.searchsorted(events, self.encoded.offsets).astype(np.int64)
        return Instances(events[None, :], time, time, events, offsets)

    def _sort_blocks(self, blocks: Sequence[JoinOutput]) -> Instances:
        """Concatenate blocks of instances, and sort them by key and last time."""
        columns, *rest = (np.concatenate(parts, axis=-1) for parts in zip(*blocks, strict=True))
        first, last, end, key = rest
        # Outer rows come by key and time, so that results often are in order already.
        if ((np.diff(key) < 0) | ((np.diff(key) == 0) & (np.diff(last) < 0))).any():
            order = np.lexsort((last, key))
            columns, first, last, end, key = columns[:, order], first[order], last[order], end[order], key[order]
        offsets = np.searchsorted(key, np.arange(len(self.encoded.offsets))).astype(np.int64)
        return Instances(np.ascontiguousarray(columns, np.int64), first, last, end, offsets)

    def _filter(self, node: FilterNode) -> Instances:
        """Return the instances of a filter's input that pass it, their columns in the filter's order."""
        found = self.instances(node.input)
        found = found._replace(columns=np.ascontiguousarray(found.columns[list(node.places)]))
        kept = filter_instances(
            found,
            np.array(node.new_order, np.int32).reshape(len(node.new_order), 2),
            build_filter_table(node, self.absent),
            self._context(build_tests(self.tests[node], self.code), len(node.items)),
            self.oldest[node],
        )
        self._check()
        rows = np.flatnonzero(kept)
        size = 8 * (len(node.items) + 4)
        room = self.budget.left // size
        if not self.budget.reserve(size * len(rows), node):
            rows = rows[: max(room, BLOCK_ROWS)]  # one block always goes in, as it does for joins
        offsets = np.searchsorted(rows, found.offsets).astype(np.int64)
        columns = np.ascontiguousarray(found.columns[:, rows])
        return Instances(columns, found.first[rows], found.last[rows], found.end[rows], offsets)

    def _scan_paths(self, node: PathScanNode) -> Iterator[JoinOutput]:
        """Yield the paths of a sequence as columns of events in blocks, those within the node's own windows."""
        width = len(node.items)
        for block in self.path_blocks(node.loop):
            columns = np.empty((width, len(block.first)), np.int64)
            columns[block.position, np.arange(len(block.event)) // width] = block.event
            rows = np.flatnonzero(block.first >= self.oldest[node][block.end])
            yield JoinOutput(columns[:, rows], block.first[rows], block.last[rows], block.end[rows], block.key[rows])

    def join_blocks(self, node: JoinNode, since: int = NO_BOUND) -> Iterator[JoinOutput]:
        """Yield the instances of a join that end at `since` or later, in blocks."""
        if isinstance(node.inner, LoopNode):
            yield from self._join_paths(node, node.inner)
            return
        outer, table = self.instances(node.outer), self._table(node)
        inner, stretch = sort_by_equal_values(outer, self.instances(node.inner), table, self.values)
        tests = build_tests([row for row in self.tests[node] if row[0] < 0], self.code)
        context = self._context(tests, len(node.items))
        compared = prepare_join(outer, inner, table, self.values, self.oldest[node])
        cursor = JoinCursor(0, -1)
        while True:
            room = allocate_join_output(len(node.items), BLOCK_ROWS)
            found, *place = join(
                outer, inner, stretch, table, compared, context, self.oldest[node], room, since, cursor
            )
            cursor = JoinCursor(*place)
            self._check()
            self.instance_counts[node] += found
            yield JoinOutput(*(part[..., :found].copy() for part in room))
            if cursor.outer >= len(outer.first):
                return

    def expand_paths(
        self, node: JoinNode, loop: LoopNode, since: int = NO_BOUND, match_limit: MatchLimit | None = None
    ) -> Iterator[tuple[Instances, Ints, PathList]]:
        """Yield outer instances with the paths of a loop that fit them, and the outer instance of each path."""
        outer, prepared, table = self.instances(node.outer), self._prepare_loop(loop), self._table(node)
        prepared = prepared._replace(line=prepared.line._replace(oldest=self.oldest[node]))
        for start in range(0, max(len(outer.first), 1), OUTER_ROWS):
            stop = min(start + OUTER_ROWS, len(outer.first))
            owner, ends = find_path_ends_for_rows(
                outer, (start, stop), table, prepared.line, prepared.starts.latest, self.bundles, since
            )
            last = np.maximum(outer.last[owner], prepared.line.last[ends.row])
            for block in self._list_paths(prepared, ends, UNLIMITED, match_limit, last):
                owners = owner[block.origin]
                kept = filter_paths(outer.columns, owners, block, table, self.bundles, self.absences)
                self.instance_counts[node] += int(kept.sum())
                yield outer, owners[kept], mask_bindings(block, kept)

    def _join_paths(self, node: JoinNode, loop: LoopNode) -> Iterator[JoinOutput]:
        """Yield the instances of a join with a loop in blocks; its paths are kept as bundles."""
        for outer, owners, paths in self.expand_paths(node, loop):
            base = self.store.add(paths)
            columns = np.empty((len(node.items), len(owners)), np.int64)
            columns[list(node.outer_items)] = outer.columns[:, owners]
            columns[list(node.inner_items)] = base + np.arange(len(owners))
            later = paths.last > outer.last[owners]
            yield JoinOutput(
                columns,
                np.minimum(outer.first[owners], paths.first),
                np.maximum(outer.last[owners], paths.last),
                np.where(later, paths.end, outer.end[owners]),
                paths.key,
            )

    def _table(self, node: JoinNode) -> JoinTable:
        return build_join_table(node, self.tests[node], self.absent, self.encoded.classes)

    def path_blocks(
        self, node: LoopNode, most: int = UNLIMITED, since: int = NO_BOUND, match_limit: MatchLimit | None = None
    ) -> Iterator[PathList]:
        """Yield the paths of a loop in blocks, at most `most` for each end; positions count from the loop's first."""
        if node.policy is not Policy.SKIP_TILL_ANY:
            yield from self._run_blocks(node, since)
            return
        prepared = self._prepare_loop(node)
        ends = find_path_ends(prepared.line, prepared.starts.latest, since)
        for block in self._list_paths(prepared, ends, most, match_limit, prepared.line.last[ends.row]):
            self.instance_counts[node] += len(block.first)
            yield block

    def _context(self, tests: Tests, slots: int) -> EvalContext:
        """Return what kernels need to run tests on combinations of so many items."""
        return EvalContext(tests, self.values, self.bundles, self.absences, _scope(slots), self.stack)

    def _prepare_loop(self, node: LoopNode) -> PreparedLoop:
        if node not in self.prepared:
            instances = [self.instances(item) for item in node.items]
            line = build_line_table(node, instances, self.absent, self.oldest[node])
            starts = latest_starts(line, self.absences)
            self.prepared[node] = PreparedLoop(line, build_tests(self.tests[node], self.code), starts)
        return self.prepared[node]

    def _run_blocks(self, node: LoopNode, since: int) -> Iterator[PathList]:
        """Yield the paths of a loop by its policy in blocks, those that end at `since` or later."""
        encoded = self.encoded
        table = build_run_table(node, self.absent, encoded.classes)
        events = RunEvents(encoded.offsets, encoded.time, encoded.klass, self.oldest[node], since)
        state, context = new_run_state(table, events), self._context(build_tests(self.tests[node], self.code), 2)
        for block in self._fill_blocks(lambda out: list_runs(table, events, state, context, out)):
            self.instance_counts[node] += len(block.first)
            yield block

    def _list_paths(
        self, prepared: PreparedLoop, ends: PathEnds, most: int, match_limit: MatchLimit | None, last: Ints
    ) -> Iterator[PathList]:
        """Yield the paths to some ends in blocks; none to ends whose matches, at the time `last`, exceed the limit."""
        context = self._context(prepared.tests, 2)
        cursor = new_cursor(self._longest)
        for block in self._fill_blocks(
            lambda out: list_paths(prepared.line, prepared.starts, ends, cursor, context, out, most)
        ):
            yield block
            wanted = None if match_limit is None else match_limit.accepts(ends.key, last)
            if wanted is not None:
                ends.floor[~wanted] = MAX_TIME  # no path begins so late

    @property
    def _longest(self) -> int:
        """More than any path has steps."""
        return int(np.diff(self.encoded.offsets).max(initial=0)) + 2

    def _fill_blocks(self, fill: Callable[[PathList], tuple[int, bool]]) -> Iterator[PathList]:
        """Yield paths in blocks until all are listed."""
        done = False
        while not done:
            out = allocate_paths(BLOCK_ROWS, max(BLOCK_ENTRIES, 2 * self._longest))
            found, done = fill(out)
            self._check()
            entries = int(out.begin[found])
            yield PathList(
                out.begin[: found + 1].copy(),
                out.position[:entries].copy(),
                out.event[:entries].copy(),
                *(column[:found].copy() for column in out[3:]),
            )

    def _union(self, node: UnionNode) -> PathList:
        blocks = []
        for part, places in node.parts:
            found = self.instances(part)
            starts, positions = position_starts(column_items(part)), np.array(places, np.int32)
            begin, position, event = flatten_bindings(found.columns, starts, positions, self.bundles)
            key = row_numbers(found.offsets)
            blocks.append(PathList(begin, position, event, found.first, found.last, found.end, key, key))
            self.instance_counts[node] += len(found.first)
        return concat_bindings(blocks)

    def _check(self) -> None:
        check_overflow(self.stack, "a whole number in a condition between two events")


def _scope(slots: int) -> EventScope:
    return EventScope(
        np.full(max(slots, 2), -1, np.int64),
        np.full(max(slots, 2), -1, np.int64),
        np.zeros(max(slots, 2) + 1, np.int64),
        np.zeros(1, np.int64),
    )


def _bytes(arrays: Iterable[NDArray[Any]]) -> int:
    return sum(array.nbytes for array in arrays)
