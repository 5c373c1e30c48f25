"""The columns of live events are read as they came, whatever they hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from motet.engine.encode import TypeIndex
from motet.engine.live.live_columns import LiveColumns

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "type": (pa.string(), st.sampled_from("ABC")),
    "time": (pa.timestamp("us", "UTC"), st.integers(-(10**15), 10**15)),
    "day": (pa.date32(), st.none() | st.integers(0, 10_000)),
    "small": (pa.int8(), st.none() | st.integers(-128, 127)),
    "large": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "real": (pa.float64(), st.none() | st.floats(allow_nan=False)),
    "single": (pa.float32(), st.none() | st.floats(width=32, allow_nan=False)),
    "text": (pa.string(), st.none() | st.text(max_size=3)),
    "flag": (pa.bool_(), st.booleans()),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()])
ROWS = st.lists(st.fixed_dictionaries({name: values for name, (_, values) in KINDS.items()}), min_size=1, max_size=6)


@given(batches=st.lists(ROWS, min_size=1, max_size=5), data=st.data())
def test_values_are_those_of_the_events_that_are_left(
    batches: list[list[dict[str, object]]], data: st.DataObject
) -> None:
    types = TypeIndex()
    columns = LiveColumns(SCHEMA, SCHEMA.names, "type", types)
    assert columns.names == set(KINDS) - {"text", "flag"}  # which have no words of whole bytes
    expected = SCHEMA.empty_table()
    room = 0
    for batch in batches:
        arrays = [pa.array([row[name] for row in batch], kind) for name, (kind, _) in KINDS.items()]
        rows = pa.table(arrays, schema=SCHEMA).slice(data.draw(st.integers(0, len(batch) - 1)))
        order = np.array(data.draw(st.permutations(range(len(rows)))), np.int64)
        room += len(rows)
        columns.reserve(room)
        columns.append(rows, types.number(rows.column("type")), order, len(expected))
        expected = pa.concat_tables([expected, rows.take(pa.array(order))])
        gone = data.draw(st.integers(0, len(expected) - 1))
        columns.forget(gone, len(expected) - gone)
        expected = expected.slice(gone)
        events = np.array(data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=8)), np.int64)
        for name in columns.names:
            assert columns.read(name, events).equals(expected[name].combine_chunks().take(pa.array(events)))
