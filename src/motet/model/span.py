"""Where a piece of a query stands in its source text."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text: character offsets, and the line and column (from 1) of its start."""

    start: int
    end: int
    line: int
    column: int

    @staticmethod
    def of(text: str, start: int, end: int) -> Span:
        """Return the stretch between two offsets of a text, of at least one character."""
        return Span(start, max(start + 1, end), text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))


@dataclass(frozen=True, slots=True)
class QueryNode:
    """A piece of a query. Where it stands is kept for messages and ignored by equality."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)
