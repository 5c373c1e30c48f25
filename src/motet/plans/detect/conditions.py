"""Decide where each condition is tested: with a symbol or an absence, by a join, on a step of a loop, or on a match."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product

from motet.model.expression import (
    At,
    Attribute,
    Expression,
    KleeneAggregate,
    attributes,
    conjuncts,
    has_aggregate,
    is_local,
    variables,
)
from motet.model.names import rename_variables, rewrite_leaves
from motet.model.pattern import Event
from motet.model.query import Policy, Query
from motet.plans.detect.nodes import EarlierTest
from motet.template.alternatives import Item, Loop, item_positions
from motet.template.automaton import Progress
from motet.template.positions import Leaf, Positions, max_bindings

# The positions that each name in a condition stands for.
NamePositions = Mapping[str, frozenset[int]]
# What two neighbours in a loop must satisfy, by the items they are bound to.
EdgeTests = Mapping[tuple[int, int], frozenset[Expression]]


@dataclass(frozen=True)
class PlacedConditions:
    """The conditions of a query by what they read."""

    local: dict[str, list[Expression]]  # single events of one variable, by its name
    match: list[Expression]  # several bound events
    absent_local: list[list[Expression]]  # the event of an absence alone, by absence
    absent: list[list[Expression]]  # the event of an absence and bound ones, by absence


def place_conditions(query: Query, positions: Positions, absent_events: Sequence[Event]) -> PlacedConditions:
    """Place each conjunct of a query by the events that it reads."""
    found = PlacedConditions({}, [], [[] for _ in absent_events], [[] for _ in absent_events])
    for condition in conjuncts(*query.conditions):
        names = variables(condition)
        missing = [name for name in names if not positions.find(name)]
        if missing:
            at = next(n for n, event in enumerate(absent_events) if missing[0] in (event.variable, event.type))
            (found.absent_local if is_local(condition) else found.absent)[at].append(condition)
        elif is_local(condition) and names:
            found.local.setdefault(next(iter(names)), []).append(condition)
        else:
            found.match.append(condition)
    return found


def is_adjacent(condition: Expression, positions: Positions, progress: Progress) -> bool:
    """Return whether a condition only ever compares events that directly follow each other."""
    uses = {attribute.at for attribute in attributes(condition)}
    if has_aggregate(condition) or uses & {At.FIRST, At.LAST}:
        return False
    later = _reachable_positions(progress)

    def can_be_separated(starts: frozenset[int], ends: frozenset[int], own: frozenset[int]) -> bool:
        between = [middle for middle in later if middle not in own]
        return any(m in later[start] and end in later[m] for start in starts for end in ends for m in between)

    match [frozenset(positions.find(name)) for name in sorted(variables(condition))]:
        case [only] if At.NEXT in uses:
            return not can_be_separated(only, only, only)
        case [left, right] if At.NEXT not in uses:
            if max_bindings(positions.graph, left) > 1 or max_bindings(positions.graph, right) > 1:
                return False
            return not (can_be_separated(left, right, frozenset()) or can_be_separated(right, left, frozenset()))
    return False


def _reachable_positions(progress: Progress) -> dict[int, set[int]]:
    """Map each position to the positions that may be bound at any later step."""
    later: dict[int, set[int]] = {}
    for moves in progress.moves:
        for position, state in moves.items():
            later.setdefault(position, set()).update(progress.moves[state])
    changed = True
    while changed:
        changed = False
        for after in later.values():
            more = set().union(*(later.get(position, set()) for position in after)) - after
            changed = changed or bool(more)
            after |= more
    return later


@dataclass(frozen=True, slots=True)
class PlacedTests:
    """The tests of an alternative: between its items, within its loops, and those left for whole matches, by number."""

    between: frozenset[Expression] = frozenset()
    edges: Mapping[Item, EdgeTests] = field(default_factory=dict)
    residual: tuple[int, ...] = ()
    earlier: tuple[EarlierTest, ...] = ()  # where it is run by a policy: tests of a step and events before it


def place_tests(items: Sequence[Item], conditions: Sequence[Expression], positions: NamePositions) -> PlacedTests:
    """Place each condition on a match where it is tested first. Tests between items name them by number."""
    between, residual = _place_item_tests(items, conditions, positions)
    bound = frozenset().union(*map(item_positions, items))
    edges: dict[Item, EdgeTests] = {}
    for item in items:
        if isinstance(item, Loop):
            own = {at: conditions[at] for at in residual}
            edges[item], placed = _place_edge_tests(item, bound, own, positions)
            residual = [at for at in residual if at not in placed]
    return PlacedTests(between, edges, tuple(residual))


def _place_item_tests(
    items: Sequence[Item], conditions: Sequence[Expression], positions: NamePositions
) -> tuple[frozenset[Expression], list[int]]:
    """Return the tests a join can make, and the numbers of the conditions that need the whole match."""
    tests: set[Expression] = set()
    residual: list[int] = []
    for at, condition in enumerate(conditions):
        owners = {
            name: [n for n, item in enumerate(items) if item_positions(item) & positions[name]]
            for name in sorted(variables(condition))
        }
        read = attributes(condition)
        if any(a.at is At.EACH and not owners[a.variable] for a in read):
            continue  # it speaks of an event that this alternative does not bind
        plain = all(a.at is At.EACH for a in read) and not has_aggregate(condition)
        leaves = all(isinstance(items[n], Leaf) for owned in owners.values() for n in owned)
        if plain and leaves and owners:
            for chosen in product(*owners.values()):
                names = {name: str(n) for name, n in zip(owners, chosen, strict=True)}
                tests.add(rename_variables(condition, names))
        else:
            residual.append(at)
    return frozenset(tests), residual


def _place_edge_tests(
    loop: Loop, bound: frozenset[int], conditions: Mapping[int, Expression], positions: NamePositions
) -> tuple[EdgeTests, set[int]]:
    """Return the conditions on NEXT that are tested on each step of a loop, and their numbers."""
    found: dict[tuple[int, int], set[Expression]] = {}
    placed = set()
    for at, condition in conditions.items():
        if {a.at for a in attributes(condition)} != {At.EACH, At.NEXT}:
            continue
        if len(variables(condition)) != 1 or has_aggregate(condition):
            continue
        (name,) = variables(condition)
        slot = positions[name] & bound
        leaves = {n: item.position for n, item in enumerate(loop.items) if isinstance(item, Leaf)}
        own = {n for n, position in leaves.items() if position in slot}
        if {leaves[n] for n in own} == slot and not _can_return(loop, own):
            placed.add(at)
            for p, q in loop.follow:
                if p in own and q in own:
                    found.setdefault((p, q), set()).add(_as_pair(condition, name))
    return {edge: frozenset(tests) for edge, tests in found.items()}, placed


def place_run_tests(
    items: Sequence[Item],
    conditions: Sequence[Expression],
    adjacent: Sequence[Expression],
    positions: NamePositions,
    policy: Policy,
) -> PlacedTests:
    """Place the conditions of a query that is run by a policy: adjacent ones on the steps of its only loop, others
    between two variables on steps that have the other one behind them; the rest is left for whole matches.

    Whenever an adjacent condition speaks of two bound events, one is the next step after the other. For CONTIGUOUS,
    which asks for no conditions, those on the LAST of one variable and the FIRST of the next are tested on the step
    between them, and nowhere else if every match that binds both takes that step.
    """
    (loop,) = items
    assert isinstance(loop, Loop)
    leaves = {number: item.position for number, item in enumerate(loop.items) if isinstance(item, Leaf)}
    owners = {
        name: frozenset(at for at, position in leaves.items() if position in own) for name, own in positions.items()
    }
    edges: dict[tuple[int, int], set[Expression]] = {}
    earlier: list[EarlierTest] = []
    residual: list[int] = []
    for number, condition in enumerate(conditions):
        names = sorted(variables(condition))
        if condition in adjacent:
            for one, other in {(names[0], names[-1]), (names[-1], names[0])}:
                for p, q in loop.steps:
                    if p in owners[one] and q in owners[other]:
                        edges.setdefault((p, q), set()).add(_as_pair(condition, one))
            continue
        found: list[EarlierTest] = []
        is_placed = False
        if len(names) == 2 and not has_aggregate(condition):
            found = _place_earlier_tests(condition, owners)
            if policy is Policy.CONTIGUOUS:
                one = _find_last(condition)
                (other,) = set(names) - {one}
                steps = list(_list_meeting_steps(condition, owners, loop))
                is_placed = bool(steps) and _always_meet(owners[one], owners[other], loop)
                for edge in steps:
                    edges.setdefault(edge, set()).add(_as_pair(condition, one))
        earlier += found
        if not is_placed and (not found or any(test.first_only for test in found)):
            residual.append(number)
    tests = {edge: frozenset(found) for edge, found in edges.items()}
    return PlacedTests(edges={loop: tests}, residual=tuple(residual), earlier=tuple(earlier))


def _list_meeting_steps(condition: Expression, owners: NamePositions, loop: Loop) -> Iterator[tuple[int, int]]:
    """Yield the steps of a loop that lead from the LAST of one variable to the FIRST of another whenever taken."""
    uses = _list_uses(condition)
    if sorted(uses.values(), key=str) != sorted([{At.FIRST}, {At.LAST}], key=str):
        return
    one = _find_last(condition)
    (other,) = uses.keys() - {one}
    for p, q in loop.steps:
        if p in owners[one] and q in owners[other]:
            later_than_q = _find_later(loop, q)
            if not later_than_q & owners[one] and not any(p in _find_later(loop, x) for x in owners[other]):
                yield p, q


def _always_meet(one: frozenset[int], other: frozenset[int], loop: Loop) -> bool:
    """Return whether every path has items of two variables, and leads from the last of the one straight to the first of
    the other: nothing of the one comes after the other, and nothing else between them.
    """
    if any(_find_later(loop, item) & one for item in other):
        return False
    between = {q for p, q in loop.steps if p in one} - one
    return not any(
        _reaches(loop, begin, end, avoided)
        for begin, end, avoided in (
            (loop.firsts, loop.lasts, one),
            (loop.firsts, loop.lasts, other),
            (between - other, other, one),
        )
    )


def _reaches(loop: Loop, begin: Iterable[int], end: Collection[int], avoided: Collection[int]) -> bool:
    """Return whether a path leads from some items to others without some between."""
    return not _walk(loop.steps, begin, avoided).isdisjoint(end)


def _walk(steps: Collection[tuple[int, int]], begin: Iterable[int], avoided: Collection[int] = ()) -> set[int]:
    """Return the items at which a walk from some items may be, itself included, that never is at those avoided."""
    found: set[int] = set()
    pending = list(begin)
    while pending:
        item = pending.pop()
        if item not in found and item not in avoided:
            found.add(item)
            pending += [q for p, q in steps if p == item]
    return found


def _find_last(condition: Expression) -> str:
    """Return the variable whose LAST event a condition reads, or any."""
    return min(attributes(condition), key=lambda a: a.at is not At.LAST).variable


def _find_later(loop: Loop, item: int) -> set[int]:
    """Return the items of a loop that may be bound at any step after one."""
    return _walk(loop.steps, [q for p, q in loop.steps if p == item])


def _list_uses(condition: Expression) -> dict[str, set[At]]:
    """Return which events of each variable a condition reads."""
    return {name: {a.at for a in attributes(condition) if a.variable == name} for name in sorted(variables(condition))}


def _place_earlier_tests(condition: Expression, owners: NamePositions) -> list[EarlierTest]:
    """Return the tests that a condition on two variables is in a run: all of it where it holds for each pair of their
    events; of one on the FIRST of a variable what is known once that is behind a step.
    """
    uses = _list_uses(condition)
    found = []
    for one, other in permutations(uses):
        if uses[other] == {At.EACH} and uses[one] in ({At.EACH}, {At.FIRST}):
            test = _as_pair(condition, one)
            found.append(EarlierTest(owners[one], owners[other], test, uses[one] == {At.FIRST}))
    return found


def _as_pair(test: Expression, earlier: str) -> Expression:
    """Rewrite a test of two variables, or of one and its NEXT, as one of two events: "0", the earlier, and "1"."""
    is_single = len(variables(test)) == 1

    def split(leaf: Attribute | KleeneAggregate) -> Expression:
        assert isinstance(leaf, Attribute)
        is_later = leaf.at is At.NEXT if is_single else leaf.variable != earlier
        return Attribute("1" if is_later else "0", leaf.name)

    return rewrite_leaves(test, split)


def _can_return(loop: Loop, own: set[int]) -> bool:
    """Return whether something else can be bound between two events of the same variable."""
    return not _walk(loop.follow, [q for p, q in loop.follow if p in own and q not in own]).isdisjoint(own)
