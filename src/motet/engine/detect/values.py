"""Compute what expressions read: columns over all events, the texts in them as numbers, and the bytecode itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.code import Column, ExpressionCompiler, Kind, TextMap
from motet.engine.encode import EncodedEvents
from motet.engine.expressions import evaluate
from motet.kernels.expressions import Bytecode, Values
from motet.kernels.ragged import offsets_of
from motet.model.expression import Attribute, Call, Expression, Like
from motet.template.symbols import strip_variables

# Integers up to this are the same as floats.
MAX_EXACT_FLOAT = 2**53


@dataclass
class EventColumns:
    """Columns of expressions over one event, each computed once for all events."""

    encoded: EncodedEvents
    found: dict[Expression, tuple[Column, pa.Array]] = field(default_factory=dict)
    float_copies: dict[Expression, int | None] = field(default_factory=dict)
    ints: list[pa.Array] = field(default_factory=list)
    floats: list[pa.Array | int] = field(default_factory=list)  # a column, or the row of integers to be copied

    def column(self, expression: Expression) -> Column:
        """Return the column of an expression over one event."""
        return self._compute(strip_variables(expression))[0]

    def _compute(self, bare: Expression) -> tuple[Column, pa.Array]:
        if bare not in self.found:
            array = evaluate(bare, lambda attribute: self.encoded.column(attribute.name), len(self.encoded.time))
            kind = kind_of(array.type)
            if kind in ("float", "null"):
                self.floats.append(array.cast(pa.float64()))
                self.found[bare] = Column(kind, len(self.floats) - 1), array
            else:
                self.ints.append(array)
                self.found[bare] = Column(kind, len(self.ints) - 1), array
        return self.found[bare]

    def float_row(self, expression: Expression) -> int | None:
        """Return the row of an expression's column among the floats; None where that would not be exact."""
        bare = strip_variables(expression)
        column, array = self._compute(bare)
        if column.is_float:
            return column.row
        if bare not in self.float_copies:
            self.float_copies[bare] = None
            if column.kind != "int" or _is_exact_as_float(array):
                self.floats.append(column.row)
                self.float_copies[bare] = len(self.floats) - 1
        return self.float_copies[bare]

    def finish(self, words: pa.Array) -> Values:
        """Return the values of all columns, texts as their numbers among the words."""
        size = len(self.encoded.time)
        ints = np.zeros((max(len(self.ints), 1), size), np.int64)
        known = np.zeros((max(len(self.ints), 1), size), np.bool_)
        for row, array in enumerate(self.ints):
            ints[row], known[row] = _as_ints(array, words), array.is_valid().to_numpy(zero_copy_only=False)
        floats = np.full((max(len(self.floats), 1), size), np.nan, np.float64)
        for row, source in enumerate(self.floats):
            if isinstance(source, int):
                floats[row] = np.where(known[source], ints[source].astype(np.float64), np.nan)
            else:
                floats[row] = source.to_numpy(zero_copy_only=False)
        return Values(ints, known, floats)


@dataclass(frozen=True)
class CompiledExpressions:
    """All expressions of a batch, with what they read. Texts are numbers: their places among the words."""

    code: Bytecode
    kinds: list[Kind]
    values: Values
    words: pa.Array


def finish_expressions(compiler: ExpressionCompiler, columns: EventColumns) -> CompiledExpressions:
    """Return compiled expressions ready to run, once all of them are known."""
    texts = [array for array in columns.ints if pa.types.is_string(array.type)]
    literals = {value for value in compiler.ints if isinstance(value, str)}
    words = _list_words(texts, literals, any(function in ("LOWER", "UPPER") for function, _ in compiler.maps))
    number = {word: at for at, word in enumerate(words.to_pylist())} if literals else {}
    ints = [number[value] if isinstance(value, str) else value for value in compiler.ints]
    maps = np.zeros((max(len(compiler.maps), 1), max(len(words), 1)), np.int64)
    for text_map, row in compiler.maps.items():
        maps[row, : len(words)] = _apply_text_map(text_map, words)
    instructions = [word for code in compiler.code for instruction in code for word in instruction]
    code = Bytecode(
        np.array(instructions or [0], np.int32),
        offsets_of(compiler.code),
        np.array(ints or [0], np.int64),
        np.array(compiler.floats or [0.0], np.float64),
        maps,
    )
    return CompiledExpressions(code, compiler.kinds, columns.finish(words), words)


def _apply_text_map(text_map: TextMap, words: pa.Array) -> Any:
    """Apply a text function to each word: return the number of another word, a length, or whether it is LIKE."""
    function, pattern = text_map
    word = Attribute("", "")
    changed = evaluate(Like(word, pattern) if function == "LIKE" else Call(function, (word,)), lambda _: words)
    if function in ("LOWER", "UPPER"):
        changed = pc.index_in(changed, value_set=words)
    return changed.cast(pa.int64()).to_numpy(zero_copy_only=False)


def kind_of(data_type: pa.DataType) -> Kind:
    """Return the kind of a value that `motet.engine.expressions` computes."""
    if pa.types.is_null(data_type):
        return "null"
    if pa.types.is_boolean(data_type):
        return "bool"
    if pa.types.is_integer(data_type):
        return "int"
    if pa.types.is_string(data_type):
        return "text"
    return "time" if pa.types.is_timestamp(data_type) else "float"


def _is_exact_as_float(array: pa.Array) -> bool:
    extremes = pc.min_max(array).as_py()
    return extremes["min"] is None or (extremes["min"] >= -MAX_EXACT_FLOAT and extremes["max"] <= MAX_EXACT_FLOAT)


def _list_words(texts: Iterable[pa.Array], literals: set[str], changes_case: bool) -> pa.Array:
    """Return all texts in order, with what LOWER and UPPER make of them where `changes_case`."""
    distinct = [pc.unique(array).drop_null() for array in texts]
    words = pc.unique(pa.concat_arrays([*distinct, pa.array(sorted(literals), pa.string())]))
    while changes_case:
        more = pc.unique(pa.concat_arrays([words, pc.utf8_lower(words), pc.utf8_upper(words)]))
        if len(more) == len(words):
            break
        words = more
    return words.take(pc.sort_indices(words))


def _as_ints(array: pa.Array, words: pa.Array) -> Any:
    """Return values as integers, null as 0."""
    if pa.types.is_string(array.type):
        array = pc.index_in(array, value_set=words)
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us"), safe=False)
    return pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
