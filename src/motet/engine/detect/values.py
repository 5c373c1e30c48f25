"""Compute the event columns that expressions read: an expression over one event is computed for all events at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.encode import EncodedEvents
from motet.engine.expressions import evaluate
from motet.kernels.expressions import Values
from motet.model.expression import Expression
from motet.template.symbols import strip_variables

Kind = Literal["whole", "real", "text", "truth", "time", "null"]

# Whole numbers up to this are the same as doubles.
EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `Values`: its kind, and its row among the integers or the floats."""

    kind: Kind
    row: int


@dataclass
class EventColumns:
    """Event columns of all expressions; texts become numbers when all are known."""

    encoded: EncodedEvents
    found: dict[Expression, Column] = field(default_factory=dict)
    copies: dict[Expression, int | None] = field(default_factory=dict)
    arrays: dict[Expression, pa.Array] = field(default_factory=dict)
    whole: list[pa.Array] = field(default_factory=list)
    real: list[pa.Array | int] = field(default_factory=list)  # a column, or the row of a whole one to be copied
    literals: set[str] = field(default_factory=set)
    changes_case: bool = False  # whether texts are made from others, so that those too must be among the words

    def of(self, expression: Expression) -> Column:
        """Return the column of an expression over one event."""
        bare = strip_variables(expression)
        if bare not in self.found:
            array = evaluate(bare, lambda attribute: self.encoded.column(attribute.name), len(self.encoded.time))
            self.arrays[bare] = array
            self.found[bare] = self._add(array)
        return self.found[bare]

    def _add(self, array: pa.Array) -> Column:
        kind = kind_of(array.type)
        if kind in ("real", "null"):
            self.real.append(array.cast(pa.float64()))
            return Column(kind, len(self.real) - 1)
        self.whole.append(array)
        return Column(kind, len(self.whole) - 1)

    def as_real(self, expression: Expression) -> int | None:
        """Return the row of an expression's column among the floats; None where that would not be exact."""
        column = self.of(expression)
        if column.kind in ("real", "null"):
            return column.row
        bare = strip_variables(expression)
        if bare not in self.copies:
            array = self.arrays[bare]
            self.copies[bare] = None
            if column.kind != "whole" or _is_small(array):
                self.real.append(column.row)
                self.copies[bare] = len(self.real) - 1
        return self.copies[bare]

    def finish(self) -> tuple[Values, pa.Array]:
        """Return the values, and the distinct texts in order that numbers stand for."""
        texts = [array for array in self.whole if pa.types.is_string(array.type)]
        words = _words(texts, self.literals, self.changes_case)
        size = len(self.encoded.time)
        whole = np.zeros((max(len(self.whole), 1), size), np.int64)
        known = np.zeros((max(len(self.whole), 1), size), np.bool_)
        for row, array in enumerate(self.whole):
            whole[row], known[row] = _whole_numbers(array, words), array.is_valid().to_numpy(zero_copy_only=False)
        real = np.full((max(len(self.real), 1), size), np.nan, np.float64)
        for row, source in enumerate(self.real):
            if isinstance(source, int):
                real[row] = np.where(known[source], whole[source].astype(np.float64), np.nan)
            else:
                real[row] = source.to_numpy(zero_copy_only=False)
        return Values(whole, known, real), words


def kind_of(data_type: pa.DataType) -> Kind:
    """Return the kind of a value that `motet.engine.expressions` computes."""
    if pa.types.is_null(data_type):
        return "null"
    if pa.types.is_boolean(data_type):
        return "truth"
    if pa.types.is_integer(data_type):
        return "whole"
    if pa.types.is_string(data_type):
        return "text"
    return "time" if pa.types.is_timestamp(data_type) else "real"


def _is_small(array: pa.Array) -> bool:
    extremes = pc.min_max(array).as_py()
    return extremes["min"] is None or (extremes["min"] >= -EXACT and extremes["max"] <= EXACT)


def _words(texts: list[pa.Array], literals: set[str], changes_case: bool) -> pa.Array:
    """Return all texts in order, with what LOWER and UPPER make of them where `changes_case`."""
    distinct = [pc.unique(array).drop_null() for array in texts]
    words = pc.unique(pa.concat_arrays([*distinct, pa.array(sorted(literals), pa.string())]))
    while changes_case:
        more = pc.unique(pa.concat_arrays([words, pc.utf8_lower(words), pc.utf8_upper(words)]))
        if len(more) == len(words):
            break
        words = more
    return words.take(pc.sort_indices(words))


def _whole_numbers(array: pa.Array, words: pa.Array) -> Any:
    if pa.types.is_string(array.type):
        array = pc.index_in(array, value_set=words).cast(pa.int64())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    else:
        array = array.cast(pa.int64())
    return pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
