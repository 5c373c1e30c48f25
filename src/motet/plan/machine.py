"""Merges the automata of several queries into one machine: totals that are always equal are kept once.

Two nodes always hold equal totals if equal steps come into them from nodes that do (backward bisimulation). Equal prefixes of patterns are the
common case: A-Seq's PreTree (section 4.1), for loops and absences too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from motet.kernels.tables import ALWAYS, NEVER, Machine, Queries, Steps
from motet.plan.channels import Channel
from motet.plan.compiled import CompiledQuery
from motet.template.symbols import Symbol

Entry = TypeVar("Entry", str, tuple[str, str])
Weights = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Edge:
    """An event of `symbol` adds the totals of `source`, weighed, to `target`."""

    symbol: Symbol
    source: int
    target: int
    weights: Weights


@dataclass(frozen=True, slots=True)
class Shift:
    """An event of `symbol` moves the totals of `source` to `target` (-1: nowhere)."""

    symbol: Symbol
    source: int
    target: int


@dataclass(frozen=True)
class Merged:
    """A machine before its events are known. Queries are numbered by their place in the unit.

    `values` and the like name the attribute columns that weights refer to: valid, value, place.
    """

    size: int
    edges: tuple[Edge, ...]
    shifts: tuple[Shift, ...]
    fold: tuple[int, ...]
    starts: frozenset[int]
    accepting: tuple[tuple[int, ...], ...]
    queries: tuple[CompiledQuery, ...]
    negs: tuple[Symbol, ...]
    valid: tuple[str, ...]
    value: tuple[tuple[str, str], ...]  # (column, 'sum' or 'square')
    place: tuple[tuple[str, str], ...]  # (column, 'min' or 'max')

    @property
    def symbols(self) -> frozenset[Symbol]:
        """Every symbol whose events matter."""
        moving = {edge.symbol for edge in self.edges} | {shift.symbol for shift in self.shifts}
        return frozenset(moving | set(self.negs))

    @property
    def settled(self) -> tuple[int, ...]:
        """Settled nodes, the start (node 0) first."""
        return tuple(node for node in range(self.size) if self.fold[node] == node)


class _Columns:
    """Attribute columns by the table they are read from, each once."""

    def __init__(self) -> None:
        self.valid: list[str] = []
        self.value: list[tuple[str, str]] = []
        self.place: list[tuple[str, str]] = []

    def weight(self, channel: Channel, position: int) -> int:
        if position not in channel.positions:
            return NEVER
        if channel.column is None:
            return ALWAYS
        if channel.kind == "count":
            return _index(self.valid, channel.column)
        if channel.kind in ("sum", "square"):
            return _index(self.value, (channel.column, channel.kind))
        return _index(self.place, (channel.column, channel.kind))


def _index(table: list[Entry], entry: Entry) -> int:
    if entry not in table:
        table.append(entry)
    return table.index(entry)


def merge_queries(queries: Sequence[CompiledQuery]) -> Merged:
    """One machine for queries whose channels have the same shape."""
    columns = _Columns()
    edges: list[Edge] = []
    shifts: list[Shift] = []
    fold: list[int] = []
    freshness: list[int] = []
    starts: list[int] = []
    accepting: list[list[int]] = []
    for compiled in queries:
        base = len(fold)
        automaton, channels = compiled.automaton, compiled.channels
        starts.append(base)
        for step in automaton.transitions:
            tables = (channels.counts, channels.sums, channels.extremes)
            i, f, m = (tuple(columns.weight(channel, step.position) for channel in table) for table in tables)
            edges.append(Edge(compiled.symbols[step.position], base + step.source, base + step.target, (i, f, m)))
        for move in automaton.moves:
            target = base + move.target if move.target >= 0 else -1
            shifts.append(Shift(compiled.absences[move.absence], base + move.source, target))
        fold += [base + settled for settled in automaton.fold]
        freshness += automaton.freshness
        accepting.append([base + node for node in sorted(automaton.accepting)])
    if any(compiled.adjacent for compiled in queries):
        block = list(range(len(fold)))  # adjacent conditions tell apart what steps alone do not
    else:
        block = _equal_nodes(edges, shifts, fold, freshness, starts)
    return _quotient(queries, columns, block, edges, shifts, fold, freshness, starts, accepting)


def _equal_nodes(
    edges: list[Edge], shifts: list[Shift], fold: list[int], freshness: list[int], starts: list[int]
) -> list[int]:
    """The block of each node: the coarsest partition in which equal steps come into equal nodes."""
    size = len(fold)
    leaving: list[set[Symbol]] = [set() for _ in range(size)]
    for shift in shifts:
        leaving[shift.source].add(shift.symbol)
    # Several fresh nodes may fold into one, and each must: their order among themselves tells them apart.
    ordinal = [sum(fold[earlier] == fold[node] for earlier in range(node)) for node in range(size)]
    labels: list[Hashable] = [
        (node in set(starts), freshness[node], ordinal[node], frozenset(leaving[node])) for node in range(size)
    ]
    block = _numbered(labels)
    while True:
        incoming: list[list[Hashable]] = [[] for _ in range(size)]
        for edge in edges:
            incoming[edge.target].append(("step", edge.symbol, edge.weights, block[edge.source]))
        for shift in shifts:
            if shift.target >= 0:
                incoming[shift.target].append(("move", shift.symbol, block[shift.source]))
        for node, settled in enumerate(fold):
            if settled != node:
                incoming[settled].append(("fold", block[node]))
        refined = _numbered(
            [(block[node], block[fold[node]], frozenset(_counted(incoming[node]))) for node in range(size)]
        )
        if max(refined) == max(block):
            return block
        block = refined


def _counted(entries: list[Hashable]) -> list[tuple[Hashable, int]]:
    counts: dict[Hashable, int] = {}
    for entry in entries:
        counts[entry] = counts.get(entry, 0) + 1
    return list(counts.items())


def _numbered(labels: Sequence[Hashable]) -> list[int]:
    """Number labels by first appearance, so that node 0 is in block 0."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels]


