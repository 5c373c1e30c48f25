"""Policies: which events a match may pass over."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from motet.model.expression import Expression, variables
from motet.model.query import Policy
from motet.reference.conditions import holds
from motet.reference.expressions import Occurrence
from motet.reference.positions import ExpandedPattern, Tree, list_steps


@dataclass(frozen=True, slots=True)
class Path:
    """A match as steps in time order: the position and the event of each."""

    steps: tuple[tuple[int, Occurrence], ...]


def is_kept(
    policy: Policy,
    path: Path,
    partition: Sequence[Occurrence],
    expanded: ExpandedPattern,
    may_bind: Callable[[int, Occurrence], bool],
    adjacent: Sequence[Expression],
) -> bool:
    """Return whether a match is kept; `partition` is in time order and `may_bind` tells type and local conditions."""
    match policy:
        case Policy.SKIP_TILL_ANY:
            return True
        case Policy.CONTIGUOUS:
            return is_contiguous(path, partition)
        case Policy.SKIP_TILL_NEXT:
            return takes_earliest_steps(path, partition, expanded, may_bind, adjacent)


def is_contiguous(path: Path, partition: Sequence[Occurrence]) -> bool:
    """Return whether every event of the partition from the first to the last step is bound."""
    if len(path.steps) < 2:
        return True
    bound = {event.index for _, event in path.steps}
    first, last = path.steps[0][1].time, path.steps[-1][1].time
    return all(event.index in bound for event in events_in_gap(partition, first - 1, last + 1))


def events_in_gap(partition: Sequence[Occurrence], after: int, before: int) -> Sequence[Occurrence]:
    """Return the events strictly between two times."""
    start = bisect_right(partition, after, key=lambda event: event.time)
    return partition[start : bisect_left(partition, before, key=lambda event: event.time)]


def takes_earliest_steps(
    path: Path,
    partition: Sequence[Occurrence],
    expanded: ExpandedPattern,
    may_bind: Callable[[int, Occurrence], bool],
    adjacent: Sequence[Expression],
) -> bool:
    """Return whether no event between two neighbouring steps could have continued the path there."""
    remaining: set[Tree] = {expanded.tree}
    for (position, event), (_, later) in pairwise(path.steps):
        remaining = {rest for tree in remaining for step, rest in list_steps(tree) if step == position}
        possible = {step for tree in remaining for step, _ in list_steps(tree)}
        for passed in events_in_gap(partition, event.time, later.time):
            for step in possible:
                if may_bind(step, passed) and satisfies_adjacent(expanded, position, event, step, passed, adjacent):
                    return False
    return True


def satisfies_adjacent(
    expanded: ExpandedPattern,
    position: int,
    event: Occurrence,
    step: int,
    passed: Occurrence,
    adjacent: Sequence[Expression],
) -> bool:
    """Return whether the adjacent conditions on two neighbouring steps hold."""
    for condition in adjacent:
        names = variables(condition)
        owners = {name: expanded.positions(name) for name in names}
        if not all(position in owned or step in owned for owned in owners.values()):
            continue
        bindings = {
            name: tuple(bound for at, bound in ((position, event), (step, passed)) if at in owned)
            for name, owned in owners.items()
        }
        if not holds(condition, bindings):
            return False
    return True
