"""Whatever the query, the detection engine gives the oracle's results on random workloads and streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.errors import Diagnostic
from motet.language.printer import to_text
from motet.model.query import Query, Workload
from motet.model.validate import find_problems
from motet.options import OptimizerName, Options
from motet.plans.detect.query import compile_detect
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.chunks import run_in_chunks
from tests.comparison import assert_same_results
from tests.strategies import STREAM_SCHEMA, build_stream_table, detection_queries, streams, workloads

Rows = list[dict[str, Any]]

# What detection refuses, and says so.
REFUSED = ("too many",)


def is_valid(query: Query, workload: Workload) -> bool:
    """Random conditions may ask for the NEXT of what is bound once."""
    found = find_problems(replace(workload, queries=(query,)), EventSchema(STREAM_SCHEMA).kinds())
    return not any(not problem.warning for problem in found)


def select_supported(workload: Workload) -> Workload:
    """The queries that detection takes."""
    workload = replace(workload, queries=tuple(query for query in workload.queries if is_valid(query, workload)))
    compiled = [compile_detect(number, workload, 1) for number in range(len(workload.queries))]
    refused = [outcome.message for outcome in compiled if isinstance(outcome, Diagnostic)]
    assert all(any(word in message for word in REFUSED) for message in refused), refused
    kept = zip(workload.queries, compiled, strict=True)
    return replace(workload, queries=tuple(query for query, found in kept if not isinstance(found, Diagnostic)))


def engine_results(workload: Workload, table: pa.Table, **options: Any) -> pa.Table:
    program = compile_workload(workload, EventSchema(table.schema), Options(**options))
    return run_table(program, table).table


@pytest.mark.parametrize("optimizer", ["auto", "none"])
@given(query=detection_queries(), rows=streams())
def test_any_query_gives_the_results_of_plain_enumeration(optimizer: str, query: Query, rows: Rows) -> None:
    workload = select_supported(Workload((query,)))
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(engine_results(workload, table, optimizer=optimizer), enumerate_table(workload, table))


@given(
    workload=workloads(min_queries=2, max_queries=6, detection=True, skips=True),
    rows=streams(),
    optimizer=st.sampled_from(get_args(OptimizerName)),
)
def test_queries_of_all_kinds_go_together_under_every_optimizer(workload: Workload, rows: Rows, optimizer: str) -> None:
    workload = select_supported(workload)
    note(to_text(workload))
    table = build_stream_table(rows)
    expected = enumerate_table(workload, table)
    assert_same_results(engine_results(workload, table, optimizer=optimizer, budget=0.1), expected)


@given(workload=workloads(min_queries=1, max_queries=3, detection=True), rows=streams(), chunk=st.integers(1, 6))
def test_a_stream_run_in_chunks_gives_the_results_of_the_whole(workload: Workload, rows: Rows, chunk: int) -> None:
    workload = select_supported(workload)
    note(to_text(workload))
    ordered = sorted(rows, key=lambda row: (row["time"] is None, row["time"]))
    table = build_stream_table(ordered)
    program = compile_workload(workload, EventSchema(table.schema))
    batches = table.to_batches(max_chunksize=chunk)
    assert_same_results(run_in_chunks(program, batches, chunk), run_table(program, table).table)
