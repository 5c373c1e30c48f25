"""Compile expressions over the events of a match to bytecode for the stack machine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol
from typing import Literal as Choice

import numpy as np
from numpy.typing import NDArray

from motet.errors import DataError
from motet.kernels import expressions as op
from motet.kernels.expressions import Bytecode
from motet.kernels.instances import PLAIN, TEST_WIDTH, Tests
from motet.kernels.match_filter import CompiledConditions
from motet.kernels.ragged import Ints, offsets_from_counts, offsets_of
from motet.model.expression import (
    Arithmetic,
    At,
    Attribute,
    Call,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    KleeneAggregate,
    Like,
    Literal,
    Logical,
    Membership,
    Negative,
    attributes,
    has_aggregate,
    operands,
)
from motet.template.symbols import Symbol

COMPARISONS = {
    "=": op.EQUAL,
    "!=": op.DIFFERENT,
    "<": op.LESS,
    "<=": op.AT_MOST,
    ">": op.MORE,
    ">=": op.AT_LEAST,
}
WHICH = {At.EACH: op.EACH, At.NEXT: op.NEXT, At.FIRST: op.FIRST, At.LAST: op.LAST}
INT_ARITHMETIC = {"+": op.ADD_INT, "-": op.SUB_INT, "*": op.MUL_INT, "%": op.MOD_INT}
FLOAT_ARITHMETIC = {"+": op.ADD_FLOAT, "-": op.SUB_FLOAT, "*": op.MUL_FLOAT, "%": op.MOD_FLOAT}
EPOCH = dt.datetime(1970, 1, 1)

Kind = Choice["int", "float", "text", "bool", "time", "null"]
Instruction = tuple[int, int, int, int]
Slots = Mapping[str, int]  # name -> slot
SlotSymbols = Mapping[str, frozenset[Symbol]]  # name -> what its events are; any where it is missing
TextMap = tuple[str, str]  # function, and the pattern of LIKE
TestRows = Sequence[Sequence[int]]  # rows of `Tests`
ANY_SYMBOL: frozenset[Symbol] = frozenset()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `Values`: its kind, and its row among the integers or the floats."""

    kind: Kind
    row: int

    @property
    def is_float(self) -> bool:
        """Whether its row is one of the floats."""
        return self.kind in ("float", "null")


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """A side of a comparison: a row of floats, and what is done to its value with a constant (see `Tests`)."""

    kind: Kind
    row: int
    change: int = PLAIN
    constant: int = 0


class ColumnSource(Protocol):
    """Where an expression over one event is found, computed for the events of some symbols, or for any."""

    def column(self, expression: Expression, symbols: frozenset[Symbol]) -> Column:
        """Return the column of an expression over one event."""

    def operand(self, expression: Expression, symbols: frozenset[Symbol]) -> ComparedValue | None:
        """Return an expression as a side of a comparison of floats; None where that would not be exact."""


@dataclass
class ExpressionCompiler:
    """Compiler of all expressions of a branch, with columns and constants in common."""

    columns: ColumnSource
    code: list[list[Instruction]] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    ints: list[int | str] = field(default_factory=list)  # texts become numbers when all are known
    floats: list[float] = field(default_factory=list)
    maps: dict[TextMap, int] = field(default_factory=dict)

    def compile(self, expression: Expression, slots: Slots, symbols: SlotSymbols, bound: bool = True) -> int:
        """Compile an expression; return its number. `bound`: whether each event it reads is certain to be there."""
        emitter = _Emitter(self, slots, symbols, bound)
        self.kinds.append(emitter.write(expression))
        self.code.append(emitter.out)
        return len(self.code) - 1

    def compile_test(self, expression: Expression, slots: Slots, symbols: SlotSymbols) -> list[int]:
        """Return a row of `Tests`: a comparison of two columns where it is one, else the number of its bytecode."""
        match expression:
            case Comparison(operator, left, right) if _reads_one_event(left) and _reads_one_event(right):
                one, other = attributes(left)[0].variable, attributes(right)[0].variable
                x = self.columns.operand(left, symbols.get(one, ANY_SYMBOL))
                y = self.columns.operand(right, symbols.get(other, ANY_SYMBOL))
                if x is not None and y is not None:
                    kinds = {x.kind, y.kind}
                    if kinds <= {"int", "float", "null"} or len(kinds) == 1:
                        sides = (slots[one], x.row, slots[other], y.row)
                        return [COMPARISONS[operator], *sides, x.change, x.constant, y.change, y.constant]
        return [-1, self.compile(expression, slots, symbols), 0, 0, 0, 0, 0, 0, 0]

    @cached_property
    def instructions(self) -> tuple[NDArray[np.int32], Ints]:
        """All instructions, and where those of each expression begin, once all are compiled."""
        words = [word for code in self.code for instruction in code for word in instruction]
        return np.array(words or [0], np.int32), offsets_of(self.code)

    def constant(self, value: int | str) -> int:
        """Add an integer or a text as a constant; return its number.

        Raises:
            DataError: It is an integer that does not fit in 64 bits.
        """
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise DataError(f"the whole number {value} does not fit in 64 bits")
        self.ints.append(value)
        return len(self.ints) - 1

    def text_map(self, function: str, pattern: str = "") -> int:
        """Return the number of a text function."""
        return self.maps.setdefault((function, pattern), len(self.maps))


