"""Cells of keys and panes estimated from a sample are near those counted in all events."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from motet.engine.workload_profile import StatisticsRequest, estimate_statistics
from motet.schema import EventSchema
from motet.statistics.model import Statistics
from motet.statistics.sample import SampledRows, sample_table

Ints = NDArray[np.int64]
EVENTS = 400_000
SPAN = 400_000_000
TYPES = np.array(["A", "B", "C", "D"])
REQUEST = StatisticsRequest((), ((), ("k",)), {})


def make_times(dice: np.random.Generator) -> Ints:
    return np.sort(dice.integers(0, SPAN, EVENTS))


def make_uniform(keys: int) -> Callable[[np.random.Generator], tuple[Ints, Ints]]:
    return lambda dice: (make_times(dice), dice.integers(0, keys, EVENTS))


def make_zipf(dice: np.random.Generator) -> tuple[Ints, Ints]:
    weights = 1 / np.arange(1, 50_001)
    return make_times(dice), dice.choice(50_000, EVENTS, p=weights / weights.sum())


def make_sessions(dice: np.random.Generator) -> tuple[Ints, Ints]:
    """Each key comes once, with 20 events within 10 seconds: about 500 are live at any time."""
    begins = np.sort(dice.integers(0, SPAN, EVENTS // 20))
    times = (begins[:, None] + dice.integers(0, 10_000_000, (len(begins), 20))).ravel()
    order = np.argsort(times)
    return times[order], np.repeat(np.arange(len(begins)), 20)[order]


def sort_by_key(times: Ints, keys: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(keys, kind="stable")
    return times[order], keys[order]


def shuffle(times: Ints, keys: Ints, dice: np.random.Generator) -> tuple[Ints, Ints]:
    order = dice.permutation(len(times))
    return times[order], keys[order]


def disorder(times: Ints, keys: Ints, dice: np.random.Generator) -> tuple[Ints, Ints]:
    """Rows up to half a second late."""
    order = np.argsort(times + dice.integers(0, 500_000, len(times)))
    return times[order], keys[order]


STREAMS: dict[str, Callable[[np.random.Generator], tuple[Ints, Ints]]] = {
    "one key": make_uniform(1),
    "few keys": make_uniform(30),
    "many keys": make_uniform(2_000),
    "very many keys": make_uniform(100_000),
    "zipf": make_zipf,
    "sessions": make_sessions,
    "late rows": lambda dice: disorder(*make_uniform(300)(dice), dice),
    "sorted by key": lambda dice: sort_by_key(*make_uniform(3_000)(dice)),
    "sorted by large keys": lambda dice: sort_by_key(*make_uniform(20)(dice)),
    "zipf sorted by key": lambda dice: sort_by_key(*make_zipf(dice)),
    "in no order": lambda dice: shuffle(*make_uniform(500)(dice), dice),
}


def make_table(times: Ints, keys: Ints, dice: np.random.Generator) -> pa.Table:
    types = TYPES[dice.choice(4, len(times), p=[0.6, 0.25, 0.1, 0.05])]
    return pa.table({"time": times, "type": types, "k": keys})


def count_cells(times: Ints, keys: Ints, width: int) -> int:
    return len(np.unique(keys * (1 << 40) + (times - times.min()) // width))


def estimate(sample: SampledRows) -> Statistics:
    return estimate_statistics(sample, REQUEST, EventSchema(sample.stretches[0].schema, time_unit="us"))


@pytest.mark.parametrize("name", STREAMS)
def test_a_small_sample_tells_rates_and_cells(name: str) -> None:
    dice = np.random.default_rng(1)
    times, keys = STREAMS[name](dice)
    table = make_table(times, keys, dice)
    sample = sample_table(table)
    found = estimate(sample)
    assert found.sampled <= 20_000
    seconds = (times.max() - times.min()) / 1e6
    for type, count in zip(*np.unique(table["type"].to_numpy(), return_counts=True), strict=True):
        assert found.rates[type] == pytest.approx(count / seconds, rel=0.1 if count > EVENTS / 5 else 0.25)
    # Where few panes fit into the span it matters where they begin.
    for width in (3_000, 50_000, 700_000, 10_000_000, 60_000_000):
        exact = count_cells(times, keys, width) / seconds
        assert found.cells_per_second(["k"], width) == pytest.approx(exact, rel=0.25), width
    for width in (3_000, 700_000):
        exact = count_cells(times, keys * 0, width) / seconds
        assert found.cells_per_second([], width) == pytest.approx(exact, rel=0.25), width
    assert found.count_partitions(["k"]) == pytest.approx(len(np.unique(keys)), rel=0.25)


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 5) | st.none()), min_size=1, max_size=60),
    st.lists(st.integers(1, 10**8), min_size=2, max_size=6),
)
def test_cells_of_the_whole_average_over_where_panes_begin(
    rows: list[tuple[int, int | None]], widths: list[int]
) -> None:
    table = pa.table(
        {"time": [at for at, _ in rows], "type": ["A"] * len(rows), "k": pa.array([k for _, k in rows], pa.int64())}
    )
    found = estimate(SampledRows((table,), len(rows)))
    seconds, keyed = found.seconds, [(at, key) for at, key in rows if key is not None]
    assert found.count_partitions(["k"]) == max(len({key for _, key in keyed}), 1)
    for width, cells in found.cells["k"].items():
        begins = np.linspace(0, width, 200, endpoint=False).astype(np.int64)
        counts = [len({(key, (at + int(begin)) // width) for at, key in keyed}) for begin in begins]
        assert cells * seconds == pytest.approx(np.mean(counts), rel=0.05, abs=0.05)
    estimates = [found.cells_per_second(["k"], width) for width in sorted(widths)]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(estimates))
    assert all(0 <= cells <= len(rows) / seconds * (1 + 1e-9) for cells in estimates)


def test_without_cells_events_are_taken_as_independent() -> None:
    stated = Statistics.from_json('{"rates": {"A": 10, "A[x > 1]": 3}, "keys": ["k"], "partitions": 4}')
    assert stated.cells_per_second(["k"], 1_000_000) == pytest.approx(4 * (1 - np.exp(-10 / 4)))
    assert stated.cells_per_second(["k"], 1_000) == pytest.approx(10, rel=0.01)
    assert stated.cells_per_second([], 100_000_000) == pytest.approx(0.01)
    assert Statistics().cells_per_second(["k"], 1_000) == 0.0


def test_cells_survive_json() -> None:
    found = estimate(
        sample_table(pa.table({"time": [1, 5_000_000, 9_000_000], "type": ["A", "B", "A"], "k": [1, 2, 1]}))
    )
    assert Statistics.from_json(found.to_json()) == found
    by_hand = Statistics.from_json('{"rates": {"A": 9}, "cells": {"k, j": {"1000000": 8, "4000000": 2}}}')
    assert by_hand.cells_per_second(["j", "k"], 2_000_000) == pytest.approx(4)


def test_events_without_time_or_type_count_for_nothing() -> None:
    table = pa.table({"time": pa.array([None, 1, 2], pa.int64()), "type": ["A", None, "A"], "k": [1, 1, 1]})
    assert estimate(sample_table(table)).counts == {"A": 1}
    assert estimate(sample_table(table.slice(0, 2))).counts == {}
