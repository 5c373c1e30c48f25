"""Sharing of any common part of patterns: totals between two nodes of an automaton, over one pane.

A pane acts on the totals of a window as one matrix: its entry for a pair of nodes is the total of all ways from one,
at the pane's beginning, to the other, at its end. What leads from one node of a sequence to another is a substring of
it, so equal substrings of whatever queries are one entry, computed once for all of them and for all windows that are
open. When the pane is over, each window's totals are multiplied by it.

This is chop-connect (A-Seq, section 4.2; Sharon, section III) with one snapshot at the edge of a pane in place of one
for each event that begins a shared part. Loops lead from a node back to it by way of others: a pair of such a node with
itself counts the rounds within the pane.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motet.kernels.ragged import flatten_lists, offsets_from_counts, offsets_of, row_numbers, take_rows
from motet.plans.compiled import CompiledQuery
from motet.plans.machine import AttributeRows, MergedAutomaton, Weights
from motet.plans.partition import ArcGraph, find_equal_nodes, find_first_nodes, invert_order
from motet.plans.sharing import ShareKey
from motet.template.symbols import Symbol

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of nodes of some queries, equal ones merged, and how totals come from one to another.

    `steps` has columns of symbol, weights, source and target; `moves` of symbol, source and target (-1: nowhere);
    symbols and weights are given by number. `starts` hold one match when a pane begins: each node leads to itself.

    A window's totals are `rows` of them, one for each node of the queries, equal ones merged. For each, `joins` has the
    row and the pair whose products add up to it when a pane is over; where `keeps` is set, they are added to what it
    held before. Rows are in an order in which none is needed by a later one, but for those that lead to each other in a
    circle: `circles` are offsets of rows that change together. `begin` is the row of the start of each query, `accept`
    has the rows at which its matches end.

    What a query needs is its `members` among the pairs, and its `row_members`. A step belongs to its target and a join
    to its row, so some of the queries need the union of their members, and no more.

    Pair p can hold a match only after events of the symbols `path_symbols[path_offsets[p] : path_offsets[p + 1]]`, a
    shortest way to it, have come in this order in one pane.
    """

    size: int
    starts: Ints
    symbols: tuple[Symbol, ...]
    weights: tuple[Weights, ...]
    steps: Ints
    moves: Ints
    rows: int
    joins: tuple[tuple[tuple[int, int], ...], ...]
    keeps: NDArray[np.bool_]
    circles: Ints
    begin: tuple[int, ...]
    accept: tuple[tuple[int, ...], ...]
    pane: int
    unmerged_size: int  # how many pairs there are before equal ones are merged
    members: tuple[Ints, ...]
    row_members: tuple[Ints, ...]
    path_offsets: Ints
    path_symbols: Ints


def can_run_by_pairs(compiled: CompiledQuery) -> bool:
    """Return whether pairs can run a query."""
    return find_obstacle_to_pairs(compiled) is None


def find_obstacle_to_pairs(compiled: CompiledQuery) -> str | None:
    """Return why pairs cannot run a query; None where they can."""
    span = compiled.span
    if compiled.adjacent:
        return "its conditions compare neighbouring events"
    if span.ranked:
        return "its window counts events"
    if span.is_continuous:
        return "it reports at every completion"
    if span.slide >= span.within:
        return "it has one window open at a time, in which only equal beginnings can be shared"
    if max(compiled.automaton.freshness) > 1:
        # A pair would have to tell what was bound at the current time from what was bound before.
        return "one event may take two steps of its pattern, as in AND"
    return None


class _Actions(NamedTuple):
    """What arcs do: the symbol of each action, and its weights, or -1 where it is a move."""

    symbol: Ints
    weights: Ints


