"""Run the nodes of a plan over the events of a branch: each once, its instances kept for all that read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.bundles import BundleStore, concat_paths, merge_ragged_rows, take_paths
from motet.engine.detect.code import build_tests
from motet.engine.detect.match_limit import MatchLimit
from motet.engine.detect.tables import (
    NodeTests,
    build_filter_table,
    build_join_table,
    build_line_table,
    sort_by_equal_values,
)
from motet.engine.encode import EncodedEvents, Ints
from motet.errors import DataError
from motet.kernels.expressions import OVERFLOW, Bytecode, EventScope, Values, new_stack
from motet.kernels.instances import Absences, Bundles, EvalContext, Instances, Tests
from motet.kernels.join import (
    MAX_TIME,
    JoinCursor,
    JoinTable,
    allocate_join_output,
    filter_instances,
    flatten_bindings,
    join,
)
from motet.kernels.match_filter import Matches
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
from motet.plans.detect.nodes import (
    FilterNode,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PathScanNode,
    SubpatternNode,
    UnionNode,
)
from motet.template.symbols import Symbol

BLOCK_ROWS = 1 << 16
BLOCK_ENTRIES = 1 << 20
# Outer instances for which paths are listed at a time.
OUTER_ROWS = 1 << 12
UNLIMITED = 1 << 62
NO_BOUND = -(1 << 62)


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
    values: Values
    code: Bytecode
    tests: Mapping[Node, NodeTests]
    oldest: Mapping[Node, Ints]  # what each node's windows allow, event by event
    absent: tuple[Symbol, ...]
    budget: MemoryBudget
    kept: dict[Node, Instances] = field(default_factory=dict)
    prepared: dict[Node, PreparedLoop] = field(default_factory=dict)
    instance_counts: Counter[Node] = field(default_factory=Counter)  # instances so far

    def __post_init__(self) -> None:
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
        starts = np.cumsum([0, *map(len, events)])
        keys = len(self.encoded.offsets)
        offsets = np.zeros((max(len(events), 1), keys), np.int64)
        for at, own in enumerate(events):
            offsets[at] = starts[at] + np.searchsorted(own, self.encoded.offsets)
        event = np.concatenate([*events, np.zeros(0, np.int64)])
        return Absences(offsets, event, self.encoded.time[event])

    @property
    def bundles(self) -> Bundles:
        """All that items may be bound to: events and bundles."""
        return self.store.all

    def _as_bundles(self, paths: PathList) -> Instances:
        """Keep paths as bundles; return them as instances of one item."""
        order = np.lexsort((paths.last, paths.key))
        base = self.store.keep(paths)
        return _instances(
            (base + order)[None, :],
            paths.first[order],
            paths.last[order],
            paths.end[order],
            paths.key[order],
            len(self.encoded.offsets) - 1,
        )

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
            case LeafNode() | FilterNode() | PathScanNode():
                found = self._compute(node)
                self.instance_counts[node] += len(found.first)
                return found
            case JoinNode():
                return self._join(node)
            case LoopNode():
                return self._as_bundles(self._collect_paths(node))
            case UnionNode():
                return self._as_bundles(self._union(node))

    def _compute(self, node: LeafNode | FilterNode | PathScanNode) -> Instances:
        match node:
            case LeafNode(symbol):
                return self._leaf(symbol)
            case FilterNode():
                return self._filter(node)
            case PathScanNode():
                return self._scan_paths(node)

    def _collect_paths(self, node: LoopNode) -> PathList:
        blocks = []
        for block in self.path_blocks(node):
            blocks.append(block)
            if not self.budget.reserve(32 * len(block.first) + 12 * len(block.event), node):
                break
        return concat_paths(blocks)

    def _leaf(self, symbol: Symbol) -> Instances:
        events = self.events_of(symbol)
        time = self.encoded.time[events]
        offsets = np.searchsorted(events, self.encoded.offsets).astype(np.int64)
        return Instances(events[None, :], time, time, events, offsets)

    def _join(self, node: JoinNode) -> Instances:
        blocks = []
        for block in self.join_blocks(node):
            blocks.append(block)
            if not self.budget.reserve(8 * block[0].size + 32 * block[0].shape[1], node):
                break
        return self._sort_blocks(blocks)

    def _sort_blocks(self, blocks: Sequence[tuple[Any, Ints, Ints, Ints, Ints]]) -> Instances:
        """Concatenate blocks of columns, first, last, end and key to instances by key and last time."""
        columns, *rest = (np.concatenate(parts, axis=-1) for parts in zip(*blocks, strict=True))
        first, last, end, key = rest
        # Outer rows come by key and time, so that results often are in order already.
        if ((np.diff(key) == 0) & (np.diff(last) < 0)).any():
            order = np.lexsort((last, key))
            columns, first, last, end, key = columns[:, order], first[order], last[order], end[order], key[order]
        return _instances(columns, first, last, end, key, len(self.encoded.offsets) - 1)

    def _filter(self, node: FilterNode) -> Instances:
        """Return the instances of a filter's input that pass it, their columns in the filter's order."""
        found = self.instances(node.input)
        found = found._replace(columns=np.ascontiguousarray(found.columns[list(node.places)]))
        kept = filter_instances(
            found,
            np.array(node.new_order, np.int32).reshape(len(node.new_order), 2),
            build_filter_table(node, self.absent),
            self._context(build_tests(self.tests[node].rows, self.code), len(node.items)),
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

    def _scan_paths(self, node: PathScanNode) -> Instances:
        """Return the paths of a sequence as columns of events, those within the node's own windows."""
        width = len(node.items)
        blocks = []
        for block in self.path_blocks(node.loop):
            columns = np.empty((width, len(block.first)), np.int64)
            columns[block.position, np.arange(len(block.event)) // width] = block.event
            rows = np.flatnonzero(block.first >= self.oldest[node][block.end])
            blocks.append((columns[:, rows], block.first[rows], block.last[rows], block.end[rows], block.key[rows]))
            if not self.budget.reserve(8 * (width + 4) * len(rows), node):
                break
        return self._sort_blocks(blocks)

    def join_blocks(self, node: JoinNode, since: int = NO_BOUND) -> Iterator[tuple[Any, Ints, Ints, Ints, Ints]]:
        """Yield the instances of a join that end at `since` or later in blocks: columns, first, last, end and key."""
        if isinstance(node.inner, LoopNode):
            yield from self._join_paths(node, node.inner)
            return
        outer, table = self.instances(node.outer), self._table(node)
        inner, stretch = sort_by_equal_values(outer, self.instances(node.inner), table, self.values)
        tests = build_tests([row for row in self.tests[node].rows if row[0] < 0], self.code)
        context = self._context(tests, len(node.items))
        cursor = JoinCursor(0, -1)
        while True:
            room = allocate_join_output(len(node.items), BLOCK_ROWS)
            found, cursor = join(outer, inner, stretch, table, context, self.oldest[node], room, since, cursor)
            self._check()
            self.instance_counts[node] += found
            yield (
                room.columns[:, :found].copy(),
                room.first[:found].copy(),
                room.last[:found].copy(),
                room.end[:found].copy(),
                room.key[:found].copy(),
            )
            if cursor.outer >= len(outer.first):
                return

    def expand_paths(
        self, node: JoinNode, loop: LoopNode, since: int = NO_BOUND, quota: MatchLimit | None = None
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
            for block in self._list_paths(prepared, ends, UNLIMITED, quota, last):
                owners = owner[block.origin]
                kept = filter_paths(outer.columns, owners, block, table, self.bundles, self.absences)
                self.instance_counts[node] += int(kept.sum())
                yield outer, owners[kept], block if kept.all() else take_paths(block, np.flatnonzero(kept))

    def _join_paths(self, node: JoinNode, loop: LoopNode) -> Iterator[tuple[Any, Ints, Ints, Ints, Ints]]:
        """Yield the instances of a join with a loop in blocks; its paths are kept as bundles."""
        for outer, owners, paths in self.expand_paths(node, loop):
            base = self.store.keep(paths)
            columns = np.empty((len(node.items), len(owners)), np.int64)
            columns[list(node.outer_items)] = outer.columns[:, owners]
            columns[list(node.inner_items)] = base + np.arange(len(owners))
            later = paths.last > outer.last[owners]
            yield (
                columns,
                np.minimum(outer.first[owners], paths.first),
                np.maximum(outer.last[owners], paths.last),
                np.where(later, paths.end, outer.end[owners]),
                paths.key,
            )

    def _table(self, node: JoinNode) -> JoinTable:
        return build_join_table(node, self.tests[node].rows, self.absent, self.encoded.classes)

    def path_blocks(
        self, node: LoopNode, most: int = UNLIMITED, since: int = NO_BOUND, quota: MatchLimit | None = None
    ) -> Iterator[PathList]:
        """Yield the paths of a loop in blocks, at most `most` for each end; positions count from the loop's first."""
        prepared = self._prepare_loop(node)
        ends = find_path_ends(prepared.line, prepared.starts.latest, since)
        for block in self._list_paths(prepared, ends, most, quota, prepared.line.last[ends.row]):
            self.instance_counts[node] += len(block.first)
            yield block

    def _context(self, tests: Tests, slots: int) -> EvalContext:
        """Return what kernels need to run tests on combinations of so many items."""
        return EvalContext(tests, self.values, self.bundles, self.absences, _scope(slots), self.stack)

    def _prepare_loop(self, node: LoopNode) -> PreparedLoop:
        if node not in self.prepared:
            instances = [self.instances(item) for item in node.items]
            line = build_line_table(node, instances, self.absent, self.oldest[node], self.tests[node])
            self.prepared[node] = PreparedLoop(line, build_tests(self.tests[node].rows, self.code), latest_starts(line))
        return self.prepared[node]

    def _list_paths(
        self, prepared: PreparedLoop, ends: PathEnds, most: int, quota: MatchLimit | None, last: Ints
    ) -> Iterator[PathList]:
        """Yield the paths to some ends in blocks; none to ends whose matches, at the time `last`, exceed the limit."""
        longest = int(np.diff(self.encoded.offsets).max(initial=0)) + 2
        cursor, context = new_cursor(longest), self._context(prepared.tests, 2)
        done = False
        while not done:
            out = allocate_paths(BLOCK_ROWS, max(BLOCK_ENTRIES, 2 * longest))
            found, done = list_paths(prepared.line, prepared.starts, ends, cursor, context, out, most)
            self._check()
            entries = int(out.begin[found])
            yield PathList(
                out.begin[: found + 1].copy(),
                out.position[:entries].copy(),
                out.event[:entries].copy(),
                *(column[:found].copy() for column in out[3:]),
            )
            wanted = None if quota is None or done else quota.accepts(ends.key, last)
            if wanted is not None:
                ends.floor[~wanted] = MAX_TIME  # no path begins so late

    def _union(self, node: UnionNode) -> PathList:
        blocks = []
        for part, places in node.parts:
            found = self.instances(part)
            starts, positions = self._position_tables(part, places)
            begin, position, event = flatten_bindings(found.columns, starts, positions, self.bundles)
            key = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
            blocks.append(PathList(begin, position, event, found.first, found.last, found.end, key, key))
            self.instance_counts[node] += len(found.first)
        return concat_paths(blocks)

    def _position_tables(self, node: Node, positions: tuple[int, ...]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return where the positions of each column of a node begin, and the positions."""
        items = node.items if isinstance(node, SubpatternNode) else (node,)
        sizes = [1 if isinstance(item, LeafNode) else _width(item) for item in items]
        return np.cumsum([0, *sizes[:-1]]).astype(np.int32), np.array(positions, np.int32)

    def _check(self) -> None:
        if self.stack.status[0] == OVERFLOW:
            raise DataError(
                "a whole number in a condition between two events does not fit in 64 bits "
                "(multiplied by 1.0 it is computed as a floating number)"
            )

    # Matches

    def match_blocks(
        self, node: Node, positions: tuple[int, ...], shared: bool, most: int, since: int, quota: MatchLimit
    ) -> Iterator[Matches]:
        """Yield the instances of a root as matches in blocks; kept only where other nodes or queries read them too.

        Of paths with the same last event at most `most` are listed, none that ends before `since`, and none beyond the
        limit.
        """
        starts, table = self._position_tables(node, positions)
        loop = node.loop if isinstance(node, PathScanNode) and self.oldest[node] is self.oldest[node.loop] else node
        if isinstance(loop, LoopNode) and not shared and node not in self.kept:
            for block in self.path_blocks(loop, most, since, quota):
                yield Matches(block.begin, table[block.position], block.event, block.key)
            return
        if isinstance(node, JoinNode) and isinstance(node.inner, LoopNode) and not shared and node not in self.kept:
            yield from self._matches_with_paths(node, node.inner, starts, table, since, quota)
            return
        if isinstance(node, JoinNode) and not shared and node not in self.kept:
            for columns, _, _, _, key in self.join_blocks(node, since):
                yield Matches(*flatten_bindings(columns, starts, table, self.bundles), key)
            return
        found = self.instances(node)
        keys = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
        for at in range(0, max(len(found.first), 1), BLOCK_ROWS):
            columns = np.ascontiguousarray(found.columns[:, at : at + BLOCK_ROWS])
            yield Matches(*flatten_bindings(columns, starts, table, self.bundles), keys[at : at + BLOCK_ROWS].copy())

    def _matches_with_paths(
        self,
        node: JoinNode,
        loop: LoopNode,
        starts: NDArray[np.int32],
        table: NDArray[np.int32],
        since: int,
        quota: MatchLimit,
    ) -> Iterator[Matches]:
        """Yield outer instances with the paths that fit them as matches; no path is kept."""
        (inner_item,) = node.inner_items
        for outer, owners, paths in self.expand_paths(node, loop, since, quota):
            columns = np.ascontiguousarray(outer.columns[:, owners])
            begin, position, event = flatten_bindings(columns, starts[list(node.outer_items)], table, self.bundles)
            together, ours, theirs = merge_ragged_rows(begin, paths.begin)
            positions = np.empty(together[-1], np.int32)
            events = np.empty(together[-1], np.int64)
            positions[ours], events[ours] = position, event
            positions[theirs], events[theirs] = table[starts[inner_item] + paths.position], paths.event
            yield Matches(together, positions, events, paths.key)


def _width(item: Node) -> int:
    """Return how many positions an item has."""
    match item:
        case LoopNode(items):
            return sum(_width(each) for each in items)
        case UnionNode(parts):
            return 1 + max(place for _, places in parts for place in places)
    return 1


def _scope(slots: int) -> EventScope:
    return EventScope(
        np.full(max(slots, 2), -1, np.int64),
        np.full(max(slots, 2), -1, np.int64),
        np.zeros(max(slots, 2) + 1, np.int64),
        np.zeros(1, np.int64),
    )


def _instances(columns: Any, first: Ints, last: Ints, end: Ints, key: Ints, keys: int) -> Instances:
    offsets = np.searchsorted(key, np.arange(keys + 1)).astype(np.int64)
    return Instances(np.ascontiguousarray(columns, np.int64), first, last, end, offsets)
