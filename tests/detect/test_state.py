"""Events that come bit by bit give the results of all of them at once, whatever is kept and restored on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.detect.test_against_oracle import taken

from motet.engine import EventSchema, compile_workload
from motet.engine.detect.run import DetectRun
from motet.engine.detect.state import Detector, DetectState
from motet.errors import DataError
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import AllVariables, Query, Workload
from motet.reference.tables import run_table as enumerate_table
from motet.testing import STREAM_SCHEMA, assert_same_results, detection_queries, stream_table, streams

TICK = 1_000_000


def only_matches(query: Query) -> Query:
    """Aggregates may be taken online; matches never are."""
    return replace(query, returns=(AllVariables(),)) if query.is_aggregate else query


@given(query=detection_queries().map(only_matches), rows=streams(), cuts=st.lists(st.integers(-4, 10), max_size=4))
def test_batches_with_watermarks_give_the_results_of_the_whole(query: Query, rows: list[Any], cuts: list[int]) -> None:
    workload = taken(Workload((query,)))
    if not workload.queries:
        return
    note(to_text(workload))
    program = compile_workload(workload, EventSchema(STREAM_SCHEMA))
    detector = Detector.begin(DetectRun(program, program.detect[0]))
    timed = [row for row in rows if row["time"] is not None]
    found: list[pa.Table] = []
    seen: int | None = None
    for cut in sorted(set(cuts)):
        batch = [row for row in timed if (seen is None or row["time"] >= seen) and row["time"] < cut]
        found += detector.advance(stream_table(batch), cut * TICK)
        # What was kept outlives the process.
        detector = Detector(detector.run, DetectState.from_bytes(detector.state.to_bytes()))
        seen = cut
    found += detector.advance(stream_table([row for row in timed if seen is None or row["time"] >= seen]), None)
    result = pa.concat_tables(found) if found else program.result_schema.empty_table()
    assert_same_results(result, enumerate_table(workload, stream_table(rows)))


def test_only_what_may_still_matter_is_kept() -> None:
    program = compile_workload(
        parse("RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 3 s"), EventSchema(STREAM_SCHEMA)
    )
    detector = Detector.begin(DetectRun(program, program.detect[0]))
    rows = [{"time": at, "type": "A", "x": 1} for at in range(100)]
    assert list(detector.advance(stream_table(rows), 100 * TICK)) == []
    assert detector.state.events.column("time").to_pylist() == [94, 95, 96, 97, 98, 99]
    (matches,) = detector.advance(stream_table([{"time": 101, "type": "B", "x": 2}]), None)
    assert matches.column("start").to_pylist() == [99]


def test_late_rows_are_counted_and_left_out() -> None:
    program = compile_workload(parse("RETURN * PATTERN A a WITHIN 3 s"), EventSchema(STREAM_SCHEMA))
    detector = Detector.begin(DetectRun(program, program.detect[0]))
    list(detector.advance(stream_table([{"time": 5, "type": "A"}]), 10 * TICK))
    found = list(detector.advance(stream_table([{"time": 9, "type": "A"}, {"time": 10, "type": "A"}]), None))
    assert (sum(map(len, found)), detector.late) == (1, 1)


def test_other_bytes_are_no_state() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, STREAM_SCHEMA) as writer:
        writer.write_table(STREAM_SCHEMA.empty_table())
    with pytest.raises(DataError, match="no state of detection"):
        DetectState.from_bytes(bytes(sink.getvalue()))
