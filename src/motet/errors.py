"""What motet raises: every message names the query and the place, says what was expected, and suggests."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from motet.model.span import Span

SHOWN_LETTERS, SHOWN_BEFORE = 240, 120  # of a line of a query in a message, and those before the place


class MotetError(Exception):
    """Any problem that a user can act on."""


class OptionError(MotetError, ValueError):
    """An option is unknown, has a value that it cannot have, or does not apply to what is done."""


class DataError(MotetError):
    """The event data cannot be read or does not have the shape asked for."""


class UnreadableError(DataError):
    """Files that exist but do not hold what their name says: found only by reading them."""


class RunError(MotetError):
    """A run that started could not finish."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem of a workload: what is wrong, where, and what to do."""

    message: str
    span: Span | None = None
    query: str | None = None
    hint: str | None = None
    warning: bool = False

    def render(self, text: str, origin: str) -> str:
        """Return the message with its place and, where the source is known, the line and a caret."""
        kind = "warning" if self.warning else "error"
        inside = f" (query {self.query})" if self.query else ""
        place = f"{origin}:{self.span.line}:{self.span.column}: " if self.span else f"{origin}: "
        lines = [f"{place}{kind}: {self.message}{inside}"]
        if self.span and text:
            source = text.splitlines()[self.span.line - 1] if self.span.line <= len(text.splitlines()) else ""
            gutter = f"{self.span.line:>5} | "
            # Of a long line, what is around the place.
            cut = max(self.span.column - 1 - SHOWN_BEFORE, 0) if len(source) > SHOWN_LETTERS else 0
            shown = source[cut : cut + SHOWN_LETTERS].expandtabs(1)
            column = self.span.column - 1 - cut
            width = max(1, min(self.span.end - self.span.start, len(shown) - column))
            shown = ("..." if cut else "") + shown + ("..." if len(source) > cut + SHOWN_LETTERS else "")
            lines += [gutter + shown, " " * (len(gutter) + 3 * bool(cut) + column) + "^" * width]
        if self.hint:
            lines.append(f"      = {self.hint}")
        return "\n".join(lines)


class QueryError(MotetError):
    """The query text is wrong: all of its problems at once."""

    def __init__(self, diagnostics: Iterable[Diagnostic], text: str = "", origin: str = "<text>") -> None:
        self.diagnostics = tuple(diagnostics)
        self.text = text
        self.origin = origin
        super().__init__("\n".join(d.render(text, origin) for d in self.diagnostics))


def find_nearest(word: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """Find the known word that a misspelt one is close to, if any."""
    lowered = {choice.lower(): choice for choice in known}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=cutoff)
    return lowered[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a hint that names the known word nearest to a misspelt one, or lists a few where none is near."""
    choices = sorted(set(known))
    nearest = find_nearest(word, choices, 0.6)
    if nearest is not None:
        return f"did you mean {nearest!r}?"
    if choices:
        shown = ", ".join(choices[:8]) + (", ..." if len(choices) > 8 else "")
        return f"known here: {shown}"
    return None


def require_columns(
    known: Sequence[str], names: Iterable[str], origin: str | None = None, what: str = "column"
) -> None:
    """Raise a `DataError` for the first of these columns that the events lack.

    Args:
        known: The columns that there are.
        names: The columns that are needed.
        origin: Where the events come from, to be named in the message.
        what: What such a column is called in the message.
    """
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            if origin is None:
                raise DataError(f"the events have no {what} {name!r}" + (f"; {hint}" if hint else ""))
            near = f"; {hint}" if hint and hint.startswith("did you mean") else ""
            raise DataError(f"{origin} has no column {name!r}{near}\n  its columns: {', '.join(known)}")
