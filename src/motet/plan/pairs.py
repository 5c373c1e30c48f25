"""Sharing of any common part of patterns: totals between two nodes of an automaton, over one pane.

A pane acts on the totals of a window as one matrix: its entry for a pair of nodes is the total of all ways from one,
at the pane's beginning, to the other, at its end. What leads from one node of a sequence to another is a substring of
it, so equal substrings of whatever queries are one entry, computed once for all of them and for all windows that are
open. When the pane is over, each window's totals are multiplied by it.

This is chop-connect (A-Seq, section 4.2; Sharon, section III) with one snapshot at the edge of a pane in place of one
for each event that begins a shared part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from motet.plan.compiled import CompiledQuery
from motet.plan.machine import AttributeRows, Merged, Weights
from motet.plan.sharing import Colours
from motet.template.symbols import Symbol

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of nodes of some queries, equal ones merged, and how totals come from one to another.

    `steps` has columns of symbol, weights, source and target; `moves` of symbol, source and target (-1: nowhere);
    symbols and weights are told by number. `starts` hold one match when a pane begins: each node leads to itself.

    A window's totals are `rows` of them: for each, `joins` has the row and the pair whose products add up to it when
    a pane is over, rows in an order in which none is needed by a later one. `begin` is the row of the start of each
    query, `accept` has the rows at which its matches end.
    """

    size: int
    starts: Ints
    symbols: tuple[Symbol, ...]
    weights: tuple[Weights, ...]
    steps: Ints
    moves: Ints
    rows: int
    joins: tuple[tuple[tuple[int, int], ...], ...]
    begin: tuple[int, ...]
    accept: tuple[tuple[int, ...], ...]
    pane: int
    apart: int  # how many pairs there are before equal ones are merged


def can_run_by_pairs(compiled: CompiledQuery) -> bool:
    """Whether several windows are open at once, no event takes two steps (as in AND), and steps lead back only to where
    they began (as in a repetition of one event).
    """
    span = compiled.span
    plain = not compiled.adjacent and not span.ranked and 0 < span.slide < span.within
    return plain and max(compiled.automaton.freshness) <= 1 and _order(compiled) is not None


def merge_pairs(merged: Merged, colours: Colours) -> Pairs:
    """The pairs of the queries of one machine."""
    builder = _Builder(AttributeRows(merged.whole, merged.real), colours)
    for compiled in merged.queries:
        builder.add(compiled)
    spans = [compiled.span for compiled in merged.queries]
    return builder.build(math.gcd(*(length for span in spans for length in (span.within, span.slide))))


def _arcs(compiled: CompiledQuery) -> list[tuple[int, int]]:
    """From which settled node to which an event or an absence takes totals."""
    fold = compiled.automaton.fold
    arcs = [(step.source, fold[step.target]) for step in compiled.automaton.transitions]
    arcs += [(move.source, move.target) for move in compiled.automaton.moves if move.target >= 0]
    return [(source, target) for source, target in arcs if fold[source] == source]


def _order(compiled: CompiledQuery) -> list[int] | None:
    """The settled nodes, each after those that lead to it; None where some lead in a circle."""
    before: dict[int, set[int]] = {
        node: set() for node, settled in enumerate(compiled.automaton.fold) if node == settled
    }
    for source, target in _arcs(compiled):
        if source != target:
            before[target].add(source)
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        return None


@dataclass(slots=True)
class _Links:
    """What the totals of a node follow from: steps and moves into it, and symbols after which nothing of it is left."""

    steps: list[tuple[int, int, Hashable, int]] = field(default_factory=list)  # symbol, weights, colour, from which
    moves: list[tuple[int, int]] = field(default_factory=list)  # symbol, from which
    leaving: list[int] = field(default_factory=list)


