"""Attributes in structs, types that are no texts and events without types change no answer, in batches and streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import motet
from motet.compile import compile_workload
from motet.engine.live import Stream
from motet.errors import QueryError
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import make_event_schema
from tests.comparison import assert_same_results
from tests.detect.test_against_oracle import select_supported
from tests.engine.live.micro_batches import endless, micro_batches
from tests.reshaped import SHAPES, reshape_table, reshape_workload
from tests.strategies import build_stream_table, streams, workloads

Rows = list[dict[str, Any]]


@pytest.mark.parametrize("optimizer", ["auto", "none"])
@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=40)
@given(workload=workloads(min_queries=1, max_queries=4, detection=True), rows=streams())
def test_events_of_any_shape_give_the_results_of_plain_enumeration(
    shape: str, optimizer: Any, workload: Workload, rows: Rows
) -> None:
    asked = reshape_workload(select_supported(workload), shape)
    note(to_text(asked))
    if not asked.queries:
        return
    table = reshape_table(build_stream_table(rows), shape)
    assert_same_results(motet.run(table, asked, optimizer=optimizer), enumerate_table(asked, table))


@settings(max_examples=40)
@given(workload=workloads(min_queries=1, max_queries=4, detection=True))
def test_fields_of_structs_are_printed_and_read_again(workload: Workload) -> None:
    asked = reshape_workload(select_supported(workload), "structs")
    if asked.queries:
        assert replace(parse(to_text(asked)), text=asked.text, origin=asked.origin) == asked


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_stream_of_any_shape_gives_the_results_of_plain_enumeration(shape: str, data: st.DataObject) -> None:
    asked = reshape_workload(endless(data.draw(workloads(min_queries=1, max_queries=4, detection=True))), shape)
    rows = data.draw(streams())
    if not asked.queries:
        return
    note(to_text(asked))
    table = reshape_table(build_stream_table(rows), shape)
    stream = Stream(compile_workload(asked, make_event_schema(table.schema), Options(mode="append")))
    found = []
    for each, watermark in data.draw(micro_batches(rows)):
        states, stream = stream.save(), Stream(stream.program)
        stream.restore(states)
        found.append(stream.feed(reshape_table(build_stream_table(each), shape), watermark).results)
    assert_same_results(pa.concat_tables([*found, stream.finish().results]), enumerate_table(asked, table))


def test_a_type_that_is_not_defined_needs_a_type_column() -> None:
    events = pa.table({"time": [1, 2], "x": [1, 2]})
    with pytest.raises(QueryError, match="no type column, and 'B' is not defined"):
        motet.run(events, "EVENT A AS x = 1\nQUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s")


def test_events_without_types_are_no_column_of_what_is_returned() -> None:
    events = pa.table({"time": [1, 2], "x": [1, 2]})
    found = motet.run(events, "EVENT A AS x = 1\nEVENT B AS x = 2\nQUERY q RETURN * PATTERN SEQ(A, B) WITHIN 10 s")
    assert found.select(["A", "B"]).to_pylist() == [{"A": {"time": 1, "x": 1}, "B": {"time": 2, "x": 2}}]
