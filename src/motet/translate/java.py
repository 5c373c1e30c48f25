"""Conditions of Flink's patterns: what a lambda over one event says, in Java or Python."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
from motet.translate.outcome import Source

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


def condition_of(source: Source, start: int, end: int, variable: str) -> Expression:
    """The condition that the argument of a `where` states about the event of a pattern's stage."""
    argument = source.text[start:end]
    for form in (_FILTER, _PAIR, _ARROW, _LAMBDA):
        found = form.search(argument)
        if found is None:
            continue
        if found.groupdict().get("more"):
            message = "a condition that looks at earlier events through the context is not translated"
            raise source.refusal(message, start + found.start("more"), start + found.end("more"), _BETWEEN)
        body = argument[found.end() :]
        stop = body.find(";") if form is _FILTER or found.groupdict().get("block") else len(body)
        begin = start + found.end()
        return _Condition(source, begin, begin + stop, found["name"], variable).parse()
    raise source.refusal("a condition is written as a lambda over one event", start, end, "as in e -> e.price > 10")


_BETWEEN = "write the pattern without it, and add the condition to WHERE, as in b.price > a.price"


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    kind: str
    start: int
    end: int


class _Condition:
    """Reads a boolean expression by precedence."""

    def __init__(self, source: Source, start: int, end: int, event: str, variable: str) -> None:
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
        while self.tokens and self._surplus():
            self.tokens.pop()

    def _surplus(self) -> bool:
        """Whether the last token closes a bracket that the call around the lambda opened."""
        marks = [token.text for token in self.tokens]
        return marks[-1] == ")" and marks.count("(") < marks.count(")")

    def parse(self) -> Expression:
        found = self.either()
        if self.at < len(self.tokens):
            raise self.refusal()
        return found

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def take(self, *marks: str) -> str | None:
        if self.peek() in marks:
            self.at += 1
            return self.tokens[self.at - 1].text
        return None

    def refusal(self) -> Exception:
        if self.at >= len(self.tokens):
            return self.source.refusal("this condition ends too early", self.end - 1, hint="as in e -> e.price > 10")
        token = self.tokens[self.at]
        hint = f"columns of the event ({self.event}.price, {self.event}.getPrice()), constants and comparisons are"
        return self.source.refusal(f"'{token.text}' in a condition is not understood", token.start, token.end, hint)

    def either(self) -> Expression:
        parts = [self.both()]
        while self.take("||", "or"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else Logical("OR", tuple(parts))

    def both(self) -> Expression:
        parts = [self.negation()]
        while self.take("&&", "and"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else Logical("AND", tuple(parts))

    def negation(self) -> Expression:
        if self.take("!", "not"):
            return Inverse(self.negation())
        return self.comparison()

    def comparison(self) -> Expression:
        left = self.sum()
        operator = self.take(*_COMPARED)
        if operator is None:
            return left
        right = self.sum()
        if isinstance(right, Literal) and right.value is None and operator in ("==", "!="):
            return IsNull(left, negated=operator == "!=")
        return Comparison(_COMPARED[operator], left, right)

    def sum(self) -> Expression:
        left = self.product()
        while operator := self.take("+", "-"):
            left = Arithmetic(operator, left, self.product())
        return left

    def product(self) -> Expression:
        left = self.operand()
        while operator := self.take("*", "/", "%"):
            if operator == "/":
                self.at -= 1
                raise self.refusal()  # whole numbers divide to whole numbers in Java, not here
            left = Arithmetic(operator, left, self.operand())
        return left

    def operand(self) -> Expression:
        if self.take("-"):
            return Negative(self.operand())
        if self.take("("):
            inner = self.either()
            if not self.take(")"):
                raise self.refusal()
            return self.called(inner)
        if self.at >= len(self.tokens):
            raise self.refusal()
        token = self.tokens[self.at]
        match token.kind:
            case "text":
                self.at += 1
                return self.called(Literal(token.text[1:-1].replace('\\"', '"').replace("\\'", "'")))
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
                return self.called(self.column())
        raise self.refusal()

    def column(self) -> Expression:
        """`e.price`, `e.price()`, `e.getPrice()`, `e['price']`."""
        if self.take("["):
            quoted = self.tokens[self.at] if self.at < len(self.tokens) else None
            if quoted is None or quoted.kind != "text":
                raise self.refusal()
            self.at += 1
            if not self.take("]"):
                raise self.refusal()
            return Attribute(self.variable, quoted.text[1:-1])
        if not self.take(".") or self.at >= len(self.tokens) or self.tokens[self.at].kind != "name":
            raise self.refusal()
        name = self.peek()
        self.at += 1
        if self.take("("):
            if not self.take(")"):
                raise self.refusal()
            getter = re.fullmatch(r"(?:get|is)_?([A-Za-z]\w*)", name)
            if getter is not None and (getter[1][0].isupper() or "_" in name):
                name = getter[1][0].lower() + getter[1][1:]
        return Attribute(self.variable, name)

    def called(self, value: Expression) -> Expression:
        """`.equals(x)` and `.startsWith("x")` of a value."""
        while self.peek() == "." and self.at + 1 < len(self.tokens):
            method = self.tokens[self.at + 1].text
            if method not in ("equals", "startsWith", "endsWith", "contains"):
                self.at += 1
                raise self.refusal()
            self.at += 2
            if not self.take("("):
                raise self.refusal()
            argument = self.sum()
            if not self.take(")"):
                raise self.refusal()
            value = self.compared_text(value, method, argument)
        return value

    def compared_text(self, value: Expression, method: str, argument: Expression) -> Expression:
        if method == "equals":
            return Comparison("=", value, argument)
        if not isinstance(argument, Literal) or not isinstance(argument.value, str) or set(argument.value) & set("%_"):
            self.at -= 1
            raise self.refusal()
        before = "" if method == "startsWith" else "%"
        return Like(value, f"{before}{argument.value}{'' if method == 'endsWith' else '%'}")
