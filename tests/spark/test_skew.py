"""Hot keys are found, cut by time, and laid out evenly."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from motet.spark import skew
from motet.spark.skew import HeavyKey, KeySlice, TaskLayout, hash_keys, plan_layout

TIMES = st.integers(-(10**6), 10**6)


@given(st.lists(TIMES, min_size=1, max_size=30).map(sorted), st.integers(1, 8), st.integers(0, 10**5))
def test_slices_follow_each_other_and_are_long_beside_their_overlap(times: list[int], parts: int, overlap: int) -> None:
    slices = skew._slice_key(HeavyKey(0, 100, np.array(times)), 100 / parts, overlap)
    bounds = [piece.bounds for piece in slices]
    assert len(slices) <= parts + 1
    assert bounds[0][0] is None
    assert bounds[-1][1] is None
    for (start, end), (next_start, _) in pairwise(bounds):
        assert end == next_start
        assert end is not None
        assert end - (times[0] if start is None else start) >= 2 * overlap


@pytest.mark.parametrize(("last", "overlap", "slices"), [(100, 60, 1), (1000, 100, 5), (10**6, 100, 10), (1000, 0, 10)])
def test_a_key_is_cut_less_where_slices_would_be_short(last: int, overlap: int, slices: int) -> None:
    times = [last * step // 40 for step in range(41)]
    assert len(skew._slice_key(HeavyKey(0, 1000, np.array(times)), 100, overlap)) == slices


@given(st.lists(st.integers(1, 100), min_size=1, max_size=20), st.integers(2, 6))
def test_no_task_has_more_than_a_slice_above_another(sizes: list[int], tasks: int) -> None:
    slices = [KeySlice(place, (None, None), rows) for place, rows in enumerate(sizes)]
    loads = dict.fromkeys(range(tasks), 0.0)
    for piece in skew._assign_slices(slices, 10.0, tasks):
        loads[piece.task] += piece.rows
    assert max(loads.values()) - min(loads.values()) <= max(sizes)


Events = tuple[NDArray[np.uint64], NDArray[np.int64]]


def events_with_a_hot_key(rows: int = 4000) -> tuple[pa.Table, Events]:
    """Keys and times of events, seven in ten of one key."""
    dice = random.Random(3)
    keys = ["hot" if dice.random() < 0.7 else f"k{dice.randrange(40)}" for _ in range(rows)]
    times = np.array([dice.randrange(100_000) for _ in range(rows)])
    table = pa.table({"k": keys, "t": times})
    return table, (hash_keys(table, ("k",)), times)


def loads(layout: TaskLayout, places: NDArray[np.int32]) -> Counter[int]:
    return Counter(layout.task(place) for place in places.tolist())


def test_a_hot_key_is_spread_over_the_tasks_and_others_stay_whole() -> None:
    table, events = events_with_a_hot_key()
    overlap, tasks = 1000, 6
    layout = plan_layout(*events, 1.0, overlap, 200, tasks)
    assert len(layout.bounds) == 5
    rows, places = layout.assign_places(*events)
    found = loads(layout, places)
    assert set(found) == set(range(tasks))
    assert max(found.values()) < 1.5 * len(rows) / tasks
    keys, times = table["k"].to_numpy(), table["t"].to_numpy()
    cold = {(keys[row], place) for row, place in zip(rows, places, strict=True) if keys[row] != "hot"}
    assert len(cold) == len({key for key, _ in cold})
    assert all(place < tasks for _, place in cold)
    hot = np.sort(times[keys == "hot"])
    for place, (start, end) in layout.bounds.items():
        lower = -1 if start is None else start - overlap
        wanted = [time for time in hot if lower <= time and (end is None or time < end)]
        assert sorted(times[rows[places == place]]) == wanted


def test_rows_without_a_partition_are_one_hot_key() -> None:
    table, (_, times) = events_with_a_hot_key()
    hashes = hash_keys(table, ())
    layout = plan_layout(hashes, times, 1.0, 500, 200, 4)
    assert len(layout.bounds) == 4
    assert set(loads(layout, layout.assign_places(hashes, times)[1])) == set(range(4))


def test_a_sample_shows_a_hot_key_and_where_its_rows_are() -> None:
    number = np.arange(200_000)
    hashes = hash_keys(pa.table({"k": np.where(number % 10 < 8, -1, number % 997)}), ("k",))
    times = number * number
    chosen = np.random.default_rng(1).random(len(number)) < 0.02
    layout = plan_layout(hashes[chosen], times[chosen], 0.02, 1000, 200, 5)
    assert len(layout.bounds) in (4, 5)
    assert max(loads(layout, layout.assign_places(hashes, times)[1]).values()) < 1.4 * 200_000 / 5


def test_even_keys_are_left_to_hashing() -> None:
    number = np.arange(4000)
    hashes = hash_keys(pa.table({"k": number % 100}), ("k",))
    assert plan_layout(hashes, number, 1.0, 1, 200, 5) == TaskLayout(5)
    assert plan_layout(hashes, number, 1.0, 1, 200, 2) == TaskLayout(2)


def test_few_rows_take_few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skew, "ROWS_PER_TASK", 1000)
    for rows, tasks in ((0, 1), (900, 1), (3500, 3), (20_000, 5)):
        number = np.arange(rows)
        hashes = hash_keys(pa.table({"k": number % 100}), ("k",))
        assert plan_layout(hashes, number, 1.0, 1, 5, None) == TaskLayout(tasks)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, 3]),
        pa.array([1.5, -0.0, 3.0]),
        pa.array(["a", "ü", ""]),
        pa.array(["a", "b", "c"]).dictionary_encode(),
        pa.array([b"a", b"b", b"c"]),
        pa.array([date(2020, 1, 1), date(2021, 1, 1), date(2022, 1, 1)]),
        pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
        pa.array([1, 2, 3], pa.int8()),
    ],
    ids=lambda values: str(values.type),
)
def test_a_hash_depends_on_the_values_of_a_key_alone(values: pa.Array) -> None:
    apart = pa.table({"k": values, "j": [0, 0, 0]})
    again = pa.concat_tables([apart.slice(2), apart.slice(1), apart])
    for keys in (("k",), ("k", "j")):
        first, second, third = hash_keys(apart, keys).tolist()
        assert hash_keys(again, keys).tolist() == [third, second, third, first, second, third]
        assert len({first, second, third}) == 3


def test_both_zeros_are_one_key() -> None:
    zero, negative, one = hash_keys(pa.table({"k": [0.0, -0.0, 1.0]}), ("k",)).tolist()
    assert zero == negative != one


def test_a_key_of_two_columns_is_not_that_of_them_exchanged() -> None:
    one, other = hash_keys(pa.table({"k": [1, 2], "j": [2, 1]}), ("k", "j")).tolist()
    assert one != other
