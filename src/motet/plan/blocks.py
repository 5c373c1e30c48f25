"""Sharing of any common part of patterns: totals between two nodes of an automaton, over a block of time.

Time is cut into blocks as long as a window, so a window is the end of one block and the beginning of the next. The
matches of a window are those that reach some node by the end of the first block, times those that go on from there in
the second. Going forward through a block, keep for each pair of nodes the totals from one, at the block's beginning,
to the other, now; going backward, those from one, now, to the other, at the block's end. What lies between two nodes
of a sequence is a substring of it, and equal substrings of whatever queries are one pair: no snapshot has to be taken
for each event that begins a shared part, as chop-connect does (A-Seq, section 4.2), but only one at the edge of a
block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from motet.plan.compiled import CompiledQuery
from motet.plan.machine import AttributeRows, Merged, Weights
from motet.template.symbols import Symbol

Ints = NDArray[np.int64]

# Says for a query and a position what may be shared there: equal steps are one only where this is equal too.
Colours = Callable[[int, int], Hashable]


@dataclass(frozen=True, slots=True)
class Step:
    """An event of `symbol` at a position of some colour takes totals from `source` to `target`, both settled."""

    symbol: Symbol
    weights: Weights
    colour: Hashable
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Move:
    """After an event of `symbol`, what was at `source` is at `target`, or nowhere (-1)."""

    symbol: Symbol
    source: int
    target: int


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of one direction, equal ones merged. Steps and moves are columns; weights and symbols are told by
    number.

    `level` orders the steps of one event so that each node is read before it is changed; None where no order does.
    """

    size: int
    starts: Ints
    symbols: tuple[Symbol, ...]
    weights: tuple[Weights, ...]
    steps: Ints  # symbol, weights, source, target
    moves: Ints  # symbol, source, target

    @cached_property
    def level(self) -> Ints | None:
        """For each node one more than the greatest of those it leads to."""
        graph: dict[int, set[int]] = {}
        for source, target in zip(self.steps[2].tolist(), self.steps[3].tolist(), strict=True):
            if source != target:
                graph.setdefault(source, set()).add(target)
        levels = np.zeros(self.size, np.int64)
        try:
            for node in TopologicalSorter(graph).static_order():
                levels[node] = 1 + max((levels[after] for after in graph.get(node, ())), default=-1)
        except CycleError:
            return None
        return levels


@dataclass(frozen=True, eq=False)
class Blocks:
    """What a unit needs to run block by block.

    `rows` are the backward pairs that begin at a start: what each window keeps of its first block. `joins` says, for
    each query, which row times which forward pair makes its result.
    """

    forward: Pairs
    backward: Pairs
    rows: Ints
    joins: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def steps(self) -> int:
        """Steps of all symbols, in both directions."""
        return int(self.forward.steps.shape[1] + self.backward.steps.shape[1])


def can_run_by_blocks(compiled: CompiledQuery) -> bool:
    """Whether a query's windows slide by less than their length and no event takes two steps at a time (as in AND)."""
    span = compiled.span
    return (
        not compiled.adjacent
        and not span.ranked
        and 0 < span.slide < span.within
        and max(compiled.automaton.freshness) <= 1
    )


def merge_pairs(merged: Merged, colours: Colours) -> Blocks:
    """The pairs of the queries of one machine."""
    attributes = AttributeRows(merged.whole, merged.real)
    graphs = [_graph(compiled, attributes, colours) for compiled in merged.queries]
    forward, ahead = _merge(graphs, backward=False)
    backward, behind = _merge(graphs, backward=True)
    rows: dict[int, int] = {}
    joins = []
    for number, compiled in enumerate(merged.queries):
        own = []
        for node in sorted(graphs[number].nodes):
            row = behind.get((number, node, 0))
            for end in sorted(compiled.automaton.accepting):
                pair = ahead.get((number, node, end))
                if row is not None and pair is not None:
                    own.append((rows.setdefault(row, len(rows)), pair))
        joins.append(tuple(own))
    return Blocks(forward, backward, np.array(list(rows), np.int64), tuple(joins))


@dataclass(frozen=True, slots=True)
class _Graph:
    """The settled nodes of one query's automaton, in an order that steps and moves follow where there is one."""

    nodes: tuple[int, ...]
    steps: tuple[Step, ...]
    moves: tuple[Move, ...]
    cyclic: bool


