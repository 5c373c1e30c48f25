"""The ways to read a pattern: alternatives without choice, each a set of items, their order, and the gaps they guard.

OR, `?` and `{n,m}` become alternatives; what repeats without end becomes a *loop*, an item whose instances are paths
of its position automaton. So a reading is what a join tree can take. Where a pattern has too many readings, all of it
is one loop without a way back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

from motet.template.written import Alternation, Chain, Gap, Interleave, Optional, Place, Plus, Tree

Guards = frozenset[int]  # absences that must hold together
Ways = frozenset[Guards]  # any of these will do; none contains another
FREE: Ways = frozenset({frozenset()})

MAX_ALTERNATIVES = 64


@dataclass(frozen=True, slots=True)
class Leaf:
    """An item bound to one event."""

    position: int


@dataclass(frozen=True, slots=True)
class Block:
    """An AND as an item of a line."""

    readings: tuple[Alternative, ...]


@dataclass(slots=True, eq=False)
class LoopGraph:
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

    line: LoopGraph
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


def item_positions(item: Item) -> frozenset[int]:
    """Return the positions an item may bind."""
    return _positions(item)


@dataclass(frozen=True, slots=True)
class GapGuard:
    """No event of an absence between the last of some items and the first of others."""

    absence: int
    after: frozenset[Item]
    before: frozenset[Item]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Items bound together, `order` pairs of which the first ends before the second begins; all others share no event.

    `opening` and `closing` are absences that stand before and after all of it.
    """

    items: frozenset[Item] = frozenset()
    order: frozenset[tuple[Item, Item]] = frozenset()
    guards: frozenset[GapGuard] = frozenset()
    opening: Guards = frozenset()
    closing: Guards = frozenset()


class TooManyAlternatives(Exception):
    """A pattern has more alternatives than are worth listing."""


def list_alternatives(tree: Tree, most: int = MAX_ALTERNATIVES) -> tuple[Alternative, ...]:
    """Return every reading of a tree that binds something."""
    found = _list_alternatives(tree, most)
    return tuple(sorted((reading for reading in found if reading.items), key=_sort_key))


def as_single_loop(tree: Tree) -> tuple[Alternative, ...]:
    """Return the tree as paths of one line, without alternatives but for what stands open at its ends."""
    return tuple(reading for reading in _list_loops(build_loop_graph(tree)) if reading.items)


def is_ambiguous(readings: Iterable[Alternative]) -> bool:
    """Return whether two readings, or two ways within one, may bind the same events to the same positions."""
    seen: set[frozenset[int]] = set()
    for reading in readings:
        bound = frozenset().union(*map(_positions, reading.items))
        loops = [item for item in reading.items if isinstance(item, Loop)]
        if bound in seen or any(isinstance(item, Block) for loop in loops for item in loop.line.items):
            return True
        seen.add(bound)
    return False


def _sort_key(reading: Alternative) -> tuple[object, ...]:
    places = sorted(min(_positions(item)) for item in reading.items)
    return (
        len(places),
        places,
        sorted(reading.opening),
        sorted(reading.closing),
        repr(sorted(map(_item_key, reading.items))),
    )


def _item_key(item: Item) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    if isinstance(item, Loop):
        return min(item.positions), tuple(sorted(item.firsts)), tuple(sorted(item.lasts))
    return item.position, (), ()


def _list_alternatives(tree: Tree, most: int) -> set[Alternative]:
    match tree:
        case Place(position):
            return {Alternative(frozenset({Leaf(position)}))}
        case Gap(absence):
            return {Alternative(opening=frozenset({absence}), closing=frozenset({absence}))}
        case Chain(parts):
            return reduce(
                lambda lefts, part: _join_pairs(lefts, _list_alternatives(part, most), _join_in_order, most),
                parts,
                {Alternative()},
            )
        case Interleave(parts):
            return reduce(
                lambda lefts, part: _join_pairs(lefts, _list_alternatives(part, most), _join_interleaved, most),
                parts,
                {Alternative()},
            )
        case Alternation(parts):
            return _check_size({reading for part in parts for reading in _list_alternatives(part, most)}, most)
        case Optional(part):
            return _check_size(_list_alternatives(part, most) | {Alternative()}, most)
        case Plus():
            return _check_size(set(_list_loops(build_loop_graph(tree))), most)


def _check_size(found: set[Alternative], most: int) -> set[Alternative]:
    if len(found) > most:
        raise TooManyAlternatives
    return found


def _join_pairs(
    lefts: set[Alternative],
    rights: set[Alternative],
    joined: Callable[[Alternative, Alternative], Alternative],
    most: int,
) -> set[Alternative]:
    if len(lefts) * len(rights) > most:
        raise TooManyAlternatives
    return {joined(left, right) for left in lefts for right in rights}


