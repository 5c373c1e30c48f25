"""Validation: each rule catches what it is about and leaves the rest alone."""

from __future__ import annotations

import pytest

from motet.errors import Diagnostic
from motet.language.parser import read_draft
from motet.model.pattern import Event, Seq
from motet.model.query import Aggregate, Query, Variable, Workload
from motet.model.validate import find_problems
from motet.model.window import TimeWindow

COLUMNS = {
    "time": "time",
    "type": "text",
    "key": "integer",
    "price": "number",
    "name": "text",
    "flag": "boolean",
    "at": "time",
    "tags": "other",
}


def found(text: str, **data: object) -> list[Diagnostic]:
    draft = read_draft(text)
    assert draft.problems == []
    return find_problems(draft.workload, **data)  # type: ignore[arg-type]


def errors(text: str, **data: object) -> list[str]:
    return [problem.message for problem in found(text, **data) if not problem.warning]


def warnings(text: str, **data: object) -> list[str]:
    return [problem.message for problem in found(text, **data) if problem.warning]


@pytest.mark.parametrize(
    "text",
    [
        "A, B WITHIN 1 s",
        "SEQ(NOT N, A, NOT M, B, NOT K) WITHIN 1 s",
        "SEQ(A, NOT N n, B) WHERE n.x > 1 AND n.x > A.x WITHIN 1 s",
        "SEQ(A, NEG(N)) WITHIN 1 s",
        "AND(A, SEQ(B, NOT N, C), NEG(M)) WITHIN 1 s",
        "(A, NOT N, B)+ WITHIN 1 s",
        "OR(SEQ(A, NOT N), B) WITHIN 1 s",
        "SEQ(A, NOT N, B) WITHIN 5 EVENTS",
        "SEQ(A?, B) RETURN COUNT(A) WITHIN 1 s",
        "A, A RETURN COUNT(A), SUM(A.x) WITHIN 1 s",
        "A, A RETURN * WITHIN 1 s",
        "A x, A+ y WHERE x.v < y.v AND y.v < NEXT(y).v WITHIN 1 s",
        "A{2} a WHERE a.v < NEXT(a).v WITHIN 1 s",
        "q1: RETURN COUNT(*) AS n PATTERN A WITHIN 1 s\nq2: RETURN COUNT(A) AS n PATTERN A WITHIN 1 s",
        "A a, B b+ RETURN a, b, FIRST(b).x, (AVG(b.x)) AS m WITHIN 1 s",
        "A Trade WHERE Trade.x > 1 WITHIN 1 s",
    ],
)
def test_what_is_right_is_left_alone(text: str) -> None:
    assert found(text) == []


