"""A pattern written out into positions, and what can be told from it without looking at events."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq, events


@dataclass(frozen=True, slots=True)
class Place:
    """A position, to be bound to one event."""

    position: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A NOT: the number of the absent event in `Written.absent`."""

    absent: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; nothing at all where there are no parts."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """All, in any order."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Rounds:
    """One round or more, one after the other."""

    part: Tree


@dataclass(frozen=True, slots=True)
class Maybe:
    part: Tree


Tree = Place | Gap | Sequence | Together | Choice | Rounds | Maybe
NOTHING = Sequence(())


@dataclass(frozen=True, slots=True)
class Written:
    """A pattern with `P{n,m}` written out: positions point at written events, `never` holds the events under NEG."""

    tree: Tree
    events: tuple[Event, ...]
    position_events: tuple[int, ...]  # position -> which of `events`
    absent: tuple[Event, ...]
    never: tuple[Event, ...]

    def positions(self, name: str) -> frozenset[int]:
        """The positions of a variable or, failing that, of a type."""
        named = {number for number, event in enumerate(self.events) if event.variable == name}
        named = named or {number for number, event in enumerate(self.events) if event.type == name}
        return frozenset(position for position, number in enumerate(self.position_events) if number in named)

    def event(self, position: int) -> Event:
        return self.events[self.position_events[position]]


def write_out(pattern: Pattern) -> Written:
    """The positions of a pattern, in the order written."""
    positions: list[int] = []
    absent: list[Event] = []
    never: list[Event] = []

    def number(event: Event, events: list[Event]) -> int:
        if event not in events:
            events.append(event)
        return events.index(event)

    def write_all(parts: Iterable[Pattern], written: int) -> tuple[Tree, ...]:
        trees = []
        for part in parts:
            if isinstance(part, Neg):
                number(part.event, never)
            else:
                trees.append(write(part, written))
            written += len(events(part))
        return tuple(trees)

    def write(pattern: Pattern, written: int) -> Tree:
        """`written` is the number of the first event written in `pattern`; all copies of a part share it."""
        match pattern:
            case Event():
                positions.append(written)
                return Place(len(positions) - 1)
            case Not(event):
                return Gap(number(event, absent))
            case Neg(event):
                number(event, never)
                return NOTHING
            case Seq(parts):
                return Sequence(write_all(parts, written))
            case And(parts):
                return Together(write_all(parts, written))
            case Or(parts):
                return Choice(write_all(parts, written))
            case Repeat(part, 0, None):
                return Maybe(Rounds(write(part, written)))
            case Repeat(part, low, None):
                copies = [write(part, written) for _ in range(low - 1)]
                return Sequence((*copies, Rounds(write(part, written))))
            case Repeat(part, low, high):
                assert high is not None
                copies = [write(part, written) for _ in range(high)]
                # Round i is always copy i: an optional copy stands inside the one before it.
                optional: Tree = NOTHING
                for copy in reversed(copies[low:]):
                    optional = Maybe(Sequence((copy, optional)))
                return Sequence((*copies[:low], optional))

    tree = write(pattern, 0)
    return Written(tree, tuple(events(pattern)), tuple(positions), tuple(absent), tuple(never))


@dataclass(frozen=True, slots=True)
class Shape:
    """What a fragment of a match may look like: where it begins and ends, and whether a NOT stands open on its left
    and on its right. Both positions are None where it binds nothing; an AND counts as one position.
    """

    first: int | None
    last: int | None
    opens: bool
    closes: bool

    @property
    def binds(self) -> bool:
        return self.first is not None


VOID = Shape(None, None, False, False)


def shapes(tree: Tree) -> frozenset[Shape]:
    """Every shape the fragments of a tree can take."""
    match tree:
        case Place(position):
            return frozenset({Shape(position, position, False, False)})
        case Gap():
            return frozenset({Shape(None, None, True, True)})
        case Sequence(parts):
            return reduce(followed, map(shapes, parts), frozenset({VOID}))
        case Together(parts):
            inside = [shapes(part) for part in parts]
            ends = [shape.first for found in inside for shape in found if shape.first is not None]
            block = {Shape(min(ends), min(ends), False, False)} if ends else set()
            empty = all(any(not shape.binds for shape in found) for found in inside)
            return frozenset(block | {VOID} if empty else block)
        case Choice(parts):
            return frozenset(shape for part in parts for shape in shapes(part))
        case Rounds(part):
            once = shapes(part)
            found = once
            while not (more := followed(found, once)) <= found:
                found |= more
            return found
        case Maybe(part):
            return shapes(part) | {VOID}


def followed(lefts: frozenset[Shape], rights: frozenset[Shape]) -> frozenset[Shape]:
    return frozenset(
        Shape(
            left.first if left.binds else right.first,
            right.last if right.binds else left.last,
            left.opens or (not left.binds and right.opens),
            right.closes or (not right.binds and left.closes),
        )
        for left in lefts
        for right in rights
    )


