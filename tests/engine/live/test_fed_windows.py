"""Continuous, count-window and adjacent queries on a stream: fed in any pieces, saved and changed at any moment, they
give the results of batch and oracle, and a feed costs what it brings, whatever windows hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.live import Stream
from motet.engine.local import run_table
from motet.kernels.tables import MIN_TIME
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.model.window import CountWindow, TimeWindow, Window
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import SECOND, Rows, endless, micro_batches
from tests.strategies import STREAM_SCHEMA, build_stream_table, streams, workloads

SCHEMA = EventSchema(STREAM_SCHEMA)
WINDOWS: tuple[Window, ...] = (
    TimeWindow(4 * SECOND),
    TimeWindow(9 * SECOND),
    CountWindow(3),
    CountWindow(6),
    TimeWindow(6 * SECOND, 2 * SECOND),
)


def stream_of(workload: Workload) -> Stream:
    stream = Stream(compile_workload(workload, SCHEMA, Options(mode="append", windows="stacks")))
    stream.most_held = 0  # each feed reaches the unit
    return stream


def feed_all(stream: Stream, batches: list[tuple[Rows, int]], data: st.DataObject) -> pa.Table:
    """Feed all batches; between them the stream may be saved and restored, its queries in another order."""
    found: list[pa.Table] = []
    for rows, watermark in batches:
        change = data.draw(st.sampled_from(["none", "none", "restored", "reordered"]))
        if change != "none":
            workload = stream.program.workload
            if change == "reordered":
                workload = replace(workload, queries=tuple(reversed(workload.queries)))
            states = stream.save()
            stream = stream_of(workload)
            stream.restore(states)
        answer = stream.feed(build_stream_table(rows), watermark)
        assert answer.late == 0
        found.append(answer.results)
    found.append(stream.finish().results)
    return pa.concat_tables([results.select(found[0].column_names) for results in found])


@pytest.mark.parametrize("adjacent", [False, True], ids=["stacks", "trends"])
@given(data=st.data())
def test_a_stream_gives_the_results_of_batch_and_oracle(adjacent: bool, data: st.DataObject) -> None:
    workload = data.draw(workloads(min_queries=1, max_queries=4, adjacent=adjacent))
    windows = st.sampled_from(WINDOWS)
    workload = replace(workload, queries=tuple(replace(q, window=data.draw(windows)) for q in workload.queries))
    workload = endless(workload)
    rows = data.draw(streams(latest=15))
    if not workload.queries:
        return
    note(to_text(workload))
    table = build_stream_table(rows)
    expected = enumerate_table(workload, table)
    assert_same_results(run_table(compile_workload(workload, SCHEMA), table).table, expected)
    assert_same_results(feed_all(stream_of(workload), data.draw(micro_batches(rows)), data), expected)


LONG = """
QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 15 s
QUERY triples RETURN COUNT(*), SUM(A.x), MIN(B.y), MAX(A.y), AVG(C.x) PATTERN SEQ(A, B, C) GROUP BY k WITHIN 15 s
QUERY loops RETURN COUNT(*) PATTERN SEQ(A+, B) GROUP BY k WITHIN 30 s
QUERY absent RETURN COUNT(*) PATTERN SEQ(A, NOT C, B) GROUP BY k WITHIN 15 s
QUERY first RETURN COUNT(*) PATTERN SEQ(NOT C, A, B) GROUP BY k WITHIN 15 s
QUERY combined RETURN COUNT(*), SUM(B.x) PATTERN SEQ(A, B) WHERE [k] WITHIN 15 s
QUERY counted RETURN COUNT(*), MIN(A.x) PATTERN SEQ(A, B) GROUP BY k WITHIN 12 EVENTS
QUERY counted_all RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 12 EVENTS
QUERY sliding RETURN COUNT(*) PATTERN SEQ(A, B, C) GROUP BY k WITHIN 20 s SLIDE 3 s
QUERY never RETURN COUNT(*) PATTERN SEQ(A, B, NEG(D)) GROUP BY k WITHIN 20 s SLIDE 3 s
QUERY rising RETURN COUNT(*), SUM(A.x) PATTERN A+ WHERE A.x < NEXT(A).x GROUP BY k WITHIN 15 s SLIDE 5 s
QUERY falling RETURN COUNT(*), MIN(a.y) PATTERN SEQ(A a+, B b) WHERE a.y >= NEXT(a).y AND a.x > b.x GROUP BY k
    WITHIN 9 s
