"""The position (Glushkov) automaton of a pattern, with the absences that guard its gaps.

A pattern becomes a `PositionGraph`: items, which of them may come first and last, and which may follow which. An item
is a position or an AND block, whose operands are graphs of their own. Every gap carries the set of absences (NOT) that
must hold across it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from motet.errors import Diagnostic
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq

Guard = frozenset[int]  # indexes into Positions.absences
OPEN: Guard = frozenset()
Gap = TypeVar("Gap", int, tuple[int, int])


class UnsupportedPattern(Exception):
    """A pattern that no engine here can take as it stands."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


@dataclass(slots=True)
class PositionGraph:
    """Items in linear order: `empty` is the guard of the empty word, None where there is none."""

    first: dict[int, Guard] = field(default_factory=dict)
    last: dict[int, Guard] = field(default_factory=dict)
    follow: dict[tuple[int, int], Guard] = field(default_factory=dict)
    empty: Guard | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """An AND: its operands run side by side."""

    operands: tuple[PositionGraph, ...]


@dataclass(slots=True)
class Positions:
    """A pattern's positions (`events`), its items (a position's number or a block), absences and its top line."""

    events: list[Event]
    items: list[int | Block]
    absences: list[Event]
    graph: PositionGraph
    negated: list[Event]

    def of_name(self, name: str) -> list[int]:
        """Return the positions a variable (or type name) stands for."""
        named = [p for p, event in enumerate(self.events) if event.variable == name]
        return named or [p for p, event in enumerate(self.events) if event.type == name]


def build_positions(pattern: Pattern) -> Positions:
    """Number a pattern's positions and connect them."""
    found = Positions([], [], [], PositionGraph(), [])
    found.graph = _build_graph(pattern, found)
    return found


def _build_graph(pattern: Pattern, found: Positions) -> PositionGraph:
    match pattern:
        case Event():
            found.events.append(pattern)
            return _single(found, len(found.events) - 1)
        case Not(event):
            # Copies of one NOT are one absence: an event that belies one belies them all.
            if event not in found.absences:
                found.absences.append(event)
            return PositionGraph(empty=frozenset((found.absences.index(event),)))
        case Neg(event):
            found.negated.append(event)
            return PositionGraph(empty=OPEN)
        case Seq(parts):
            graph = PositionGraph(empty=OPEN)
            for part in parts:
                graph = _concatenate(graph, _build_graph(part, found))
            return graph
        case Or(parts):
            graph = PositionGraph()
            for part in parts:
                graph = _either(graph, _build_graph(part, found))
            return graph
        case And(parts):
            operands = tuple(_build_graph(part, found) for part in parts if not isinstance(part, Neg))
            found.negated += [part.event for part in parts if isinstance(part, Neg)]
            return _block(pattern, operands, found)
        case Repeat(part, low, high):
            return _repeat(part, low, high, found)


def _single(found: Positions, item: int | Block) -> PositionGraph:
    found.items.append(item)
    number = len(found.items) - 1
    return PositionGraph(first={number: OPEN}, last={number: OPEN})


def _block(pattern: And, operands: tuple[PositionGraph, ...], found: Positions) -> PositionGraph:
    for operand in operands:
        if any((*operand.first.values(), *operand.last.values(), operand.empty)):
            raise UnsupportedPattern(
                Diagnostic(
                    "a NOT at the edge of a part of an AND has no neighbour to stand between",
                    pattern.span,
                    hint="put it between two events of that part, or use NEG for 'nowhere in the window'",
                )
            )
    if len(operands) == 1:
        return operands[0]
    graph = _single(found, Block(operands))
    if all(operand.empty is not None for operand in operands):
        graph.empty = OPEN
    return graph


def _repeat(part: Pattern, low: int, high: int | None, found: Positions) -> PositionGraph:
    """`P{n,m}` written out: n copies, then nested optional ones; without an upper end the last copy loops."""
    required = low if high is not None else max(low - 1, 0)
    graph = PositionGraph(empty=OPEN)
    for _ in range(required):
        graph = _concatenate(graph, _build_graph(part, found))
    if high is None:
        tail = _loop(_build_graph(part, found))
        if low == 0:
            tail = _optional(tail)
    else:
        copies = [_build_graph(part, found) for _ in range(high - low)]
        tail = PositionGraph(empty=OPEN)
        for copy in reversed(copies):
            tail = _optional(_concatenate(copy, tail))
    return _concatenate(graph, tail)


def _loop(graph: PositionGraph) -> PositionGraph:
    for p, after in graph.last.items():
        for q, before in graph.first.items():
            _connect(graph.follow, (p, q), after | before)
    return graph


def _optional(graph: PositionGraph) -> PositionGraph:
    graph.empty = OPEN
    return graph


def _concatenate(left: PositionGraph, right: PositionGraph) -> PositionGraph:
    joined = PositionGraph(first=dict(left.first), last=dict(right.last), follow=left.follow | right.follow)
    for p, after in left.last.items():
        for q, before in right.first.items():
            _connect(joined.follow, (p, q), after | before)
    if left.empty is not None:
        for q, before in right.first.items():
            _connect(joined.first, q, left.empty | before)
    if right.empty is not None:
        for p, after in left.last.items():
            _connect(joined.last, p, after | right.empty)
    if left.empty is not None and right.empty is not None:
        joined.empty = left.empty | right.empty
    return joined


def _either(left: PositionGraph, right: PositionGraph) -> PositionGraph:
    empty = (
        left.empty if right.empty is None else right.empty if left.empty is None else _weaker(left.empty, right.empty)
    )
    return PositionGraph(left.first | right.first, left.last | right.last, left.follow | right.follow, empty)


def _connect(gaps: dict[Gap, Guard], gap: Gap, guard: Guard) -> None:
    gaps[gap] = _weaker(gaps[gap], guard) if gap in gaps else guard


def _weaker(one: Guard, other: Guard) -> Guard:
    """Return the guard of a gap that may be crossed in two ways: a match needs only one of them to hold."""
    if one <= other:
        return one
    if other <= one:
        return other
    raise UnsupportedPattern(
        Diagnostic(
            "two different NOTs guard the same gap, either of which would do",
            hint="write the alternatives as an OR of two patterns with events of their own",
        )
    )
