"""The position (Glushkov) automaton of a pattern, with the absences that guard its gaps.

A pattern becomes a `PositionGraph`: items, which of them may come first and last, and which may follow which. An item
is a position or an AND block, whose operands are graphs of their own. Every gap carries the ways to cross it, each a
set of absences (NOT) that must hold.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq

Guard = frozenset[int]  # absences that must all hold, as indexes into `Positions.absences`
Ways = frozenset[Guard]  # guards of which any one will do; none contains another
OPEN: Guard = frozenset()
FREE: Ways = frozenset({OPEN})
IMPOSSIBLE: Ways = frozenset()

Gap = TypeVar("Gap", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Leaf:
    """An item bound to one event."""

    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """An AND: its operands run side by side."""

    operands: tuple[PositionGraph, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PositionGraph:
    """Items by number: which may be first and last, which may follow which, and the ways to cross each gap.

    Every item lies on some path from a first to a last one. `empty` are the ways to pass without binding anything.
    """

    items: list[Leaf | Block] = field(default_factory=list)
    first: dict[int, Ways] = field(default_factory=dict)
    last: dict[int, Ways] = field(default_factory=dict)
    follow: dict[tuple[int, int], Ways] = field(default_factory=dict)
    empty: Ways = IMPOSSIBLE

    @property
    def has_block(self) -> bool:
        return any(isinstance(item, Block) for item in self.items)

    @property
    def starts_with_guard(self) -> bool:
        """Whether some match has a NOT before all that it binds."""
        return any(OPEN not in ways for ways in self.first.values())

    @property
    def ends_with_guard(self) -> bool:
        """Whether some match has a NOT after all that it binds."""
        return any(OPEN not in ways for ways in self.last.values())

    @property
    def back_edges(self) -> set[tuple[int, int]]:
        """The gaps that lead back to an item, or from it to itself."""
        return {(p, q) for p, q in self.follow if p >= q}

    @property
    def is_line(self) -> bool:
        """Whether every match binds all positions in order, apart from ways back."""
        end = len(self.items) - 1
        forward = {(at, at + 1) for at in range(end)}
        is_required = set(self.first) == {0} and set(self.last) == {end} and not self.empty
        return is_required and not self.has_block and set(self.follow) - self.back_edges == forward

    def find_reachable(self) -> list[set[int]]:
        """Return for each item those that may come at any later step; itself only where it repeats."""
        later: list[set[int]] = [set() for _ in self.items]
        edges = sorted(self.follow, reverse=True)  # most lead forward: what comes after the target is known first
        changed = True
        while changed:
            changed = False
            for p, q in edges:
                if q not in later[p] or not later[q] <= later[p]:
                    later[p] |= {q, *later[q]}
                    changed = True
        return later


@dataclass(frozen=True, slots=True)
class Positions:
    """A pattern's positions by their events, the events that must be absent in gaps (NOT) and anywhere (NEG)."""

    events: tuple[Event, ...]
    absences: tuple[Event, ...]
    negated: tuple[Event, ...]
    graph: PositionGraph

    def find(self, name: str) -> frozenset[int]:
        """Find the positions that a variable, or failing that a type, stands for."""
        named = frozenset(p for p, event in enumerate(self.events) if event.variable == name)
        return named or frozenset(p for p, event in enumerate(self.events) if event.type == name)


def build_positions(pattern: Pattern) -> Positions:
    """Assign numbers to a pattern's positions, in the order written, and connect them; `P{n,m}` is m copies of P."""
    numbering = _Numbering()
    graph = _GraphBuilder(numbering).build_graph(pattern)
    return Positions(tuple(numbering.events), tuple(numbering.absences), tuple(numbering.negated), graph)


@dataclass(slots=True)
class _Numbering:
    events: list[Event] = field(default_factory=list)
    absences: list[Event] = field(default_factory=list)
    negated: list[Event] = field(default_factory=list)


@dataclass(slots=True)
class _SubGraph:
    """The edges of a part of a graph under construction."""

    first: dict[int, Ways] = field(default_factory=dict)
    last: dict[int, Ways] = field(default_factory=dict)
    empty: Ways = IMPOSSIBLE