def merge_pairs(merged: MergedAutomaton, share_key: ShareKey) -> Pairs:
    """Merge the pairs of the queries of one machine.

    Nodes that always hold equal totals are merged into rows first, then the pairs of rows that do. O(pairs log pairs)
    for each round of refinement: one for sequences, more where absences or loops tell pairs apart.
    """
    reader = _AutomatonReader(AttributeRows(merged.whole, merged.real), share_key)
    for compiled in merged.queries:
        reader.add(compiled)
    graph, leaving, actions = reader.build_graph()
    row = find_equal_nodes(graph)
    row_graph, first = _build_quotient(graph, row)
    row_leaving = leaving[first]
    origin, node, word, words = _find_ways(row_graph)
    pair_graph = _build_pair_graph(row_graph, row_leaving, origin, node, word)
    pair = find_equal_nodes(pair_graph)
    arcs, shown = _build_quotient(pair_graph, pair)

    # Pairs that one event updates are neighbours: by the actions on the way to them, from the last backward. Those
    # that end in one action are in the order of those that they come from.
    order = np.lexsort((shown, _rank_words(words)[word[shown]]))
    place, shown = invert_order(order), shown[order]
    pair = place[pair]
    symbol, weights = actions.symbol[arcs.action], actions.weights[arcs.action]
    source, target = place[arcs.source], place[arcs.target]
    is_step = weights >= 0
    moves = np.concatenate(
        (np.stack((symbol, source, target))[:, ~is_step], reader.list_clearings(row_leaving[node[shown]])), 1
    )

    # A node that nothing leads back to, and that nothing takes away, holds what it held before.
    is_constant = np.ones(len(place), np.bool_)
    is_constant[target] = False
    is_constant[moves[1]] = False
    row_order, circles = _order_rows(row_graph.size, origin, node)
    row_place = invert_order(row_order)
    row, origin, node = row_place[row], row_place[origin], row_place[node]
    is_loop = origin == node
    keeps = np.zeros(row_graph.size, np.bool_)
    keeps[node[is_loop]] = is_constant[pair[is_loop]]
    is_joined = ~(is_loop & keeps[node])

    by_node = np.argsort(node, kind="stable")
    node_offsets = np.searchsorted(node[by_node], np.arange(row_graph.size + 1))
    row_members = [np.unique(row[begin:end]) for begin, end in reader.list_ranges()]
    own_pairs = [pair[by_node[take_rows(node_offsets, rows)[1]]] for rows in row_members]
    path_offsets, path_symbols = _spell_words(words, actions.symbol, word[shown])
    spans = [compiled.span for compiled in merged.queries]
    return Pairs(
        size=len(place),
        starts=np.unique(pair[is_loop]),
        symbols=tuple(reader.symbols),
        weights=tuple(reader.weights),
        steps=np.stack((symbol, weights, source, target))[:, is_step],
        moves=moves,
        rows=row_graph.size,
        joins=_list_joins(row_graph.size, node[is_joined], origin[is_joined], pair[is_joined]),
        keeps=keeps,
        circles=circles,
        begin=tuple(int(row[start]) for start in reader.starts),
        accept=tuple(tuple(int(row[end]) for end in ends) for ends in reader.accept),
        pane=math.gcd(*(length for span in spans for length in (span.within, span.slide))),
        unmerged_size=sum(map(len, own_pairs)),
        members=tuple(map(np.unique, own_pairs)),
        row_members=tuple(row_members),
        path_offsets=path_offsets,
        path_symbols=path_symbols,
    )


