"""Parses Flink CEP's patterns as they stand in Java or Scala: Pattern.begin("a").where(...).next("b")...

The text holds patterns, what they are assigned to, and at most one CEP.pattern(stream, pattern). Every statement, call
and argument is understood or refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from motet.dialects.flink_conditions import parse_condition, parse_key
from motet.dialects.translation import SourceText, Token, TokenParser
from motet.model.expression import Expression, Logical, conjoin, conjuncts
from motet.model.window import UNITS

# Texts in quotes stay; comments become blanks, so that places stay what they are.
_PASSED = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<number>\d[\w.]*)|(?P<name>[A-Za-z_$]\w*)
    |(?P<mark>->|=>|::|==|!=|<=|>=|&&|\|\||\S))""",
    re.VERBOSE,
)
_IMPORT = re.compile(r"^\s*(?:import|package)\s+[\w.*{}, ]+;?", re.MULTILINE)

_RELATIONS = ("next", "followedBy", "followedByAny", "notNext", "notFollowedBy")
SKIPPING = ("noSkip", "skipToNext", "skipPastLastEvent")
_DECLARATION = frozenset("<>?,.[]:")
_CLASSES = ("Pattern", "CEP", "AfterMatchSkipStrategy", "Time", "Duration", "WithinType")
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class MethodCall:
    """A call in a chain: its name, where it begins and ends, and where each of its arguments lies."""

    source: SourceText
    name: str
    start: int
    end: int
    arguments: tuple[tuple[int, int], ...]

    def error_at_call(self, message: str, hint: str | None = None) -> Exception:
        """Return the error that this call cannot be translated."""
        return self.source.error_at(message, self.start, self.end, hint)


@dataclass(eq=False)
class Step:
    """One step of a pattern: a named event or, where `group` is given, a whole pattern."""

    name: str
    relation: str
    call: MethodCall
    previous: Step | None = None
    group: Step | None = None
    conditions: list[Expression] = field(default_factory=list)
    low: int = 1
    high: int | None = 1
    inner: str = "relaxed"
    until: Expression | None = None
    within: int | None = None
    skip: str = "noSkip"
    said: dict[str, MethodCall] = field(default_factory=dict)

    @property
    def is_optional(self) -> bool:
        """Return whether a match may leave the step out."""
        return "optional" in self.said

    @property
    def is_repeated(self) -> bool:
        """Return whether the step may take more than one event (or round of its group)."""
        return self.high != 1

    @property
    def is_not(self) -> bool:
        """Return whether the step forbids events."""
        return self.relation.startswith("not")

    def chain(self) -> list[Step]:
        """Return the steps of the pattern that ends here, from the first on."""
        return [*(self.previous.chain() if self.previous else ()), self]


@dataclass(frozen=True, slots=True)
class _Class:
    name: str


@dataclass(frozen=True, slots=True)
class _Stream:
    key: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Length:
    microseconds: int


@dataclass(frozen=True, slots=True)
class _Constant:
    name: str


@dataclass(frozen=True, slots=True)
class FlinkQuery:
    """What a text asks: the steps of its pattern, and the columns that key the stream, if some do."""

    steps: list[Step]
    key: tuple[str, ...] | None


_Value = _Class | _Stream | _Length | _Constant | Step | FlinkQuery


def parse_flink(source: SourceText) -> FlinkQuery:
    """Parse the one pattern in a text."""
    text = _PASSED.sub(lambda found: found[1] or _blank_out(found[0]), source.text)
    text = _IMPORT.sub(lambda found: _blank_out(found[0]), text)
    return _Parser(replace(source, text=text), 0, len(text), {}, []).parse_statements()


