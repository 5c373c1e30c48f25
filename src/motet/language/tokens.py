"""Cuts text into tokens and tells keywords from names by where they stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from lark import Token

from motet.errors import Diagnostic
from motet.language.syntax import grammar, nearest, span_between, span_of
from motet.model.span import Span

# Words that open a clause -> the clause.
CLAUSES = {
    "return": "RETURN",
    "pattern": "PATTERN",
    "where": "WHERE",
    "within": "WITHIN",
    "window": "WITHIN",
    "slide": "SLIDE",
    "agg": "AGG",
}
CLAUSE_TYPES = frozenset({*CLAUSES.values(), "GROUP_BY", "POLICY", "SKIP_TILL"})
OPERATORS = frozenset({"and", "or", "not", "as", "is", "null", "in", "like", "between", "true", "false"})
PATTERN_OPERATORS = ("SEQ", "AND", "OR", "NEG", "NOT", "CONJ", "DISJ", "KL")

# Every word that may mean something to the language; a name like one of them is printed in quotes.
RESERVED = frozenset(
    {*CLAUSES, *OPERATORS, *(word.lower() for word in PATTERN_OPERATORS)}
    | {"query", "event", "events", "group", "by", "group_by", "groupby", "skip", "till", "contiguous"}
    | {"timestamp", "date", "interval"}
)

_MISSPELLABLE = ("RETURN", "PATTERN", "WHERE", "WITHIN", "WINDOW", "SLIDE", "QUERY", "EVENT")
_NAMES = frozenset({"WORD", "NAME"})
_UNSETTLED = _NAMES | CLAUSE_TYPES
_OPENINGS = CLAUSE_TYPES | {"LABEL", "HEADER", "QUERY", "EVENT"}
_COMPARATORS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE"})
# After these something must follow in the same clause, so a word there opens no statement.
_EXPECTING = (
    CLAUSE_TYPES - {"POLICY"}
    | _COMPARATORS - {"GT"}
    | {"COMMA", "LPAR", "LSQB", "LBRACE", "DOT", "MINUS", "SLASH", "PERCENT", "BANG", "AMP", "BAR"}
    | {"AND", "OR", "NOT", "AS", "IS", "IN", "LIKE", "BETWEEN", "QUERY", "EVENT", "LABEL", "HEADER"}
)
# A word like a clause's is a name between one of these and one of those: `SEQ(sale, return)`.
_BEFORE_NAME = frozenset({"COMMA", "LPAR", "LSQB", "BANG", "AMP", "BAR", "NOT", "PATTERN", "GROUP_BY", "RETURN"})
_AFTER_NAME = frozenset({"RPAR", "RSQB", "COMMA", "PLUS", "STAR", "QUESTION", "LBRACE", "AMP", "BAR"})
_OPERAND_STARTS = frozenset({"WORD", "NAME", "NUMBER", "LSQB", "LT", "LPAR", "STAR"})

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def tokenize(text: str) -> tuple[list[Token], list[Diagnostic]]:
    """The tokens of a text, each word settled as a keyword or a name, and what is wrong with their letters."""
    tokens, problems = _lex(text)
    return _settle(tokens, problems), problems


def _lex(text: str) -> tuple[list[Token], list[Diagnostic]]:
    tokens: list[Token] = []
    problems: list[Diagnostic] = []

    def report(message: str, span: Span, hint: str | None = None) -> None:
        problems.append(Diagnostic(message, span, hint=hint))

    for token in grammar().lex(text):
        match token.type:
            case "UNKNOWN":
                hint = "use straight quotes" if token in "‘’“”´" else None
                report(f"the character '{token}' means nothing here", span_of(token), hint)
            case "OPEN_COMMENT":
                report("this comment is never closed", span_of(token), "expected '*/'")
            case "OPEN_STRING":
                report("this text is never closed", span_of(token), "expected a single quote at its end")
                tokens.append(_as(token, "STRING", token[1:]))
            case "OPEN_QUOTED":
                message = "a name cannot be empty" if len(token) == 2 else "this name is never closed"
                report(message, span_of(token), f"expected {token[0]} at its end")
                tokens.append(_as(token, "NAME", token[1:]))
            case "QUOTED":
                quote = token[0]
                tokens.append(_as(token, "NAME", token[1:-1].replace(quote * 2, quote)))
            case "STRING":
                tokens.append(_as(token, "STRING", token[1:-1].replace("''", "'")))
            case "ESCAPED":
                tokens.append(_as(token, "STRING", _unescape(token[2:-1])))
            case "LATEX":
                tokens.append(_as(token, "WORD", token[token.index("{") + 1 : -1].strip()))
            case _:
                tokens.append(token)
    return tokens, problems


def _unescape(text: str) -> str:
    """The text of E'...', with its backslash escapes and doubled quotes resolved."""

    def resolve(found: re.Match[str]) -> str:
        if found["code"]:
            return chr(int(found["code"], 16))
        letter = found["letter"] or "'"
        return _ESCAPES.get(letter, letter)

    return re.sub(r"\\u(?P<code>[0-9a-fA-F]{4})|\\(?P<letter>.)|''", resolve, text)


def _as(token: Token, type: str, value: str | None = None) -> Token:
    return Token.new_borrow_pos(type, str(token) if value is None else value, token)


def starts_line(token: Token, before: Token | None) -> bool:
    """Whether a token is the first of its line, or of its statement where statements are parted by semicolons."""
    if before is None or before.type == "SEMICOLON":
        return True
    return cast(int, token.line) > cast(int, before.end_line)


def _settle(tokens: Sequence[Token], problems: list[Diagnostic]) -> list[Token]:
    """Decides for every word what it is."""
    settled: list[Token] = []
    depth = 0
    index = 0
    while index < len(tokens):
        token = tokens[index]
        match token.type:
            case "LPAR" | "LSQB" | "LBRACE":
                depth += 1
            case "RPAR" | "RSQB" | "RBRACE":
                depth = max(depth - 1, 0)
        place = _Place(tokens, index, settled, depth)
        type, used = _role(place, problems) if token.type in _UNSETTLED else (token.type, 1)
        if type in _OPENINGS:
            depth = 0  # a bracket left open ends with its clause
        settled.append(_as(token, type))
        index += used
    return settled


class _Place:
    """A word and its neighbours: those before it are settled, those after it not yet."""

    def __init__(self, tokens: Sequence[Token], index: int, settled: Sequence[Token], depth: int) -> None:
        self.token = tokens[index]
        self.word = self.token.lower() if self.token.type == "WORD" else ""
        self.before = settled[-1] if settled else None
        self.names_query = len(settled) > 1 and settled[-2].type == "QUERY"
        self.defines_event = len(settled) > 2 and settled[-3].type == "EVENT"
        self.depth = depth
        self._tokens = tokens
        self._index = index

    def after(self, steps: int = 1) -> Token | None:
        place = self._index + steps
        return self._tokens[place] if place < len(self._tokens) else None

    def type_after(self, steps: int = 1) -> str:
        token = self.after(steps)
        return "" if token is None else token.type

    def word_after(self, steps: int = 1) -> str:
        token = self.after(steps)
        return token.lower() if token is not None and token.type == "WORD" else ""

    def clause_after(self, steps: int = 1) -> bool:
        return self.word_after(steps) in CLAUSES or self.type_after(steps) in CLAUSE_TYPES

    @property
    def type_before(self) -> str:
        return "" if self.before is None else self.before.type

    @property
    def starts_line(self) -> bool:
        return starts_line(self.token, self.before)

    @property
    def starts_statement(self) -> bool:
        """Whether nothing of a query has been read yet."""
        return self.type_before in ("", "SEMICOLON", "LABEL", "HEADER") or self.names_query

    @property
    def may_open(self) -> bool:
        """Whether a statement could begin here."""
        return self.starts_line and self.type_before not in _EXPECTING


def _role(place: _Place, problems: list[Diagnostic]) -> tuple[str, int]:
    """What a word is, and how many tokens that takes up."""
    if place.type_before == "QUERY" and not (place.word in CLAUSES and place.starts_line):
        return "NAME", 2 if place.type_after() in ("COLON", "EQ") else 1
    if place.type_before in ("DOT", "EVENT") or place.type_after() == "DOT":
        return "NAME", 1
    opened = _opens_statement(place)
    if opened is not None:
        return opened
    if place.type_before == "AS" and not place.defines_event:
        return "NAME", 1
    clause = CLAUSES.get(place.word) or (place.token.type if place.token.type in CLAUSE_TYPES else None)
    if clause is not None:
        return ("NAME" if _is_name_here(place) else clause), 1
    if place.token.type == "NAME":
        return "NAME", 1
    if place.word == "interval" and place.type_after() in ("NUMBER", "STRING"):
        return "INTERVAL", 1
    if place.word in OPERATORS:
        loose = place.word in ("is", "in", "like", "between") and place.type_after() in ("RPAR", "COMMA")
        return ("NAME" if loose else place.word.upper()), 1
    return _group(place, problems) or _misspelt(place, problems) or ("NAME", 1)


def _opens_statement(place: _Place) -> tuple[str, int] | None:
    """Labels `q1:`, `q1 = SEQ(...)` and a bare name before RETURN; QUERY and EVENT."""
    following = place.type_after()
    if following == "COLON":
        return ("HEADER" if place.word == "query" else "LABEL"), 2
    if following == "EQ":
        is_pattern = place.word_after(2).upper() in PATTERN_OPERATORS and place.type_after(3) == "LPAR"
        if place.may_open or (place.type_before in ("COMMA", "RPAR") and is_pattern):
            return "LABEL", 2
    follows_all = place.type_before not in _EXPECTING and following in _NAMES
    if place.word == "query" and follows_all and (place.starts_line or place.clause_after(2)):
        return "QUERY", 1
    if not place.may_open:
        return None
    if place.word == "query" and place.token.isupper():
        return "QUERY", 1
    if place.word == "event" and following in _NAMES and (place.word_after(2) == "as" or place.token.isupper()):
        return "EVENT", 1
    if place.token.type in _NAMES and place.word not in CLAUSES and _opens_query(place):
        return "LABEL", 1
    return None


def _opens_query(place: _Place) -> bool:
    """Whether RETURN or PATTERN follows a word, perhaps misspelt on the next line."""
    following = place.after()
    if following is None or following.type != "WORD":
        return False
    if following.lower() in ("return", "pattern"):
        return True
    return starts_line(following, place.token) and nearest(following, ("RETURN", "PATTERN"), 0.75) is not None


def _is_name_here(place: _Place) -> bool:
    """Whether a word like a clause's stands where only a name can."""
    before = place.type_before
    if before not in _BEFORE_NAME or (place.depth == 0 and place.starts_line):
        return False
    if place.depth == 0 and (place.clause_after() or place.after() is None):
        return True
    has_variable = place.depth > 0 and before != "LSQB" and place.type_after() in _NAMES
    return place.type_after(2 if has_variable else 1) in _AFTER_NAME