CASES = [
    # names
    ("q: A WITHIN 1 s\nq: B WITHIN 1 s", "there is already a query called 'q'"),
    ("EVENT X AS a = 1\nEVENT X AS a = 2\nq: X WITHIN 1 s", "there is already an event definition called 'X'"),
    ("A x, B x WITHIN 1 s", "there are two events called 'x'"),
    ("A B, B WITHIN 1 s", "'B' is a variable here and also the type of another event"),
    ("A a, B b WHERE c.x > 1 WITHIN 1 s", "the pattern has no event 'c'"),
    ("A, NOT A, B WHERE A.x > 1 WITHIN 1 s", "the pattern has several events of type 'A'"),
    ("A, A RETURN A WITHIN 1 s", "the pattern has several events of type 'A'"),
    # patterns
    ("NOT A WITHIN 1 s", "this pattern can bind no event"),
    ("NEG(A) WITHIN 1 s", "this pattern can bind no event"),
    ("SEQ(NOT A, NOT B) WITHIN 1 s", "this pattern can bind no event"),
    ("SEQ(A, (NOT B, NOT C), D) WITHIN 1 s", "this group binds no event"),
    ("AND(A, NOT B) WITHIN 1 s", "NOT can only stand as a part of a SEQ"),
    ("OR(A, NOT B) WITHIN 1 s", "NOT can only stand as a part of a SEQ"),
    ("SEQ(A, (NOT B)+) WITHIN 1 s", "NOT can only stand as a part of a SEQ"),
    ("AND(A, SEQ(NOT N, B)) WITHIN 1 s", "in a part of an AND, NOT needs an event"),
    ("AND(A, SEQ(B, NOT N)) WITHIN 1 s", "in a part of an AND, NOT needs an event"),
    ("AND(A, SEQ(B?, NOT N, C)) WITHIN 1 s", "in a part of an AND, NOT needs an event"),
    ("SEQ(X, AND(A, SEQ(NOT N, B)), Y) WITHIN 1 s", "in a part of an AND, NOT needs an event"),
    ("OR(A, NEG(B)) WITHIN 1 s", "NEG can only stand as a part of a SEQ or an AND"),
    ("OR(A, SEQ(B, NEG(C))) WITHIN 1 s", "NEG cannot stand under an OR or a repetition"),
    ("SEQ(A, NEG(B))+ WITHIN 1 s", "NEG cannot stand under an OR or a repetition"),
    ("A{3,2} WITHIN 1 s", "at least 3 cannot be more than at most 2"),
    ("A{0} WITHIN 1 s", "a repetition needs room for at least one event"),
    ("A{0,0} WITHIN 1 s", "a repetition needs room for at least one event"),
    # conditions
    ("A a, B+ b WHERE NEXT(a).x > 1 WITHIN 1 s", "'a' is bound only once, so it has no NEXT"),
    ("A? a WHERE NEXT(a).x > a.x WITHIN 1 s", "'a' is bound only once, so it has no NEXT"),
    ("A+ a, B+ b WHERE NEXT(a).x > NEXT(b).x WITHIN 1 s", "a condition can speak of NEXT of one variable only"),
    ("A, NOT N, B WHERE COUNT(N) > 1 WITHIN 1 s", "COUNT of 'N' means nothing"),
    ("A, NOT N, B WHERE FIRST(N).x > 1 WITHIN 1 s", "FIRST of 'N' means nothing"),
    ("A WHERE 1 = 1 WITHIN 1 s", "this condition is about no event"),
    ("A WHERE A.x + 1 WITHIN 1 s", "this is a value, not a condition"),
    ("A WHERE SUM(A) > 1 WITHIN 1 s", "SUM needs an attribute"),
    ("A WHERE ABS(A.x, A.y) > 1 WITHIN 1 s", "ABS takes 1 argument, not 2"),
    ("A WHERE COALESCE() > A.x WITHIN 1 s", "COALESCE takes 1 to 16 arguments, not 0"),
    # results
    ("A, B RETURN COUNT(C) WITHIN 1 s", "the pattern has no event 'C'"),
    ("A, NOT N RETURN COUNT(N) WITHIN 1 s", "COUNT of 'N' means nothing"),
    ("A, NOT N RETURN N WITHIN 1 s", "no match binds 'N'"),
    ("A, NOT N RETURN N.x WITHIN 1 s", "no match binds 'N'"),
    ("PATTERN A RETURN SUM(A) WITHIN 1 s", "SUM needs an attribute"),
    ("A a RETURN a, COUNT(*) WITHIN 1 s", "RETURN asks for matches and for aggregates"),
    ("PATTERN A RETURN *, COUNT(*) WITHIN 1 s", "RETURN asks for matches and for aggregates"),
    ("PATTERN A RETURN district, COUNT(*) GROUP BY city WITHIN 1 s", "'district' is neither an event of the pattern"),
    ("PATTERN A RETURN city GROUP BY city WITHIN 1 s", "RETURN needs an aggregate"),
    ("A+ a RETURN a.x WITHIN 1 s", "a match may bind several events to 'a'"),
    ("A+ a RETURN NEXT(a).x WITHIN 1 s", "NEXT can only be used in WHERE"),
    ("PATTERN A RETURN COUNT(*), COUNT(*) WITHIN 1 s", "two results of this query are called 'COUNT(*)'"),
    ("A a RETURN a, a.x AS a WITHIN 1 s", "two results of this query are called 'a'"),
    ("PATTERN A RETURN COUNT(*) AS city GROUP BY city WITHIN 1 s", "'city' is also a GROUP BY attribute"),
    ("PATTERN A RETURN COUNT(*) AS query WITHIN 1 s", "results have a column 'query' of their own"),
    ("A start, B WITHIN 1 s", "results have a column 'start' of their own"),
    ("PATTERN A RETURN COUNT(*) GROUP BY time WITHIN 1 s", "results have a column 'time' of their own"),
    # windows
    ("A WITHIN 0 s", "WITHIN must be more than zero"),
    ("A WITHIN 1 s SLIDE 0 s", "SLIDE must be more than zero"),
    ("A WITHIN 0 EVENTS", "WITHIN must be more than zero"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), CASES, ids=[text for text, _ in CASES])
def test_each_mistake_is_one_error(text: str, message: str) -> None:
    said = errors(text)
    assert len(said) == 1, said
    assert message in said[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A, B", "without WITHIN the whole input is one window"),
        ("A WITHIN 1 s SLIDE 2 s", "SLIDE is longer than WITHIN"),
        ("EVENT X AS a = 1\nq: A WITHIN 1 s", "no query uses the event 'X'"),
        ("A WHERE A.x = NULL WITHIN 1 s", "a comparison with NULL never holds"),
    ],
)
def test_what_may_be_meant_is_a_warning(text: str, message: str) -> None:
    assert errors(text) == []
    assert [message in warning for warning in warnings(text)] == [True]


