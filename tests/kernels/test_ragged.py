"""Ragged arrays against lists of lists."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from motet.kernels.ragged import (
    concat_offsets,
    expand_ranges,
    flatten_lists,
    merge_rows,
    offsets_from_counts,
    row_numbers,
    take_rows,
)

LISTS = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6)


def rows(offsets: np.ndarray, values: np.ndarray) -> list[list[int]]:
    return [values[a:b].tolist() for a, b in pairwise(offsets)]


@given(LISTS)
def test_lists_are_rows(lists: list[list[int]]) -> None:
    offsets, values = flatten_lists(lists)
    assert rows(offsets, values) == lists
    assert row_numbers(offsets).tolist() == [number for number, each in enumerate(lists) for _ in each]


@given(LISTS, st.data())
def test_rows_are_taken_in_any_order(lists: list[list[int]], data: st.DataObject) -> None:
    offsets, values = flatten_lists(lists)
    chosen = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8)) if lists else []
    taken, places = take_rows(offsets, np.array(chosen, np.int64))
    assert rows(taken, values[places]) == [lists[at] for at in chosen]


@given(LISTS, LISTS)
def test_arrays_are_appended_as_a_whole_and_row_by_row(ones: list[list[int]], others: list[list[int]]) -> None:
    (one, left), (other, right) = flatten_lists(ones), flatten_lists(others)
    assert rows(concat_offsets([one, other]), np.concatenate([left, right])) == ones + others
    size = min(len(ones), len(others))
    one, other = one[: size + 1], other[: size + 1]
    offsets, to_left, to_right = merge_rows(one, other)
    values = np.full(offsets[-1], -1)
    values[to_left], values[to_right] = left[: one[-1]], right[: other[-1]]
    assert rows(offsets, values) == [a + b for a, b in zip(ones, others, strict=False)]


def test_nothing_is_ragged_too() -> None:
    assert offsets_from_counts([]).tolist() == [0]
    assert concat_offsets([]).tolist() == [0]
    assert expand_ranges(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
