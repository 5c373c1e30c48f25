"""In update mode the values of open windows are those over the events that the watermark has passed."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.live import Stream
from motet.engine.local import run_table
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.options import Options, WindowStrategy
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import SECOND, Rows, endless, micro_batches
from tests.strategies import STREAM_SCHEMA, build_stream_table, streams, workloads

SCHEMA = EventSchema(STREAM_SCHEMA)


@given(workload=workloads(min_queries=1, max_queries=5, detection=True), rows=streams(nulls=False), data=st.data())
def test_early_values_are_those_of_the_events_so_far(workload: Workload, rows: Rows, data: st.DataObject) -> None:
    workload = endless(workload)
    if not any(query.is_aggregate for query in workload.queries):  # matches have no early values
        return
    note(to_text(workload))
    batch = compile_workload(workload, SCHEMA)
    windows: WindowStrategy = data.draw(st.sampled_from(["auto", "panes", "pairs", "stacks"]))
    stream = Stream(compile_workload(workload, SCHEMA, Options(mode="update", windows=windows)))
    table = build_stream_table(rows)
    finals = []
    for rows_of_batch, watermark in data.draw(micro_batches(rows)):
        results = stream.feed(build_stream_table(rows_of_batch), watermark).results
        is_open = pc.fill_null(pc.greater(results["window_end"], watermark / SECOND), False)
        finals.append(results.filter(pc.invert(is_open)))
        passed = table.filter(pc.less(table["time"], watermark / SECOND))
        expected = run_table(batch, passed).table
        known = {place(row): row for row in expected.to_pylist()}
        early = results.filter(is_open).to_pylist()
        assert max(Counter(map(place, early)).values(), default=1) == 1
        for row in early:
            assert_same_results(one(row, results.schema), one(known[place(row)], expected.schema))
    finals.append(stream.finish().results)
    assert_same_results(pa.concat_tables(finals), run_table(batch, table).table)


def place(row: dict[str, object]) -> tuple[object, ...]:
    return row["query"], row["window_end"], row.get("k"), row.get("g"), row.get("s")


def one(row: dict[str, object], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([row], schema=schema.remove_metadata())
