"""Sorts a query's conditions: local ones join symbols, adjacent ones guard transitions, the rest need whole matches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from motet.model.expression import (
    FLIPPED,
    At,
    Attribute,
    Comparison,
    Expression,
    attributes,
    has_aggregate,
    is_local,
    variables,
)
from motet.model.pattern import Or, Pattern, Repeat, absences, children, events
from motet.model.query import AfterMatch, Policy, Query
from motet.model.window import CountWindow
from motet.template.positions import Leaf, PositionGraph, Positions


@dataclass(frozen=True, slots=True)
class AdjacentCondition:
    """`before operator after` must hold on the transition from one position to the next, both over bare events."""

    source: int
    target: int
    operator: str
    before: Expression
    after: Expression


@dataclass(frozen=True, slots=True)
class ClassifiedConditions:
    """A query's conditions: local ones by variable, adjacent ones by transition, and those that need the match."""

    local: dict[str, list[Expression]]
    everywhere: list[Expression]
    adjacent: list[AdjacentCondition]
    needs_match: list[Expression]


def classify_conditions(query: Query, positions: Positions) -> ClassifiedConditions:
    """Put each condition of a query where it can be tested earliest."""
    found = ClassifiedConditions({}, [], [], [])
    for condition in query.conditions:
        if has_aggregate(condition):
            found.needs_match.append(condition)
        elif not variables(condition):
            found.everywhere.append(condition)
        elif is_local(condition):
            found.local.setdefault(next(iter(variables(condition))), []).append(condition)
        else:
            adjacent = _find_adjacent(condition, positions)
            if adjacent is None:
                found.needs_match.append(condition)
            else:
                found.adjacent.extend(adjacent)
    return found


def extract_equivalence(query: Query) -> Query:
    """Turn `a.x = b.x = c.x` over all variables into `[x]`, where that makes no difference.

    An equality speaks of bound events only, a partition of all events. So every match must bind every variable (a
    condition on an unbound one asks nothing), and nothing may look at events that are not bound or at other matches: no
    NOT or NEG, no count window, no policy that says which events may be passed over, no match left out because of
    another. Nulls are alike: they equal nothing, and are in no partition. A variable that is bound several times is
    equal for each of its events.
    """
    bound = [event.name for event in events(query.pattern)]
    if (
        len(set(bound)) != len(bound)
        or len(bound) < 2
        or absences(query.pattern)
        or can_omit_events(query.pattern)
        or isinstance(query.window, CountWindow)
        or query.policy is not Policy.SKIP_TILL_ANY
        or query.after_match is not AfterMatch.ALL
    ):
        return query
    linked: dict[str, list[Comparison]] = {}
    for condition in query.conditions:
        match condition:
            case Comparison("=", Attribute(one, x, At.EACH), Attribute(other, y, At.EACH)) if x == y and one != other:
                linked.setdefault(x, []).append(condition)
    found = tuple(attr for attr, links in linked.items() if _are_connected(links, set(bound)))
    dropped = {condition for attr in found for condition in linked[attr]}
    return replace(
        query,
        equivalence=(*query.equivalence, *found),
        conditions=tuple(condition for condition in query.conditions if condition not in dropped),
    )


def can_omit_events(pattern: Pattern) -> bool:
    """Return whether a match may leave some event of a pattern unbound."""
    if isinstance(pattern, Or) or (isinstance(pattern, Repeat) and pattern.low == 0):
        return True
    return any(map(can_omit_events, children(pattern)))


def _are_connected(links: list[Comparison], names: set[str]) -> bool:
    """Return whether equalities tie all the names together."""
    reached = {next(iter(names))}
    while True:
        more = {name for link in links if variables(link) & reached for name in variables(link)} - reached
        if not more:
            return reached == names
        reached |= more


def _find_adjacent(condition: Expression, positions: Positions) -> list[AdjacentCondition] | None:
    """Return the transitions that a comparison guards; None where its two events are not always neighbours."""
    sides = _split_sides(condition) if isinstance(condition, Comparison) else None
    if sides is None:
        return None
    operator, (one, before), (other, after) = sides
    if not {one, other} <= {event.name for event in positions.events}:
        return None
    graph = positions.graph
    item_of = {item.position: number for number, item in enumerate(graph.items) if isinstance(item, Leaf)}
    if any(position not in item_of for name in (one, other) for position in positions.find(name)):
        return None  # inside an AND nobody's neighbour is certain
    ones, others = ({item_of[position] for position in positions.find(name)} for name in (one, other))
    steps = _steps_between_rounds(graph, ones) if one == other else _steps_between_variables(graph, ones, others)
    if steps is None:
        return None
    position_of = {number: position for position, number in item_of.items()}
    return [
        AdjacentCondition(position_of[p], position_of[q], FLIPPED[operator], after, before)
        if flipped
        else AdjacentCondition(position_of[p], position_of[q], operator, before, after)
        for p, q, flipped in steps
    ]


def _split_sides(condition: Comparison) -> tuple[str, tuple[str, Expression], tuple[str, Expression]] | None:
    """Return the operator and, for each side, the one event it reads; for NEXT, the earlier event's side first."""
    left, right = attributes(condition.left), attributes(condition.right)
    if len({(a.variable, a.at) for a in left}) != 1 or len({(a.variable, a.at) for a in right}) != 1:
        return None
    ats = (left[0].at, right[0].at)
    names = (left[0].variable, right[0].variable)
    if (ats == (At.EACH, At.NEXT) and names[0] == names[1]) or ats == (At.EACH, At.EACH):
        return condition.operator, (names[0], condition.left), (names[1], condition.right)
    if ats == (At.NEXT, At.EACH) and names[0] == names[1]:
        return FLIPPED[condition.operator], (names[1], condition.right), (names[0], condition.left)
    return None


# Steps from one item to the next, and whether they go against the order written.
Steps = list[tuple[int, int, bool]]


def _steps_between_rounds(graph: PositionGraph, own: set[int]) -> Steps | None:
    """Return the steps of NEXT from a variable to itself; None where something else can be bound between two events."""
    later = graph.find_reachable()
    if any(p in own and q not in own and later[q] & own for p, q in graph.follow):
        return None
    return [(p, q, False) for p, q in sorted(graph.follow) if p in own and q in own]


def _steps_between_variables(graph: PositionGraph, ones: set[int], others: set[int]) -> Steps | None:
    """Return the steps from one variable to the other; None where they are not always neighbours.

    A variable of an OR has several items, of which a match binds one at most.
    """
    later = graph.find_reachable()
    if any(later[item] & own for own in (ones, others) for item in own):
        return None
    steps: Steps = []
    for one, other in product(sorted(ones), sorted(others)):
        flipped = one in later[other]
        p, q = (other, one) if flipped else (one, other)
        if q not in later[p]:
            continue  # no match binds both
        if any(source == p and q in later[middle] for source, middle in graph.follow):
            return None
        steps.append((p, q, flipped))
    return steps
