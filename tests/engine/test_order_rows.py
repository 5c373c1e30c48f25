"""Rows are ordered by several columns as Python orders them, nulls last, whichever way is taken."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from motet.engine.encode import order_rows

TYPES = {
    pa.int32(): st.integers(0, 3),
    pa.timestamp("us", "UTC"): st.sampled_from([datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 5)]),
    pa.string(): st.sampled_from(["", "a", "ä", "b"]),
}


def sort_key(row: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is None, "" if value is None else value) for value in row]


@given(data=st.data())
def test_rows_are_ordered_by_all_columns_and_nulls_are_last(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(*(st.none() | TYPES[type] for type in types)), max_size=8))
    if data.draw(st.booleans()):
        rows.sort(key=sort_key)
    columns = [pa.chunked_array([pa.array([row[at] for row in rows], type)]) for at, type in enumerate(types)]
    expected = sorted(range(len(rows)), key=lambda at: sort_key(rows[at]))
    found = order_rows(columns)
    assert (list(range(len(rows))) if found is None else found.tolist()) == expected


def test_rows_in_order_have_none() -> None:
    times = pa.chunked_array([pa.array([1, 2, 2], pa.timestamp("us"))])
    numbers = pa.chunked_array([pa.array([5, 1, 3])])
    assert order_rows([times, numbers]) is None
