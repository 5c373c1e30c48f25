"""The oracle against second, independent readings of the definition: all subsets of events, all assignments."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, pairwise, product
from typing import Any

from hypothesis import given, settings

from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq
from motet.model.query import Aggregate, Query, Workload
from motet.reference import evaluate
from motet.reference.matches import find_matches
from motet.reference.positions import expand_pattern
from tests.strategies import patterns, streams

Pair = tuple[int, int]


@dataclass
class Glushkov:
    """The position automaton by its textbook rules."""

    types: list[str] = field(default_factory=list)
    follow: set[Pair] = field(default_factory=set)

    def add(self, pattern: Pattern) -> tuple[set[int], set[int], bool]:
        """The first and last positions of a pattern, and whether it accepts the empty word."""
        match pattern:
            case Event(name):
                self.types.append(name)
                here = {len(self.types) - 1}
                return here, here, False
            case Or(parts):
                found = [self.add(part) for part in parts]
                return (
                    set().union(*(first for first, _, _ in found)),
                    set().union(*(last for _, last, _ in found)),
                    any(empty for *_, empty in found),
                )
            case Seq(parts):
                first, last, empty = set[int](), set[int](), True
                for part in parts:
                    first, last, empty = self.chain((first, last, empty), self.add(part))
                return first, last, empty
            case Repeat(part, low, high):
                first, last, empty = set[int](), set[int](), True
                copies = [self.add(part) for _ in range(high if high is not None else max(low, 1))]
                if high is None:
                    self.follow |= set(product(copies[-1][1], copies[-1][0]))
                # From the right: an optional copy brings all that hang on it along.
                for number, copy in reversed(list(enumerate(copies))):
                    first, last, empty = self.chain(copy, (first, last, empty))
                    empty = empty or number >= low
                return first, last, empty
            case And() | Not() | Neg():
                raise NotImplementedError

    def chain(
        self, left: tuple[set[int], set[int], bool], right: tuple[set[int], set[int], bool]
    ) -> tuple[set[int], set[int], bool]:
        self.follow |= set(product(left[1], right[0]))
        first = left[0] | (right[0] if left[2] else set())
        last = right[1] | (left[1] if right[2] else set())
        return first, last, left[2] and right[2]


def all_paths(pattern: Pattern, events: list[dict[str, Any]]) -> set[frozenset[Pair]]:
    """Every choice of events and of positions for them that the automaton accepts."""
    automaton = Glushkov()
    first, last, _ = automaton.add(pattern)
    order = sorted(range(len(events)), key=lambda index: events[index]["time"])
    found = set()
    for size in range(1, len(events) + 1):
        for chosen in combinations(order, size):
            times = [events[index]["time"] for index in chosen]
            if any(now >= later for now, later in pairwise(times)):
                continue
            options = [[p for p, name in enumerate(automaton.types) if name == events[i]["type"]] for i in chosen]
            for path in product(*options):
                steps = set(pairwise(path))
                if path[0] in first and path[-1] in last and steps <= automaton.follow:
                    found.add(frozenset(zip(path, chosen, strict=True)))
    return found


@settings(max_examples=150)
@given(patterns(operators=frozenset({"SEQ", "OR", "REPEAT"})), streams(max_rows=6, nulls=False, latest=3))
def test_matches_are_the_accepting_paths_of_the_position_automaton(
    pattern: Pattern, events: list[dict[str, Any]]
) -> None:
    expanded = expand_pattern(pattern)

    def candidates(position: int) -> list[tuple[int, int]]:
        name = expanded.event(position).type
        return [(index, event["time"]) for index, event in enumerate(events) if event["type"] == name]

    assert set(find_matches(expanded.tree, candidates, lambda first, last: True)) == all_paths(pattern, events)


def count(pattern: Pattern, rows: list[dict[str, Any]]) -> int:
    """COUNT(*) over the whole stream, 0 where there is no row."""
    result = evaluate(Workload((Query("q", pattern, (Aggregate("COUNT"),)),)), rows)
    return sum(row["values"]["COUNT(*)"] for row in result.rows)


@given(streams(max_rows=12, nulls=False, latest=3))
def test_AND_of_A_B_C_is_every_triple(rows: list[dict[str, Any]]) -> None:
    of = [sum(row["type"] == name for row in rows) for name in "ABC"]
    assert count(And((Event("A"), Event("B"), Event("C"))), rows) == of[0] * of[1] * of[2]


@given(streams(max_rows=12, nulls=False, latest=3))
def test_AND_of_A_and_A_is_every_ordered_pair_of_different_events(rows: list[dict[str, Any]]) -> None:
    many = sum(row["type"] == "A" for row in rows)
    assert count(And((Event("A"), Event("A"))), rows) == many * (many - 1)


@given(streams(max_rows=12, nulls=False, latest=4))
def test_SEQ_A_NOT_C_B_is_every_pair_with_no_C_strictly_between(rows: list[dict[str, Any]]) -> None:
    times = {name: [row["time"] for row in rows if row["type"] == name] for name in "ABC"}
    pairs = [(a, b) for a in times["A"] for b in times["B"] if a < b and not any(a < c < b for c in times["C"])]
    assert count(Seq((Event("A"), Not(Event("C")), Event("B"))), rows) == len(pairs)