class _Builder:
    """Collects pairs query by query. A pair is told by what comes into it: equal steps from equal pairs make equal
    totals.
    """

    def __init__(self, attributes: AttributeRows, colours: Colours) -> None:
        self.attributes = attributes
        self.colours = colours
        self.symbols: dict[Symbol, int] = {}
        self.weights: dict[Weights, int] = {}
        self.pairs: dict[Hashable, int] = {}
        self.roads: list[tuple[int, ...]] = []  # by pair: the symbols on a way to it, the last first
        self.starts: list[int] = []
        self.steps: list[tuple[int, int, int, int]] = []
        self.moves: list[tuple[int, int, int]] = []
        self.rows: dict[int, tuple[tuple[int, int], ...]] = {}  # by pair: another row and a pair
        self.apart = 0
        self.begin: list[int] = []
        self.accept: list[tuple[int, ...]] = []

    def add(self, compiled: CompiledQuery) -> None:
        order = _order(compiled)
        assert order is not None
        links = self._links(compiled, order)
        lanes = _lanes(compiled, order)
        found: dict[tuple[int, int], int] = {}
        for node in order:
            for lane in lanes[node]:
                found[lane, node] = self._pair(lane, node, links[node], found)
        self.apart += len(found)
        for node in order:
            joins = ((found[0, lane], found[lane, node]) for lane in lanes[node] if (0, lane) in found)
            self.rows.setdefault(found[0, node], tuple(joins))
        self.begin.append(found[0, 0])
        self.accept.append(tuple(found[0, end] for end in sorted(compiled.automaton.accepting)))

    def _pair(self, lane: int, node: int, links: _Links, found: Mapping[tuple[int, int], int]) -> int:
        """The number of a pair, new or known."""
        told = _told(lane, node, links, found)
        if told in self.pairs:
            return self.pairs[told]
        own = len(self.pairs)
        self.pairs[told] = own
        if lane == node:
            self.starts.append(own)
        road: tuple[int, ...] = ()
        for symbol, weights, _, source in links.steps:
            before = own if source == node else found.get((lane, source))
            if before is not None:
                self.steps.append((symbol, weights, before, own))
                if before != own:
                    road = max(road, (symbol, *self.roads[before]), key=len)
        for symbol, source in links.moves:
            if (lane, source) in found:
                self.moves.append((symbol, found[lane, source], own))
                road = max(road, self.roads[found[lane, source]], key=len)
        self.moves += [(symbol, own, -1) for symbol in links.leaving]
        self.roads.append(road)
        return own

    def _links(self, compiled: CompiledQuery, order: Sequence[int]) -> dict[int, _Links]:
        automaton = compiled.automaton
        links = {node: _Links() for node in order}
        for step in automaton.transitions:
            if automaton.fold[step.source] == step.source:
                symbol = self.symbols.setdefault(compiled.symbols[step.position], len(self.symbols))
                words = self.attributes.weights(compiled, step.position)
                weights = self.weights.setdefault(words, len(self.weights))
                colour = self.colours(compiled.number, step.position)
                links[automaton.fold[step.target]].steps.append((symbol, weights, colour, step.source))
        for move in automaton.moves:
            if automaton.fold[move.source] == move.source:
                symbol = self.symbols.setdefault(compiled.absences[move.absence], len(self.symbols))
                links[move.source].leaving.append(symbol)
                if move.target >= 0:
                    links[move.target].moves.append((symbol, move.source))
        return links

    def build(self, pane: int) -> Pairs:
        """Pairs numbered so that those that an event takes on together are neighbours: by the symbols on the way to
        them, from the last backward. Those that end in one symbol are then in the order of those they come from.
        """
        place = np.empty(len(self.roads), np.int64)
        place[sorted(range(len(self.roads)), key=self.roads.__getitem__)] = np.arange(len(self.roads))
        steps = np.array(self.steps, np.int64).reshape(-1, 4).T.copy()
        moves = np.array(self.moves, np.int64).reshape(-1, 3).T.copy()
        steps[2:] = place[steps[2:]]
        moves[1:] = np.where(moves[1:] >= 0, place[moves[1:]], -1)
        order = _rows_in_order(self.rows)
        number = {row: at for at, row in enumerate(order)}
        return Pairs(
            size=len(place),
            starts=np.sort(place[self.starts]),
            symbols=tuple(self.symbols),
            weights=tuple(self.weights),
            steps=steps,
            moves=moves,
            rows=len(order),
            joins=tuple(tuple((number[before], int(place[pair])) for before, pair in self.rows[row]) for row in order),
            begin=tuple(number[row] for row in self.begin),
            accept=tuple(tuple(number[row] for row in rows) for rows in self.accept),
            pane=pane,
            apart=self.apart,
        )


