"""A-Seq's executor (Qi et al., SIGMOD 2014): counts kept for each START event, prefix trees, and chop-connect.

A pattern is chopped into *parts*, each a branch of a *tree* of prefixes. For every event that begins a tree (its START)
there is one counter for each node of the tree, and an event steps the counters of its node for all live STARTs: SEM of
section 3.2 where a tree is one whole pattern, PreTree of section 4.1 where it is the beginnings of several. Parts are
connected as section 4.2 says: an event that begins a later part takes a *snapshot*, the count of all before it for each
live START of the whole pattern. Negation resets the counts of a prefix (section 3.3).

Costs: an event costs as many additions as it has nodes times live STARTs; one that begins a second part, as many as
live STARTs of the pattern; a third or later part, as many as live STARTs times live events that begin the part before
it. A result is read at the end of a window, or at every completion where results are continuous.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.baselines.prepared import Absent, Counts, Line, Moments, PreparedEvents, pack_lists
from motet.kernels.arrays import Flags, Floats, Ints, SmallInts
from motet.kernels.jit import inner, kernel
from motet.template.symbols import Symbol

# A part of a query: the tree it is in, and its positions from one to before another.
Part = tuple[int, int, int]
Path = tuple[tuple[Symbol, Absent], ...]


class Trees(NamedTuple):
    """Trees of prefixes and how queries use them.

    By node: `parent` (-1: a root), `tree`. By class of events: the trees begun by `starts`, and the steps `step_node`
    in the order in which events of one time must take them; one below zero resets node -1 - step. By tree:
    `connections` that snapshot at its STARTs. By connection: the one before it (-1: the first part is), the node that
    the part before ends with, and the tree of the first part. By query: the node it ends with, its last connection or
    -1, and by class the queries it completes.
    """

    parent: Ints
    tree: Ints
    first_node: Ints
    start_at: Ints
    starts: Ints
    step_at: Ints
    step_node: Ints
    step_order: Ints
    connection_at: Ints
    connections: Ints
    before: Ints
    before_node: Ints
    first_tree: Ints
    own_tree: Ints
    end_node: Ints
    last: Ints
    complete_at: Ints
    completes: Ints
    longest: int


class Room(NamedTuple):
    """The state of a key. By tree: which START events are live (from `head`), were there before this moment (to
    `settled`), and are there (to `tail`). Counts are by node and START, snapshots by connection, event and START.
    """

    head: Ints
    settled: Ints
    tail: Ints
    begun: Ints
    node_at: Ints
    counts: Floats
    begun_at: Ints
    snapshot_at: Ints
    width: Ints
    height: Ints
    row_at: Ints
    row_first: Ints
    row_last: Ints
    snapshots: Floats
    live: (
        Ints  # STARTs, counters, snapshot entries: now, at most, at most in all keys; additions, those to read results
    )
    due: Flags  # queries that this moment completes


class Window(NamedTuple):
    """A window, its slide (0: continuous), and the number of the first window."""

    within: int
    slide: int
    first: int


@inner
def expire(trees: Trees, room: Room, tree: int, bound: int) -> None:
    """Remove the START events of a tree before a time: constant time for each."""
    at = room.begun_at[tree]
    head = room.head[tree]
    while head < room.settled[tree] and room.begun[at + head] < bound:
        room.live[0] -= 1
        room.live[1] -= trees.first_node[tree + 1] - trees.first_node[tree]
        for c in trees.connections[trees.connection_at[tree] : trees.connection_at[tree + 1]]:
            row = room.row_at[c] + head % room.height[c]
            room.live[2] -= room.row_last[row] - room.row_first[row]
        head += 1
    room.head[tree] = head


@inner
def begin(trees: Trees, room: Room, tree: int, time: int, bound: int) -> None:
    """Create the counters of a START event and the snapshots that it takes."""
    expire(trees, room, tree, bound)
    slot = room.tail[tree]
    room.tail[tree] = slot + 1
    room.begun[room.begun_at[tree] + slot] = time
    for node in range(trees.first_node[tree], trees.first_node[tree + 1]):
        room.counts[room.node_at[node] + slot] = 1.0 if trees.parent[node] < 0 else 0.0
    room.live[0] += 1
    room.live[1] += trees.first_node[tree + 1] - trees.first_node[tree]
    for c in trees.connections[trees.connection_at[tree] : trees.connection_at[tree + 1]]:
        take_snapshot(trees, room, c, slot, bound)


@inner
def take_snapshot(trees: Trees, room: Room, c: int, slot: int, bound: int) -> None:
    """Record the count of all parts before this event for each live START of the pattern (lemma 7, multi-connect)."""
    first = trees.first_tree[c]
    expire(trees, room, first, bound)
    low, high = room.head[first], room.settled[first]
    row = room.row_at[c] + slot % room.height[c]
    at = room.snapshot_at[c] + (slot % room.height[c]) * room.width[c]
    room.row_first[row] = low
    room.row_last[row] = high
    room.live[2] += high - low
    node = room.node_at[trees.before_node[c]]
    before = trees.before[c]
    if before < 0:
        for i in range(low, high):
            room.snapshots[at + i - low] = room.counts[node + i]
        room.live[9] += high - low
        return
    for i in range(high - low):
        room.snapshots[at + i] = 0.0
    tree = trees.own_tree[before]
    expire(trees, room, tree, bound)
    for d in range(room.head[tree], room.settled[tree]):
        count = room.counts[node + d]
        other = room.row_at[before] + d % room.height[before]
        source = room.snapshot_at[before] + (d % room.height[before]) * room.width[before] - room.row_first[other]
        for i in range(max(low, room.row_first[other]), room.row_last[other]):
            room.snapshots[at + i - low] += count * room.snapshots[source + i]
        room.live[9] += max(0, room.row_last[other] - max(low, room.row_first[other]))


@inner
def read_count(trees: Trees, room: Room, query: int, bound: int) -> float:
    """Return the matches of a query that begin at a time or later: one addition for each live counter, or for each of
    these and each live START of the pattern where it has parts.
    """
    total = 0.0
    c = trees.last[query]
    node = trees.end_node[query]
    tree = trees.tree[node]
    expire(trees, room, tree, bound)
    at = room.node_at[node]
    if c < 0:
        for i in range(room.head[tree], room.settled[tree]):
            total += room.counts[at + i]
        room.live[10] += room.settled[tree] - room.head[tree]
        return total
    first = trees.first_tree[c]
    expire(trees, room, first, bound)
    low = room.head[first]
    for d in range(room.head[tree], room.settled[tree]):
        count = room.counts[at + d]
        row = room.row_at[c] + d % room.height[c]
        source = room.snapshot_at[c] + (d % room.height[c]) * room.width[c] - room.row_first[row]
        for i in range(max(low, room.row_first[row]), room.row_last[row]):
            total += count * room.snapshots[source + i]
        room.live[10] += max(0, room.row_last[row] - max(low, room.row_first[row]))
    return total


@inner
def take_step(trees: Trees, room: Room, step: int, bound: int) -> None:
    """Step or reset the counters of one node: one addition for each live START (lemma 1)."""
    node = step if step >= 0 else -1 - step
    tree = trees.tree[node]
    expire(trees, room, tree, bound)
    at = room.node_at[node]
    if step < 0:
        room.counts[at + room.head[tree] : at + room.settled[tree]] = 0.0
        return
    before = room.node_at[trees.parent[node]]
    for i in range(room.head[tree], room.settled[tree]):
        room.counts[at + i] += room.counts[before + i]
    room.live[9] += room.settled[tree] - room.head[tree]


@inner
def can_complete(trees: Trees, room: Room, query: int) -> bool:
    """Return whether an event that ends a query completes a match of its last part."""
    node = trees.end_node[query]
    if trees.parent[node] < 0:
        return True
    tree = trees.tree[node]
    at = room.node_at[trees.parent[node]]
    most = 0.0
    for i in range(room.head[tree], room.settled[tree]):
        most = max(most, room.counts[at + i])
    return most > 0


@kernel
def count_matches(
    trees: Trees,
    room: Room,
    window: Window,
    offsets: Ints,
    time: Ints,
    klass: SmallInts,
    group_of_key: Ints,
    by_window: Floats,
    moments: Moments,
) -> int:
    """Count the matches of all queries, key by key and moment by moment; return how many moments were reported."""
    reported = 0
    queries = len(trees.end_node)
    due = room.due
    room.live[:] = 0
    for key in range(len(offsets) - 1):
        room.head[:] = 0
        room.settled[:] = 0
        room.tail[:] = 0
        room.live[:6] = 0
        at, end = offsets[key], offsets[key + 1]
        if at == end:
            continue
        closing = (time[at] - window.within) // window.slide + 1 if window.slide else 0
        while at <= end:
            now = time[at] if at < end else time[end - 1] + window.within
            while window.slide and closing * window.slide + window.within <= now:
                for query in range(queries):
                    count = read_count(trees, room, query, closing * window.slide)
                    by_window[group_of_key[key], query, closing - window.first] += count
                closing += 1
            if at == end:
                break
            bound = closing * window.slide if window.slide else now - window.within + 1
            then = at + 1
            while then < end and time[then] == now:
                then += 1
            for event in range(at, then):
                for tree in trees.starts[trees.start_at[klass[event]] : trees.start_at[klass[event] + 1]]:
                    begin(trees, room, tree, now, bound)
                if not window.slide:
                    for query in trees.completes[trees.complete_at[klass[event]] : trees.complete_at[klass[event] + 1]]:
                        due[query] = can_complete(trees, room, query)
            # Events of one time take steps of later positions first, so that none sees another.
            for order in range(trees.longest if then - at > 1 else 0, -1, -1):
                for event in range(at, then):
                    for step in range(trees.step_at[klass[event]], trees.step_at[klass[event] + 1]):
                        if then - at == 1 or trees.step_order[step] == order:
                            take_step(trees, room, trees.step_node[step], bound)
            for event in range(at, then):
                for tree in trees.starts[trees.start_at[klass[event]] : trees.start_at[klass[event] + 1]]:
                    room.settled[tree] = room.tail[tree]
            for kind in range(3):
                room.live[3 + kind] = max(room.live[3 + kind], room.live[kind])
            if not window.slide:
                for event in range(at, then):
                    for query in trees.completes[trees.complete_at[klass[event]] : trees.complete_at[klass[event] + 1]]:
                        if due[query]:
                            due[query] = False
                            count = read_count(trees, room, query, bound)
                            if count > 0:
                                moments.query[reported] = query
                                moments.key[reported] = key
                                moments.time[reported] = now
                                moments.value[reported] = count
                                reported += 1
            at = then
        for kind in range(3):
            room.live[6 + kind] += room.live[3 + kind]
    return reported


class ASeq:
    """The executor for queries in given parts. Parts in one tree share what they begin with."""

    def __init__(self, prepared: PreparedEvents, parts: Sequence[Sequence[Part]]) -> None:
        self.prepared = prepared
        self.trees, roots = build_trees(prepared, parts)
        self.room = make_room(prepared, self.trees, roots)
        self._by_window, self._moments = prepared.make_results()

    def run(self) -> Counts:
        """Count the matches of all queries."""
        prepared, values = self.prepared, self._by_window
        values[:] = 0.0
        window = Window(prepared.within, prepared.slide, prepared.first_window)
        events = (prepared.offsets, prepared.time, prepared.klass, prepared.group_of_key)
        found = count_matches(self.trees, self.room, window, *events, values, self._moments)
        kinds = ("START events", "counters", "snapshot entries", "additions", "additions to read results")
        objects = dict(zip(kinds, map(int, self.room.live[6:]), strict=True))
        return Counts.collect(prepared, values, self._moments, found, objects)


def run_alone(prepared: PreparedEvents) -> ASeq:
    """Run each query by itself (SEM): a tree of its own for each."""
    return ASeq(prepared, [[(number, 0, len(line.symbols))] for number, line in enumerate(prepared.lines)])


def share_prefixes(prepared: PreparedEvents) -> ASeq:
    """Share beginnings (PreTree): one tree for all queries that begin with a symbol."""
    roots: dict[Symbol, int] = {}
    numbers = [roots.setdefault(line.symbols[0], len(roots)) for line in prepared.lines]
    return ASeq(prepared, [[(numbers[at], 0, len(line.symbols))] for at, line in enumerate(prepared.lines)])


def build_trees(prepared: PreparedEvents, parts: Sequence[Sequence[Part]]) -> tuple[Trees, list[Symbol]]:
    """Build the trees that parts lie in, and return them with the symbol of each root."""
    count = 1 + max(tree for each in parts for tree, _, _ in each)
    nodes: list[dict[Path, None]] = [{} for _ in range(count)]
    for line, each in zip(prepared.lines, parts, strict=True):
        if line.back_edges:
            raise ValueError("A-Seq has no repetition")
        for tree, begins, ends in each:
            for at in range(begins, ends):
                nodes[tree][_read_path(line, begins, at)] = None
    first_node, _ = pack_lists([[0] * len(own) for own in nodes])
    number = {(tree, path): first_node[tree] + at for tree, own in enumerate(nodes) for at, path in enumerate(own)}
    steps: dict[Symbol, list[tuple[int, int]]] = {}
    for (_, path), node in number.items():
        if len(path) > 1:
            steps.setdefault(path[-1][0], []).append((2 * len(path), node))
        for absent in path[-1][1]:
            steps.setdefault(absent, []).append((2 * len(path) + 1, -1 - node))
    before: list[int] = []
    before_node: list[int] = []
    first_tree: list[int] = []
    own_tree: list[int] = []
    end_node: list[int] = []
    last: list[int] = []
    for line, each in zip(prepared.lines, parts, strict=True):
        ends_with = [number[tree, _read_path(line, a, b - 1)] for tree, a, b in each]
        for at in range(1, len(each)):
            before.append(len(before) - 1 if at > 1 else -1)
            before_node.append(ends_with[at - 1])
            first_tree.append(each[0][0])
            own_tree.append(each[at][0])
        end_node.append(ends_with[-1])
        last.append(len(before) - 1 if len(each) > 1 else -1)
    roots = [next(iter(own))[0][0] for own in nodes]
    taken = [
        sorted({step for symbol in found for step in steps.get(symbol, ())}, reverse=True) for found in prepared.classes
    ]
    start_at, starts = pack_lists([[t for t, root in enumerate(roots) if root in found] for found in prepared.classes])
    step_at, step_node = pack_lists([[step for _, step in each] for each in taken])
    _, step_order = pack_lists([[order for order, _ in each] for each in taken])
    connection_at, connections = pack_lists([[c for c, own in enumerate(own_tree) if own == t] for t in range(count)])
    complete_at, completes = pack_lists(
        [[q for q, line in enumerate(prepared.lines) if line.symbols[-1] in found] for found in prepared.classes]
    )

    def ints(values: Sequence[int]) -> Ints:
        return np.array(values, np.int64)

    parent = ints([number[tree, path[:-1]] if len(path) > 1 else -1 for tree, path in number])
    trees = Trees(
        parent, ints([tree for tree, _ in number]), first_node, start_at, starts, step_at, step_node, step_order,
        connection_at, connections, ints(before), ints(before_node), ints(first_tree), ints(own_tree), ints(end_node),
        ints(last), complete_at, completes, int(step_order.max(initial=0)),
    )  # fmt: skip
    return trees, roots


def _read_path(line: Line, begins: int, at: int) -> Path:
    """Return the branch from the beginning of a part to a position: symbols, each with what must be absent after it."""
    return tuple(zip(line.symbols[begins : at + 1], (*line.gaps[1:], frozenset())[begins : at + 1], strict=True))


def make_room(prepared: PreparedEvents, trees: Trees, roots: Sequence[Symbol]) -> Room:
    """Return the state of a key, large enough for any."""
    most = {root: prepared.most_per_key(root) for root in set(roots)}
    alive = {root: prepared.most_alive(root) for root in set(roots)}
    begun_at, _ = pack_lists([[0] * most[root] for root in roots])
    per_node = np.array([most[roots[tree]] for tree in trees.tree], np.int64)
    width = np.array([alive[roots[tree]] for tree in trees.first_tree], np.int64)
    height = np.array([alive[roots[tree]] for tree in trees.own_tree], np.int64) + 1
    node_at = np.concatenate(([0], np.cumsum(per_node)))
    snapshot_at = np.concatenate(([0], np.cumsum(width * height)))
    row_at = np.concatenate(([0], np.cumsum(height)))
    count = len(roots)
    return Room(
        np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64),
        np.zeros(begun_at[-1], np.int64), node_at, np.zeros(node_at[-1]), begun_at, snapshot_at, width, height, row_at,
        np.zeros(row_at[-1], np.int64), np.zeros(row_at[-1], np.int64), np.zeros(snapshot_at[-1]),
        np.zeros(11, np.int64), np.zeros(len(prepared.lines), np.bool_),
    )  # fmt: skip
