"""Queries built in Python are the same as those written in text."""

from __future__ import annotations

import copy
import datetime as dt

import pytest

from motet.errors import QueryError
from motet.language import parse, to_text
from motet.language.builder import (
    QueryBuilder,
    all_of,
    any_of,
    attr,
    avg,
    call,
    column,
    count,
    define,
    event,
    first,
    last,
    max_,
    min_,
    neg,
    next_,
    query,
    seq,
    stddev,
    sum_,
    var,
    workload,
)

A, B, C, N = event("A"), event("B"), event("C"), event("N")
a, b = event("A", "a"), event("B", "b")
Q = query("q")
AB = Q.pattern(a, b.plus())

CASES: list[tuple[str, QueryBuilder]] = [
    ("PATTERN A", Q.pattern("A")),
    ("PATTERN A a", Q.pattern(a)),
    ("PATTERN SEQ(A, B)", Q.pattern(seq("A", B))),
    ("PATTERN A, B", Q.pattern("A", "B")),
    ("PATTERN SEQ(A, B b+, NOT N, C)", Q.pattern(seq(A, b[1:], ~N, C))),
    ("PATTERN A+, B*, C?, A{2}, B{2,5}, C{2,}, A{,3}",
     Q.pattern(A.plus(), B.star(), C.optional(), A.times(2), B.times(2, 5), C[2:], A[:3])),
    ("PATTERN SEQ(A, B)+", Q.pattern(seq(A, B).plus())),
    ("PATTERN AND(A, OR(B, C))", Q.pattern(all_of("A", any_of("B", "C")))),
    ("PATTERN SEQ(A, NEG(N))", Q.pattern(seq("A", neg("N")))),
    ("PATTERN SEQ(A a, NOT N n, B) WHERE n.x > a.x",
     Q.pattern(seq(a, ~event("N", "n"), B)).where(attr("n", "x") > a.x)),
    ("PATTERN A a, B b+ WHERE a.x > 10 AND b.y = 'k'", AB.where(a.x > 10, b.y == "k")),
    ("PATTERN A a, B b+ WHERE a.x > 10 AND b.y != NULL", AB.where((a.x > 10) & (b.y != None))),  # noqa: E711
    ("PATTERN A a, B b+ WHERE (a.x < 1 OR a.x >= 2 OR b.y <= 3) AND NOT (a.x = 4)",
     AB.where((a.x < 1) | (a.x >= 2) | (b.y <= 3), ~(a.x == 4))),
    ("PATTERN A a, B b+ WHERE (a.x + 1) * 2 - 3 / a.x % 4 > -a.x", AB.where((a.x + 1) * 2 - 3 / a.x % 4 > -a.x)),
    ("PATTERN A a, B b+ WHERE 1 + a.x = 2 - a.x AND 3 * a.x = 5 % a.x",
     AB.where(1 + a.x == 2 - a.x, 3 * a.x == 5 % a.x)),
    ("PATTERN A a, B b+ WHERE a.x IS NULL AND b.y IS NOT NULL", AB.where(a.x.is_null(), b.y.is_not_null())),
    ("PATTERN A a, B b+ WHERE a.x IN (1, 2) AND a.x NOT IN (3)", AB.where(a.x.is_in(1, 2), a.x.not_in(3))),
    ("PATTERN A a, B b+ WHERE a.x LIKE 'k%' AND a.x NOT LIKE '_'", AB.where(a.x.like("k%"), a.x.not_like("_"))),
    ("PATTERN A a, B b+ WHERE a.x BETWEEN 1 AND b.y", AB.where(a.x.between(1, b.y))),
    ("PATTERN A a, B b+ WHERE ABS(a.x) = COALESCE(b.y, 1)",
     AB.where(call("abs", a.x) == call("COALESCE", b.y, 1))),
    ("PATTERN A a, B b+ WHERE b.y < NEXT(b).y AND FIRST(b).y < LAST(b).plus",
     AB.where(b.y < next_(b).y, first("b").y < last(b)["plus"])),
    ("PATTERN A a, B b+ WHERE AVG(b.y) > a.x AND COUNT(b) >= 3", AB.where(avg(b.y) > a.x, count(b) >= 3)),
    ("PATTERN A a, B b+ WHERE a.x > TIMESTAMP '2024-05-01 00:00:00'", AB.where(a.x > dt.datetime(2024, 5, 1))),
    ("PATTERN Trade t, B WHERE Trade.x > 1", Q.pattern(event("Trade", "t"), B).where(attr("Trade", "x") > 1)),
    ("PATTERN A, B WHERE [v, w] GROUP BY d RETURN d, COUNT(*)",
     Q.pattern(A, B).same("v", "w").group_by("d").returning("d", count())),
    ("PATTERN A, B WITHIN 10 min SLIDE 1 min", Q.pattern(A, B).within("10 min", slide="1 min")),
    ("PATTERN A, B WITHIN 10 min", Q.pattern(A, B).within(dt.timedelta(minutes=10))),
    ("PATTERN A, B WITHIN 7 SLIDE 2", Q.pattern(A, B).within(7, slide=2)),
    ("PATTERN A, B WITHIN 5 EVENTS", Q.pattern(A, B).within_events(5)),
    ("PATTERN A, B WITHIN 1 s SKIP TILL NEXT", Q.pattern(A, B).within("1s").policy("SKIP TILL NEXT")),
    ("PATTERN A a, B b+ RETURN COUNT(*) AS n, COUNT(b), SUM(b.y) AS s, AVG(b.y)",
     AB.returning(count().as_("n"), count("b"), sum_("b", "y").as_("s"), avg(b.y))),
    ("PATTERN A a, B b+ RETURN MIN(b.y), MAX(b.y), VAR(b.y), STDDEV(b.y), COUNT(b.y)",
     AB.returning(min_(b.y), max_(b.y), var(b.y), stddev(b.y), count(b.y))),
    ("PATTERN A a, B b+ RETURN a, b", AB.returning(a, "b")),
    ("PATTERN A a, B b+ RETURN *", AB.returning("*")),
    ("PATTERN A a, B b+ RETURN a.x, LAST(b).y - a.x AS gain, (AVG(b.y)) AS mean",
     AB.returning(a.x, (last(b).y - a.x).as_("gain"), avg(b.y).per_match("mean"))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "built"), CASES, ids=[text for text, _ in CASES])
