"""Several statements to a file: how queries are named, parted, and what they take from each other."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from motet.errors import DataError, QueryError
from motet.language import parse, read
from motet.language.parser import read_draft
from motet.model.pattern import Event, Seq
from motet.model.query import Aggregate, AllVariables
from tests.growth import measure_cpu_times

AB = Seq((Event("A"), Event("B")))
CD = Seq((Event("C"), Event("D")))


@pytest.mark.parametrize(
    "text",
    [
        "QUERY one PATTERN A, B WITHIN 1 s\nQUERY two PATTERN C, D WITHIN 2 s",
        "QUERY one PATTERN A, B WITHIN 1 s QUERY two PATTERN C, D WITHIN 2 s",
        "query one:\npattern A, B\nwithin 1 s;\n\nquery two = C, D within 2 s;",
        "one: PATTERN A, B WITHIN 1 s\ntwo: PATTERN C, D WITHIN 2 s",
        "one: A, B WITHIN 1 s   two : C, D WITHIN 2 s",
        "one = SEQ(A, B) WITHIN 1 s\ntwo = SEQ(C, D) WITHIN 2 s",
        "one = A, B WITHIN 1 s\ntwo = C, D WITHIN 2 s",
        "one\nRETURN *\nPATTERN A, B\nWITHIN 1 s\n\ntwo\nRETURN *\nPATTERN C, D\nWITHIN 2 s",
        "one RETURN * PATTERN A, B WITHIN 1 s\ntwo RETURN * PATTERN C, D WITHIN 2 s",
        "/* first */ QUERY one -- here\nPATTERN A, # there\n B WITHIN 1 s\nQUERY two PATTERN C, D WITHIN 2 s",
        'QUERY "one"\r\nPATTERN A, B WITHIN 1 s\r\n`two`: C, D WITHIN 2 s\r\n',
    ],
)
def test_each_way_to_name_and_part_queries(text: str) -> None:
    workload = parse(text)
    assert [query.name for query in workload.queries] == ["one", "two"]
    assert [query.pattern for query in workload.queries] == [AB, CD]
    assert all(query.returns == (AllVariables(),) for query in workload.queries)


def test_queries_without_a_name_are_numbered() -> None:
    workload = parse("RETURN COUNT(*) PATTERN A, B WITHIN 1 s\nRETURN COUNT(*) PATTERN C, D WITHIN 1 s")
    assert [query.name for query in workload.queries] == ["q1", "q2"]
    assert [query.name for query in parse("q1: A\nq3: B; C, D").queries] == ["q1", "q3", "q4"]


def test_a_bare_pattern_is_a_query() -> None:
    query = parse("SEQ(A, B)").queries[0]
    assert (query.name, query.pattern, query.returns, query.window) == ("q1", AB, (AllVariables(),), None)


def test_a_lone_pattern_takes_its_clauses_from_the_last_full_query() -> None:
    workload = parse(
        """
        q1: RETURN COUNT(*) PATTERN A, B WHERE [v] GROUP BY d WITHIN 10 s SLIDE 1 s CONTIGUOUS
        q2: C, D
        q3: RETURN SUM(A.x) PATTERN A WITHIN 5 s
        q4: A, B
        """
    )
    first, second, third, fourth = workload.queries
    assert second.pattern == CD
    for field in ("returns", "conditions", "equivalence", "group_by", "window", "policy"):
        assert getattr(second, field) == getattr(first, field)
        assert getattr(fourth, field) == getattr(third, field)


def test_a_query_with_a_clause_of_its_own_takes_nothing() -> None:
    workload = parse("q1: RETURN COUNT(*) PATTERN A, B WITHIN 10 s\nq2: C, D WITHIN 5 s")
    assert workload["q2"].returns == (AllVariables(),)


def test_a_header_gives_its_clauses_to_the_patterns_below() -> None:
    workload = parse("Query:\nRETURN COUNT(*)\nPATTERN P\nWITHIN 10 s\n\nq_1 : A, B\nq_2 : C, D")
    assert [(query.name, query.returns) for query in workload.queries] == [
        ("q_1", (Aggregate("COUNT"),)),
        ("q_2", (Aggregate("COUNT"),)),
    ]


def test_a_header_without_patterns_is_reported() -> None:
    with pytest.raises(QueryError, match="no pattern follows this header"):
        parse("Query:\nRETURN COUNT(*)\nPATTERN P\nWITHIN 10 s")


def test_a_wrong_clause_is_reported_once_and_says_who_takes_it() -> None:
    draft = "q1: RETURN COUNT(*) PATTERN A a, B b WHERE a.x > b.x WITHIN 10 s\nq2: C, D\nq3: C, E"
    with pytest.raises(QueryError) as caught:
        parse(draft)
    messages = [problem.message for problem in caught.value.diagnostics]
    assert messages == ["the pattern has no event 'a'", "the pattern has no event 'b'"]
    assert "q2 takes this clause from q1" in str(caught.value)


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing but a comment", "$$"])
def test_a_text_without_queries_is_an_error(text: str) -> None:
    with pytest.raises(QueryError, match="there is no query here"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("QUERY q PATERN SEQ(A, B) WITHIN 1 s", "PATTERN"),
        ("q: PATERN A, B WITHIN 1 s", "PATTERN"),
        ("q\nRETRUN *\nPATTERN A, B WITHIN 1 s", "RETURN"),
        ("QUREY q\nRETURN *\nPATTERN A, B WITHIN 1 s", "QUERY"),
        ("QUERY q PATTERN A, B WITHN 1 s", "WITHIN"),
        ("QUERY q PATTERN SEQ(A, B)\nwihtin 1 s", "WITHIN"),
        ("QUERY q PATTERN A, B WITHIN 1 s SLIED 1 s", "SLIDE"),
        ("QUERY q PATTERN A, B WHRE [v] WITHIN 1 s", "WHERE"),
        ("QUERY q PATTERN A, B+\nWHER [v] WITHIN 1 s", "WHERE"),
        ("QUERY q PATTERN A, B GRUOP BY d WITHIN 1 s", "GROUP BY"),
        ("EVNT X AS a = 1\nQUERY q PATTERN X, B WITHIN 1 s", "EVENT"),
    ],
)
def test_a_misspelt_keyword_is_recognised_and_read_as_meant(text: str, word: str) -> None:
    draft = read_draft(text)
    assert [problem.hint for problem in draft.problems] == [f"did you mean '{word}'?"]
    assert len(draft.workload.queries) == 1


@pytest.mark.parametrize(
    "text",
    [
        "q1: Windows w, Doors d WITHIN 1 s",
        "QUERY q PATTERN SEQ(Where where1, Patern p, Retrun) WITHIN 1 s",
        "patterns\nRETURN *\nPATTERN events, side s WITHIN 1 s",
    ],
)
def test_a_name_that_looks_like_a_keyword_is_left_alone(text: str) -> None:
    assert len(parse(text).queries) == 1


def test_each_query_of_a_long_text_parses_as_fast_as_one_of_a_short() -> None:
    clauses = "RETURN COUNT(*), SUM(b.x) PATTERN SEQ(A a, B b+, NOT N, (C, D)+) WHERE [v] AND a.x > 1 WITHIN 10 s"
    few, many = ("\n".join(f"QUERY q{number} {clauses}" for number in range(count)) for count in (20, 200))
    assert len(parse(many).queries) == 200
    short, long = measure_cpu_times(partial(parse, few), partial(parse, many))
    assert long < 20 * short


def test_read_takes_a_path_a_file_name_or_a_text(tmp_path: Path) -> None:
    file = tmp_path / "traffic.motet"
    file.write_text("\ufeffQUERY q PATTERN A, B WITHIN 1 s", encoding="utf-8")
    assert read(file) == read(str(file)) == read("QUERY q PATTERN A, B WITHIN 1 s")
    assert read(file).origin == str(file)
    assert read("SEQ(A,B)").queries[0].pattern == AB


@pytest.mark.parametrize("name", ["missing.motet", "no/such/file", "no such file.motet"])
def test_a_missing_file_is_an_error_of_data(name: str) -> None:
    with pytest.raises(DataError, match="there is no query file"):
        read(name)


def test_a_file_that_is_no_text_or_no_file_is_an_error_of_data(tmp_path: Path) -> None:
    (tmp_path / "binary.motet").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not UTF-8"):
        read(tmp_path / "binary.motet")
    with pytest.raises(DataError, match="cannot read"):
        read(tmp_path)


def test_definitions_stand_on_one_line_with_others() -> None:
    definitions = "EVENT x AS type = 'A' AND n > 1 EVENT EVENT AS n < 1"
    workload = parse(f"{definitions} QUERY q PATTERN x, EVENT e WITHIN 1 s EVENT y AS n = 1")
    assert [definition.name for definition in workload.definitions] == ["x", "EVENT", "y"]
    assert workload["q"].pattern == Seq((Event("x"), Event("EVENT", "e")))
