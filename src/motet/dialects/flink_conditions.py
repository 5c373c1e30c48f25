"""Parses conditions of Flink's patterns: lambdas over one event, in Java or Python."""

from __future__ import annotations

import re

from motet.dialects.translation import SourceText, TokenParser
from motet.model.expression import (
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Inverse,
    IsNull,
    Like,
    Literal,
    Logical,
    Negative,
)

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>\d+(?:\.\d+)?)[LlFfDd]?\b|(?P<name>[A-Za-z_]\w*)
    |(?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%<>!().,\[\]])|(?P<other>\S))""",
    re.VERBOSE,
)
_PAIR = re.compile(r"\(\s*(?P<name>[A-Za-z_]\w*)(?P<more>\s*,\s*\w+\s*)\)\s*->")
_ARROW = re.compile(r"\(?\s*(?:\w+\s+)?(?P<name>[A-Za-z_]\w*)\s*\)?\s*->\s*(?P<block>\{\s*return\b)?")
_LAMBDA = re.compile(r"lambda\s+(?P<name>\w+)\s*:")
_FILTER = re.compile(
    r"\bfilter\s*\(\s*(?:final\s+)?[\w<>.]+\s+(?P<name>\w+)\s*(?P<more>,[^)]*)?\)[^{]*\{\s*return\b", re.DOTALL
)

_COMPARED = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
# Operators that join several operands, those that bind weakest first.
_LOGICAL = (("OR", ("||", "or")), ("AND", ("&&", "and")))
_ARITHMETIC = (("+", "-"), ("*", "/", "%"))
_TEXT_METHODS = {"startsWith": "{}%", "endsWith": "%{}", "contains": "%{}%"}
_BETWEEN = "write the pattern without it, and add the condition to WHERE, as in b.price > a.price"


def parse_condition(source: SourceText, start: int, end: int, variable: str) -> Expression:
    """Parse the condition that the argument of a `where` states about the event of a step."""
    argument = source.text[start:end]
    for form in (_FILTER, _PAIR, _ARROW, _LAMBDA):
        found = form.search(argument)
        if found is None:
            continue
        if found.groupdict().get("more"):
            message = "a condition that looks at earlier events through the context is not translated"
            raise source.error_at(message, start + found.start("more"), start + found.end("more"), _BETWEEN)
        body = argument[found.end() :]
        stop = body.find(";") if form is _FILTER or found.groupdict().get("block") else len(body)
        begin = start + found.end()
        return _ConditionParser(source, begin, begin + stop, found["name"], variable).parse()
    raise source.error_at("a condition is written as a lambda over one event", start, end, "as in e -> e.price > 10")


class _ConditionParser(TokenParser):
    """Parses a boolean expression over one event by precedence."""

    def __init__(self, source: SourceText, start: int, end: int, event: str, variable: str) -> None:
        super().__init__(source, _TOKEN, start, end)
        self.event = event
        self.variable = variable
        marks = [token.text for token in self.tokens]
        while marks and marks[-1] == ")" and marks.count("(") < marks.count(")"):  # closes the call around the lambda
            marks.pop()
        del self.tokens[len(marks) :]

    def parse(self) -> Expression:
        found = self.parse_logical()
        if self.at < len(self.tokens):
            raise self.error()
        return found

    def expect(self, *texts: str) -> str:
        found = self.accept(*texts)
        if found is None:
            raise self.error()
        return found

    def error(self) -> Exception:
        """Return the error that the current token is not understood."""
        token = self.token
        if not token.text:
            return self.source.error_at("this condition ends too early", self.end - 1, hint="as in e -> e.price > 10")
        hint = f"columns of the event ({self.event}.price, {self.event}.getPrice()), constants and comparisons are"
        return self.source.error_at(f"'{token.text}' in a condition is not understood", token.start, token.end, hint)

    def parse_logical(self, level: int = 0) -> Expression:
        if level == len(_LOGICAL):
            return self.parse_not()
        operator, marks = _LOGICAL[level]
        parts = [self.parse_logical(level + 1)]
        while self.accept(*marks):
            parts.append(self.parse_logical(level + 1))
        return parts[0] if len(parts) == 1 else Logical(operator, tuple(parts))

    def parse_not(self) -> Expression:
        return Inverse(self.parse_not()) if self.accept("!", "not") else self.parse_comparison()

    def parse_comparison(self) -> Expression:
        left = self.parse_arithmetic()
        operator = self.accept(*_COMPARED)
        if operator is None:
            return left
        right = self.parse_arithmetic()
        if isinstance(right, Literal) and right.value is None and operator in ("==", "!="):
            return IsNull(left, negated=operator == "!=")
        return Comparison(_COMPARED[operator], left, right)

    def parse_arithmetic(self, level: int = 0) -> Expression:
        if level == len(_ARITHMETIC):
            return self.parse_operand()
        left = self.parse_arithmetic(level + 1)
        while operator := self.accept(*_ARITHMETIC[level]):
            if operator == "/":
                self.at -= 1
                raise self.error()  # whole numbers divide to whole numbers in Java, not here
            left = Arithmetic(operator, left, self.parse_arithmetic(level + 1))
        return left

    def parse_operand(self) -> Expression:
        if self.accept("-"):
            return Negative(self.parse_operand())
        if self.accept("("):
            inner = self.parse_logical()
            self.expect(")")
            return self.parse_methods(inner)
        token = self.token
        self.at += 1
        match token.kind:
            case "text":
                return self.parse_methods(Literal(token.text[1:-1].replace('\\"', '"').replace("\\'", "'")))
            case "number":
                return Literal(float(token.text) if "." in token.text else int(token.text))
            case "name" if token.text.lower() in ("true", "false"):
                return Literal(token.text.lower() == "true")
            case "name" if token.text in ("null", "None"):
                return Literal(None)
            case "name" if token.text == self.event:
                return self.parse_methods(self.parse_column())
        self.at -= 1
        raise self.error()

    def parse_column(self) -> Expression:
        """Parse `e.price`, `e.price()`, `e.getPrice()` or `e['price']`."""
        if self.accept("["):
            quoted = self.parse_kind("text")
            self.expect("]")
            return Attribute(self.variable, quoted[1:-1])
        self.expect(".")
        name = self.parse_kind("name")
        if self.accept("("):
            self.expect(")")
            getter = re.fullmatch(r"(?:get|is)_?([A-Za-z]\w*)", name)
            if getter is not None and (getter[1][0].isupper() or "_" in name):
                name = getter[1][0].lower() + getter[1][1:]
        return Attribute(self.variable, name)

    def parse_kind(self, kind: str) -> str:
        token = self.token
        if token.kind != kind:
            raise self.error()
        self.at += 1
        return token.text

    def parse_methods(self, value: Expression) -> Expression:
        """Parse `.equals(x)` and `.startsWith("x")` of a value."""
        while self.at + 1 < len(self.tokens) and self.accept("."):
            method = self.expect("equals", *_TEXT_METHODS)
            self.expect("(")
            argument = self.parse_arithmetic()
            self.expect(")")
            value = self.compare_text(value, method, argument)
        return value

    def compare_text(self, value: Expression, method: str, argument: Expression) -> Expression:
        if method == "equals":
            return Comparison("=", value, argument)
        if not isinstance(argument, Literal) or not isinstance(argument.value, str) or set(argument.value) & set("%_"):
            self.at -= 1
            raise self.error()
        return Like(value, _TEXT_METHODS[method].format(argument.value))
