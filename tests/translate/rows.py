"""Random rows of one user, whose times differ, for translated queries."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Row = dict[str, Any]
SCHEMA = pa.schema({"time": pa.int64(), "type": pa.string(), "x": pa.int64(), "user": pa.string()})
ROWS = st.lists(st.tuples(st.sampled_from("abcz"), st.integers(0, 3), st.integers(1, 3)), max_size=14)
FEW_ROWS = st.lists(st.tuples(st.sampled_from("abcz"), st.integers(0, 3), st.integers(1, 3)), max_size=9)


def make_rows(drawn: list[tuple[str, int, int]]) -> list[Row]:
    """Rows of one user with times that differ."""
    time, rows = 0, []
    for kind, x, later in drawn:
        time += later
        rows.append({"time": time, "type": kind, "x": x, "user": "u"})
    return rows
