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
from motet.plans.detect.partial_orders import items_of
from motet.plans.sequences import RepeatedSequence
from motet.template.symbols import Symbol


def split_queries(queries: int) -> list[int]:
    """Return each of a set of queries as a set of its own."""
    return [1 << number for number in items_of(queries)]


@dataclass(frozen=True, slots=True)
class State:
    """A symbol in the template; `places` are the numbers of queries and positions in them."""

    symbol: Symbol
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """A transition from the state `entry` to `exit`, or a repeated part that begins and ends with these.

    Snapshots can be made at `snapshot_states`. `starting` and `ending` are the queries of which this is the first or
    the last pool; `predecessors` are the pools before it in its queries. `interchangeable` are its queries, grouped by
    how they continue: the queries of a group continue in the same way.
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
    layers: dict[tuple[object, ...], list[_Layer]] = {}
    numbers: dict[Hashable, int] = {}
    for sequence in sequences:
        states = [numbers.setdefault(key, len(numbers)) for key in build_state_keys(sequence)]
        query = _Query(sequence, states, _sketch_pools(sequence, states))
        own = layers.setdefault(sequence.kind, [])
        if not any(layer.add(query) for layer in own):
            own.append(_Layer())
            own[-1].add(query)
    return [_build_template(part) for own in layers.values() for layer in own for part in layer.find_components()]


@dataclass(frozen=True, slots=True)
class _PoolSketch:
    """A pool as one query sees it: its positions, and the transitions between them."""

    first: int
    last: int
    transitions: tuple[tuple[int, int], ...]
    key: Hashable


@dataclass(frozen=True, slots=True)
class _Query:
    """A query with the keys of its states, position by position, and its pools."""

    sequence: RepeatedSequence
    states: list[int]
    pools: list[_PoolSketch]

    @property
    def route(self) -> list[Hashable]:
        return [pool.key for pool in self.pools]


@dataclass
class _Layer:
    """Queries whose pools can be put in an order."""

    queries: list[_Query] = field(default_factory=list)
    successors: dict[Hashable, dict[Hashable, None]] = field(default_factory=dict)

    def add(self, query: _Query) -> bool:
        """Add a query; return False if its pools and those here would form a cycle."""
        added: list[tuple[Hashable, Hashable]] = []
        for one, other in pairwise(query.route):
            if other in self.successors.setdefault(one, {}):
                continue
            if self._has_path(other, one):
                for source, target in added:
                    del self.successors[source][target]
                return False
            self.successors[one][other] = None
            added.append((one, other))
        self.queries.append(query)
        return True

    def _has_path(self, source: Hashable, target: Hashable) -> bool:
        seen, pending = {source}, [source]
        while pending and target not in seen:
            new = self.successors.get(pending.pop(), {}).keys() - seen
            seen |= new
            pending += new
        return target in seen

    def find_components(self) -> list[list[_Query]]:
        """Return the queries in sets that have no pool in common."""
        users: dict[Hashable, list[int]] = {}
        for at, query in enumerate(self.queries):
            for key in query.route:
                users.setdefault(key, []).append(at)
        found = find_components(
            range(len(self.queries)), lambda at: (other for key in self.queries[at].route for other in users[key])
        )
        return [[self.queries[at] for at in component] for component in found]


def _build_template(queries: Sequence[_Query]) -> Template:
    number_of: dict[int, int] = {}
    states: list[tuple[Symbol, list[tuple[int, int]]]] = []
    for query in queries:
        for position, state in enumerate(query.states):
            if number_of.setdefault(state, len(states)) == len(states):
                states.append((query.sequence.symbols[position], []))
            states[number_of[state]][1].append((query.sequence.number, position))
    order = {key: number for number, key in enumerate(_order_pools([query.route for query in queries]))}
    routes = [tuple(order[key] for key in query.route) for query in queries]
    users_of: list[list[int]] = [[] for _ in order]
    for at, route in enumerate(routes):
        for number in route:
            users_of[number].append(at)
    pools = []
    for (key, number), users in zip(order.items(), users_of, strict=True):
        futures: dict[tuple[int, ...], int] = {}
        for at in users:
            future = routes[at][routes[at].index(number) + 1 :]
            futures[future] = futures.get(future, 0) | 1 << at
        query = queries[users[0]]
        sketch = next(pool for pool in query.pools if pool.key == key)
        numbers = [number_of[state] for state in query.states]
        repeated = sketch.transitions != ((sketch.first, sketch.last),) or sketch.first == sketch.last
        inside = range(sketch.first, sketch.last + 1) if repeated else (sketch.first,)
        pools.append(
            Pool(
                number=number,
                transitions=tuple((numbers[a], numbers[b]) for a, b in sketch.transitions),
                entry=numbers[sketch.first],
                exit=numbers[sketch.last],
                snapshot_states=tuple(numbers[position] for position in inside),
                queries=sum(1 << at for at in users),
                starting=sum(1 << at for at in users if routes[at][0] == number),
                ending=sum(1 << at for at in users if routes[at][-1] == number),
                predecessors=tuple(sorted({one for at in users for one, to in pairwise(routes[at]) if to == number})),
                interchangeable=tuple(futures.values()),
            )
        )
    return Template(
        queries=tuple(query.sequence.number for query in queries),
        states=tuple(State(symbol, tuple(places)) for symbol, places in states),
        pools=tuple(pools),
        routes=tuple(routes),
        start_states=tuple(number_of[query.states[0]] for query in queries),
        sequences=tuple(query.sequence for query in queries),
    )


def _order_pools(routes: Sequence[Sequence[Hashable]]) -> list[Hashable]:
    """Return the pools of some routes, each after its predecessors and soon before its successors.

    The next pool is always one that leaves as few as possible with successors to come, and of these the one that
    became ready last.
    """
    after: dict[Hashable, dict[Hashable, None]] = {key: {} for route in routes for key in route}
    before: dict[Hashable, dict[Hashable, None]] = {key: {} for key in after}
    for route in routes:
        for one, other in pairwise(route):
            after[one][other] = before[other][one] = None
    waits = {key: len(found) for key, found in before.items()}
    to_come = {key: len(found) for key, found in after.items()}
    ready = [key for key in reversed(list(after)) if not waits[key]]
    order: list[Hashable] = []

    def count_open(key: Hashable) -> int:
        return bool(to_come[key]) - sum(to_come[other] == 1 for other in before[key])

    while ready:
        at = min(range(len(ready)), key=lambda at: (count_open(ready[at]), -at))
        key = ready.pop(at)
        order.append(key)
        for other in before[key]:
            to_come[other] -= 1
        for other in after[key]:
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    return order


def build_state_keys(sequence: RepeatedSequence) -> list[Hashable]:
    """Return the key of each state: what it takes and adds, in which repetition, and how many equal ones precede it."""
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
