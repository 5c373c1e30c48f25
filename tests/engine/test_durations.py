"""Durations beside times of every kind: whole numbers of any unit, timestamps, and timestamps beside whole numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
import pytest

import motet
from motet.errors import QueryError
from tests.comparison import assert_same_results
from tests.reshaped import CLOCKS, SECONDS, Clock, Shape, reshape_table, simplify_results
from tests.strategies import build_stream_table

ROWS = [{"time": at, "type": kind, "k": 1, "x": at} for at, kind in ((1, "A"), (3, "B"), (9, "B"), (20, "B"))]
CONDITIONS = {
    "b.{at} - a.{at} < 5 s": 1,
    "b.{at} - a.{at} BETWEEN 2 s AND 8 s": 2,
    "b.{at} - a.{at} IN (8 s, 19 s)": 2,
    "b.{at} - a.{at} NOT IN (INTERVAL '8' SECOND, 500 ms)": 2,
    "a.{at} + 5 s + 3 s >= b.{at}": 2,
    "a.{at} + COUNT(b) * 2 s = b.{at}": 1,
    "ABS(a.{at} - b.{at}) <= 2 s": 1,
    "-(b.{at} - a.{at}) > -(9 s)": 2,
    "(b.{at} - a.{at}) * 2 < 17 s": 2,
    "(b.{at} - a.{at}) / 4 < 2500 ms": 2,
    "(b.{at} - a.{at}) / 2 s > 4": 1,
    "20 s / (b.{at} - a.{at}) > 5": 1,
    "COALESCE(b.{at} - a.{at}, 1 s) < 5 s": 1,
    "(b.{at} - a.{at}) IS NOT NULL": 3,
}
SOME_CLOCKS = [clock for clock in CLOCKS if clock.second % 1_000_000 == 0 and not pa.types.is_date(clock.type)]
SOME_CLOCKS += [Clock(pa.int64(), 1_000_000, unit) for unit in ("us", "ns")]


def answers(events: pa.Table, query: str, unit: Any) -> pa.Table:
    """Return what the engine finds, which is what the oracle finds."""
    engines: tuple[Literal["local", "oracle"], ...] = ("local", "oracle")
    found, expected = (simplify_results(motet.run(events, query, engine=each, time_unit=unit)) for each in engines)
    assert_same_results(found, expected)
    return found


@pytest.mark.parametrize("other", [False, True], ids=["time", "another column"])
@pytest.mark.parametrize("clock", SOME_CLOCKS, ids=lambda clock: f"{clock.type} {clock.unit}")
def test_durations_beside_times_of_every_kind(clock: Clock, other: bool) -> None:
    clock = replace(clock, second=1_000_000)
    events = reshape_table(build_stream_table(ROWS), Shape(clock=clock, other_times=other))
    at = "at" if other else "time"
    for condition, count in CONDITIONS.items():
        query = f"RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE {condition.format(at=at)}"
        assert (condition, answers(events, query, clock.unit)["COUNT(*)"].to_pylist()) == (condition, [count])


def test_a_difference_of_timestamps_is_compared_with_whole_numbers_in_their_unit() -> None:
    events = reshape_table(build_stream_table(ROWS), Shape(clock=Clock(pa.int64(), unit="ms"), other_times=True))
    query = "RETURN b.time - (b.at - a.at) AS begin PATTERN SEQ(A a, B b) WHERE b.at - a.at = b.time - a.time"
    assert answers(events, query, "ms")["begin"].to_pylist() == [1000, 1000, 1000]


@pytest.mark.parametrize("clock", [SECONDS, Clock(pa.timestamp("us")), Clock(pa.int64(), unit="ns")], ids=str)
def test_having_computes_with_times(clock: Clock) -> None:
    events = reshape_table(build_stream_table(ROWS), Shape(clock=clock))
    query = "RETURN COUNT(*), MAX(b.time) AS last, MIN(a.time) PATTERN SEQ(A a, B b) WITHIN 1 min"
    found = answers(events, f"{query} HAVING last - MIN(a.time) < 10 s", clock.unit)
    assert found["COUNT(*)"].to_pylist() == [1, 2]


def test_a_window_without_a_unit_counts_in_that_of_the_times() -> None:
    events = reshape_table(build_stream_table(ROWS), Shape(clock=Clock(pa.int64(), unit="ns")))
    for window in ("WITHIN 5000000000", "WITHIN 5 s"):
        query = f"RETURN COUNT(*) PATTERN SEQ(A a, B b) {window}"
        assert answers(events, query, "ns")["COUNT(*)"].to_pylist() == [1]
    with pytest.raises(QueryError, match="a window must be a whole number of microseconds"):
        motet.run(events, "RETURN COUNT(*) PATTERN SEQ(A a, B b) WITHIN 1500", time_unit="ns")


def test_nested_values_are_returned_as_they_are() -> None:
    events = pa.table(
        {
            "time": [1, 3, 9],
            "type": ["A", "B", "B"],
            "user": [{"id": 1, "names": ["ann"]}, {"id": 2, "names": []}, None],
            "tags": [["x"], None, ["y", "z"]],
        }
    )
    text = "RETURN {} PATTERN SEQ(A a, B{} b) WITHIN 10"
    found = answers(events, text.format("a.user AS u, b.user.names AS names, b.tags AS tags", "?"), "s")
    assert found.select(["names", "tags"]).to_pylist() == [
        {"names": None, "tags": None},
        {"names": [], "tags": None},
        {"names": None, "tags": ["y", "z"]},
    ]
    assert set(map(str, found["u"].to_pylist())) == {"{'id': 1, 'names': ['ann']}"}
    answers(events, text.format("FIRST(b).user AS one, LAST(b).tags AS other", "+"), "s")
    assert answers(events, text.format("COUNT(b.user), COUNT(b.tags)", ""), "s")["COUNT(b.tags)"].to_pylist() == [0, 1]
    for returns in ("COUNT(DISTINCT b.user)", "COALESCE(b.tags, a.tags) AS tags"):
        with pytest.raises(QueryError, match="nothing can be computed with"):
            motet.run(events, text.format(returns, ""))
