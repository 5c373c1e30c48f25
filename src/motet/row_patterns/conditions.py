"""Compile conditions between several rows to code: what kind of value each part is, and how it is converted.

What speaks of one row alone is evaluated by the engine before; what is left are comparisons, arithmetic and logic
between values of several rows. Numbers are exact here as they are in SQL: whole numbers and decimals are 64-bit digits
with a scale. What would not be as in the engine is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from motet.kernels import row_conditions as rc
from motet.kernels.expressions import AT_LEAST, AT_MOST, DIFFERENT, EQUAL, LESS, MORE
from motet.row_patterns.expressions import DecimalLiteral, Node
from motet.row_patterns.program import ConditionCode
from motet.row_patterns.tokens import Dialect, SqlText

MAX_SCALE = 18
MICROSECONDS_PER_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value is; the scale is that of a decimal."""

    name: str
    scale: int = 0

    @property
    def is_float(self) -> bool:
        return self.name in ("float", "single")

    @property
    def is_exact(self) -> bool:
        return self.name in ("int", "decimal")

    @property
    def is_number(self) -> bool:
        return self.is_float or self.is_exact


INT, FLOAT, TEXT, BOOL, TIME, INTERVAL, NULL = map(
    Kind, ("int", "float", "text", "boolean", "time", "interval", "null")
)
SHOWN = {"int": "a whole number", "float": "a double", "single": "a float", "decimal": "a decimal", "other": "nested"}


def find_kind(type: pa.DataType) -> Kind:
    """Return what the values of a column are."""
    if pa.types.is_dictionary(type):
        type = type.value_type
    if pa.types.is_decimal(type):
        return Kind("decimal", type.scale) if 0 <= type.scale <= MAX_SCALE else Kind("other")
    tests: list[tuple[Callable[[pa.DataType], bool], str]] = [
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "int"),
        (pa.types.is_float64, "float"),
        (pa.types.is_floating, "single"),
        (pa.types.is_string, "text"),
        (pa.types.is_large_string, "text"),
        (pa.types.is_string_view, "text"),
        (pa.types.is_date, "date"),
        (pa.types.is_time, "time of day"),
        (pa.types.is_duration, "interval"),
        (pa.types.is_null, "null"),
    ]
    if pa.types.is_timestamp(type):
        return Kind("time" if type.tz is None else "instant")
    return Kind(next((name for test, name in tests if test(type)), "other"))


@dataclass(frozen=True, slots=True)
class ConditionPart:
    """A part of a condition: an operator with its parts, or something that is read.

    `op`: load (target and input), label (target), number, total (aggregate), constant, or an operator of `Node`.
    """

    op: str
    node: Node
    parts: tuple[ConditionPart, ...] = ()
    target: int = 0
    column: int = 0
    value: Any = None


_ARITHMETIC = {"+": (rc.ADD_INT, rc.ADD_FLOAT), "-": (rc.SUB_INT, rc.SUB_FLOAT), "*": (rc.MUL_INT, rc.MUL_FLOAT)}
_COMPARISONS = {"=": EQUAL, "<>": DIFFERENT, "<": LESS, "<=": AT_MOST, ">": MORE, ">=": AT_LEAST}
_TOTALS = {"MIN": (rc.MIN_INT, rc.MIN_FLOAT), "MAX": (rc.MAX_INT, rc.MAX_FLOAT), "SUM": (rc.SUM_INT, rc.SUM_FLOAT)}


