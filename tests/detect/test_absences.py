"""NOT and NEG: in gaps, at either end, in loops, and with conditions on what is bound."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, note, settings

import motet
from motet.language.printer import to_text
from motet.model.query import Policy, Query, Workload
from motet.reference.tables import run_table as enumerate_table
from tests.comparison import assert_same_results
from tests.detect.cases import found
from tests.detect.test_against_oracle import engine_results, select_supported
from tests.growth import measure_cpu_times
from tests.strategies import OPERATORS, build_stream_table, detection_queries, streams

FEW = ("A", "B", "C")


def test_not_between_two_events() -> None:
    # SEQ(A, NOT N, B)
    assert found("a1 n2 a3 b4", "RETURN * PATTERN SEQ(A a, NOT N, B b) WHERE a.x IS NULL") == ["a3 b4"]


def test_a_tie_lies_in_no_gap() -> None:
    # SEQ(A, NOT N, B): N at the times of both
    assert found("a1 n1 n3 b3", "RETURN * PATTERN SEQ(A a, NOT N, B b)") == ["a1 b3"]


def test_not_with_a_condition_on_a_bound_variable() -> None:
    # SEQ(A, NOT N, B) where only an N larger than A counts
    query = "RETURN * PATTERN SEQ(A a, NOT N n, B b) WHERE n.x > a.x"
    assert found("a1:5 n2:3 b3 n4:6 b5", query) == ["a1 b3"]


def test_not_first_looks_back_to_the_start_of_the_window() -> None:
    # SEQ(NOT N, A, B) in five seconds
    query = "RETURN * PATTERN SEQ(NOT N, A a, B b) WITHIN 5 s"
    assert found("n1 a2 b3 a8 b9", query) == ["a8 b9"]


def test_not_last_looks_on_to_the_end_of_the_window() -> None:
    # SEQ(A, B, NOT N) in five seconds
    query = "RETURN * PATTERN SEQ(A a, B b, NOT N) WHERE a.x <= b.x WITHIN 5 s"
    assert found("a1:1 b2:1 n3 a10:1 b11:1 n15", query) == ["a10 b11"]


def test_neg_forbids_anywhere_in_the_window() -> None:
    # SEQ(A, NEG(N), B) sliding: one of two windows is clear
    query = "RETURN * PATTERN SEQ(A a, NEG(N), B b) WITHIN 4 s SLIDE 2 s"
    assert found("n1 a2 b3", query) == ["a2 b3"]
    assert found("n1 a2 b3 n4", query) == []


def test_neg_with_a_condition_on_a_bound_variable() -> None:
    # AND(A, NEG(N), B)
    query = "RETURN * PATTERN AND(A a, NEG(N n), B b) WHERE n.x = a.x WITHIN 10 s"
    assert found("a1:1 n2:1 b3 a4:2", query) == ["a4 b3"]


def test_not_in_a_loop_guards_each_round() -> None:
    # (A, NOT N, B)+
    query = "RETURN * PATTERN (A a, NOT N, B b)+"
    assert found("a1 b2 n3 a4 b5", query) == ["a1 a4 b2 b5", "a1 b2", "a4 b5"]


def test_not_in_a_loop_with_a_condition_on_another_variable() -> None:
    # SEQ(C, (NOT N, A)+) where N must be as large as C
    query = "RETURN * PATTERN SEQ(C c, (NOT N n, A a)+) WHERE n.x = c.x"
    assert found("c0:1 a1 n2:1 a3 n4:2 a5", query) == ["c0 a1"]


def test_not_at_both_ends_and_a_condition_between_neighbours() -> None:
    # SEQ(NOT N, A, B, NOT N): refused by online aggregation, so it is detected
    query = "RETURN * PATTERN SEQ(NOT N, A a, B b, NOT N) WHERE a.x < b.x WITHIN 3 s"
    assert found("n0 a4:1 b5:2 n7 n9 a13:1 b14:2 n15", query) == ["a4 b5"]


def test_a_gap_between_parts_of_a_loop_over_conjunctions() -> None:
    # (AND(A, B), NOT N)+: rounds overlap in time before they are put in order
    query = "RETURN * PATTERN SEQ(AND(A a, B b), NOT N, C c)+ WITHIN 30 s"
    found("a1 b9 c10 n11 a3 b4 c5 a12 b13 c20 n2", query)


@settings(max_examples=300)
@given(
    query=detection_queries(operators=OPERATORS - {"NEG"}, types=FEW, policies=(Policy.SKIP_TILL_ANY,)),
    rows=streams(min_rows=6, max_rows=12, types=FEW, keys=1),
)
def test_absences_give_the_results_of_plain_enumeration(query: Query, rows: list[dict[str, Any]]) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table), enumerate_table(workload, table))


def test_an_absence_costs_the_same_whatever_the_window_holds() -> None:
    # Each A is followed by an N before the next B, so that nothing is found.
    rng = np.random.default_rng(3)
    types = [each for letter in rng.choice(list("ABCDE"), 20_000) for each in ("AN" if letter == "A" else letter)]
    table = pa.table({"time": np.arange(len(types)), "type": types})

    def run(seconds: int) -> None:
        assert motet.run(table, f"RETURN * PATTERN SEQ(A, NOT N, B, C, D, E) WITHIN {seconds} s").num_rows == 0

    short, long = measure_cpu_times(partial(run, 100), partial(run, 10_000))
    assert long < 1.5 * short
