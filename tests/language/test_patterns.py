"""PATTERN: every operator and every spelling of it."""

from __future__ import annotations

import pytest

from motet.errors import QueryError
from motet.language import parse
from motet.language.parser import read_draft
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq

A, B, C, N = Event("A"), Event("B"), Event("C"), Event("N")

CASES: list[tuple[str, Pattern]] = [
    ("A", A),
    ("A a", Event("A", "a")),
    ("A AS a", Event("A", "a")),
    ("SEQ(A, B)", Seq((A, B))),
    ("seq(A, B)", Seq((A, B))),
    ("A, B, C", Seq((A, B, C))),
    ("(A, B)", Seq((A, B))),
    ("(A)", A),
    ("SEQ(A)", Seq((A,))),
    ("A+", Repeat(A, 1, None)),
    ("A^+", Repeat(A, 1, None)),
    ("A*", Repeat(A, 0, None)),
    ("A?", Repeat(A, 0, 1)),
    ("A{2,5}", Repeat(A, 2, 5)),
    ("A{2}", Repeat(A, 2, 2)),
    ("A{2,}", Repeat(A, 2, None)),
    ("A{,5}", Repeat(A, 0, 5)),
    ("A a+", Repeat(Event("A", "a"), 1, None)),
    ("A+ a", Repeat(Event("A", "a"), 1, None)),
    ("A{2,3} AS a", Repeat(Event("A", "a"), 2, 3)),
    ("A+?", Repeat(Repeat(A, 1, None), 0, 1)),
    ("(A+)+", Repeat(Repeat(A, 1, None), 1, None)),
    ("(A, B)+", Repeat(Seq((A, B)), 1, None)),
    ("SEQ(A, B)+", Repeat(Seq((A, B)), 1, None)),
    ("KL(A)", Repeat(A, 1, None)),
    ("KL(A, B)", Repeat(Seq((A, B)), 1, None)),
    ("AND(A, B)", And((A, B))),
    ("CONJ(A & B)", And((A, B))),
    ("CONJ(A & B, C)", And((A, B, C))),
    (r"\text{CONJ}(A \& B)", And((A, B))),
    ("OR(A, B)", Or((A, B))),
    ("DISJ(A | B)", Or((A, B))),
    (r"DISJ(A \mid B)", Or((A, B))),
    ("SEQ(A, NOT N, B)", Seq((A, Not(N), B))),
    ("SEQ(A, !N, B)", Seq((A, Not(N), B))),
    ("A, NOT (N), B", Seq((A, Not(N), B))),
    ("A, NOT N n, B", Seq((A, Not(Event("N", "n")), B))),
    ("SEQ(A, B, NEG(N))", Seq((A, B, Neg(N)))),
    ("SEQ(C, SEQ(A, B)+, OR(A x, AND(B y, C z)))",
     Seq((C, Repeat(Seq((A, B)), 1, None), Or((Event("A", "x"), And((Event("B", "y"), Event("C", "z")))))))),
    ('"Declaration SUBMITTED by EMPLOYEE" d', Event("Declaration SUBMITTED by EMPLOYEE", "d")),
    ("`a ``b`` c`, B", Seq((Event("a `b` c"), B))),
    ('"say ""hi"""', Event('say "hi"')),
    ("dns_NOERROR, größe, 価格", Seq((Event("dns_NOERROR"), Event("größe"), Event("価格")))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "pattern"), CASES, ids=[text for text, _ in CASES])
def test_each_spelling_gives_its_pattern(text: str, pattern: Pattern) -> None:
    draft = read_draft(f"PATTERN {text}")
    assert draft.problems == []
    assert draft.workload.queries[0].pattern == pattern


@pytest.mark.parametrize("word", ["return", "Window", "slide", "like", "in", "is", "query", "event", "count", "first"])
def test_a_type_may_be_called_like_a_keyword(word: str) -> None:
    in_brackets = parse(
        f"QUERY q RETURN COUNT(*) PATTERN SEQ(sale, {word}) WHERE {word}.qty > 1 WITHIN 30 days"
    ).queries[0]
    assert in_brackets.pattern == Seq((Event("sale"), Event(word)))
    assert (
        parse(f"QUERY q RETURN COUNT(*) PATTERN sale, {word} WITHIN 30 days").queries[0].pattern == in_brackets.pattern
    )
    assert parse(f"QUERY q RETURN COUNT(*) PATTERN {word}+, sale WITHIN 30 days").queries[0].pattern == Seq(
        (Repeat(Event(word), 1, None), Event("sale"))
    )


def test_nodes_know_where_they_stand() -> None:
    text = "QUERY q\nPATTERN SEQ(A a, (B b)+)"
    pattern = parse(text).queries[0].pattern
    assert isinstance(pattern, Seq)
    first, second = pattern.parts
    assert first.span is not None
    assert second.span is not None
    assert (first.span.line, first.span.column) == (2, 13)
    assert text[second.span.start : second.span.end] in ("(B b)+", "B b)+")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("SQE(A, B)", "unknown pattern operator 'SQE'"),
        ("SEQ(A B C)", "already called 'B'"),
        ("SEQ(A, B) x", "only an event or an OR of events can have a variable"),
        ("SEQ(A, NOT SEQ(B, C), D)", "NOT takes one event type"),
        ("SEQ(A, NEG(B, C))", "NEG takes one event type"),
        ("A & B", "'&' cannot stand between parts of SEQ"),
        ("A | B", "'|' cannot stand between parts of SEQ"),
        ("OR(A & B)", "'&' cannot stand between parts of OR"),
        ("A{1.5}", "whole numbers"),
        ("SEQ()", "unexpected ')'"),
        ("SEQ(A,, B)", "unexpected ','"),
        ("SEQ(A, B", "this '(' is never closed"),
        ("'A'", "unexpected 'A'"),
    ],
)
def test_what_is_wrong_with_a_pattern_is_said(pattern: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(f"QUERY q PATTERN {pattern} WITHIN 1 s")
    assert message in str(caught.value)
    assert len(caught.value.diagnostics) == 1