def may_begin_with_not(tree: Tree) -> bool:
    """Whether some match has a NOT before all it binds, however it is read."""
    found = [shape for shape in shapes(tree) if shape.binds]
    firsts = {shape.first for shape in found}
    return any(all(shape.opens for shape in found if shape.first == first) for first in firsts)


def may_end_with_not(tree: Tree) -> bool:
    """Whether some match has a NOT after all it binds, however it is read."""
    found = [shape for shape in shapes(tree) if shape.binds]
    lasts = {shape.last for shape in found}
    return any(all(shape.closes for shape in found if shape.last == last) for last in lasts)


def is_not_alone(tree: Tree) -> bool:
    """Whether a NOT remains where nothing is bound, however that is read."""
    empty = [shape for shape in shapes(tree) if not shape.binds]
    return bool(empty) and all(shape.opens for shape in empty)


def open_in_together(tree: Tree) -> bool:
    """Whether a NOT in a part of an AND may lack a bound event on one side."""
    match tree:
        case Place() | Gap():
            return False
        case Together(parts):
            return any(
                may_begin_with_not(part) or may_end_with_not(part) or is_not_alone(part) or open_in_together(part)
                for part in parts
            )
        case Sequence(parts) | Choice(parts):
            return any(map(open_in_together, parts))
        case Rounds(part) | Maybe(part):
            return open_in_together(part)


def most_bound(tree: Tree, positions: frozenset[int]) -> int | float:
    """The largest number of events one match may bind to a set of positions."""
    match tree:
        case Place(position):
            return int(position in positions)
        case Gap():
            return 0
        case Sequence(parts) | Together(parts):
            return sum(most_bound(part, positions) for part in parts)
        case Choice(parts):
            return max((most_bound(part, positions) for part in parts), default=0)
        case Rounds(part):
            return math.inf if most_bound(part, positions) else 0
        case Maybe(part):
            return most_bound(part, positions)


def nullable(tree: Tree) -> bool:
    """Whether a tree may bind nothing."""
    return any(not shape.binds for shape in shapes(tree))


def steps(tree: Tree) -> frozenset[tuple[int, Tree]]:
    """Every position that may be bound next, with what then remains (partial derivatives; AND interleaves)."""
    match tree:
        case Place(position):
            return frozenset({(position, NOTHING)})
        case Gap():
            return frozenset()
        case Sequence(parts):
            if not parts:
                return frozenset()
            head, rest = parts[0], Sequence(parts[1:])
            here = frozenset((position, then(left, rest)) for position, left in steps(head))
            return here | steps(rest) if nullable(head) else here
        case Together(parts):
            return frozenset(
                (position, Together((*parts[:number], left, *parts[number + 1 :])))
                for number, part in enumerate(parts)
                for position, left in steps(part)
            )
        case Choice(parts):
            return frozenset(step for part in parts for step in steps(part))
        case Rounds(part):
            return frozenset((position, then(left, Maybe(tree))) for position, left in steps(part))
        case Maybe(part):
            return steps(part)


def then(left: Tree, right: Tree) -> Tree:
    """A sequence of two, with nothing left out so that equal remainders are equal."""
    parts = (*(left.parts if isinstance(left, Sequence) else (left,)),)
    parts += right.parts if isinstance(right, Sequence) else (right,)
    return parts[0] if len(parts) == 1 else Sequence(parts)


def follows(tree: Tree) -> dict[int, set[int]]:
    """For each position the positions that may be bound directly after it."""
    following: dict[int, set[int]] = {}
    seen: set[Tree] = set()
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        for position, rest in steps(here):
            following.setdefault(position, set()).update(after for after, _ in steps(rest))
            waiting.append(rest)
    return following


def reachable(following: dict[int, set[int]]) -> dict[int, set[int]]:
    """For each position the positions that may be bound at any later step."""
    later = {position: set(after) for position, after in following.items()}
    changed = True
    while changed:
        changed = False
        for after in later.values():
            more = set().union(*(later.get(position, set()) for position in after)) - after
            if more:
                after |= more
                changed = True
    return later


def are_neighbours(tree: Tree, left: frozenset[int], right: frozenset[int]) -> bool:
    """Whether two variables are bound at most once each and, whenever both are, one directly follows the other."""
    if most_bound(tree, left) > 1 or most_bound(tree, right) > 1:
        return False
    later = reachable(follows(tree))
    return not any(
        middle in later[start] and end in later[middle]
        for start, end in [(a, b) for a in left for b in right] + [(b, a) for a in left for b in right]
        for middle in later
    )


def next_is_adjacent(tree: Tree, positions: frozenset[int]) -> bool:
    """Whether nothing else can be bound between two events of one variable that follow each other."""
    later = reachable(follows(tree))
    return not any(
        middle in later[start] and end in later[middle]
        for start in positions
        for end in positions
        for middle in later
        if middle not in positions
    )
