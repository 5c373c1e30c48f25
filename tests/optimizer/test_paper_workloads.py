"""The workloads and streams of the benchmarks: as long as they say, and shared as the paper's are."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import streams, workloads
from motet.model.pattern import events
from motet.model.query import Workload
from motet.optimizer.sharon.sharon import SharonOptions, optimize
from motet.plans.compiled import CompiledQuery, compile_query

SCENES = ["ecommerce", "taxi", "traffic"]


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("length", [2, 3, 10, 30])
def test_patterns_have_the_length_asked_for_and_no_type_twice(scene: str, length: int) -> None:
    workload = getattr(workloads, scene)(25, length)
    assert workload == getattr(workloads, scene)(25, length), "a seed gives the same workload every time"
    for query in workload.queries:
        types = [event.type for event in events(query.pattern)]
        assert len(types) == len(set(types)) == length


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("length", [2, 7, 10, 30])
def test_patterns_of_legs_too(scene: str, length: int) -> None:
    for query in getattr(workloads, scene)(25, length, legs=True).queries:
        types = [event.type for event in events(query.pattern)]
        assert len(types) == len(set(types)) == length


def covered(workload: Workload) -> float:
    """The share of all positions that the best plan shares."""
    outcomes = [compile_query(number, workload, 1) for number in range(len(workload.queries))]
    queries = [outcome for outcome in outcomes if isinstance(outcome, CompiledQuery)]
    report = optimize(queries, None, SharonOptions(search="packing"))
    assert report.conflicts
    shared = sum(len(segment.symbols) * len(segment.places) for segment in report.plan.segments)
    return shared / sum(len(query.symbols) for query in queries)


@pytest.mark.parametrize("scene", SCENES)
def test_most_of_every_pattern_can_be_shared_and_all_of_those_of_legs(scene: str) -> None:
    assert 0.7 < covered(getattr(workloads, scene)(50, 8)) < 0.9
    assert covered(getattr(workloads, scene)(50, 10, legs=True)) > 0.98


@pytest.mark.parametrize("scene", SCENES)
def test_streams_are_in_time_order_and_speak_of_the_types_of_their_workloads(scene: str) -> None:
    table = getattr(streams, scene)(5_000)
    assert len(table) == 5_000
    assert np.all(np.diff(table["time"].to_numpy()) >= np.timedelta64(0))
    named = {event.type for query in getattr(workloads, scene)(20).queries for event in events(query.pattern)}
    assert len(named & set(table["type"].unique().to_pylist())) > 0.9 * len(named)


def test_the_rate_of_traffic_grows() -> None:
    times = streams.traffic(20_000)["time"].to_numpy().astype("int64")
    get_median = times[len(times) // 2]
    assert get_median > 0.6 * times[-1], "half of the events come in the last third of the time"
