"""The result of a translation: queries with notes, or an error at the place that cannot be translated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from motet.errors import Diagnostic, QueryError
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.model.span import Span


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
    """A text to translate, with its origin for error messages."""

    text: str
    origin: str

    def span(self, start: int, end: int | None = None) -> Span:
        """Return the span between two offsets."""
        start = min(max(start, 0), len(self.text))
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        return Span(start, max(start + 1, end if end is not None else start + 1), line, column)

    def error_at(self, message: str, start: int, end: int | None = None, hint: str | None = None) -> QueryError:
        """Return the error for a place that cannot be translated."""
        return QueryError([Diagnostic(message, self.span(start, end), hint=hint)], self.text, self.origin)

    def errors_at(self, diagnostics: Iterable[Diagnostic], start: int, end: int) -> QueryError:
        """Return errors of text that was made from a place, shown at that place."""
        span = self.span(start, end)
        return QueryError(
            [Diagnostic(found.message, span, found.query, found.hint) for found in diagnostics], self.text, self.origin
        )
