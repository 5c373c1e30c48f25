"""A plan may change at any moment: whichever queries run together, before and after, results stay as they are."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st
from tests.engine.live.micro_batches import Rows, endless, micro_batches

from motet.engine import EventSchema, Options, Program, compile_workload
from motet.engine.live import Stream
from motet.engine.local import run_table
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.plan.sharing import Grouping
from motet.reference.tables import run_table as enumerate_table
from motet.testing import STREAM_SCHEMA, assert_same_results, stream_table, streams, workloads

SCHEMA = EventSchema(STREAM_SCHEMA)


@st.composite
def programs(draw: st.DrawFn, workload: Workload) -> Program:
    """A workload whose queries run in any groups."""
    count = len(workload.queries)
    labels = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return compile_workload(workload, SCHEMA, Options(live="append"), sharing=Grouping(tuple(enumerate(labels))))


@given(workload=workloads(min_queries=2, max_queries=7), rows=streams(), data=st.data())
def test_a_change_of_plan_changes_no_result(workload: Workload, rows: Rows, data: st.DataObject) -> None:
    workload = endless(workload)
    if not workload.queries:
        return
    note(to_text(workload))
    table = stream_table(rows)
    expected = enumerate_table(workload, table)
    assert_same_results(run_table(compile_workload(workload, SCHEMA), table).table, expected)
    stream = Stream(data.draw(programs(workload)))
    found = []
    for batch, watermark in data.draw(micro_batches(rows)):
        if data.draw(st.booleans()):
            stream = stream.going_on(data.draw(programs(workload)))
        found.append(stream.feed(stream_table(batch), watermark).results)
    found.append(stream.finish().results)
    assert_same_results(pa.concat_tables(found), expected)
