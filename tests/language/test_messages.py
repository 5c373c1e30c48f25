"""What users read when a file is wrong: all mistakes at once, each with its place and a way out."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from motet.errors import QueryError
from motet.language import parse

TEN_MISTAKES = """\
-- Ten mistakes in five statements
EVENT BigBuy AS type = 'Trade' AND qty >

QUERY first
RETURN COUNT(*)
PATERN SEQ(Login, Logout)
WITHIN 10 mn

QUERY second
RETURN SUM(a.price)
PATTERN SEQ(Trade a, Trade b
WHERE a.price > 10 ADN b.price < 5
WITHN 5 s

QUERY third
RETURN COUTN(*)
PATTERN SQE(A, B)

QUERY third
RETURN COUNT(*)
PATTERN SEQ(A a, B b)
WHERE aa.price > b.price
WITHIN 5 s
"""


def messages(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse(text, "file.motet")
    return str(caught.value)


def test_ten_mistakes_are_ten_messages(snapshot: SnapshotAssertion) -> None:
    with pytest.raises(QueryError) as caught:
        parse(TEN_MISTAKES, "file.motet")
    assert len(caught.value.diagnostics) == 10
    assert str(caught.value) == snapshot


@pytest.mark.parametrize(
    "text",
    [
        "QUERY q\nPATTERN SEQ(A, B",
        "QUERY q\nPATTERN SEQ(A B C, D)",
        "QUERY q\nPATTERN A,, B\nWITHIN 1 s",
        "QUERY q\nPATTERN 'A', B",
        "QUERY q\nPATTERN A | B",
        "QUERY q\nPATTERN A a = 3",
        "QUERY q\nRETURN COUNT(*)",
        "QUERY q\nPATTERN A, B\nWHERE A.x > 1 && B.x > 2",
        "QUERY q\nPATTERN A, B\nWHERE A.x > “1”",
        "QUERY q\nPATTERN A, B\nWHERE price > 3",
        "QUERY q\nPATTERN A, B\nWHERE [v] A.x > 3",
        "QUERY q\nPATTERN A, B\nRETURN COUNT(*),\nWITHIN",
        "QUERY q\nPATTERN A, B\nWITHIN ten s",
        "QUERY q\nPATTERN A, NOT A, B\nWHERE A.x > 3",
        "QUERY q\nRETURN A, district\nPATTERN A, B\nGROUP BY distirct",
        "QUERY q\nPATTERN AND(A, NOT B)\nWITHIN 5 s",
        "QUERY\nPATTERN A\nQUERY b PATTERN B /* open",
        "EVENT X type = 'a'\nQUERY q\nPATTERN X, B",
        "QUERY q\nPATTERN A, B\nPATTERN C, D WITHIN 1 s WITHIN 2 s",
    ],
)
def test_each_mistake_is_said_in_plain_words(text: str, snapshot: SnapshotAssertion) -> None:
    assert messages(text) == snapshot


def test_no_message_speaks_the_grammars_language() -> None:
    for text in (
        "QUERY q PATTERN",
        "QUERY q PATTERN A WHERE a.x +",
        "QUERY q PATTERN A{",
        "QUERY q PATTERN A RETURN (",
    ):
        said = messages(text)
        for word in ("LPAR", "RPAR", "NUMBER", "NAME", "$END", "Token", "LBRACE", "COMMA"):
            assert word not in said
