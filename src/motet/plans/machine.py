"""Merges the automata of several queries into one machine: totals that are always equal are kept once.

Two nodes always hold equal totals if equal steps come into them from nodes that do (backward bisimulation). Equal
prefixes of patterns are the common case: A-Seq's PreTree (section 4.1), for loops and absences too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, compress

import numpy as np

from motet.kernels.arrays import Ints
from motet.kernels.ragged import offsets_of
from motet.kernels.tables import WEIGHT_ONE, WEIGHT_ZERO, Machine, Queries
from motet.kernels.two_stacks import StackTable
from motet.plans.channels import Channel
from motet.plans.compiled import CompiledQuery
from motet.plans.partition import ArcGraph, find_equal_nodes, find_first_nodes, number_labels
from motet.template.symbols import Symbol

Weights = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
FLOAT_KINDS = ("sum", "square")


@dataclass(frozen=True, slots=True)
class MachineEdge:
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
class MergedAutomaton:
    """A machine before its events are known. Queries are numbered by their place in the unit.

    `whole` and `real` name the attribute rows that weights refer to, as (column, kind of channel).
    """

    size: int
    edges: tuple[MachineEdge, ...]
    shifts: tuple[Shift, ...]
    fold: tuple[int, ...]
    starts: frozenset[int]
    accepting: tuple[tuple[int, ...], ...]
    queries: tuple[CompiledQuery, ...]
    negs: tuple[Symbol, ...]
    whole: tuple[tuple[str, str], ...]  # 'count', 'min', 'max'
    real: tuple[tuple[str, str], ...]  # 'sum', 'square'
    nodes: tuple[tuple[int, ...], ...] = ()  # by query: where each node of its automaton is

    @cached_property
    def symbols(self) -> frozenset[Symbol]:
        """Every symbol whose events matter."""
        moving = {edge.symbol for edge in self.edges} | {shift.symbol for shift in self.shifts}
        return frozenset(moving | set(self.negs))

    @property
    def settled(self) -> tuple[int, ...]:
        """Settled nodes, the start (node 0) first."""
        return tuple(node for node in range(self.size) if self.fold[node] == node)

    @cached_property
    def having_channels(self) -> frozenset[int]:
        """The nodes at which a match may hold an event that a channel reads. O(steps * depth)."""
        steps = [(edge.source, edge.target) for edge in self.edges]
        steps += [(shift.source, shift.target) for shift in self.shifts if shift.target >= 0]
        steps += list(enumerate(self.fold))
        found = {edge.target for edge in self.edges if {*chain(*edge.weights)} - {WEIGHT_ZERO}}
        while more := {target for source, target in steps if source in found} - found:
            found |= more
        return frozenset(found)

    @cached_property
    def stack_table(self) -> StackTable:
        """Where the totals of products are: see `build_stack_table`."""
        return build_stack_table(self)


@dataclass(frozen=True, slots=True)
class AttributeRows:
    """Which attributes of events channels read, each once, as (column, kind of channel)."""

    whole: tuple[tuple[str, str], ...]
    real: tuple[tuple[str, str], ...]

    @staticmethod
    def from_queries(queries: Sequence[CompiledQuery]) -> AttributeRows:
        channels = [channel for compiled in queries for table in compiled.channels.tables for channel in table]
        rows = dict.fromkeys((c.column, c.kind) for c in channels if c.column is not None)
        return AttributeRows(
            whole=tuple((column, kind) for column, kind in rows if kind not in FLOAT_KINDS),
            real=tuple((column, kind) for column, kind in rows if kind in FLOAT_KINDS),
        )

    def weights(self, compiled: CompiledQuery, position: int) -> Weights:
        """Return what an event at a position adds to each count, sum and minimum."""
        tables = compiled.channels.tables
        counts, sums, extremes = (tuple(self._weight(channel, position) for channel in table) for table in tables)
        return counts, sums, extremes

    def _weight(self, channel: Channel, position: int) -> int:
        if position not in channel.positions:
            return WEIGHT_ZERO
        if channel.column is None:
            return WEIGHT_ONE
        return (self.real if channel.kind in FLOAT_KINDS else self.whole).index((channel.column, channel.kind))


def merge_queries(queries: Sequence[CompiledQuery]) -> MergedAutomaton:
    """Merge queries whose channels have the same shape into one machine."""
    rows = AttributeRows.from_queries(queries)
    union = _place_side_by_side(queries, rows)
    # Adjacent conditions tell apart what steps alone do not.
    is_mergeable = not any(compiled.adjacent for compiled in queries)
    block = _find_equal_blocks(union) if is_mergeable else list(range(len(union.fold)))
    return _build_quotient(queries, rows, union, block)


@dataclass(slots=True)
class _DisjointUnion:
    """The automata of some queries side by side, their nodes numbered through; `starts` has the first node of each."""

    edges: list[MachineEdge] = field(default_factory=list)
    shifts: list[Shift] = field(default_factory=list)
    fold: list[int] = field(default_factory=list)
    freshness: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


def _place_side_by_side(queries: Sequence[CompiledQuery], rows: AttributeRows) -> _DisjointUnion:
    union = _DisjointUnion()
    for compiled in queries:
        base = len(union.fold)
        automaton = compiled.automaton
        union.starts.append(base)
        for step in automaton.transitions:
            symbol, weights = compiled.symbols[step.position], rows.weights(compiled, step.position)
            union.edges.append(MachineEdge(symbol, base + step.source, base + step.target, weights))
        for move in automaton.moves:
            target = base + move.target if move.target >= 0 else -1
            union.shifts.append(Shift(compiled.absences[move.absence], base + move.source, target))
        union.fold += [base + settled for settled in automaton.fold]
        union.freshness += automaton.freshness
    return union


def _find_equal_blocks(union: _DisjointUnion) -> list[int]:
    """Return the block of each node: nodes of one block always hold equal totals."""
    edges, shifts, fold = union.edges, union.shifts, union.fold
    size = len(fold)
    leaving: list[set[Symbol]] = [set() for _ in range(size)]
    for shift in shifts:
        leaving[shift.source].add(shift.symbol)
    # Several fresh nodes may fold into one, and each must: their order among themselves tells them apart.
    ordinal, seen = [], Counter[int]()
    for settled in fold:
        ordinal.append(seen[settled])
        seen[settled] += 1
    starts = set(union.starts)
    labels = [(node in starts, union.freshness[node], ordinal[node], frozenset(leaving[node])) for node in range(size)]
    arcs: list[tuple[Hashable, int, int]] = [((edge.symbol, edge.weights), edge.source, edge.target) for edge in edges]
    arcs += [(shift.symbol, shift.source, shift.target) for shift in shifts if shift.target >= 0]
    # Nodes are equal only if those that they fold into are.
    fresh = [(node, settled) for node, settled in enumerate(fold) if settled != node]
    arcs += [("fold", node, settled) for node, settled in fresh]
    arcs += [("unfold", settled, node) for node, settled in fresh]
    action = number_labels([action for action, _, _ in arcs])
    source, target = np.array([ends for _, *ends in arcs], np.int64).reshape(-1, 2).T
    block: list[int] = find_equal_nodes(ArcGraph(number_labels(labels), action, source, target)).tolist()
    return block


def _build_quotient(
    queries: Sequence[CompiledQuery], rows: AttributeRows, union: _DisjointUnion, block: list[int]
) -> MergedAutomaton:
    """Keep one node of each block, with the steps that come into it."""
    representative = find_first_nodes(np.array(block)).tolist()
    kept = set(representative)
    edges = [
        replace(edge, source=block[edge.source], target=block[edge.target])
        for edge in union.edges
        if edge.target in kept
    ]
    edges.sort(key=lambda edge: -union.freshness[representative[edge.target]])
    carried = [
        replace(shift, source=block[shift.source], target=block[shift.target])
        for shift in union.shifts
        if shift.target in kept
    ]
    cleared = dict.fromkeys(Shift(shift.symbol, block[shift.source], -1) for shift in union.shifts)
    nodes = tuple(
        tuple(block[start : start + compiled.automaton.size])
        for start, compiled in zip(union.starts, queries, strict=True)
    )
    return MergedAutomaton(
        size=len(representative),
        edges=tuple(edges),
        shifts=(*carried, *cleared),
        fold=tuple(block[union.fold[node]] for node in representative),
        starts=frozenset(block[start] for start in union.starts),
        accepting=tuple(
            tuple(own[node] for node in sorted(compiled.automaton.accepting))
            for own, compiled in zip(nodes, queries, strict=True)
        ),
        queries=tuple(queries),
        negs=tuple(dict.fromkeys(symbol for compiled in queries for symbol in compiled.negs)),
        whole=rows.whole,
        real=rows.real,
        nodes=nodes,
    )


def build_machine(merged: MergedAutomaton, classes: Sequence[frozenset[Symbol]]) -> Machine:
    """Encode the machine for the classes of events at hand, a class being the symbols its events have.

    Classes that have the same symbols of the machine have one block of code. O(classes + code).
    """
    by_symbol: dict[Symbol, list[int]] = {}
    for number, edge in enumerate(merged.edges):
        by_symbol.setdefault(edge.symbol, []).append(number)
    completing: dict[int, list[int]] = {}
    for query, nodes in enumerate(merged.accepting):
        for node in nodes:
            completing.setdefault(node, []).append(query)
    places: dict[frozenset[Symbol], int] = {}
    addresses: list[int] = []
    code: list[int] = []
    for symbols in classes:
        own = symbols & merged.symbols
        if own not in places:
            places[own] = len(classes) + len(code)
            numbers = sorted(number for symbol in own for number in by_symbol.get(symbol, ()))
            code += _encode_class(merged, [merged.edges[number] for number in numbers], own, completing)
        addresses.append(places[own])
    return Machine(
        code=np.array(addresses + code, np.int32),
        fold=np.array(merged.fold, np.int32),
        starts=np.array(sorted(merged.starts), np.int32),
        counts_only=np.array([node not in merged.having_channels for node in range(merged.size)], np.bool_),
    )


def _encode_class(
    merged: MergedAutomaton,
    edges: list[MachineEdge],
    symbols: frozenset[Symbol],
    completing: Mapping[int, Sequence[int]],
) -> list[int]:
    """Encode the steps of one class, given which queries each node completes: see `motet.kernels.tables`."""
    # One absence after the other, and a carry before the clearing of its source.
    absences = {symbol: number for number, symbol in enumerate(symbols)}
    own = [shift for shift in merged.shifts if shift.symbol in symbols]
    moves = sorted(own, key=lambda shift: (absences[shift.symbol], shift.target < 0))
    direct = _find_direct_order(merged, edges)
    only_clears = not edges and all(shift.target < 0 for shift in moves)
    is_direct = only_clears or (direct is not None and not moves)
    alone = direct if is_direct and direct else []
    reached = {merged.fold[edge.target] for edge in edges}
    done = sorted({query for node in reached for query in completing.get(node, ())})
    negs = [at for at, symbol in enumerate(merged.negs) if symbol in symbols]
    begins = any(edge.source in merged.starts for edge in edges)
    lengths = [len(alone), len(edges), len(moves), len(done), len(negs)]
    steps = [word for edge in (*alone, *edges) for word in _encode_step(edge)]
    away = [word for shift in moves for word in (shift.source, shift.target)]
    return [int(is_direct), int(begins), *lengths, *steps, *away, *done, *negs]


def _encode_step(edge: MachineEdge) -> tuple[int, ...]:
    counts, sums, extremes = edge.weights
    return (edge.source, edge.target, *counts, *extremes, *sums)


def _find_direct_order(merged: MergedAutomaton, edges: list[MachineEdge]) -> list[MachineEdge] | None:
    """Return the edges into settled nodes, each node read before it is changed; None where no order does that."""
    settled = [
        MachineEdge(edge.symbol, edge.source, merged.fold[edge.target], edge.weights)
        for edge in edges
        if merged.fold[edge.source] == edge.source
    ]
    ordered: list[MachineEdge] = []
    waiting, readers = settled, Counter(edge.source for edge in settled)
    while waiting:
        # An edge may go once nobody else still has to read its target.
        is_ready = [readers[edge.target] == (edge.source == edge.target) for edge in waiting]
        ready = list(compress(waiting, is_ready))
        if not ready:
            return None
        ordered += ready
        readers.subtract(edge.source for edge in ready)
        waiting = [edge for edge, gone in zip(waiting, is_ready, strict=True) if not gone]
    return ordered


def build_queries_table(merged: MergedAutomaton) -> Queries:
    """Build the table of a machine's queries that the kernels read."""
    folding: dict[int, list[int]] = {}
    for node, settled in enumerate(merged.fold):
        if node != settled:
            folding.setdefault(settled, []).append(node)
    # A fresh node counts once for each time its settled node is accepted.
    fresh = [[node for settled in nodes for node in folding.get(settled, ())] for nodes in merged.accepting]
    negs = [[merged.negs.index(symbol) for symbol in compiled.negs] for compiled in merged.queries]
    spans = [compiled.span for compiled in merged.queries]
    continuous = [span.is_continuous for span in spans]
    return Queries(
        within=np.array([span.within for span in spans], np.int64),
        slide=np.array([span.slide for span in spans], np.int64),
        accept_offsets=offsets_of(merged.accepting),
        accept=np.array([node for nodes in merged.accepting for node in nodes], np.int32),
        fresh_offsets=offsets_of(fresh),
        fresh=np.array([node for nodes in fresh for node in nodes], np.int32),
        neg_offsets=offsets_of(negs),
        neg=np.array([at for group in negs for at in group], np.int32),
        at_close=np.array(
            [c and q.needs_window_close for c, q in zip(continuous, merged.queries, strict=True)], np.bool_
        ),
        expiries=np.array([compiled.needs_sweep for compiled in merged.queries], np.bool_),
    )


