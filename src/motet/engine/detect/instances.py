"""Runs the nodes of a plan over the events of a branch: each once, its instances kept for all that read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.bundles import BundleStore, chosen_paths, joined_paths, side_by_side
from motet.engine.detect.code import tests_table
from motet.engine.detect.quota import Quota
from motet.engine.detect.tables import NodeTests, by_equal_values, filter_table, join_table, line_table
from motet.engine.encode import Encoded, Ints
from motet.errors import DataError
from motet.kernels.expand import ends_for, fitting
from motet.kernels.instances import Absences, Bundles, Instances, Tests
from motet.kernels.join import FOREVER, JoinTable, flatten, join, room_for
from motet.kernels.judge import Matches
from motet.kernels.paths import Endings, Line, Listed, endings, list_paths, listed_for, new_walk, reach
from motet.kernels.sift import sift
from motet.kernels.stack import OVERFLOW, Code, Scope, Values, new_stack
from motet.plan.detect.nodes import (
    FilterNode,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PartNode,
    UnionNode,
    WalkNode,
)
from motet.template.symbols import Symbol

BLOCK_ROWS = 1 << 16
BLOCK_ENTRIES = 1 << 20
# Outer instances for which paths are listed at a time.
OUTER_ROWS = 1 << 12
EVERY = 1 << 62
ALWAYS = -(1 << 62)


class OutOfRoom(Exception):
    """A budget is used up."""


@dataclass
class Budget:
    """How many bytes of instances may be kept, how many are, and whether to go on with those where there are more."""

    most: int
    truncate: bool
    used: dict[Node, int] = field(default_factory=dict)
    cut: set[Node] = field(default_factory=set)  # nodes of which not all instances were kept

    @property
    def left(self) -> int:
        """How many more bytes may be kept."""
        return max(self.most - sum(self.used.values()), 0)

    def admits(self, size: int, node: Node) -> bool:
        """Whether so many more bytes may be kept."""
        if sum(self.used.values()) + size <= self.most:
            self.used[node] = self.used.get(node, 0) + size
            return True
        if not self.truncate:
            raise OutOfRoom
        self.cut.add(node)
        return False


class Walked(NamedTuple):
    """A loop made ready to list its paths."""

    line: Line
    tests: Tests
    latest: Ints
    so_far: Ints


@dataclass
class Runner:
    """The state of a run over the events of a branch: instances of nodes, by node."""

    encoded: Encoded
    values: Values
    code: Code
    tests: Mapping[Node, NodeTests]
    oldest: Mapping[Node, Ints]  # what each node's windows allow, event by event
    absent: tuple[Symbol, ...]
    budget: Budget
    kept: dict[Node, Instances] = field(default_factory=dict)
    walked: dict[Node, Walked] = field(default_factory=dict)
    made: Counter[Node] = field(default_factory=Counter)  # instances so far

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
        """The events of a symbol, in order."""
        mask = self.of_class.get(symbol)
        if mask is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(mask[self.encoded.klass]).astype(np.int64)

    def absences_of(self, symbols: tuple[Symbol, ...]) -> Absences:
        """The events of some symbols, by number and key."""
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
        """All that items may be bound to."""
        return self.store.all

    def _add_bundles(self, paths: Listed) -> Instances:
        """Keep paths as bundles, and give them as instances of one item."""
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
        """All instances of a node, kept from then on."""
        if node not in self.kept:
            self.kept[node] = self._run(node)
        return self.kept[node]

    def release(self, node: Node) -> None:
        """Forget the instances of a node that nobody will read any more; paths that were kept stay."""
        if not isinstance(node, LoopNode | UnionNode):
            self.kept.pop(node, None)
            self.budget.used.pop(node, None)

    def _run(self, node: Node) -> Instances:
        match node:
            case LeafNode() | FilterNode() | WalkNode():
                found = self._found(node)
                self.made[node] += len(found.first)
                return found
            case JoinNode():
                return self._joined(node)
            case LoopNode():
                return self._add_bundles(self._kept_paths(node))
            case UnionNode():
                return self._add_bundles(self._union(node))

    def _found(self, node: LeafNode | FilterNode | WalkNode) -> Instances:
        match node:
            case LeafNode(symbol):
                return self._leaf(symbol)
            case FilterNode():
                return self._sifted(node)
            case WalkNode():
                return self._in_columns(node)

    def _kept_paths(self, node: LoopNode) -> Listed:
        blocks = []
        for block in self.paths(node):
            blocks.append(block)
            if not self.budget.admits(32 * len(block.first) + 12 * len(block.event), node):
                break
        return joined_paths(blocks)

    def _leaf(self, symbol: Symbol) -> Instances:
        events = self.events_of(symbol)
        time = self.encoded.time[events]
        offsets = np.searchsorted(events, self.encoded.offsets).astype(np.int64)
        return Instances(events[None, :], time, time, events, offsets)

    def _joined(self, node: JoinNode) -> Instances:
        blocks = []
        for block in self.joins(node):
            blocks.append(block)
            if not self.budget.admits(8 * block[0].size + 32 * block[0].shape[1], node):
                break
        return self._ordered(blocks)

    def _ordered(self, blocks: Sequence[tuple[Any, Ints, Ints, Ints, Ints]]) -> Instances:
        """Blocks of columns, first, last, end and key as instances, by key and last time."""
        columns, *rest = (np.concatenate(parts, axis=-1) for parts in zip(*blocks, strict=True))
        first, last, end, key = rest
        # Outer rows come by key and time, so that results often are in order already.
        if ((np.diff(key) == 0) & (np.diff(last) < 0)).any():
            order = np.lexsort((last, key))
            columns, first, last, end, key = columns[:, order], first[order], last[order], end[order], key[order]
        return _instances(columns, first, last, end, key, len(self.encoded.offsets) - 1)

    def _sifted(self, node: FilterNode) -> Instances:
        """The instances of a filter's input that it keeps, their columns in its own order."""
        found = self.instances(node.input)
        found = found._replace(columns=np.ascontiguousarray(found.columns[list(node.places)]))
        kept = sift(
            found,
            np.array(node.new_order, np.int32).reshape(len(node.new_order), 2),
            filter_table(node, self.absent),
            tests_table(self.tests[node].rows, self.code),
            self.values,
            self.bundles,
            self.absences,
            self.oldest[node],
            _scope(len(node.items)),
            self.stack,
        )
        self._check()
        rows = np.flatnonzero(kept)
        size = 8 * (len(node.items) + 4)
        room = self.budget.left // size
        if not self.budget.admits(size * len(rows), node):
            rows = rows[: max(room, BLOCK_ROWS)]  # one block always goes in, as it does for joins
        offsets = np.searchsorted(rows, found.offsets).astype(np.int64)
        columns = np.ascontiguousarray(found.columns[:, rows])
        return Instances(columns, found.first[rows], found.last[rows], found.end[rows], offsets)

    def _in_columns(self, node: WalkNode) -> Instances:
        """The paths of a sequence as columns of events, those that the node's own windows allow."""
        width = len(node.items)
        blocks = []
        for block in self.paths(node.loop):
            columns = np.empty((width, len(block.first)), np.int64)
            columns[block.position, np.arange(len(block.event)) // width] = block.event
            rows = np.flatnonzero(block.first >= self.oldest[node][block.end])
            blocks.append((columns[:, rows], block.first[rows], block.last[rows], block.end[rows], block.key[rows]))
            if not self.budget.admits(8 * (width + 4) * len(rows), node):
                break
        return self._ordered(blocks)

    def joins(self, node: JoinNode, since: int = ALWAYS) -> Iterator[tuple[Any, Ints, Ints, Ints, Ints]]:
        """The instances of a join that end at or after a time, block by block: columns, first, last, end and key."""
        if isinstance(node.inner, LoopNode):
            yield from self._joined_with_paths(node, node.inner)
            return
        outer, table = self.instances(node.outer), self._table(node)
        inner, stretch = by_equal_values(outer, self.instances(node.inner), table, self.values)
        tests = tests_table([row for row in self.tests[node].rows if row[0] < 0], self.code)
        scope = _scope(len(node.items))
        at, within = 0, -1
        while True:
            room = room_for(len(node.items), BLOCK_ROWS)
            found, at, within = join(
                outer,
                inner,
                stretch,
                table,
                tests,
                self.values,
                self.bundles,
                self.absences,
                self.oldest[node],
                scope,
                self.stack,
                room,
                since,
                at,
                within,
            )
            self._check()
            self.made[node] += found
            yield (
                room.columns[:, :found].copy(),
                room.first[:found].copy(),
                room.last[:found].copy(),
                room.end[:found].copy(),
                room.key[:found].copy(),
            )
            if at >= len(outer.first):
                return

    def expansions(
        self, node: JoinNode, loop: LoopNode, since: int = ALWAYS, quota: Quota | None = None
    ) -> Iterator[tuple[Instances, Ints, Listed]]:
        """Outer instances with the paths of a loop that fit them: for each path the number of its outer instance."""
        outer, walked, table = self.instances(node.outer), self._walked(loop), self._table(node)
        walked = walked._replace(line=walked.line._replace(oldest=self.oldest[node]))
        for start in range(0, max(len(outer.first), 1), OUTER_ROWS):
            stop = min(start + OUTER_ROWS, len(outer.first))
            owner, ends = ends_for(outer, start, stop, table, walked.line, walked.latest, self.bundles, since)
            last = np.maximum(outer.last[owner], walked.line.last[ends.row])
            for block in self._listed(walked, ends, EVERY, quota, last):
                owners = owner[block.origin]
                kept = fitting(outer.columns, owners, block, table, self.bundles, self.absences)
                self.made[node] += int(kept.sum())
                yield outer, owners[kept], block if kept.all() else chosen_paths(block, np.flatnonzero(kept))

    def _joined_with_paths(self, node: JoinNode, loop: LoopNode) -> Iterator[tuple[Any, Ints, Ints, Ints, Ints]]:
        """The same, with paths kept as bundles."""
        for outer, owners, paths in self.expansions(node, loop):
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
        return join_table(node, self.tests[node].rows, self.absent, self.encoded.classes)

    def paths(
        self, node: LoopNode, most: int = EVERY, since: int = ALWAYS, quota: Quota | None = None
    ) -> Iterator[Listed]:
        """The paths of a loop, block by block, at most so many with each end; positions count from the loop's first."""
        walked = self._walked(node)
        ends = endings(walked.line, walked.latest, since)
        for block in self._listed(walked, ends, most, quota, walked.line.last[ends.row]):
            self.made[node] += len(block.first)
            yield block

    def _walked(self, node: LoopNode) -> Walked:
        if node not in self.walked:
            instances = [self.instances(item) for item in node.items]
            line = line_table(node, instances, self.absent, self.oldest[node], self.tests[node])
            self.walked[node] = Walked(line, tests_table(self.tests[node].rows, self.code), *reach(line))
        return self.walked[node]

    def _listed(self, walked: Walked, ends: Endings, most: int, quota: Quota | None, last: Ints) -> Iterator[Listed]:
        """The paths to some ends, block by block; none where a quota wants no more of what ends at the time `last`."""
        line, tests, latest, so_far = walked
        longest = int(np.diff(self.encoded.offsets).max(initial=0)) + 2
        walk, scope = new_walk(longest), _scope(2)
        done = False
        while not done:
            out = listed_for(BLOCK_ROWS, max(BLOCK_ENTRIES, 2 * longest))
            found, done = list_paths(
                line,
                latest,
                so_far,
                ends,
                walk,
                tests,
                self.values,
                self.bundles,
                self.absences,
                scope,
                self.stack,
                out,
                most,
            )
            self._check()
            entries = int(out.begin[found])
            yield Listed(
                out.begin[: found + 1].copy(),
                out.position[:entries].copy(),
                out.event[:entries].copy(),
                *(column[:found].copy() for column in out[3:]),
            )
            wanted = None if quota is None or done else quota.wants(ends.key, last)
            if wanted is not None:
                ends.floor[~wanted] = FOREVER  # no path begins so late

    def _union(self, node: UnionNode) -> Listed:
        blocks = []
        for part, places in node.parts:
            found = self.instances(part)
            starts, positions = self._places(part, places)
            begin, position, event = flatten(found.columns, starts, positions, self.bundles)
            key = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
            blocks.append(Listed(begin, position, event, found.first, found.last, found.end, key, key))
            self.made[node] += len(found.first)
        return joined_paths(blocks)

    def _places(self, node: Node, positions: tuple[int, ...]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Where the positions of each column of a node begin among the given ones."""
        items = node.items if isinstance(node, PartNode) else (node,)
        sizes = [1 if isinstance(item, LeafNode) else _width(item) for item in items]
        return np.cumsum([0, *sizes[:-1]]).astype(np.int32), np.array(positions, np.int32)

    def _check(self) -> None:
        if self.stack.status[0] == OVERFLOW:
            raise DataError(
                "a whole number in a condition between two events does not fit in 64 bits "
                "(multiplied by 1.0 it is computed as a floating number)"
            )

    # Matches

    def matches(
        self, node: Node, positions: tuple[int, ...], shared: bool, most: int, since: int, quota: Quota
    ) -> Iterator[Matches]:
        """The instances of a root as matches, block by block; kept where others read them too.

        Of paths that share their last event, no more than `most` are needed, none that ends before `since`, and none
        that the quota does not want.
        """
        starts, table = self._places(node, positions)
        loop = node.loop if isinstance(node, WalkNode) and self.oldest[node] is self.oldest[node.loop] else node
        if isinstance(loop, LoopNode) and not shared and node not in self.kept:
            for block in self.paths(loop, most, since, quota):
                yield Matches(block.begin, table[block.position], block.event, block.key)
            return
        if isinstance(node, JoinNode) and isinstance(node.inner, LoopNode) and not shared and node not in self.kept:
            yield from self._matches_with_paths(node, node.inner, starts, table, since, quota)
            return
        if isinstance(node, JoinNode) and not shared and node not in self.kept:
            for columns, _, _, _, key in self.joins(node, since):
                yield Matches(*flatten(columns, starts, table, self.bundles), key)
            return
        found = self.instances(node)
        keys = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
        for at in range(0, max(len(found.first), 1), BLOCK_ROWS):
            columns = np.ascontiguousarray(found.columns[:, at : at + BLOCK_ROWS])
            yield Matches(*flatten(columns, starts, table, self.bundles), keys[at : at + BLOCK_ROWS].copy())

    def _matches_with_paths(
        self,
        node: JoinNode,
        loop: LoopNode,
        starts: NDArray[np.int32],
        table: NDArray[np.int32],
        since: int,
        quota: Quota,
    ) -> Iterator[Matches]:
        """Outer instances with the paths that fit them, as matches; no path is kept."""
        (inner_item,) = node.inner_items
        for outer, owners, paths in self.expansions(node, loop, since, quota):
            columns = np.ascontiguousarray(outer.columns[:, owners])
            begin, position, event = flatten(columns, starts[list(node.outer_items)], table, self.bundles)
            together, ours, theirs = side_by_side(begin, paths.begin)
            positions = np.empty(together[-1], np.int32)
            events = np.empty(together[-1], np.int64)
            positions[ours], events[ours] = position, event
            positions[theirs], events[theirs] = table[starts[inner_item] + paths.position], paths.event
            yield Matches(together, positions, events, paths.key)


def _width(item: Node) -> int:
    """How many positions an item counts by."""
    match item:
        case LoopNode(items):
            return sum(_width(each) for each in items)
        case UnionNode(parts):
            return 1 + max(place for _, places in parts for place in places)
    return 1


def _scope(slots: int) -> Scope:
    return Scope(
        np.full(max(slots, 2), -1, np.int64),
        np.full(max(slots, 2), -1, np.int64),
        np.zeros(max(slots, 2) + 1, np.int64),
        np.zeros(1, np.int64),
    )


def _instances(columns: Any, first: Ints, last: Ints, end: Ints, key: Ints, keys: int) -> Instances:
    offsets = np.searchsorted(key, np.arange(keys + 1)).astype(np.int64)
    return Instances(np.ascontiguousarray(columns, np.int64), first, last, end, offsets)
