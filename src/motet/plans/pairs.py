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

from motet.kernels.ragged import offsets_of
from motet.plans.compiled import CompiledQuery
from motet.plans.machine import AttributeRows, MergedAutomaton, Weights
from motet.plans.sharing import ShareKey
from motet.template.symbols import Symbol

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of nodes of some queries, equal ones merged, and how totals come from one to another.

    `steps` has columns of symbol, weights, source and target; `moves` of symbol, source and target (-1: nowhere);
    symbols and weights are given by number. `starts` hold one match when a pane begins: each node leads to itself.

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
    unmerged_size: int  # how many pairs there are before equal ones are merged
    members: tuple[Ints, ...]  # by query: its pairs
    row_members: tuple[Ints, ...]  # by query: its rows


def can_run_by_pairs(compiled: CompiledQuery) -> bool:
    """Return whether pairs can run a query.

    They can where several windows are open at once, no event takes two steps (as in AND), and steps lead back only to
    where they began (as in a repetition of one event).
    """
    span = compiled.span
    plain = not compiled.adjacent and not span.ranked and 0 < span.slide < span.within
    return plain and max(compiled.automaton.freshness) <= 1 and _topological_order(compiled) is not None


def merge_pairs(merged: MergedAutomaton, share_key: ShareKey) -> Pairs:
    """Merge the pairs of the queries of one machine."""
    builder = _PairsBuilder(AttributeRows(merged.whole, merged.real), share_key)
    for compiled in merged.queries:
        builder.add(compiled)
    spans = [compiled.span for compiled in merged.queries]
    return builder.build(math.gcd(*(length for span in spans for length in (span.within, span.slide))))


def _list_arcs(compiled: CompiledQuery) -> list[tuple[int, int]]:
    """List the settled nodes between which an event or an absence takes totals, as (source, target)."""
    fold = compiled.automaton.fold
    arcs = [(step.source, fold[step.target]) for step in compiled.automaton.transitions]
    arcs += [(move.source, move.target) for move in compiled.automaton.moves if move.target >= 0]
    return [(source, target) for source, target in arcs if fold[source] == source]


def _topological_order(compiled: CompiledQuery) -> list[int] | None:
    """Return the settled nodes, each after those that lead to it; None where some lead in a circle."""
    before: dict[int, set[int]] = {node: set() for node in compiled.automaton.settled}
    for source, target in _list_arcs(compiled):
        if source != target:
            before[target].add(source)
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        return None


@dataclass(slots=True)
class _Links:
    """What the totals of a node follow from: steps and moves into it, and symbols after which nothing of it is left."""

    steps: list[tuple[int, int, Hashable, int]] = field(default_factory=list)  # symbol, weights, share key, from which
    moves: list[tuple[int, int]] = field(default_factory=list)  # symbol, from which
    leaving: list[int] = field(default_factory=list)


