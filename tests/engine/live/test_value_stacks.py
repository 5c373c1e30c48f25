"""Continuous queries with adjacent conditions have nodes for each value while there are few, and totals by start then.

Whenever that changes, results are those of batch; and with few values an event costs the same in any window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from motet.compile import compile_workload
from motet.engine.live import Stream, value_stacks
from motet.engine.live.aggregate import AggregateOperator
from motet.engine.live.key_states import KeyColumn, KeyIndex
from motet.engine.live.trends import TrendUnit
from motet.engine.live.value_stacks import ValueStackUnit
from motet.engine.local import run_table
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.live.micro_batches import SECOND
from tests.strategies import STREAM_SCHEMA, build_stream_table

SCHEMA = EventSchema(STREAM_SCHEMA)
QUERIES = """
QUERY rising RETURN COUNT(*), SUM(A.y) PATTERN A+ WHERE A.x < NEXT(A).x GROUP BY k WITHIN 15 s
QUERY falling RETURN COUNT(*), MIN(a.y), MAX(b.x) PATTERN SEQ(A a+, B b) WHERE a.x >= NEXT(a).x AND a.x > b.x
    GROUP BY k WITHIN 9 s
QUERY equal RETURN COUNT(*) PATTERN SEQ(A a, B b+) WHERE a.x = b.x AND b.x <= NEXT(b).x GROUP BY k WITHIN 20 s
QUERY absent RETURN COUNT(*) PATTERN SEQ(A a+, NOT D, B) WHERE a.x < NEXT(a).x GROUP BY k WITHIN 15 s
QUERY crossed RETURN COUNT(*), AVG(a.x) PATTERN SEQ(A a, B b, A c) WHERE a.x < b.x AND b.x > c.x WITHIN 9 s
QUERY combined RETURN COUNT(*) PATTERN SEQ(A a+, C) WHERE [k] AND a.x <= NEXT(a).x WITHIN 15 s
QUERY counted RETURN COUNT(*) PATTERN SEQ(A a+, B) WHERE a.x <= NEXT(a).x GROUP BY k WITHIN 8 EVENTS
QUERY counted_all RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE [k] AND a.x > b.x WITHIN 8 EVENTS
"""


def stream_of(text: str) -> Stream:
    return Stream(compile_workload(parse(text), SCHEMA, Options(mode="append")))


def list_kinds(stream: Stream) -> set[type]:
    """Return the kinds of units that carry on what they know of events."""
    return {type(unit) for each in stream.branches if isinstance(each, AggregateOperator) for unit in each.fed}


def growing_stream(seed: int, size: int) -> list[dict[str, Any]]:
    """Events in order of time, with ties and nulls, whose values of x become more on the way."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([0, 1, 1, 2], size)).tolist()
    values = [int(rng.integers(0, 2 + 8 * at // size)) for at in range(size)]
    kinds, keys = rng.choice(list("AABBCDZ"), size).tolist(), rng.integers(1, 4, size).tolist()
    lacks = (rng.random(size) < 0.05).tolist()
    return [
        {"time": time, "type": kind, "k": key, "g": "u", "x": None if lacking else x, "y": x / 4, "s": "p"}
        for time, kind, key, x, lacking in zip(times, kinds, keys, values, lacks, strict=True)
    ]


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("limit", [6, 30, 1000])
@pytest.mark.parametrize("size", [3, 50])
def test_values_may_become_more_and_too_many(
    limit: int, size: int, restored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_stacks, "MAX_STEPS", limit)
    rows = growing_stream(limit + size, 200)
    stream, found = stream_of(QUERIES), []
    begun_with = list_kinds(stream)
    for number, first in enumerate(range(0, len(rows), size)):
        if restored and number % 3 == 2:
            states, stream = stream.save(), stream_of(QUERIES)
            stream.restore(states)
        found.append(stream.feed(build_stream_table(rows[first : first + size]), rows[first]["time"] * SECOND).results)
    ended_with = list_kinds(stream)
    found.append(stream.finish().results)
    assert begun_with == {ValueStackUnit}
    assert limit < 1000 or ended_with == {ValueStackUnit}
    assert limit > 6 or restored or ended_with == {TrendUnit}
    expected = run_table(compile_workload(parse(QUERIES), SCHEMA), build_stream_table(rows)).table
    assert_same_results(pa.concat_tables([each.select(expected.column_names) for each in found]), expected)


@pytest.mark.parametrize("window", ["WITHIN 20 s", "WITHIN 2000 s", "WITHIN 2000 EVENTS"], ids=lambda text: text)
def test_an_event_is_applied_once_and_swept_at_most_once(window: str) -> None:
    stream = stream_of(f"RETURN COUNT(*) PATTERN A a+ WHERE a.x < NEXT(a).x GROUP BY k {window}")
    rows = [{**row, "time": at, "x": at * 7 // 3 % 4} for at, row in enumerate(growing_stream(1, 5000))]
    for first in range(0, len(rows), 50):
        stream.feed(build_stream_table(rows[first : first + 50]), first * SECOND)
    (unit,) = stream.branches[0].fed
    assert isinstance(unit, ValueStackUnit)
    events = sum(row["type"] == "A" for row in rows)
    assert events / 2 < unit.work <= 2 * events


def test_the_values_of_keys_are_copied_a_few_times() -> None:
    index = KeyIndex(pa.schema([("k", pa.int64()), ("s", pa.string())]))
    for number in range(500):
        keys = np.arange(7 * number, 7 * number + 7)
        index.number_keys({"k": pa.array(keys), "s": pa.array(keys.astype(str))}, len(keys))
        assert len(index._pieces) <= 2 + np.log2(index.count)
    numbers = pa.array([None, 3499, 0, 17, None, 1800, 17])
    columns = index.columns
    assert columns["k"].take(numbers).to_pylist() == numbers.to_pylist()
    assert columns["s"].take(numbers).to_pylist() == [None, "3499", "0", "17", None, "1800", "17"]
    assert columns["s"].take(pa.array([], pa.int64())).to_pylist() == []


def test_a_column_of_keys_without_any_is_empty() -> None:
    assert KeyColumn([pa.array([], pa.string())]).take(pa.array([None, None], pa.int64())).to_pylist() == [None, None]


def test_parts_that_no_values_lead_to_match_nothing() -> None:
    text = "RETURN COUNT(*), MIN(b.y) PATTERN SEQ(A a, A c, A*, B? b) WHERE c.x + 2 < a.x WITHIN 7 s"
    rows = [(0, "B", 1), (0, "A", 1), (1, "A", 1), (1, "B", 2), (2, "B", 1)]
    table = build_stream_table(
        [{"time": time, "type": kind, "k": 1, "g": "u", "x": x, "y": 0.5, "s": "p"} for time, kind, x in rows]
    )
    stream = stream_of(text)
    fed = stream.feed(table, -SECOND)
    assert list_kinds(stream) == {ValueStackUnit}
    assert len(fed.results) + len(stream.finish().results) == 0
