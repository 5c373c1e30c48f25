"""A pattern expanded into positions, and what follows from it without looking at events."""

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
class Absence:
    """A NOT: the number of the absent event in `ExpandedPattern.absent`."""

    absent: int


@dataclass(frozen=True, slots=True)
class Chain:
    """One after the other; nothing at all where there are no parts."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Interleave:
    """All, in any order."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of several parts."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Plus:
    """One round or more, one after the other."""

    part: Tree


@dataclass(frozen=True, slots=True)
class Optional:
    """A part, or nothing."""

    part: Tree


Tree = Place | Absence | Chain | Interleave | Alternation | Plus | Optional
NOTHING = Chain(())


@dataclass(frozen=True, slots=True)
class ExpandedPattern:
    """A pattern with `P{n,m}` written out: positions point at written events, `never` holds the events under NEG."""

    tree: Tree
    events: tuple[Event, ...]
    position_events: tuple[int, ...]  # position -> which of `events`
    absent: tuple[Event, ...]
    never: tuple[Event, ...]

    def positions(self, name: str) -> frozenset[int]:
        """Return the positions of a variable or, failing that, of a type."""
        named = {number for number, event in enumerate(self.events) if event.variable == name}
        named = named or {number for number, event in enumerate(self.events) if event.type == name}
        return frozenset(position for position, number in enumerate(self.position_events) if number in named)

    def event(self, position: int) -> Event:
        return self.events[self.position_events[position]]


def expand_pattern(pattern: Pattern) -> ExpandedPattern:
    """Write a pattern out into positions, numbered in the order written."""
    positions: list[int] = []
    absent: list[Event] = []
    never: list[Event] = []

    def number(event: Event, events: list[Event]) -> int:
        if event not in events:
            events.append(event)
        return events.index(event)

    def write_all(parts: Iterable[Pattern], first_event: int) -> tuple[Tree, ...]:
        trees = []
        for part in parts:
            if isinstance(part, Neg):
                number(part.event, never)
            else:
                trees.append(write(part, first_event))
            first_event += len(events(part))
        return tuple(trees)

    def write(pattern: Pattern, first_event: int) -> Tree:
        """`first_event` is the number of the first event written in `pattern`; all copies of a part share it."""
        match pattern:
            case Event():
                positions.append(first_event)
                return Place(len(positions) - 1)
            case Not(event):
                return Absence(number(event, absent))
            case Neg(event):
                number(event, never)
                return NOTHING
            case Seq(parts):
                return Chain(write_all(parts, first_event))
            case And(parts):
                return Interleave(write_all(parts, first_event))
            case Or(parts):
                return Alternation(write_all(parts, first_event))
            case Repeat(part, 0, None):
                return Optional(Plus(write(part, first_event)))
            case Repeat(part, low, None):
                copies = [write(part, first_event) for _ in range(low - 1)]
                return Chain((*copies, Plus(write(part, first_event))))
            case Repeat(part, low, high):
                assert high is not None
                copies = [write(part, first_event) for _ in range(high)]
                # Round i is always copy i: an optional copy stands inside the one before it.
                optional: Tree = NOTHING
                for copy in reversed(copies[low:]):
                    optional = Optional(Chain((copy, optional)))
                return Chain((*copies[:low], optional))

    tree = write(pattern, 0)
    return ExpandedPattern(tree, tuple(events(pattern)), tuple(positions), tuple(absent), tuple(never))


@dataclass(frozen=True, slots=True)
class FragmentShape:
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


VOID = FragmentShape(None, None, False, False)


def list_shapes(tree: Tree) -> frozenset[FragmentShape]:
    """List every shape the fragments of a tree can take."""
    match tree:
        case Place(position):
            return frozenset({FragmentShape(position, position, False, False)})
        case Absence():
            return frozenset({FragmentShape(None, None, True, True)})
        case Chain(parts):
            return reduce(join_shapes, map(list_shapes, parts), frozenset({VOID}))
        case Interleave(parts):
            inside = [list_shapes(part) for part in parts]
            ends = [shape.first for found in inside for shape in found if shape.first is not None]
            block = {FragmentShape(min(ends), min(ends), False, False)} if ends else set()
            empty = all(any(not shape.binds for shape in found) for found in inside)
            return frozenset(block | {VOID} if empty else block)
        case Alternation(parts):
            return frozenset(shape for part in parts for shape in list_shapes(part))
        case Plus(part):
            once = list_shapes(part)
            found = once
            while not (more := join_shapes(found, once)) <= found:
                found |= more
            return found
        case Optional(part):
            return list_shapes(part) | {VOID}


def join_shapes(lefts: frozenset[FragmentShape], rights: frozenset[FragmentShape]) -> frozenset[FragmentShape]:
    """Return the shapes of a fragment that is followed by another."""
    return frozenset(
        FragmentShape(
            left.first if left.binds else right.first,
            right.last if right.binds else left.last,
            left.opens or (not left.binds and right.opens),
            right.closes or (not right.binds and left.closes),
        )
        for left in lefts
        for right in rights
    )