def test_python_and_text_give_the_same_model(text: str, built: QueryBuilder) -> None:
    assert built.build() == parse(f"QUERY q {text}").queries[0]


def test_a_workload_with_definitions_is_the_same_as_its_text() -> None:
    built = workload(
        Q.pattern("Big", "B").within("1 s"),
        query("r").pattern("A").within("1 s"),
        definitions=[define("Big", (column("type") == "Trade") & (column("qty") > 1000))],
    )
    assert built == parse("EVENT Big AS type = 'Trade' AND qty > 1000; QUERY q Big, B WITHIN 1 s; QUERY r A WITHIN 1 s")
    assert parse(to_text(built)) == built


def test_builders_can_be_kept_and_varied() -> None:
    base = Q.pattern(A, B).within("10 s")
    narrow = base.same("v")
    assert base.build().equivalence == ()
    assert narrow.build().equivalence == ("v",)


def test_build_says_all_that_is_wrong() -> None:
    wrong = Q.pattern(seq(a, b)).where(attr("c", "x") > 1, next_(b).y > 1, var(b.y) > 2).returning(sum_("b"))
    with pytest.raises(QueryError) as caught:
        wrong.build()
    assert [problem.message for problem in caught.value.diagnostics] == [
        "the pattern has no event 'c'",
        "'b' is bound only once, so it has no NEXT",
        "the aggregate 'VAR' cannot be used here",
        "SUM needs an attribute",
    ]


def test_a_query_needs_a_pattern() -> None:
    with pytest.raises(QueryError, match="no pattern"):
        Q.build()


@pytest.mark.parametrize("length", ["10 mn", "soon", "", "5 'x"])
def test_a_wrong_length_is_reported(length: str) -> None:
    with pytest.raises(QueryError):
        Q.pattern(A).within(length)


def test_a_condition_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="join conditions by &"):
        bool(a.x > 1)
    with pytest.raises(TypeError, match="cannot be part of an expression"):
        _ = a.x > [1]  # type: ignore[operator]
    with pytest.raises(TypeError, match="written as a slice"):
        _ = A[2]
    with pytest.raises(TypeError, match="takes an attribute"):
        sum_(a.x + 1)


def test_events_can_be_copied() -> None:
    assert Q.pattern(copy.deepcopy(a)).build() == Q.pattern(a).build()
