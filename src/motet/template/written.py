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
class Beside:
    """All parts, in any order."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Either:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Rounds:
    """One round or more, one after the other."""

    part: Tree


@dataclass(frozen=True, slots=True)
class Maybe:
    part: Tree


Tree = Place | Gap | Chain | Beside | Either | Rounds | Maybe
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
        """The positions of a variable or, failing that, of a type."""
        named = tuple(p for p, event in enumerate(self.events) if event.variable == name)
        return named or tuple(p for p, event in enumerate(self.events) if event.type == name)


def write_out(pattern: Pattern) -> Written:
    """The positions of a pattern in the order written; `P{n,m}` is m copies, those beyond n nested and optional."""
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
                return Beside(self.write_all(parts, path))
            case Or(parts):
                return Either(self.write_all(parts, path))
            case Repeat(part, 0, None):
                return Maybe(Rounds(self.write(part, (*path, 0))))
            case Repeat(part, low, None):
                copies = [self.write(part, (*path, 0)) for _ in range(low)]
                return Chain((*copies[:-1], Rounds(copies[-1])))
            case Repeat(part, low, high):
                assert high is not None
                copies = [self.write(part, (*path, 0)) for _ in range(high)]
                optional: Tree = NOTHING
                for copy in reversed(copies[low:]):
                    optional = Maybe(Chain((copy, optional)))
                return Chain((*copies[:low], optional))

    def write_all(self, parts: Iterable[Pattern], path: tuple[int, ...]) -> tuple[Tree, ...]:
        written = [(part, self.write(part, (*path, at))) for at, part in enumerate(parts)]
        return tuple(tree for part, tree in written if not isinstance(part, Neg))


def may_be_empty(tree: Tree) -> bool:
    """Whether a tree may bind nothing."""
    match tree:
        case Place():
            return False
        case Gap() | Maybe():
            return True
        case Chain(parts) | Beside(parts):
            return all(map(may_be_empty, parts))
        case Either(parts):
            return any(map(may_be_empty, parts))
        case Rounds(part):
            return may_be_empty(part)


def most_bound(tree: Tree, positions: frozenset[int]) -> float:
    """The largest number of events that one match may bind to some positions."""
    match tree:
        case Place(position):
            return float(position in positions)
        case Gap():
            return 0.0
        case Chain(parts) | Beside(parts):
            return sum(most_bound(part, positions) for part in parts)
        case Either(parts):
            return max((most_bound(part, positions) for part in parts), default=0.0)
        case Rounds(part):
            return float("inf") if most_bound(part, positions) else 0.0
        case Maybe(part):
            return most_bound(part, positions)


def onward(tree: Tree) -> frozenset[tuple[int, Tree]]:
    """Every position that may be bound next, with what then remains (partial derivatives; AND interleaves)."""
    match tree:
        case Place(position):
            return frozenset({(position, NOTHING)})
        case Gap():
            return frozenset()
        case Chain(parts):
            if not parts:
                return frozenset()
            rest = Chain(parts[1:])
            here = frozenset((position, _then(left, rest)) for position, left in onward(parts[0]))
            return here | onward(rest) if may_be_empty(parts[0]) else here
        case Beside(parts):
            return frozenset(
                (position, Beside((*parts[:at], left, *parts[at + 1 :])))
                for at, part in enumerate(parts)
                for position, left in onward(part)
            )
        case Either(parts):
            return frozenset(step for part in parts for step in onward(part))
        case Rounds(part):
            return frozenset((position, _then(left, Maybe(tree))) for position, left in onward(part))
        case Maybe(part):
            return onward(part)


def _then(left: Tree, right: Tree) -> Tree:
    """A chain of two, flat, so that equal remainders are equal."""
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


def progress_of(tree: Tree, limit: int = 4096) -> Progress:
    """The automaton of remainders of a tree."""
    numbers: dict[frozenset[Tree], int] = {frozenset({tree}): 0}
    states = list(numbers)
    moves: list[dict[int, int]] = []
    while len(moves) < len(states):
        if len(states) > limit:
            raise TooManyStates
        reached: dict[int, set[Tree]] = {}
        for part in states[len(moves)]:
            for position, rest in onward(part):
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
