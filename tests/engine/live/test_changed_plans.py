"""A plan may change at any moment: whichever queries run together, before and after, results stay as they are."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import Program, compile_workload
from motet.engine.live import SavedState, Stream
from motet.engine.live.state import first_unseen_time
from motet.engine.live.stream import MOST_HELD_ROWS
from motet.engine.local import run_table
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.options import Options
from motet.plans.sharing import Grouping
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import SECOND, Rows, endless, kindred, micro_batches
from tests.engine.live.test_changed_queries import own_rows, since
from tests.strategies import STREAM_SCHEMA, build_stream_table, streams, workloads

SCHEMA = EventSchema(STREAM_SCHEMA)
ALWAYS = 99


@st.composite
def programs(draw: st.DrawFn, workload: Workload) -> Program:
    """A workload whose queries run in any groups."""
    count = len(workload.queries)
    labels = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return compile_workload(workload, SCHEMA, Options(mode="append"), sharing=Grouping(tuple(enumerate(labels))))


@given(workload=workloads(min_queries=2, max_queries=7, adjacent=False), rows=streams(keys=2), data=st.data())
def test_a_change_of_plan_changes_no_result(workload: Workload, rows: Rows, data: st.DataObject) -> None:
    workload = endless(data.draw(kindred(workload)))
    if not workload.queries:
        return
    note(to_text(workload))
    table = build_stream_table(rows)
    expected = enumerate_table(workload, table)
    assert_same_results(run_table(compile_workload(workload, SCHEMA), table).table, expected)
    stream = Stream(data.draw(programs(workload)))
    stream.most_held = data.draw(st.sampled_from([0, MOST_HELD_ROWS]))
    found = []
    for batch, watermark in data.draw(micro_batches(rows)):
        if data.draw(st.booleans()):
            stream = stream.continue_with(data.draw(programs(workload)))
        found.append(stream.feed(build_stream_table(batch), watermark).results)
    found.append(stream.finish().results)
    assert_same_results(pa.concat_tables(found), expected)


@given(workload=workloads(min_queries=3, max_queries=6, adjacent=False), rows=streams(keys=2), data=st.data())
def test_plans_and_queries_change_together(workload: Workload, rows: Rows, data: st.DataObject) -> None:
    workload = endless(data.draw(kindred(workload)))
    if not workload.queries:
        return
    note(to_text(workload))
    batches = data.draw(micro_batches(rows))
    moments = st.integers(1, len(batches))
    comes = {query.name: data.draw(st.just(0) | moments) for query in workload.queries[1:]}
    goes = {query.name: data.draw(st.just(ALWAYS) | moments) for query in workload.queries[1:]}
    note(f"comes {comes}, goes {goes}")
    joined: dict[str, int] = {}
    found = []
    stream: Stream | None = None
    most_held = data.draw(st.sampled_from([0, MOST_HELD_ROWS]))
    for moment, (batch, watermark) in enumerate(batches):
        here = [q for q in workload.queries if comes.get(q.name, 0) <= moment < goes.get(q.name, ALWAYS)]
        changed = stream is None or tuple(here) != stream.program.workload.queries
        if stream is None or changed or data.draw(st.booleans()):
            program = data.draw(programs(replace(workload, queries=tuple(here))))
            if stream is not None:
                states = stream.save().values()
                begins = max(first_unseen_time(SavedState.from_bytes(state)) for state in states)
                joined |= {q.name: begins for q in here if q not in stream.program.workload.queries}
            stream = Stream(program) if stream is None else stream.continue_with(program)
            stream.most_held = most_held
        found.append(stream.feed(build_stream_table(batch), watermark).results)
    assert stream is not None
    found.append(stream.finish().results)
    for query in workload.queries:
        expected = run_table(
            compile_workload(replace(workload, queries=(query,)), SCHEMA), build_stream_table(rows)
        ).table
        own = pa.concat_tables([own_rows(results, query, expected.schema) for results in found])
        known = expected.to_pylist()
        assert all(row in known for row in own.to_pylist())
        if goes.get(query.name, ALWAYS) == ALWAYS and comes.get(query.name, 0) < len(batches):
            if query.name in joined:
                own, expected = (since(results, query, joined[query.name]) for results in (own, expected))
            assert_same_results(own, expected)


@pytest.mark.parametrize("newer_first", [False, True])
def test_what_queries_have_in_common_goes_on_from_the_one_that_has_seen_more(newer_first: bool) -> None:
    old = [("panes", "SEQ(A, B)"), ("windows", "SEQ(NOT N, A, B)")]
    new = [("later_panes", "SEQ(A, C)"), ("later_windows", "SEQ(NOT N, A, C)")]

    def workload(*named: tuple[str, str]) -> Workload:
        texts = (f"QUERY {name} RETURN COUNT(*) PATTERN {of} GROUP BY k WITHIN 10 s SLIDE 10 s" for name, of in named)
        return parse("\n".join(texts))

    def program(asked: Workload, *labels: int) -> Program:
        return compile_workload(asked, SCHEMA, Options(mode="append"), sharing=Grouping(tuple(enumerate(labels))))

    def events(*named: tuple[int, str]) -> pa.Table:
        columns = {"k": 1, "g": "u", "x": 0, "y": 0.0, "s": "p"}
        return build_stream_table([{"time": time, "type": kind, **columns} for time, kind in named])

    stream = Stream(program(workload(*old), 0, 0))
    stream.feed(events((1, "N"), (2, "A")), 0)
    stream.feed(events(), 3 * SECOND)
    both = [*new, *old] if newer_first else [*old, *new]
    stream = stream.continue_with(program(workload(*both), *([0, 0, 1, 1])))
    stream.feed(events((4, "A")), 3 * SECOND)
    stream.feed(events(), 5 * SECOND)
    stream = stream.continue_with(program(workload(*both), 0, 0, 0, 0))
    assert len(stream.branches[0].slots) == 2
    stream.feed(events((6, "B"), (6, "C"), (11, "A"), (12, "B"), (13, "C")), 5 * SECOND)
    rows = stream.finish().results.to_pylist()
    assert {(row["query"], row["window_start"], row["COUNT(*)"]) for row in rows} == {
        ("panes", 0, 2),
        *((name, 10, 1) for name, _ in both),
    }
