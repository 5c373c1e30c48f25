"""The position (Glushkov) automaton of a pattern, with the absences that guard its gaps.

A pattern becomes a `Line`: items, which of them may come first and last, and which may follow which. An item is a
position or an AND block, whose operands are lines of their own. Every gap carries the set of absences (NOT) that
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


class Unsupported(Exception):
    """A pattern that no engine here can take as it stands."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


@dataclass(slots=True)
class Line:
    """Items in linear order: `empty` is the guard of the empty word, None where there is none."""

    first: dict[int, Guard] = field(default_factory=dict)
    last: dict[int, Guard] = field(default_factory=dict)
    follow: dict[tuple[int, int], Guard] = field(default_factory=dict)
    empty: Guard | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """An AND: its operands run side by side."""

    operands: tuple[Line, ...]


@dataclass(slots=True)
class Positions:
    """A pattern's positions (`events`), its items (a position's number or a block), absences and its top line."""

    events: list[Event]
    items: list[int | Block]
    absences: list[Event]
    line: Line
    negated: list[Event]

    def of_name(self, name: str) -> list[int]:
        """The positions a variable (or type name) stands for."""
        named = [p for p, event in enumerate(self.events) if event.variable == name]
        return named or [p for p, event in enumerate(self.events) if event.type == name]


def positions_of(pattern: Pattern) -> Positions:
    """Number a pattern's positions and connect them."""
    found = Positions([], [], [], Line(), [])
    found.line = _line(pattern, found)
    return found


def _line(pattern: Pattern, found: Positions) -> Line:
    match pattern:
        case Event():
            found.events.append(pattern)
            return _single(found, len(found.events) - 1)
        case Not(event):
            # Copies of one NOT are one absence: an event that belies one belies them all.
            if event not in found.absences:
                found.absences.append(event)
            return Line(empty=frozenset((found.absences.index(event),)))
        case Neg(event):
            found.negated.append(event)
            return Line(empty=OPEN)
        case Seq(parts):
            line = Line(empty=OPEN)
            for part in parts:
                line = _concatenate(line, _line(part, found))
            return line
        case Or(parts):
            line = Line()
            for part in parts:
                line = _either(line, _line(part, found))
            return line
        case And(parts):
            operands = tuple(_line(part, found) for part in parts if not isinstance(part, Neg))
            found.negated += [part.event for part in parts if isinstance(part, Neg)]
            return _block(pattern, operands, found)
        case Repeat(part, low, high):
            return _repeat(part, low, high, found)


def _single(found: Positions, item: int | Block) -> Line:
    found.items.append(item)
    number = len(found.items) - 1
    return Line(first={number: OPEN}, last={number: OPEN})


def _block(pattern: And, operands: tuple[Line, ...], found: Positions) -> Line:
    for operand in operands:
        if any((*operand.first.values(), *operand.last.values(), operand.empty)):
            raise Unsupported(
                Diagnostic(
                    "a NOT at the edge of a part of an AND has no neighbour to stand between",
                    pattern.span,
                    hint="put it between two events of that part, or use NEG for 'nowhere in the window'",
                )
            )
    if len(operands) == 1:
        return operands[0]
    line = _single(found, Block(operands))
    if all(operand.empty is not None for operand in operands):
        line.empty = OPEN
    return line


def _repeat(part: Pattern, low: int, high: int | None, found: Positions) -> Line:
    """`P{n,m}` written out: n copies, then nested optional ones; without an upper end the last copy loops."""
    required = low if high is not None else max(low - 1, 0)
    line = Line(empty=OPEN)
    for _ in range(required):
        line = _concatenate(line, _line(part, found))
    if high is None:
        tail = _loop(_line(part, found))
        if low == 0:
            tail = _optional(tail)
    else:
        copies = [_line(part, found) for _ in range(high - low)]
        tail = Line(empty=OPEN)
        for copy in reversed(copies):
            tail = _optional(_concatenate(copy, tail))
    return _concatenate(line, tail)


def _loop(line: Line) -> Line:
    for p, after in line.last.items():
        for q, before in line.first.items():
            _connect(line.follow, (p, q), after | before)
    return line


def _optional(line: Line) -> Line:
    line.empty = OPEN
    return line


def _concatenate(left: Line, right: Line) -> Line:
    joined = Line(first=dict(left.first), last=dict(right.last), follow=left.follow | right.follow)
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


def _either(left: Line, right: Line) -> Line:
    empty = (
        left.empty if right.empty is None else right.empty if left.empty is None else _weaker(left.empty, right.empty)
    )
    return Line(left.first | right.first, left.last | right.last, left.follow | right.follow, empty)


def _connect(gaps: dict[Gap, Guard], gap: Gap, guard: Guard) -> None:
    gaps[gap] = _weaker(gaps[gap], guard) if gap in gaps else guard


def _weaker(one: Guard, other: Guard) -> Guard:
    """The guard of a gap that may be crossed in two ways: a match needs only one of them to hold."""
    if one <= other:
        return one
    if other <= one:
        return other
    raise Unsupported(
        Diagnostic(
            "two different NOTs guard the same gap, either of which would do",
            hint="write the alternatives as an OR of two patterns with events of their own",
        )
    )
