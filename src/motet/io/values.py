"""Convert tables to Python values, also times that Python's own types cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Arrow's own formatting counts years in 16 bits.
MOST_YEARS_MICROS = 32_767 * 31_536_000_000_000


def to_rows(table: pa.Table | pa.RecordBatch, separator: str = "T") -> list[dict[str, Any]]:
    """Return rows as `to_pylist` does; times after the year 9999 or before the year 1 are ISO 8601 texts."""
    try:
        rows: list[dict[str, Any]] = table.to_pylist()
    except (ValueError, OverflowError):
        plain = table.cast(pa.schema([(field.name, _replace_times(field.type)) for field in table.schema]))
        types = {field.name: field.type for field in table.schema}
        rows = [
            {name: _restore_times(value, types[name], separator) for name, value in row.items()}
            for row in plain.to_pylist()
        ]
    return rows


def _replace_times(type: pa.DataType) -> pa.DataType:
    """Return a type with whole numbers for its timestamps."""
    if pa.types.is_timestamp(type):
        return pa.int64()
    if pa.types.is_list(type):
        return pa.list_(_replace_times(type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([(field.name, _replace_times(field.type)) for field in type])
    return type


def _restore_times(value: Any, type: pa.DataType, separator: str) -> Any:
    if value is None:
        return None
    if pa.types.is_timestamp(type):
        try:
            return pa.scalar(value, type).as_py()
        except (ValueError, OverflowError):
            text = str(np.datetime_as_string(np.datetime64(value, type.unit)))
            text = text.replace("T", separator).removesuffix(".000000")
            return f"{text}+00:00" if type.tz else text
    if pa.types.is_list(type):
        return [_restore_times(item, type.value_type, separator) for item in value]
    if pa.types.is_struct(type):
        return {field.name: _restore_times(value[field.name], field.type, separator) for field in type}
    return value


def format_iso_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Format times as `datetime.isoformat` does."""
    micros = pc.min_max(column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())).as_py()
    if max(abs(micros["min"] or 0), abs(micros["max"] or 0)) > MOST_YEARS_MICROS:
        rows = to_rows(pa.table({"": column}))
        text = [row[""] if isinstance(row[""], str) or row[""] is None else row[""].isoformat() for row in rows]
        return pa.chunked_array([pa.array(text, pa.string())])
    zoned = column.type.tz is not None
    text = pc.strftime(column, "%Y-%m-%dT%H:%M:%S" + ("%z" if zoned else ""))
    text = pc.replace_substring_regex(text, r"\.0+($|[+-])", r"\1")
    return pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2") if zoned else text