def _quotient(
    queries: Sequence[CompiledQuery],
    columns: _Columns,
    block: list[int],
    edges: list[Edge],
    shifts: list[Shift],
    fold: list[int],
    freshness: list[int],
    starts: list[int],
    accepting: list[list[int]],
) -> Merged:
    """Keep one node of each block, with the steps that come into it."""
    size = max(block) + 1
    representative = [block.index(number) for number in range(size)]
    kept = set(representative)
    merged_edges = [
        Edge(edge.symbol, block[edge.source], block[edge.target], edge.weights) for edge in edges if edge.target in kept
    ]
    merged_edges.sort(key=lambda edge: -freshness[representative[edge.target]])
    carried = [
        Shift(shift.symbol, block[shift.source], block[shift.target]) for shift in shifts if shift.target in kept
    ]
    cleared = dict.fromkeys(Shift(shift.symbol, block[shift.source], -1) for shift in shifts)
    negs = list(dict.fromkeys(symbol for compiled in queries for symbol in compiled.negs))
    return Merged(
        size=size,
        edges=tuple(merged_edges),
        shifts=(*carried, *cleared),
        fold=tuple(block[fold[node]] for node in representative),
        starts=frozenset(block[start] for start in starts),
        accepting=tuple(tuple(block[node] for node in nodes) for nodes in accepting),
        queries=tuple(queries),
        negs=tuple(negs),
        valid=tuple(columns.valid),
        value=tuple(columns.value),
        place=tuple(columns.place),
    )