def build_stack_table(merged: MergedAutomaton) -> StackTable:
    """Lay out the totals of two stacks: for each node those of settled nodes that lead to it, and that it leads to.

    A column's rows are numbered by what leads to one node in common, lowest first: in a tree, by depth. Lines follow
    a walk that finishes with one branch before it goes on to the next: in a tree, what a node leads to is consecutive.
    """
    steps = [(edge.source, edge.target) for edge in merged.edges]
    steps += [(shift.source, shift.target) for shift in merged.shifts if shift.target >= 0]
    steps += [(node, settled) for node, settled in enumerate(merged.fold) if node != settled]
    order = _walk_depth_first(merged, steps)
    settled = [node for node in order if merged.fold[node] == node]
    place = {node: at for at, node in enumerate(settled)}
    own = [1 << place[node] if node in place else 0 for node in range(merged.size)]
    at = {node: number for number, node in enumerate(order)}
    steps.sort(key=lambda step: at[step[0]])
    before = _close_over(own, steps)
    after = _close_over(own, [(target, source) for source, target in reversed(steps)])
    rows = _number_rows(settled, before, after)
    first = [_lowest_bit(mask) for mask in after]
    size = [mask.bit_length() - low for mask, low in zip(after, first, strict=True)]
    heights = [1 + max((rows[settled[p]] for p in _list_bits(mask)), default=0) for mask in before]
    column, line = _offsets_before(heights), _offsets_before(size)
    origin = np.full(sum(heights), sum(size), np.int64)
    starts = sum(own[start] for start in merged.starts)
    for node, mask in enumerate(before):
        for p in _list_bits(mask):
            start = settled[_lowest_bit(before[settled[p]] & starts)] if before[settled[p]] & starts else -1
            if start >= 0:
                origin[column[node] + rows[settled[p]]] = line[start] + p - first[start]
    owners: list[list[int]] = [[] for _ in range(merged.size)]
    having: list[list[int]] = [[] for _ in range(merged.size)]
    for query, nodes in enumerate(merged.accepting):
        for node in dict.fromkeys(nodes):
            owners[node].append(query)
    for query, nodes in enumerate(merged.nodes):
        for node in dict.fromkeys(nodes):
            having[node].append(query)
    return StackTable(
        column=column,
        rows=np.array(heights, np.int64),
        own_row=np.array([rows.get(node, -1) for node in range(merged.size)], np.int64),
        line=line,
        first=np.array(first, np.int64),
        size=np.array(size, np.int64),
        own_place=np.array([place.get(node, -1) for node in range(merged.size)], np.int64),
        origin=origin,
        is_start=np.array([node in merged.starts for node in range(merged.size)], np.bool_),
        owner_offsets=offsets_of(owners),
        owners=np.array([query for group in owners for query in group], np.int32),
        query_offsets=offsets_of(having),
        queries=np.array([query for group in having for query in group], np.int32),
    )