def build_tests(rows: TestRows, code: Bytecode) -> Tests:
    """Return tests as a table."""
    return Tests(np.array(rows, np.int32).reshape(len(rows), TEST_WIDTH), code)


def build_conditions(numbered: Mapping[int, Expression], slots: Slots, code: Bytecode) -> CompiledConditions:
    """Return compiled expressions, by number, as conditions: which events each must hold for."""
    singles: dict[int, list[int]] = {}
    pairs: dict[int, list[int]] = {}
    for number, expression in numbered.items():
        read = attributes(expression)
        paired = {a.variable for a in read if a.at is At.NEXT}
        single = {a.variable for a in read if a.at is At.EACH} - paired
        singles[number] = sorted({slots[name] for name in single})
        pairs[number] = sorted({slots[name] for name in paired})
    size = len(code.begin) - 1
    return CompiledConditions(code, *_flatten_few(singles, size), *_flatten_few(pairs, size))


def _flatten_few(lists: Mapping[int, Sequence[int]], size: int) -> tuple[Ints, NDArray[np.int32]]:
    """Return `size` lists, of which all but a few are empty, as the offsets and values of a ragged array."""
    counts = np.zeros(size, np.int64)
    for number, each in lists.items():
        counts[number] = len(each)
    return offsets_from_counts(counts), np.array([v for number in sorted(lists) for v in lists[number]], np.int32)


def _reads_one_event(expression: Expression) -> bool:
    """Return whether an expression reads single events of one variable."""
    read = {(a.variable, a.at) for a in attributes(expression)}
    return not has_aggregate(expression) and len(read) == 1 and next(iter(read))[1] is At.EACH


def _is_strict(expression: Expression) -> bool:
    """Return whether an expression is null as soon as anything in it is."""
    match expression:
        case Logical() | IsNull() | Call("COALESCE"):
            return False
    return all(map(_is_strict, operands(expression)))