def can_begin_with_not(tree: Tree) -> bool:
    """Return whether some match has a NOT before all it binds, however it is read."""
    found = [shape for shape in list_shapes(tree) if shape.binds]
    firsts = {shape.first for shape in found}
    return any(all(shape.opens for shape in found if shape.first == first) for first in firsts)


def can_end_with_not(tree: Tree) -> bool:
    """Return whether some match has a NOT after all it binds, however it is read."""
    found = [shape for shape in list_shapes(tree) if shape.binds]
    lasts = {shape.last for shape in found}
    return any(all(shape.closes for shape in found if shape.last == last) for last in lasts)


def has_bare_not(tree: Tree) -> bool:
    """Return whether a NOT remains where nothing is bound, however that is read."""
    empty = [shape for shape in list_shapes(tree) if not shape.binds]
    return bool(empty) and all(shape.opens for shape in empty)


def has_open_not_in_and(tree: Tree) -> bool:
    """Return whether a NOT in a part of an AND may lack a bound event on one side."""
    match tree:
        case Place() | Absence():
            return False
        case Interleave(parts):
            return any(
                can_begin_with_not(part) or can_end_with_not(part) or has_bare_not(part) or has_open_not_in_and(part)
                for part in parts
            )
        case Chain(parts) | Alternation(parts):
            return any(map(has_open_not_in_and, parts))
        case Plus(part) | Optional(part):
            return has_open_not_in_and(part)


def max_bindings(tree: Tree, positions: frozenset[int]) -> int | float:
    """Return the largest number of events one match may bind to a set of positions."""
    match tree:
        case Place(position):
            return int(position in positions)
        case Absence():
            return 0
        case Chain(parts) | Interleave(parts):
            return sum(max_bindings(part, positions) for part in parts)
        case Alternation(parts):
            return max((max_bindings(part, positions) for part in parts), default=0)
        case Plus(part):
            return math.inf if max_bindings(part, positions) else 0
        case Optional(part):
            return max_bindings(part, positions)


def is_nullable(tree: Tree) -> bool:
    """Return whether a tree may bind nothing."""
    return any(not shape.binds for shape in list_shapes(tree))


def list_steps(tree: Tree) -> frozenset[tuple[int, Tree]]:
    """List every position that may be bound next, with what then remains (partial derivatives; AND interleaves)."""
    match tree:
        case Place(position):
            return frozenset({(position, NOTHING)})
        case Absence():
            return frozenset()
        case Chain(parts):
            if not parts:
                return frozenset()
            head, rest = parts[0], Chain(parts[1:])
            here = frozenset((position, chain_two(left, rest)) for position, left in list_steps(head))
            return here | list_steps(rest) if is_nullable(head) else here
        case Interleave(parts):
            return frozenset(
                (position, Interleave((*parts[:number], left, *parts[number + 1 :])))
                for number, part in enumerate(parts)
                for position, left in list_steps(part)
            )
        case Alternation(parts):
            return frozenset(step for part in parts for step in list_steps(part))
        case Plus(part):
            return frozenset((position, chain_two(left, Optional(tree))) for position, left in list_steps(part))
        case Optional(part):
            return list_steps(part)


def chain_two(left: Tree, right: Tree) -> Tree:
    """Chain two trees, flat, so that equal remainders are equal."""
    parts = (*(left.parts if isinstance(left, Chain) else (left,)),)
    parts += right.parts if isinstance(right, Chain) else (right,)
    return parts[0] if len(parts) == 1 else Chain(parts)


def list_followers(tree: Tree) -> dict[int, set[int]]:
    """List for each position those that may be bound directly after it."""
    following: dict[int, set[int]] = {}
    seen: set[Tree] = set()
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        for position, rest in list_steps(here):
            following.setdefault(position, set()).update(after for after, _ in list_steps(rest))
            waiting.append(rest)
    return following


def find_reachable(following: dict[int, set[int]]) -> dict[int, set[int]]:
    """Find for each position those that may be bound at any later step."""
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
    """Return whether two variables are bound at most once each and, where both are, one directly after the other."""
    if max_bindings(tree, left) > 1 or max_bindings(tree, right) > 1:
        return False
    later = find_reachable(list_followers(tree))
    return not any(
        middle in later[start] and end in later[middle]
        for start, end in [(a, b) for a in left for b in right] + [(b, a) for a in left for b in right]
        for middle in later
    )


def next_is_adjacent(tree: Tree, positions: frozenset[int]) -> bool:
    """Return whether nothing else can be bound between two events of one variable that follow each other."""
    later = find_reachable(list_followers(tree))
    return not any(
        middle in later[start] and end in later[middle]
        for start in positions
        for end in positions
        for middle in later
        if middle not in positions
    )
