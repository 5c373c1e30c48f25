"""Encode the rows of micro-batches: what depends on the branch alone is looked up, not computed again in each."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.compile import Branch, DetectBranch
from motet.engine.context import RunContext
from motet.engine.encode import (
    EncodedEvents,
    as_contiguous,
    combine_keys,
    encode_dictionary,
    read_column,
    to_numpy,
)
from motet.engine.expressions import evaluate_condition
from motet.kernels.order import order_by_key, rank_events, sort_disordered
from motet.template.symbols import Symbol

Ints = NDArray[np.int64]

MOST_CONDITIONS = 62  # as bits of a word
MOST_CODES = 1 << 12  # whose classes are looked up in an array


class LiveEncoder:
    """Encoder of the rows of a branch, which all have a time, a type and partition values.

    Classes have the same numbers in all micro-batches, so that machines can be reused. `seen` has the number of the
    class of each type and conditions that hold, both as one code.
    """

    def __init__(self, context: RunContext, branch: Branch | DetectBranch) -> None:
        self.context, self.branch = context, branch
        self.schema = context.program.schema
        self.definitions = context.program.definitions
        self.demands = {symbol: symbol.all_conditions(self.definitions) for symbol in branch.symbols}
        found = dict.fromkeys(condition for conditions in self.demands.values() for condition in conditions)
        self.conditions = {condition: bit for bit, condition in enumerate(found)}
        self.seen: dict[int, int] = {}
        self.class_of_code = np.full(MOST_CODES, -1, np.int32)  # the same for small codes; -1: not seen
        self.classes: list[frozenset[Symbol]] = []
        self.has_symbols = np.zeros(0, np.bool_)  # by class

    @property
    def is_supported(self) -> bool:
        """Whether conditions are few enough to be bits of a word."""
        return len(self.conditions) <= MOST_CONDITIONS

    def number_types(self, table: pa.Table) -> Ints:
        """Return the number of each row's type. O(rows)."""
        return self.context.types.number(table.column(self.schema.type))

    def classify(self, table: pa.Table, types: Ints) -> NDArray[np.int32]:
        """Return the class of each row, given the numbers of their types; `classes` has the symbols of each.

        O(rows x conditions). Python runs once for each type, and for each combination of conditions that is new.
        """
        code = types
        if self.conditions:

            @cache
            def read(name: str) -> pa.Array:
                return read_column(table, name)

            code = types << len(self.conditions)
            for condition, bit in self.conditions.items():
                held = evaluate_condition(condition, lambda attribute: read(attribute.name), len(table))
                code |= held.astype(np.int64) << bit
        if not len(code) or int(code.max()) >= MOST_CODES:
            distinct, at = np.unique(code, return_inverse=True)
            return np.array([self._find_class(each) for each in distinct.tolist()], np.int32)[at.reshape(-1)]
        klass = self.class_of_code[code]
        if klass.min() < 0:
            for each in np.unique(code[klass < 0]).tolist():
                self.class_of_code[each] = self._find_class(each)
            klass = self.class_of_code[code]
        return klass

    def _find_class(self, code: int) -> int:
        """Return the class of a type and the conditions that hold."""
        if code not in self.seen:
            held = code & ((1 << len(self.conditions)) - 1)
            name = self.context.types.names[code >> len(self.conditions)]
            symbols = frozenset(
                symbol
                for symbol, demands in self.demands.items()
                if (symbol.type == name or symbol.type in self.definitions)
                and all(held >> self.conditions[condition] & 1 for condition in demands)
            )
            numbers, self.classes = self.context.number_classes(self.branch.name, [symbols])
            self.seen[code] = int(numbers[0])
            self.has_symbols = np.array([bool(found) for found in self.classes], np.bool_)
        return self.seen[code]

    def encode(self, table: pa.Table, times: Ints) -> EncodedEvents:
        """Encode rows, sorted by key and time: see `motet.engine.encode.encode`."""
        branch = self.branch
        klass = self.classify(table, self.number_types(table))
        classes = [*self.classes, frozenset()] if branch.ranked else self.classes
        columns = [encode_dictionary(table.column(name)) for name in branch.partition]
        codes = [to_numpy(column.indices) for column in columns]
        rows: Ints | None = None
        if not branch.ranked:
            kept = self.has_symbols[klass]
            if not kept.all():
                rows = np.flatnonzero(kept)
                klass, times, codes = klass[rows], times[rows], [code[rows] for code in codes]
        code, values, count = combine_keys(codes, columns, branch.partition, len(times))
        order, offsets, disordered = order_by_key(as_contiguous(code, np.int32), as_contiguous(times, np.int64), count)
        if disordered.any():
            sort_disordered(order, offsets, disordered, as_contiguous(times, np.int64))
        times = times[order]
        enter, leave = rank_events(times, offsets) if branch.ranked else (times, times)
        return EncodedEvents(
            table=table,
            rows=order if rows is None else rows[order],
            offsets=offsets,
            time=times,
            klass=klass[order],
            classes=classes,
            keys=values,
            enter=enter,
            leave=leave,
        )
