"""GRETA's event graph, and Gloria's shared execution on it by snapshots (Gloria, section 3).

Each event has, for each query and position that takes it, the count of trends that end with it: the sum of the counts
of all events that may come before it (GRETA). Where a plan lets queries share a transition, events have instead one
*expression* for all of them: how many trends lead from each *snapshot* to the event. A snapshot is an event of the
plan's snapshot type, with a value for each query. Expressions are evaluated where trends end, and where what queries
share changes. A repetition whose trends also come from elsewhere adds the event that begins it as a snapshot.

The authors' program adds up the expressions of a type as its events come (`running`), which is what their equation 3
prices, while its unshared counts are pulled from each event before (equation 2). Either can be done for both.

Costs, with n events of a type in a window, q queries and s snapshots: without sharing n additions for each event, query
and transition, and one with running sums; shared, n * s for each event and transition, and 2 s with running sums; q * s
for each event that is evaluated. All times the windows that an event lies in, but for expressions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.baselines.prepared import Counts, PreparedEvents, pack_lists
from motet.kernels.arrays import Flags, Floats, Ints, SmallInts
from motet.kernels.jit import inner, kernel
from motet.plans.sharing import SharedTransition, TransitionPlan
from motet.template.symbols import Symbol

# What an event leaves at a shared state: nothing, a snapshot, its expression, or its expression with a snapshot added.
NOTHING, SNAPSHOT, EXPRESSION, BOTH = range(4)

ADDITIONS, EVALUATIONS, INSERTIONS, SNAPSHOTS, EDGES = range(5)
KINDS = ("additions", "evaluations", "values inserted", "snapshots", "edges")


class Graph(NamedTuple):
    """What the queries of a workload are made of.

    By node, a position of a query: its query, whether it begins and ends one, the nodes it takes counts from, and the
    states whose expressions it evaluates, with its place among their members. By state, where a Q-set arrives or
    leaves: its Q-set, what it leaves, the states before it and its nodes. By Q-set: its states and its size. By class
    of events: its nodes and states.
    """

    query: Ints
    begins: Flags
    ends: Flags
    before_at: Ints
    before: Ints
    arrival_at: Ints
    arrivals: Ints
    arrival_member: Ints
    set_of: Ints
    leaves: Ints
    source_at: Ints
    sources: Ints
    member_at: Ints
    members: Ints
    states_at: Ints
    states: Ints
    size: Ints
    node_at: Ints
    nodes: Ints
    state_at: Ints
    class_states: Ints


class Room(NamedTuple):
    """The state of a key. Snapshots of a Q-set are numbered as they come and kept in a ring of `capacity`.

    By Q-set: the first live snapshot, the last settled and the last. By snapshot: its last window and its values by
    member and window. By state: its arriving expression, the sum of settled ones and of those of this moment, and its
    events with their expressions. By node: the sum of settled values and of those of this moment by window, and its
    events with their values.
    """

    low: Ints
    settled: Ints
    high: Ints
    capacity: Ints
    snapshot_at: Ints
    snapshot_window: Ints
    value_at: Ints
    snapshot_values: Floats
    vector_at: Ints
    arriving: Floats
    sums: Floats
    fresh_sums: Floats
    row_head: Ints
    row_settled: Ints
    row_tail: Ints
    row_height: Ints
    row_at: Ints
    row_window: Ints
    row_low: Ints
    row_high: Ints
    expression_at: Ints
    expressions: Floats
    values: Floats
    node_sums: Floats
    node_fresh: Floats
    event_at: Ints
    event_head: Ints
    event_settled: Ints
    event_tail: Ints
    event_window: Ints
    event_values: Floats
    done: Ints
    live: Ints  # terms of expressions and graph nodes: now, at most, at most in all keys


@inner
def add_ring(
    target: Floats, target_at: int, source: Floats, source_at: int, capacity: int, low: int, high: int
) -> None:
    """Add the entries of a ring from one number to before another to those of another ring."""
    first = low % capacity
    count = high - low
    until = min(first + count, capacity)
    for i in range(first, until):
        target[target_at + i] += source[source_at + i]
    for i in range(count - (until - first)):
        target[target_at + i] += source[source_at + i]


@inner
def clear_ring(target: Floats, at: int, capacity: int, low: int, high: int) -> None:
    place = low % capacity
    for _ in range(low, high):
        target[at + place] = 0.0
        place = place + 1 if place + 1 < capacity else 0


@inner
def expire_rows(room: Room, x: int, first_window: int) -> None:
    """Drop the expressions of events that lie in no open window: constant time for each."""
    head = room.row_head[x]
    while head < room.row_settled[x]:
        row = room.row_at[x] + head % room.row_height[x]
        if room.row_window[row] >= first_window:
            break
        room.live[0] -= room.row_high[row] - room.row_low[row]
        head += 1
    room.row_head[x] = head


@inner
def arrive(graph: Graph, room: Room, x: int, running: bool, first_window: int) -> None:
    """Make the expression of an event at a state: the sum of those of all events before it."""
    c = graph.set_of[x]
    capacity = room.capacity[c]
    low, high = room.low[c], room.settled[c]
    at = room.vector_at[x]
    clear_ring(room.arriving, at, capacity, low, high)
    for source in graph.sources[graph.source_at[x] : graph.source_at[x + 1]]:
        if running:
            add_ring(room.arriving, at, room.sums, room.vector_at[source], capacity, low, high)
            room.done[ADDITIONS] += high - low
            continue
        expire_rows(room, source, first_window)
        height = room.row_height[source]
        for event in range(room.row_head[source], room.row_settled[source]):
            row = room.row_at[source] + event % height
            begin = max(low, room.row_low[row])
            room.done[EDGES] += 1
            room.done[ADDITIONS] += max(0, room.row_high[row] - begin)
            if begin >= room.row_high[row]:
                continue
            if graph.leaves[source] == SNAPSHOT:
                room.arriving[at + begin % capacity] += 1.0
            else:
                from_row = room.expression_at[source] + (event % height) * capacity
                add_ring(room.arriving, at, room.expressions, from_row, capacity, begin, room.row_high[row])


@inner
def evaluate(
    graph: Graph, room: Room, node: int, without: int, first: int, last: int, slots: int, into: int, running: bool
) -> None:
    """Compute the count of trends that end with an event at a node, for each of its windows.

    What comes by the expressions of one Q-set (`without`) is left out.
    """
    for k in range(first, last + 1):
        room.values[into + k % slots] = 1.0 if graph.begins[node] else 0.0
    for other in graph.before[graph.before_at[node] : graph.before_at[node + 1]]:
        if running:
            for k in range(first, last + 1):
                room.values[into + k % slots] += room.node_sums[other * slots + k % slots]
            room.done[ADDITIONS] += last - first + 1
            continue
        head = room.event_head[other]
        at = room.event_at[other]
        while head < room.event_settled[other] and room.event_window[at + head] < first:
            head += 1
            room.live[1] -= 1
        room.event_head[other] = head
        for event in range(head, room.event_settled[other]):
            own = (at + event) * slots
            until = room.event_window[at + event]
            slot = first % slots
            for _k in range(first, until + 1):
                room.values[into + slot] += room.event_values[own + slot]
                slot = slot + 1 if slot + 1 < slots else 0
            room.done[ADDITIONS] += until - first + 1
        room.done[EDGES] += room.event_settled[other] - head
    for number in range(graph.arrival_at[node], graph.arrival_at[node + 1]):
        x = graph.arrivals[number]
        c = graph.set_of[x]
        if c == without:
            continue
        capacity = room.capacity[c]
        place = room.low[c] % capacity
        for _ in range(room.low[c], room.settled[c]):
            times = room.arriving[room.vector_at[x] + place]
            own = room.value_at[c] + (place * graph.size[c] + graph.arrival_member[number]) * slots
            slot = first % slots
            for _k in range(first, room.snapshot_window[room.snapshot_at[c] + place] + 1):
                room.values[into + slot] += times * room.snapshot_values[own + slot]
                slot = slot + 1 if slot + 1 < slots else 0
            place = place + 1 if place + 1 < capacity else 0
        room.done[EVALUATIONS] += room.settled[c] - room.low[c]


@inner
def leave(
    graph: Graph, room: Room, x: int, first: int, last: int, slots: int, running: bool, own_running: bool
) -> None:
    """Leave what later events take from this one at a state: a snapshot, an expression, or both."""
    c = graph.set_of[x]
    kind = graph.leaves[x]
    capacity = room.capacity[c]
    number = -1
    low, high = room.low[c], room.settled[c]
    if kind != EXPRESSION:
        number = room.high[c]
        room.high[c] = number + 1
        slot = number % capacity
        room.snapshot_window[room.snapshot_at[c] + slot] = last
        for at in range(graph.member_at[x], graph.member_at[x + 1]):
            node = graph.members[at]
            own = room.value_at[c] + (slot * graph.size[c] + at - graph.member_at[x]) * slots
            value = node * slots
            if kind == BOTH:
                value = len(graph.query) * slots
                evaluate(graph, room, node, c, first, last, slots, value, own_running)
            for k in range(first, last + 1):
                room.snapshot_values[own + k % slots] = room.values[value + k % slots]
            room.done[INSERTIONS] += 1
        room.done[SNAPSHOTS] += 1
        for other in graph.states[graph.states_at[c] : graph.states_at[c + 1]]:
            room.sums[room.vector_at[other] + slot] = 0.0
            room.fresh_sums[room.vector_at[other] + slot] = 0.0
            room.arriving[room.vector_at[other] + slot] = 0.0
    if running:
        room.row_tail[x] += 1
        if kind != SNAPSHOT:
            add_ring(room.fresh_sums, room.vector_at[x], room.arriving, room.vector_at[x], capacity, low, high)
            room.done[ADDITIONS] += high - low
        if number >= 0:
            room.fresh_sums[room.vector_at[x] + number % capacity] = 1.0
        return
    expire_rows(room, x, first)
    event = room.row_tail[x]
    room.row_tail[x] = event + 1
    place = event % room.row_height[x]
    row = room.row_at[x] + place
    room.row_window[row] = last
    room.row_low[row] = number if kind == SNAPSHOT else low
    room.row_high[row] = number + 1 if number >= 0 else high
    room.live[0] += room.row_high[row] - room.row_low[row]
    if kind != SNAPSHOT:
        own = room.expression_at[x] + place * capacity
        # Snapshots of this moment that others left lie between: they lead nowhere yet.
        clear_ring(room.expressions, own, capacity, low, room.row_high[row])
        add_ring(room.expressions, own, room.arriving, room.vector_at[x], capacity, low, high)
        if number >= 0:
            room.expressions[own + number % capacity] = 1.0


@inner
def settle(graph: Graph, room: Room, x: int, running: bool) -> None:
    """Let later moments see what this one left at a state."""
    if running and room.row_settled[x] < room.row_tail[x]:
        c = graph.set_of[x]
        at, capacity = room.vector_at[x], room.capacity[c]
        low, high = room.low[c], room.high[c]
        add_ring(room.sums, at, room.fresh_sums, at, capacity, low, high)
        clear_ring(room.fresh_sums, at, capacity, low, high)
    room.row_settled[x] = room.row_tail[x]


@kernel
def count_trends(
    graph: Graph,
    room: Room,
    window: tuple[int, int, int, int],
    running: tuple[bool, bool],
    offsets: Ints,
    time: Ints,
    klass: SmallInts,
    group_of_key: Ints,
    by_window: Floats,
) -> None:
    """Count the trends of all queries, key by key and moment by moment."""
    within, slide, first_window, slots = window
    share_running, own_running = running
    nodes = len(graph.query)
    sets = len(graph.size)
    room.live[:] = 0
    room.done[:] = 0
    for key in range(len(offsets) - 1):
        for array in (room.low, room.settled, room.high, room.row_head, room.row_settled, room.row_tail):
            array[:] = 0
        for array in (room.event_head, room.event_settled, room.event_tail):
            array[:] = 0
        room.sums[:] = 0.0
        room.fresh_sums[:] = 0.0
        room.node_sums[:] = 0.0
        room.node_fresh[:] = 0.0
        room.live[:4] = 0
        at, end = offsets[key], offsets[key + 1]
        opened = -(2**62)
        while at < end:
            now = time[at]
            first, last = (now - within) // slide + 1, now // slide
            for k in range(max(first, opened + 1), last + 1):
                for node in range(nodes):
                    room.node_sums[node * slots + k % slots] = 0.0
            opened = last
            for c in range(sets):
                place = room.snapshot_at[c]
                while room.low[c] < room.settled[c] and (
                    room.snapshot_window[place + room.low[c] % room.capacity[c]] < first
                ):
                    room.low[c] += 1
            then = at
            while then < end and time[then] == now:
                kind = klass[then]
                for x in graph.class_states[graph.state_at[kind] : graph.state_at[kind + 1]]:
                    if graph.source_at[x] < graph.source_at[x + 1]:
                        arrive(graph, room, x, share_running, first)
                for node in graph.nodes[graph.node_at[kind] : graph.node_at[kind + 1]]:
                    evaluate(graph, room, node, -1, first, last, slots, node * slots, own_running)
                    if graph.ends[node]:
                        for k in range(first, last + 1):
                            found = room.values[node * slots + k % slots]
                            by_window[group_of_key[key], graph.query[node], k - first_window] += found
                    if own_running:
                        for k in range(first, last + 1):
                            room.node_fresh[node * slots + k % slots] += room.values[node * slots + k % slots]
                    elif room.event_at[node] < room.event_at[node + 1]:
                        event = room.event_at[node] + room.event_tail[node]
                        room.event_tail[node] += 1
                        room.event_window[event] = last
                        for k in range(first, last + 1):
                            room.event_values[event * slots + k % slots] = room.values[node * slots + k % slots]
                        room.live[1] += 1
                for x in graph.class_states[graph.state_at[kind] : graph.state_at[kind + 1]]:
                    if graph.leaves[x] != NOTHING:
                        leave(graph, room, x, first, last, slots, share_running, own_running)
                then += 1
            for event in range(at, then):
                kind = klass[event]
                for x in graph.class_states[graph.state_at[kind] : graph.state_at[kind + 1]]:
                    settle(graph, room, x, share_running)
                for node in graph.nodes[graph.node_at[kind] : graph.node_at[kind + 1]]:
                    room.event_settled[node] = room.event_tail[node]
                    for slot in range(node * slots, (node + 1) * slots):
                        room.node_sums[slot] += room.node_fresh[slot]
                        room.node_fresh[slot] = 0.0
            for c in range(sets):
                room.settled[c] = room.high[c]
            for kind in range(2):
                room.live[2 + kind] = max(room.live[2 + kind], room.live[kind])
            at = then
        for kind in range(2):
            room.live[4 + kind] += room.live[2 + kind]


@kernel
def insert_values(values: Floats, count: int, slots: int) -> None:
    """Insert so many values of snapshots, for each window one: what a run does beside all else."""
    room = len(values) // slots
    for number in range(count):
        for slot in range(slots):
            values[(number % room) * slots + slot] = float(number + slot)


class SnapshotGraph:
    """The executor of a workload by a plan; without one every query runs by itself, as GRETA does."""

    def __init__(
        self,
        prepared: PreparedEvents,
        plan: TransitionPlan = TransitionPlan(),  # noqa: B008
        running: bool = True,
        own_running: bool = False,
    ) -> None:
        if not prepared.slide or any(gap for line in prepared.lines for gap in line.gaps):
            raise ValueError("the event graph takes sliding windows and patterns without absences")
        self.prepared = prepared
        self.running = (running, own_running)
        slots = -(-prepared.within // prepared.slide)
        self.window = (prepared.within, prepared.slide, prepared.first_window, slots)
        self.graph, self.room = build_graph(prepared, plan, slots, *self.running)
        self._by_window, self._moments = prepared.make_results()
        self.inserted = 0

    def insert_again(self) -> None:
        """Insert as many values of snapshots as the last run did, and do nothing else."""
        if len(self.room.snapshot_values):
            insert_values(self.room.snapshot_values, self.inserted, self.window[3])

    def run(self) -> Counts:
        """Count the trends of all queries."""
        prepared = self.prepared
        self._by_window[:] = 0.0
        events = (prepared.offsets, prepared.time, prepared.klass, prepared.group_of_key)
        count_trends(self.graph, self.room, self.window, self.running, *events, self._by_window)
        objects = dict(zip(KINDS, map(int, self.room.done), strict=True))
        self.inserted = objects["values inserted"]
        held = {"terms held": int(self.room.live[4]), "graph nodes": int(self.room.live[5])}
        return Counts.collect(prepared, self._by_window, self._moments, 0, {**objects, **held})


def build_graph(
    prepared: PreparedEvents, plan: TransitionPlan, slots: int, running: bool, own_running: bool
) -> tuple[Graph, Room]:
    """Build the nodes of queries and the states of a plan's Q-sets, and room for them."""
    row_of = {number: row for row, number in enumerate(prepared.numbers)}
    lines = prepared.lines
    nodes = [(q, p) for q, line in enumerate(lines) for p in range(len(line.symbols))]
    index = {node: number for number, node in enumerate(nodes)}
    symbols = [lines[q].symbols[p] for q, p in nodes]
    transitions = {(q, p - 1, p) for q, p in nodes if p} | {
        (q, a, b) for q, ln in enumerate(lines) for a, b in ln.back_edges
    }
    # States of a Q-set: (its number, the nodes of its queries). Incoming and outgoing transitions by state.
    states: dict[tuple[int, tuple[int, ...]], int] = {}
    sources: list[list[int]] = []
    is_source: set[int] = set()
    shared: dict[tuple[int, int, int], int] = {}
    number_of, snapshot_of = _number_sets(plan)
    for transition, c in zip(plan.transitions, number_of, strict=True):
        ends: list[int] = []
        for side in (1, 2):
            places = tuple(index[row_of[place[0]], place[side]] for place in transition.places)
            if (c, places) not in states:
                states[c, places] = len(states)
                sources.append([])
            ends.append(states[c, places])
        sources[ends[1]].append(ends[0])
        is_source.add(ends[0])
        for query, a, b in transition.places:
            shared[row_of[query], a, b] = c
    incoming: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(nodes))}
    for q, a, b in transitions:
        incoming[index[q, b]].append((index[q, a], shared.get((q, a, b), -1)))
    arrivals: list[list[tuple[int, int]]] = [[] for _ in nodes]
    for (_, places), x in states.items():
        for member, node in enumerate(places):
            if sources[x]:
                arrivals[node].append((x, member))
    leaves = []
    for (c, places), x in states.items():
        if x not in is_source:
            leaves.append(NOTHING)
        elif symbols[places[0]] == snapshot_of[c] or not sources[x]:
            leaves.append(SNAPSHOT)
        else:
            elsewhere = any(nodes[node][1] == 0 or any(by != c for _, by in incoming[node]) for node in places)
            leaves.append(BOTH if elsewhere else EXPRESSION)
    set_of = [c for c, _ in states]
    by_state = [symbols[places[0]] for _, places in states]
    members = [places for _, places in states]
    sizes = [len(next(places for own, places in states if own == c)) for c in range(len(snapshot_of))]
    plain = [[other for other, by in incoming[number] if by < 0] for number in range(len(nodes))]
    kept = {other for each in plain for other in each}

    def by_class(own: Sequence[Symbol]) -> tuple[Ints, Ints]:
        return pack_lists([[n for n, symbol in enumerate(own) if symbol in found] for found in prepared.classes])

    def ints(values: Sequence[int]) -> Ints:
        return np.array(values, np.int64)

    # A node is evaluated where its trends end, where counts are taken from it one by one, and at snapshots.
    wanted = [
        n in kept or nodes[n][1] == len(lines[nodes[n][0]].symbols) - 1
        or any(leaves[x] == SNAPSHOT and n in members[x] for x in range(len(members)))
        for n in range(len(nodes))
    ]  # fmt: skip
    node_at, class_nodes = pack_lists(
        [[n for n, s in enumerate(symbols) if s in found and wanted[n]] for found in prepared.classes]
    )
    state_at, class_states = by_class(by_state)
    before_at, before = pack_lists(plain)
    arrival_at, arrival_states = pack_lists([[x for x, _ in each] for each in arrivals])
    _, arrival_member = pack_lists([[m for _, m in each] for each in arrivals])
    source_at, flat_sources = pack_lists(sources)
    member_at, flat_members = pack_lists(members)
    states_at, flat_states = pack_lists([[x for x, own in enumerate(set_of) if own == c] for c in range(len(sizes))])
    graph = Graph(
        ints([q for q, _ in nodes]), np.array([p == 0 for _, p in nodes]),
        np.array([p == len(lines[q].symbols) - 1 for q, p in nodes]), before_at, before, arrival_at, arrival_states,
        arrival_member, ints(set_of), ints(leaves), source_at, flat_sources, member_at, flat_members, states_at,
        flat_states, ints(sizes), node_at, class_nodes, state_at, class_states,
    )  # fmt: skip

    alive = {symbol: prepared.most_alive(symbol) for symbol in set(by_state)}
    capacity = [
        1 + sum(alive[by_state[x]] for x, own in enumerate(set_of) if own == c and leaves[x] in (SNAPSHOT, BOTH))
        for c in range(len(sizes))
    ]
    heights = [1 if running or leaves[x] == NOTHING else 1 + alive[by_state[x]] for x in range(len(set_of))]
    held = [
        0 if running or leaves[x] in (NOTHING, SNAPSHOT) else heights[x] * capacity[c] for x, c in enumerate(set_of)
    ]
    events = [0 if own_running or n not in kept else prepared.most_per_key(symbols[n]) for n in range(len(nodes))]

    def starts(lengths: Sequence[int]) -> Ints:
        return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)

    vectors = starts([capacity[c] for c in set_of])
    values = starts([capacity[c] * sizes[c] * slots for c in range(len(sizes))])
    snapshot_at, row_at, expression_at, event_at = map(starts, (capacity, heights, held, events))

    def zeros(count: int) -> Ints:
        return np.zeros(count, np.int64)

    c, x, n = len(sizes), len(set_of), len(nodes)
    room = Room(
        zeros(c), zeros(c), zeros(c), ints(capacity), snapshot_at, zeros(snapshot_at[-1]), values, np.zeros(values[-1]),
        vectors, np.zeros(vectors[-1]), np.zeros(vectors[-1]), np.zeros(vectors[-1]), zeros(x), zeros(x), zeros(x),
        ints(heights), row_at, zeros(row_at[-1]), zeros(row_at[-1]), zeros(row_at[-1]), expression_at,
        np.zeros(expression_at[-1]), np.zeros((n + 1) * slots), np.zeros(n * slots), np.zeros(n * slots), event_at,
        zeros(n), zeros(n), zeros(n), zeros(event_at[-1]), np.zeros(event_at[-1] * slots), zeros(len(KINDS)),
        zeros(6),
    )  # fmt: skip
    return graph, room


def _number_sets(plan: TransitionPlan) -> tuple[list[int], list[Symbol]]:
    """Number the Q-sets of transitions: those with the same queries and snapshots that meet at a position are one."""
    found: list[tuple[Hashable, set[tuple[int, int]], list[SharedTransition]]] = []
    for transition in plan.transitions:
        key = (frozenset(query for query, _, _ in transition.places), transition.snapshot)
        places = {(query, at) for query, *both in transition.places for at in both}
        meeting = [each for each in found if each[0] == key and each[1] & places]
        found = [each for each in found if each not in meeting]
        joined = set.union(places, *(each[1] for each in meeting))
        found.append((key, joined, [transition, *(one for each in meeting for one in each[2])]))
    number = {id(one): at for at, (_, _, members) in enumerate(found) for one in members}
    return [number[id(one)] for one in plan.transitions], [members[0].snapshot for _, _, members in found]
