"""RETURN, GROUP BY, WITHIN, SLIDE and the policy."""

from __future__ import annotations

import pytest

from motet.errors import QueryError
from motet.language import parse
from motet.language.parser import read_draft
from motet.model.expression import Arithmetic, At, Attribute, KleeneAggregate
from motet.model.query import Aggregate, AllVariables, Computed, GroupKey, Policy, Query, ReturnItem, Variable
from motet.model.window import CountWindow, TimeWindow, Window

MINUTE = 60_000_000


def query(clauses: str) -> Query:
    return parse(f"QUERY q PATTERN A a, B b+ {clauses}").queries[0]


RETURNS: list[tuple[str, list[ReturnItem]]] = [
    ("COUNT(*)", [Aggregate("COUNT")]),
    ("count( * ) AS n", [Aggregate("COUNT", alias="n")]),
    ("COUNT(a), COUNT(b.x)", [Aggregate("COUNT", "a"), Aggregate("COUNT", "b", "x")]),
    ("SUM (b.x), AVG(b.x) AS m", [Aggregate("SUM", "b", "x"), Aggregate("AVG", "b", "x", "m")]),
    ("MIN(b.x), MAX(b.x), VAR(b.x), STDDEV(b.x)",
     [Aggregate(function, "b", "x") for function in ("MIN", "MAX", "VAR", "STDDEV")]),
    ("*", [AllVariables()]),
    ("a, b", [Variable("a"), Variable("b")]),
    ("a AS opening", [Variable("a", "opening")]),
    ("A", [Variable("a", "A")]),
    ("a.x", [Computed(Attribute("a", "x"), "a.x")]),
    ("LAST(b).x-a.x AS gain",
     [Computed(Arithmetic("-", Attribute("b", "x", At.LAST), Attribute("a", "x")), "gain")]),
    ("a, (AVG(b.x)) AS m", [Variable("a"), Computed(KleeneAggregate("AVG", "b", "x"), "m")]),
    ("(COUNT(b))", [Computed(KleeneAggregate("COUNT", "b", None), "COUNT(b)")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "items"), RETURNS, ids=[text for text, _ in RETURNS])
def test_each_spelling_of_return(text: str, items: list[ReturnItem]) -> None:
    assert list(query(f"RETURN {text}").returns) == items


@pytest.mark.parametrize("spelling", ["GROUP BY", "group by", "GROUP-BY", "GROUP_BY", "GROUPBY"])
def test_group_by_and_its_attributes_in_return(spelling: str) -> None:
    grouped = query(f"RETURN district, COUNT(*) {spelling} district, city")
    assert grouped.returns == (GroupKey("district"), Aggregate("COUNT"))
    assert grouped.group_by == ("district", "city")


@pytest.mark.parametrize(("text", "function"), [("COUNT", "COUNT"), ("COUNT(*)", "COUNT"), ("SUM(b.x)", "SUM")])
def test_a_seqs_agg_is_return(text: str, function: str) -> None:
    assert [item.function for item in query(f"[AGG {text}]").aggregates] == [function]


WINDOWS: list[tuple[str, Window]] = [
    ("WITHIN 10s", TimeWindow(10_000_000)),
    ("WITHIN 20min", TimeWindow(20 * MINUTE)),
    ("WITHIN 10 min SLIDE 1 min", TimeWindow(10 * MINUTE, MINUTE)),
    ("WINDOW 20min SLIDE 5 min", TimeWindow(20 * MINUTE, 5 * MINUTE)),
    ("SLIDE 1 min WITHIN 10 min", TimeWindow(10 * MINUTE, MINUTE)),
    ("WITHIN 1hour", TimeWindow(60 * MINUTE)),
    ("WITHIN 1.5 Hours", TimeWindow(90 * MINUTE)),
    ("WITHIN 2 days", TimeWindow(2 * 24 * 60 * MINUTE)),
    ("WITHIN 5 us", TimeWindow(5)),
    ("WITHIN 1e3 ms", TimeWindow(1_000_000)),
    ("WITHIN INTERVAL '10' MINUTE", TimeWindow(10 * MINUTE)),
    ("WITHIN INTERVAL 10 MINUTES", TimeWindow(10 * MINUTE)),
    ("WITHIN INTERVAL '10 minutes'", TimeWindow(10 * MINUTE)),
    ("WITHIN 7", TimeWindow(7, None, True)),
    ("WITHIN 7 SLIDE 2", TimeWindow(7, 2, True)),
    ("WITHIN 5 EVENTS", CountWindow(5)),
    ("within 1 event", CountWindow(1)),
    ("[WITHIN 10s]", TimeWindow(10_000_000)),
    ("WITHIN <10s>", TimeWindow(10_000_000)),
    (r"WITHIN $5\mathrm{s}$", TimeWindow(5_000_000)),
]


@pytest.mark.parametrize(("text", "window"), WINDOWS, ids=[text for text, _ in WINDOWS])
def test_each_spelling_of_a_window(text: str, window: Window) -> None:
    assert query(text).window == window


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", Policy.SKIP_TILL_ANY),
        ("SKIP TILL ANY", Policy.SKIP_TILL_ANY),
        ("SKIP TILL ANY MATCH", Policy.SKIP_TILL_ANY),
        ("skip-till-next-match", Policy.SKIP_TILL_NEXT),
        ("SKIP_TILL_NEXT", Policy.SKIP_TILL_NEXT),
        ("CONTIGUOUS", Policy.CONTIGUOUS),
    ],
)
def test_each_spelling_of_a_policy(text: str, policy: Policy) -> None:
    assert query(f"{text} WITHIN 1 s").policy == policy
    assert query(f"WITHIN 1 s {text}").policy == policy