def _walk_depth_first(merged: MergedAutomaton, steps: Sequence[tuple[int, int]]) -> list[int]:
    """Return all nodes in the order of a depth-first walk from the starts."""
    following: list[list[int]] = [[] for _ in range(merged.size)]
    for source, target in steps:
        following[source].append(target)
    order: dict[int, None] = {}
    for root in (*sorted(merged.starts), *range(merged.size)):
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node not in order:
                order[node] = None
                waiting += reversed(following[node])
    return list(order)


def _close_over(own: Sequence[int], steps: Sequence[tuple[int, int]]) -> list[int]:
    """Return the union of what a node and all that lead to it own, as bits."""
    found = list(own)
    changed = True
    while changed:
        changed = False
        for source, target in steps:
            union = found[target] | found[source]
            if union != found[target]:
                found[target] = union
                changed = True
    return found


def _number_rows(settled: Sequence[int], before: Sequence[int], after: Sequence[int]) -> dict[int, int]:
    """Assign numbers to settled nodes so that no two that lead to a common node have the same number."""
    # It is enough to look at nodes that lead to no others but such as lead back to them, one of each such group.
    last = sum(
        1 << p for p, node in enumerate(settled) if after[node] & ~before[node] == 0 and _lowest_bit(after[node]) == p
    )
    used = dict.fromkeys(_list_bits(last), 0)
    rows: dict[int, int] = {}
    for node in settled:
        ends = _list_bits(after[node] & last)
        taken = 0
        for end in ends:
            taken |= used[end]
        rows[node] = _lowest_bit(~taken)
        for end in ends:
            used[end] |= 1 << rows[node]
    return rows


