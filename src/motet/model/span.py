"""Where a piece of a query stands in its source text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text: character offsets, and the line and column (from 1) of its start."""

    start: int
    end: int
    line: int
    column: int


def span_field() -> Any:
    """Return a dataclass field for a node's span: kept for messages, ignored by equality."""
    return field(default=None, compare=False, repr=False, kw_only=True)
