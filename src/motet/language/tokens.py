"""Cuts text into tokens and tells keywords from names by where they stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from lark import Token

from motet.errors import Diagnostic, find_nearest
from motet.language.keywords import CLAUSE_TYPES, CLAUSES, OPERATORS, PATTERN_OPERATORS
from motet.language.syntax import grammar, span_between, span_of
from motet.model.span import Span
from motet.model.window import UNITS

_CORRECTABLE = ("RETURN", "PATTERN", "WHERE", "WITHIN", "WINDOW", "SLIDE", "HAVING", "QUERY", "EVENT")
_NAMES = frozenset({"WORD", "NAME"})
_WORDS = _NAMES | CLAUSE_TYPES
_STARTS = CLAUSE_TYPES | {"LABEL", "HEADER", "QUERY", "EVENT"}
_COMPARATORS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE"})
# After these something must follow in the same clause, so a word there opens no statement.
_INCOMPLETE = (
    CLAUSE_TYPES - {"POLICY", "AFTER_MATCH"}
    | _COMPARATORS - {"GT"}
    | {"COMMA", "LPAR", "LSQB", "LBRACE", "DOT", "MINUS", "SLASH", "PERCENT", "BANG", "AMP", "BAR"}
    | {"AND", "OR", "NOT", "AS", "IS", "IN", "LIKE", "BETWEEN", "QUERY", "EVENT", "LABEL", "HEADER"}
)
# A word like a clause's is a name between one of these and one of those: `SEQ(sale, return)`.
_BEFORE_NAME = frozenset({"COMMA", "LPAR", "LSQB", "BANG", "AMP", "BAR", "NOT", "PATTERN", "GROUP_BY", "RETURN"})
_AFTER_NAME = frozenset({"RPAR", "RSQB", "COMMA", "PLUS", "STAR", "QUESTION", "LBRACE", "AMP", "BAR"})
_OPERAND_STARTS = frozenset({"WORD", "NAME", "NUMBER", "LSQB", "LT", "LPAR", "STAR"})

_MAX_LETTERS = 500_000  # of a clause
_MAX_PROBLEMS = 100  # of letters that are reported
_CLAUSE_WORDS = re.compile(r"\b(?:QUERY|RETURN|PATTERN|WHERE|WITHIN)\b", re.IGNORECASE)

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def tokenize(text: str) -> tuple[list[Token], list[Diagnostic]]:
    """Cut a text into tokens, each word resolved as a keyword or a name, and what is wrong with their letters."""
    too_long = _find_long_clause(text)
    if too_long is not None:
        return [], [too_long]
    tokens, problems = _lex(text)
    return _resolve_words(tokens, problems), problems


def _find_long_clause(text: str) -> Diagnostic | None:
    """Find a clause that would take seconds to cut into tokens alone."""
    starts = [(0, 0), *(found.span() for found in _CLAUSE_WORDS.finditer(text))]
    for (start, end), (following, _) in pairwise([*starts, (len(text), 0)]):
        if following - start > _MAX_LETTERS:
            clause = text[start:end].upper() or "what is before the first clause"
            message = f"{clause} has {following - start:,} letters"
            return Diagnostic(message, Span.of(text, start, end), hint=f"at most {_MAX_LETTERS:,} are read")
    return None


def _lex(text: str) -> tuple[list[Token], list[Diagnostic]]:
    tokens: list[Token] = []
    problems: list[Diagnostic] = []

    def report(message: str, span: Span, hint: str | None = None) -> None:
        if len(problems) < _MAX_PROBLEMS:
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
                tokens.append(_retype(token, "STRING", token[1:]))
            case "OPEN_QUOTED":
                message = "a name cannot be empty" if len(token) == 2 else "this name is never closed"
                report(message, span_of(token), f"expected {token[0]} at its end")
                tokens.append(_retype(token, "NAME", token[1:]))
            case "QUOTED":
                quote = token[0]
                tokens.append(_retype(token, "NAME", token[1:-1].replace(quote * 2, quote)))
            case "STRING":
                tokens.append(_retype(token, "STRING", token[1:-1].replace("''", "'")))
            case "ESCAPED":
                tokens.append(_retype(token, "STRING", _unescape(token[2:-1])))
            case "LATEX":
                tokens.append(_retype(token, "WORD", token[token.index("{") + 1 : -1].strip()))
            case _:
                tokens.append(token)
    return tokens, problems


def _unescape(text: str) -> str:
    """Return the content of E'...', with its backslash escapes and doubled quotes resolved."""

    def resolve(found: re.Match[str]) -> str:
        if found["code"]:
            return chr(int(found["code"], 16))
        letter = found["letter"] or "'"
        return _ESCAPES.get(letter, letter)

    return re.sub(r"\\u(?P<code>[0-9a-fA-F]{4})|\\(?P<letter>.)|''", resolve, text)


def _retype(token: Token, type: str, value: str | None = None) -> Token:
    return Token.new_borrow_pos(type, str(token) if value is None else value, token)


def starts_line(token: Token, before: Token | None) -> bool:
    """Return whether a token is the first of its line, or of its statement where semicolons separate them."""
    if before is None or before.type == "SEMICOLON":
        return True
    return cast(int, token.line) > cast(int, before.end_line)


def _resolve_words(tokens: Sequence[Token], problems: list[Diagnostic]) -> list[Token]:
    """Decide for every word what it is."""
    resolved: list[Token] = []
    depth = 0
    index = 0
    while index < len(tokens):
        token = tokens[index]
        match token.type:
            case "LPAR" | "LSQB" | "LBRACE":
                depth += 1
            case "RPAR" | "RSQB" | "RBRACE":
                depth = max(depth - 1, 0)
        context = _WordContext(tokens, index, resolved, depth)
        type, length = _classify_word(context, problems) if token.type in _WORDS else (token.type, 1)
        if type in _STARTS:
            depth = 0  # a bracket left open ends with its clause
        resolved.append(_retype(token, type))
        index += length
    return resolved


class _WordContext:
    """A word and its neighbours: those before it are settled, those after it not yet."""

    def __init__(self, tokens: Sequence[Token], index: int, resolved: Sequence[Token], depth: int) -> None:
        self.token = tokens[index]
        self.word = self.token.lower() if self.token.type == "WORD" else ""
        self.before = resolved[-1] if resolved else None
        self.names_query = len(resolved) > 1 and resolved[-2].type == "QUERY"
        self.defines_event = len(resolved) > 2 and resolved[-3].type == "EVENT"
        self.depth = depth
        self._tokens = tokens
        self._index = index

    def after(self, steps: int = 1) -> Token | None:
        context = self._index + steps
        return self._tokens[context] if context < len(self._tokens) else None

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
    def can_open(self) -> bool:
        """Whether a statement could begin here."""
        return self.starts_line and self.type_before not in _INCOMPLETE


def _classify_word(context: _WordContext, problems: list[Diagnostic]) -> tuple[str, int]:
    """Decide what a word is, and how many tokens that takes up."""
    if context.type_before == "QUERY" and not (context.word in CLAUSES and context.starts_line):
        return "NAME", 2 if context.type_after() in ("COLON", "EQ") else 1
    if context.type_before in ("DOT", "EVENT") or context.type_after() == "DOT":
        return "NAME", 1
    opened = _classify_opening(context)
    if opened is not None:
        return opened
    if context.type_before == "AS" and not context.defines_event:
        return "NAME", 1
    clause = CLAUSES.get(context.word) or (context.token.type if context.token.type in CLAUSE_TYPES else None)
    if clause is not None:
        return ("NAME" if _is_name_here(context) else clause), 1
    if context.token.type == "NAME":
        return "NAME", 1
    if context.type_before == "NUMBER" and context.word in UNITS:
        return "UNIT", 1
    if context.word == "distinct" and context.type_before == "LPAR" and context.type_after() in _NAMES:
        return "DISTINCT", 1
    if context.word == "interval" and context.type_after() in ("NUMBER", "STRING"):
        return "INTERVAL", 1
    if context.word in OPERATORS:
        loose = context.word in ("is", "in", "like", "between") and context.type_after() in ("RPAR", "COMMA")
        return ("NAME" if loose or _is_operator_a_name(context) else context.word.upper()), 1
    return _correct_group_by(context, problems) or _correct_misspelling(context, problems) or ("NAME", 1)


def _classify_opening(context: _WordContext) -> tuple[str, int] | None:
    """Recognize labels `q1:`, `q1 = SEQ(...)` and a bare name before RETURN; QUERY and EVENT."""
    following = context.type_after()
    if following == "COLON":
        return ("HEADER" if context.word == "query" else "LABEL"), 2
    if following == "EQ":
        is_pattern = context.word_after(2).upper() in PATTERN_OPERATORS and context.type_after(3) == "LPAR"
        if context.can_open or (context.type_before in ("COMMA", "RPAR") and is_pattern):
            return "LABEL", 2
    follows_all = context.type_before not in _INCOMPLETE and following in _NAMES
    if context.word == "query" and follows_all and (context.starts_line or context.clause_after(2)):
        return "QUERY", 1
    if context.token == "EVENT" and follows_all and context.word_after(2) == "as":
        return "EVENT", 1
    if not context.can_open:
        return None
    if context.word == "query" and context.token.isupper():
        return "QUERY", 1
    if context.word == "event" and following in _NAMES and (context.word_after(2) == "as" or context.token.isupper()):
        return "EVENT", 1
    if context.token.type in _NAMES and context.word not in CLAUSES and _is_before_query(context):
        return "LABEL", 1
    return None


def _is_before_query(context: _WordContext) -> bool:
    """Return whether RETURN or PATTERN follows a word, perhaps misspelt on the next line."""
    following = context.after()
    if following is None or following.type != "WORD":
        return False
    if following.lower() in ("return", "pattern"):
        return True
    return starts_line(following, context.token) and find_nearest(following, ("RETURN", "PATTERN"), 0.75) is not None


def _is_name_here(context: _WordContext) -> bool:
    """Return whether a word like a clause's stands where only a name can."""
    before = context.type_before
    if before not in _BEFORE_NAME or (context.depth == 0 and context.starts_line):
        return False
    if context.depth == 0 and (context.clause_after() or context.after() is None):
        return True
    has_variable = context.depth > 0 and before != "LSQB" and context.type_after() in _NAMES
    return context.type_after(2 if has_variable else 1) in _AFTER_NAME


