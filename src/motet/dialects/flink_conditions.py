"""Parses conditions of Flink's patterns: lambdas over one event, in Java or Scala."""

from __future__ import annotations

import re

import numpy as np

from motet.dialects.translation import SourceText, Token, TokenParser
from motet.model import expression as ex

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>\d+(?:\.\d+)?[LlFfDd]?)\b(?!\.)
    |(?P<name>[A-Za-z_]\w*)|(?P<mark>&&|\|\||==|!=|<=|>=|[-+*%<>!().,])|(?P<other>\S))""",
    re.VERBOSE,
)
# The ways to write a condition: each has the name of the event, and what it returns.
_NAMED = r"(?:final\s+)?(?:[\w.]+(?:<[\w.<>, ]*>)?\s+)?(?P<name>[A-Za-z_]\w*)\s*(?::\s*[\w.]+\s*)?(?P<more>,[^)]*)?"
_BODY = r"(?:\{\s*return\b(?P<block>[^;]*);\s*\}|(?P<body>[^{;]*))\s*"
_FORMS = (
    re.compile(rf"\s*\(\s*{_NAMED}\)\s*[-=]>\s*{_BODY}", re.DOTALL),
    re.compile(rf"\s*(?P<name>[A-Za-z_]\w*)\s*[-=]>\s*{_BODY}", re.DOTALL),
    re.compile(
        r"\s*new\s+(?:Simple|Iterative|RichIterative)Condition\s*(?:<[\w.]*>)?\s*\(\s*\)\s*\{\s*(?:@Override\s+)?public\s+"
        rf"boolean\s+filter\s*\(\s*{_NAMED}\)\s*(?:throws\s+[\w.]+\s*)?{_BODY}\}}\s*",
        re.DOTALL,
    ),
    re.compile(r"(?P<body>[^_{;]*(?P<name>\b_)\s*\.[^{;]*)", re.DOTALL),
)
_WRAPPED = re.compile(r"\s*SimpleCondition\s*\.\s*(?:<[\w.]*>\s*)?of\s*\((?P<inner>.*)\)\s*", re.DOTALL)
_REFERENCE = re.compile(r"\s*[A-Z]\w*\s*::\s*(?P<name>\w+)\s*")
_QUOTED = re.compile(r"""\s*"(?P<name>\w+)"\s*""")

_TUPLE = re.compile(
    r"\s*\(?\s*(?:[A-Z]\w*\s+)?(?P<name>[A-Za-z_]\w*)\s*\)?\s*->"
    r"\s*(?:(?P<new>new\s+)?Tuple)(?P<size>\d+)\s*(?(new)<\s*>|\.\s*of)\s*\((?P<columns>.*)\)\s*",
    re.DOTALL,
)

_COMPARED = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
# Operators that join several operands, those that bind weakest first.
_LOGICAL = (("OR", "||"), ("AND", "&&"))
_ARITHMETIC = (("+", "-"), ("*", "%"))  # not /: whole numbers divide to whole numbers in Java, not here
_TEXT_METHODS = {"startsWith": "{}%", "endsWith": "%{}", "contains": "%{}%"}
_BETWEEN = "write the pattern without it, and add the condition to WHERE, as in b.price > a.price"


def parse_condition(source: SourceText, start: int, end: int, variable: str) -> ex.Expression:
    """Parse the condition that the argument of a `where` states about the event of a step."""
    return _find_body(source, start, end, variable).parse()


def parse_key(source: SourceText, start: int, end: int) -> tuple[str, ...]:
    """Parse the columns that the argument of a `keyBy` names: one, or several as in e -> Tuple2.of(e.a, e.b)."""
    found = _TUPLE.fullmatch(source.text[start:end])
    if found is None:
        return (parse_column(source, start, end),)
    columns = []
    at = start + found.start("columns")
    for text in found["columns"].split(","):
        column = _ConditionParser(source, at, at + len(text), found["name"], "").parse()
        if not isinstance(column, ex.Attribute):
            raise source.error_at("a key must be columns of the event", at, at + len(text), "as in e.user")
        columns.append(column.name)
        at += len(text) + 1
    if len(columns) != int(found["size"]):
        raise source.error_at(f"a Tuple{found['size']} has {found['size']} columns", start, end)
    return tuple(dict.fromkeys(columns))


def parse_column(source: SourceText, start: int, end: int) -> str:
    """Parse the column that the argument of a `keyBy` names: "user", Event::getUser or e -> e.getUser()."""
    text = source.text[start:end]
    if found := _QUOTED.fullmatch(text):
        return found["name"]
    if found := _REFERENCE.fullmatch(text):
        return _column_of_getter(found["name"])
    key = _find_body(source, start, end, "").parse()
    if not isinstance(key, ex.Attribute):
        raise source.error_at("a key must be one column of the event", start, end, "as in keyBy(e -> e.user)")
    return key.name


def _find_body(source: SourceText, start: int, end: int, variable: str) -> _ConditionParser:
    """Return a parser of what a condition returns."""
    argument = source.text[start:end]
    wrapped = _WRAPPED.fullmatch(argument)
    if wrapped is not None:
        return _find_body(source, start + wrapped.start("inner"), start + wrapped.end("inner"), variable)
    for form in _FORMS:
        found = form.fullmatch(argument)
        if found is None:
            continue
        groups = found.groupdict()
        if groups.get("more"):
            message = "a condition that looks at earlier events through the context is not translated"
            raise source.error_at(message, start + found.start("more"), start + found.end("more"), _BETWEEN)
        body = "block" if groups.get("block") is not None else "body"
        parser = _ConditionParser(source, start + found.start(body), start + found.end(body), found["name"], variable)
        parser.is_java = found["name"] != "_" and "=>" not in argument[: found.start(body)]
        return parser
    raise source.error_at("a condition is written as a lambda over one event", start, end, "as in e -> e.price > 10")


def _column_of_getter(name: str) -> str:
    """Return the column that getPrice, get_price or price gives."""
    getter = re.fullmatch(r"get(?:_([A-Za-z]\w*)|([A-Z]\w*))", name)
    column = name if getter is None else getter[1] or getter[2]
    return column if getter is None else column[0].lower() + column[1:]


class _ConditionParser(TokenParser):
    """Parses a boolean expression over one event by precedence."""

    def __init__(self, source: SourceText, start: int, end: int, event: str, variable: str) -> None:
        super().__init__(source, _TOKEN, start, end)
        self.event = event
        self.variable = variable
        self.is_java = True
        blanks = [token for token in self.tokens if token.text == "_" == event]
        if len(blanks) > 1:  # each stands for an event of its own
            raise source.error_at("a condition is over one event", blanks[1].start, blanks[1].end, "as in _.price > 10")

    def parse(self) -> ex.Expression:
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

    def parse_logical(self, level: int = 0) -> ex.Expression:
        if level == len(_LOGICAL):
            return self.parse_comparison()
        operator, mark = _LOGICAL[level]
        parts = [self.parse_logical(level + 1)]
        while self.accept(mark):
            parts.append(self.parse_logical(level + 1))
        return parts[0] if len(parts) == 1 else ex.Logical(operator, tuple(parts))

    def parse_comparison(self) -> ex.Expression:
        first = self.at
        left = self.parse_arithmetic()
        sign = self.at
        operator = self.accept(*_COMPARED)
        if operator is None:
            return left
        right = self.parse_arithmetic()
        alone = [self.tokens[at] for at, end in ((first, sign), (sign + 1, self.at)) if end - at == 1]
        if self.is_java and any(token.text.startswith('"') for token in alone):
            token = self.tokens[sign]
            message = f"'{token.text}' asks in Java whether two texts are the same object"
            raise self.source.error_at(message, token.start, token.end, 'as in e.name.equals("a")')
        if isinstance(right, ex.Literal) and right.value is None and operator in ("==", "!="):
            return ex.IsNull(left, negated=operator == "!=")
        return ex.Comparison(_COMPARED[operator], left, right)

    def parse_arithmetic(self, level: int = 0) -> ex.Expression:
        if level == len(_ARITHMETIC):
            return self.parse_operand()
        left = self.parse_arithmetic(level + 1)
        while operator := self.accept(*_ARITHMETIC[level]):
            sign = self.at - 1
            left = ex.Arithmetic(operator, left, self.parse_arithmetic(level + 1))
            if any(
                isinstance(each, ex.Literal) and isinstance(each.value, str | bool) for each in (left.left, left.right)
            ):
                self.at = sign
                raise self.error()  # texts are joined by + in Java, not here
        return left

    def parse_operand(self) -> ex.Expression:
        if self.accept("-"):
            return ex.Negative(self.parse_operand())
        if self.accept("!"):
            return ex.Inverse(self.parse_operand())
        if self.accept("("):
            inner = self.parse_logical()
            self.expect(")")
            return self.parse_methods(inner)
        token = self.token
        self.at += 1
        match token.kind:
            case "text":
                if re.search(r"\\(?![\"'\\])", token.text):
                    self.at -= 1
                    raise self.error()  # an escape such as \n
                return self.parse_methods(ex.Literal(re.sub(r"\\(.)", r"\1", token.text[1:-1])))
            case "number":
                return ex.Literal(self.read_number(token))
            case "name" if token.text in ("true", "false"):
                return ex.Literal(token.text == "true")
            case "name" if token.text == "null":
                return ex.Literal(None)
            case "name" if token.text == self.event:
                return self.parse_methods(self.parse_column())
        self.at -= 1
        raise self.error()

    def read_number(self, token: Token) -> int | float:
        digits = token.text.rstrip("LlFfDd")
        if re.match(r"0\d", digits):
            hint = "leave out the 0 before it, if it is not meant"
            raise self.source.error_at("a number that begins with 0 is octal in Java", token.start, token.end, hint)
        value = float(digits) if "." in digits else int(digits)
        if token.text[-1] in "Ff" and float(np.float32(value)) != value:
            message = f"{token.text} is not {digits}: a float has no such value"
            raise self.source.error_at(message, token.start, token.end, "write a double")
        return value

    def parse_column(self) -> ex.Expression:
        """Parse `e.price`, `e.price()`, `e.getPrice()`, `e.getPrice` or `e.isPaid()`."""
        self.expect(".")
        name = self.parse_name()
        if self.accept("("):
            self.expect(")")
            flag = re.fullmatch(r"is([A-Z]\w*)", name)
            name = name if flag is None else flag[1][0].lower() + flag[1][1:]
        return ex.Attribute(self.variable, _column_of_getter(name))

    def parse_name(self) -> str:
        token = self.token
        if token.kind != "name":
            raise self.error()
        self.at += 1
        return token.text

    def parse_methods(self, value: ex.Expression) -> ex.Expression:
        """Parse `.equals(x)` and `.startsWith("x")` of a value."""
        while self.at + 1 < len(self.tokens) and self.accept("."):
            method = self.expect("equals", *_TEXT_METHODS)
            self.expect("(")
            argument = self.parse_arithmetic()
            self.expect(")")
            value = self.compare_text(value, method, argument)
        return value

    def compare_text(self, value: ex.Expression, method: str, argument: ex.Expression) -> ex.Expression:
        if method == "equals":
            return ex.Comparison("=", value, argument)
        if (
            not isinstance(argument, ex.Literal)
            or not isinstance(argument.value, str)
            or set(argument.value) & set("%_\\")
        ):
            self.at -= 1
            raise self.error()
        return ex.Like(value, _TEXT_METHODS[method].format(argument.value))
