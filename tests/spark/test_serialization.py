"""Values that workers keep between tasks."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.spark import serialization
from motet.spark.serialization import CachedPickle, narrow_columns, table_from_ipc, table_to_ipc, tables_to_ipc


def test_a_worker_unpickles_a_value_once() -> None:
    sent = CachedPickle({"queries": [1, 2]})
    first, second = (pickle.loads(pickle.dumps(sent)) for _ in range(2))
    assert first.value == sent.value
    assert first.value is not sent.value
    assert second is first, "with all that was made of it"


def test_equal_values_of_two_runs_are_two() -> None:
    one, other = (pickle.loads(pickle.dumps(CachedPickle([1]))) for _ in range(2))
    assert one.value == other.value
    assert one.value is not other.value


def test_a_worker_keeps_the_last_few_values_alone() -> None:
    sent = [CachedPickle([number]) for number in range(serialization.MAX_CACHED + 1)]
    received = [pickle.loads(pickle.dumps(each)) for each in sent]
    assert len(serialization._cache) == serialization.MAX_CACHED
    assert pickle.loads(pickle.dumps(sent[-1])) is received[-1]
    again = pickle.loads(pickle.dumps(sent[0]))
    assert again is not received[0]
    assert again.value == [0]


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
TIMES = [pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Rome")]
OTHERS = [pa.uint64(), pa.float64(), pa.string(), pa.date32(), pa.bool_()]


@pytest.mark.parametrize("type", [*INTEGERS, *TIMES, *OTHERS], ids=str)
@given(data=st.data())
def test_a_narrowed_column_comes_back_as_it_was(type: pa.DataType, data: st.DataObject) -> None:
    bits = 8 if pa.types.is_boolean(type) or pa.types.is_string(type) else type.bit_width
    low, high = (0, (1 << 64) - 1) if type == pa.uint64() else (-(1 << bits - 1), (1 << bits - 1) - 1)
    first = data.draw(st.integers(low, high))
    near = st.integers(max(low, first - 70_000), min(high, first + 70_000))
    numbers = data.draw(st.lists(st.none() | near | st.integers(low, high) | st.just(first), max_size=8))
    wide = {pa.float64(): float, pa.string(): str, pa.bool_(): bool}.get(type, lambda number: number)
    values = pa.array([None if number is None else wide(number) for number in numbers], _plain_type(type)).cast(type)
    table = pa.table({"a": values, "b": values}).replace_schema_metadata({"of": "another"})
    restored = table_from_ipc(table_to_ipc(narrow_columns(table)))
    assert restored.equals(table, check_metadata=True)


def _plain_type(type: pa.DataType) -> pa.DataType:
    """The type of numbers that are cast to times."""
    return pa.int64() if pa.types.is_timestamp(type) else pa.int32() if pa.types.is_date(type) else type


def test_narrowed_rows_take_few_bytes() -> None:
    rows = 50_000
    times = pa.array(np.arange(rows) * 600 + 1_700_000_000_000_000).cast(pa.timestamp("us"))
    table = pa.table({"time": times, "key": np.arange(rows) % 10_000 - 77, "type": pa.array([3] * rows, pa.int8())})
    narrowed = narrow_columns(table)
    assert [field.type.bit_width for field in narrowed.schema] == [32, 16, 8]
    assert len(table_to_ipc(narrowed)) < 0.45 * len(table_to_ipc(table))
    assert table_from_ipc(table_to_ipc(narrowed.slice(70, 30))).equals(table.slice(70, 30))


def test_tables_are_serialized_together_as_each_alone() -> None:
    tables = [pa.table({"at": range(size), "name": [f"n{size}"] * size}) for size in (3, 0, 1_000)]
    assert tables_to_ipc(tables).to_pylist() == [table_to_ipc(table) for table in tables]
    assert tables_to_ipc([]).to_pylist() == []