def machine_for(merged: Merged, classes: Sequence[frozenset[Symbol]]) -> Machine:
    """The machine's tables for the classes of events at hand, a class being the symbols its events have."""
    by_symbol: dict[Symbol, list[int]] = {}
    for number, edge in enumerate(merged.edges):
        by_symbol.setdefault(edge.symbol, []).append(number)
    tied: list[list[Edge]] = []
    alone: list[list[Edge]] = []
    is_direct: list[bool] = []
    moves: list[list[Shift]] = []
    done: list[list[int]] = []
    negs: list[list[int]] = []
    for symbols in classes:
        numbers = sorted(number for symbol in symbols for number in by_symbol.get(symbol, ()))
        here = [merged.edges[number] for number in numbers]
        # A carry must precede the clearing of its source.
        away = sorted((s for s in merged.shifts if s.symbol in symbols), key=lambda shift: shift.target < 0)
        direct = _direct_order(merged, here)
        only_clears = not here and all(shift.target < 0 for shift in away)
        tied.append(here)
        alone.append(direct or [])
        is_direct.append(only_clears or (direct is not None and not away))
        moves.append(away)
        reached = {merged.fold[edge.target] for edge in here}
        done.append([q for q, nodes in enumerate(merged.accepting) if reached & set(nodes)])
        negs.append([at for at, symbol in enumerate(merged.negs) if symbol in symbols])
    return Machine(
        steps=_steps(tied, merged),
        direct=_steps(alone, merged),
        is_direct=np.array(is_direct, np.bool_),
        move_offsets=_offsets(moves),
        move_source=np.array([shift.source for group in moves for shift in group], np.int32),
        move_target=np.array([shift.target for group in moves for shift in group], np.int32),
        fold=np.array(merged.fold, np.int32),
        is_start=np.array([node in merged.starts for node in range(merged.size)], np.bool_),
        begins=np.array([any(edge.source in merged.starts for edge in group) for group in tied], np.bool_),
        done_offsets=_offsets(done),
        done_query=np.array([q for group in done for q in group], np.int32),
        neg_offsets=_offsets(negs),
        neg=np.array([at for group in negs for at in group], np.int32),
    )


def _direct_order(merged: Merged, edges: list[Edge]) -> list[Edge] | None:
    """The edges into settled nodes, each node read before it is changed; None where no order does that."""
    settled = [
        Edge(edge.symbol, edge.source, merged.fold[edge.target], edge.weights)
        for edge in edges
        if merged.fold[edge.source] == edge.source
    ]
    ordered: list[Edge] = []
    waiting = settled
    while waiting:
        read = [edge.source for edge in waiting]
        # An edge may go once nobody else still has to read its target.
        ready = [
            edge
            for edge in waiting
            if all(source != edge.target for other, source in zip(waiting, read, strict=True) if other is not edge)
        ]
        if not ready:
            return None
        ordered += ready
        waiting = [edge for edge in waiting if not any(edge is gone for gone in ready)]
    return ordered


def _steps(groups: list[list[Edge]], merged: Merged) -> Steps:
    flat = [edge for group in groups for edge in group]
    ni, nf, nm = merged.queries[0].channels.shape
    return Steps(
        offsets=_offsets(groups),
        source=np.array([edge.source for edge in flat], np.int32),
        target=np.array([edge.target for edge in flat], np.int32),
        iw=np.array([edge.weights[0] for edge in flat], np.int32).reshape(len(flat), ni),
        fw=np.array([edge.weights[1] for edge in flat], np.int32).reshape(len(flat), nf),
        mw=np.array([edge.weights[2] for edge in flat], np.int32).reshape(len(flat), nm),
    )


def queries_table(merged: Merged) -> Queries:
    """The queries of a machine as the kernels read them."""
    fresh = [
        [node for node in range(merged.size) if merged.fold[node] != node and merged.fold[node] in set(nodes)]
        for nodes in merged.accepting
    ]
    # A fresh node counts once for each time its settled node is accepted.
    fresh = [
        [node for node in group for _ in range(nodes.count(merged.fold[node]))]
        for group, nodes in zip(fresh, merged.accepting, strict=True)
    ]
    negs = [[merged.negs.index(symbol) for symbol in compiled.negs] for compiled in merged.queries]
    spans = [compiled.span for compiled in merged.queries]
    continuous = [span.continuous for span in spans]
    return Queries(
        within=np.array([span.within for span in spans], np.int64),
        slide=np.array([span.slide for span in spans], np.int64),
        accept_offsets=_offsets(merged.accepting),
        accept=np.array([node for nodes in merged.accepting for node in nodes], np.int32),
        fresh_offsets=_offsets(fresh),
        fresh=np.array([node for nodes in fresh for node in nodes], np.int32),
        neg_offsets=_offsets(negs),
        neg=np.array([at for group in negs for at in group], np.int32),
        at_close=np.array([c and q.certain_at_close for c, q in zip(continuous, merged.queries, strict=True)], np.bool_),
        expiries=np.array(
            [c and q.combined and not q.certain_at_close for c, q in zip(continuous, merged.queries, strict=True)], np.bool_
        ),
    )


def _offsets(groups: Sequence[Sequence[object]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate(([0], np.cumsum([len(group) for group in groups]))).astype(np.int64)
