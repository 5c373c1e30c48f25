"""Patterns: what a query looks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from motet.model.span import QueryNode


@dataclass(frozen=True, slots=True)
class Event(QueryNode):
    """One event of a type, bound to a variable where one is named."""

    type: str
    variable: str | None = None

    @property
    def name(self) -> str:
        """What conditions and aggregates call this position: its variable, else its type."""
        return self.variable or self.type


@dataclass(frozen=True, slots=True)
class Seq(QueryNode):
    """All parts, one strictly after the other. A part may be a `Not` or a `Neg`."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class And(QueryNode):
    """All parts in any order, ties allowed, no event used twice. A part may be a `Neg`."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Or(QueryNode):
    """Any one of the parts."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeat(QueryNode):
    """`low` to `high` matches of the part, one strictly after the other; no limit where `high` is None."""

    part: Pattern
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Not(QueryNode):
    """No event of this kind in the gap of a SEQ where it stands."""

    event: Event


@dataclass(frozen=True, slots=True)
class Neg(QueryNode):
    """No event of this kind anywhere in the window of the match."""

    event: Event


Pattern = Event | Seq | And | Or | Repeat | Not | Neg


def children(pattern: Pattern) -> tuple[Pattern, ...]:
    """Return the parts directly below a pattern, in the order they are written."""
    match pattern:
        case Event():
            return ()
        case Seq(parts) | And(parts) | Or(parts):
            return parts
        case Repeat(part):
            return (part,)
        case Not(event) | Neg(event):
            return (event,)


def walk_pattern(pattern: Pattern) -> Iterator[Pattern]:
    """Yield a pattern and all parts below it, in the order they are written."""
    yield pattern
    for part in children(pattern):
        yield from walk_pattern(part)


def events(pattern: Pattern) -> list[Event]:
    """Return every event that a match binds, in the order written; those under NOT and NEG are left out."""
    if isinstance(pattern, Event):
        return [pattern]
    parts = () if isinstance(pattern, Not | Neg) else children(pattern)
    return [event for part in parts for event in events(part)]


def absences(pattern: Pattern) -> list[Not | Neg]:
    """Return every NOT and NEG of a pattern, in the order written."""
    return [part for part in walk_pattern(pattern) if isinstance(part, Not | Neg)]


def map_events(pattern: Pattern, change: Callable[[Event], Event]) -> Pattern:
    """Return a pattern with each event changed, those under NOT and NEG included, in the order written."""
    match pattern:
        case Event():
            return change(pattern)
        case Seq(parts) | And(parts) | Or(parts):
            return replace(pattern, parts=tuple(map_events(part, change) for part in parts))
        case Repeat(part):
            return replace(pattern, part=map_events(part, change))
        case Not(event) | Neg(event):
            return replace(pattern, event=change(event))
