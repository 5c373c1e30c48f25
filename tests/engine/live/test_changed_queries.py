"""Queries that come and go while a stream runs: those that stay lose nothing, new ones begin with a whole window."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.live import Stream
from motet.engine.live.saved import SavedState
from motet.engine.live.state import first_unseen_time
from motet.engine.live.stream import MOST_HELD_ROWS
from motet.engine.local import run_table
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Query, Workload
from motet.model.window import CountWindow, TimeWindow
from motet.options import Options
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import SECOND, Rows, endless, micro_batches
from tests.strategies import STREAM_SCHEMA, build_stream_table, streams, workloads

SCHEMA = EventSchema(STREAM_SCHEMA)


def stream_of(workload: Workload, queries: list[Query]) -> Stream:
    return Stream(compile_workload(replace(workload, queries=tuple(queries)), SCHEMA, Options(mode="append")))


@given(workload=workloads(min_queries=2, max_queries=7, detection=True), rows=streams(), data=st.data())
def test_a_change_of_queries_changes_nothing_for_the_others(
    workload: Workload, rows: Rows, data: st.DataObject
) -> None:
    workload = endless(workload)
    fate = {query.name: data.draw(st.sampled_from(["stays", "stays", "goes", "comes"])) for query in workload.queries}
    first = [query for query in workload.queries if fate[query.name] != "comes"]
    second = [query for query in reversed(workload.queries) if fate[query.name] != "goes"]
    # A window of events is whole when there were enough of them, which no time tells.
    second = [q for q in second if fate[q.name] == "stays" or not isinstance(q.window, CountWindow)]
    if not first or not second:
        return
    note(to_text(workload))
    note(str(fate))
    batches = data.draw(micro_batches(rows))
    change = data.draw(st.integers(0, len(batches)))
    before, after = stream_of(workload, first), stream_of(workload, second)
    before.most_held = after.most_held = data.draw(st.sampled_from([0, MOST_HELD_ROWS]))
    found = [before.feed(build_stream_table(batch), watermark).results for batch, watermark in batches[:change]]
    states = before.save()
    after.restore(states)
    joined = max(first_unseen_time(SavedState.from_bytes(state)) for state in states.values())
    later = [after.feed(build_stream_table(batch), watermark).results for batch, watermark in batches[change:]]
    later.append(after.finish().results)
    table = build_stream_table(rows)
    for query in second:
        alone = replace(workload, queries=(query,))
        expected = run_table(compile_workload(alone, SCHEMA), table).table
        kept = [*found, *later] if fate[query.name] == "stays" else later
        own = pa.concat_tables([own_rows(results, query, expected.schema) for results in kept])
        if fate[query.name] == "comes":
            # Of the branches that it may join, some know the stream for longer than others.
            seen = own
            for row in seen.to_pylist():
                assert row in expected.to_pylist()
            own, expected = (since(results, query, joined) for results in (own, expected))
        assert_same_results(own, expected)


def own_rows(results: pa.Table, query: Query, schema: pa.Schema) -> pa.Table:
    """The results of one query, in its own columns: beside others some may be called `query.column`."""
    own = results.filter(pc.equal(results["query"], query.name))
    if not len(own):  # the columns may have the types of others
        return schema.empty_table()

    def read(field: pa.Field) -> pa.ChunkedArray | pa.Array:
        qualified = f"{query.name}.{field.name}"
        name = qualified if qualified in own.column_names else field.name
        return own[name] if name in own.column_names else pa.nulls(len(own), field.type)

    return pa.Table.from_arrays([read(field) for field in schema], schema=schema)


def since(results: pa.Table, query: Query, moment: int) -> pa.Table:
    """Results of windows that began at or after a moment; of matches, those all of whose windows did."""
    window = query.window
    assert isinstance(window, TimeWindow)
    length = window.size if window.ticks else window.size / SECOND
    if not query.is_aggregate:
        return results.filter(pc.greater_equal(results["start"], moment / SECOND + length))
    begins = results["window_start"] if window.slide else pc.subtract(results["time"].cast(pa.float64()), length)
    return results.filter(pc.greater_equal(begins, moment / SECOND))


def test_a_query_that_shares_a_prefix_with_a_new_one_goes_on() -> None:
    old = "QUERY long RETURN COUNT(*) PATTERN SEQ(A, B, C) GROUP BY k WITHIN 10 s SLIDE 10 s"
    new = "QUERY short RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 10 s SLIDE 10 s"
    columns = {"k": 1, "g": "u", "x": 0, "y": 0.0, "s": "p"}

    def events(*named: tuple[int, str]) -> pa.Table:
        return build_stream_table([{"time": time, "type": kind, **columns} for time, kind in named])

    before = Stream(compile_workload(parse(old), SCHEMA, Options(mode="append")))
    before.feed(events((1, "A"), (2, "B")), 0)
    before.feed(events(), 3 * SECOND)
    after = Stream(compile_workload(parse(new + "\n" + old), SCHEMA, Options(mode="append")))
    after.restore(before.save())
    after.feed(events((4, "C"), (11, "A"), (12, "B"), (13, "C")), 3 * SECOND)
    results = after.finish().results
    assert {(row["query"], row["window_start"], row["COUNT(*)"]) for row in results.to_pylist()} == {
        ("short", 10, 1),
        ("long", 0, 1),
        ("long", 10, 1),
    }