def _is_operator_a_name(context: _WordContext) -> bool:
    """Return whether AND, OR or AS stands where only a name can: airports and zones have such codes."""
    between = context.type_before in _BEFORE_NAME and context.type_after() in _AFTER_NAME
    return context.word in ("and", "or", "as") and between


def _correct_group_by(context: _WordContext, problems: list[Diagnostic]) -> tuple[str, int] | None:
    """Recognize GROUP BY where one of its words is misspelt or missing."""
    by = context.after()
    if context.word_after() == "by" and find_nearest(context.word, ("GROUP",), 0.75) and by is not None:
        span = span_between(context.token, by)
        problems.append(Diagnostic(f"unknown word '{context.token}'", span, hint="did you mean 'GROUP BY'?"))
        return "GROUP_BY", 2
    if context.word == "group" and context.type_after() in _NAMES and context.type_before not in _INCOMPLETE:
        problems.append(Diagnostic("GROUP must be followed by BY", span_of(context.token), hint="as in GROUP BY user"))
        return "GROUP_BY", 1
    return None


def _correct_misspelling(context: _WordContext, problems: list[Diagnostic]) -> tuple[str, int] | None:
    """Recognize a word that was meant to open a clause or a statement, and report it."""
    if len(context.word) < 4 or not context.word.isalpha() or context.type_after() not in _OPERAND_STARTS:
        return None
    keyword = find_nearest(context.word, _CORRECTABLE, 0.75)
    if keyword is None or keyword == context.word.upper() or context.clause_after():
        return None
    if context.starts_statement:
        # `Windows w, Doors d` may be a pattern; `RETRUN COUNT(*)` and `PATERN A, B` are not.
        meant = context.token.isupper() or context.type_after(2) == "LPAR"
    elif keyword in ("QUERY", "EVENT") or context.depth > 0:
        meant = context.can_open
    else:
        inside = context.type_before in ("STAR", "PLUS", "QUESTION") or context.type_after() in ("LPAR", "STAR")
        meant = context.type_before not in _INCOMPLETE and (context.starts_line or not inside)
    if not meant:
        return None
    hint = f"did you mean '{keyword}'?"
    problems.append(Diagnostic(f"unknown word '{context.token}'", span_of(context.token), hint=hint))
    return CLAUSES.get(keyword.lower(), keyword), 1