def _lowest_bit(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _list_bits(mask: int) -> list[int]:
    found = []
    while mask:
        found.append(_lowest_bit(mask))
        mask &= mask - 1
    return found


def _offsets_before(lengths: Sequence[int]) -> Ints:
    return np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)


@dataclass(frozen=True, slots=True)
class TouchedTotals:
    """How many totals one event of a symbol touches in two stacks: of the back when it enters, of the suffix product
    when it is swept (saved and restored ones included), and of both for the values of all queries that it may complete.
    """

    back: int
    sweep: int
    value: int


def count_touched_totals(merged: MergedAutomaton) -> dict[Symbol, TouchedTotals]:
    """Count what an event of each symbol costs with two stacks, in totals of so many words as queries have channels."""
    table = merged.stack_table
    back, sweep, value = Counter[Symbol](), Counter[Symbol](), Counter[Symbol]()
    completed: dict[Symbol, set[int]] = {}
    for edge in merged.edges:
        back[edge.symbol] += int(table.rows[edge.source])
        sweep[edge.symbol] += int(table.size[edge.target]) * (3 if edge.source in merged.starts else 1)
        node = merged.fold[edge.target]
        owners = table.owners[table.owner_offsets[node] : table.owner_offsets[node + 1]]
        completed.setdefault(edge.symbol, set()).update(owners.tolist())
    for shift in merged.shifts:
        back[shift.symbol] += int(table.rows[shift.source])
        sweep[shift.symbol] += int(table.size[shift.source]) * (3 if shift.source in merged.starts else 1)
    for symbol, queries in completed.items():
        value[symbol] = sum(int(table.rows[node]) for query in queries for node in merged.accepting[query])
    return {symbol: TouchedTotals(back[symbol], sweep[symbol], value[symbol]) for symbol in merged.symbols}
