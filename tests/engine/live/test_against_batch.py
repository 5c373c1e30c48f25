"""A stream, however it is cut and disordered within the watermark, gives the results of the whole at once."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.live import SavedState, Stream, restore_log, save, save_feed
from motet.engine.live.stream import MOST_HELD_ROWS
from motet.engine.local import run_table
from motet.kernels.tables import MIN_TIME
from motet.language.printer import to_text
from motet.model.window import TimeWindow
from motet.options import Options, WindowStrategy
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import SECOND, Rows, endless, micro_batches
from tests.strategies import build_stream_table, streams, workloads


def answers(stream: Stream, batches: list[tuple[Rows, int]], keeping: str = "memory") -> pa.Table:
    """All results, the state kept in memory, or saved and restored between batches, whole or as a log of rows."""
    found = []
    logs: list[list[bytes]] = [[] for _ in stream.branches]
    for rows, watermark in batches:
        if keeping != "memory":
            stream = Stream(stream.program)
            for branch, log in zip(stream.branches, logs, strict=True):
                if log:
                    restore_log(branch, list(map(SavedState.from_bytes, log)))
        answer = stream.feed(build_stream_table(rows), watermark)
        assert answer.late == 0
        found.append(answer.results)
        if keeping != "memory":
            stream.release_rows()
        for branch, log in zip(stream.branches, logs, strict=True):
            if keeping == "log" and log and len(log) < 4:
                log.append(save_feed(branch).to_bytes(compressed=True))
            else:
                log[:] = [save(branch).to_bytes(compressed=len(log) % 2 == 0)]
    return pa.concat_tables([*found, stream.finish().results])


@pytest.mark.parametrize("detection", [False, True], ids=["aggregates", "aggregates-and-matches"])
@given(data=st.data())
def test_a_stream_gives_the_results_of_batch_and_oracle(detection: bool, data: st.DataObject) -> None:
    workload = endless(data.draw(workloads(min_queries=1, max_queries=6, detection=detection)))
    rows = data.draw(streams())
    if not workload.queries:
        return
    note(to_text(workload))
    table = build_stream_table(rows)
    expected = enumerate_table(workload, table)
    schema = EventSchema(table.schema)
    assert_same_results(run_table(compile_workload(workload, schema), table).table, expected)
    batches = data.draw(micro_batches(rows))
    windows: WindowStrategy = data.draw(st.sampled_from(["auto", "panes", "pairs", "stacks"]))
    stream = Stream(compile_workload(workload, schema, Options(mode="append", windows=windows)))
    stream.most_held = data.draw(st.sampled_from([0, 3, MOST_HELD_ROWS]))
    assert_same_results(answers(stream, batches, data.draw(st.sampled_from(["memory", "whole", "log"]))), expected)


@given(data=st.data())
def test_rows_that_are_held_delay_no_result_and_hide_no_late_row(data: st.DataObject) -> None:
    queries = data.draw(workloads(min_queries=1, max_queries=4))
    sizes = st.integers(1, 4)
    windows = [TimeWindow(data.draw(sizes) * 2 * SECOND, data.draw(sizes) * SECOND) for _ in queries.queries]
    asked = [
        replace(query, window=replace(window, slide=min(window.slide or 0, window.size)))
        for query, window in zip(queries.queries, windows, strict=True)
    ]
    workload = endless(replace(queries, queries=tuple(asked)))
    if not workload.queries:
        return
    note(to_text(workload))
    rows = data.draw(streams())
    program = compile_workload(workload, EventSchema(build_stream_table(rows).schema), Options(mode="append"))
    held, plain = Stream(program), Stream(program)
    held.most_held, plain.most_held = data.draw(st.sampled_from([3, MOST_HELD_ROWS])), 0
    saves = data.draw(st.booleans())
    for batch, watermark in data.draw(micro_batches(rows)):
        if watermark > MIN_TIME:
            watermark += data.draw(st.sampled_from([0, 2 * SECOND]))  # so that some rows are late
        table = build_stream_table(batch)
        one, other = held.feed(table, watermark), plain.feed(table, watermark)
        assert one.late == other.late
        assert_same_results(one.results, other.results)
        if saves:
            states, held = held.save(), Stream(program)
            held.restore(states)
    assert_same_results(held.finish().results, plain.finish().results)
