"""Structs, types and times of every kind and events without types change no answer, in batches and streams."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import motet
from motet.errors import QueryError
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Workload
from tests.comparison import assert_same_results
from tests.detect.test_against_oracle import select_supported
from tests.engine.live.micro_batches import micro_batches, select_streamed
from tests.reshaped import Shape, draw_shape, reshape_table, reshape_workload, simplify_results
from tests.strategies import Dice, build_stream_table, streams, workloads

Rows = list[dict[str, Any]]


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Return how events are written."""
    return draw_shape(Dice(draw))


def enumerate_events(table: pa.Table, asked: Workload, shape: Shape) -> pa.Table:
    return simplify_results(motet.run(table, asked, engine="oracle", time_unit=shape.clock.unit))


@pytest.mark.parametrize("optimizer", ["auto", "none"])
@settings(max_examples=150)
@given(workload=workloads(max_queries=4, detection=True, skips=True), rows=streams(), shape=shapes())
def test_events_of_any_shape_give_the_results_of_plain_enumeration(
    optimizer: Any, workload: Workload, rows: Rows, shape: Shape
) -> None:
    asked = reshape_workload(select_supported(workload), shape)
    note(to_text(asked))
    if not asked.queries:
        return
    table = reshape_table(build_stream_table(rows), shape)
    found = motet.run(table, asked, optimizer=optimizer, time_unit=shape.clock.unit)
    assert_same_results(simplify_results(found), enumerate_events(table, asked, shape))


@settings(max_examples=40)
@given(workload=workloads(max_queries=4, detection=True), shape=shapes())
def test_queries_of_any_shape_are_printed_and_read_again(workload: Workload, shape: Shape) -> None:
    asked = reshape_workload(select_supported(workload), shape)
    if asked.queries:
        assert replace(parse(to_text(asked)), text=asked.text, origin=asked.origin) == asked


@settings(max_examples=150)
@given(data=st.data(), shape=shapes())
def test_a_stream_of_any_shape_gives_the_results_of_plain_enumeration(shape: Shape, data: st.DataObject) -> None:
    drawn = data.draw(workloads(max_queries=3, detection=True, skips=True))
    asked = reshape_workload(select_streamed(drawn), shape)
    rows = data.draw(streams())
    if not asked.queries:
        return
    note(to_text(asked))
    table = reshape_table(build_stream_table(rows), shape)
    delay = dt.timedelta(microseconds=6 * shape.clock.second)
    live = motet.live(table.schema, asked, time_unit=shape.clock.unit, watermark=delay)
    batches = [reshape_table(build_stream_table(each), shape) for each, _ in data.draw(micro_batches(rows))]
    found = pa.concat_tables([*(live.feed(each) for each in batches), live.finish()])
    assert live.late == 0
    assert_same_results(simplify_results(found), enumerate_events(table, asked, shape))


def test_a_type_that_is_not_defined_needs_a_type_column() -> None:
    events = pa.table({"time": [1, 2], "x": [1, 2]})
    with pytest.raises(QueryError, match="no type column, and 'B' is not defined"):
        motet.run(events, "EVENT A AS x = 1\nQUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s")


def test_events_without_types_are_no_column_of_what_is_returned() -> None:
    events = pa.table({"time": [1, 2], "x": [1, 2]})
    found = motet.run(events, "EVENT A AS x = 1\nEVENT B AS x = 2\nQUERY q RETURN * PATTERN SEQ(A, B) WITHIN 10 s")
    assert found.select(["A", "B"]).to_pylist() == [{"A": {"time": 1, "x": 1}, "B": {"time": 2, "x": 2}}]
