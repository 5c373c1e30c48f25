"""Runs the nodes of a plan over the events of a branch: each once, its instances kept for all that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.code import Compiler, tests_table
from motet.engine.encode import Encoded, Ints
from motet.errors import RunError
from motet.kernels.instances import Absences, Bundles, Instances, Tests
from motet.kernels.join import AFTER, APART, BEFORE, FREE, JoinTable, flatten, join, room_for
from motet.kernels.judge import Matches
from motet.kernels.paths import Line, Listed, endings, list_paths, listed_for, new_walk, reach
from motet.kernels.stack import (
    AT_LEAST,
    AT_MOST,
    DIFFERENT,
    EQUAL,
    LESS,
    MORE,
    OVERFLOW,
    Code,
    Scope,
    Values,
    new_stack,
)
from motet.plan.detect.nodes import JoinNode, LeafNode, LoopNode, Node, UnionNode
from motet.template.symbols import Symbol

BLOCK_ROWS = 1 << 16
# What a comparison says when its sides change places.
FLIPPED = {EQUAL: EQUAL, DIFFERENT: DIFFERENT, LESS: MORE, MORE: LESS, AT_MOST: AT_LEAST, AT_LEAST: AT_MOST}
BLOCK_ENTRIES = 1 << 20


class OutOfRoom(Exception):
    """A budget is used up."""


@dataclass
class Budget:
    """How many bytes of instances may be kept, how many are, and whether to go on with those where there are more."""

    most: int
    truncate: bool
    used: int = 0
    cut: set[Node] = field(default_factory=set)  # nodes of which not all instances were kept

    def admits(self, size: int, node: Node) -> bool:
        """Whether so many more bytes may be kept."""
        if self.used + size <= self.most:
            self.used += size
            return True
        if not self.truncate:
            raise OutOfRoom
        self.cut.add(node)
        return False


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
        case LoopNode():
            rows: list[list[int]] = []
            begins = [0]
            for edge in _by_target(node):
                rows += [compiler.test(test, {"0": 0, "1": 1}) for test in sorted(edge.tests, key=repr)]
                begins.append(len(rows))
            return NodeTests(rows, tuple(begins))
    return NodeTests([])


def _by_target(node: LoopNode) -> list[Any]:
    return sorted(node.edges, key=lambda edge: (edge.target, edge.source))


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
    _first: list[Ints] = field(default_factory=list)
    _last: list[Ints] = field(default_factory=list)
    _begin: list[Ints] = field(default_factory=list)
    _position: list[NDArray[np.int32]] = field(default_factory=list)
    _event: list[Ints] = field(default_factory=list)
    _bundles: Bundles | None = None

    def __post_init__(self) -> None:
        self.of_class = {
            symbol: np.array([symbol in found for found in self.encoded.classes], np.bool_)
            for symbol in {symbol for found in self.encoded.classes for symbol in found}
        }
        self.absences = self.absences_of(self.absent)
        self.stack = new_stack()

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
        if self._bundles is None:
            sizes = np.concatenate([np.diff(begin) for begin in self._begin] or [np.zeros(0, np.int64)])
            self._bundles = Bundles(
                np.concatenate([self.encoded.time, *self._first]),
                np.concatenate([self.encoded.time, *self._last]),
                np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
                np.concatenate([*self._position, np.zeros(0, np.int32)]),
                np.concatenate([*self._event, np.zeros(0, np.int64)]),
                len(self.encoded.time),
            )
        return self._bundles

    def _add_bundles(self, paths: Listed) -> Instances:
        """Keep paths as bundles, and give them as instances of one item."""
        order = np.lexsort((paths.last, paths.key))
        base = len(self.encoded.time) + sum(map(len, self._first))
        self._first.append(paths.first)
        self._last.append(paths.last)
        self._begin.append(paths.begin)
        self._position.append(paths.position)
        self._event.append(paths.event)
        self._bundles = None
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

    def _run(self, node: Node) -> Instances:
        match node:
            case LeafNode(symbol):
                return self._leaf(symbol)
            case JoinNode():
                return self._joined(node)
            case LoopNode():
                return self._add_bundles(self._kept_paths(node))
            case UnionNode():
                return self._add_bundles(self._union(node))

    def _kept_paths(self, node: LoopNode) -> Listed:
        blocks = []
        for block in self.paths(node):
            blocks.append(block)
            if not self.budget.admits(32 * len(block.first) + 12 * len(block.event), node):
                break
        return _together(blocks)

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
        columns, *rest = (np.concatenate(parts, axis=-1) for parts in zip(*blocks, strict=True))
        first, last, end, key = rest
        # Outer rows come by key and time, so that results often are in order already.
        if ((np.diff(key) == 0) & (np.diff(last) < 0)).any():
            order = np.lexsort((last, key))
            columns, first, last, end, key = columns[:, order], first[order], last[order], end[order], key[order]
        return _instances(columns, first, last, end, key, len(self.encoded.offsets) - 1)

    def joins(self, node: JoinNode) -> Iterator[tuple[Any, Ints, Ints, Ints, Ints]]:
        """The instances of a join, block by block: columns, first, last, end and key."""
        outer, inner = self.instances(node.outer), self.instances(node.inner)
        table, tests = self._table(node)
        scope = _scope(len(node.items))
        at, within = 0, -1
        while True:
            room = room_for(len(node.items), BLOCK_ROWS)
            found, at, within = join(
                outer,
                inner,
                table,
                tests,
                self.values,
                self.bundles,
                self.absences,
                self.oldest[node],
                scope,
                self.stack,
                room,
                at,
                within,
            )
            self._check()
            yield (
                room.columns[:, :found].copy(),
                room.first[:found].copy(),
                room.last[:found].copy(),
                room.end[:found].copy(),
                room.key[:found].copy(),
            )
            if at >= len(outer.first):
                return

    def _table(self, node: JoinNode) -> tuple[JoinTable, Tests]:
        """What a join sees to, with the tests that need code apart."""
        slots = (*node.outer_items, *node.inner_items)
        ours = len(node.outer_items)
        relation = np.full((ours, len(node.inner_items)), APART, np.int8)
        for i, one in enumerate(node.outer_items):
            for j, other in enumerate(node.inner_items):
                if (one, other) in node.order:
                    relation[i, j] = BEFORE
                elif (other, one) in node.order:
                    relation[i, j] = AFTER
                elif not self._may_share(node.items[one], node.items[other]):
                    relation[i, j] = FREE
        # An event is found by its time alone; what a bundle begins with is not.
        settled = (FREE, BEFORE, AFTER) if isinstance(node.inner, LeafNode) else (FREE,)
        verify = [(i, j, relation[i, j]) for i, j in np.ndindex(relation.shape) if relation[i, j] not in settled]
        gap = np.zeros((len(node.new_gaps), len(slots)), np.int8)
        for g, each in enumerate(node.new_gaps):
            for s, item in enumerate(slots):
                gap[g, s] = 1 if item in each.after else 2 if item in each.before else 0
        absence = [self.absent.index(each.symbol) for each in node.new_gaps]
        rows = self.tests[node].rows
        compare = [_outer_first(row, ours) for row in rows if row[0] >= 0]
        table = JoinTable(
            relation,
            np.array(verify, np.int32).reshape(len(verify), 3),
            (relation == AFTER).all(axis=1),
            np.array(slots, np.int32),
            gap,
            np.array(absence or [0], np.int32),
            np.array(compare, np.int32).reshape(len(compare), 5),
        )
        return table, tests_table([row for row in rows if row[0] < 0], self.code)

    def _may_share(self, one: Node, other: Node) -> bool:
        """Whether two items may be bound to the same event."""
        if isinstance(one, LeafNode) and isinstance(other, LeafNode):
            return any(one.symbol in found and other.symbol in found for found in self.encoded.classes)
        return True

    def paths(self, node: LoopNode) -> Iterator[Listed]:
        """The paths of a loop, block by block; positions count from the loop's own first."""
        line, tests = self._line(node)
        latest, so_far = reach(line)
        items, rows, keys = endings(line, latest)
        longest = int(np.diff(self.encoded.offsets).max(initial=0)) + 2
        walk, scope = new_walk(longest), _scope(2)
        room_entries = BLOCK_ENTRIES
        done = False
        while not done:
            out = listed_for(BLOCK_ROWS, max(room_entries, 2 * longest))
            found, done = list_paths(
                line,
                latest,
                so_far,
                items,
                rows,
                keys,
                walk,
                tests,
                self.values,
                self.bundles,
                self.absences,
                scope,
                self.stack,
                out,
            )
            self._check()
            entries = int(out.begin[found])
            yield Listed(
                out.begin[: found + 1].copy(),
                out.position[:entries].copy(),
                out.event[:entries].copy(),
                *(column[:found].copy() for column in out[3:]),
            )

    def _line(self, node: LoopNode) -> tuple[Line, Tests]:
        instances = [self.instances(item) for item in node.items]
        starts = np.cumsum([0, *(len(each.first) for each in instances)])
        offsets = np.stack([start + each.offsets for start, each in zip(starts, instances, strict=False)])
        edges = _by_target(node)
        ways = [sorted(edge.ways, key=repr) for edge in edges]
        forbidden = [[self.absent.index(symbol) for symbol in way] for each in ways for way in each]
        targets = np.array([edge.target for edge in edges], np.int64)
        line = Line(
            offsets=np.ascontiguousarray(offsets, np.int64),
            what=np.concatenate([each.columns[0] for each in instances]),
            first=np.concatenate([each.first for each in instances]),
            last=np.concatenate([each.last for each in instances]),
            end=np.concatenate([each.end for each in instances]),
            oldest=self.oldest[node],
            position=np.array(node.places, np.int32),
            begins=np.array([item in node.firsts for item in range(len(node.items))], np.bool_),
            ends=np.array([item in node.lasts for item in range(len(node.items))], np.bool_),
            edges=np.searchsorted(targets, np.arange(len(node.items) + 1)).astype(np.int64),
            source=np.array([edge.source for edge in edges], np.int32),
            ways=np.cumsum([0, *map(len, ways)]).astype(np.int64),
            forbids=np.cumsum([0, *map(len, forbidden)]).astype(np.int64),
            forbidden=np.array([a for each in forbidden for a in each] or [0], np.int32),
            tests=np.array(self.tests[node].edges, np.int64),
        )
        return line, tests_table(self.tests[node].rows, self.code)

    def _union(self, node: UnionNode) -> Listed:
        blocks = []
        for part, places in node.parts:
            found = self.instances(part)
            starts, positions = self._places(part, places)
            begin, position, event = flatten(found.columns, starts, positions, self.bundles)
            key = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
            blocks.append(Listed(begin, position, event, found.first, found.last, found.end, key))
        return _together(blocks)

    def _places(self, node: Node, positions: tuple[int, ...]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Where the positions of each column of a node begin among the given ones."""
        items = node.items if isinstance(node, JoinNode) else (node,)
        sizes = [1 if isinstance(item, LeafNode) else _width(item) for item in items]
        return np.cumsum([0, *sizes[:-1]]).astype(np.int32), np.array(positions, np.int32)

    def _check(self) -> None:
        if self.stack.status[0] == OVERFLOW:
            raise RunError("a whole number in a condition does not fit in 64 bits")

    # Matches

    def matches(self, node: Node, positions: tuple[int, ...], shared: bool) -> Iterator[Matches]:
        """The instances of a root as matches, block by block; kept where others read them too."""
        starts, table = self._places(node, positions)
        if isinstance(node, LoopNode) and not shared and node not in self.kept:
            for block in self.paths(node):
                yield Matches(block.begin, table[block.position], block.event, block.key)
            return
        if isinstance(node, JoinNode) and not shared and node not in self.kept:
            for columns, _, _, _, key in self.joins(node):
                yield Matches(*flatten(columns, starts, table, self.bundles), key)
            return
        found = self.instances(node)
        keys = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
        for at in range(0, max(len(found.first), 1), BLOCK_ROWS):
            columns = np.ascontiguousarray(found.columns[:, at : at + BLOCK_ROWS])
            yield Matches(*flatten(columns, starts, table, self.bundles), keys[at : at + BLOCK_ROWS].copy())


def _outer_first(row: list[int], ours: int) -> list[int]:
    """A comparison with its outer side on the left; the inner slot counts from the first inner item."""
    comparison, one, one_row, other, other_row = row
    if one >= ours:
        comparison, one, one_row, other, other_row = FLIPPED[comparison], other, other_row, one, one_row
    return [comparison, one, one_row, other - ours, other_row]


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


def _together(blocks: list[Listed]) -> Listed:
    """Paths of several blocks as one."""
    sizes = np.concatenate([np.diff(block.begin) for block in blocks])
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Listed(begin, *(np.concatenate([block[at] for block in blocks]) for at in range(1, 7)))
