"""The schema of an event table: its columns, and how times are read and returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.errors import DataError, did_you_mean

# Microseconds in one unit of a whole-number time; nanoseconds are divided instead.
TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}


@dataclass(frozen=True)
class EventSchema:
    """The columns of an event table, and which of them are time and type."""

    columns: pa.Schema
    time: str = "time"
    type: str = "type"
    time_unit: str = "s"

    def __post_init__(self) -> None:
        for role, name in (("time", self.time), ("type", self.type)):
            if name not in self.columns.names:
                hint = did_you_mean(name, self.columns.names)
                raise DataError(f"the events have no {role} column {name!r}" + (f"; {hint}" if hint else ""))
        if self.time_unit not in TICKS:
            raise DataError(f"{self.time_unit!r} is not a unit of time: use one of {', '.join(TICKS)}")
        if not (self.has_integer_time or pa.types.is_timestamp(self.time_type) or pa.types.is_date(self.time_type)):
            raise DataError(
                f"the time column {self.time!r} is {self.time_type}: it must be a timestamp, a date or a whole number"
            )
        if not is_text(self.columns.field(self.type).type):
            raise DataError(f"the type column {self.type!r} is {self.columns.field(self.type).type}: it must be text")

    @property
    def time_type(self) -> pa.DataType:
        return self.columns.field(self.time).type

    @property
    def has_integer_time(self) -> bool:
        return bool(pa.types.is_integer(self.time_type))

    @property
    def tick(self) -> int:
        """The microseconds in one unit of a window written without a unit."""
        return TICKS[self.time_unit] if self.has_integer_time else 0

    @property
    def result_time_type(self) -> pa.DataType:
        """The type of times in results: that of the time column, dates as timestamps."""
        if self.has_integer_time:
            return pa.int64()
        return pa.timestamp("us", tz=getattr(self.time_type, "tz", None))

    def restore_times(self, times: NDArray[np.int64]) -> pa.Array:
        """Return times in microseconds in the type and unit of the time column."""
        if self.has_integer_time:
            return pa.array(times * 1000 if self.time_unit == "ns" else times // TICKS[self.time_unit])
        return pa.array(times).cast(self.result_time_type)

    def kinds(self) -> dict[str, str]:
        """Return the kind of each column, in the words of `motet.model.validate`."""
        return {field.name: column_kind(field.type) for field in self.columns}


def build_table(columns: Mapping[str, Any], schema: pa.Schema, size: int) -> pa.Table:
    """Build a table of columns cast to a schema; columns that are missing are null."""
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(size, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def is_text(data_type: pa.DataType) -> bool:
    """Return whether a column holds text, plain or dictionary-encoded."""
    if pa.types.is_dictionary(data_type):
        return is_text(data_type.value_type)
    return bool(
        pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)
    )


def column_kind(data_type: pa.DataType) -> str:
    """Return the kind of a column: integer, number, text, boolean, time or other."""
    if pa.types.is_integer(data_type):
        return "integer"
    if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        return "number"
    if is_text(data_type):
        return "text"
    if pa.types.is_boolean(data_type):
        return "boolean"
    if pa.types.is_timestamp(data_type) or pa.types.is_date(data_type):
        return "time"
    return "other"
