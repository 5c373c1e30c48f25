"""Find the columns that seem to hold times and types of events, for messages where those named are missing."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from motet.io.times import holds_times
from motet.schema import can_be_type, format_types, is_text, is_time

# How many values a text has for each one of a column of another kind that is as likely to hold types.
NUMBERS_PER_TEXT = 4
FLAGS_PER_TEXT = 16


def find_likely_time(rows: pa.Table) -> str | None:
    """Return the column that is likeliest to hold times by its first rows: timestamps, then texts and numbers that are
    times of our days, then whole numbers; of equal ones the first. None if there are no columns.
    """

    def rank(name: str) -> int:
        column = rows.column(name)
        if is_time(column.type):
            return 0
        if holds_times(combine_column(column)):
            return 1
        return 2 if pa.types.is_integer(column.type) else 3

    return min(rows.column_names, key=rank, default=None)


def find_likely_type(rows: pa.Table, time: str, types: Collection[str] = ()) -> str | None:
    """Return the column that is likeliest to hold the types of events by its first rows; None if none can.

    That is the one with most of the types that queries name, then the one with the fewest different values (but more
    than one), texts before whole numbers before booleans.

    Args:
        rows: The first rows of the events.
        time: The column with their times.
        types: The types that queries name, where there are queries.
    """

    def rank(name: str) -> tuple[int, int]:
        column = rows.column(name)
        found = pc.unique(format_types(column.drop_null()).cast(pa.string())).to_pylist()
        size = len(found) if len(found) > 1 else len(rows) + 1
        if not is_text(column.type):
            size *= FLAGS_PER_TEXT if pa.types.is_boolean(column.type) else NUMBERS_PER_TEXT
        return -len(set(types).intersection(found)), size

    able = [name for name in rows.column_names if name != time and can_be_type(rows.column(name).type)]
    return min(able, key=rank, default=None)


def combine_column(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, whatever its type."""
    combined = column.combine_chunks()
    return combined.combine_chunks() if isinstance(combined, pa.ChunkedArray) else combined
