"""Whatever the optimizer, results are those of plain enumeration; plans are made once, and ahead where they can be."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import motet
from motet.compile import compile_workload
from motet.engine.detect import planner
from motet.engine.local import run_table
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Query, Workload
from motet.optimizer.registry import get_optimizer, optimizer_names
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.chunks import run_in_chunks
from tests.comparison import assert_same_results
from tests.detect.test_against_oracle import engine_results, select_supported
from tests.detect.test_plan_shapes import joined_queries
from tests.strategies import STREAM_SCHEMA, build_stream_table, streams, workloads

TYPES = ("A", "B", "C", "D", "N")


def named(queries: list[Query]) -> Workload:
    return Workload(tuple(replace(query, name=f"q{at}") for at, query in enumerate(queries)))


@pytest.mark.parametrize("optimizer", [name for name in optimizer_names() if get_optimizer(name).joins is not None])
@given(queries=st.lists(joined_queries(), min_size=2, max_size=5), rows=streams(types=TYPES))
@settings(max_examples=8)
def test_patterns_with_much_in_common(optimizer: str, queries: list[Query], rows: list[Any]) -> None:
    workload = named(queries)
    note(to_text(workload))
    table = build_stream_table(rows)
    found = engine_results(workload, table, optimizer=optimizer, budget=0.1)
    assert_same_results(found, enumerate_table(workload, table))


@pytest.mark.parametrize("optimizer", ["multitree", "multitree-prefix", "none"])
@given(workload=workloads(min_queries=2, max_queries=6, detection=True), rows=streams())
@settings(max_examples=10)
def test_any_workload(optimizer: str, workload: Workload, rows: list[Any]) -> None:
    workload = select_supported(workload)
    note(to_text(workload))
    table = build_stream_table(rows)
    found = engine_results(workload, table, optimizer=optimizer, budget=0.1)
    assert_same_results(found, enumerate_table(workload, table))


WORKLOAD = parse(
    """
    QUERY one RETURN * PATTERN SEQ(A a, B b, C c, D d) WHERE a.x < c.x AND b.x < d.x WITHIN 10 s
    QUERY two RETURN * PATTERN SEQ(A a, C c, D d) WHERE a.x < c.x WITHIN 5 s
    QUERY three RETURN * PATTERN AND(A a, C c, D d) WHERE a.x < c.x WITHIN 4 EVENTS
    """
)
EVENTS = build_stream_table([{"time": at, "type": "ABCD"[at * 7 % 4], "x": at * 5 % 11} for at in range(60)])


def test_what_is_known_ahead_is_planned_for_ahead() -> None:
    statistics = motet.profile(EVENTS, WORKLOAD)
    assert any("e1.x < e2.x" in text for text in statistics.selectivities)
    options = Options(optimizer="multitree", statistics=statistics)
    program = pickle.loads(pickle.dumps(compile_workload(WORKLOAD, EventSchema(STREAM_SCHEMA), options)))
    assert all(branch.trees is not None for branch in program.detect)
    with patch.object(planner.BranchPlanner, "adopt", side_effect=AssertionError("planned again")):
        result = run_table(program, EVENTS).table
    assert_same_results(result, enumerate_table(WORKLOAD, EVENTS))


def test_chunks_are_planned_for_once() -> None:
    workload = parse(to_text(WORKLOAD).replace("WITHIN 4 EVENTS", "WITHIN 4 s"))
    program = compile_workload(workload, EventSchema(STREAM_SCHEMA), Options(optimizer="multitree"))
    with patch.object(planner.BranchPlanner, "adopt", autospec=True, side_effect=planner.BranchPlanner.adopt) as adopt:
        result = run_in_chunks(program, EVENTS.to_batches(max_chunksize=20), 20)
    assert adopt.call_count == 1
    assert_same_results(result, enumerate_table(workload, EVENTS))


def test_no_events_need_no_plan() -> None:
    program = compile_workload(WORKLOAD, EventSchema(STREAM_SCHEMA), Options(optimizer="multitree"))
    assert isinstance(run_table(program, STREAM_SCHEMA.empty_table()).table, pa.Table)
