"""Parses conditions of Flink's patterns: lambdas over one event, in Java or Python."""

from __future__ import annotations

import re
from dataclasses import dataclass

from motet.dialects.translation import SourceText
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


_BETWEEN = "write the pattern without it, and add the condition to WHERE, as in b.price > a.price"


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    kind: str
    start: int
    end: int


class _ConditionParser:
    """Reads a boolean expression by precedence."""

    def __init__(self, source: SourceText, start: int, end: int, event: str, variable: str) -> None:
        self.source = source
        self.event = event
        self.variable = variable
        self.end = end
        self.at = 0
        self.tokens = [
            _Token(found.group(found.lastgroup), found.lastgroup, found.start(found.lastgroup), found.end())
            for found in _TOKEN.finditer(source.text, start, end)
            if found.lastgroup is not None
        ]
        while self.tokens and self._has_surplus_bracket():
            self.tokens.pop()

    def _has_surplus_bracket(self) -> bool:
        """Return whether the last token closes a bracket that the call around the lambda opened."""
        marks = [token.text for token in self.tokens]
        return marks[-1] == ")" and marks.count("(") < marks.count(")")

    def parse(self) -> Expression:
        found = self.parse_or()
        if self.at < len(self.tokens):
            raise self.error_at()
        return found

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def accept(self, *marks: str) -> str | None:
        if self.peek() in marks:
            self.at += 1
            return self.tokens[self.at - 1].text
        return None

    def error_at(self) -> Exception:
        if self.at >= len(self.tokens):
            return self.source.error_at("this condition ends too early", self.end - 1, hint="as in e -> e.price > 10")
        token = self.tokens[self.at]
        hint = f"columns of the event ({self.event}.price, {self.event}.getPrice()), constants and comparisons are"
        return self.source.error_at(f"'{token.text}' in a condition is not understood", token.start, token.end, hint)

    def parse_or(self) -> Expression:
        parts = [self.parse_and()]
        while self.accept("||", "or"):
            parts.append(self.parse_and())
        return parts[0] if len(parts) == 1 else Logical("OR", tuple(parts))

    def parse_and(self) -> Expression:
        parts = [self.parse_not()]
        while self.accept("&&", "and"):
            parts.append(self.parse_not())
        return parts[0] if len(parts) == 1 else Logical("AND", tuple(parts))

    def parse_not(self) -> Expression:
        if self.accept("!", "not"):
            return Inverse(self.parse_not())
        return self.parse_comparison()

    def parse_comparison(self) -> Expression:
        left = self.parse_sum()
        operator = self.accept(*_COMPARED)
        if operator is None:
            return left
        right = self.parse_sum()
        if isinstance(right, Literal) and right.value is None and operator in ("==", "!="):
            return IsNull(left, negated=operator == "!=")
        return Comparison(_COMPARED[operator], left, right)

    def parse_sum(self) -> Expression:
        left = self.parse_product()
        while operator := self.accept("+", "-"):
            left = Arithmetic(operator, left, self.parse_product())
        return left

    def parse_product(self) -> Expression:
        left = self.parse_operand()
        while operator := self.accept("*", "/", "%"):
            if operator == "/":
                self.at -= 1
                raise self.error_at()  # whole numbers divide to whole numbers in Java, not here
            left = Arithmetic(operator, left, self.parse_operand())
        return left

    def parse_operand(self) -> Expression:
        if self.accept("-"):
            return Negative(self.parse_operand())
        if self.accept("("):
            inner = self.parse_or()
            if not self.accept(")"):
                raise self.error_at()
            return self.parse_methods(inner)
        if self.at >= len(self.tokens):
            raise self.error_at()
        token = self.tokens[self.at]
        match token.kind:
            case "text":
                self.at += 1
                return self.parse_methods(Literal(token.text[1:-1].replace('\\"', '"').replace("\\'", "'")))
            case "number":
                self.at += 1
                return Literal(float(token.text) if "." in token.text else int(token.text))
            case "name" if token.text.lower() in ("true", "false"):
                self.at += 1
                return Literal(token.text.lower() == "true")
            case "name" if token.text in ("null", "None"):
                self.at += 1
                return Literal(None)
            case "name" if token.text == self.event:
                self.at += 1
                return self.parse_methods(self.parse_column())
        raise self.error_at()

    def parse_column(self) -> Expression:
        """Parse `e.price`, `e.price()`, `e.getPrice()` or `e['price']`."""
        if self.accept("["):
            quoted = self.tokens[self.at] if self.at < len(self.tokens) else None
            if quoted is None or quoted.kind != "text":
                raise self.error_at()
            self.at += 1
            if not self.accept("]"):
                raise self.error_at()
            return Attribute(self.variable, quoted.text[1:-1])
        if not self.accept(".") or self.at >= len(self.tokens) or self.tokens[self.at].kind != "name":
            raise self.error_at()
        name = self.peek()
        self.at += 1
        if self.accept("("):
            if not self.accept(")"):
                raise self.error_at()
            getter = re.fullmatch(r"(?:get|is)_?([A-Za-z]\w*)", name)
            if getter is not None and (getter[1][0].isupper() or "_" in name):
                name = getter[1][0].lower() + getter[1][1:]
        return Attribute(self.variable, name)

    def parse_methods(self, value: Expression) -> Expression:
        """Parse `.equals(x)` and `.startsWith("x")` of a value."""
        while self.peek() == "." and self.at + 1 < len(self.tokens):
            method = self.tokens[self.at + 1].text
            if method not in ("equals", "startsWith", "endsWith", "contains"):
                self.at += 1
                raise self.error_at()
            self.at += 2
            if not self.accept("("):
                raise self.error_at()
            argument = self.parse_sum()
            if not self.accept(")"):
                raise self.error_at()
            value = self.compare_text(value, method, argument)
        return value

    def compare_text(self, value: Expression, method: str, argument: Expression) -> Expression:
        if method == "equals":
            return Comparison("=", value, argument)
        if not isinstance(argument, Literal) or not isinstance(argument.value, str) or set(argument.value) & set("%_"):
            self.at -= 1
            raise self.error_at()
        before = "" if method == "startsWith" else "%"
        return Like(value, f"{before}{argument.value}{'' if method == 'endsWith' else '%'}")
