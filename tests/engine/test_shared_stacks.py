"""Queries of one window on one machine of two stacks: the oracle's results, and no more work than each alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.model.window import CountWindow, TimeWindow, Window
from motet.options import Options
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.machine import count_touched_totals, merge_queries
from motet.plans.units import Strategy
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.strategies import OPERATORS, build_stream_table, streams, workloads

Rows = list[dict[str, Any]]

TIMES = st.builds(TimeWindow, st.integers(1, 12), st.sampled_from((None, 1, 2)), st.just(True))
COUNTS = st.builds(CountWindow, st.integers(1, 9))


def put_in_one_window(workload: Workload, window: Window) -> Workload:
    """Give all queries that can have it the same window; leave out the others."""
    same = replace(workload, queries=tuple(replace(query, window=window) for query in workload.queries))
    compiled = [compile_query(number, same, 1) for number in range(len(same.queries))]
    kept = [query.query for query in compiled if isinstance(query, CompiledQuery)]
    return replace(same, queries=tuple(query for query in same.queries if query.name in {each.name for each in kept}))


def run_on_shared_stacks(workload: Workload, table: pa.Table) -> pa.Table:
    program = compile_workload(workload, EventSchema(table.schema), Options(windows="stacks", optimizer="prefix"))
    for branch in program.branches:
        units = [unit for unit in branch.units if unit.strategy is Strategy.STACKS]
        windows = [
            (unit.queries[0].span, unit.queries[0].channels.shape, unit.queries[0].needs_sweep) for unit in units
        ]
        assert len(windows) == len(set(windows))
    return run_table(program, table).table


@given(workload=workloads(min_queries=2, max_queries=6, adjacent=False), window=TIMES, rows=streams(max_rows=24))
def test_queries_of_one_window_share_stacks(workload: Workload, window: Window, rows: Rows) -> None:
    workload = put_in_one_window(workload, window)
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(run_on_shared_stacks(workload, table), enumerate_table(workload, table))


@given(
    workload=workloads(min_queries=2, max_queries=6, adjacent=False, operators=OPERATORS - {"NOT", "NEG"}),
    window=COUNTS,
    rows=streams(max_rows=24),
)
def test_queries_of_one_count_window_share_stacks(workload: Workload, window: Window, rows: Rows) -> None:
    workload = put_in_one_window(workload, window)
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(run_on_shared_stacks(workload, table), enumerate_table(workload, table))


def compile_queries(workload: Workload) -> list[CompiledQuery]:
    found = [compile_query(number, workload, 1) for number in range(len(workload.queries))]
    return [compiled for compiled in found if isinstance(compiled, CompiledQuery)]


@given(workload=workloads(min_queries=2, max_queries=8, operators=frozenset({"SEQ"}), adjacent=False), window=TIMES)
def test_sequences_on_one_machine_do_no_more_work_than_each_alone(workload: Workload, window: Window) -> None:
    note(to_text(workload))
    queries = compile_queries(put_in_one_window(workload, window))
    for shape in {compiled.channels.shape for compiled in queries}:
        same = [compiled for compiled in queries if compiled.channels.shape == shape]
        alone = [count_touched_totals(merge_queries([compiled])) for compiled in same]
        for symbol, work in count_touched_totals(merge_queries(same)).items():
            apart = [each[symbol] for each in alone if symbol in each]
            assert work.back <= sum(each.back for each in apart)
            assert work.sweep <= sum(each.sweep for each in apart)
            assert work.value <= sum(each.value for each in apart)


def test_work_of_two_sequences_with_a_common_beginning() -> None:
    workload = parse(
        """
        QUERY one RETURN COUNT(*) PATTERN SEQ(A, B, C) WITHIN 9 s
        QUERY two RETURN COUNT(*) PATTERN SEQ(A, B, D) WITHIN 9 s
        """
    )
    work = count_touched_totals(merge_queries(compile_queries(workload)))
    # An A reads the start's row; swept, it adds where A leads (A, B, C, D), which is also saved and restored.
    found = {symbol.type: (each.back, each.sweep, each.value) for symbol, each in work.items()}
    assert found == {"A": (1, 12, 0), "B": (2, 3, 0), "C": (3, 1, 4), "D": (3, 1, 4)}