def _group(place: _Place, problems: list[Diagnostic]) -> tuple[str, int] | None:
    """GROUP BY where one of its words is misspelt or missing."""
    by = place.after()
    if place.word_after() == "by" and nearest(place.word, ("GROUP",), 0.75) and by is not None:
        span = span_between(place.token, by)
        problems.append(Diagnostic(f"unknown word '{place.token}'", span, hint="did you mean 'GROUP BY'?"))
        return "GROUP_BY", 2
    if place.word == "group" and place.type_after() in _NAMES and place.type_before not in _EXPECTING:
        problems.append(Diagnostic("GROUP must be followed by BY", span_of(place.token), hint="as in GROUP BY user"))
        return "GROUP_BY", 1
    return None


def _misspelt(place: _Place, problems: list[Diagnostic]) -> tuple[str, int] | None:
    """A word that was meant to open a clause or a statement: it is reported and taken as meant."""
    if len(place.word) < 4 or not place.word.isalpha() or place.type_after() not in _OPERAND_STARTS:
        return None
    keyword = nearest(place.word, _MISSPELLABLE, 0.75)
    if keyword is None or keyword == place.word.upper() or place.clause_after():
        return None
    if place.starts_statement:
        # `Windows w, Doors d` may be a pattern; `RETRUN COUNT(*)` and `PATERN A, B` are not.
        meant = place.token.isupper() or place.type_after(2) == "LPAR"
    elif keyword in ("QUERY", "EVENT") or place.depth > 0:
        meant = place.may_open
    else:
        inside = place.type_before in ("STAR", "PLUS", "QUESTION") or place.type_after() in ("LPAR", "STAR")
        meant = place.type_before not in _EXPECTING and (place.starts_line or not inside)
    if not meant:
        return None
    hint = f"did you mean '{keyword}'?"
    problems.append(Diagnostic(f"unknown word '{place.token}'", span_of(place.token), hint=hint))
    return CLAUSES.get(keyword.lower(), keyword), 1