class _AutomatonReader:
    """The settled nodes of the automata of some queries, numbered through, and the arcs between them."""

    def __init__(self, attributes: AttributeRows, share_key: ShareKey) -> None:
        self.attributes = attributes
        self.share_key = share_key
        self.symbols: dict[Symbol, int] = {}
        self.weights: dict[Weights, int] = {}
        self.actions: dict[tuple[int, int, Hashable], int] = {}
        self.leaving: dict[frozenset[int], int] = {frozenset(): 0}  # symbols after which nothing of a node is left
        self.labels: list[int] = []  # by node: which of these
        self.arcs: list[tuple[int, int, int]] = []  # action, source, target
        self.starts: list[int] = []
        self.accept: list[list[int]] = []

    def add(self, compiled: CompiledQuery) -> None:
        automaton, base = compiled.automaton, len(self.labels)
        number = {node: base + at for at, node in enumerate(automaton.settled)}
        for step in automaton.transitions:
            if step.source in number:
                symbol = self.symbols.setdefault(compiled.symbols[step.position], len(self.symbols))
                words = self.attributes.weights(compiled, step.position)
                weights = self.weights.setdefault(words, len(self.weights))
                action = self._number_action(symbol, weights, self.share_key(compiled.number, step.position))
                self.arcs.append((action, number[step.source], number[automaton.fold[step.target]]))
        leaving: dict[int, set[int]] = {node: set() for node in number}
        for move in automaton.moves:
            if move.source in number:
                symbol = self.symbols.setdefault(compiled.absences[move.absence], len(self.symbols))
                leaving[move.source].add(symbol)
                if move.target >= 0:
                    self.arcs.append((self._number_action(symbol, -1, None), number[move.source], number[move.target]))
        self.labels += [self.leaving.setdefault(frozenset(found), len(self.leaving)) for found in leaving.values()]
        self.starts.append(number[0])
        self.accept.append([number[end] for end in sorted(automaton.accepting)])

    def _number_action(self, symbol: int, weights: int, share_key: Hashable) -> int:
        return self.actions.setdefault((symbol, weights, share_key), len(self.actions))

    def list_ranges(self) -> list[tuple[int, int]]:
        """List the first node of each query, and the one after its last."""
        return list(zip(self.starts, [*self.starts[1:], len(self.labels)], strict=True))

    def list_clearings(self, labels: Ints) -> Ints:
        """Return the moves that take all of a node away, for nodes with these symbols that do."""
        symbols = [sorted(found) for found in self.leaving]
        moves = [(symbol, at, -1) for at, label in enumerate(labels.tolist()) for symbol in symbols[label]]
        return np.array(moves, np.int64).reshape(-1, 3).T

    def build_graph(self) -> tuple[ArcGraph, Ints, _Actions]:
        """Build the graph of all nodes, with the number of the symbols that take all of each away, and the actions."""
        leaving = np.array(self.labels, np.int64)
        label = 2 * leaving
        label[self.starts] += 1
        symbol, weights = np.array([action[:2] for action in self.actions], np.int64).reshape(-1, 2).T
        order = np.lexsort((weights, symbol))
        action, source, target = np.array(self.arcs, np.int64).reshape(-1, 3).T
        graph = ArcGraph(label, invert_order(order)[action], source, target)
        return graph, leaving, _Actions(symbol[order], weights[order])


def _build_quotient(graph: ArcGraph, block: Ints) -> tuple[ArcGraph, Ints]:
    """Keep the first node of each block, with the arcs that come into it; return which these are too."""
    first = find_first_nodes(block)
    kept = np.zeros(graph.size, np.bool_)
    kept[first] = True
    arcs = kept[graph.target]
    source, target = block[graph.source[arcs]], block[graph.target[arcs]]
    return ArcGraph(graph.label[first], graph.action[arcs], source, target), first


class _Words(NamedTuple):
    """Sequences of actions: the last of each, and the word before it. Word 0 is empty."""

    action: Ints
    before: Ints


