"""Translate columns of Spark Connect, whose client has them unresolved: as calls of functions, or as texts of SQL.

Types of the columns of files are known. What is computed has the type that Spark would give it, or is not translated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from motet.errors import QueryError
from motet.row_patterns.expressions import ExpressionParser, Names, Node
from motet.row_patterns.tokens import SqlText
from motet.spark.columns import ARROW_TYPES, CannotTranslate, Expression, make_remainder, make_text_test

FUNCTIONS = {
    "==": "equal",
    "=": "equal",
    ">": "greater",
    ">=": "greater_equal",
    "<": "less",
    "<=": "less_equal",
    "and": "and",
    "or": "or",
    "not": "not",
    "isNull": "is_null",
    "isNotNull": "is_not_null",
    "+": "add",
    "-": "subtract",
    "*": "multiply",
}
TEXT_TESTS = {"startswith": "starts_with", "endswith": "ends_with", "contains": "contains"}  # in lower case
LOGICAL = ("and", "or", "not")
# Literals of a message, and what Spark calls their types.
LITERALS = {
    "boolean": "boolean",
    "integer": "int",
    "long": "bigint",
    "double": "double",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
# A number with a point in a text of SQL. Beside a double it is one, and beside nothing else is it translated.
DECIMAL = pa.decimal128(38, 18)
_DECIMAL = re.compile(r"\d+\.\d*|\.\d+")
_DOUBLE = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[dD]|(?:\d+(?:\.\d*)?|\.\d+)[eE][+-]?\d+")


@dataclass(frozen=True)
class Scope:
    """The columns that a relation has, each as an expression over the columns of files, and the types of those; and the
    scopes of relations before it, by the numbers that a client gives them.
    """

    columns: Mapping[str, Expression]
    types: Mapping[str, pa.DataType]
    earlier: Mapping[int, Scope] = field(default_factory=dict)

    def find_column(self, name: str, relation: int | None = None) -> Expression:
        """Return what a name means here; where a relation is named, it must have meant the same there.

        Raises:
            CannotTranslate: There is no such column, or it has changed since.
        """
        found = self.columns.get(name)
        if found is None:
            raise CannotTranslate(name)
        if relation is not None:
            before = self.earlier.get(relation)
            if before is None or before.columns.get(name) != found:
                raise CannotTranslate(name)
        return found

    def match_name(self, name: str) -> str | None:
        """Return the column that Spark takes a name for; None if there is none.

        Raises:
            CannotTranslate: A column has this name but for upper and lower case.
        """
        if name in self.columns:
            return name
        if name.lower() in map(str.lower, self.columns):
            raise CannotTranslate(name)
        return None


def translate_connect(expression: Any, scope: Scope) -> Expression:
    """Translate an expression of Spark Connect.

    Raises:
        CannotTranslate: Pyarrow may not compute it as Spark does.
    """
    match expression.WhichOneof("expr_type"):
        case "unresolved_attribute" if not expression.unresolved_attribute.is_metadata_column:
            attribute = expression.unresolved_attribute
            relation = attribute.plan_id if attribute.HasField("plan_id") else None
            return scope.find_column(read_name(attribute.unparsed_identifier), relation)
        case "alias":
            return translate_connect(expression.alias.expr, scope)
        case "literal":
            return _translate_literal(expression.literal)
        case "expression_string":
            return translate_text(expression.expression_string.expression, scope)
        case "unresolved_function" if not expression.unresolved_function.is_distinct:
            called = expression.unresolved_function
            operands = [translate_connect(part, scope) for part in called.arguments]
            return _apply(called.function_name, operands, scope.types)
    raise CannotTranslate(str(expression)[:100])


def translate_text(text: str, scope: Scope) -> Expression:
    """Translate an expression that is written in Spark's SQL.

    Raises:
        CannotTranslate: It is more than comparisons, arithmetic of doubles, and a few functions.
    """
    by_lower_case = {name.lower(): name for name in scope.columns}
    if len(by_lower_case) < len(scope.columns):
        raise CannotTranslate("names that differ in case alone")
    try:
        sql = SqlText(text, "a column", "spark")
        # To Spark, what is in double quotes is a text.
        if any(token.kind == "quoted" and token.text.startswith('"') for token in sql.tokens):
            raise CannotTranslate(text)
        if len(sql.tokens) == 1 and (name := by_lower_case.get((sql.tokens[0].identifier or "").lower())):
            return scope.find_column(name)
        names = Names(by_lower_case, frozenset())
        node = ExpressionParser(sql, names, 0, len(sql.tokens), "a column").parse()
    except (QueryError, IndexError) as problem:
        raise CannotTranslate(text) from problem
    found = _translate_node(node, sql, scope)
    if _find_type(found, scope.types) == DECIMAL:
        raise CannotTranslate(text)
    return found


def split_alias(text: str) -> tuple[str, str]:
    """Return a text of SQL without its alias, and the name of the column that it makes.

    Raises:
        CannotTranslate: It has no name that is sure.
    """
    try:
        tokens = SqlText(text, "a column", "spark").tokens
    except QueryError as problem:
        raise CannotTranslate(text) from problem
    name = tokens[-1].identifier if tokens and not tokens[-1].text.startswith('"') else None
    if name is not None and len(tokens) == 1:
        return text, name
    if name is not None and len(tokens) > 2 and tokens[-2].word == "AS":
        return text[: tokens[-2].start], name
    raise CannotTranslate(text)


def read_name(identifier: str) -> str:
    """Return the name of a column that is quoted or not.

    Raises:
        CannotTranslate: It may be a field of a column.
    """
    if identifier.startswith("`") and identifier.endswith("`") and "`" not in identifier[1:-1].replace("``", ""):
        return identifier[1:-1].replace("``", "`")
    if "." in identifier or "`" in identifier or "*" in identifier:
        raise CannotTranslate(identifier)
    return identifier


def _translate_node(node: Node, sql: SqlText, scope: Scope) -> Expression:
    def translate(part: Node) -> Expression:
        return _translate_node(part, sql, scope)

    match node.kind:
        case "literal":
            return _read_literal(node, sql)
        case "column":
            return scope.find_column(node.value.name)
        case "brackets":
            return translate(node.parts[0])
        case "negative" if isinstance((found := translate(node.parts[0]))[1], int | float):
            return _negate(found)
        case "negative":
            return _apply("negative", [*map(translate, node.parts)], scope.types)
        case "is null":
            return "is_null", translate(node.parts[0])
        case "<>":
            return "not", _apply("=", [*map(translate, node.parts)], scope.types)
        case "case" if node.value == ("WHEN", "THEN") * (len(node.parts) // 2) + ("ELSE",) * (len(node.parts) % 2):
            return _apply("when", [*map(translate, node.parts)], scope.types)
        case "call" if node.value in ("COALESCE", "CONCAT", "IF", "ISNAN"):
            name = {"IF": "when"}.get(node.value, node.value.lower())
            if name == "when" and len(node.parts) != 3:
                raise CannotTranslate(node.value)
            return _apply(name, [*map(translate, node.parts)], scope.types)
        case "in" | "=" | "<" | "<=" | ">" | ">=" | "and" | "or" | "not" | "+" | "-" | "*" | "%":
            return _apply(node.kind, [*map(translate, node.parts)], scope.types)
    raise CannotTranslate(node.kind)


def _read_literal(node: Node, sql: SqlText) -> Expression:
    token = sql.tokens[node.first]
    text = token.text
    if isinstance(node.value, bool):
        return "literal", node.value, pa.bool_()
    if token.kind == "text" and isinstance(node.value, str) and "''" not in text[1:-1]:
        return "literal", node.value, pa.string()
    if token.kind != "number":
        raise CannotTranslate(text)
    digits = text.removesuffix("L")
    if digits.isdigit() and int(digits) < 2**63:
        return "literal", int(digits), pa.int32() if digits == text and int(digits) < 2**31 else pa.int64()
    if _DECIMAL.fullmatch(text):
        return "literal", float(text), DECIMAL
    if _DOUBLE.fullmatch(text):
        return "literal", float(text.rstrip("dD")), pa.float64()
    raise CannotTranslate(text)


def _negate(expression: Expression) -> Expression:
    if expression[0] != "literal" or isinstance(expression[1], bool):
        raise CannotTranslate("-")
    return "literal", -expression[1], expression[2]


def _translate_literal(literal: Any) -> Expression:
    kind = literal.WhichOneof("literal_type")
    if kind not in LITERALS:
        raise CannotTranslate(str(kind))
    value = getattr(literal, kind)
    if isinstance(value, float) and math.isnan(value):
        raise CannotTranslate("NaN")  # Spark may pass over row groups that have some
    return "literal", value, ARROW_TYPES[LITERALS[kind]]


def _apply(name: str, operands: Sequence[Expression], types: Mapping[str, pa.DataType]) -> Expression:
    """Return what a function makes of its operands, where that is sure.

    Raises:
        CannotTranslate: It is not.
    """
    if name == "in":
        return _check_members(operands, types)
    if name == "when" and len(operands) >= 2:
        conditions, values = [*operands[:-1:2]], [*operands[1::2]]
        otherwise = [operands[-1]] if len(operands) % 2 else []
        type = _require_one_type([*values, *otherwise], types)
        _require_one_type(conditions, types, pa.bool_())
        return "case", *operands, *([] if otherwise else [("literal", None, type)])
    if name in ("coalesce", "concat") and operands:
        _require_one_type(operands, types, pa.string() if name == "concat" else None)
        return name, *operands
    if name == "!=":
        return "not", _apply("==", operands, types)
    if name == "%":
        left, right = _unify_types(name, operands, types)
        return make_remainder(left, right)
    if name in ("negative", "isnan", "isNaN"):
        _require_one_type(operands, types, pa.float64())
        return "negate" if name == "negative" else "is_nan", *operands
    if name.lower() in TEXT_TESTS and len(operands) == 2:
        _require_one_type(operands, types, pa.string())
        return make_text_test(TEXT_TESTS[name.lower()], *operands)
    if name == "like" and len(operands) == 2:
        _require_one_type(operands, types, pa.string())
        return _translate_like(*operands)
    if name not in FUNCTIONS:
        raise CannotTranslate(name)
    if name in ("isNull", "isNotNull"):
        return FUNCTIONS[name], *operands
    if name in LOGICAL:
        _require_one_type(operands, types, pa.bool_())
        return FUNCTIONS[name], *operands
    return FUNCTIONS[name], *_unify_types(name, operands, types)


def _translate_like(value: Expression, pattern: Expression) -> Expression:
    """Return the test of a text that a pattern has behind or before a %, or between two."""
    found = re.fullmatch(r"(%?)([^%_\\]+)(%?)", str(pattern[1])) if pattern[0] == "literal" else None
    if found is None or not (found[1] or found[3]):
        raise CannotTranslate("like")
    name = "contains" if found[1] and found[3] else "ends_with" if found[1] else "starts_with"
    return make_text_test(name, value, ("literal", found[2], pa.string()))


def _require_one_type(
    expressions: Sequence[Expression], types: Mapping[str, pa.DataType], wanted: pa.DataType | None = None
) -> pa.DataType:
    found = {_find_type(each, types) for each in expressions}
    if len(found) != 1 or DECIMAL in found or (wanted is not None and found != {wanted}):
        raise CannotTranslate(str(found))
    return found.pop()


def _find_type(expression: Expression, types: Mapping[str, pa.DataType]) -> pa.DataType:
    match expression:
        case ("column", name) if name in types:
            return types[name]
        case ("column", name):
            raise CannotTranslate(name)
        case ("literal", _, type):
            return type
        case ("add" | "subtract" | "multiply" | "negate" | "remainder" | "coalesce", left, *_):
            return _find_type(left, types)
        case ("case", _, value, *_):
            return _find_type(value, types)
        case ("concat", *_):
            return pa.string()
    return pa.bool_()


def _unify_types(name: str, operands: Sequence[Expression], types: Mapping[str, pa.DataType]) -> list[Expression]:
    """Give numbers the type of the column that they are compared with, as Spark does."""
    if len(operands) != 2:
        raise CannotTranslate(name)
    found = [_find_type(operand, types) for operand in operands]
    unified = list(operands)
    for at, other in ((0, 1), (1, 0)):
        literal, wide = operands[at], found[other]
        if literal[0] != "literal":
            continue
        if found[at] in (pa.int32(), pa.int64()) and wide in (pa.int64(), pa.float64()):
            unified[at] = "literal", float(literal[1]) if wide == pa.float64() else literal[1], wide
            found[at] = wide
        elif found[at] == DECIMAL and wide == pa.float64():
            unified[at] = "literal", literal[1], wide
            found[at] = wide
    if found[0] != found[1] or found[0] == DECIMAL or (name in "+-*" and found[0] != pa.float64()):
        raise CannotTranslate(name)
    return unified


def _check_members(operands: Sequence[Expression], types: Mapping[str, pa.DataType]) -> Expression:
    value, *members = operands
    type = _find_type(value, types)
    pairs = [_unify_types("==", [value, member], types)[1] for member in members]
    if pa.types.is_floating(type) or not all(pair[0] == "literal" and pair[1] is not None for pair in pairs):
        raise CannotTranslate("in")
    return "in", value, tuple(pair[1] for pair in pairs), type