QUERY same RETURN COUNT(*) PATTERN SEQ(A a, B b, NOT D, C c) WHERE a.x = b.x AND b.y < c.y WITHIN 15 s SLIDE 5 s
QUERY other RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE [k] AND a.x != b.x AND a.y < b.y WITHIN 9 s
QUERY ranked RETURN COUNT(*) PATTERN SEQ(A a+, B) WHERE a.x <= NEXT(a).x GROUP BY k WITHIN 8 EVENTS
"""


def long_stream(seed: int, size: int) -> list[dict[str, Any]]:
    """Events in order of time, with ties and nulls, with pauses longer than windows."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([0, 0, 1, 1, 1, 2, 50], size, p=[0.15, 0.15, 0.2, 0.2, 0.2, 0.09, 0.01])
    keys = rng.integers(1, 4, size)
    rows = []
    for time, key in zip(np.cumsum(steps).tolist(), keys.tolist(), strict=True):
        x, y = int(rng.integers(0, 5)), float(rng.integers(0, 40)) / 4
        rows.append(
            {
                "time": time,
                "type": str(rng.choice(list("AABBCCDZ"))),
                "k": key,
                "g": "u",
                "x": None if rng.random() < 0.05 else x,
                "y": None if rng.random() < 0.05 else y,
                "s": "p",
            }
        )
    return rows


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([1, 2, 7, 40, 300]), changes=st.booleans())
def test_long_streams_give_the_results_of_batch(seed: int, size: int, changes: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = long_stream(seed, 300)
    workload = parse(LONG)
    delay = int(rng.integers(0, 8))
    order = np.argsort([row["time"] + rng.integers(0, delay + 1) for row in rows], kind="stable")
    arriving = [rows[at] for at in order]
    stream = stream_of(workload)
    found = []
    newest = None
    for first in range(0, len(rows), size):
        if changes and rng.random() < 5 * size / len(rows):
            states = stream.save()
            stream = stream_of(replace(workload, queries=tuple(rng.permutation(np.array(workload.queries, object)))))
            stream.restore(states)
        batch = arriving[first : first + size]
        watermark = int(MIN_TIME) if newest is None else (newest - delay) * SECOND
        found.append(stream.feed(build_stream_table(batch), watermark).results)
        newest = max([row["time"] for row in batch] + ([] if newest is None else [newest]))
    found.append(stream.finish().results)
    expected = run_table(compile_workload(workload, SCHEMA), build_stream_table(rows)).table
    assert_same_results(pa.concat_tables([results.select(expected.column_names) for results in found]), expected)


@pytest.mark.parametrize(
    "window", ["WITHIN 20 s", "WITHIN 5000 s", "WITHIN 4000 EVENTS", "WITHIN 4000 s SLIDE 10 s"], ids=lambda text: text
)
def test_an_event_is_applied_once_and_swept_at_most_once(window: str) -> None:
    stream = stream_of(parse(f"RETURN COUNT(*), SUM(B.x) PATTERN SEQ(A, B, C) GROUP BY k {window}"))
    rows = [{**row, "time": at} for at, row in enumerate(long_stream(1, 6000))]
    for first in range(0, len(rows), 50):
        stream.feed(build_stream_table(rows[first : first + 50]), (first - 1) * SECOND)
    (unit,) = stream.branches[0].fed
    assert len(rows) / 2 < unit.work <= 2 * len(rows)


def test_keys_that_begin_together_are_not_swept_together() -> None:
    stream = stream_of(parse("RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 30 s"))
    (unit,) = stream.branches[0].fed
    keys, work = 200, [0]
    for time in range(100):
        rows = [
            {"time": time, "type": "AB"[time % 2], "k": key, "g": "u", "x": 1, "y": 0.0, "s": "p"}
            for key in range(keys)
        ]
        stream.feed(build_stream_table(rows), time * SECOND)
        work.append(unit.work)
    assert np.diff(work).max() < 4 * keys  # all of them together: 31 * keys


@pytest.mark.parametrize("window", ["WITHIN 40 s SLIDE 20 s", "WITHIN 4000 s SLIDE 2000 s"], ids=lambda text: text)
def test_the_totals_of_an_event_are_merged_a_few_times_and_never_computed_again(window: str) -> None:
    stream = stream_of(parse(f"RETURN COUNT(*) PATTERN A a+ WHERE a.y < NEXT(a).y GROUP BY k {window}"))
    rng = np.random.default_rng(5)
    rows = [{**row, "time": at, "y": float(rng.random())} for at, row in enumerate(long_stream(1, 6000))]
    for first in range(0, len(rows), 50):
        stream.feed(build_stream_table(rows[first : first + 50]), (first - 1) * SECOND)
    (unit,) = stream.branches[0].fed
    events = sum(row["type"] == "A" for row in rows)
    held = min(events / 3, int(window.split()[1]) / 12)
    assert events / 2 < unit.work <= events * (2 + np.log2(held))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # counts wrap, and numpy says so
@pytest.mark.parametrize("returned", ["COUNT(*)", "COUNT(*), COUNT(a), MAX(a.x)"])
@pytest.mark.parametrize("window", ["WITHIN 200 s", "WITHIN 150 EVENTS"])
@pytest.mark.parametrize("condition", ["", "WHERE a.x <= NEXT(a).x"])
@pytest.mark.parametrize("restored", [False, True])
def test_counts_that_outgrow_64_bits_on_the_way(returned: str, window: str, condition: str, restored: bool) -> None:
    workload = parse(f"RETURN {returned} PATTERN SEQ(A a+, B) {condition} GROUP BY k {window}")
    kinds = ["A" if at % 10 else "B" for at in range(600)]
    rows = [
        {"time": at if at < 300 else 2 * at, "type": kind, "k": int(at % 7 == 0), "g": "u", "x": 1, "y": 0.0, "s": "p"}
        for at, kind in enumerate(kinds)
    ]
    stream = stream_of(workload)
    found = []
    for first in range(0, len(rows), 25):
        if restored and first % 75 == 0:
            states, stream = stream.save(), stream_of(workload)
            stream.restore(states)
        batch = build_stream_table(rows[first : first + 25])
        found.append(stream.feed(batch, (rows[first]["time"] - 1) * SECOND).results)
    found.append(stream.finish().results)
    expected = run_table(compile_workload(workload, SCHEMA), build_stream_table(rows)).table
    assert_same_results(pa.concat_tables(found), expected)
