"""Cut SQL into tokens that keep their places, and write stretches of them in the quotes of an engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from motet.errors import Diagnostic, QueryError
from motet.model.span import Span

Dialect = Literal["duckdb", "spark"]

_COMMON = r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
  | (?P<text>{text})
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\w*)
  | (?P<name>[^\W\d][\w$]*)
  | (?P<mark>\{{-|-\}}|<=>|<=|>=|<>|!=|==|\|\||::|->|=>|//|.)
"""
# In DuckDB's texts a backslash stands for itself, unless the text begins with an e; Spark's escape with it.
_TEXTS = {
    "duckdb": r"[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$",
    "spark": r"[rR]'[^']*'|'(?:[^'\\]|\\.|'')*'",
}
_PATTERNS = {dialect: re.compile(_COMMON.format(text=text), re.VERBOSE | re.DOTALL) for dialect, text in _TEXTS.items()}
_QUOTES = {"duckdb": '"', "spark": "`"}


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A piece of SQL: a name, a quoted name, a text, a number or a mark, and the offsets where it stands."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The token in capitals where it is a name or mark, else nothing: what keywords are compared with."""
        return self.text.upper() if self.kind in ("name", "mark") else ""

    @property
    def identifier(self) -> str | None:
        """The name that a token is, without quotes."""
        if self.kind == "quoted":
            quote = self.text[0]
            return self.text[1:-1].replace(quote * 2, quote)
        return self.text if self.kind == "name" else None

    @property
    def variable(self) -> str | None:
        """The name of a variable that a token is: in capitals unless it is quoted."""
        return self.identifier if self.kind == "quoted" else self.text.upper() if self.kind == "name" else None


