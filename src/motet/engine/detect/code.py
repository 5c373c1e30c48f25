"""Compile expressions over the events of a match to bytecode for the stack machine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.values import EventColumns, Kind
from motet.engine.expressions import evaluate
from motet.kernels import expressions as op
from motet.kernels.expressions import Bytecode
from motet.kernels.instances import Tests
from motet.kernels.match_filter import CompiledConditions
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
    operands,
    walk,
)

COMPARISONS = {
    "=": op.EQUAL,
    "!=": op.DIFFERENT,
    "<": op.LESS,
    "<=": op.AT_MOST,
    ">": op.MORE,
    ">=": op.AT_LEAST,
}
WHICH = {At.EACH: op.EACH, At.NEXT: op.NEXT, At.FIRST: op.FIRST, At.LAST: op.LAST}
WHOLE_ARITHMETIC = {"+": op.ADD_INT, "-": op.SUB_INT, "*": op.MUL_INT, "%": op.MOD_INT}
REAL_ARITHMETIC = {"+": op.ADD_FLOAT, "-": op.SUB_FLOAT, "*": op.MUL_FLOAT, "%": op.MOD_FLOAT}
EPOCH = dt.datetime(1970, 1, 1)

Instruction = tuple[int, int, int, int]
Slots = Mapping[str, int]  # name -> slot
TextMap = tuple[str, str]  # function, and the pattern of LIKE


@dataclass
class ExpressionCompiler:
    """Compiler of all expressions of a branch, with columns and constants in common."""

    columns: EventColumns
    code: list[list[Instruction]] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    whole: list[int | str] = field(default_factory=list)
    real: list[float] = field(default_factory=list)
    maps: dict[TextMap, int] = field(default_factory=dict)

    def add(self, expression: Expression, slots: Slots, bound: bool = True) -> int:
        """Compile an expression and return its number. `bound`: whether each event it reads is certain to be there."""
        out: list[Instruction] = []
        kind = _Emitter(self, slots, bound, out).write(expression)
        self.code.append(out)
        self.kinds.append(kind)
        return len(self.code) - 1

    def constant(self, value: int | str) -> int:
        """Add an integer or a text as a constant; return its number."""
        self.whole.append(value)
        if isinstance(value, str):
            self.columns.literals.add(value)
        return len(self.whole) - 1

    def finish(self, words: pa.Array) -> Bytecode:
        """Return the bytecode of all expressions; texts are numbered by their place in `words`."""
        place = {word: at for at, word in enumerate(words.to_pylist())} if self.columns.literals else {}
        flat = [word for instructions in self.code for instruction in instructions for word in instruction]
        begin = np.cumsum([0, *map(len, self.code)]).astype(np.int64)
        whole = [place[value] if isinstance(value, str) else value for value in self.whole]
        maps = np.zeros((max(len(self.maps), 1), max(len(words), 1)), np.int64)
        for text_map, number in self.maps.items():
            maps[number, : len(words)] = _apply_text_map(text_map, words)
        return Bytecode(
            np.array(flat or [0], np.int32),
            begin,
            np.array(whole or [0], np.int64),
            np.array(self.real or [0.0], np.float64),
            maps,
        )

    def text_map(self, function: str, pattern: str = "") -> int:
        """Return the number of a text function; its results have to be among the words."""
        self.columns.changes_case |= function in ("LOWER", "UPPER")
        return self.maps.setdefault((function, pattern), len(self.maps))

    def test(self, expression: Expression, slots: Slots) -> list[int]:
        """Return a row of `Tests`: a comparison of two columns where it is one, else the number of its bytecode."""
        match expression:
            case Comparison(operator, left, right) if _one_event(left) and _one_event(right):
                kinds = {self.columns.of(left).kind, self.columns.of(right).kind}
                rows = (self.columns.as_real(left), self.columns.as_real(right))
                if (kinds <= {"whole", "real", "null"} or len(kinds) == 1) and None not in rows:
                    one, other = attributes(left)[0].variable, attributes(right)[0].variable
                    return [COMPARISONS[operator], slots[one], rows[0] or 0, slots[other], rows[1] or 0]
        return [-1, self.add(expression, slots), 0, 0, 0]


def _apply_text_map(text_map: TextMap, words: pa.Array) -> Any:
    """Apply a text function to each word: return the number of another word, a length, or whether it is LIKE."""
    function, pattern = text_map
    changed = evaluate(
        Like(Attribute("", ""), pattern) if function == "LIKE" else Call(function, (Attribute("", ""),)),
        lambda _: words,
    )
    if function in ("LOWER", "UPPER"):
        changed = pc.index_in(changed, value_set=words)
    return changed.cast(pa.int64()).to_numpy(zero_copy_only=False)


def build_tests(rows: Sequence[Sequence[int]], code: Bytecode) -> Tests:
    """Return tests as a table."""
    return Tests(np.array(rows, np.int32).reshape(len(rows), 5), code)


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
    return CompiledConditions(code, *_ragged(singles, size), *_ragged(pairs, size))


def _ragged(lists: Mapping[int, Sequence[int]], size: int) -> tuple[Any, Any]:
    """Flatten `size` lists, of which most are empty: return offsets and values."""
    begin = np.zeros(size + 1, np.int64)
    for number, each in lists.items():
        begin[number + 1] = len(each)
    values = [value for number in sorted(lists) for value in lists[number]]
    return np.cumsum(begin), np.array(values or [0], np.int32)


def _one_event(expression: Expression) -> bool:
    """Return whether an expression reads single events of one variable."""
    read = attributes(expression)
    if any(isinstance(node, KleeneAggregate) for node in walk(expression)):
        return False
    return len({(a.variable, a.at) for a in read}) == 1 and read[0].at is At.EACH


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
    bound: bool
    out: list[Instruction]

    def emit(self, code: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        self.out.append((code, a, b, c))

    def write(self, expression: Expression) -> Kind:
        """Emit an expression; return the kind of value it leaves on the stack."""
        read = attributes(expression)
        if read and len({(a.variable, a.at) for a in read}) == 1 and not isinstance(expression, KleeneAggregate):
            aggregates = any(isinstance(node, KleeneAggregate) for node in walk(expression))
            certain = self.bound and read[0].at in (At.EACH, At.NEXT)
            if not aggregates and (certain or _is_strict(expression)):
                return self.load(expression, read[0])
        return self.operator(expression)

    def load(self, expression: Expression, read: Attribute) -> Kind:
        column = self.compiler.columns.of(expression)
        real = column.kind in ("real", "null")
        self.emit(op.LOAD_FLOAT if real else op.LOAD_INT, self.slots[read.variable], column.row, WHICH[read.at])
        return "real" if column.kind == "null" else column.kind

    def operator(self, expression: Expression) -> Kind:
        match expression:
            case Literal(value):
                return self.literal(value)
            case KleeneAggregate(function, variable, name):
                return self.aggregate(function, variable, name)
            case Arithmetic(operator, left, right):
                return self.arithmetic(operator, left, right)
            case Negative(operand):
                return self.arithmetic("-", Literal(0), operand)
            case Comparison(operator, left, right):
                real = self.emit_common_kind([left, right])
                self.emit(op.COMPARE_FLOAT if real == "real" else op.COMPARE_INT, COMPARISONS[operator])
                return "truth"
            case Logical(operator, parts):
                self.truth(parts[0])
                for part in parts[1:]:
                    self.truth(part)
                    self.emit(op.AND if operator == "AND" else op.OR)
                return "truth"
            case Inverse(operand):
                self.truth(operand)
                self.emit(op.NOT)
                return "truth"
            case IsNull(operand, negated):
                self.write(operand)
                self.emit(op.IS_NULL)
                if negated:
                    self.emit(op.NOT)
                return "truth"
            case Membership(operand, options, negated):
                for at, option in enumerate(options):
                    self.operator(Comparison("=", operand, option))
                    if at:
                        self.emit(op.OR)
                if negated:
                    self.emit(op.NOT)
                return "truth"
            case Call(function, arguments):
                return self.call(function, arguments)
            case Like(operand, pattern, negated):
                self.write(operand)
                self.emit(op.MAP, self.compiler.text_map("LIKE", pattern))
                if negated:
                    self.emit(op.NOT)
                return "truth"
            case Attribute():
                raise TypeError("an attribute is a column")

    def truth(self, expression: Expression) -> None:
        """A truth value; NULL itself is one."""
        self.write(expression)

    def literal(self, value: Any) -> Kind:
        match value:
            case None:
                self.emit(op.CONST_NULL)
                return "null"
            case bool():
                self.emit(op.CONST_INT, self.compiler.constant(int(value)))
                return "truth"
            case int():
                self.emit(op.CONST_INT, self.compiler.constant(value))
                return "whole"
            case float():
                self.compiler.real.append(value)
                self.emit(op.CONST_NULL if value != value else op.CONST_FLOAT, len(self.compiler.real) - 1)
                return "real"
            case str():
                self.emit(op.CONST_INT, self.compiler.constant(value))
                return "text"
        moment = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        self.emit(op.CONST_INT, self.compiler.constant((moment - EPOCH) // dt.timedelta(microseconds=1)))
        return "time"

    def emit_common_kind(self, parts: Sequence[Expression]) -> Kind:
        """Emit several values in one kind: integers beside floats become floats."""
        marks = []
        for part in parts:
            kind = self.write(part)
            marks.append((kind, len(self.out)))
        if any(kind == "real" for kind, _ in marks):
            # From the last back, so that places stay right.
            for kind, at in reversed(marks):
                if kind == "whole":
                    self.out.insert(at, (op.TO_FLOAT, 0, 0, 0))
            return "real"
        return next((kind for kind, _ in marks if kind != "null"), "null")

    def arithmetic(self, operator: str, left: Expression, right: Expression) -> Kind:
        if operator == "/":
            for part in (left, right):
                if self.write(part) == "whole":
                    self.emit(op.TO_FLOAT)
            self.emit(op.DIV_FLOAT)
            return "real"
        kind = self.emit_common_kind([left, right])
        if kind == "real":
            self.emit(REAL_ARITHMETIC[operator])
            return "real"
        self.emit(WHOLE_ARITHMETIC[operator])
        return "whole"

    def call(self, function: str, arguments: Sequence[Expression]) -> Kind:
        if function == "COALESCE":
            kind = self.emit_common_kind(arguments)
            for _ in arguments[1:]:
                self.emit(op.COALESCE)
            return kind
        kind = self.write(arguments[0])
        match function:
            case "ABS":
                self.emit(op.ABS_FLOAT if kind == "real" else op.ABS_INT)
                return "real" if kind == "real" else "whole"
            case "FLOOR" | "CEIL":
                if kind == "real":
                    self.emit(op.FLOOR if function == "FLOOR" else op.CEIL)
                return "whole"
            case "SQRT":
                if kind == "whole":
                    self.emit(op.TO_FLOAT)
                self.emit(op.SQRT)
                return "real"
        self.emit(op.MAP, self.compiler.text_map(function))
        return "whole" if function == "LENGTH" else "text"

    def aggregate(self, function: str, variable: str, name: str | None) -> Kind:
        slot = self.slots[variable]
        if name is None:
            self.emit(op.COUNT, slot)
            return "whole"
        column = self.compiler.columns.of(Attribute(variable, name))
        real = column.kind in ("real", "null")
        match function:
            case "COUNT":
                self.emit(op.COUNT_FLOAT if real else op.COUNT_INT, slot, column.row)
                return "whole"
            case "SUM" | "AVG":
                self.emit(op.SUM_FLOAT if real else op.SUM_INT, slot, column.row, int(function == "AVG"))
                return "real"
        self.emit(op.LEAST_FLOAT if real else op.LEAST_INT, slot, column.row, int(function == "MAX"))
        return "real" if real else column.kind