DATA_CASES = [
    ("A a WHERE a.prise > 1", "the data has no column 'prise'"),
    ("A a WHERE [kee]", "the data has no column 'kee'"),
    ("A a GROUP BY kee RETURN COUNT(*)", "the data has no column 'kee'"),
    ("A a RETURN SUM(a.prise)", "the data has no column 'prise'"),
    ("A a RETURN a.prise", "the data has no column 'prise'"),
    ("A a RETURN SUM(a.name)", "SUM needs numbers, and 'name' is a text"),
    ("A a RETURN AVG(a.at)", "AVG needs numbers, and 'at' is a timestamp"),
    ("A a RETURN MAX(a.flag)", "MAX needs values with an order, and 'flag' is true or false"),
    ("A a WHERE SUM(a.name) > 1", "SUM needs numbers, and 'name' is a text"),
    ("A a WHERE a.name > 1", "a text cannot be compared with a number"),
    ("A a WHERE a.flag = 1", "true or false cannot be compared with a number"),
    ("A a WHERE a.at > '2024-01-01'", "a timestamp cannot be compared with a text"),
    ("A a WHERE a.key IN (1, 'x')", "a number cannot be compared with a text"),
    ("A a WHERE a.name + 1 > 2", "arithmetic needs numbers, and this is a text"),
    ("A a WHERE -a.at > 2", "arithmetic needs numbers, and this is a timestamp"),
    ("A a WHERE a.price", "this is a value, not a condition"),
    ("A a WHERE a.price OR a.flag", "OR joins conditions, and this is a number"),
    ("A a WHERE NOT a.name", "NOT takes a condition, and this is a text"),
    ("A a WHERE a.price LIKE 'x'", "LIKE compares texts, and this is a number"),
    ("A a WHERE LOWER(a.price) = 'x'", "LOWER takes a text, and this is a number"),
    ("A a WHERE SQRT(a.name) = 1", "SQRT takes a number, and this is a text"),
    ("A a WHERE COALESCE(a.name, 1) IS NULL", "a text cannot be replaced by a number"),
    ("EVENT A AS price = 'x'\nq: A", "a number cannot be compared with a text"),
    ("EVENT A AS prise = 1\nq: A", "the data has no column 'prise'"),
    ("A WITHIN 7", "this window has no unit, and 'time' holds timestamps"),
]


@pytest.mark.parametrize(("text", "message"), DATA_CASES, ids=[text for text, _ in DATA_CASES])
def test_each_misfit_with_the_data_is_one_error(text: str, message: str) -> None:
    said = errors(text, columns=COLUMNS)
    assert len(said) == 1, said
    assert message in said[0]


@pytest.mark.parametrize(
    "where",
    [
        "a.price > 1 AND a.key > 1.5 AND a.key % 2 = 0",
        "a.name LIKE 'x%' AND LENGTH(a.name) > 3 AND UPPER(a.name) < 'k'",
        "a.flag AND NOT a.flag AND a.flag = TRUE",
        "a.at > TIMESTAMP '2024-01-01' AND a.time < a.at",
        "a.tags = 'x' AND COALESCE(a.price, a.key, 0) > FLOOR(a.price)",
        "MIN(a.name) = 'x' AND MAX(a.at) > a.time AND COUNT(a) > 1",
    ],
)
def test_what_fits_the_data_is_left_alone(where: str) -> None:
    assert errors(f"A a WHERE {where} WITHIN 1 s", columns=COLUMNS) == []


def test_a_misspelt_column_is_suggested() -> None:
    problem = next(p for p in found("A a WHERE a.prise > 1 WITHIN 1 s", columns=COLUMNS))
    assert problem.hint == "did you mean 'price'?"


def test_a_type_that_the_data_lacks_is_never_passed_over_in_silence() -> None:
    said = found("EVENT Big AS qty > 1\nq: SEQ(Big, Trde, NOT Stop) WITHIN 1 s", types={"Trade", "Quote"})
    assert [(problem.message, problem.hint, problem.warning) for problem in said] == [
        ("the data has no events of type 'Trde'", "did you mean 'Trade'?", True),
        ("the data has no events of type 'Stop'", "known here: Big, Quote, Trade", True),
    ]


def test_time_and_type_columns_must_fit() -> None:
    assert errors("A WITHIN 1 s", columns={"ts": "time", "kind": "text"}) == [
        "the data has no column 'time' for the time of events",
        "the data has no column 'type' for the type of events",
    ]
    assert errors("A WITHIN 1 s", columns={"ts": "time", "kind": "text"}, time="ts", type="kind") == []
    assert errors("A WITHIN 1 s", columns={"time": "text", "type": "number"}) == [
        "the time of events must be timestamps or whole numbers: column 'time' is a text column",
        "the type of events must be texts, whole numbers or booleans: column 'type' is a number column",
    ]
    assert errors("A WITHIN 7", columns={"time": "integer", "type": "text"}) == []


def test_models_made_in_python_are_judged_too() -> None:
    window = TimeWindow(1)
    broken = Query("", Seq(()), (Aggregate("MEDIAN", "A", "x"), Variable("b")), window=window)
    assert [problem.message for problem in find_problems(Workload((broken,)))] == [
        "a name cannot be empty",
        "this pattern can bind no event",
        "the aggregate 'MEDIAN' cannot be used here",
        "the pattern has no event 'A'",
        "'b' is neither an event of the pattern nor in GROUP BY",
    ]
    empty = Query("q", Seq((Event("A"), Seq(()))), (Aggregate("COUNT"),), window=window)
    assert [problem.message for problem in find_problems(Workload((empty,)))] == ["an operator needs at least one part"]
