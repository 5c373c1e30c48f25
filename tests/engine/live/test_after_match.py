"""AFTER MATCH SKIP takes on a stream, however it is cut and wherever its state is saved, what it takes of the whole."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.live import Stream
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import SECOND, Rows, micro_batches, select_streamed
from tests.strategies import STREAM_SCHEMA, TYPES, build_stream_table, skip_queries, streams

SCHEMA = EventSchema(STREAM_SCHEMA)


def run_stream(workload: Workload, batches: list[tuple[Rows, int]], saves: list[bool]) -> pa.Table:
    """Return all results, with the state saved and restored, and so as small as it can be, between some batches."""
    stream = Stream(compile_workload(workload, SCHEMA, Options(mode="append")))
    found = []
    for (rows, watermark), saved in zip(batches, saves, strict=True):
        if saved:
            states, stream = stream.save(), Stream(stream.program)
            stream.restore(states)
        found.append(stream.feed(build_stream_table(rows), watermark).results)
    return pa.concat_tables([*found, stream.finish().results])


@pytest.mark.parametrize(
    ("ties", "types"), [(True, TYPES), (False, TYPES), (False, ("A",))], ids=["ties", "no ties", "dense"]
)
@given(data=st.data())
def test_any_query_takes_on_a_stream_what_the_oracle_takes(
    ties: bool, types: tuple[str, ...], data: st.DataObject
) -> None:
    numbers = range(data.draw(st.integers(1, 2)))
    queries = tuple(data.draw(skip_queries(name=f"q{number}", types=types, ties=ties)) for number in numbers)
    rows = data.draw(streams())
    if len(types) == 1:  # so that matches often overlap
        rows = [{**row, "type": types[0]} for row in rows]
    if not ties:
        rows = [{**row, "time": at} for at, row in enumerate(rows)]
    workload = select_streamed(Workload(queries))
    if not workload.queries:
        return
    note(to_text(workload))
    batches = data.draw(micro_batches(rows))
    saves = data.draw(st.lists(st.booleans(), min_size=len(batches), max_size=len(batches)))
    expected = enumerate_table(workload, build_stream_table(rows))
    assert_same_results(run_stream(workload, batches, saves), expected)


@settings(max_examples=40)
@pytest.mark.parametrize(
    "pattern", ["SEQ({}, NOT N n)", "SEQ(NOT N m, {}, NOT N n)", "SEQ({}, NOT A n)", "SEQ({}, NEG(N))"]
)
@given(data=st.data())
def test_matches_are_taken_once_those_before_them_are_certain(pattern: str, data: st.DataObject) -> None:
    bound = data.draw(st.sampled_from(["A a, B b", "A a, B b", "A a, A b", "A a, A+, B b"]))
    partition = data.draw(st.sampled_from(["", "", "AND [g]", "GROUP BY g"]))
    window = f"WITHIN {data.draw(st.integers(4, 8))} AFTER MATCH SKIP PAST LAST EVENT"
    # Without a condition, a match that ends earlier is one from the first event of any other, too.
    asked = f"RETURN COUNT(*) PATTERN {pattern.format(bound)} WHERE a.x = b.x {partition} {window}"
    types = data.draw(st.lists(st.sampled_from("AABBNZ"), min_size=6, max_size=14))
    rows = [
        {"time": at, "type": kind, "x": data.draw(st.integers(0, 1)), "g": data.draw(st.sampled_from("uv"))}
        for at, kind in enumerate(types)
    ]
    batches = [([row], row["time"] * SECOND) for row in rows]
    saves = data.draw(st.lists(st.booleans(), min_size=len(batches), max_size=len(batches)))
    note(asked)
    workload = parse(asked)
    expected = enumerate_table(workload, build_stream_table(rows))
    assert_same_results(run_stream(workload, batches, saves), expected)


def test_a_match_waits_for_one_that_would_be_taken_in_its_place() -> None:
    query = "RETURN * PATTERN SEQ(A a, B b, NOT N) WHERE a.x = b.x WITHIN 6 AFTER MATCH SKIP PAST LAST EVENT"
    # The match from 1 to 4 is certain at 7. That from 2 to 3 would be at 8, but for the event at 7.
    events = [(1, "A", 1), (2, "A", 2), (3, "B", 2), (4, "B", 1), (7, "N", 0), (14, "Z", 0)]
    rows = [{"time": at, "type": kind, "x": x} for at, kind, x in events]
    stream = Stream(compile_workload(parse(query), SCHEMA, Options(mode="append")))
    found = [stream.feed(build_stream_table([row]), row["time"] * SECOND).results for row in rows]
    assert [table["start"].to_pylist() for table in found] == [[], [], [], [], [], [1]]


@pytest.mark.parametrize("saved", [False, True], ids=["kept alive", "saved and restored"])
@pytest.mark.parametrize(
    ("window", "taken"),
    [
        ("WITHIN 4", [(at, at + 1) for at in range(0, 60, 2)]),
        ("WITHIN 15 SLIDE 15", [(at, at + 1) for start in range(0, 60, 15) for at in range(start, start + 14, 2)]),
    ],
)
def test_a_stream_remembers_which_matches_were_taken(window: str, taken: list[tuple[int, int]], saved: bool) -> None:
    workload = parse(f"RETURN * PATTERN SEQ(A x, A y) WHERE x.k = y.k {window} AFTER MATCH SKIP PAST LAST EVENT")
    # Each event comes alone: any two neighbours are a match, and half of them overlap one that was taken before.
    batches = [([{"time": at, "type": "A", "k": 0}], at * SECOND) for at in range(60)]
    found = run_stream(workload, batches, [saved] * len(batches))
    assert sorted(zip(found["start"].to_pylist(), found["end"].to_pylist(), strict=True)) == taken


def test_rows_of_a_taken_match_stay_until_none_of_them_is_needed() -> None:
    workload = parse("RETURN * PATTERN SEQ(A x, A y, A z) WITHIN 4 AFTER MATCH SKIP PAST LAST EVENT")
    # Every three events are an occurrence: which three, depends on all events before.
    rows = [{"time": at, "type": "A", "k": 0} for at in range(100)]
    stream = Stream(compile_workload(workload, SCHEMA, Options(mode="append")))
    found = []
    for row in rows:
        states, stream = stream.save(), Stream(stream.program)
        stream.restore(states)
        found.append(stream.feed(build_stream_table([row]), row["time"] * SECOND).results)
        assert len(stream.branches[0].rows) <= 12
    results = pa.concat_tables([*found, stream.finish().results])
    assert_same_results(results, enumerate_table(workload, build_stream_table(rows)))


def test_what_a_not_forbade_is_not_taken_once_its_rows_are_gone() -> None:
    workload = parse("RETURN * PATTERN SEQ(NOT C, A a, B b) WITHIN 6 AFTER MATCH SKIP PAST LAST EVENT")
    dice = Random(157)
    dice.randint(2, 6)
    rows: Rows = []
    for _ in range(40):
        before = rows[-1]["time"] if rows else 0
        rows.append({"time": before + dice.choice([1, 1, 1, 2]), "type": dice.choice("AABBC"), "k": dice.randint(0, 3)})
    batches = [([row], row["time"] * SECOND) for row in rows]
    found = run_stream(workload, batches, [True] * len(batches))
    assert_same_results(found, enumerate_table(workload, build_stream_table(rows)))
