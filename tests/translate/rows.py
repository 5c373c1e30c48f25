"""Random rows of one user, whose times differ, and translations that may be refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from motet.dialects import translate
from motet.errors import QueryError
from motet.model.query import Workload

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


def translate_unless_refused(text: str, source: str, reason: str, name: str = "translated") -> Workload | None:
    """The queries of a text, or None if it is refused for this reason."""
    try:
        return translate(text, source, name=name).workload
    except QueryError as refused:
        if reason not in str(refused):
            raise
        return None


def try_examples(count: int) -> settings:
    """Settings for this many examples, and for more in proportion where the profile looks harder than the default."""
    return settings(max_examples=max(count, count * settings.default.max_examples // 100))
