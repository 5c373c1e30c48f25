"""The ways to read a pattern: alternatives without choice, each a set of items, their order, and the gaps they guard.

OR, `?` and `{n,m}` become alternatives; what repeats without end becomes a *loop*, an item whose instances are paths
of its position automaton. So a reading is what a join tree can take. Where a pattern has too many readings, all of it
is one loop without a way back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

from motet.template.written import Beside, Chain, Either, Gap, Maybe, Place, Rounds, Tree

Guards = frozenset[int]  # absences that must hold together
Ways = frozenset[Guards]  # any of these will do; none contains another
FREE: Ways = frozenset({frozenset()})

MOST_READINGS = 64


@dataclass(frozen=True, slots=True)
class Leaf:
    """An item bound to one event."""

    position: int


@dataclass(frozen=True, slots=True)
class Block:
    """An AND as an item of a line."""

    readings: tuple[Reading, ...]


@dataclass(slots=True, eq=False)
class Line:
    """Items that follow one another: which may be first and last, which may follow which, and what each gap forbids.

    `empty` are the ways to pass without binding anything; none where that is impossible.
    """

    items: list[Leaf | Block] = field(default_factory=list)
    first: dict[int, Ways] = field(default_factory=dict)
    last: dict[int, Ways] = field(default_factory=dict)
    follow: dict[tuple[int, int], Ways] = field(default_factory=dict)
    empty: Ways = frozenset()


@dataclass(frozen=True, slots=True)
class Loop:
    """An item bound to a path of a line that begins and ends with one of some of its items."""

    line: Line
    firsts: frozenset[int]
    lasts: frozenset[int]

    @property
    def positions(self) -> frozenset[int]:
        return frozenset().union(*(_positions(item) for item in self.line.items))


Item = Leaf | Loop


def _positions(item: Leaf | Block | Loop) -> frozenset[int]:
    match item:
        case Leaf(position):
            return frozenset({position})
        case Loop():
            return item.positions
        case Block(readings):
            return frozenset().union(*(_positions(inner) for reading in readings for inner in reading.items))


def positions_of_item(item: Item) -> frozenset[int]:
    """The positions an item may bind."""
    return _positions(item)


@dataclass(frozen=True, slots=True)
class GapGuard:
    """No event of an absence between the last of some items and the first of others."""

    absence: int
    after: frozenset[Item]
    before: frozenset[Item]


@dataclass(frozen=True, slots=True)
class Reading:
    """Items bound together, `order` pairs of which the first ends before the second begins; all others share no event.

    `opening` and `closing` are absences that stand before and after all of it.
    """

    items: frozenset[Item] = frozenset()
    order: frozenset[tuple[Item, Item]] = frozenset()
    guards: frozenset[GapGuard] = frozenset()
    opening: Guards = frozenset()
    closing: Guards = frozenset()


class TooManyReadings(Exception):
    """A pattern has more alternatives than are worth listing."""


def readings_of(tree: Tree, most: int = MOST_READINGS) -> tuple[Reading, ...]:
    """Every reading of a tree that binds something."""
    found = _readings(tree, most)
    return tuple(sorted((reading for reading in found if reading.items), key=_written_order))


def whole_line(tree: Tree) -> tuple[Reading, ...]:
    """The tree as paths of one line, without alternatives but for what stands open at its ends."""
    return tuple(reading for reading in _variants(line_of(tree)) if reading.items)


def is_ambiguous(readings: Iterable[Reading]) -> bool:
    """Whether two readings, or two ways within one, may bind the same events to the same positions."""
    seen: set[frozenset[int]] = set()
    for reading in readings:
        bound = frozenset().union(*map(_positions, reading.items))
        loops = [item for item in reading.items if isinstance(item, Loop)]
        if bound in seen or any(isinstance(item, Block) for loop in loops for item in loop.line.items):
            return True
        seen.add(bound)
    return False


def _written_order(reading: Reading) -> tuple[object, ...]:
    places = sorted(min(_positions(item)) for item in reading.items)
    return (
        len(places),
        places,
        sorted(reading.opening),
        sorted(reading.closing),
        repr(sorted(map(_tag, reading.items))),
    )


def _tag(item: Item) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    if isinstance(item, Loop):
        return min(item.positions), tuple(sorted(item.firsts)), tuple(sorted(item.lasts))
    return item.position, (), ()


def _readings(tree: Tree, most: int) -> set[Reading]:
    match tree:
        case Place(position):
            return {Reading(frozenset({Leaf(position)}))}
        case Gap(absence):
            return {Reading(opening=frozenset({absence}), closing=frozenset({absence}))}
        case Chain(parts):
            return reduce(lambda lefts, part: _pairs(lefts, _readings(part, most), _in_order, most), parts, {Reading()})
        case Beside(parts):
            return reduce(
                lambda lefts, part: _pairs(lefts, _readings(part, most), _side_by_side, most), parts, {Reading()}
            )
        case Either(parts):
            return _not_too_many({reading for part in parts for reading in _readings(part, most)}, most)
        case Maybe(part):
            return _not_too_many(_readings(part, most) | {Reading()}, most)
        case Rounds():
            return _not_too_many(set(_variants(line_of(tree))), most)


def _not_too_many(found: set[Reading], most: int) -> set[Reading]:
    if len(found) > most:
        raise TooManyReadings
    return found


def _pairs(
    lefts: set[Reading], rights: set[Reading], joined: Callable[[Reading, Reading], Reading], most: int
) -> set[Reading]:
    if len(lefts) * len(rights) > most:
        raise TooManyReadings
    return {joined(left, right) for left in lefts for right in rights}


def _in_order(left: Reading, right: Reading) -> Reading:
    """One after the other: absences that stand open between them guard the gap."""
    if left.items and right.items:
        between = {GapGuard(absence, left.items, right.items) for absence in left.closing | right.opening}
        return Reading(
            left.items | right.items,
            left.order | right.order | {(a, b) for a in left.items for b in right.items},
            left.guards | right.guards | between,
            left.opening,
            right.closing,
        )
    bound = left if left.items else right
    return replace(
        bound,
        guards=left.guards | right.guards,
        opening=left.opening if left.items else left.opening | right.opening,
        closing=right.closing if right.items else left.closing | right.closing,
    )


def _side_by_side(left: Reading, right: Reading) -> Reading:
    """In any order: what stands open at the ends of a part of an AND has a reading without it."""
    return Reading(left.items | right.items, left.order | right.order, left.guards | right.guards)


def _variants(line: Line) -> list[Reading]:
    """The readings of a line: by what stands open at either end of its paths."""
    found = [Reading(opening=guards, closing=guards) for guards in line.empty]
    for opening in sorted(frozenset().union(*line.first.values()), key=sorted):
        for closing in sorted(frozenset().union(*line.last.values()), key=sorted):
            firsts = frozenset(item for item, ways in line.first.items() if opening in ways)
            lasts = frozenset(item for item, ways in line.last.items() if closing in ways)
            found.append(Reading(frozenset({Loop(line, firsts, lasts)}), opening=opening, closing=closing))
    return found


# Lines: Glushkov's construction, with the ways to cross each gap


def line_of(tree: Tree) -> Line:
    """The position automaton of a tree; an AND is one item."""
    line = Line(empty=FREE)
    return _line(tree, line.items)


def _line(tree: Tree, items: list[Leaf | Block]) -> Line:
    match tree:
        case Place(position):
            return _single(Leaf(position), items)
        case Gap(absence):
            return Line(items, empty=frozenset({frozenset({absence})}))
        case Chain(parts):
            return reduce(lambda left, part: _concatenated(left, _line(part, items)), parts, Line(items, empty=FREE))
        case Either(parts):
            lines = [_line(part, items) for part in parts]
            empty = _least(guards for line in lines for guards in line.empty)
            return Line(
                items,
                {item: ways for line in lines for item, ways in line.first.items()},
                {item: ways for line in lines for item, ways in line.last.items()},
                {pair: ways for line in lines for pair, ways in line.follow.items()},
                empty,
            )
        case Beside(parts):
            readings = _readings(Beside(parts), MOST_READINGS * MOST_READINGS)
            bound = tuple(sorted((reading for reading in readings if reading.items), key=_written_order))
            line = _single(Block(bound), items)
            line.empty = FREE if any(not reading.items for reading in readings) else frozenset()
            return line
        case Rounds(part):
            line = _line(part, items)
            for p, after in line.last.items():
                for q, before in line.first.items():
                    _cross(line.follow, p, q, after, before)
            return line
        case Maybe(part):
            line = _line(part, items)
            line.empty = FREE
            return line


def _single(item: Leaf | Block, items: list[Leaf | Block]) -> Line:
    items.append(item)
    number = len(items) - 1
    return Line(items, {number: FREE}, {number: FREE})


def _concatenated(left: Line, right: Line) -> Line:
    joined = Line(left.items, dict(left.first), dict(right.last), left.follow | right.follow)
    for p, after in left.last.items():
        for q, before in right.first.items():
            _cross(joined.follow, p, q, after, before)
    if left.empty:
        for q, before in right.first.items():
            joined.first[q] = _least((*joined.first.get(q, ()), *_together(left.empty, before)))
    if right.empty:
        for p, after in left.last.items():
            joined.last[p] = _least((*joined.last.get(p, ()), *_together(after, right.empty)))
    joined.empty = _together(left.empty, right.empty)
    return joined


def _cross(follow: dict[tuple[int, int], Ways], p: int, q: int, after: Ways, before: Ways) -> None:
    follow[p, q] = _least((*follow.get((p, q), ()), *_together(after, before)))


def _together(one: Ways, other: Ways) -> Ways:
    return _least(a | b for a in one for b in other)


def _least(ways: Iterable[Guards]) -> Ways:
    """The ways of which no other is a part: to forbid more never helps."""
    found = set(ways)
    return frozenset(guards for guards in found if not any(other < guards for other in found))
