"""Turns syntax trees of conditions and returned values into expressions of the model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

from lark import Token, Tree

from motet.errors import did_you_mean
from motet.language.durations import EVENTS, read_length
from motet.language.syntax import ClauseError, check_depth, span_of, subtrees, token_of
from motet.model import expression as ex
from motet.model.kinds import KLEENE_FUNCTIONS
from motet.model.query import AGGREGATE_FUNCTIONS, Aggregate, ReturnItem
from motet.model.span import Span

_MAX_DIGITS = 400  # of a number; a floating one has at most 309 before its point
_SELECTORS = {"NEXT": ex.At.NEXT, "FIRST": ex.At.FIRST, "LAST": ex.At.LAST}
_COMPARATORS = {"EQ": "=", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def read_expression(tree: Tree[Token], bare: bool = False) -> ex.Expression:
    """Read the expression of a tree. Where `bare`, names are columns of the one row an EVENT definition looks at."""
    return check_depth(_ExpressionReader(bare).read(tree), ex.operands, span_of(tree))


def read_having(tree: Tree[Token], returns: Sequence[ReturnItem]) -> ex.Expression:
    """Read a condition on the columns of a result: names, and aggregates as RETURN has them."""
    return check_depth(_HavingReader(returns).read(tree), ex.operands, span_of(tree))


def is_aggregate(tree: Tree[Token]) -> bool:
    """Return whether a tree is a call of an aggregate function, as RETURN has them."""
    return tree.data in ("call", "call_all", "call_distinct") and str(tree.children[0]).upper() in AGGREGATE_FUNCTIONS


def read_aggregate(tree: Tree[Token]) -> Aggregate:
    """Read an aggregate call."""
    function, span = str(tree.children[0]).upper(), span_of(tree)
    if tree.data == "call_all":
        if function != "COUNT":
            raise _refuse_star(tree, span)
        return Aggregate(function, span=span)
    if tree.data == "call_distinct":
        if function != "COUNT":
            raise ClauseError(f"{function} takes no DISTINCT", span, "as in COUNT(DISTINCT user)")
        path = subtrees(tree)[0]
        if len(path.children) == 1:
            return Aggregate(function, None, str(path.children[0]), distinct=True, span=span)
        return Aggregate(function, *split_path(path), distinct=True, span=span)
    return Aggregate(function, *_read_argument(tree, function), span=span)


def _read_argument(tree: Tree[Token], function: str) -> tuple[str, str | None]:
    """Read the variable and attribute inside the brackets of an aggregate."""
    match subtrees(tree):
        case [Tree(data="name", children=[variable])]:
            return str(variable), None
        case [Tree(data="attribute") as path]:
            return split_path(path)
    example = "COUNT(*), COUNT(E) or COUNT(E.attribute)" if function == "COUNT" else f"{function}(E.attribute)"
    raise ClauseError(f"{function} takes one attribute of one variable", span_of(tree), f"as in {example}")


def split_path(tree: Tree[Token]) -> tuple[str, str]:
    """Return what stands before the first dot of a path, and what stands after it: fields of structs have more dots."""
    first, *rest = (str(token) for token in tree.children if isinstance(token, Token) and token.type == "NAME")
    return first, ".".join(rest)


class _ExpressionReader:
    """Reads trees into expressions; knows whether a bare name is a column."""

    def __init__(self, bare: bool) -> None:
        self.bare = bare

    def read(self, tree: Tree[Token]) -> ex.Expression:
        span = span_of(tree)
        below = subtrees(tree)
        match tree.data:
            case "parenthesis":
                return self.read(below[0])
            case "disjunction" | "conjunction":
                operator = "OR" if tree.data == "disjunction" else "AND"
                return ex.Logical(operator, tuple(self.read(part) for part in below), span=span)
            case "inverse":
                return ex.Inverse(self.read(below[0]), span=span)
            case "comparisons":
                return self._read_comparisons(below, span)
            case "is_null" | "is_not_null":
                return ex.IsNull(self.read(below[0]), tree.data == "is_not_null", span=span)
            case "in_options" | "not_in_options":
                options = tuple(_read_option(option) for option in subtrees(below[1]))
                return ex.Membership(self.read(below[0]), options, tree.data == "not_in_options", span=span)
            case "like" | "not_like":
                return ex.Like(self.read(below[0]), str(tree.children[-1]), tree.data == "not_like", span=span)
            case "in_range" | "not_in_range":
                inside = self._read_range(below, span)
                return inside if tree.data == "in_range" else ex.Inverse(inside, span=span)
            case "arithmetic":
                return ex.Arithmetic(str(tree.children[1]), self.read(below[0]), self.read(below[1]), span=span)
            case "negative":
                return self._read_negative(below[0], span)
            case "literal" | "typed_literal":
                return _read_literal(tree)
            case "quantity" | "interval":
                return _read_duration(tree, span)
            case "call_distinct":
                raise ClauseError("DISTINCT is for aggregates of RETURN", span, "as in RETURN COUNT(DISTINCT user)")
            case "unquoted":
                return ex.Literal(str(tree.children[0]), unquoted=True, span=span)
            case "name":
                return self._read_column(str(tree.children[0]), span)
            case "attribute":
                return self._read_attribute(*split_path(tree), ex.At.EACH, span)
            case "call_attribute":
                fields = [token for token in tree.children[1:] if isinstance(token, Token) and token.type == "NAME"]
                return self._read_selection(below[0], ".".join(fields), span)
            case "call":
                return self._read_call(tree, span)
            case "call_all":
                raise _refuse_star(tree, span)
            case _:
                raise ClauseError(
                    "[attribute] stands on its own, joined to other conditions by AND",
                    span,
                    "compare the attributes instead, as in a.vehicle = b.vehicle",
                )

    def _read_comparisons(self, below: list[Tree[Token]], span: Span) -> ex.Expression:
        """Read one comparison, or a chain `a = b = c` as the conjunction it stands for."""
        signs = below[1::2]
        operators = [_COMPARATORS[token_of(sign).type] for sign in signs]
        if len(operators) > 1 and "!=" in operators:
            raise ClauseError(
                "'!=' cannot be part of a chain of comparisons", span_of(signs[operators.index("!=")]), "use AND"
            )
        sides = [self.read(side) for side in self._quote_names(below[::2], operators)]
        links = zip(operators, sides, sides[1:], strict=False)
        comparisons = tuple(ex.Comparison(operator, left, right, span=span) for operator, left, right in links)
        return comparisons[0] if len(comparisons) == 1 else ex.Logical("AND", comparisons, span=span)

    def _quote_names(self, sides: list[Tree[Token]], operators: list[str]) -> list[Tree[Token]]:
        """Return the sides of a comparison, a bare name beside an attribute read as a text: `m.activity = passive`.

        The papers write constants like that; `motet check` says so.
        """
        if self.bare or len(sides) != 2 or operators[0] not in ("=", "!="):
            return sides
        kinds = [side.data for side in sides]
        if sorted(kinds) != ["attribute", "name"]:
            return sides
        return [Tree("unquoted", side.children, side.meta) if side.data == "name" else side for side in sides]

    def _read_range(self, below: list[Tree[Token]], span: Span) -> ex.Expression:
        operand, low, high = (self.read(part) for part in below)
        limits = (ex.Comparison(">=", operand, low, span=span), ex.Comparison("<=", operand, high, span=span))
        return ex.Logical("AND", limits, span=span)

    def _read_negative(self, tree: Tree[Token], span: Span) -> ex.Expression:
        operand = self.read(tree)
        match operand:
            case ex.Literal(int() | float() as value) if tree.data == "literal" and not isinstance(value, bool):
                return ex.Literal(-value, span=span)
        return ex.Negative(operand, span=span)

    def _read_column(self, name: str, span: Span) -> ex.Expression:
        if not self.bare:
            hint = f"write the variable first, as in E.{name}; [{name}] makes all events of a match agree"
            raise ClauseError(f"'{name}' does not say which event it is about", span, hint)
        return ex.Attribute("", name, span=span)

    def _read_attribute(self, variable: str, name: str, at: ex.At, span: Span) -> ex.Attribute:
        if self.bare and at is ex.At.EACH:  # a field of a struct
            return ex.Attribute("", f"{variable}.{name}", span=span)
        return ex.Attribute(variable, name, at, span=span)

    def _read_selection(self, call: Tree[Token], name: str, span: Span) -> ex.Expression:
        """Read `NEXT(T).speed` and the like."""
        function = str(call.children[0]).upper()
        match subtrees(call):
            case [Tree(data="name", children=[variable])] if function in _SELECTORS:
                return self._read_attribute(str(variable), name, _SELECTORS[function], span)
        hint = "as in NEXT(b).price, FIRST(b).price or LAST(b).price"
        raise ClauseError(f"{function}(...) has no attribute '{name}'", span_of(call), hint)

    def _read_call(self, tree: Tree[Token], span: Span) -> ex.Expression:
        word = token_of(tree)
        function = word.upper()
        if function in _SELECTORS:
            variable, name = _read_argument(tree, function)
            if name is None:
                raise ClauseError(
                    f"{function}({variable}) needs an attribute", span, f"as in {function}({variable}).price"
                )
            return self._read_attribute(variable, name, _SELECTORS[function], span)
        if function in KLEENE_FUNCTIONS and not self.bare:
            variable, name = _read_argument(tree, function)
            return ex.KleeneAggregate(function, variable, name, span=span)
        if function in AGGREGATE_FUNCTIONS:
            raise ClauseError(
                f"{function} cannot be used here", span_of(word), "it is an aggregate over all matches, for RETURN"
            )
        if function not in ex.FUNCTIONS:
            raise _refuse_function(word)
        return ex.Call(function, tuple(self.read(argument) for argument in subtrees(tree)), span=span)


def _refuse_function(word: Token) -> ClauseError:
    known = [*ex.FUNCTIONS, *AGGREGATE_FUNCTIONS, *_SELECTORS]
    return ClauseError(f"unknown function '{word}'", span_of(word), did_you_mean(word, known))


def _refuse_star(tree: Tree[Token], span: Span) -> ClauseError:
    word = token_of(tree)
    match word.upper():
        case "COUNT":
            hint = "COUNT(b) counts the events of a match"
            return ClauseError("COUNT(*) counts matches: it stands alone in RETURN", span, hint)
        case function if function in (*ex.FUNCTIONS, *AGGREGATE_FUNCTIONS, *_SELECTORS):
            return ClauseError(f"{function}(*) means nothing", span, f"name an attribute: {function}(E.attribute)")
    return _refuse_function(word)


class _HavingReader(_ExpressionReader):
    """Reads a condition on the columns of a result."""

    def __init__(self, returns: Sequence[ReturnItem]) -> None:
        super().__init__(bare=True)
        self.aggregates = [item for item in returns if isinstance(item, Aggregate)]

    def read(self, tree: Tree[Token]) -> ex.Expression:
        if not is_aggregate(tree):
            return super().read(tree)
        wanted = read_aggregate(tree)
        for item in self.aggregates:
            if replace(item, alias=None) == wanted:
                return ex.Attribute("", item.label, span=wanted.span)
        hint = f"add {wanted.label} to RETURN"
        raise ClauseError("HAVING speaks of columns of the result, and this is none", wanted.span, hint)


def _read_duration(tree: Tree[Token], span: Span) -> ex.Literal:
    length = read_length(tree)
    if length.measure == EVENTS:
        raise ClauseError("a duration cannot be counted in EVENTS", span, "as in 5 min")
    try:
        return ex.Literal(dt.timedelta(microseconds=length.amount), span=span)
    except OverflowError:
        raise ClauseError("this duration is too long", span, "as in 5 min") from None


def _read_option(tree: Tree[Token]) -> ex.Literal:
    if tree.data == "negative_option":
        return ex.Literal(-_read_number(token_of(tree, 1)), span=span_of(tree))
    (option,) = subtrees(tree)
    return _read_duration(option, span_of(option)) if option.data in ("quantity", "interval") else _read_literal(option)


def _read_literal(tree: Tree[Token]) -> ex.Literal:
    span = span_of(tree)
    if tree.data == "typed_literal":
        return ex.Literal(_read_timestamp(token_of(tree), str(tree.children[1]), span), span=span)
    token = token_of(tree)
    match token.type:
        case "NUMBER":
            return ex.Literal(_read_number(token), span=span)
        case "STRING":
            return ex.Literal(str(token), span=span)
        case "NULL":
            return ex.Literal(None, span=span)
        case _:
            return ex.Literal(token.type == "TRUE", span=span)


def _read_number(token: Token) -> int | float:
    if len(token) > _MAX_DIGITS:
        raise ClauseError(f"this number has {len(token):,} digits", span_of(token), f"at most {_MAX_DIGITS} are read")
    return int(token) if token.isdecimal() else float(token)


def _read_timestamp(word: Token, text: str, span: Span) -> dt.datetime:
    if word.upper() not in ("TIMESTAMP", "DATE"):
        hint = did_you_mean(word, ["TIMESTAMP", "AND", "OR", "LIKE"])
        raise ClauseError(f"unexpected text after '{word}'", span, hint)
    try:
        return dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ClauseError(f"'{text}' is no timestamp", span, "as in TIMESTAMP '2024-05-01 12:30:00'") from None