class SqlText:
    """A statement as tokens, for one engine."""

    def __init__(self, text: str, origin: str, dialect: Dialect) -> None:
        self.text = text
        self.origin = origin
        self.dialect = dialect
        self.tokens = self._split()

    def _split(self) -> list[SqlToken]:
        tokens = []
        at = 0
        while (found := _PATTERNS[self.dialect].match(self.text, at)) is not None:
            at = found.end()
            kind = "text" if found.lastgroup == "tag" else found.lastgroup or "mark"
            if kind == "mark" and found.group() in "'\"`":
                raise self.error_at_offsets("this quote is never closed", found.start(), found.end())
            if kind == "comment":
                at = self._find_comment_end(at)
            elif kind != "space":
                tokens.append(SqlToken(kind, found.group(), found.start(), found.end()))
        return _split_anchors(tokens)

    def _find_comment_end(self, at: int) -> int:
        """Return the offset behind a comment that begins before an offset; comments may stand in each other."""
        start, depth = at - 2, 1
        for mark in re.compile(r"/\*|\*/").finditer(self.text, at):
            depth += 1 if mark.group() == "/*" else -1
            if depth == 0:
                return mark.end()
        raise self.error_at_offsets("this comment is never closed", start, at)

    def word(self, at: int) -> str:
        """Return the keyword or mark at a place, nothing behind the end."""
        return self.tokens[at].word if 0 <= at < len(self.tokens) else ""

    def error_at(self, message: str, first: int, last: int | None = None, hint: str | None = None) -> QueryError:
        """Return the error at tokens `first` to `last` (exclusive)."""
        if not self.tokens:
            return self.error_at_offsets(message, 0, 1, hint)
        first = min(first, len(self.tokens) - 1)
        end = self.tokens[min(max(last or 0, first + 1), len(self.tokens)) - 1].end
        return self.error_at_offsets(message, self.tokens[first].start, end, hint)

    def error_at_offsets(self, message: str, start: int, end: int, hint: str | None = None) -> QueryError:
        """Return the error at offsets of the text."""
        return QueryError([Diagnostic(message, Span.of(self.text, start, end), hint=hint)], self.text, self.origin)

    def find_closing(self, at: int) -> int:
        """Return the place of the bracket that closes the one at a place."""
        depth = 0
        for place in range(at, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.word(place), 0)
            if depth == 0:
                return place
        raise self.error_at("this bracket is never closed", at, hint="add a )")

    def find_opening(self, at: int, first: int) -> int:
        """Return the place of the bracket, from token `first` on, that the one at a place closes."""
        depth = 0
        for place in range(at, first - 1, -1):
            depth += {")": 1, "(": -1}.get(self.word(place), 0)
            if depth == 0:
                return place
        return first

    def render(self, first: int, last: int, replaced: dict[int, tuple[int, str]] | None = None) -> str:
        """Return tokens `first` to `last` as text in the engine's quotes, with the spaces and comments between them.

        Args:
            first: The first token.
            last: The token behind the last.
            replaced: For a token, the token behind the last of a stretch that another text replaces, and that text.
        """
        return "".join(text for text, _, _ in self._render_tokens(first, last, replaced or {}))

    def find_rendered(
        self, first: int, last: int, replaced: dict[int, tuple[int, str]], offset: int
    ) -> tuple[int, int]:
        """Return which tokens stand at an offset of what `render` gives, as the first and the one behind the last."""
        end = 0
        for text, start, following in self._render_tokens(first, last, replaced):
            end += len(text)
            if offset < end and start < following:
                return start, following
        return first, last

    def _render_tokens(
        self, first: int, last: int, replaced: dict[int, tuple[int, str]]
    ) -> Iterator[tuple[str, int, int]]:
        """Yield texts, and the tokens that each is made of: none for what stands between tokens."""
        at = first
        while at < last:
            if at > first:
                yield self.text[self.tokens[at - 1].end : self.tokens[at].start], at, at
            if at in replaced:
                following, shown = replaced[at]
                yield f" {shown} ", at, following  # in the text, a bracket may have stood next to a word
            else:
                following = at + 1
                yield self._requote(self.tokens[at]), at, following
            at = following

    def _requote(self, token: SqlToken) -> str:
        return quote(token.identifier or "", self.dialect) if token.kind == "quoted" else token.text

    def split_at_commas(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the parts between commas that stand in no bracket."""
        parts, depth, start = [], 0, first
        for at in range(first, last):
            word = self.word(at)
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(word, 0)
            if word == "," and depth == 0:
                parts.append((start, at))
                start = at + 1
        return [*parts, (start, last)]


class TokenReader:
    """The tokens of a statement between two places, read one after another."""

    def __init__(self, sql: SqlText, first: int, last: int) -> None:
        self.sql = sql
        self.at = first
        self.last = last

    @property
    def word(self) -> str:
        """The keyword or mark that comes next, nothing at the end."""
        return self.sql.word(self.at) if self.at < self.last else ""

    def accept(self, *words: str) -> bool:
        """Pass over these words if they come next."""
        if self.at + len(words) > self.last or any(self.sql.word(self.at + n) != word for n, word in enumerate(words)):
            return False
        self.at += len(words)
        return True


def _split_anchors(tokens: list[SqlToken]) -> list[SqlToken]:
    """Return tokens where a `$` that ends a name in a PATTERN is an anchor; elsewhere it is part of the name."""
    found: list[SqlToken] = []
    depth = 0
    for at, token in enumerate(tokens):
        if depth or (token.text == "(" and at and tokens[at - 1].word == "PATTERN"):
            depth += {"(": 1, ")": -1}.get(token.word, 0)
        name = token.text.rstrip("$")
        if depth and token.kind == "name" and name != token.text:
            end = token.start + len(name)
            found.append(SqlToken("name", name, token.start, end))
            found += (SqlToken("mark", "$", place, place + 1) for place in range(end, token.end))
        else:
            found.append(token)
    return found


def quote(name: str, dialect: Dialect) -> str:
    """Return a name in the quotes of an engine."""
    mark = _QUOTES[dialect]
    return mark + name.replace(mark, mark * 2) + mark


def quote_text(text: str, dialect: Dialect) -> str:
    """Return a text as an engine writes it."""
    escaped = text.replace("\\", "\\\\") if dialect == "spark" else text
    return "'" + escaped.replace("'", "''") + "'"