class _PairsBuilder:
    """Pairs collected query by query.

    A pair is identified by what comes into it: equal steps from equal pairs make equal totals.
    """

    def __init__(self, attributes: AttributeRows, share_key: ShareKey) -> None:
        self.attributes = attributes
        self.share_key = share_key
        self.symbols: dict[Symbol, int] = {}
        self.weights: dict[Weights, int] = {}
        self.pairs: dict[Hashable, int] = {}
        self.paths: list[tuple[int, ...]] = []  # by pair: the symbols on a way to it, the last first
        self.starts: list[int] = []
        self.steps: list[tuple[int, int, int, int]] = []
        self.moves: list[tuple[int, int, int]] = []
        self.rows: dict[int, tuple[tuple[int, int], ...]] = {}  # by pair: another row and a pair
        self.unmerged_size = 0
        self.begin: list[int] = []
        self.accept: list[tuple[int, ...]] = []
        self.members: list[set[int]] = []
        self.row_members: list[set[int]] = []

    def add(self, compiled: CompiledQuery) -> None:
        order = _topological_order(compiled)
        assert order is not None
        links = self._collect_links(compiled, order)
        origins = _find_origins(compiled, order)
        found: dict[tuple[int, int], int] = {}
        for node in order:
            for origin in origins[node]:
                found[origin, node] = self._add_pair(origin, node, links[node], found)
        self.unmerged_size += len(found)
        for node in order:
            joins = ((found[0, origin], found[origin, node]) for origin in origins[node] if (0, origin) in found)
            self.rows.setdefault(found[0, node], tuple(joins))
        self.members.append(set(found.values()))
        self.row_members.append({found[0, node] for node in order})
        self.begin.append(found[0, 0])
        self.accept.append(tuple(found[0, end] for end in sorted(compiled.automaton.accepting)))

    def _add_pair(self, origin: int, node: int, links: _Links, found: Mapping[tuple[int, int], int]) -> int:
        """Add a pair unless it is known, and return its number."""
        key = _pair_key(origin, node, links, found)
        if key in self.pairs:
            return self.pairs[key]
        own = len(self.pairs)
        self.pairs[key] = own
        if origin == node:
            self.starts.append(own)
        path: tuple[int, ...] = ()
        for symbol, weights, _, source in links.steps:
            before = own if source == node else found.get((origin, source))
            if before is not None:
                self.steps.append((symbol, weights, before, own))
                if before != own:
                    path = max(path, (symbol, *self.paths[before]), key=len)
        for symbol, source in links.moves:
            if (origin, source) in found:
                self.moves.append((symbol, found[origin, source], own))
                path = max(path, self.paths[found[origin, source]], key=len)
        self.moves += [(symbol, own, -1) for symbol in links.leaving]
        self.paths.append(path)
        return own

    def _collect_links(self, compiled: CompiledQuery, order: Sequence[int]) -> dict[int, _Links]:
        automaton = compiled.automaton
        links = {node: _Links() for node in order}
        for step in automaton.transitions:
            if automaton.fold[step.source] == step.source:
                symbol = self.symbols.setdefault(compiled.symbols[step.position], len(self.symbols))
                words = self.attributes.weights(compiled, step.position)
                weights = self.weights.setdefault(words, len(self.weights))
                step_key = self.share_key(compiled.number, step.position)
                links[automaton.fold[step.target]].steps.append((symbol, weights, step_key, step.source))
        for move in automaton.moves:
            if automaton.fold[move.source] == move.source:
                symbol = self.symbols.setdefault(compiled.absences[move.absence], len(self.symbols))
                links[move.source].leaving.append(symbol)
                if move.target >= 0:
                    links[move.target].moves.append((symbol, move.source))
        return links

    def build(self, pane: int) -> Pairs:
        """Number the pairs so that those that one event updates are neighbours: by the symbols on the way to them, from
        the last backward. Those that end in one symbol are then in the order of those they come from.
        """
        place = np.empty(len(self.paths), np.int64)
        place[sorted(range(len(self.paths)), key=self.paths.__getitem__)] = np.arange(len(self.paths))
        steps = np.array(self.steps, np.int64).reshape(-1, 4).T.copy()
        moves = np.array(self.moves, np.int64).reshape(-1, 3).T.copy()
        steps[2:] = place[steps[2:]]
        moves[1:] = np.where(moves[1:] >= 0, place[moves[1:]], -1)
        order = _order_rows(self.rows)
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
            unmerged_size=self.unmerged_size,
            members=tuple(np.sort(place[list(own)]) for own in self.members),
            row_members=tuple(np.sort(np.array([number[row] for row in own])) for own in self.row_members),
        )


def _find_origins(compiled: CompiledQuery, order: Sequence[int]) -> dict[int, list[int]]:
    """Find for each node those from which totals can come to it, itself included and last."""
    into: dict[int, set[int]] = {node: {node} for node in order}
    before: dict[int, list[int]] = {node: [] for node in order}
    for source, target in _list_arcs(compiled):
        before[target].append(source)
    for node in order:
        for source in before[node]:
            into[node] |= into[source]
    place = {node: at for at, node in enumerate(order)}
    return {node: sorted(origins, key=place.__getitem__) for node, origins in into.items()}