def _lanes(compiled: CompiledQuery, order: Sequence[int]) -> dict[int, list[int]]:
    """For each node those from which totals can come to it, itself included and last."""
    into: dict[int, set[int]] = {node: {node} for node in order}
    before: dict[int, list[int]] = {node: [] for node in order}
    for source, target in _arcs(compiled):
        before[target].append(source)
    for node in order:
        for source in before[node]:
            into[node] |= into[source]
    place = {node: at for at, node in enumerate(order)}
    return {node: sorted(lanes, key=place.__getitem__) for node, lanes in into.items()}


def _told(lane: int, node: int, links: _Links, found: Mapping[tuple[int, int], int]) -> Hashable:
    """What tells a pair's totals: where this is equal, they are."""
    steps: list[Hashable] = [
        (symbol, weights, colour, -1 if source == node else found[lane, source])
        for symbol, weights, colour, source in links.steps
        if source == node or (lane, source) in found
    ]
    moves = [(symbol, found[lane, source]) for symbol, source in links.moves if (lane, source) in found]
    leaving = frozenset(links.leaving)
    return lane == node, frozenset(Counter(steps).items()), frozenset(Counter(moves).items()), leaving


def _rows_in_order(rows: Mapping[int, tuple[tuple[int, int], ...]]) -> list[int]:
    """Rows so that each comes before those it is made of: then it can be written over."""
    needs = {row: {before for before, _ in joins if before != row} for row, joins in rows.items()}
    return list(reversed(list(TopologicalSorter(needs).static_order())))


def pairs_code(pairs: Pairs, classes: Sequence[frozenset[Symbol]], negs: Sequence[Symbol]) -> NDArray[np.int32]:
    """The code that each class of events runs: see `motet.kernels.pairs`."""
    numbers = {symbol: number for number, symbol in enumerate(pairs.symbols)}
    code: list[list[int]] = []
    for found in classes:
        own = [numbers[symbol] for symbol in found if symbol in numbers]
        runs = _runs(pairs, pairs.steps[:, np.isin(pairs.steps[0], own)])
        moves = _moves(pairs, set(own))
        belied = [at for at, neg in enumerate(negs) if neg in found]
        head = [int(not moves), len(runs), len(moves), len(belied)]
        code.append([*head, *(word for run in runs for word in run), *(w for m in moves for w in m), *belied])
    addresses = len(classes) + np.cumsum([0, *map(len, code)])[:-1]
    return np.array([*addresses.tolist(), *(word for block in code for word in block)], np.int32)


def _runs(pairs: Pairs, steps: Ints) -> list[tuple[int, ...]]:
    """Steps between neighbours as one: source, target, weights, and how many; each pair is read, by itself first,
    before it is changed.
    """
    if not steps.size:
        return []
    level = _levels(pairs.size, steps)
    _, weights, source, target = steps[:, np.lexsort((steps[3], steps[2], steps[2] != steps[3], level[steps[3]]))]
    follows = (np.diff(source) == 1) & (np.diff(target) == 1) & (np.diff(weights) == 0)
    begins = np.flatnonzero(np.concatenate(([True], ~follows)))
    lengths = np.diff(np.append(begins, steps.shape[1]))
    words = [(*counts, *extremes, *sums) for counts, sums, extremes in pairs.weights]
    return [
        (int(source[at]), int(target[at]), *words[weights[at]], length)
        for at, length in zip(begins.tolist(), lengths.tolist(), strict=True)
    ]


def _levels(size: int, steps: Ints) -> Ints:
    """For each pair one more than the greatest level of those it leads to by these steps."""
    onward = steps[2] != steps[3]
    source, target = steps[2, onward], steps[3, onward]
    level = np.zeros(size, np.int64)
    while True:
        before = level.copy()
        np.maximum.at(level, source, before[target] + 1)
        if (level == before).all():
            return level


def _moves(pairs: Pairs, symbols: set[int]) -> list[tuple[int, int]]:
    """Moves of a class, symbol by symbol; those that carry before those that only clear."""
    found = [move for move in pairs.moves.T.tolist() if move[0] in symbols]
    return [(source, target) for _, source, target in sorted(found, key=lambda move: (move[0], move[2] < 0))]