def _blank_out(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


class _Parser(TokenParser):
    """Parses statements, or one expression that is an argument; `values` are those of the variables so far."""

    def __init__(self, source: SourceText, start: int, end: int, values: dict[str, _Value], steps: list[Step]) -> None:
        super().__init__(source, _TOKEN, start, end)
        self.values = values
        self.steps = steps

    # Statements

    def parse_statements(self) -> FlinkQuery:
        found: FlinkQuery | None = None
        keyed: Token | None = None
        while self.at < len(self.tokens):
            if self.accept(";"):
                continue
            first = self.token
            if found is not None:
                message = "nothing is translated after CEP.pattern(...)"
                raise self.source.error_at(message, first.start, first.end, "end the text there")
            name = self.accept_declaration()
            value = self.parse_expression()
            if isinstance(value, FlinkQuery):
                found = value
            elif isinstance(value, _Stream) and (name is None or value.key is None):
                raise self.error_at_token(first, "this statement is not understood", "give only patterns and keyBy")
            elif name is not None:
                self.values[name] = value
            keyed = first if isinstance(value, _Stream) else keyed
        if found is not None:
            return found
        if keyed is not None:
            message = "this stream is not given to a CEP.pattern(...)"
            raise self.error_at_token(keyed, message, "as in CEP.pattern(events.keyBy(e -> e.user), pattern)")
        used = {id(each) for step in self.steps for each in (step.previous, step.group)}
        ends = [step for step in self.steps if id(step) not in used]
        if not ends:
            message = "there is no Pattern.begin(...) here"
            raise self.source.error_at(message, 0, hint='as in Pattern.begin("a").next("b")')
        if len(ends) > 1:
            begin = ends[1].chain()[0].call
            raise begin.error_at_call("there is a second pattern here", "translate one at a time")
        return FlinkQuery(ends[0].chain(), None)

    def accept_declaration(self) -> str | None:
        """Pass over `Pattern<Event, ?> name =`, and return the name."""
        at = self.at
        while at < len(self.tokens) and (self.tokens[at].kind == "name" or self.tokens[at].text in _DECLARATION):
            at += 1
        if at == self.at or at == len(self.tokens) or self.tokens[at].text != "=":
            return None
        header = self.tokens[self.at : at]
        name = header[1] if header[0].text in ("val", "var") and len(header) > 1 else header[-1]
        if name.kind != "name":
            raise self.error_at_token(name)
        self.at = at + 1
        return name.text

    def error_at_token(self, token: Token, message: str | None = None, hint: str | None = None) -> Exception:
        message = message or (f"'{token.text}' is not understood here" if token.text else "this ends too early")
        return self.source.error_at(message, token.start, token.end, hint)

    def expect(self, text: str) -> Token:
        token = self.token
        if self.accept(text) is None:
            raise self.error_at_token(token)
        return token

    # Expressions

    def parse_argument(self) -> _Value:
        """Parse the one expression between the offsets of this parser."""
        value = self.parse_expression()
        if self.at < len(self.tokens):
            raise self.error_at_token(self.token)
        return value

    def parse_expression(self) -> _Value:
        root = self.token
        if root.kind != "name" or root.text in ("new", "lambda", "return", "class", "public"):
            raise self.error_at_token(root, None, "give only patterns, keyBy and CEP.pattern(...)")
        self.at += 1
        value = self.values.get(root.text) or (_Class(root.text) if root.text in _CLASSES else _Stream(None))
        while self.accept("."):
            self.pass_types("<", ">")
            name = self.token
            if name.kind != "name":
                raise self.error_at_token(name)
            self.at += 1
            self.pass_types("[", "]")
            arguments, end = self.parse_arguments() if self.token.text == "(" else (None, name.end)
            call = MethodCall(self.source, name.text, name.start, end, arguments or ())
            value = self.apply_call(value, call, has_brackets=arguments is not None)
        if isinstance(value, _Class):
            raise self.error_at_token(root)
        return value

    def pass_types(self, opening: str, closing: str) -> None:
        """Pass over the types of a generic method."""
        if self.accept(opening):
            while self.accept(closing) is None:
                token = self.token
                if token.kind != "name" and token.text not in (",", ".", "?"):
                    raise self.error_at_token(token)
                self.at += 1

    def parse_arguments(self) -> tuple[tuple[tuple[int, int], ...], int]:
        """Return where the arguments of a call lie, and where the call ends."""
        opening = self.expect("(")
        arguments: list[tuple[int, int]] = []
        start, depth = opening.end, 1
        while self.at < len(self.tokens):
            token = self.token
            self.at += 1
            if token.kind != "mark":
                continue
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if depth == 0 or (depth == 1 and token.text == ","):
                arguments.append((start, token.start))
                start = token.end
            if depth == 0:
                is_empty = len(arguments) == 1 and not self.source.text[slice(*arguments[0])].strip()
                return () if is_empty else tuple(arguments), token.end
        raise self.error_at_token(opening, "this bracket is never closed", "add a )")

    def evaluate(self, place: tuple[int, int]) -> _Value:
        return _Parser(self.source, *place, self.values, self.steps).parse_argument()

    # Calls

    def apply_call(self, value: _Value, call: MethodCall, has_brackets: bool) -> _Value:
        match value:
            case Step():
                return self.apply_to_step(value, call)
            case _Class("Pattern") if call.name == "begin":
                return self.parse_begin(call)
            case _Class("CEP") if call.name == "pattern":
                return self.parse_application(call)
            case _Class("Time" | "Duration" as name):
                return _Length(
                    self.parse_length(call, re.sub("^of", "", call.name) if name == "Duration" else call.name)
                )
            case _Length(before) if call.name.startswith("plus"):
                return _Length(before + self.parse_length(call, call.name.removeprefix("plus")))
            case _Class("AfterMatchSkipStrategy") if call.name in SKIPPING and not call.arguments:
                return _Constant(call.name)
            case _Class("AfterMatchSkipStrategy"):
                raise call.error_at_call(
                    "this strategy drops matches that motet gives", f"{', '.join(SKIPPING)} are known"
                )
            case _Class("WithinType") if not has_brackets:
                return _Constant(call.name)
            case _Stream(None) if call.name == "keyBy":
                if len(call.arguments) != 1:
                    raise call.error_at_call(
                        "keyBy takes one key here", "as in keyBy(e -> e.user) or keyBy(e -> Tuple2.of(e.user, e.shop))"
                    )
                return _Stream(parse_key(self.source, *call.arguments[0]))
            case FlinkQuery() if call.name == "inEventTime" and not call.arguments:
                return value
            case FlinkQuery():
                hint = "end the text at CEP.pattern(...): motet returns every match"
                raise call.error_at_call(f"{call.name}(...) of a pattern stream is not translated", hint)
            case _Stream():
                message = f"{call.name}(...) of a stream is not translated: it may change which events there are"
                raise call.error_at_call(message, "give motet the events it leads to")
        raise call.error_at_call(f"{call.name} is not understood here")

    def parse_application(self, call: MethodCall) -> FlinkQuery:
        """Read CEP.pattern(stream, pattern)."""
        if len(call.arguments) != 2:
            raise call.error_at_call(
                "CEP.pattern takes a stream and a pattern here", "as in CEP.pattern(events, pattern)"
            )
        stream, pattern = (self.evaluate(argument) for argument in call.arguments)
        if not isinstance(stream, _Stream) or not isinstance(pattern, Step):
            raise call.error_at_call("CEP.pattern takes a stream and a pattern", "as in CEP.pattern(events, pattern)")
        return FlinkQuery(pattern.chain(), stream.key)

    def parse_begin(self, call: MethodCall) -> Step:
        if len(call.arguments) not in (1, 2):
            raise call.error_at_call("begin takes a name, and perhaps a strategy", 'as in Pattern.begin("a")')
        step = self.parse_named(call, None)
        for place in call.arguments[1:]:
            strategy = self.evaluate(place)
            if not isinstance(strategy, _Constant) or strategy.name not in SKIPPING:
                message = "this strategy may drop matches that motet gives"
                raise self.source.error_at(
                    message, *place, "show where it comes from, as AfterMatchSkipStrategy.noSkip()"
                )
            step.skip = strategy.name
        return step

    def parse_named(self, call: MethodCall, previous: Step | None) -> Step:
        """Read the name of a step, or the pattern that is one."""
        found = re.fullmatch(r"""\s*["']([^"'\\]*)["']\s*""", self.source.text[slice(*call.arguments[0])])
        if found is not None:
            step = Step(found[1], call.name, call, previous)
        else:
            group = self.evaluate(call.arguments[0])
            if not isinstance(group, Step):
                message = f"{call.name} takes the name of a step, or a pattern"
                raise self.source.error_at(message, *call.arguments[0], 'as in next("b")')
            step = Step("", call.name, call, previous, group)
        self.steps.append(step)
        return step

    def apply_to_step(self, step: Step, call: MethodCall) -> Step:
        if call.name in _RELATIONS:
            if len(call.arguments) != 1:
                raise call.error_at_call(f"{call.name} takes a name", f'as in {call.name}("b")')
            return self.parse_named(call, step)
        apply = _QUANTIFIERS.get(call.name)
        if apply is not None:
            if call.name in step.said:
                raise call.error_at_call(f"{call.name} is said twice of one step", "say it once")
            apply(self, step, call)
            step.said[call.name] = call
        elif call.name in ("where", "or"):
            self.add_condition(step, call)
        elif call.name == "within":
            step.within = self.parse_window(step, call)
        else:
            shown = self.source.text[call.start : call.end]
            raise call.error_at_call(f"{shown} is not translated", "leave it out, and write what it asks in WHERE")
        return step

    def add_condition(self, step: Step, call: MethodCall) -> None:
        if step.group is not None:
            raise call.error_at_call(
                f"{call.name} of a group of steps is not translated", "give the steps their conditions"
            )
        found = self.parse_condition(step, call)
        if call.name == "where" or not step.conditions:
            step.conditions += conjuncts(found)
        else:
            step.conditions = [Logical("OR", (conjoin(step.conditions), found))]

    def parse_condition(self, step: Step, call: MethodCall) -> Expression:
        if len(call.arguments) != 1:
            raise call.error_at_call(f"{call.name} takes one condition", f"as in {call.name}(e -> e.price > 10)")
        return parse_condition(self.source, *call.arguments[0], step.name)

    def parse_window(self, step: Step, call: MethodCall) -> int:
        if step.within is not None:
            raise call.error_at_call("within is said twice", "say it once")
        values = [self.evaluate(place) for place in call.arguments]
        match values:
            case [_Length(length)] | [_Length(length), _Constant("FIRST_AND_LAST")] if length > 0:
                return length
            case [_Length(), _Constant("PREVIOUS_AND_CURRENT")]:
                hint = "WITHIN spans all of a match"
                raise call.error_at_call("a window between each event and the one before has no equal", hint)
        raise call.error_at_call("this length of time is not understood", "as in within(Duration.ofMinutes(10))")

    def parse_length(self, call: MethodCall, unit: str) -> int:
        """Return the microseconds of a call such as ofMinutes(10)."""
        unit = {"millis": "ms", "milliseconds": "ms", "nanos": ""}.get(unit.lower(), unit.lower())
        if unit not in UNITS or len(call.arguments) != 1:
            raise call.error_at_call(
                "this length of time is not understood", "as in Duration.ofMinutes(10) or Time.minutes(10)"
            )
        return self.parse_number(call, call.arguments[0]) * UNITS[unit]

    def parse_number(self, call: MethodCall, place: tuple[int, int]) -> int:
        found = re.fullmatch(r"\s*(\d+)[Ll]?\s*", self.source.text[slice(*place)])
        if found is None:
            raise self.source.error_at(f"{call.name} takes whole numbers", *place, f"as in {call.name}(2)")
        return int(found[1])

    # Quantifiers

    def repeat(self, step: Step, call: MethodCall) -> None:
        other = next((word for word in ("times", "oneOrMore", "timesOrMore") if word in step.said), None)
        if other is not None or step.is_not:
            raise call.error_at_call(f"{call.name} is not allowed here", "a step is repeated once")
        numbers = [self.parse_number(call, place) for place in call.arguments]
        match call.name, numbers:
            case "oneOrMore", []:
                step.low, step.high = 1, None
            case "timesOrMore", [low] if low > 0:
                step.low, step.high = low, None
            case "times", [count] if count > 0:
                step.low, step.high = count, count
            case "times", [low, high] if 0 <= low < high or 0 < low == high:
                step.low, step.high = max(low, 1), high
                if low == 0:
                    raise call.error_at_call("times(0, n) is not translated", "write times(1, n).optional()")
            case _:
                raise call.error_at_call(f"these arguments of {call.name} are not understood", "as in times(2, 4)")

    def set_optional(self, step: Step, call: MethodCall) -> None:
        self.refuse_arguments(call)
        if step.is_not:
            raise call.error_at_call("a step that forbids events cannot be optional", "leave it out")

    def set_inner(self, step: Step, call: MethodCall) -> None:
        self.refuse_arguments(call)
        if step.inner != "relaxed" or not {"times", "oneOrMore", "timesOrMore"} & step.said.keys():
            raise call.error_at_call(
                f"{call.name} is only for a step that is repeated", "say it after oneOrMore or times"
            )
        step.inner = {"consecutive": "next", "allowCombinations": "any"}[call.name]

    def set_greedy(self, step: Step, call: MethodCall) -> None:
        self.refuse_arguments(call)
        if step.group is not None or not {"times", "oneOrMore", "timesOrMore"} & step.said.keys():
            raise call.error_at_call("greedy is only for one step that is repeated", "say it after oneOrMore or times")

    def set_until(self, step: Step, call: MethodCall) -> None:
        if step.group is not None or step.high is not None:
            raise call.error_at_call(
                "until is only for one step that is repeated without end", "say it after oneOrMore"
            )
        step.until = self.parse_condition(step, call)

    def refuse_arguments(self, call: MethodCall) -> None:
        if call.arguments:
            raise call.error_at_call(f"{call.name} takes no argument", f"write {call.name}()")


_QUANTIFIERS: dict[str, Callable[[_Parser, Step, MethodCall], None]] = {
    "times": _Parser.repeat,
    "oneOrMore": _Parser.repeat,
    "timesOrMore": _Parser.repeat,
    "optional": _Parser.set_optional,
    "consecutive": _Parser.set_inner,
    "allowCombinations": _Parser.set_inner,
    "greedy": _Parser.set_greedy,
    "until": _Parser.set_until,
}
