"""The position automaton says of a pattern what its tree does, and lists the alternatives of its matches."""

from __future__ import annotations

import pytest
from hypothesis import given

from motet.language.parser import read_draft
from motet.model.pattern import Pattern
from motet.reference.positions import can_end_with_not, expand_pattern, list_steps
from motet.reference.positions import max_bindings as max_bindings_of_tree
from motet.template.alternatives import (
    Alternative,
    Loop,
    TooManyAlternatives,
    as_single_loop,
    is_ambiguous,
    item_positions,
    list_alternatives,
)
from motet.template.automaton import UnsupportedPattern, build_automaton, build_progress
from motet.template.positions import Positions, build_positions, max_bindings
from tests.strategies import patterns


def positions(text: str) -> Positions:
    return build_positions(read_draft(f"RETURN * PATTERN {text}").workload.queries[0].pattern)


def alternatives(text: str) -> tuple[Alternative, ...]:
    return list_alternatives(positions(text).graph)


def shapes(text: str) -> list[list[str]]:
    """The items of each alternative as types; those of a loop in brackets."""
    events = positions(text).events

    def show(item: object) -> str:
        types = " ".join(events[p].type for p in sorted(item_positions(item)))  # type: ignore[arg-type]
        return f"[{types}]" if isinstance(item, Loop) else types

    return [
        [show(item) for item in sorted(each.items, key=lambda item: min(item_positions(item)))]
        for each in alternatives(text)
    ]


@given(patterns())
def test_a_match_binds_as_many_events_as_its_tree_allows(pattern: Pattern) -> None:
    found, expanded = build_positions(pattern), expand_pattern(pattern)
    assert len(found.events) == len(expanded.position_events)
    for position in range(len(found.events)):
        own = frozenset({position})
        assert max_bindings(found.graph, own) == max_bindings_of_tree(expanded.tree, own)
    assert found.graph.ends_with_guard == can_end_with_not(expanded.tree)


@given(patterns())
def test_what_may_come_next_is_what_remains_of_the_tree(pattern: Pattern) -> None:
    progress = build_progress(build_positions(pattern).graph)
    seen = set()
    waiting = [(0, frozenset({expand_pattern(pattern).tree}))]
    while waiting and len(seen) < 200:
        state, trees = waiting.pop()
        if (state, trees) in seen:
            continue
        seen.add((state, trees))
        steps = [step for tree in trees for step in list_steps(tree)]
        assert set(progress.moves[state]) == {position for position, _ in steps}
        for position, target in progress.moves[state].items():
            waiting.append((target, frozenset(rest for step, rest in steps if step == position)))


def test_alternatives_are_paths_with_loops_as_items() -> None:
    assert shapes("A, B?, C") == [["A", "C"], ["A", "B", "C"]]
    assert shapes("A, OR(B, C+), D") == [["A", "B", "D"], ["A", "[C]", "D"]]
    assert shapes("A, SEQ(B, C)+, D{1,2}") == [["A", "[B C]", "D"], ["A", "[B C]", "D", "D"]]
    assert shapes("A, AND(B, C?), D") == [["A", "B", "D"], ["A", "B", "C", "D"]]
    assert shapes("A, AND(B, C)+") == [["A", "[B C]"]]


def test_items_of_an_and_are_in_no_order_and_all_others_are() -> None:
    (found,) = alternatives("A, AND(B, C), D")
    pairs = {(min(item_positions(a)), min(item_positions(b))) for a, b in found.order}
    assert pairs == {(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)}


def test_absences_guard_the_gap_between_their_neighbours() -> None:
    (found,) = alternatives("A, AND(B, C), NOT N, D, NOT M")
    assert [(guard.absence, len(guard.after), len(guard.before)) for guard in found.guards] == [(0, 2, 1)]
    assert (found.opening, found.closing) == (frozenset(), frozenset({1}))


def test_a_gap_needs_only_the_weakest_of_its_guards() -> None:
    text = "A, SEQ(B?, NOT N)?, C"
    assert [len(each.guards) for each in alternatives(text)] == [0, 1]
    assert not is_ambiguous(alternatives(text))


def test_where_there_are_too_many_alternatives_all_is_one_loop() -> None:
    graph = positions("A?, " * 6 + "B").graph
    assert len(list_alternatives(graph)) == 64
    with pytest.raises(TooManyAlternatives):
        list_alternatives(graph, limit=63)
    ((loop,),) = (each.items for each in as_single_loop(graph))
    assert isinstance(loop, Loop)
    assert loop.positions == frozenset(range(7))


def test_totals_cannot_be_counted_over_a_gap_that_two_different_nots_may_guard() -> None:
    text = "A, OR(SEQ(B?, NOT N), SEQ(C?, NOT M)), D"
    with pytest.raises(UnsupportedPattern, match="two different NOTs"):
        build_automaton(positions(text))
    assert is_ambiguous(alternatives(text))
