"""The template of a workload: its patterns laid over each other, and the transitions that queries have in common.

A *state* is a symbol at a place in patterns, a *pool* a transition between two states, or a repeated part with all its
transitions, for which one decision is made (Gloria, sections 2.2 and 6). The pools of a query form a route; where one
ends, the next begins. Sets of queries are bit masks over the queries of the template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from motet.optimizer.solvers.common import find_components
from motet.plans.sequences import RepeatedSequence
from motet.template.symbols import Symbol


@dataclass(frozen=True, slots=True)
class State:
    """A symbol in the template; `places` are the numbers of queries and positions in them."""

    symbol: Symbol
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """A transition from the state `entry` to `exit`, or a repeated part that begins and ends with these.

    Snapshots can be made at `snapshot_states`. `starting` and `ending` are the queries of which this is the first or
    the last pool; `predecessors` and `successors` are the pools before and after it in its queries. `interchangeable`
    are its queries, grouped by how they continue: the queries of a group continue in the same way.
    """

    number: int
    transitions: tuple[tuple[int, int], ...]
    entry: int
    exit: int
    snapshot_states: tuple[int, ...]
    queries: int
    starting: int
    ending: int
    predecessors: tuple[int, ...]
    successors: tuple[int, ...]
    interchangeable: tuple[int, ...]

    @property
    def is_repeated(self) -> bool:
        return self.transitions != ((self.entry, self.exit),) or self.entry == self.exit


@dataclass(frozen=True)
class Template:
    """The states and pools of queries; every pool comes after its predecessors.

    `queries` are their numbers in the workload; `routes` has the pools of each, `sequences` the queries themselves.
    """

    queries: tuple[int, ...]
    states: tuple[State, ...]
    pools: tuple[Pool, ...]
    routes: tuple[tuple[int, ...], ...]
    start_states: tuple[int, ...]  # of each query the state that it begins with
    sequences: tuple[RepeatedSequence, ...]

    def query_numbers(self, queries: int) -> list[int]:
        """Return the numbers of a set of queries in the workload."""
        return [number for at, number in enumerate(self.queries) if queries >> at & 1]


def build_templates(sequences: Iterable[RepeatedSequence]) -> list[Template]:
    """Build the templates of a workload: one for all queries of a kind that common transitions connect.

    Where transitions would form a cycle (A, B, C and B, C, A and C, A, B) some queries get a template of their own,
    since pools need an order.
    """
    layers: dict[tuple[object, ...], list[_Builder]] = {}
    numbers: dict[Hashable, int] = {}
    for sequence in sequences:
        keys = [numbers.setdefault(key, len(numbers)) for key in build_state_keys(sequence)]
        sketches = _sketch_pools(sequence, keys)
        builders = layers.setdefault(sequence.kind, [])
        if not any(builder.add(sequence, keys, sketches) for builder in builders):
            builders.append(_Builder())
            builders[-1].add(sequence, keys, sketches)
    whole = (builder for builders in layers.values() for builder in builders)
    return [part.build() for builder in whole for part in builder.split()]


@dataclass(frozen=True, slots=True)
class _PoolSketch:
    """A pool as one query sees it: its positions, and the transitions between them."""

    first: int
    last: int
    transitions: tuple[tuple[int, int], ...]
    key: Hashable


@dataclass
class _Builder:
    """The queries of a template to be, as long as their pools can be put in an order."""

    sequences: list[RepeatedSequence] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)  # by key of a state
    places: list[list[tuple[int, int]]] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    successors: dict[Hashable, dict[Hashable, None]] = field(default_factory=dict)
    sketches: list[list[_PoolSketch]] = field(default_factory=list)
    states: list[list[int]] = field(default_factory=list)  # of the positions of each query

    def add(self, sequence: RepeatedSequence, keys: Sequence[int], sketches: list[_PoolSketch]) -> bool:
        """Add a query; return False if its pools and those here would form a cycle."""
        if not self._connect([sketch.key for sketch in sketches]):
            return False
        for position, key in enumerate(keys):
            number = self.numbers.setdefault(key, len(self.numbers))
            if number == len(self.places):
                self.places.append([])
                self.symbols.append(sequence.symbols[position])
            self.places[number].append((sequence.number, position))
        self.sequences.append(sequence)
        self.sketches.append(sketches)
        self.states.append([self.numbers[key] for key in keys])
        return True

    def _connect(self, line: Sequence[Hashable]) -> bool:
        added: list[tuple[Hashable, Hashable]] = []
        for one, other in pairwise(line):
            if other in self.successors.setdefault(one, {}):
                continue
            if self._has_path(other, one):
                for source, target in added:
                    del self.successors[source][target]
                return False
            self.successors[one][other] = None
            added.append((one, other))
        return True

    def _has_path(self, source: Hashable, target: Hashable) -> bool:
        seen = {source}
        waiting = [source]
        while waiting:
            at = waiting.pop()
            if at == target:
                return True
            more = [other for other in self.successors.get(at, ()) if other not in seen]
            seen.update(more)
            waiting += more
        return False

    def split(self) -> list[_Builder]:
        """Return the queries here in sets that have no pool in common."""
        owners: dict[Hashable, list[int]] = {}
        for at, sketches in enumerate(self.sketches):
            for sketch in sketches:
                owners.setdefault(sketch.key, []).append(at)
        keys = list(self.numbers)
        builders = []
        for component in find_components(
            range(len(self.sequences)), lambda at: (other for each in self.sketches[at] for other in owners[each.key])
        ):
            builders.append(_Builder())
            for at in component:
                builders[-1].add(self.sequences[at], [keys[state] for state in self.states[at]], self.sketches[at])
        return builders

    def build(self) -> Template:
        order = self._order_pools()
        numbers = {key: number for number, key in enumerate(order)}
        routes = [tuple(numbers[sketch.key] for sketch in sketches) for sketches in self.sketches]
        samples: dict[int, tuple[_PoolSketch, list[int]]] = {}
        queries, begins, ends = ([0] * len(order) for _ in range(3))
        before: list[set[int]] = [set() for _ in order]
        after: list[set[int]] = [set() for _ in order]
        futures: list[dict[tuple[int, ...], int]] = [{} for _ in order]
        for at, line in enumerate(routes):
            bit = 1 << at
            for place, number in enumerate(line):
                samples.setdefault(number, (self.sketches[at][place], self.states[at]))
                queries[number] |= bit
                begins[number] |= bit if place == 0 else 0
                ends[number] |= bit if place == len(line) - 1 else 0
                future = line[place + 1 :]
                futures[number][future] = futures[number].get(future, 0) | bit
            for one, other in pairwise(line):
                after[one].add(other)
                before[other].add(one)
        pools = []
        for number in range(len(order)):
            sketch, states = samples[number]
            repeated = sketch.transitions != ((sketch.first, sketch.last),) or sketch.first == sketch.last
            inside = range(sketch.first, sketch.last + 1) if repeated else (sketch.first,)
            pools.append(
                Pool(
                    number=number,
                    transitions=tuple((states[a], states[b]) for a, b in sketch.transitions),
                    entry=states[sketch.first],
                    exit=states[sketch.last],
                    snapshot_states=tuple(states[position] for position in inside),
                    queries=queries[number],
                    starting=begins[number],
                    ending=ends[number],
                    predecessors=tuple(sorted(before[number])),
                    successors=tuple(sorted(after[number])),
                    interchangeable=tuple(futures[number].values()),
                )
            )
        return Template(
            queries=tuple(sequence.number for sequence in self.sequences),
            states=tuple(
                State(symbol, tuple(places)) for symbol, places in zip(self.symbols, self.places, strict=True)
            ),
            pools=tuple(pools),
            routes=tuple(routes),
            start_states=tuple(states[0] for states in self.states),
            sequences=tuple(self.sequences),
        )

    def _order_pools(self) -> list[Hashable]:
        """Return the pools, each after its predecessors and soon before its successors.

        The next pool is always one that leaves as few as possible with successors to come, and of these the one that
        became ready last.
        """
        keys = list(dict.fromkeys(sketch.key for sketches in self.sketches for sketch in sketches))
        before: dict[Hashable, list[Hashable]] = {key: [] for key in keys}
        for key, others in self.successors.items():
            for other in others:
                before[other].append(key)
        waits = {key: len(found) for key, found in before.items()}
        to_come = {key: len(self.successors.get(key, ())) for key in keys}
        ready = [key for key in reversed(keys) if not waits[key]]
        order: list[Hashable] = []

        def still_open(key: Hashable) -> int:
            return bool(to_come[key]) - sum(to_come[other] == 1 for other in before[key])

        while ready:
            at = min(range(len(ready)), key=lambda at: (still_open(ready[at]), -at))
            key = ready.pop(at)
            order.append(key)
            for other in before[key]:
                to_come[other] -= 1
            for other in self.successors.get(key, ()):
                waits[other] -= 1
                if not waits[other]:
                    ready.append(other)
        return order


def build_state_keys(sequence: RepeatedSequence) -> list[Hashable]:
    """Return the key of each position's state: what it takes and adds, in which repetition, and how many equal ones
    come before it.
    """
    likes: list[Hashable] = list(zip(sequence.symbols, sequence.adds, strict=True))
    for first, last in sequence.find_repeated_ranges():
        own = tuple(likes[first : last + 1])
        back = tuple((a - first, b - first, absent) for a, b, absent in sequence.back_edges if first <= b <= last)
        body = (own, sequence.gaps[first + 1 : last + 1], back)
        likes[first : last + 1] = [(body, offset) for offset in range(last + 1 - first)]
    seen = Counter[Hashable]()
    keys: list[Hashable] = []
    for like in likes:
        keys.append((like, seen[like]))
        seen[like] += 1
    return keys


def _sketch_pools(sequence: RepeatedSequence, keys: Sequence[int]) -> list[_PoolSketch]:
    """Return the pools of one query, in order."""
    repeated = dict(sequence.find_repeated_ranges())
    found: list[_PoolSketch] = []
    at = 0
    while True:
        if at in repeated:
            last = repeated[at]
            inner = [(p, p + 1) for p in range(at, last)]
            inner += [(a, b) for a, b, _ in sequence.back_edges if at <= b <= last]
            found.append(_PoolSketch(at, last, tuple(inner), (keys[at], keys[last])))
            at = last
        if at == len(sequence) - 1:
            return found
        found.append(_PoolSketch(at, at + 1, ((at, at + 1),), (keys[at], keys[at + 1], sequence.gaps[at + 1])))
        at += 1