class _GraphBuilder:
    """Glushkov's construction for one graph; the operands of an AND get builders of their own."""

    def __init__(self, numbering: _Numbering) -> None:
        self.numbering = numbering
        self.items: list[Leaf | Block] = []
        self.follow: dict[tuple[int, int], Ways] = {}

    def build_graph(self, pattern: Pattern) -> PositionGraph:
        part = self.build(pattern)
        return PositionGraph(self.items, part.first, part.last, self.follow, part.empty)

    def build(self, pattern: Pattern) -> _SubGraph:
        match pattern:
            case Event():
                self.numbering.events.append(pattern)
                return self._add_item(Leaf(len(self.numbering.events) - 1))
            case Not(event):
                # Copies of one NOT are one absence: an event that violates one violates them all.
                return _SubGraph(empty=frozenset({frozenset({_find_index(event, self.numbering.absences)})}))
            case Neg(event):
                _find_index(event, self.numbering.negated)
                return _SubGraph(empty=FREE)
            case Seq(parts):
                return self._concatenate(map(self.build, parts))
            case Or(parts):
                built = list(map(self.build, parts))
                return _SubGraph(
                    {item: ways for part in built for item, ways in part.first.items()},
                    {item: ways for part in built for item, ways in part.last.items()},
                    _keep_weakest(guard for part in built for guard in part.empty),
                )
            case And(parts):
                return self._build_and(parts)
            case Repeat(part, low, None):
                required = [self.build(part) for _ in range(max(low - 1, 0))]
                looped = self.build(part)
                self._connect(looped, looped)
                return self._concatenate([*required, looped if low else _make_optional(looped)])
            case Repeat(part, low, high):
                copies = [self.build(part) for _ in range(high or 0)]
                tail = _SubGraph(empty=FREE)
                for copy in reversed(copies[low:]):  # copy i is round i: an optional one lies inside the one before it
                    tail = _make_optional(self._concatenate([copy, tail]))
                return self._concatenate([*copies[:low], tail])

    def _add_item(self, item: Leaf | Block) -> _SubGraph:
        self.items.append(item)
        number = len(self.items) - 1
        return _SubGraph({number: FREE}, {number: FREE})

    def _build_and(self, parts: tuple[Pattern, ...]) -> _SubGraph:
        operands = [part for part in parts if not isinstance(part, Neg)]
        for part in parts:
            if isinstance(part, Neg):
                _find_index(part.event, self.numbering.negated)
        if len(operands) == 1:
            return self.build(operands[0])
        graphs = tuple(_GraphBuilder(self.numbering).build_graph(operand) for operand in operands)
        block = self._add_item(Block(graphs))
        if all(graph.empty for graph in graphs):
            block.empty = FREE
        return block

    def _concatenate(self, parts: Iterable[_SubGraph]) -> _SubGraph:
        whole = _SubGraph(empty=FREE)
        for part in parts:
            self._connect(whole, part)
            whole = _SubGraph(
                _unite(whole.first, _extend_past(whole.empty, part.first)),
                _unite(part.last, _extend_past(part.empty, whole.last)),
                _combine(whole.empty, part.empty),
            )
        return whole

    def _connect(self, left: _SubGraph, right: _SubGraph) -> None:
        """Let each first item of one part follow each last item of another."""
        for p, after in left.last.items():
            for q, before in right.first.items():
                ways = _combine(after, before)
                self.follow[p, q] = _keep_weakest(self.follow[p, q] | ways) if (p, q) in self.follow else ways


def _find_index(event: Event, known: list[Event]) -> int:
    if event not in known:
        known.append(event)
    return known.index(event)


def _make_optional(part: _SubGraph) -> _SubGraph:
    return _SubGraph(part.first, part.last, FREE)


def _extend_past(empty: Ways, edges: dict[int, Ways]) -> dict[int, Ways]:
    """Return the edges of a part as seen past another part that binds nothing; none where it must bind something."""
    if empty == FREE:
        return edges
    return {item: _combine(empty, ways) for item, ways in edges.items()} if empty else {}


def _unite(one: dict[int, Ways], other: dict[int, Ways]) -> dict[int, Ways]:
    return {**one, **other, **{item: _keep_weakest(one[item] | other[item]) for item in one.keys() & other.keys()}}


def _combine(one: Ways, other: Ways) -> Ways:
    """Return the ways to meet one of the guards on either side."""
    if FREE in (one, other):
        return one if other == FREE else other
    return _keep_weakest(a | b for a in one for b in other)


def _keep_weakest(guards: Iterable[Guard]) -> Ways:
    """Drop guards that contain another: a match needs only one of them to hold."""
    found = set(guards)
    return frozenset(guard for guard in found if not any(other < guard for other in found))


def max_bindings(graph: PositionGraph, positions: frozenset[int]) -> float:
    """Return the largest number of events that one match may bind to some positions; infinite where they repeat."""
    found = [item.position for item in graph.items if isinstance(item, Leaf)]
    if len(found) == len(graph.items) and len(positions) == 1 and all(p < q for p, q in graph.follow):
        return float(not positions.isdisjoint(found))  # nothing is repeated
    weights = [
        float(item.position in positions)
        if isinstance(item, Leaf)
        else sum(max_bindings(operand, positions) for operand in item.operands)
        for item in graph.items
    ]
    best = {item: weights[item] for item in graph.first}
    edges = sorted(graph.follow)
    for _ in graph.items:
        before = dict(best)
        for p, q in edges:
            if p in best:
                best[q] = max(best.get(q, 0.0), best[p] + weights[q])
        if best == before:
            return max((best[item] for item in graph.last), default=0.0)
    return math.inf  # still growing: some path repeats them
