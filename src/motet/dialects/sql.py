"""Parses SQL by sqlglot, and translates its expressions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from motet.dialects.translation import SourceText
from motet.model.expression import (
    FUNCTIONS,
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    Like,
    Literal,
    Logical,
    Membership,
    Negative,
)

# What a column or a function call of the source stands for; None where it is nothing special.
NameResolver = Callable[[Any], Expression | None]


def parse_sql(source: SourceText, text: str, dialect: str) -> Any:
    """Return the tree of a statement; `text` is the source, perhaps with parts blanked out."""
    try:
        return sqlglot.parse_one(text, dialect=dialect)
    except ParseError as error:
        found = error.errors[0] if error.errors else {}
        words = str(found.get("description") or error).rstrip(".")
        start = _find_offset(source.text, found.get("line"), found.get("col"), len(str(found.get("highlight") or "")))
        raise source.error_at(f"this SQL cannot be read: {words}", start) from None
    except (TokenError, ValueError) as error:
        raise source.error_at(f"this SQL cannot be read: {str(error).splitlines()[0]}", 0) from None


def _find_offset(text: str, line: Any, column: Any, length: int) -> int:
    """Return the offset of a parser's line and column (that of a token's end)."""
    lines = text.splitlines(keepends=True)
    if not isinstance(line, int) or not isinstance(column, int) or not 1 <= line <= len(lines):
        return 0
    return sum(map(len, lines[: line - 1])) + max(column - max(length, 1), 0)


def find_offsets(node: Any) -> tuple[int, int]:
    """Return the offsets of a node, as far as its names tell."""
    spots = [
        (each.meta["start"], each.meta["end"] + 1)
        for each in node.walk()
        if isinstance(each.meta.get("start"), int) and isinstance(each.meta.get("end"), int)
    ]
    return (min(start for start, _ in spots), max(end for _, end in spots)) if spots else (0, 1)


def refuse_other_clauses(tree: Any, source: SourceText, known: frozenset[str]) -> None:
    """Refuse clauses that would change the rows: all those of one table are read."""
    for name, part in tree.args.items():
        if name not in known and part:
            node = part[0] if isinstance(part, list) else part
            at = find_offsets(node) if isinstance(node, exp.Expression) else (0, 1)
            message = f"{name.rstrip('_').upper()} is not translated"
            raise source.error_at(message, *at, "filter the events before, or the results after")
    table = tree.args.get("from_")
    if table is None or not isinstance(table.this, exp.Table) or isinstance(table.this.this, exp.Func):
        at = find_offsets(table) if table is not None else (0, 1)
        raise source.error_at("only FROM with one table is translated", *at, "make the events a table first")
    for name, part in table.this.args.items():
        if part and name not in _TABLE:
            message = f"{name.upper()} of a table is not translated"
            raise source.error_at(message, *find_offsets(table), "make the events a table first")


def refuse_other_arguments(node: Any, source: SourceText, known: frozenset[str]) -> None:
    """Refuse an expression with an argument that is not among those known."""
    for name, part in node.args.items():
        if part and name not in known:
            shown = part.sql() if isinstance(part, exp.Expression) else name
            message = f"'{shown}' in '{node.sql()}' is not understood"
            raise source.error_at(message, *find_offsets(node), "leave it out")


def iterate_conjuncts(node: Any) -> Iterator[Any]:
    """Yield the parts of a conjunction."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from iterate_conjuncts(node.this)
        yield from iterate_conjuncts(node.expression)
    else:
        yield node


def resolve_column(variable: str) -> NameResolver:
    """Return a resolver that takes every column as one of a variable; with a table before it, it is no column."""
    return lambda node: Attribute(variable, node.name) if isinstance(node, exp.Column) and not node.table else None


_TABLE = frozenset({"this", "db", "catalog", "match_recognize"})
_OPERANDS = frozenset({"this", "expression"})
# The arguments of other expressions that are read.
_ARGUMENTS: dict[Any, frozenset[str]] = {
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Div: _OPERANDS | {"typed", "safe"},
    exp.In: frozenset({"this", "expressions"}),
    exp.Like: _OPERANDS | {"negate"},
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.Length: frozenset({"this", "binary"}),
    exp.Coalesce: frozenset({"this", "expressions"}),
}
_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_COMPARISONS = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_LOGICAL = {exp.And: "AND", exp.Or: "OR"}
_FUNCTIONS = {getattr(exp, name.capitalize()): name for name in FUNCTIONS}  # sqlglot calls its nodes like SQL's


def translate_expression(node: Any, resolve: NameResolver, source: SourceText) -> Expression:
    """Translate an SQL expression; `resolve` says what names stand for."""

    def translate(part: Any) -> Expression:
        return translate_expression(part, resolve, source)

    special = resolve(node)
    if special is not None:
        return special
    kind = type(node)
    refuse_other_arguments(node, source, _ARGUMENTS.get(kind, _OPERANDS))
    if kind in _ARITHMETIC:
        return Arithmetic(_ARITHMETIC[kind], translate(node.this), translate(node.expression))
    if kind in _COMPARISONS:
        return Comparison(_COMPARISONS[kind], translate(node.this), translate(node.expression))
    if kind in _LOGICAL:
        return Logical(_LOGICAL[kind], (translate(node.this), translate(node.expression)))
    if kind in _FUNCTIONS:
        return Call(_FUNCTIONS[kind], tuple(translate(part) for part in (node.this, *node.expressions)))
    match node:
        case exp.Paren():
            return translate(node.this)
        case exp.Literal():
            return Literal(node.this if node.is_string else _parse_number(node.this))
        case exp.Boolean():
            return Literal(bool(node.this))
        case exp.Null():
            return Literal(None)
        case exp.Neg(this=exp.Literal(this=digits)) if not node.this.is_string:
            return Literal(-_parse_number(digits))
        case exp.Neg():
            return Negative(translate(node.this))
        case exp.Not(this=exp.Is(this=operand, expression=exp.Null())):
            return IsNull(translate(operand), negated=True)
        case exp.Not():
            return Inverse(translate(node.this))
        case exp.Is(expression=exp.Null()):
            return IsNull(translate(node.this))
        case exp.In(expressions=options) if options:
            values = [translate(option) for option in options]
            literals = tuple(value for value in values if isinstance(value, Literal))
            if len(literals) == len(values):
                return Membership(translate(node.this), literals)
        case exp.Like(expression=exp.Literal(this=pattern)) if kind is exp.Like and "\\" not in pattern:
            like = Like(translate(node.this), pattern)
            return Inverse(like) if node.args.get("negate") else like
        case exp.Between(args={"low": low, "high": high}):
            operand = translate(node.this)
            bounds = (Comparison(">=", operand, translate(low)), Comparison("<=", operand, translate(high)))
            return Logical("AND", bounds)
        case exp.Cast(this=exp.Literal(this=text)) if kind is exp.Cast and node.to.is_type(
            "timestamp", "timestamptz", "datetime"
        ):
            try:
                return Literal(dt.datetime.fromisoformat(text))
            except ValueError:
                hint = "as in TIMESTAMP '2024-01-31'"
                raise source.error_at(f"'{text}' is no timestamp", *find_offsets(node), hint) from None
    raise source.error_at(f"'{node.sql()}' has no equal in motet's conditions", *find_offsets(node))


def _parse_number(digits: str) -> int | float:
    return int(digits) if digits.isdigit() else float(digits)
