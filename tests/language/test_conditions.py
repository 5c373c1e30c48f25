"""WHERE and EVENT: conditions of every kind."""

from __future__ import annotations

import datetime as dt

import pytest

from motet.errors import QueryError
from motet.language import parse
from motet.language.parser import read_draft
from motet.model.expression import (
    Arithmetic,
    At,
    Attribute,
    Call,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    KleeneAggregate,
    Like,
    Literal,
    Logical,
    Membership,
    Negative,
)
from motet.model.query import EventDefinition

X, Y, Z = Attribute("a", "x"), Attribute("b", "y"), Attribute("c", "z")
ONE, TWO = Literal(1), Literal(2)


def equal(left: Expression, right: Expression) -> Comparison:
    return Comparison("=", left, right)


CASES: list[tuple[str, list[Expression]]] = [
    ("a.x = 1", [equal(X, ONE)]),
    ("a.x == 1", [equal(X, ONE)]),
    ("a.x <> 1", [Comparison("!=", X, ONE)]),
    ("a.x != 1", [Comparison("!=", X, ONE)]),
    ("a.x ≤ 1 AND a.x ≥ 1 AND a.x ≠ 1", [Comparison(sign, X, ONE) for sign in ("<=", ">=", "!=")]),
    ("a.x < b.y and b.y >= 2", [Comparison("<", X, Y), Comparison(">=", Y, TWO)]),
    ("a.x = 1, b.y = 2", [equal(X, ONE), equal(Y, TWO)]),
    ("(a.x = 1 AND b.y = 2) AND c.z = 1", [equal(X, ONE), equal(Y, TWO), equal(Z, ONE)]),
    ("a.x = b.y = c.z", [equal(X, Y), equal(Y, Z)]),
    ("1 < a.x <= 2", [Comparison("<", ONE, X), Comparison("<=", X, TWO)]),
    ("a.x = 1 OR b.y = 2", [Logical("OR", (equal(X, ONE), equal(Y, TWO)))]),
    ("(a.x = 1 OR b.y = 2) AND c.z = 1", [Logical("OR", (equal(X, ONE), equal(Y, TWO))), equal(Z, ONE)]),
    ("a.x = 1 OR b.y = 2 AND c.z = 1",
     [Logical("OR", (equal(X, ONE), Logical("AND", (equal(Y, TWO), equal(Z, ONE)))))]),
    ("NOT (a.x = 1)", [Inverse(equal(X, ONE))]),
    ("NOT a.x = 1", [Inverse(equal(X, ONE))]),
    ("a.x IS NULL", [IsNull(X)]),
    ("a.x IS NOT NULL", [IsNull(X, True)]),
    ("a.x IN (1, -2, 'x')", [Membership(X, (ONE, Literal(-2), Literal("x")))]),
    ("a.x NOT IN (NULL, TRUE)", [Membership(X, (Literal(None), Literal(True)), True)]),
    ("a.x LIKE 'a%'", [Like(X, "a%")]),
    ("a.x NOT LIKE '_'", [Like(X, "_", True)]),
    ("a.x BETWEEN 1 AND 2", [Comparison(">=", X, ONE), Comparison("<=", X, TWO)]),
    ("a.x BETWEEN 1 AND 2 AND b.y = 1", [Comparison(">=", X, ONE), Comparison("<=", X, TWO), equal(Y, ONE)]),
    ("a.x NOT BETWEEN 1 AND 2", [Inverse(Logical("AND", (Comparison(">=", X, ONE), Comparison("<=", X, TWO))))]),
    ("a.x + b.y * 2 = 1", [equal(Arithmetic("+", X, Arithmetic("*", Y, TWO)), ONE)]),
    ("(a.x + b.y) * 2 = 1", [equal(Arithmetic("*", Arithmetic("+", X, Y), TWO), ONE)]),
    ("a.x - b.y - 1 = 2", [equal(Arithmetic("-", Arithmetic("-", X, Y), ONE), TWO)]),
    ("a.x % 2 = -1", [equal(Arithmetic("%", X, TWO), Literal(-1))]),
    ("-a.x = -(1)", [equal(Negative(X), Negative(ONE))]),
    ("a.x - -1 = 2", [equal(Arithmetic("-", X, Literal(-1)), TWO)]),
    ("a.x = 1.5 AND a.x = .5 AND a.x = 1e3", [equal(X, Literal(value)) for value in (1.5, 0.5, 1000.0)]),
    ("a.x = 'it''s'", [equal(X, Literal("it's"))]),
    (r"a.x = E'a\n\\\'\u00e9'", [equal(X, Literal("a\n\\'é"))]),
    ("a.x = true AND a.x = False", [equal(X, Literal(True)), equal(X, Literal(False))]),
    ("a.x > TIMESTAMP '2024-05-01 12:30:00'", [Comparison(">", X, Literal(dt.datetime(2024, 5, 1, 12, 30)))]),
    ("a.x > date '2024-05-01'", [Comparison(">", X, Literal(dt.datetime(2024, 5, 1)))]),
    ("a.x > TIMESTAMP '2024-05-01T12:30:00+02:00'",
     [Comparison(">", X, Literal(dt.datetime(2024, 5, 1, 10, 30, tzinfo=dt.UTC)))]),
    ("abs(a.x) = 1", [equal(Call("ABS", (X,)), ONE)]),
    ("COALESCE(a.x, b.y, 1) = 2", [equal(Call("COALESCE", (X, Y, ONE)), TWO)]),
    ("k.x < NEXT(k).x", [Comparison("<", Attribute("k", "x"), Attribute("k", "x", At.NEXT))]),
    ("k.x < NEXT(k.x)", [Comparison("<", Attribute("k", "x"), Attribute("k", "x", At.NEXT))]),
    ("FIRST(k).x < last(k.x)", [Comparison("<", Attribute("k", "x", At.FIRST), Attribute("k", "x", At.LAST))]),
    ("AVG(k.x) > a.x", [Comparison(">", KleeneAggregate("AVG", "k", "x"), X)]),
    ("COUNT(k) >= 2", [Comparison(">=", KleeneAggregate("COUNT", "k", None), TWO)]),
    ('a."odd name" = 1', [equal(Attribute("a", "odd name"), ONE)]),
    ("a.window = 1 AND a.return = 1 AND a.like = 1 AND a.and = 1",
     [equal(Attribute("a", name), ONE) for name in ("window", "return", "like", "and")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "conditions"), CASES, ids=[text for text, _ in CASES])
def test_each_condition_gives_its_expressions(text: str, conditions: list[Expression]) -> None:
    draft = read_draft(f"PATTERN A a, B b, C c, K k+ WHERE {text} WITHIN 1 s")
    assert draft.problems == []
    assert list(draft.workload.queries[0].conditions) == conditions


@pytest.mark.parametrize(
    "where",
    [
        "[v, w] AND a.x = 1",
        "[v] AND [w], a.x = 1",
        "a.x = 1, [v], [w]",
        "([v] AND a.x = 1) AND [w, v]",
        "[v, w], (a.x = 1)",
    ],
)
def test_equivalence_mixes_with_conditions(where: str) -> None:
    query = parse(f"QUERY q PATTERN A a, B b WHERE {where} WITHIN 1 s").queries[0]
    assert query.equivalence == ("v", "w")
    assert query.conditions == (equal(X, ONE),)


def test_a_type_serves_as_the_variable_of_its_only_event() -> None:
    by_type = parse("QUERY q RETURN COUNT(Trade), SUM(t.x) PATTERN Trade t, B WHERE Trade.x > 1 WITHIN 1 s").queries[0]
    assert by_type.conditions == (Comparison(">", Attribute("t", "x"), ONE),)
    assert [item.label for item in by_type.aggregates] == ["COUNT(Trade)", "SUM(t.x)"]


def test_event_definitions_speak_of_bare_columns() -> None:
    workload = parse("EVENT Big AS type = 'Trade' AND\n  qty > 1000\nQUERY q PATTERN Big, B WITHIN 1 s")
    condition = Logical(
        "AND",
        (equal(Attribute("", "type"), Literal("Trade")), Comparison(">", Attribute("", "qty"), Literal(1000))),
    )
    assert workload.definitions == (EventDefinition("Big", condition),)
    assert [query.name for query in workload.queries] == ["q"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("price > 10", "'price' does not say which event it is about"),
        ("[v] OR a.x = 1", "[attribute] stands on its own"),
        ("NOT [v]", "[attribute] stands on its own"),
        ("LOWR(a.x) = 'x'", "unknown function 'LOWR'"),
        ("VAR(b.y) > 1", "VAR cannot be used here"),
        ("COUNT(*) > 1", "COUNT(*) counts matches"),
        ("SUM(a.x + 1) > 1", "SUM takes one attribute of one variable"),
        ("NEXT(b) = 1", "NEXT(b) needs an attribute"),
        ("ABS(a).x = 1", "ABS(...) has no attribute 'x'"),
        ("a.x = TIMESTAMP 'soon'", "'soon' is no timestamp"),
        ("a.x = 1 != 2", "'!=' cannot be part of a chain"),
        ("a.x = 'open", "this text is never closed"),
        ("a.x = 1 & b.y = 2", "unexpected '&'"),
        ("a.x IN ()", "unexpected ')'"),
        ("a.x =", "WHERE ends too early"),
        ("", "WHERE is empty"),
    ],
)
def test_what_is_wrong_with_a_condition_is_said(where: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(f"QUERY q PATTERN A a, B b WITHIN 1 s WHERE {where}\n")
    assert message in str(caught.value)
    assert len(caught.value.diagnostics) == 1


@pytest.mark.parametrize("condition", ["COUNT(b) > 1", "NEXT(b).x > 1", "qty >"])
def test_what_is_wrong_with_a_definition_is_said(condition: str) -> None:
    with pytest.raises(QueryError):
        parse(f"EVENT Big AS {condition}\nQUERY q PATTERN Big WITHIN 1 s")