@dataclass
class _Emitter:
    """Emitter of the instructions of one expression."""

    compiler: ExpressionCompiler
    slots: Slots
    symbols: SlotSymbols
    bound: bool
    out: list[Instruction] = field(default_factory=list)

    def emit(self, code: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        self.out.append((code, a, b, c))

    def write(self, expression: Expression) -> Kind:
        """Emit an expression; return the kind of value it leaves on the stack."""
        read = attributes(expression)
        if len({(a.variable, a.at) for a in read}) == 1 and not has_aggregate(expression):
            certain = self.bound and read[0].at in (At.EACH, At.NEXT)
            if certain or _is_strict(expression):
                return self.load(expression, read[0])
        match expression:
            case Literal(value):
                return self.literal(value)
            case KleeneAggregate():
                return self.aggregate(expression)
            case Arithmetic(operator, left, right):
                return self.arithmetic(operator, left, right)
            case Negative(operand):
                return self.arithmetic("-", Literal(0), operand)
            case Call(function, arguments):
                return self.call(function, arguments)
        return self.condition(expression)

    def load(self, expression: Expression, read: Attribute) -> Kind:
        """Emit the column of an expression over one event."""
        column = self.compiler.columns.column(expression, self.symbols.get(read.variable, ANY_SYMBOL))
        load = op.LOAD_FLOAT if column.is_float else op.LOAD_INT
        self.emit(load, self.slots[read.variable], column.row, WHICH[read.at])
        return "float" if column.is_float else column.kind

    def literal(self, value: Any) -> Kind:
        match value:
            case None:
                self.emit(op.CONST_NULL)
                return "null"
            case float():
                self.compiler.floats.append(value)
                self.emit(op.CONST_NULL if value != value else op.CONST_FLOAT, len(self.compiler.floats) - 1)
                return "float"
            case bool():
                kind: Kind = "bool"
            case int():
                kind = "int"
            case str():
                kind = "text"
            case _:
                kind = "time"
                moment = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
                value = (moment - EPOCH) // dt.timedelta(microseconds=1)
        self.emit(op.CONST_INT, self.compiler.constant(value if kind == "text" else int(value)))
        return kind

    def condition(self, expression: Expression) -> Kind:
        negated = False
        match expression:
            case Comparison(operator, left, right):
                kind = self.write_alike([left, right])
                self.emit(op.COMPARE_FLOAT if kind == "float" else op.COMPARE_INT, COMPARISONS[operator])
            case Logical(operator, parts):
                for at, part in enumerate(parts):
                    self.write(part)
                    if at:
                        self.emit(op.AND if operator == "AND" else op.OR)
            case Inverse(operand):
                self.write(operand)
                negated = True
            case IsNull(operand, negated):
                self.write(operand)
                self.emit(op.IS_NULL)
            case Membership(operand, options, negated):
                for at, option in enumerate(options):
                    self.condition(Comparison("=", operand, option))
                    if at:
                        self.emit(op.OR)
            case Like(operand, pattern, negated):
                self.write(operand)
                self.emit(op.MAP, self.compiler.text_map("LIKE", pattern))
            case _:
                raise TypeError("an attribute is a column")
        if negated:
            self.emit(op.NOT)
        return "bool"

    def write_alike(self, parts: Sequence[Expression]) -> Kind:
        """Emit several values in one kind: integers beside floats become floats."""
        marks = []
        for part in parts:
            kind = self.write(part)
            marks.append((kind, len(self.out)))
        if any(kind == "float" for kind, _ in marks):
            # From the last back, so that places stay right.
            for kind, at in reversed(marks):
                if kind == "int":
                    self.out.insert(at, (op.TO_FLOAT, 0, 0, 0))
            return "float"
        return next((kind for kind, _ in marks if kind != "null"), "null")

    def write_float(self, expression: Expression) -> None:
        """Emit a number as a float."""
        if self.write(expression) == "int":
            self.emit(op.TO_FLOAT)

    def arithmetic(self, operator: str, left: Expression, right: Expression) -> Kind:
        if operator == "/":
            self.write_float(left)
            self.write_float(right)
            self.emit(op.DIV_FLOAT)
            return "float"
        if self.write_alike([left, right]) == "float":
            self.emit(FLOAT_ARITHMETIC[operator])
            return "float"
        self.emit(INT_ARITHMETIC[operator])
        return "int"

    def call(self, function: str, arguments: Sequence[Expression]) -> Kind:
        match function:
            case "COALESCE":
                kind = self.write_alike(arguments)
                for _ in arguments[1:]:
                    self.emit(op.COALESCE)
                return kind
            case "SQRT":
                self.write_float(arguments[0])
                self.emit(op.SQRT)
                return "float"
        kind = self.write(arguments[0])
        match function:
            case "ABS":
                self.emit(op.ABS_FLOAT if kind == "float" else op.ABS_INT)
                return "float" if kind == "float" else "int"
            case "FLOOR" | "CEIL":
                if kind == "float":
                    self.emit(op.FLOOR if function == "FLOOR" else op.CEIL)
                return "int"
            case "MICROSECONDS" | "DURATION":
                return "int"
            case "TIMESTAMP":
                return "time"
        self.emit(op.MAP, self.compiler.text_map(function))
        return "int" if function == "LENGTH" else "text"

    def aggregate(self, aggregate: KleeneAggregate) -> Kind:
        slot = self.slots[aggregate.variable]
        if aggregate.name is None:
            self.emit(op.COUNT, slot)
            return "int"
        column = self.compiler.columns.column(Attribute(aggregate.variable, aggregate.name), ANY_SYMBOL)
        match aggregate.function:
            case "COUNT":
                self.emit(op.COUNT_FLOAT if column.is_float else op.COUNT_INT, slot, column.row)
                return "int"
            case "SUM" | "AVG" as function:
                self.emit(op.SUM_FLOAT if column.is_float else op.SUM_INT, slot, column.row, int(function == "AVG"))
                return "float"
        extreme = int(aggregate.function == "MAX")
        self.emit(op.LEAST_FLOAT if column.is_float else op.LEAST_INT, slot, column.row, extreme)
        return "float" if column.is_float else column.kind