def _graph(compiled: CompiledQuery, rows: AttributeRows, colours: Colours) -> _Graph:
    automaton = compiled.automaton
    fold = automaton.fold
    steps = tuple(
        Step(
            compiled.symbols[step.position],
            rows.weights(compiled, step.position),
            colours(compiled.number, step.position),
            step.source,
            fold[step.target],
        )
        for step in automaton.transitions
        if fold[step.source] == step.source
    )
    moves = tuple(
        Move(compiled.absences[move.absence], move.source, move.target)
        for move in automaton.moves
        if fold[move.source] == move.source
    )
    before: dict[int, set[int]] = {node: set() for node in range(automaton.size) if fold[node] == node}
    for source, target in _arcs(steps, moves):
        if target != source:
            before[target].add(source)
    try:
        return _Graph(tuple(TopologicalSorter(before).static_order()), steps, moves, cyclic=False)
    except CycleError:
        return _Graph(tuple(before), steps, moves, cyclic=True)


def _arcs(steps: Iterable[Step], moves: Iterable[Move]) -> list[tuple[int, int]]:
    arcs = [(step.source, step.target) for step in steps]
    return arcs + [(move.source, move.target) for move in moves if move.target >= 0]


_Pair = tuple[int, int, int]  # number of the query, lane, node


def _merge(graphs: Sequence[_Graph], backward: bool) -> tuple[Pairs, dict[_Pair, int]]:
    """All pairs of all queries, equal ones numbered alike.

    Going forward, the totals of a pair follow from the steps and moves that come into its node; going backward, from
    those that leave it. So pairs are equal where these are, taken from the edge of the block on.
    """
    numbers: dict[Hashable, int] = {}
    symbols: dict[Symbol, int] = {}
    weights: dict[Weights, int] = {}
    found: dict[_Pair, int] = {}
    steps: dict[tuple[int, int, int, int, int], None] = {}
    moves: dict[tuple[int, int, int, int], None] = {}
    starts: dict[int, None] = {}
    for number, graph in enumerate(graphs):
        links = _links(graph, symbols, weights, backward)
        lanes = _lanes(graph, backward)
        for node in reversed(graph.nodes) if backward else graph.nodes:
            for lane in lanes[node]:
                pair = (number, lane, node)
                signature = _signature(pair, links[node], found, graph.cyclic)
                found[pair] = numbers.setdefault(signature, len(numbers))
        for node in graph.nodes:
            for lane in lanes[node]:
                own = found[number, lane, node]
                if lane == node:
                    starts[own] = None
                _collect(own, (number, lane), links[node], found, steps, moves, backward)
    return Pairs(
        size=len(numbers),
        starts=np.array(sorted(starts), np.int64),
        symbols=tuple(symbols),
        weights=tuple(weights),
        steps=np.array([step[:4] for step in steps], np.int64).reshape(-1, 4).T.copy(),
        moves=np.array([move[:3] for move in moves], np.int64).reshape(-1, 3).T.copy(),
    ), found


@dataclass(slots=True)
class _Links:
    """What a node's totals follow from, for any lane: steps from other nodes, and moves."""

    steps: list[tuple[int, int, Hashable, int]]  # symbol, weights, colour, from which node
    moves: list[tuple[int, int]]  # symbol, from which node
    leaving: list[int]  # symbols after which nothing of it is left


def _links(graph: _Graph, symbols: dict[Symbol, int], weights: dict[Weights, int], backward: bool) -> dict[int, _Links]:
    links = {node: _Links([], [], []) for node in graph.nodes}
    for step in graph.steps:
        source, target = (step.target, step.source) if backward else (step.source, step.target)
        symbol = symbols.setdefault(step.symbol, len(symbols))
        weight = weights.setdefault(step.weights, len(weights))
        links[target].steps.append((symbol, weight, step.colour, source))
    for move in graph.moves:
        symbol = symbols.setdefault(move.symbol, len(symbols))
        links[move.source].leaving.append(symbol)
        if move.target >= 0:
            source, target = (move.target, move.source) if backward else (move.source, move.target)
            links[target].moves.append((symbol, source))
    return links


def _lanes(graph: _Graph, backward: bool) -> dict[int, list[int]]:
    """For each node the nodes at the edge of the block from which totals can come to it."""
    into: dict[int, set[int]] = {node: {node} for node in graph.nodes}
    arcs = [(target, source) if backward else (source, target) for source, target in _arcs(graph.steps, graph.moves)]
    changed = True
    while changed:
        changed = False
        for source, target in arcs:
            if not into[source] <= into[target]:
                into[target] |= into[source]
                changed = True
    order = {node: place for place, node in enumerate(graph.nodes)}
    return {node: sorted(lanes, key=order.__getitem__) for node, lanes in into.items()}


