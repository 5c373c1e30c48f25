"""The alternatives of a pattern for detection: each a set of items that a join can bind, their order, and their gaps.

An alternative is a path through the position automaton. Items that repeat together are one *loop*, an item whose
instances are paths of its own; an AND block becomes the items of one alternative of each operand. Where a pattern has
too many alternatives, all of it is one loop without a way back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from motet.template.automaton import build_run_steps
from motet.template.positions import FREE, OPEN, Block, Guard, Leaf, PositionGraph, Ways

MAX_ALTERNATIVES = 64
# A block in a loop is found by one node for all of its alternatives, so it may have more of them.
MAX_LOOP_ALTERNATIVES = 4096

# The number of the component before all items, and of the one after them.
OUTSIDE = -1

Gaps = dict[tuple[int, int], Ways]


@dataclass(frozen=True, slots=True)
class Choice:
    """A block in a loop: any one of these alternatives is a round of it."""

    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """An item bound to a path through some items, which begins and ends with one of some of them.

    `items` and `follow` are a part of the position automaton, renumbered. Loops of one pattern over the same positions
    have them in common. `together` are steps that two events of one time take: in those that are run by a policy.
    """

    positions: frozenset[int]
    firsts: frozenset[int]
    lasts: frozenset[int]
    items: tuple[Leaf | Choice, ...] = field(compare=False)
    follow: Mapping[tuple[int, int], Ways] = field(compare=False)
    together: frozenset[tuple[int, int]] = field(default=frozenset(), compare=False)

    @property
    def steps(self) -> list[tuple[int, int]]:
        """All pairs of items that may be bound one after the other."""
        return [*self.follow, *self.together]


Item = Leaf | Loop


def item_positions(item: Leaf | Loop | Choice) -> frozenset[int]:
    """Return the positions an item may bind."""
    match item:
        case Leaf(position):
            return frozenset({position})
        case Loop(positions):
            return positions
        case Choice(alternatives):
            return frozenset().union(*(item_positions(inner) for each in alternatives for inner in each.items))


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
    opening: Guard = frozenset()
    closing: Guard = frozenset()


class TooManyAlternatives(Exception):
    """A pattern has more alternatives than are worth listing."""


def list_alternatives(graph: PositionGraph, limit: int = MAX_ALTERNATIVES) -> tuple[Alternative, ...]:
    """List the alternatives of a pattern: those with few items, then those with early positions first.

    Raises TooManyAlternatives where there are more than `limit`.
    """
    components = _find_components(graph)
    gaps = _group_gaps(graph, components)
    bodies = {number: _Component(graph, components, number, limit) for number in set(components)}
    found: list[Alternative] = []
    # What a path binds so far, its last items, the guard of the gap it crosses next, and where it arrives.
    paths: list[tuple[Alternative, frozenset[Item], Guard, int, frozenset[int]]] = [
        (Alternative(opening=guard), frozenset(), OPEN, component, firsts)
        for component, edges in gaps[OUTSIDE].items()
        for guard, _, firsts in _split_gaps(edges)
    ]
    while paths:
        path, before, guard, component, firsts = paths.pop()
        for target, edges in gaps[component].items():
            for next_guard, lasts, next_firsts in _split_gaps(edges):
                for body in bodies[component].list_bodies(firsts, lasts):
                    longer = _append(path, before, guard, body)
                    if target == OUTSIDE:
                        found.append(replace(longer, closing=next_guard))
                    else:
                        paths.append((longer, body.items, next_guard, target, next_firsts))
        if len(found) > limit:
            raise TooManyAlternatives
    return tuple(sorted(found, key=_make_sort_key))


def as_single_loop(graph: PositionGraph) -> tuple[Alternative, ...]:
    """Return all of a graph as one loop, without alternatives but for the absences at its ends."""
    body = _Component(graph, [0] * len(graph.items), 0, MAX_ALTERNATIVES)
    return tuple(
        Alternative(frozenset({body.build_loop(firsts, lasts)}), opening=opening, closing=closing)
        for opening, _, firsts in _split_gaps({(OUTSIDE, item): ways for item, ways in graph.first.items()})
        for closing, lasts, _ in _split_gaps({(item, OUTSIDE): ways for item, ways in graph.last.items()})
    )


def as_run_steps(graph: PositionGraph) -> tuple[Alternative, ...]:
    """Return all of a graph without absences as one loop over its steps: see `RunSteps`. Raises TooManyNodes."""
    steps = build_run_steps(graph)
    loop = Loop(
        frozenset(steps.positions),
        steps.firsts,
        steps.lasts,
        tuple(map(Leaf, steps.positions)),
        dict.fromkeys(sorted(steps.follow), FREE),
        steps.together,
    )
    return (Alternative(frozenset({loop})),)


def is_ambiguous(alternatives: Iterable[Alternative]) -> bool:
    """Return whether two alternatives, or two ways within one, may bind the same events to the same positions."""
    seen: set[frozenset[int]] = set()
    for alternative in alternatives:
        bound = frozenset().union(*map(item_positions, alternative.items))
        loops = [item for item in alternative.items if isinstance(item, Loop)]
        if bound in seen or any(isinstance(item, Choice) for loop in loops for item in loop.items):
            return True
        seen.add(bound)
    return False


def _find_components(graph: PositionGraph) -> list[int]:
    """Return for each item the first of those that repeat together with it (a strongly connected component)."""
    later = graph.find_reachable()
    return [min([p, *(q for q in after if p in later[q])]) for p, after in enumerate(later)]


def _group_gaps(graph: PositionGraph, components: list[int]) -> dict[int, dict[int, Gaps]]:
    """Return the gaps from each component to each other one, and from and to the outside."""
    gaps: dict[int, dict[int, Gaps]] = {}
    for item, ways in graph.first.items():
        gaps.setdefault(OUTSIDE, {}).setdefault(components[item], {})[OUTSIDE, item] = ways
    for (p, q), ways in graph.follow.items():
        if components[p] != components[q]:
            gaps.setdefault(components[p], {}).setdefault(components[q], {})[p, q] = ways
    for item, ways in graph.last.items():
        gaps.setdefault(components[item], {}).setdefault(OUTSIDE, {})[item, OUTSIDE] = ways
    return gaps


def _split_gaps(gaps: Gaps) -> Iterator[tuple[Guard, frozenset[int], frozenset[int]]]:
    """Split gaps by guard into sets of items such that each of the first may be followed by each of the second."""
    for guard in sorted(frozenset().union(*gaps.values()), key=sorted):
        targets: dict[int, set[int]] = {}
        for (p, q), ways in gaps.items():
            if guard in ways:
                targets.setdefault(p, set()).add(q)
        sources: dict[frozenset[int], set[int]] = {}
        for p, reached in targets.items():
            sources.setdefault(frozenset(reached), set()).add(p)
        for followers, own in sources.items():
            yield guard, frozenset(own), followers


class _Component:
    """The items of a graph that repeat together, or one that does not repeat."""

    def __init__(self, graph: PositionGraph, components: Collection[int], own: int, limit: int) -> None:
        self.limit = limit
        self.number = {item: at for at, item in enumerate(n for n, c in enumerate(components) if c == own)}
        self.items = [graph.items[item] for item in self.number]
        self.follow = {
            (self.number[p], self.number[q]): ways
            for (p, q), ways in graph.follow.items()
            if p in self.number and q in self.number
        }
        self.loop_items: tuple[Leaf | Choice, ...] = ()

    def list_bodies(self, firsts: frozenset[int], lasts: frozenset[int]) -> tuple[Alternative, ...]:
        """List what a path may bind here that arrives at one of some items and leaves from one of others."""
        if self.follow:
            return (Alternative(frozenset({self.build_loop(firsts, lasts)})),)
        match self.items:
            case [Block() as block]:
                return _list_block(block, self.limit)
            case [Leaf() as leaf]:
                return (Alternative(frozenset({leaf})),)
        raise AssertionError("several items in a component lead to one another")

    def build_loop(self, firsts: frozenset[int], lasts: frozenset[int]) -> Loop:
        """Build the loop over all items of this component."""
        if not self.loop_items:
            self.loop_items = tuple(
                Choice(_list_block(item, MAX_LOOP_ALTERNATIVES)) if isinstance(item, Block) else item
                for item in self.items
            )
        return Loop(
            frozenset().union(*map(item_positions, self.loop_items)),
            frozenset(self.number[item] for item in firsts),
            frozenset(self.number[item] for item in lasts),
            self.loop_items,
            self.follow,
        )


def _list_block(block: Block, limit: int) -> tuple[Alternative, ...]:
    """List the alternatives of an AND that bind something: any alternative of each operand, in any order."""
    found = [Alternative()]
    for operand in block.operands:
        options = [*list_alternatives(operand, limit), *([Alternative()] if operand.empty else [])]
        if len(found) * len(options) > limit:
            raise TooManyAlternatives
        found = [
            Alternative(one.items | other.items, one.order | other.order, one.guards | other.guards)
            for one in found
            for other in options
        ]
    return tuple(sorted((each for each in found if each.items), key=_make_sort_key))


def _append(path: Alternative, before: frozenset[Item], guard: Guard, body: Alternative) -> Alternative:
    """Return a path that goes on with the items of a body, across a gap after its last items."""
    return replace(
        path,
        items=path.items | body.items,
        order=path.order | body.order | {(a, b) for a in path.items for b in body.items},
        guards=path.guards | body.guards | {GapGuard(absence, before, body.items) for absence in guard},
    )


def _make_sort_key(alternative: Alternative) -> tuple[object, ...]:
    keys = sorted(map(_make_item_key, alternative.items))
    return len(keys), [key[0] for key in keys], sorted(alternative.opening), sorted(alternative.closing), keys


def _make_item_key(item: Item) -> tuple[int, list[int], list[int]]:
    if isinstance(item, Loop):
        return min(item.positions), sorted(item.firsts), sorted(item.lasts)
    return item.position, [], []
