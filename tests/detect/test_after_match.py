"""AFTER MATCH SKIP: occurrences that do not overlap, and one match for each first event."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import motet
from motet.language.printer import to_text
from motet.model.query import Query, Workload
from motet.reference.tables import run_table as enumerate_table
from tests.chunks import assert_same_in_chunks
from tests.comparison import assert_same_results
from tests.detect.cases import found, stream
from tests.detect.test_against_oracle import engine_results, select_supported
from tests.strategies import build_stream_table, skip_queries, streams

Rows = list[dict[str, Any]]
PAST_LAST = "AFTER MATCH SKIP PAST LAST EVENT"
TO_NEXT = "AFTER MATCH SKIP TO NEXT EVENT"


def test_occurrences_do_not_overlap() -> None:
    assert found("a1 a2 b3 b4 a5 b6", f"RETURN * PATTERN SEQ(A a, B b) {PAST_LAST}") == ["a1 b3", "a5 b6"]


def test_the_match_that_ends_first_is_taken_and_of_these_the_one_that_begins_first() -> None:
    assert found("a1 a2 b3 c4 c5", f"RETURN * PATTERN SEQ(A a, B b, C c) {PAST_LAST}") == ["a1 b3 c4"]


def test_a_match_that_is_too_long_makes_way_for_a_shorter_one() -> None:
    assert found("a1 a5 b7", f"RETURN * PATTERN SEQ(A a, B b) WITHIN 4 {PAST_LAST}") == ["a5 b7"]


def test_a_match_may_not_begin_when_the_last_one_ends() -> None:
    assert found("a1 a2 a3 a4", f"RETURN * PATTERN SEQ(A x, A y) {PAST_LAST}") == ["a1 a2", "a3 a4"]


def test_partitions_do_not_concern_each_other() -> None:
    query = f"RETURN * PATTERN SEQ(A a, B b) WHERE [x] {PAST_LAST}"
    assert found("a1:1 a2:2 b3:1 b4:2", query) == ["a1 b3", "a2 b4"]


def test_each_first_event_has_one_match() -> None:
    assert found("a1 a2 b3 b4", f"RETURN * PATTERN SEQ(A a, B b) {TO_NEXT}") == ["a1 b3", "a2 b3"]


def test_what_an_absence_forbids_takes_no_part() -> None:
    assert found("a1 n2 b3 a4 b5", f"RETURN * PATTERN SEQ(A a, NOT N, B b) {PAST_LAST}") == ["a4 b5"]


def test_a_condition_decides_before_a_match_is_taken() -> None:
    query = f"RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x {PAST_LAST}"
    assert found("a1:5 b2:3 b3:7 a4:1 b5:2", query) == ["a1 b3", "a4 b5"]


def test_each_window_takes_its_own() -> None:
    table = stream("a1 b3 a4 b6 b7")
    query = f"RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 6 SLIDE 3 {PAST_LAST}"
    rows = motet.run(table, query).to_pylist()
    assert [(row["window_end"], row["COUNT(*)"]) for row in rows] == [(6, 1), (9, 1)]
    assert_same_results(motet.run(table, query), enumerate_table(motet.read(query), table))


@pytest.mark.parametrize(
    ("pattern", "window", "skip", "counts"),
    [
        ("SEQ(A x, A y, A z)", "", PAST_LAST, [66]),
        ("A{3,}", "", PAST_LAST, [66]),
        ("SEQ(A, A+, A)", "", PAST_LAST, [66]),
        ("(A, A)+", "", PAST_LAST, [99]),
        ("A{3,}", "WITHIN 100 SLIDE 100", PAST_LAST, [33, 33]),
        ("A{3,}", "WITHIN 100 SLIDE 50", PAST_LAST, [16, 33, 33, 33, 16]),
        ("A{3,}", "WITHIN 2 SLIDE 1", PAST_LAST, []),
        ("A{3,}", "", TO_NEXT, [197]),
        ("SEQ(A, A+, A)", "WITHIN 100 SLIDE 100", TO_NEXT, [97, 98]),
    ],
)
def test_occurrences_of_a_burst_are_few(pattern: str, window: str, skip: str, counts: list[int]) -> None:
    burst = stream(" ".join(f"a{at}" for at in range(1, 200)))
    # Far more matches than memory holds: 2^199 of some patterns.
    assert motet.run(burst, f"RETURN COUNT(*) PATTERN {pattern} {window} {skip}")["COUNT(*)"].to_pylist() == counts


def test_a_stream_does_not_list_all_matches_of_a_burst() -> None:
    rows = [{"time": at, "type": "A"} for at in range(1, 200)]
    query = f"RETURN x PATTERN SEQ(A x, A+, A) WITHIN 100 {PAST_LAST}"
    live = motet.live(pa.schema([("time", pa.int64()), ("type", pa.string())]), query)
    fed = [live.feed(pa.Table.from_pylist(rows[at : at + 10]), watermark=at) for at in range(0, 200, 10)]
    found = pa.concat_tables([*fed, live.finish()])
    assert sorted(found["start"].to_pylist()) == list(range(1, 198, 3))


def test_a_stream_needs_a_window_of_time_where_an_absence_is_open() -> None:
    with pytest.raises(motet.QueryError, match="give it a window of time"):
        motet.live(stream("a1").schema, f"RETURN COUNT(*) PATTERN SEQ(A, B, NOT C) WITHIN 9 EVENTS {PAST_LAST}")


@settings(max_examples=200)
@given(query=skip_queries(), rows=streams(max_rows=12))
def test_any_query_takes_what_the_oracle_takes(query: Query, rows: Rows) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table), enumerate_table(workload, table))


@given(query=skip_queries(), rows=streams(max_rows=12), chunk=st.integers(1, 6))
def test_any_query_takes_the_same_in_chunks(query: Query, rows: Rows, chunk: int) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(sorted(rows, key=lambda row: (row["time"] is None, row["time"])))
    assert_same_in_chunks(workload, table, chunk)


@settings(max_examples=200)
@given(query=skip_queries(ties=False), rows=streams(max_rows=12), chunk=st.integers(1, 6))
def test_results_over_what_is_taken_are_the_same_in_chunks(query: Query, rows: Rows, chunk: int) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    # At one time each, for it is not specified which of equal matches is taken.
    table = build_stream_table([{**row, "time": at} for at, row in enumerate(rows)])
    assert_same_results(engine_results(workload, table), enumerate_table(workload, table))
    assert_same_in_chunks(workload, table, chunk)
