"""A pattern written out for detection: positions, gaps, and what may be bound next after a path of positions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq


@dataclass(frozen=True, slots=True)
class Place:
    """A position, to be bound to one event."""

    position: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A NOT, by the number of its absence."""

    absence: int


@dataclass(frozen=True, slots=True)
class Chain:
    """One part after the other; nothing at all where there are none."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Interleave:
    """All parts, in any order."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Plus:
    """One round or more, one after the other."""

    part: Tree


@dataclass(frozen=True, slots=True)
class Optional:
    part: Tree


Tree = Place | Gap | Chain | Interleave | Alternation | Plus | Optional
NOTHING = Chain(())


@dataclass(frozen=True, slots=True)
class Written:
    """A pattern's tree, the event of each position, and the events that must be absent: in gaps (NOT), anywhere (NEG).

    `copies` tells which written event each position is a copy of.
    """

    tree: Tree
    events: tuple[Event, ...]
    copies: tuple[int, ...]
    absences: tuple[Event, ...]
    negated: tuple[Event, ...]

    def of_name(self, name: str) -> tuple[int, ...]:
        """Return the positions of a variable or, failing that, of a type."""
        named = tuple(p for p, event in enumerate(self.events) if event.variable == name)
        return named or tuple(p for p, event in enumerate(self.events) if event.type == name)


def expand_pattern(pattern: Pattern) -> Written:
    """List a pattern's positions in the order written; `P{n,m}` is m copies, those beyond n nested and optional."""
    writer = _Writer([], [], {}, {}, {})
    tree = writer.write(pattern, ())
    return Written(tree, tuple(writer.events), tuple(writer.copies), tuple(writer.absences), tuple(writer.negated))


@dataclass
class _Writer:
    events: list[Event]
    copies: list[int]
    absences: dict[Event, int]
    negated: dict[Event, int]
    places: dict[tuple[int, ...], int]

    def write(self, pattern: Pattern, path: tuple[int, ...]) -> Tree:
        """`path` leads to the pattern in the text, so that copies of one event are known as such."""
        match pattern:
            case Event():
                self.events.append(pattern)
                self.copies.append(self.places.setdefault(path, len(self.places)))
                return Place(len(self.events) - 1)
            case Not(event):
                return Gap(self.absences.setdefault(event, len(self.absences)))
            case Neg(event):
                self.negated.setdefault(event, len(self.negated))
                return NOTHING
            case Seq(parts):
                return Chain(self.write_all(parts, path))
            case And(parts):
                return Interleave(self.write_all(parts, path))
            case Or(parts):
                return Alternation(self.write_all(parts, path))
            case Repeat(part, 0, None):
                return Optional(Plus(self.write(part, (*path, 0))))
            case Repeat(part, low, None):
                copies = [self.write(part, (*path, 0)) for _ in range(low)]
                return Chain((*copies[:-1], Plus(copies[-1])))
            case Repeat(part, low, high):
                assert high is not None
                copies = [self.write(part, (*path, 0)) for _ in range(high)]
                optional: Tree = NOTHING
                for copy in reversed(copies[low:]):
                    optional = Optional(Chain((copy, optional)))
                return Chain((*copies[:low], optional))

    def write_all(self, parts: Iterable[Pattern], path: tuple[int, ...]) -> tuple[Tree, ...]:
        written = [(part, self.write(part, (*path, at))) for at, part in enumerate(parts)]
        return tuple(tree for part, tree in written if not isinstance(part, Neg))


def can_be_empty(tree: Tree) -> bool:
    """Return whether a tree may bind nothing."""
    match tree:
        case Place():
            return False
        case Gap() | Optional():
            return True
        case Chain(parts) | Interleave(parts):
            return all(map(can_be_empty, parts))
        case Alternation(parts):
            return any(map(can_be_empty, parts))
        case Plus(part):
            return can_be_empty(part)


def max_bindings(tree: Tree, positions: frozenset[int]) -> float:
    """Return the largest number of events that one match may bind to some positions."""
    match tree:
        case Place(position):
            return float(position in positions)
        case Gap():
            return 0.0
        case Chain(parts) | Interleave(parts):
            return sum(max_bindings(part, positions) for part in parts)
        case Alternation(parts):
            return max((max_bindings(part, positions) for part in parts), default=0.0)
        case Plus(part):
            return float("inf") if max_bindings(part, positions) else 0.0
        case Optional(part):
            return max_bindings(part, positions)


def list_steps(tree: Tree) -> frozenset[tuple[int, Tree]]:
    """Return every position that may be bound next, with what then remains (partial derivatives; AND interleaves)."""
    match tree:
        case Place(position):
            return frozenset({(position, NOTHING)})
        case Gap():
            return frozenset()
        case Chain(parts):
            if not parts:
                return frozenset()
            rest = Chain(parts[1:])
            here = frozenset((position, _chain_two(left, rest)) for position, left in list_steps(parts[0]))
            return here | list_steps(rest) if can_be_empty(parts[0]) else here
        case Interleave(parts):
            return frozenset(
                (position, Interleave((*parts[:at], left, *parts[at + 1 :])))
                for at, part in enumerate(parts)
                for position, left in list_steps(part)
            )
        case Alternation(parts):
            return frozenset(step for part in parts for step in list_steps(part))
        case Plus(part):
            return frozenset((position, _chain_two(left, Optional(tree))) for position, left in list_steps(part))
        case Optional(part):
            return list_steps(part)


def _chain_two(left: Tree, right: Tree) -> Tree:
    """Return a chain of two, flat, so that equal remainders are equal."""
    parts = left.parts if isinstance(left, Chain) else (left,)
    parts += right.parts if isinstance(right, Chain) else (right,)
    return parts[0] if len(parts) == 1 else Chain(parts)


class TooManyStates(Exception):
    """The paths of a pattern have too many different remainders to be listed."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What may come next along a path of positions: a deterministic automaton whose state 0 is the beginning.

    `moves[state]` maps each position that may be bound next to the state it leads to.
    """

    moves: tuple[dict[int, int], ...]


def build_progress(tree: Tree, limit: int = 4096) -> Progress:
    """Return the automaton of remainders of a tree."""
    numbers: dict[frozenset[Tree], int] = {frozenset({tree}): 0}
    states = list(numbers)
    moves: list[dict[int, int]] = []
    while len(moves) < len(states):
        if len(states) > limit:
            raise TooManyStates
        reached: dict[int, set[Tree]] = {}
        for part in states[len(moves)]:
            for position, rest in list_steps(part):
                reached.setdefault(position, set()).add(rest)
        found = {}
        for position, rests in reached.items():
            state = frozenset(rests)
            if state not in numbers:
                numbers[state] = len(states)
                states.append(state)
            found[position] = numbers[state]
        moves.append(found)
    return Progress(tuple(moves))