@dataclass
class ConditionCompiler:
    """Emits the code of conditions, given the kinds of the input columns."""

    sql: SqlText
    dialect: Dialect
    kinds: list[Kind]
    encode: Callable[[int], int]  # input -> row among the whole or floating values
    total_kinds: list[Kind]
    total_functions: list[str]
    utc: bool = True
    words: list[tuple[int, int, int, int]] = field(default_factory=list)
    begin: list[int] = field(default_factory=lambda: [0])
    ints: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    texts: list[tuple[int, str]] = field(default_factory=list)
    depth: int = 0

    def compile(self, part: ConditionPart) -> int:
        """Compile a condition, and return its number."""
        kind = self.find_kind(part)
        if kind.name not in ("boolean", "null"):
            raise self.sql.error_at("a condition is true or false; this is neither", part.node.first, part.node.last)
        self.depth = 0
        self.emit(part)
        self.begin.append(len(self.words))
        return len(self.begin) - 2

    def finish(self) -> ConditionCode:
        """Return the code of all conditions."""
        return ConditionCode(
            np.array(self.words, np.int32).reshape(-1, 4),
            np.array(self.begin, np.int64),
            np.array(self.ints, np.int64),
            np.array(self.floats, np.float64),
            tuple(self.texts),
        )

    def error_at_part(self, part: ConditionPart, message: str, hint: str | None = None) -> Exception:
        return self.sql.error_at(message, part.node.first, part.node.last, hint)

    # ----- kinds

    def find_kind(self, part: ConditionPart) -> Kind:
        """Return what a part of a condition is."""
        kinds = [self.find_kind(each) for each in part.parts]
        match part.op:
            case "load":
                return self.kinds[part.column]
            case "label":
                return TEXT
            case "number":
                return INT
            case "total":
                return self.find_total_kind(part)
            case "constant":
                return self.find_constant_kind(part)
            case "interval":
                if part.value is None:
                    raise self.error_at_part(
                        part, "months and mixed intervals are not supported between rows", "write days"
                    )
                return INTERVAL
            case "and" | "or" | "not":
                for each, kind in zip(part.parts, kinds, strict=True):
                    if kind.name not in ("boolean", "null"):
                        raise self.error_at_part(each, f"{part.op.upper()} takes conditions")
                return BOOL
            case "is null":
                return BOOL
            case "in":
                self.unify(part, kinds)
                return BOOL
            case "+" | "-" | "*" | "/" | "%":
                return self.find_arithmetic_kind(part, *kinds)
            case "negative" | "positive" | "abs":
                if not kinds[0].is_number and kinds[0].name != "null":
                    raise self.error_at_part(part, f"{part.op} takes a number")
                return kinds[0]
            case "brackets":
                return kinds[0]
            case "coalesce":
                return self.unify(part, kinds)
            case "case":
                for each, kind in zip(part.parts[: len(kinds) - len(kinds) % 2 : 2], kinds[::2], strict=False):
                    if kind.name not in ("boolean", "null"):
                        raise self.error_at_part(each, "WHEN takes a condition")
                return self.unify(part, kinds[1::2] + kinds[len(kinds) - len(kinds) % 2 :])
        self.unify(part, kinds)
        return BOOL

    def find_constant_kind(self, part: ConditionPart) -> Kind:
        match part.value:
            case None:
                return NULL
            case bool():
                return BOOL
            case int() if part.value < 2**63:
                return INT
            case float():
                return FLOAT
            case DecimalLiteral(digits, scale) if digits < 2**63 and scale <= MAX_SCALE:
                return Kind("decimal", scale)
            case int() | DecimalLiteral():
                raise self.error_at_part(part, "this number does not fit into 64 bits")
        return TEXT

    def find_total_kind(self, part: ConditionPart) -> Kind:
        function, kind = self.total_functions[part.target], self.total_kinds[part.target]
        if function == "COUNT":
            return INT
        if function == "AVG" or (function == "SUM" and kind.is_float):
            return FLOAT
        return kind

    def unify(self, part: ConditionPart, kinds: list[Kind]) -> Kind:
        """Return the kind that values are brought to before they are compared."""
        known = [kind for kind in kinds if kind.name != "null"] or [NULL]
        found = known[0]
        for kind in known[1:]:
            if found.is_exact and kind.is_exact and found != kind:
                found = Kind("decimal", max(found.scale, kind.scale))
            elif {found.name, kind.name} == {"float", "single"} or (
                found.is_number and kind.is_number and "single" not in (found.name, kind.name) and found != kind
            ):
                found = FLOAT
            elif self.dialect == "duckdb" and {found.name, kind.name} == {"date", "time"}:
                found = TIME  # a date is its midnight
            elif found != kind:
                shown = " and ".join(SHOWN.get(each.name, f"a {each.name}") for each in (found, kind))
                raise self.error_at_part(
                    part, f"{shown} of different rows cannot be compared", "bring both to one type by CAST"
                )
        if found.name == "other":
            raise self.error_at_part(
                part, "nested or binary values and intervals of months of different rows cannot be compared"
            )
        return found

    def find_arithmetic_kind(self, part: ConditionPart, one: Kind, other: Kind) -> Kind:
        names = (one.name, other.name)
        times = ("time", "instant")
        if part.op == "-" and one == other and one.name in times:
            return INTERVAL
        if part.op == "-" and names == ("date", "date") and self.dialect == "duckdb":
            return INT
        if part.op in "+-" and one.name in times and other == INTERVAL:
            self.require_hours(part, one)
            return one
        if part.op == "+" and one == INTERVAL and other.name in times:
            self.require_hours(part, other)
            return other
        if part.op in "+-" and one == other == INTERVAL:
            return INTERVAL
        numbers = [kind for kind in (one, other) if kind.name != "null"]
        if not all(kind.is_number for kind in numbers) or any(kind.name == "single" for kind in numbers):
            hint = "bring them to DOUBLE by CAST" if "single" in names else None
            raise self.error_at_part(part, f"'{part.op}' between values of different rows takes numbers or times", hint)
        if part.op == "%" and any(kind != INT for kind in numbers):
            raise self.error_at_part(part, "'%' between values of different rows takes whole numbers")
        if part.op == "/":
            if self.dialect == "spark" and any(kind.name == "decimal" for kind in numbers) and FLOAT not in numbers:
                raise self.error_at_part(
                    part, "decimals of different rows are not divided", "bring them to DOUBLE by CAST"
                )
            return FLOAT
        if FLOAT in numbers:
            return FLOAT
        if part.op == "*":
            scale = sum(kind.scale for kind in numbers)
            if scale > MAX_SCALE:
                raise self.error_at_part(
                    part, "this product has too many digits behind its point", "use DOUBLE by CAST"
                )
            return Kind("decimal", scale) if scale else INT
        return self.unify(part, numbers)

    def require_hours(self, part: ConditionPart, kind: Kind) -> None:
        """Refuse days, which the engine counts by the calendar, where the time zone may have some of 23 hours."""
        if kind.name != "instant" or self.utc:
            return
        known = [each.value for each in part.parts if each.op == "interval"]
        if not known or abs(known[0]) >= MICROSECONDS_PER_DAY:
            hint = "add less than 24 hours, or set the session's time zone to UTC"
            raise self.error_at_part(part, "days differ in length in the session's time zone", hint)

    # ----- code

    def push(self, op: int, one: int = 0, other: int = 0, *, grows: int = 0) -> None:
        self.words.append((op, one, other, 0))
        self.depth += grows

    def emit(self, part: ConditionPart) -> None:
        """Emit the code of a part."""
        if self.depth >= rc.DEPTH - 2:
            raise self.error_at_part(part, "this condition is nested too deeply")
        match part.op:
            case "load":
                op = rc.LOAD_FLOAT if self.kinds[part.column].is_float else rc.LOAD_INT
                if self.kinds[part.column].name == "null":
                    self.push(rc.CONST_NULL, grows=1)
                else:
                    self.push(op, part.target, self.encode(part.column), grows=1)
            case "label":
                self.push(rc.LOAD_LABEL, part.target, grows=1)
            case "number":
                self.push(rc.LOAD_NUMBER, grows=1)
            case "total":
                self.emit_total(part)
            case "constant" | "interval":
                self.emit_constant(part.value)
            case "and" | "or" | "not":
                for each in part.parts:
                    self.emit(each)
                self.push({"and": rc.AND, "or": rc.OR, "not": rc.NOT}[part.op], grows=1 - len(part.parts))
            case "is null":
                self.emit(part.parts[0])
                self.push(rc.IS_NULL)
            case "in":
                self.emit_membership(part)
            case "+" | "-" | "*" | "/" | "%":
                self.emit_arithmetic(part)
            case "negative" | "abs":
                self.emit(part.parts[0])
                whole, floating = (rc.NEG_INT, rc.NEG_FLOAT) if part.op == "negative" else (rc.ABS_INT, rc.ABS_FLOAT)
                self.push(floating if self.find_kind(part).is_float else whole)
            case "positive" | "brackets":
                self.emit(part.parts[0])
            case "coalesce":
                kind = self.find_kind(part)
                for number, each in enumerate(part.parts):
                    self.emit_as(each, kind)
                    if number:
                        self.push(rc.COALESCE, grows=-1)
            case "case":
                self.emit_case(list(part.parts), self.find_kind(part))
            case _:
                self.emit_comparison(part.op, part, *part.parts)

    def emit_total(self, part: ConditionPart) -> None:
        function, kind = self.total_functions[part.target], self.total_kinds[part.target]
        if function == "COUNT":
            self.push(rc.LOAD_COUNT, part.target, grows=1)
        elif function == "AVG":
            self.push(rc.LOAD_FLOAT_MEAN if kind.is_float else rc.LOAD_MEAN, part.target, kind.scale, grows=1)
        else:
            self.push(rc.LOAD_FLOAT_TOTAL if kind.is_float else rc.LOAD_INT_TOTAL, part.target, grows=1)

    def emit_constant(self, value: Any) -> None:
        match value:
            case None:
                self.push(rc.CONST_NULL, grows=1)
                return
            case float():
                self.floats.append(value)
                self.push(rc.CONST_FLOAT, len(self.floats) - 1, grows=1)
                return
            case str():
                self.texts.append((len(self.ints), value))
                self.ints.append(0)
            case DecimalLiteral(digits, _):
                self.ints.append(digits)
            case _:
                self.ints.append(int(value))
        self.push(rc.CONST_INT, len(self.ints) - 1, grows=1)

    def emit_as(self, part: ConditionPart, kind: Kind) -> None:
        """Emit a part, and bring it to a kind."""
        self.emit(part)
        found = self.find_kind(part)
        if found.name == "null" or found == kind:
            return
        if kind.is_float and found.is_exact:
            self.push(rc.TO_FLOAT, found.scale)
        elif kind.is_exact and kind.scale > found.scale:
            self.push(rc.SCALE, kind.scale - found.scale)
        elif kind == TIME and found.name == "date":
            self.emit_constant(MICROSECONDS_PER_DAY)
            self.push(rc.MUL_INT, grows=-1)

    def emit_comparison(self, op: str, part: ConditionPart, one: ConditionPart, other: ConditionPart) -> None:
        kind = self.unify(part, [self.find_kind(one), self.find_kind(other)])
        self.emit_as(one, kind)
        self.emit_as(other, kind)
        self.push(rc.COMPARE_FLOAT if kind.is_float else rc.COMPARE_INT, _COMPARISONS[op], grows=-1)

    def emit_membership(self, part: ConditionPart) -> None:
        for number, option in enumerate(part.parts[1:]):
            self.emit_comparison("=", part, part.parts[0], option)
            if number:
                self.push(rc.OR, grows=-1)

    def emit_arithmetic(self, part: ConditionPart) -> None:
        kind = self.find_kind(part)
        one, other = part.parts
        if part.op == "/":
            self.emit_as(one, FLOAT)
            self.emit_as(other, FLOAT)
            self.push(rc.DIV_FLOAT, grows=-1)
            return
        # Factors keep their scales; all else is brought to one.
        for each in (one, other):
            own = self.find_kind(each)
            self.emit_as(each, kind if kind.is_number and (kind.is_float or part.op != "*") and own.is_number else own)
        if part.op == "%":
            self.push(rc.MOD_INT, grows=-1)
            return
        whole, floating = _ARITHMETIC[part.op]
        self.push(floating if kind.is_float else whole, grows=-1)

    def emit_case(self, parts: list[ConditionPart], kind: Kind) -> None:
        if not parts:
            self.push(rc.CONST_NULL, grows=1)
        elif len(parts) == 1:
            self.emit_as(parts[0], kind)
        else:
            self.emit(parts[0])
            self.emit_as(parts[1], kind)
            self.emit_case(parts[2:], kind)
            self.push(rc.CHOOSE, grows=-2)


def choose_total(function: str, kind: Kind) -> int:
    """Return the aggregate of the kernel that a function needs."""
    if function == "COUNT":
        return rc.COUNT_VALUES
    return _TOTALS["SUM" if function == "AVG" else function][kind.is_float]
