"""What is read off names and shapes of patterns."""

from __future__ import annotations

import pytest

from motet.language.parser import read_draft
from motet.model.names import find_events, list_events
from motet.model.pattern import Event, Pattern
from motet.model.shape import find_open_absences, is_nullable, repeated_names


def pattern(text: str) -> Pattern:
    return read_draft(f"PATTERN {text}").workload.queries[0].pattern


@pytest.mark.parametrize(
    "text", ["A?", "A*", "NOT A", "A{0,3}", "SEQ(A?, B*)", "AND(A?, NEG(B))", "OR(A, B?)", "(A?)+"]
)
def test_patterns_that_may_bind_nothing(text: str) -> None:
    assert is_nullable(pattern(text))


@pytest.mark.parametrize("text", ["A", "A+", "A{2,3}", "SEQ(A?, B)", "AND(A, B?)", "OR(A, B)", "SEQ(NOT N, A)"])
def test_patterns_that_always_bind_an_event(text: str) -> None:
    assert not is_nullable(pattern(text))


def test_repeated_names_are_those_under_a_repetition_of_more_than_one() -> None:
    assert repeated_names(pattern("A a, (B b, C, NOT N)+, D?, E{1}, F{2}, OR(G*, H)")) == {"b", "C", "F", "G"}


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("SEQ(NOT N, A)", ["N"]),
        ("SEQ(A, NOT N)", ["N"]),
        ("SEQ(A, NOT N, B)", []),
        ("SEQ(A?, NOT N, B, NOT M, C)", ["N"]),
        ("SEQ(A, (NOT N, B)+)", []),
        ("SEQ((NOT N, B)+, NOT M, A)", ["N"]),
        ("OR(SEQ(A, NOT N), SEQ(A, NOT M, B))", ["N"]),
        ("SEQ(A, AND(B, SEQ(NOT N, C)), D)", ["N"]),
        ("SEQ(A, SEQ(NOT N, B), C)", []),
        ("SEQ(A, NOT N, NOT M, B)", []),
    ],
)
def test_a_not_is_open_where_some_match_binds_nothing_beside_it(text: str, types: list[str]) -> None:
    assert [absence.event.type for absence in find_open_absences(pattern(text))] == types


def test_a_name_stands_for_its_variable_first_and_then_for_all_of_its_type() -> None:
    looked_at = pattern("A a, A, B b, NOT N n")
    assert [event.name for event in list_events(looked_at)] == ["a", "A", "b", "n"]
    assert find_events(looked_at, "a") == [Event("A", "a")]
    assert find_events(looked_at, "A") == [Event("A", "a"), Event("A")]
    assert find_events(looked_at, "B") == [Event("B", "b")]
    assert find_events(looked_at, "N") == [Event("N", "n")]
    assert find_events(looked_at, "x") == []
