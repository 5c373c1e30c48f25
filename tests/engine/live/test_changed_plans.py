"""A plan may change at any moment: whichever queries run together, before and after, results stay as they are."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import Program, compile_workload
from motet.engine.live import SavedState, Stream, restore_log, save, save_feed
from motet.engine.live.state import first_unseen_time
from motet.engine.live.stream import MOST_HELD_ROWS
from motet.engine.local import run_table
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import AfterMatch, Workload
from motet.model.window import CountWindow
from motet.options import OptimizerName, Options, WindowStrategy
from motet.plans.sharing import Grouping
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import SECOND, endless, kindred, micro_batches, select_streamed
from tests.engine.live.test_changed_queries import own_rows, since
from tests.strategies import STREAM_SCHEMA, build_stream_table, streams, workloads

SCHEMA = EventSchema(STREAM_SCHEMA)
ALWAYS = 99
OPTIMIZERS: list[OptimizerName] = ["auto", "none", "sharon", "sharon-greedy", "gloria", "motto", "multitree"]


@st.composite
def programs(draw: st.DrawFn, workload: Workload, windows: WindowStrategy) -> Program:
    """A workload by the plan of any optimizer, or with its queries in any groups."""
    options = Options(mode="append", windows=windows, optimizer=draw(st.sampled_from(OPTIMIZERS)))
    if draw(st.booleans()):
        return compile_workload(workload, SCHEMA, options)
    count = len(workload.queries)
    labels = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return compile_workload(workload, SCHEMA, options, sharing=Grouping(tuple(enumerate(labels))))


@st.composite
def changing_workloads(draw: st.DrawFn, *, aggregates: bool) -> Workload:
    """Queries of all kinds, or aggregates most of which can run on one machine."""
    if aggregates:
        return endless(draw(kindred(draw(workloads(min_queries=2, max_queries=7, adjacent=False)))))
    return select_streamed(draw(workloads(min_queries=2, max_queries=5, detection=True, skips=True)))


def restore_from_log(stream: Stream, log: list[list[bytes]]) -> Stream:
    """Return the stream that a log of its branches stands for."""
    restored = Stream(stream.program)
    for branch, parts in zip(restored.branches, log, strict=True):
        restore_log(branch, list(map(SavedState.from_bytes, parts)))
    restored.watermark, restored.newest = stream.watermark, stream.newest
    return restored


@pytest.mark.parametrize("aggregates", [True, False], ids=["aggregates", "all kinds"])
@given(data=st.data())
def test_plans_queries_and_processes_change_and_no_result_does(aggregates: bool, data: st.DataObject) -> None:
    workload = data.draw(changing_workloads(aggregates=aggregates))
    if not workload.queries:
        return
    note(to_text(workload))
    windows: WindowStrategy = data.draw(st.sampled_from(["auto", "panes", "pairs", "stacks"]))
    rows = data.draw(streams(keys=2))
    batches = data.draw(micro_batches(rows))
    moments = st.integers(1, len(batches))
    comes = {query.name: data.draw(st.just(0) | moments) for query in workload.queries[1:]}
    goes = {query.name: data.draw(st.just(ALWAYS) | moments) for query in workload.queries[1:]}
    note(f"comes {comes}, goes {goes}")
    joined: dict[str, int] = {}
    found = []
    stream: Stream | None = None
    log: list[list[bytes]] = []
    most_held = data.draw(st.sampled_from([0, 3, MOST_HELD_ROWS]))
    for moment, (batch, watermark) in enumerate(batches):
        here = tuple(q for q in workload.queries if comes.get(q.name, 0) <= moment < goes.get(q.name, ALWAYS))
        if stream is None:
            stream = Stream(data.draw(programs(replace(workload, queries=here), windows)))
        else:
            changed = here != stream.program.workload.queries
            change = "plan" if changed else data.draw(st.sampled_from(["nothing", "plan", "restore", "log"]))
            note(change)
            if change == "plan":
                states = stream.save().values()
                begins = max(first_unseen_time(SavedState.from_bytes(state)) for state in states)
                joined |= {q.name: begins for q in here if q not in stream.program.workload.queries}
                stream = stream.continue_with(data.draw(programs(replace(workload, queries=here), windows)))
            elif change == "restore":
                saved, stream = stream.save(), Stream(stream.program)
                stream.restore(saved)
            elif change == "log" and log:
                stream = restore_from_log(stream, log)
        stream.most_held = most_held
        log = [] if most_held else [[save(branch).to_bytes()] for branch in stream.branches]
        found.append(stream.feed(build_stream_table(batch), watermark).results)
        for branch, parts in zip(stream.branches, log, strict=False):
            parts.append(save_feed(branch).to_bytes(compressed=True))
    assert stream is not None
    found.append(stream.finish().results)
    table = build_stream_table(rows)
    for query in workload.queries:
        if comes.get(query.name, 0) >= min(goes.get(query.name, ALWAYS), len(batches)):
            continue
        alone = replace(workload, queries=(query,))
        expected = run_table(compile_workload(alone, SCHEMA), table).table
        assert_same_results(expected, enumerate_table(alone, table))
        # A window of events is whole when there were enough of them, and which matches are taken follows from earlier
        # ones: no time tells either.
        is_joined = query.name in joined
        if is_joined and (isinstance(query.window, CountWindow) or query.after_match is not AfterMatch.ALL):
            continue
        own = pa.concat_tables([own_rows(results, query, expected.schema) for results in found])
        known = expected.to_pylist()
        assert all(row in known for row in own.to_pylist())
        if goes.get(query.name, ALWAYS) == ALWAYS:
            if is_joined:
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
