"""The schema of an event table: its columns, and how times are read and returned."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.errors import DataError, require_columns

# Microseconds in one unit of a whole-number time; nanoseconds are divided instead.
TICKS = {"day": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
TIME_UNITS = ("s", "ms", "us", "ns")

# The column with the types of events as text, where none of theirs has them so.
TYPE_NAME = "#type"
# The type of every event where no column has types: a workload defines all that it names.
ONLY_TYPE = "event"

# Times are before and after this many microseconds since the epoch (some 73,000 years): with a window added, kernels
# can still tell them from their `MAX_TIME`. Others are set aside.
MAX_MICROS = 2**61
# Doubles hold every whole number up to this one.
MAX_EXACT_DOUBLE = 2**53


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column that is computed when events are read: a field of a struct, or the types of events as text.

    `path` is the column that it is computed from, and the fields that lead to it from there; nothing for the types of
    events that have none.
    """

    name: str
    path: tuple[str, ...]

    def compute(self, rows: pa.Table) -> pa.ChunkedArray:
        """Compute its values from the columns of some rows."""
        if not self.path:
            return pa.chunked_array([_repeat_type(len(rows))])
        values = rows.column(self.path[0])
        if self.name == TYPE_NAME:
            return format_types(values)
        fields: pa.ChunkedArray = pc.struct_field(values, list(self.path[1:]))
        return decimals_to_doubles(fields, self.name) if pa.types.is_decimal(fields.type) else fields