def _pair_key(origin: int, node: int, links: _Links, found: Mapping[tuple[int, int], int]) -> Hashable:
    """Return what a pair's totals depend on: pairs with equal keys have equal totals."""
    steps: list[Hashable] = [
        (symbol, weights, step_key, -1 if source == node else found[origin, source])
        for symbol, weights, step_key, source in links.steps
        if source == node or (origin, source) in found
    ]
    moves = [(symbol, found[origin, source]) for symbol, source in links.moves if (origin, source) in found]
    leaving = frozenset(links.leaving)
    return origin == node, frozenset(Counter(steps).items()), frozenset(Counter(moves).items()), leaving


def _order_rows(rows: Mapping[int, tuple[tuple[int, int], ...]]) -> list[int]:
    """Order rows so that each comes before those it is made of: then it can be written over."""
    needs = {row: {before for before, _ in joins if before != row} for row, joins in rows.items()}
    return list(reversed(list(TopologicalSorter(needs).static_order())))


def encode_pairs(pairs: Pairs, classes: Sequence[frozenset[Symbol]], negs: Sequence[Symbol]) -> NDArray[np.int32]:
    """Encode what each class of events runs: see `motet.kernels.pairs`."""
    numbers = {symbol: number for number, symbol in enumerate(pairs.symbols)}
    code: list[list[int]] = []
    for found in classes:
        own = [numbers[symbol] for symbol in found if symbol in numbers]
        runs = _group_steps(pairs, pairs.steps[:, np.isin(pairs.steps[0], own)])
        moves = _select_moves(pairs, set(own))
        negated = [at for at, neg in enumerate(negs) if neg in found]
        head = [int(not moves), len(runs), len(moves), len(negated)]
        code.append([*head, *(word for run in runs for word in run), *(w for m in moves for w in m), *negated])
    addresses = len(classes) + offsets_of(code)[:-1]
    return np.array([*addresses.tolist(), *(word for block in code for word in block)], np.int32)


def _group_steps(pairs: Pairs, steps: Ints) -> list[tuple[int, ...]]:
    """Group steps between neighbours: source, target, weights, and how many; each pair is read, by itself first,
    before it is changed.
    """
    if not steps.size:
        return []
    level = _compute_levels(pairs.size, steps)
    _, weights, source, target = steps[:, np.lexsort((steps[3], steps[2], steps[2] != steps[3], level[steps[3]]))]
    follows = (np.diff(source) == 1) & (np.diff(target) == 1) & (np.diff(weights) == 0)
    begins = np.flatnonzero(np.concatenate(([True], ~follows)))
    lengths = np.diff(np.append(begins, steps.shape[1]))
    words = [(*counts, *extremes, *sums) for counts, sums, extremes in pairs.weights]
    return [
        (int(source[at]), int(target[at]), *words[weights[at]], length)
        for at, length in zip(begins.tolist(), lengths.tolist(), strict=True)
    ]


def _compute_levels(size: int, steps: Ints) -> Ints:
    """Compute for each pair one more than the greatest level of those it leads to by these steps."""
    onward = steps[2] != steps[3]
    source, target = steps[2, onward], steps[3, onward]
    level = np.zeros(size, np.int64)
    while True:
        before = level.copy()
        np.maximum.at(level, source, before[target] + 1)
        if (level == before).all():
            return level


def _select_moves(pairs: Pairs, symbols: set[int]) -> list[tuple[int, int]]:
    """Select the moves of a class, symbol by symbol; those that carry before those that only clear."""
    found = [move for move in pairs.moves.T.tolist() if move[0] in symbols]
    return [(source, target) for _, source, target in sorted(found, key=lambda move: (move[0], move[2] < 0))]
