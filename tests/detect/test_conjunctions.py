"""AND: all parts in any order, ties allowed, no event twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Policy, Query, Workload
from motet.reference.tables import run_table as enumerate_table
from tests.comparison import assert_same_results
from tests.detect.cases import found
from tests.detect.test_against_oracle import engine_results, select_supported
from tests.strategies import build_stream_table, conjunction_queries, streams

FEW = ("A", "B", "C")
REPEATED = [
    "(AND(SEQ(A a, NOT D n, B b), C c))+",
    "(AND(SEQ(A a, NOT D n, B b)+, C c))+",
    "SEQ(AND(SEQ(A a, NOT D n, B b), C c)+, A e)",
    "SEQ(C z, (AND(SEQ(A+ a, NOT D n, B b), C? c), NOT D m)+)",
    "(AND(SEQ(AND(A a, C c), NOT D n, B b), D? d))+",
    "(AND(OR(A a, SEQ(A e, NOT D n, B b)), C c), NOT D m)+",
]


def test_parts_come_in_any_order_and_may_tie() -> None:
    # AND(A, B)
    assert found("b1 a2 b2", "RETURN * PATTERN AND(A a, B b)") == ["a2 b1", "a2 b2"]


def test_one_event_is_never_bound_twice() -> None:
    # AND(A, A)
    assert found("a1 a2", "RETURN * PATTERN AND(A x, A y)") == ["a1 a2", "a2 a1"]


def test_an_and_in_a_sequence_lies_between_its_neighbours() -> None:
    # SEQ(A, AND(B, C), D)
    query = "RETURN * PATTERN SEQ(A a, AND(B b, C c), D d) WHERE b.x <= c.x"
    assert found("a1 c1:9 c2:4 b3:3 d3 d4", query) == ["a1 b3 c2 d4"]


def test_sequences_in_an_and_interleave() -> None:
    # AND(SEQ(A, B), SEQ(C, D))
    query = "RETURN * PATTERN AND(SEQ(A a, B b), SEQ(C c, D d)) WHERE a.x = d.x"
    assert found("a1:1 c2 b3 d4:1 b5 d6:2", query) == ["a1 b3 c2 d4", "a1 b5 c2 d4"]


def test_a_repeated_and_counts_each_match_once_however_it_is_read() -> None:
    # (AND(A, B*))+: round one may hold b2 or not
    assert found("a1 b2 a3", "RETURN * PATTERN (AND(A a, B* b))+") == [
        "a1",
        "a1 a3",
        "a1 a3 b2",
        "a1 b2",
        "a3",
        "a3 b2",
    ]


def test_a_not_in_a_repeated_and_may_compare_what_must_be_absent_with_any_event() -> None:
    # (AND(SEQ(A, NOT N, B), C))+: a match is kept if it can be read so that nothing lies in the gaps of its rounds
    query = "RETURN * PATTERN (AND(SEQ(A a, NOT N n, B b), C c))+ WHERE n.x > c.x"
    assert found("a1 n2:5 c3:4 b4", query) == []
    assert found("a1 n2:5 c3:5 b4", query) == ["a1 b4 c3"]
    # Between two rounds it may occur.
    assert "a1 a6 b2 b8 c3 c7" in found("a1 b2 c3:1 n5:9 a6 c7:1 b8", query)
    assert "a1 a6 b2 b8 c3 c7" not in found("a1 b2 c3:1 a6 n7:9 c7:1 b8", query)


@given(
    pattern=st.sampled_from(REPEATED),
    condition=st.sampled_from(["n.x > a.x", "n.x > c.x", "n.x = b.x", "n.x < b.x + c.x"]),
    returns=st.sampled_from(["*", "COUNT(*)"]),
    window=st.sampled_from(["WITHIN 8", "WITHIN 8 SLIDE 4", "WITHIN 9 EVENTS", "", "WITHIN 8 SKIP TILL NEXT"]),
    rows=streams(),
)
def test_any_reading_without_what_must_be_absent_will_do(
    pattern: str, condition: str, returns: str, window: str, rows: list[dict[str, Any]]
) -> None:
    workload = parse(f"RETURN {returns} PATTERN {pattern} WHERE {condition} {window}")
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table), enumerate_table(workload, table))


@given(
    query=conjunction_queries(types=FEW, policies=(Policy.SKIP_TILL_ANY,)),
    rows=streams(min_rows=6, max_rows=12, types=FEW, keys=2),
)
def test_ands_in_each_other_give_the_results_of_plain_enumeration(query: Query, rows: list[dict[str, Any]]) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table), enumerate_table(workload, table))