def _find_ways(graph: ArcGraph) -> tuple[Ints, Ints, Ints, _Words]:
    """Find all pairs of nodes one of which leads to the other, by origin and node, each with the least of the shortest
    words that do: equal pairs have equal ones.
    """
    by_source = np.argsort(graph.source, kind="stable")
    offsets = np.searchsorted(graph.source[by_source], np.arange(graph.size + 1))
    last, before = [np.array([-1])], [np.array([0])]
    size = 1
    key = np.arange(graph.size) * (graph.size + 1)
    word = np.zeros(graph.size, np.int64)
    keys, found = [key], [word]
    known = key
    while key.size:
        counts, places = take_rows(offsets, key % graph.size)
        at, arc = row_numbers(counts), by_source[places]
        spelled = graph.action[arc] * size + word[at]
        key = key[at] // graph.size * graph.size + graph.target[arc]
        order = np.lexsort((spelled, key))
        key, spelled = key[order], spelled[order]
        is_new = np.diff(key, prepend=-1) != 0
        is_new &= known[np.minimum(np.searchsorted(known, key), len(known) - 1)] != key
        key, spelled = key[is_new], spelled[is_new]
        new, word = np.unique(spelled, return_inverse=True)
        last.append(new // size)
        before.append(new % size)
        word += size
        size += len(new)
        keys.append(key)
        found.append(word)
        known = np.sort(np.concatenate((known, key)))
    every = np.concatenate(keys)
    order = np.argsort(every)
    origin, node = np.divmod(every[order], graph.size)
    return origin, node, np.concatenate(found)[order], _Words(np.concatenate(last), np.concatenate(before))


def _build_pair_graph(graph: ArcGraph, leaving: Ints, origin: Ints, node: Ints, word: Ints) -> ArcGraph:
    """Build the graph of pairs: an arc leads from one to another of the same origin."""
    by_target = np.argsort(graph.target, kind="stable")
    offsets = np.searchsorted(graph.target[by_target], np.arange(graph.size + 1))
    counts, places = take_rows(offsets, node)
    target, arc = row_numbers(counts), by_target[places]
    key = origin * graph.size + node
    wanted = origin[target] * graph.size + graph.source[arc]
    source = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    exists = key[source] == wanted
    label = word * (leaving.max(initial=0) + 1) + leaving[node]
    return ArcGraph(label, graph.action[arc[exists]], source[exists], target[exists])


def _rank_words(words: _Words) -> Ints:
    """Rank words by their actions, from the last backward."""
    rank, before = words.action + 1, words.before
    while before.any():
        rank = np.unique(rank * (rank.max() + 1) + rank[before], return_inverse=True)[1]
        before = before[before]
    return rank


def _spell_words(words: _Words, symbols: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """Return the symbols of some words one after the other, with the offsets of each."""
    steps = []
    at, word = np.arange(len(chosen)), chosen
    while True:
        at, word = at[word > 0], word[word > 0]
        if not at.size:
            break
        steps.append((at, symbols[words.action[word]]))
        word = words.before[word]
    length = np.bincount(np.concatenate([at, *(step[0] for step in steps)]), minlength=len(chosen))
    offsets = offsets_from_counts(length)
    spelled = np.empty(offsets[-1], np.int64)
    for number, (at, symbol) in enumerate(steps):
        spelled[offsets[at + 1] - 1 - number] = symbol
    return offsets, spelled


def _order_rows(size: int, origin: Ints, node: Ints) -> tuple[Ints, Ints]:
    """Order rows so that each comes before those it is made of: then it can be written over.

    Those that are made of each other are side by side: returns also where each group of them begins, and the end.
    """
    key = origin * size + node
    back = node * size + origin
    both = key[np.minimum(np.searchsorted(key, back), len(key) - 1)] == back
    circle = np.full(size, size)
    np.minimum.at(circle, node[both], origin[both])
    origins = np.bincount(node, minlength=size)  # more of them than those of any other that leads to it
    order = np.lexsort((circle, -origins))
    return order, np.append(np.flatnonzero(np.diff(circle[order], prepend=-1)), size)


def _list_joins(size: int, row: Ints, before: Ints, pair: Ints) -> tuple[tuple[tuple[int, int], ...], ...]:
    """List the joins of each row."""
    joins: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    for at, join in zip(row.tolist(), zip(before.tolist(), pair.tolist(), strict=True), strict=True):
        joins[at].append(join)
    return tuple(map(tuple, joins))


def encode_pairs(pairs: Pairs, classes: Sequence[frozenset[Symbol]], negs: Sequence[Symbol]) -> NDArray[np.int32]:
    """Encode what each class of events runs: see `motet.kernels.pairs`."""
    numbers = {symbol: number for number, symbol in enumerate(pairs.symbols)}
    own = [[numbers[symbol] for symbol in found if symbol in numbers] for found in classes]
    runs, offsets, has_order = _group_steps(pairs, own)
    blocks: list[NDArray[np.int32]] = []
    for at, found in enumerate(classes):
        moves = _select_moves(pairs, own[at])
        negated = [number for number, neg in enumerate(negs) if neg in found]
        own_runs = runs[offsets[at] : offsets[at + 1]]
        head = [has_order[at] and not moves.size, len(own_runs), len(moves), len(negated)]
        blocks.append(np.concatenate((head, own_runs.ravel(), moves.ravel(), negated)).astype(np.int32))
    return np.concatenate(((len(classes) + offsets_of(blocks)[:-1]).astype(np.int32), *blocks))


def _group_steps(pairs: Pairs, own: Sequence[Sequence[int]]) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Group the steps of each class of events, given by its symbols, into runs between neighbours.

    A run is source, target, weights, and how many steps it has. Those of one class are in an order in which each pair
    is read, by itself first, before it is changed. Returns them, the offsets of each class, and which classes have such
    an order.
    """
    offsets = np.searchsorted(np.sort(pairs.steps[0]), np.arange(len(pairs.symbols) + 1))
    symbol_offsets, symbols = flatten_lists(own)
    counts, places = take_rows(offsets, symbols.astype(np.int64))
    _, weights, source, target = pairs.steps[:, np.argsort(pairs.steps[0], kind="stable")[places]]
    klass = row_numbers(symbol_offsets)[row_numbers(counts)]
    level, in_circle = _compute_levels(klass * pairs.size + source, klass * pairs.size + target)
    has_order = np.ones(len(own), np.bool_)
    has_order[klass[in_circle]] = False
    # Of two steps from a pair to itself, the second would read what the first has written.
    own_pair, repeats = np.unique((klass * pairs.size + source)[source == target], return_counts=True)
    has_order[own_pair[repeats > 1] // max(pairs.size, 1)] = False
    order = np.lexsort((target, source, source != target, level, klass))
    klass, weights, source, target = klass[order], weights[order], source[order], target[order]
    follows = (np.diff(source) == 1) & (np.diff(target) == 1) & (np.diff(weights) == 0) & (np.diff(klass) == 0)
    begins = np.flatnonzero(np.concatenate(([True], ~follows)))[: len(source)]
    lengths = np.diff(begins, append=len(source))
    words = np.array([(*counts, *extremes, *sums) for counts, sums, extremes in pairs.weights], np.int64)
    runs = np.column_stack((source[begins], target[begins], words.reshape(len(words), -1)[weights[begins]], lengths))
    return runs, np.searchsorted(klass[begins], np.arange(len(own) + 1)), has_order


def _compute_levels(source: Ints, target: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Compute for each step the level of its target: one more than the greatest of those it leads to by other steps.

    Returns also which steps have none, because they lead to others in a circle, or to one that does.
    """
    ends, number = np.unique(np.concatenate((source, target)), return_inverse=True)
    source, target = number[: len(source)], number[len(source) :]
    level = np.zeros(len(ends), np.int64)
    waiting = np.flatnonzero(source != target)
    for height in range(1, len(ends) + 1):
        leads_on = np.zeros(len(ends), np.bool_)
        leads_on[source[waiting]] = True
        waits = leads_on[target[waiting]]
        if waits.all():
            break
        level[source[waiting]] = height
        waiting = waiting[waits]
    in_circle = np.zeros(len(source), np.bool_)
    in_circle[waiting] = True
    return level[target], in_circle


def _select_moves(pairs: Pairs, symbols: Sequence[int]) -> Ints:
    """Select the moves of a class, symbol by symbol; those that carry before those that only clear."""
    moves = pairs.moves[:, np.isin(pairs.moves[0], symbols)] if pairs.moves.size else pairs.moves
    return moves[1:, np.lexsort((moves[2] < 0, moves[0]))].T
