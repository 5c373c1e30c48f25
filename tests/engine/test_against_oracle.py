"""Every strategy of the aggregate engine gives the oracle's results on random workloads and streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.compile.times import lower_times
from motet.engine.local import run_table
from motet.errors import Diagnostic
from motet.language.printer import to_text
from motet.model.expression import Arithmetic, Attribute, Call, Expression, Membership, walk
from motet.model.query import Workload
from motet.options import Options
from motet.plans.compiled import CompiledQuery, compile_query
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.chunks import run_in_chunks
from tests.comparison import assert_same_results
from tests.strategies import STREAM_SCHEMA, build_stream_table, streams, workloads

Rows = list[dict[str, Any]]


def computes_with_two_events(condition: Expression) -> bool:
    """Whether a condition does more with the time between two events than compare it: it has no two sides."""
    parts = [part for part in walk(condition) if isinstance(part, Call | Membership | Arithmetic)]
    return any(
        not (isinstance(part, Arithmetic) and part.operator in "+-")
        and len({(each.variable, each.at) for each in walk(part) if isinstance(each, Attribute)}) > 1
        for part in parts
    )


def select_supported(workload: Workload) -> Workload:
    """The queries the aggregate engine takes: an absence at the edge of a window does not go with everything."""
    lowered = lower_times(workload, EventSchema(STREAM_SCHEMA))
    compiled = [compile_query(number, lowered, 1) for number in range(len(workload.queries))]
    expected = ("needs a sliding window", "a window of EVENTS")
    for query, outcome in zip(workload.queries, compiled, strict=True):
        if isinstance(outcome, Diagnostic) and not any(words in outcome.message for words in expected):
            assert "needs the matches themselves" in outcome.message, outcome
            assert any(map(computes_with_two_events, query.conditions)), query
    kept = zip(workload.queries, compiled, strict=True)
    return replace(workload, queries=tuple(query for query, outcome in kept if isinstance(outcome, CompiledQuery)))


def engine_results(workload: Workload, table: pa.Table, **options: str) -> pa.Table:
    program = compile_workload(workload, EventSchema(table.schema), Options(**options))
    return run_table(program, table).table


@pytest.mark.parametrize("windows", ["auto", "panes", "pairs", "stacks"])
@given(workload=workloads(min_queries=1, max_queries=4), rows=streams())
def test_every_window_strategy_gives_the_results_of_plain_enumeration(
    windows: str, workload: Workload, rows: Rows
) -> None:
    workload = select_supported(workload)
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table, windows=windows), enumerate_table(workload, table))


@given(workload=workloads(min_queries=2, max_queries=8), rows=streams())
def test_sharing_prefixes_changes_no_result(workload: Workload, rows: Rows) -> None:
    workload = select_supported(workload)
    note(to_text(workload))
    table = build_stream_table(rows)
    alone = engine_results(workload, table, optimizer="none")
    assert_same_results(engine_results(workload, table, optimizer="prefix"), alone)


@given(workload=workloads(min_queries=1, max_queries=4), rows=streams(), chunk=st.integers(1, 6))
def test_a_stream_run_in_chunks_gives_the_results_of_the_whole(workload: Workload, rows: Rows, chunk: int) -> None:
    workload = select_supported(workload)
    note(to_text(workload))
    ordered = sorted(rows, key=lambda row: (row["time"] is None, row["time"]))
    table = build_stream_table(ordered)
    program = compile_workload(workload, EventSchema(table.schema))
    batches = table.to_batches(max_chunksize=chunk)
    assert_same_results(run_in_chunks(program, batches, chunk), run_table(program, table).table)


@given(workload=workloads(min_queries=20, max_queries=24), rows=streams())
def test_twenty_queries_at_once_give_the_results_of_plain_enumeration(workload: Workload, rows: Rows) -> None:
    workload = select_supported(workload)
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table), enumerate_table(workload, table))
