"""Encode columns for the kernels: partitions as codes, rows in order, values as 64-bit numbers; and decode them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.errors import DataError
from motet.kernels.order import order_by_key, sort_disordered
from motet.kernels.row_conditions import KNOWN, NULL
from motet.row_patterns.conditions import find_kind
from motet.row_patterns.program import MatchProgram, OrderKey

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Words:
    """All texts that are compared, in order: a text is its place among them."""

    words: pa.Array

    @classmethod
    def of(cls, columns: Sequence[pa.Array], texts: Sequence[str]) -> Words:
        """Collect the texts of columns, and further ones."""
        distinct = [column.unique() for column in columns]
        all_texts = pa.concat_arrays([*distinct, pa.array(texts, pa.string())]).unique().drop_null()
        return cls(all_texts.take(pc.sort_indices(all_texts)))

    def encode(self, column: pa.Array) -> pa.Array:
        """Return the place of each text."""
        encoded = column.dictionary_encode()
        return pc.index_in(encoded.dictionary, self.words).cast(pa.int64()).take(encoded.indices)

    def find(self, text: str) -> int:
        """Return the place of a text."""
        return int(pc.index(self.words, text).as_py())


def as_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, dictionaries decoded and texts as plain strings."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if find_kind(array.type).name == "text" and not pa.types.is_string(array.type):
        array = array.cast(pa.string())
    return array


def encode_whole(array: pa.Array, words: Words | None, name: str) -> tuple[Ints, NDArray[np.uint8]]:
    """Return values as whole numbers, and which of them are null."""
    try:
        return _to_whole(array, words), _find_nulls(array)
    except pa.ArrowInvalid as error:
        raise DataError(f"{name} has values that do not fit into 64 bits or microseconds: {error}") from None


def encode_floats(array: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Return values as floating numbers, and which of them are null."""
    return _fill(array.cast(pa.float64()), np.float64), _find_nulls(array)


def _find_nulls(array: pa.Array) -> NDArray[np.uint8]:
    state = np.full(len(array), KNOWN, np.uint8)
    if array.null_count:
        state[pc.is_null(array).to_numpy(zero_copy_only=False)] = NULL
    return state


def _list_casts(type: pa.DataType) -> list[pa.DataType]:
    """Return the types through which values are cast to whole numbers, and back."""
    match find_kind(type).name:
        case "time" | "instant":
            return [pa.timestamp("us", type.tz), pa.int64()]
        case "interval":
            return [pa.duration("us"), pa.int64()]
        case "time of day":
            return [pa.time64("us"), pa.int64()]
        case "date":
            return [pa.date32(), pa.int32(), pa.int64()]
    return [pa.int64()]


def _to_whole(array: pa.Array, words: Words | None) -> Ints:
    kind = find_kind(array.type).name
    if kind == "decimal":
        return _read_digits(array)
    if kind == "text":
        assert words is not None
        array = words.encode(array)
    for type in _list_casts(array.type):
        array = array.cast(type)
    whole: Ints = _fill(array, np.int64)
    return whole


def _fill(array: pa.Array, type: type[Any]) -> Any:
    filled = pc.fill_null(array, 0) if array.null_count else array
    return filled.to_numpy(zero_copy_only=False).astype(type, copy=False)


def _read_digits(array: pa.Array) -> Ints:
    """Return the digits of decimals."""
    wide = array.cast(pa.decimal128(38, array.type.scale))
    filled = pc.fill_null(wide, pa.scalar(0, wide.type)) if wide.null_count else wide
    halves = np.frombuffer(filled.buffers()[1], np.int64).reshape(-1, 2)[filled.offset : filled.offset + len(filled)]
    if (halves[:, 1] != halves[:, 0] >> 63).any():
        raise pa.ArrowInvalid("a decimal has too many digits")
    return np.ascontiguousarray(halves[:, 0])


def decode_whole(values: Ints, missing: NDArray[np.bool_], type: pa.DataType, words: Words | None) -> pa.Array:
    """Return the values that `encode_whole` encoded."""
    kind = find_kind(type).name
    if kind == "text":
        assert words is not None
        return words.words.take(pa.array(np.where(missing, 0, values), mask=missing)).cast(type)
    whole = pa.array(values, mask=missing)
    if kind == "decimal":
        halves = np.column_stack([values, values >> 63])
        digits = pa.Array.from_buffers(
            pa.decimal128(38, type.scale), len(values), [None, pa.py_buffer(np.ascontiguousarray(halves))]
        )
        return pc.if_else(pa.array(missing), pa.scalar(None, digits.type), digits).cast(type)
    for step in reversed(_list_casts(type)[:-1]):
        whole = whole.cast(step)
    return whole.cast(type)


def order_rows(program: MatchProgram, columns: Sequence[pa.Array]) -> tuple[Ints | None, Ints]:
    """Return the rows by partition and order (None: as they are), and where partitions begin.

    O(n) where each partition is in order, else O(n log n). Rows that are equal in order stay as they come.
    """
    size = len(columns[0]) if columns else 0
    codes, count = encode_partitions([columns[at] for at in program.partition], size)
    if len(program.order) <= 1:
        keys = [encode_order(columns[key.column], key) for key in program.order]
        moments = keys[0] if keys else np.zeros(size, np.int64)
        order, offsets, disordered = order_by_key(codes, moments, count)
        if disordered.any():
            sort_disordered(order, offsets, disordered, moments)
    else:
        keys = [encode_order(columns[key.column], key) for key in reversed(program.order)]
        order = np.lexsort(np.stack([*keys, codes.astype(np.int64)]))
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(codes, minlength=count), out=offsets[1:])
    is_ordered = size == 0 or (order[0] == 0 and bool((order[1:] > order[:-1]).all()))
    return None if is_ordered else order, offsets


def encode_partitions(columns: Sequence[pa.Array], size: int) -> tuple[NDArray[np.int32], int]:
    """Assign numbers to the partitions in order of their first rows; nulls are one value, and so are NaNs."""
    if not columns:
        return np.zeros(size, np.int32), 1 if size else 0
    code, count = _number_values(columns[0])
    for column in columns[1:]:
        other, values = _number_values(column)
        code, count = _number_values(pa.array(code * np.int64(max(values, 1)) + other))
    return np.require(code, np.int32, ["C", "W"]), count


def _number_values(column: pa.Array) -> tuple[Ints, int]:
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 is 0.0
    if pa.types.is_nested(column.type):
        raise DataError("PARTITION BY takes no nested values")
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def encode_order(column: pa.Array, key: OrderKey) -> Ints:
    """Return whole numbers that are ordered as a column is to be."""
    kind = find_kind(column.type)
    if kind.name == "other" or pa.types.is_nested(column.type):
        raise DataError(f"ORDER BY takes no column of type {column.type}")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())  # in its own unit: nanoseconds have an order too
        kind = find_kind(column.type)
    if kind.is_float:
        values, state = encode_floats(column)
        bits = np.where(np.isnan(values), np.inf, values + 0.0).view(np.int64)
        whole = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
        whole = whole + np.isnan(values)  # NaN comes behind infinity
    else:
        whole, state = encode_whole(column, Words.of([column], []) if kind.name == "text" else None, "ORDER BY")
    whole = ~whole if key.descending else whole
    missing = state == NULL
    if not missing.any():
        return np.require(whole, np.int64, ["C", "W"])
    # Ranks leave room for nulls on either side.
    _, ranks = np.unique(whole, return_inverse=True)
    return np.where(missing, -1 if key.nulls_first else len(ranks), ranks).astype(np.int64)
