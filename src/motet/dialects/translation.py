"""What all dialects share: the text to translate, its tokens and errors, event types, and the translation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from motet.errors import Diagnostic, QueryError
from motet.language.printer import to_text
from motet.model.expression import Attribute, Comparison, Expression, IsNull, Literal, conjoin
from motet.model.names import rewrite_leaves
from motet.model.pattern import Event, Pattern, Seq, children
from motet.model.query import EventDefinition, Query, Workload
from motet.model.span import Span
from motet.model.validate import find_problems


@dataclass(frozen=True, slots=True)
class Translation:
    """Queries that mean what a text of another system means, as long as the notes hold."""

    workload: Workload
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the queries in our language, the notes above them."""
        comments = "".join(f"-- {line}\n" for line in self.notes)
        return comments + ("\n" if comments else "") + to_text(self.workload)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text to translate, the columns that hold time and type of the data, and what to call the query."""

    text: str
    origin: str
    time: str
    type: str
    name: str

    def span(self, start: int, end: int | None = None) -> Span:
        """Return the span between two offsets."""
        start = min(max(start, 0), len(self.text))
        return Span.of(self.text, start, start if end is None else end)

    def error_at(self, message: str, start: int, end: int | None = None, hint: str | None = None) -> QueryError:
        """Return the error for a place that cannot be translated."""
        return QueryError([Diagnostic(message, self.span(start, end), hint=hint)], self.text, self.origin)

    def errors_at(self, diagnostics: Iterable[Diagnostic], start: int, end: int) -> QueryError:
        """Return errors of text that was made from a place, shown at that place."""
        span = self.span(start, end)
        return QueryError(
            [Diagnostic(found.message, span, found.query, found.hint) for found in diagnostics], self.text, self.origin
        )

    def finish(
        self, query: Query, definitions: Sequence[EventDefinition], notes: Sequence[str], start: int, end: int
    ) -> Translation:
        """Return the translation of the text between two offsets, unless its query is not valid."""
        workload = Workload((query,), tuple(definitions))
        found = [problem for problem in find_problems(workload) if not problem.warning]
        if found:
            raise self.errors_at(found, start, end)
        return Translation(workload, tuple(notes))


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text; `kind` is the group of the pattern that it matched."""

    text: str
    kind: str
    start: int
    end: int


class TokenParser:
    """The tokens of a part of a text, read one after another; each is a named group of a pattern."""

    def __init__(self, source: SourceText, pattern: re.Pattern[str], start: int, end: int) -> None:
        self.source = source
        self.end = end
        self.at = 0
        self.tokens = [
            Token(found.group(found.lastgroup), found.lastgroup, found.start(found.lastgroup), found.end())
            for found in pattern.finditer(source.text, start, end)
            if found.lastgroup is not None
        ]

    @property
    def token(self) -> Token:
        """Return the current token, an empty one after the last."""
        return self.tokens[self.at] if self.at < len(self.tokens) else Token("", "", self.end - 1, self.end)

    def accept(self, *texts: str) -> str | None:
        """Pass over the current token if it is one of these, and return it."""
        text = self.token.text
        if not text or text not in texts:
            return None
        self.at += 1
        return text


def build_sequence(parts: Sequence[Pattern]) -> Pattern:
    """Return a SEQ of parts, or the only one."""
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))


def named_events(pattern: Pattern) -> Iterator[Event]:
    """Yield all events of a pattern, those that it forbids as well."""
    if isinstance(pattern, Event):
        yield pattern
    for part in children(pattern):
        yield from named_events(part)


def extract_type(conditions: Sequence[Expression], variable: str, type: str) -> tuple[str | None, list[Expression]]:
    """Return the type that one of the conditions asks for, `variable.type = 'x'`, and the other conditions."""
    for at, condition in enumerate(conditions):
        match condition:
            case Comparison("=", Attribute(owner, name), Literal(str(text))) | Comparison(
                "=", Literal(str(text)), Attribute(owner, name)
            ) if owner == variable and name.lower() == type.lower():
                return text, [*conditions[:at], *conditions[at + 1 :]]
    return None, list(conditions)


def define_type(name: str, conditions: Sequence[Expression], type: str) -> EventDefinition:
    """Define a type of the rows that satisfy conditions on one variable; of all rows where there are none."""
    bare = [rewrite_leaves(condition, lambda leaf: Attribute("", leaf.name or "")) for condition in conditions]
    return EventDefinition(name, conjoin(bare or [IsNull(Attribute("", type), negated=True)]))


def assign_type(
    variable: str, conditions: Sequence[Expression], source: SourceText, default: str
) -> tuple[str, list[Expression], list[EventDefinition]]:
    """Return the type of a variable's events, the conditions that remain, and the definition of the type if it is new.

    Where no condition names a type, one with the default name is defined by all of them.
    """
    type, others = extract_type(conditions, variable, source.type)
    return (default, [], [define_type(default, conditions, source.type)]) if type is None else (type, others, [])