def _join_in_order(left: Alternative, right: Alternative) -> Alternative:
    """Return one after the other: absences that stand open between them guard the gap."""
    if left.items and right.items:
        between = {GapGuard(absence, left.items, right.items) for absence in left.closing | right.opening}
        return Alternative(
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


def _join_interleaved(left: Alternative, right: Alternative) -> Alternative:
    """In any order: what stands open at the ends of a part of an AND has a reading without it."""
    return Alternative(left.items | right.items, left.order | right.order, left.guards | right.guards)


def _list_loops(line: LoopGraph) -> list[Alternative]:
    """Return the readings of a line: by what stands open at either end of its paths."""
    found = [Alternative(opening=guards, closing=guards) for guards in line.empty]
    for opening in sorted(frozenset().union(*line.first.values()), key=sorted):
        for closing in sorted(frozenset().union(*line.last.values()), key=sorted):
            firsts = frozenset(item for item, ways in line.first.items() if opening in ways)
            lasts = frozenset(item for item, ways in line.last.items() if closing in ways)
            found.append(Alternative(frozenset({Loop(line, firsts, lasts)}), opening=opening, closing=closing))
    return found


# Lines: Glushkov's construction, with the ways to cross each gap


def build_loop_graph(tree: Tree) -> LoopGraph:
    """Return the position automaton of a tree; an AND is one item."""
    line = LoopGraph(empty=FREE)
    return _build_loop_graph(tree, line.items)


def _build_loop_graph(tree: Tree, items: list[Leaf | Block]) -> LoopGraph:
    match tree:
        case Place(position):
            return _single(Leaf(position), items)
        case Gap(absence):
            return LoopGraph(items, empty=frozenset({frozenset({absence})}))
        case Chain(parts):
            return reduce(
                lambda left, part: _concatenate(left, _build_loop_graph(part, items)),
                parts,
                LoopGraph(items, empty=FREE),
            )
        case Alternation(parts):
            lines = [_build_loop_graph(part, items) for part in parts]
            empty = _keep_minimal(guards for line in lines for guards in line.empty)
            return LoopGraph(
                items,
                {item: ways for line in lines for item, ways in line.first.items()},
                {item: ways for line in lines for item, ways in line.last.items()},
                {pair: ways for line in lines for pair, ways in line.follow.items()},
                empty,
            )
        case Interleave(parts):
            readings = _list_alternatives(Interleave(parts), MAX_ALTERNATIVES * MAX_ALTERNATIVES)
            bound = tuple(sorted((reading for reading in readings if reading.items), key=_sort_key))
            line = _single(Block(bound), items)
            line.empty = FREE if any(not reading.items for reading in readings) else frozenset()
            return line
        case Plus(part):
            line = _build_loop_graph(part, items)
            for p, after in line.last.items():
                for q, before in line.first.items():
                    _cross(line.follow, p, q, after, before)
            return line
        case Optional(part):
            line = _build_loop_graph(part, items)
            line.empty = FREE
            return line


def _single(item: Leaf | Block, items: list[Leaf | Block]) -> LoopGraph:
    items.append(item)
    number = len(items) - 1
    return LoopGraph(items, {number: FREE}, {number: FREE})


def _concatenate(left: LoopGraph, right: LoopGraph) -> LoopGraph:
    joined = LoopGraph(left.items, dict(left.first), dict(right.last), left.follow | right.follow)
    for p, after in left.last.items():
        for q, before in right.first.items():
            _cross(joined.follow, p, q, after, before)
    if left.empty:
        for q, before in right.first.items():
            joined.first[q] = _keep_minimal((*joined.first.get(q, ()), *_combine_ways(left.empty, before)))
    if right.empty:
        for p, after in left.last.items():
            joined.last[p] = _keep_minimal((*joined.last.get(p, ()), *_combine_ways(after, right.empty)))
    joined.empty = _combine_ways(left.empty, right.empty)
    return joined


def _cross(follow: dict[tuple[int, int], Ways], p: int, q: int, after: Ways, before: Ways) -> None:
    follow[p, q] = _keep_minimal((*follow.get((p, q), ()), *_combine_ways(after, before)))


def _combine_ways(one: Ways, other: Ways) -> Ways:
    return _keep_minimal(a | b for a in one for b in other)


def _keep_minimal(ways: Iterable[Guards]) -> Ways:
    """Return the ways of which no other is a part: to forbid more never helps."""
    found = set(ways)
    return frozenset(guards for guards in found if not any(other < guards for other in found))
