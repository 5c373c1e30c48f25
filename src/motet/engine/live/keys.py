"""Number the keys that have state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.engine.encode import encode_keys

Ints = NDArray[np.int64]


class KeyIndex:
    """Numbers for keys in order of appearance, with the partition values of each."""

    def __init__(self, schema: pa.Schema) -> None:
        self.values = schema.empty_table()
        self.added = self.values  # by the last call of `number_keys`
        self.count = 0

    @property
    def partition(self) -> Sequence[str]:
        names: Sequence[str] = self.values.column_names
        return names

    def number_keys(self, values: Mapping[str, pa.Array], count: int) -> Ints:
        """Return the numbers of distinct keys, numbering new ones. O(keys known and given)."""
        if not self.partition:
            self.count = max(self.count, min(count, 1))
            return np.zeros(count, np.int64)
        schema = self.values.schema
        fresh = pa.table([values[name].cast(schema.field(name).type) for name in schema.names], schema=schema)
        codes, _, size = encode_keys(pa.concat_tables([self.values, fresh]), self.partition)
        number = np.full(size, -1, np.int64)
        number[codes[: self.count]] = np.arange(self.count)
        own = codes[self.count :]
        unknown = np.flatnonzero(number[own] < 0)
        number[own[unknown]] = self.count + np.arange(len(unknown))
        self.added = fresh.take(pa.array(unknown))
        if len(unknown):
            self.values = pa.concat_tables([self.values, self.added]).combine_chunks()
            self.count += len(unknown)
        return number[own]

    def restore(self, values: pa.Table) -> None:
        """Continue with the keys of a saved state."""
        schema = self.values.schema
        self.values = values.cast(schema) if self.partition else self.values
        self.count = len(values) if self.partition else 1

    def take(self, numbers: Ints) -> dict[str, pa.Array]:
        """Return the partition values of keys, by attribute."""
        rows = pa.array(numbers)
        return {name: self.values[name].combine_chunks().take(rows) for name in self.partition}

    def keep(self, wanted: NDArray[np.bool_]) -> Ints:
        """Forget all other keys; return the new number of each old one."""
        numbers = np.cumsum(wanted) - 1
        self.values = self.values.filter(pa.array(wanted)).combine_chunks() if self.partition else self.values
        self.count = int(wanted.sum())
        return numbers
