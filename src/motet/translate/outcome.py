"""What a translation gives: queries with notes on what to mind, or the place that has no equal here."""

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
        """The queries in our language, the notes above them."""
        comments = "".join(f"-- {line}\n" for line in self.notes)
        return comments + ("\n" if comments else "") + to_text(self.workload)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Source:
    """A text to translate, which tells places in it."""

    text: str
    origin: str

    def span(self, start: int, end: int | None = None) -> Span:
        """The place between two offsets."""
        start = min(max(start, 0), len(self.text))
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        return Span(start, max(start + 1, end if end is not None else start + 1), line, column)

    def refusal(self, message: str, start: int, end: int | None = None, hint: str | None = None) -> QueryError:
        """The error that a place has no equal here."""
        return QueryError([Diagnostic(message, self.span(start, end), hint=hint)], self.text, self.origin)

    def moved(self, diagnostics: Iterable[Diagnostic], start: int, end: int) -> QueryError:
        """Errors of text made from a place, shown at that place."""
        span = self.span(start, end)
        return QueryError(
            [Diagnostic(found.message, span, found.query, found.hint) for found in diagnostics], self.text, self.origin
        )
