"""Compute what expressions read: columns over all events, the texts in them as numbers, and the bytecode itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.engine.detect.code import Column, ComparedValue, ExpressionCompiler, Kind, TextMap
from motet.engine.encode import EncodedEvents, Ints, read_column
from motet.engine.expressions import evaluate
from motet.kernels.expressions import Bytecode, Values
from motet.kernels.instances import ADD, DIVIDE, MULTIPLY, SUBTRACT_FROM
from motet.model.expression import Arithmetic, Attribute, Call, Expression, Like, Literal, Negative
from motet.template.symbols import Symbol, strip_variables

# Integers up to this are the same as floats.
MAX_EXACT_FLOAT = 2**53


Key = tuple[Expression, frozenset[Symbol]]  # an expression over one event, and the symbols of the events that need it
Exactness = tuple[Key, str, int]  # a column of integers, and the operation with a constant that floats must do exactly


@dataclass
class PlannedColumns:
    """Columns that expressions over one event need: attributes for all events, others for those of the symbols that
    ask.

    `types` are empty columns of the events. What must be `exact` is known when there are values; what turned out not to
    be is `inexact`.
    """

    types: pa.Table
    inexact: frozenset[Exactness] = frozenset()
    ints: dict[Key, int] = field(default_factory=dict)  # row of each
    floats: dict[Key, int] = field(default_factory=dict)
    constants: list[float] = field(default_factory=list)
    exact: dict[Exactness, None] = field(default_factory=dict)
    _kinds: dict[Expression, Kind] = field(default_factory=dict)

    def column(self, expression: Expression, symbols: frozenset[Symbol]) -> Column:
        """Return the column of an expression over one event, computed for the events of some symbols, or for any."""
        key, kind = self._plan(expression, symbols)
        rows = self.floats if kind in ("float", "null") else self.ints
        return Column(kind, rows.setdefault(key, len(rows)))

    def operand(self, expression: Expression, symbols: frozenset[Symbol]) -> ComparedValue | None:
        """Return an expression as a side of a comparison of floats; None where that would not be exact.

        A constant that is added to an attribute and the like makes no column of its own.
        """
        split = _split_constant(expression)
        if split is not None:
            attribute, operator, constant, is_left = split
            key, kind = self._plan(attribute, symbols)
            if kind in ("int", "float", "null"):
                whole = kind == "int" and isinstance(constant, int) and operator != "/"
                asked = (key, operator, int(constant)) if whole else (key, "", 0)
                if kind == "int" and not self._demand(asked):
                    return None
                row = self.floats.setdefault(key, len(self.floats))
                return ComparedValue("int" if whole else "float", row, *self._change(operator, constant, is_left))
        key, kind = self._plan(expression, symbols)
        if kind == "int" and not self._demand((key, "", 0)):
            return None
        return ComparedValue(kind, self.floats.setdefault(key, len(self.floats)))

    def _plan(self, expression: Expression, symbols: frozenset[Symbol]) -> tuple[Key, Kind]:
        bare = strip_variables(expression)
        if bare not in self._kinds:
            found = evaluate(bare, lambda attribute: read_column(self.types, attribute.name), 0)
            self._kinds[bare] = kind_of(found.type)
        return (bare, frozenset() if isinstance(bare, Attribute) else symbols), self._kinds[bare]

    def _demand(self, asked: Exactness) -> bool:
        """Ask for a column that is exact as floats; return False where it is not."""
        if asked in self.inexact:
            return False
        self.exact[asked] = None
        return True

    def _change(self, operator: str, constant: float, is_left: bool) -> tuple[int, int]:
        """Return what an operation with a constant does to a value, and the number of the constant."""
        if operator == "-" and not is_left:
            constant = -constant
        self.constants.append(float(constant))
        change = {"+": ADD, "*": MULTIPLY, "/": DIVIDE, "-": SUBTRACT_FROM if is_left else ADD}[operator]
        return change, len(self.constants) - 1


class EventColumns:
    """The values of planned columns over the events of a batch."""

    def __init__(self, planned: PlannedColumns, encoded: EncodedEvents) -> None:
        self.planned, self.encoded = planned, encoded
        self._events: dict[Key, Ints | None] = {}
        self._arrays: dict[Key, pa.Array] = {}
        for key in {**planned.ints, **planned.floats}:
            self._events[key] = self._select_events(key[1])
            self._arrays[key] = self._compute(key)

    def _select_events(self, symbols: frozenset[Symbol]) -> Ints | None:
        """Return the events of some symbols, or None for all."""
        if not symbols:
            return None
        wanted = np.array([not symbols.isdisjoint(found) for found in self.encoded.classes], np.bool_)
        return np.flatnonzero(wanted[self.encoded.klass])

    def _compute(self, key: Key) -> pa.Array:
        events = self._events[key]
        size = len(self.encoded.time) if events is None else len(events)

        def read(attribute: Attribute) -> pa.Array:
            column = self.encoded.column(attribute.name)
            return column if events is None else column.take(pa.array(events))

        return evaluate(key[0], read, size)

    def find_inexact(self) -> frozenset[Exactness]:
        """Return what was to be exact and is not: integers beyond what floats tell apart."""
        found = {key: pc.min_max(self._arrays[key]).as_py() for key in {key for key, _, _ in self.planned.exact}}
        ends = {key: (each["min"] or 0, each["max"] or 0) for key, each in found.items()}
        return frozenset(asked for asked in self.planned.exact if not is_exact(*ends[asked[0]], *asked[1:]))

    def finish(self, words: pa.Array) -> Values:
        """Return the values of all columns, texts as their numbers among the words."""
        planned, size = self.planned, len(self.encoded.time)
        ints = np.empty((max(len(planned.ints), 1), size), np.int64)
        known = np.empty(ints.shape, np.bool_)
        for key, row in planned.ints.items():
            array, events = self._arrays[key], self._events[key]
            _put(ints[row], events, _as_ints(array, words))
            _put(known[row], events, array.is_valid().to_numpy(zero_copy_only=False))
        floats = np.empty((max(len(planned.floats), 1), size), np.float64)
        for key, row in planned.floats.items():
            _put(floats[row], self._events[key], _as_floats(self._arrays[key], words))
        return Values(ints, known, floats, np.array(planned.constants or [0.0]))

    def list_texts(self) -> list[pa.Array]:
        """Return the columns that hold texts."""
        return [array for array in self._arrays.values() if pa.types.is_string(array.type)]


def _split_constant(expression: Expression) -> tuple[Attribute, str, int | float, bool] | None:
    """Return an attribute, an operator and a constant, and whether that is on the left; None for all else."""
    match expression:
        case Negative(Attribute() as attribute):
            return attribute, "*", -1, False
        case Arithmetic("+" | "-" | "*" | "/" as operator, Attribute() as attribute, Literal(int() | float() as value)):
            usable = value == value and not isinstance(value, bool) and (operator != "/" or value != 0)
            return (attribute, operator, value, False) if usable else None
        case Arithmetic("+" | "-" | "*" as operator, Literal(int() | float() as value), Attribute() as attribute):
            usable = value == value and not isinstance(value, bool)
            return (attribute, operator, value, True) if usable else None
    return None


def is_exact(least: int, most: int, operator: str, constant: int) -> bool:
    """Return whether floats tell integers up to some apart, also after an operation with a constant."""
    ends = [least, most]
    if operator:
        ends += [constant, *(end * constant if operator == "*" else abs(end) + abs(constant) for end in ends)]
    return all(-MAX_EXACT_FLOAT <= end <= MAX_EXACT_FLOAT for end in ends)


def _put(row: NDArray[Any], events: Ints | None, values: Any) -> None:
    """Write values into a row at the places of their events; what other events have there is never read."""
    if events is None:
        row[:] = values
    else:
        row[events] = values


@dataclass(frozen=True)
class CompiledExpressions:
    """All expressions of a batch, with what they read. Texts are numbers: their places among the words."""

    code: Bytecode
    kinds: list[Kind]
    values: Values
    words: pa.Array

    def slice_events(self, begin: int, end: int) -> CompiledExpressions:
        """Return the same for some of the events."""
        values = self.values
        ints, known = np.ascontiguousarray(values.ints[:, begin:end]), np.ascontiguousarray(values.known[:, begin:end])
        floats = np.ascontiguousarray(values.floats[:, begin:end])
        return replace(self, values=Values(ints, known, floats, values.constants))


def finish_expressions(compiler: ExpressionCompiler, columns: EventColumns) -> CompiledExpressions:
    """Return compiled expressions ready to run over a batch."""
    literals = {value for value in compiler.ints if isinstance(value, str)}
    changes_case = any(function in ("LOWER", "UPPER") for function, _ in compiler.maps)
    words = _list_words(columns.list_texts(), literals, changes_case)
    number = {word: at for at, word in enumerate(words.to_pylist())} if literals else {}
    ints = [number[value] if isinstance(value, str) else value for value in compiler.ints]
    maps = np.zeros((max(len(compiler.maps), 1), max(len(words), 1)), np.int64)
    for text_map, row in compiler.maps.items():
        maps[row, : len(words)] = _apply_text_map(text_map, words)
    code = Bytecode(
        *compiler.instructions,
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


def _as_floats(array: pa.Array, words: pa.Array) -> Any:
    """Return values as floats, null as NaN."""
    if not (pa.types.is_floating(array.type) or pa.types.is_null(array.type)):
        ints = _as_ints(array, words).astype(np.float64)
        if array.null_count:
            ints[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
        return ints
    return array.cast(pa.float64()).to_numpy(zero_copy_only=False)