def _signature(pair: _Pair, links: _Links, found: Mapping[_Pair, int], cyclic: bool) -> Hashable:
    """What tells a pair's totals: equal signatures, equal totals."""
    number, lane, node = pair
    if cyclic:  # its steps lead in a circle, so there is no beginning from which to compare
        return pair
    steps: list[Hashable] = [
        (symbol, weight, colour, -1 if source == node else found[number, lane, source])
        for symbol, weight, colour, source in links.steps
        if (number, lane, source) in found or source == node
    ]
    moves = [(symbol, found[number, lane, source]) for symbol, source in links.moves if (number, lane, source) in found]
    return (
        lane == node,
        frozenset(Counter(steps).items()),
        frozenset(Counter(moves).items()),
        frozenset(links.leaving),
    )


def _collect(
    own: int,
    lane: tuple[int, int],
    links: _Links,
    found: Mapping[_Pair, int],
    steps: dict[tuple[int, int, int, int, int], None],
    moves: dict[tuple[int, int, int, int], None],
    backward: bool,
) -> None:
    """Note what comes into a pair, once for all that are equal to it."""
    # Two equal steps of one pair are two, those of equal pairs are one.
    seen: Counter[tuple[int, ...]] = Counter()
    for symbol, weight, _, source in links.steps:
        pair = found.get((*lane, source))
        if pair is not None:
            steps[symbol, weight, pair, own, seen[symbol, weight, pair]] = None
            seen[symbol, weight, pair] += 1
    replaced = set()
    for symbol, source in links.moves:
        pair = found.get((*lane, source))
        if pair is not None:
            ends = (own, pair) if backward else (pair, own)
            moves[(symbol, *ends, seen[symbol, pair])] = None
            seen[symbol, pair] += 1
            if backward:  # what it held is replaced, not added to
                replaced.add(symbol)
    for symbol in links.leaving:
        if symbol not in replaced:
            moves[symbol, own, -1, 0] = None


def block_code(pairs: Pairs, classes: Sequence[frozenset[Symbol]], negs: Sequence[Symbol]) -> NDArray[np.int32]:
    """The code that each class of events runs: see `motet.kernels.blocks`."""
    level = pairs.level
    symbol, weights, source, target = pairs.steps
    place = np.zeros(pairs.size, np.int64) if level is None else level
    order = np.lexsort((target, source, weights, source != target, place[target]))
    by_class: list[list[int]] = []
    numbers = {found: number for number, found in enumerate(pairs.symbols)}
    for found in classes:
        own = np.isin(symbol[order], [numbers[s] for s in found if s in numbers])
        runs = _runs(pairs, order[own])
        moves = _moves(pairs, {numbers[s] for s in found if s in numbers})
        belied = [at for at, neg in enumerate(negs) if neg in found]
        direct = level is not None and not moves
        head = [int(direct), len(runs), len(moves), len(belied)]
        by_class.append([*head, *(word for run in runs for word in run), *(w for m in moves for w in m), *belied])
    addresses = len(classes) + np.concatenate(([0], np.cumsum([len(code) for code in by_class])))[:-1]
    return np.array([*addresses.tolist(), *(word for code in by_class for word in code)], np.int32)


def _runs(pairs: Pairs, steps: Ints) -> list[tuple[int, ...]]:
    """Steps between consecutive pairs as one: source, target, weights, and how many."""
    if not len(steps):
        return []
    _, weights, source, target = pairs.steps[:, steps]
    follows = (np.diff(source) == 1) & (np.diff(target) == 1) & (np.diff(weights) == 0)
    begins = np.flatnonzero(np.concatenate(([True], ~follows)))
    lengths = np.diff(np.append(begins, len(steps)))
    words = [(*counts, *extremes, *sums) for counts, sums, extremes in pairs.weights]
    return [
        (int(source[at]), int(target[at]), *words[weights[at]], length)
        for at, length in zip(begins.tolist(), lengths.tolist(), strict=True)
    ]


def _moves(pairs: Pairs, symbols: set[int]) -> list[tuple[int, int]]:
    """Moves of a class, symbol by symbol; those that carry before those that only clear."""
    found = [move for move in pairs.moves.T.tolist() if move[0] in symbols]
    return [(source, target) for _, source, target in sorted(found, key=lambda move: (move[0], move[2] < 0))]