def test_clauses_come_in_any_order() -> None:
    one = parse("QUERY q RETURN COUNT(*) PATTERN A, B WHERE [v] GROUP BY d WITHIN 10 s SLIDE 1 s SKIP TILL NEXT")
    other = parse("QUERY q WITHIN 10 s SKIP TILL NEXT GROUP BY d SLIDE 1 s WHERE [v] PATTERN A, B RETURN COUNT(*)")
    assert one == other


@pytest.mark.parametrize(
    ("clauses", "message", "hint"),
    [
        ("WITHIN 10 mn", "unknown unit 'mn'", "did you mean 'min'?"),
        ("WITHIN 10 secnds", "unknown unit 'secnds'", "did you mean 'seconds'?"),
        ("WITHIN 10 parsec", "unknown unit 'parsec'", ""),
        ("WITHIN 5 EVENTS SLIDE 1 s", "a window counted in EVENTS cannot SLIDE", ""),
        ("WITHIN 5 s SLIDE 2 EVENTS", "SLIDE cannot be counted in EVENTS", ""),
        ("WITHIN 5 s SLIDE 2", "must both have a unit or both have none", ""),
        ("WITHIN 1.5 us", "must be a whole number", ""),
        ("WITHIN 1e40 s", "is too long", ""),
        ("SLIDE 1 s", "SLIDE needs WITHIN", ""),
        ("WITHIN soon", "unexpected 'soon' in WITHIN", ""),
        ("WITHIN INTERVL '10' min", "unexpected 'INTERVL'", "did you mean 'INTERVAL'?"),
        ("WITHIN INTERVAL 'ten' MINUTE", "'ten' is no number", ""),
        ("WITHIN INTERVAL 10", "this interval has no unit", ""),
        ("WITHIN 1 s WITHIN 2 s", "only one WITHIN clause", ""),
        ("RETURN COUNT(*) AGG COUNT", "AGG and RETURN mean the same", ""),
        ("AGG a", "AGG takes aggregates", ""),
        ("RETURN SUM(*)", "SUM(*) means nothing", ""),
        ("RETURN COUTN(*)", "unknown function 'COUTN'", "did you mean 'COUNT'?"),
        ("RETURN COUNT(*), d AS e GROUP BY d", "keeps its name", ""),
        ("RETURN COUNT(*) GROUP d", "GROUP must be followed by BY", ""),
        ("SKIP TILL LATER", "SKIP TILL must be followed by ANY or NEXT", ""),
        ("CONTIGUOUS please", "unexpected 'please'", ""),
    ],
)
def test_what_is_wrong_with_a_clause_is_said(clauses: str, message: str, hint: str) -> None:
    draft = read_draft(f"QUERY q PATTERN A a, B b+ {clauses}")
    assert len(draft.problems) == 1
    assert message in draft.problems[0].message
    assert hint in (draft.problems[0].hint or "")
    with pytest.raises(QueryError):
        parse(f"QUERY q PATTERN A a, B b+ {clauses}")
