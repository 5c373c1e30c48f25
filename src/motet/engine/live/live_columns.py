"""The columns of live events in memory of their own, so that the few events of new matches are read at little cost."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.encode import TypeIndex, as_one_array

Ints = NDArray[np.int64]


class LiveColumns:
    """Columns whose values are plain words, and the types of events, by number of the event.

    `names` are the columns that can be read here. Arrow takes values from a few pieces in several times as long.
    """

    def __init__(self, schema: pa.Schema, wanted: Iterable[str], type_column: str, types: TypeIndex) -> None:
        self.types = types
        self._words = pa.array([], pa.string())  # the types that are known
        self._fields = {name: schema.field(name).type for name in wanted}
        texts = {name for name, kind in self._fields.items() if name == type_column and pa.types.is_string(kind)}
        widths = {name: _word_width(kind) for name, kind in self._fields.items()} | dict.fromkeys(texts, 64)
        self.names = frozenset(name for name, width in widths.items() if width)
        self._text = next(iter(texts), None)
        self._values = {name: np.zeros(0, f"i{width // 8}") for name, width in widths.items() if width}
        self._missing: dict[str, NDArray[np.bool_]] = {}  # of columns with nulls

    def reserve(self, size: int) -> None:
        """Let there be room for so many events."""
        for columns in (self._values, self._missing):
            for name, values in columns.items():
                columns[name] = np.zeros(size, values.dtype)
                columns[name][: len(values)] = values

    def append(self, events: pa.Table, type_numbers: Ints, order: Ints, first: int) -> None:
        """Add events, which are these rows of a table, from number `first` on. There must be room for them."""
        own = slice(first, first + len(order))
        for name, values in self._values.items():
            if name == self._text:
                values[own] = type_numbers[order]
                continue
            array = as_one_array(events.column(name))
            words = np.frombuffer(array.buffers()[1], values.dtype)[array.offset : array.offset + len(array)]
            values[own] = words[order]
            if array.null_count and name not in self._missing:
                self._missing[name] = np.zeros(len(values), np.bool_)
            if name in self._missing:
                self._missing[name][own] = array.is_null().to_numpy(zero_copy_only=False)[order]

    def forget(self, gone: int, count: int) -> None:
        """Forget the first events, after which there are so many."""
        for columns in (self._values, self._missing):
            for values in columns.values():
                values[:count] = values[gone : gone + count].copy()

    def read(self, name: str, events: Ints) -> pa.Array:
        """Return the values of some events. O(events)."""
        words = pa.array(
            self._values[name][events], mask=self._missing[name][events] if name in self._missing else None
        )
        if name != self._text:
            return words.view(self._fields[name])
        if len(self._words) < len(self.types.names):
            self._words = pa.array(self.types.names, pa.string())
        return self._words.take(words)


def _word_width(kind: pa.DataType) -> int:
    """Return how many bits a value has, 0 where it is no word of whole bytes."""
    is_plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)
    return kind.bit_width if is_plain and kind.bit_width <= 64 else 0
