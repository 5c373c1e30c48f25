"""Equalities between variables: conditions between bound events, partitions only where that is the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import motet
from motet.language.printer import to_text
from motet.model.query import Query, Workload
from motet.reference.tables import run_table as enumerate_table
from motet.template.conditions import extract_equivalence
from tests.chunks import assert_same_in_chunks
from tests.comparison import assert_same_results
from tests.detect.cases import stream
from tests.detect.test_against_oracle import engine_results, select_supported
from tests.strategies import build_stream_table, equality_queries, streams

Rows = list[dict[str, Any]]
FEW = ("A", "B", "C")


def count(events: str, query: str) -> list[int]:
    """The counts of a query; checked against the oracle."""
    table = stream(events)
    result = motet.run(table, f"RETURN COUNT(*) {query}")
    assert_same_results(result, enumerate_table(motet.read(f"RETURN COUNT(*) {query}"), table))
    return [row["COUNT(*)"] for row in result.to_pylist()]


def test_a_count_window_counts_all_events() -> None:
    assert count("a1:1 c2:2 b3:1", "PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 2 EVENTS") == []


def test_an_equality_with_an_unbound_variable_holds_for_a_null() -> None:
    assert count("a1", "PATTERN SEQ(A a, B? b) WHERE a.x = b.x") == [1]


def test_equalities_with_an_unbound_variable_tie_nothing() -> None:
    assert count("c1:1 d2:2", "PATTERN SEQ(C c, B? b, D d) WHERE c.x = b.x AND b.x = d.x") == [1]


def test_an_equality_between_alternatives_asks_nothing() -> None:
    assert count("b1:1 b2:2", "PATTERN OR(B+ b, C c) WHERE b.x = c.x") == [3]


def test_an_equality_says_nothing_of_absent_events() -> None:
    assert count("a1:1 n2:2 b3:1", "PATTERN SEQ(A a, NOT N, B b) WHERE a.x = b.x") == []


@pytest.mark.parametrize(
    ("pattern", "partition"),
    [
        ("SEQ(A a, B b) WHERE a.x = b.x WITHIN 9 s", ("x",)),
        ("SEQ(A+ a, AND(B b, C c)) WHERE a.x = b.x AND c.x = a.x", ("x",)),
        ("SEQ(A a, B b) WHERE a.x = b.x WITHIN 9 EVENTS", ()),
        ("SEQ(A a, B? b) WHERE a.x = b.x", ()),
        ("SEQ(A a, B* b) WHERE a.x = b.x", ()),
        ("SEQ(A a, B{0,2} b) WHERE a.x = b.x", ()),
        ("OR(A a, B b) WHERE a.x = b.x", ()),
        ("SEQ(A a, NOT N, B b) WHERE a.x = b.x", ()),
        ("SEQ(A a, B b) WHERE a.x = b.x SKIP TILL NEXT", ()),
        ("SEQ(A a, B b, C c) WHERE a.x = b.x", ()),
    ],
)
def test_which_equalities_become_partitions(pattern: str, partition: tuple[str, ...]) -> None:
    (query,) = motet.read(f"RETURN COUNT(*) PATTERN {pattern}").queries
    assert extract_equivalence(query).partition == partition


@pytest.mark.parametrize("optimizer", ["auto", "none"])
@settings(max_examples=400)
@given(query=equality_queries(types=FEW), rows=streams(min_rows=6, max_rows=12, keys=2, types=FEW))
def test_queries_with_equalities_give_the_results_of_plain_enumeration(
    optimizer: str, query: Query, rows: Rows
) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table, optimizer=optimizer), enumerate_table(workload, table))


@given(
    query=equality_queries(types=FEW, absent=False),
    rows=streams(min_rows=6, max_rows=12, keys=2, types=FEW),
    chunk=st.integers(1, 6),
)
def test_queries_with_equalities_give_the_same_in_chunks(query: Query, rows: Rows, chunk: int) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(sorted(rows, key=lambda row: (row["time"] is None, row["time"])))
    assert_same_in_chunks(workload, table, chunk)


def test_configurations_of_an_and_are_no_events() -> None:
    # 20 events, five at a time: what is kept for each configuration of the AND fits in memory.
    events = " ".join(f"{'abcd'[at % 4]}{at // 5}:{at % 3}" for at in range(20))
    pattern = "SEQ(A e, B f, AND(A{1,3} a, B{1,3} b, C{1,3} c, D{1,3} d)) WHERE e.x < f.x WITHIN 20 s"
    assert count(events, f"PATTERN {pattern}") == [4, 452]
