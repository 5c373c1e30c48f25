"""Sharing plans: which runs of symbols, or which transitions, are computed once for several queries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from motet.template.symbols import Symbol

# Gives, for the number of a query and a position of it, the key of its steps: equal steps are computed once only where
# their keys are equal too.
ShareKey = Callable[[int, int], Hashable]


# Gives, for the number of a query, its group: queries may run on one machine only where their groups are equal.
Groups = Callable[[int], Hashable]


def share_all(query: int, position: int) -> Hashable:
    """Let everything be shared."""
    return None


def group_all(query: int) -> Hashable:
    """Put all queries into one group."""
    return None


def group_singly(query: int) -> Hashable:
    """Put each query into a group of its own."""
    return query


class Sharing(Protocol):
    """What an optimizer decided, for whoever runs it."""

    def share_key(self) -> ShareKey:
        """Return with what the steps of each position may be shared."""

    def groups(self) -> Groups:
        """Return with which others each query may run on one machine, where only beginnings of patterns are shared."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of symbols that several queries compute once: a sharing candidate (p, Q_p) that a plan chose.

    `places` are (number of the query in the workload, offset of the run among its positions), sorted.
    """

    symbols: tuple[Symbol, ...]
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """Segments that do not get in each other's way: no two overlap in one query (Sharon, definitions 6 and 7)."""

    segments: tuple[Segment, ...] = ()

    def share_key(self) -> ShareKey:
        """Let queries share their segments, and nothing else."""
        shared_steps = {
            (query, offset + step): (number, step)
            for number, segment in enumerate(self.segments)
            for query, offset in segment.places
            for step in range(len(segment.symbols))
        }

        def step_key(query: int, position: int) -> Hashable:
            return shared_steps.get((query, position), ("its own", query, position))

        return step_key

    def groups(self) -> Groups:
        """Group queries that share a segment, directly or by way of others."""
        return group_connected([query for query, _ in segment.places] for segment in self.segments)


@dataclass(frozen=True, slots=True)
class SharedTransition:
    """A transition that the queries of one Q-set compute once, as expressions over snapshots of a state's events.

    `places` are (number of the query, position that it leads from, position that it leads to), sorted.
    """

    source: Symbol
    target: Symbol
    snapshot: Symbol
    places: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class TransitionPlan:
    """The Q-sets of all transitions, no query twice in those of one (Gloria, definition 2.7)."""

    transitions: tuple[SharedTransition, ...] = ()

    def share_key(self) -> ShareKey:
        """Let queries share the steps into a position if they are in one Q-set for all of them; the first step, which
        no transition leads to, if they are in one for the next.
        """
        into: dict[tuple[int, int], list[int]] = {}
        first: dict[int, tuple[str, int]] = {}
        for number, transition in enumerate(self.transitions):
            for query, source, target in transition.places:
                into.setdefault((query, target), []).append(number)
                if source == 0 and target == 1:
                    first[query] = ("first", number)

        def step_key(query: int, position: int) -> Hashable:
            if (query, position) in into:
                return tuple(into[query, position])
            if position == 0 and query in first:
                return first[query]
            return "its own", query, position

        return step_key

    def groups(self) -> Groups:
        """Group queries that share a transition, directly or by way of others."""
        return group_connected([query for query, _, _ in transition.places] for transition in self.transitions)


@dataclass(frozen=True, slots=True)
class Grouping:
    """A plan that only says which queries run on one machine; all that is equal within a group is shared."""

    labels: tuple[tuple[int, Hashable], ...]  # by number of a query

    def share_key(self) -> ShareKey:
        group = self.groups()
        return lambda query, position: group(query)

    def groups(self) -> Groups:
        labels = dict(self.labels)
        return lambda query: labels.get(query, ("its own", query))


def group_connected(sets: Iterable[Sequence[int]]) -> Groups:
    """Group the queries that these sets connect; any other query is alone."""
    leader: dict[int, int] = {}

    def first(query: int) -> int:
        while leader.setdefault(query, query) != query:
            query = leader[query]
        return query

    for queries in sets:
        for query in queries:
            leader[first(query)] = first(queries[0])
    return first