@dataclass(frozen=True)
class EventSchema:
    """The columns of an event table, and which of them are time and type.

    `derived` are those of the columns that the table need not have.
    """

    columns: pa.Schema
    time: str = "time"
    type: str = "type"
    time_unit: str = "s"
    derived: tuple[DerivedColumn, ...] = ()

    def __post_init__(self) -> None:
        for role, name in (("time", self.time), ("type", self.type)):
            require_columns(self.columns.names, (name,), what=f"{role} column")
        if self.time_unit not in TIME_UNITS:
            raise DataError(f"{self.time_unit!r} is not a unit of time: use one of {', '.join(TIME_UNITS)}")
        if not (self.has_integer_time or is_time(self.time_type)):
            raise DataError(
                f"the time column {self.time!r} is {self.time_type}: it must be a timestamp, a date or a whole number"
            )
        held = self.columns.field(self.type).type
        if not is_text(held):
            raise DataError(f"the type column {self.type!r} is {held}: it must hold texts, whole numbers or booleans")

    @cached_property
    def own_columns(self) -> pa.Schema:
        """The columns that are not derived: those of which an event consists."""
        derived = {column.name for column in self.derived}
        return pa.schema([field for field in self.columns if field.name not in derived])

    @property
    def known_names(self) -> list[str]:
        """The names that queries and options may use: of columns, and of fields of structs."""
        return [name for name in self.columns.names if name != TYPE_NAME]

    @property
    def type_source(self) -> str | None:
        """The column that the types of events are read from; None if there is none."""
        path = next((column.path for column in self.derived if column.name == self.type), (self.type,))
        return path[0] if path else None

    def list_sources(self, names: Collection[str]) -> list[str]:
        """Return the columns of a table that these are, or are computed from."""
        paths = {column.name: column.path[:1] for column in self.derived}
        return list(dict.fromkeys(source for name in names for source in paths.get(name, (name,))))

    def derive(self, rows: pa.Table, names: Collection[str]) -> pa.Table:
        """Return rows with these columns too, where they are derived and not there yet. O(rows) for each."""
        for column in self.derived:
            if column.name in names and column.name not in rows.column_names:
                rows = rows.append_column(column.name, column.compute(rows))
        return rows

    @cached_property
    def time_type(self) -> pa.DataType:
        return self.columns.field(self.time).type

    @cached_property
    def has_integer_time(self) -> bool:
        return bool(pa.types.is_integer(self.time_type))

    @property
    def tick(self) -> int | Fraction:
        """The microseconds in one unit of a whole-number time, as of a window written without a unit."""
        if not self.has_integer_time:
            return 0
        return Fraction(1, 1000) if self.time_unit == "ns" else TICKS[self.time_unit]

    @cached_property
    def result_time_type(self) -> pa.DataType:
        """The type of times in results: that of the time column, dates as timestamps."""
        if self.has_integer_time:
            return pa.int64()
        return pa.timestamp("us", tz=getattr(self.time_type, "tz", None))

    def to_microseconds(self, times: pa.Array) -> pa.Array:
        """Convert values of the time column to integer microseconds: see `to_microseconds`."""
        return to_microseconds(times, self.time_unit)

    def from_microseconds(self, micros: Any) -> pa.Array:
        """Convert a numpy array of microseconds to times as results have them."""
        if self.has_integer_time:
            return pa.array(micros * 1000 if self.time_unit == "ns" else micros // TICKS[self.time_unit])
        return pa.array(micros).view(self.result_time_type)

    def plain_type(self, name: str) -> pa.DataType:
        """Return the type of a column as results have it: see `plain_type`."""
        return plain_type(self.columns.field(name).type)

    def kinds(self) -> dict[str, str]:
        """Return the kind of each column, in the words of `motet.model.validate`."""
        kinds = {field.name: column_kind(field.type) for field in self.columns if field.name != TYPE_NAME}
        return kinds | ({self.time: "ticks"} if self.has_integer_time else {})


def make_event_schema(columns: pa.Schema, time: str = "time", type: str = "type", time_unit: str = "s") -> EventSchema:
    """Return the schema of events with these columns, fields of structs among them as `column.field`.

    Types may be texts, whole numbers or booleans, or be missing, where a workload defines all that it names.

    Raises:
        DataError: There is no time column, or time or type is of another kind.
    """
    found: dict[str, tuple[tuple[str, ...], pa.DataType]] = {}
    for path, data_type in list_fields(columns):
        name = ".".join(path)
        if name not in columns.names:
            plain = pa.float64() if pa.types.is_decimal(data_type) else data_type
            found.setdefault(name, (path, plain))
    if type not in columns.names:
        found[TYPE_NAME] = ((), pa.string())
    elif can_be_type(columns.field(type).type) and not is_text(columns.field(type).type):
        found[TYPE_NAME] = ((type,), pa.string())
    fields = [*columns, *(pa.field(name, data_type) for name, (_, data_type) in found.items())]
    derived = tuple(DerivedColumn(name, path) for name, (path, _) in found.items())
    return EventSchema(pa.schema(fields), time, TYPE_NAME if TYPE_NAME in found else type, time_unit, derived)


def list_fields(
    columns: pa.Schema | pa.StructType, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """List the fields of structs at any depth, with the path to each."""
    for field in columns:
        path = (*above, field.name)
        if above:
            yield path, field.type
        if pa.types.is_struct(field.type):
            yield from list_fields(field.type, path)


def can_be_type(data_type: pa.DataType) -> bool:
    """Return whether a column can hold the types of events: texts, whole numbers or booleans."""
    plain = plain_type(data_type)
    return is_text(plain) or pa.types.is_integer(plain) or pa.types.is_boolean(plain)


def format_types(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whole numbers or booleans as texts, in dictionaries."""
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int32()), chunk.dictionary.cast(pa.string()))
        for chunk in encoded.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string()))


def _repeat_type(size: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), size), pa.array([ONLY_TYPE]))


def build_table(columns: Mapping[str, Any], schema: pa.Schema, size: int) -> pa.Table:
    """Build a table of columns cast to a schema; columns that are missing are null."""
    missing = {field.type for field in schema if field.name not in columns}
    nulls = {data_type: pa.nulls(size, data_type) for data_type in missing}  # a workload may have hundreds of labels
    arrays = [
        as_type(columns[field.name], field.type) if field.name in columns else nulls[field.type] for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def as_type(values: Any, wanted: pa.DataType, safe: bool = True) -> Any:
    """Cast values to a type, if they are not of it: to find that out takes Arrow longer than to compare types."""
    return values if values.type.equals(wanted) else values.cast(wanted, safe=safe)


def to_microseconds(times: Any, time_unit: str) -> Any:
    """Convert timestamps, dates or integers to integer microseconds, rounded down.

    Nulls stay null, and what is not within `MAX_MICROS` becomes null.
    """
    unit = time_unit
    if not pa.types.is_integer(times.type):
        unit = "day" if pa.types.is_date32(times.type) else getattr(times.type, "unit", "ms")
        times = times.cast(pa.int32()) if unit == "day" else times.cast(pa.int64())
    whole = keep_times_in_range(times, unit).cast(pa.int64())
    if unit == "ns":
        return _divide_down(whole)
    return whole if TICKS[unit] == 1 else pc.multiply(whole, TICKS[unit])


def keep_times_in_range(numbers: Any, unit: str) -> Any:
    """Return integers that count a unit of time, those null that are not within `MAX_MICROS`."""
    most = min(MAX_MICROS * 1000 if unit == "ns" else MAX_MICROS // TICKS[unit], 2**63 - 1)
    ends = pc.min_max(numbers)
    smallest, largest = ends["min"].as_py(), ends["max"].as_py()
    if smallest is None or -most < smallest <= largest < most:
        return numbers
    if not pa.types.is_uint64(numbers.type):
        numbers = numbers.cast(pa.int64())
    inside = pc.less(numbers, pa.scalar(most, numbers.type))
    if not pa.types.is_uint64(numbers.type):
        inside = pc.and_(inside, pc.greater(numbers, pa.scalar(-most, numbers.type)))
    return pc.if_else(inside, numbers, pa.scalar(None, numbers.type))


def _divide_down(nanoseconds: Any) -> Any:
    """Convert nanoseconds to microseconds, rounding down also before the epoch."""
    quotient = pc.divide(nanoseconds, 1000)
    return pc.subtract(quotient, pc.less(nanoseconds, pc.multiply(quotient, 1000)).cast(pa.int64()))


def decimals_to_doubles(column: Any, name: str) -> Any:
    """Convert decimals to doubles, as which they are compared and computed with. O(values).

    Raises:
        DataError: A decimal is beyond what doubles tell from its neighbours.
    """
    ends = pc.min_max(column).as_py()
    worst = next((value for value in ends.values() if value is not None and abs(value) > MAX_EXACT_DOUBLE), None)
    if worst is not None:
        raise DataError(
            f"{repr(name) if name else 'a column'} has {worst}, and decimals are computed with as doubles, which do "
            "not tell all numbers beyond 2^53 apart: cast it, as in --select "
            f"'* REPLACE (CAST({name or 'x'} AS BIGINT) AS {name or 'x'})', or to DOUBLE or VARCHAR"
        )
    return column.cast(pa.float64())


def is_time(data_type: pa.DataType) -> bool:
    """Return whether a column holds timestamps or dates."""
    return bool(pa.types.is_timestamp(data_type) or pa.types.is_date(data_type))


def is_text(data_type: pa.DataType) -> bool:
    """Return whether a column holds text, plain or dictionary-encoded."""
    return bool(pa.types.is_string(plain_type(data_type)))


def is_nested(data_type: pa.DataType) -> bool:
    """Return whether a column holds lists, structs, maps or calendar intervals, which have no dictionary of values."""
    return bool(pa.types.is_nested(data_type) or pa.types.is_interval(data_type))


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return a column's type as results have it: dictionaries decoded, one type of text, decimals as doubles."""
    if pa.types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if pa.types.is_decimal(data_type) or pa.types.is_floating(data_type):
        return pa.float64()
    if pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return pa.string()
    return data_type


def make_readable(schema: pa.Schema, origin: str) -> pa.Schema:
    """Return the columns with the types as which they are read.

    Raises:
        DataError: A column holds values of several types.
    """
    for field in schema:
        if pa.types.is_union(field.type):
            raise DataError(
                f"column {field.name!r} of {origin} holds values of several types ({field.type}), which nothing can be "
                f"computed with: leave it out"
            )
    return pa.schema([pa.field(field.name, readable_type(field.type)) for field in schema])


def readable_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type as which a column is read: one in a layout that all of Arrow's functions take. Extensions are
    read as what they are stored as.
    """
    types = pa.types
    if isinstance(data_type, pa.BaseExtensionType):
        return readable_type(data_type.storage_type)
    if types.is_run_end_encoded(data_type):
        return readable_type(data_type.value_type)
    if types.is_dictionary(data_type):
        values = readable_type(data_type.value_type)
        return data_type if values == data_type.value_type else pa.dictionary(pa.int32(), values)
    if types.is_string_view(data_type):
        return pa.string()
    if types.is_binary_view(data_type):
        return pa.binary()
    if types.is_float16(data_type):
        return pa.float32()
    if types.is_decimal32(data_type) or types.is_decimal64(data_type):
        return pa.decimal128(data_type.precision, data_type.scale)
    if types.is_list(data_type) or types.is_list_view(data_type):
        return pa.list_(readable_type(data_type.value_type))
    if types.is_large_list(data_type) or types.is_large_list_view(data_type):
        return pa.large_list(readable_type(data_type.value_type))
    if types.is_fixed_size_list(data_type):
        return pa.list_(readable_type(data_type.value_type), data_type.list_size)
    if types.is_map(data_type):
        return pa.map_(readable_type(data_type.key_type), readable_type(data_type.item_type))
    if types.is_struct(data_type):
        return pa.struct([pa.field(field.name, readable_type(field.type)) for field in data_type])
    return data_type


def to_readable(column: Any, data_type: pa.DataType) -> Any:
    """Convert a column to the type as which it is read."""
    if column.type == data_type:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([to_readable(chunk, data_type) for chunk in column.chunks], data_type)
    types = pa.types
    if types.is_run_end_encoded(column.type):
        return to_readable(pc.run_end_decode(column), data_type)
    if types.is_struct(column.type) and types.is_struct(data_type):
        fields = [to_readable(pc.struct_field(column, [at]), field.type) for at, field in enumerate(data_type)]
        return pa.StructArray.from_arrays(fields, fields=list(data_type), mask=pc.is_null(column))
    if types.is_list_view(column.type) or types.is_large_list_view(column.type):
        # Arrow's own cast makes lists without their last offset.
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
        lists, kind = (pa.ListArray, pa.int32()) if types.is_list(data_type) else (pa.LargeListArray, pa.int64())
        values = to_readable(column.flatten(), data_type.value_type)
        return lists.from_arrays(offsets.cast(kind), values, data_type, mask=pc.is_null(column))
    return pc.cast(column, data_type)


def column_kind(data_type: pa.DataType) -> str:
    """Return the kind of a column: integer, number, text, boolean, time or other."""
    data_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    if pa.types.is_integer(data_type):
        return "integer"
    if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        return "number"
    if is_text(data_type):
        return "text"
    if pa.types.is_boolean(data_type):
        return "boolean"
    return "time" if is_time(data_type) else "other"
