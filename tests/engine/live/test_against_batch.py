"""A stream, however it is cut and disordered within the watermark, gives the results of the whole at once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.live import SavedState, Stream, restore_log, save, save_feed
from motet.engine.local import run_table
from motet.language.printer import to_text
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import Rows, endless, micro_batches
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
    stream = Stream(compile_workload(workload, schema, Options(mode="append")))
    assert_same_results(answers(stream, batches, data.draw(st.sampled_from(["memory", "whole", "log"]))), expected)
