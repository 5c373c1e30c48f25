"""Runs the grammar over the tokens of one clause and says in users' words what it expected instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from motet.errors import Diagnostic, find_nearest
from motet.model.span import Span

Node = TypeVar("Node")

MAX_DEPTH = 150
MAX_TOKENS = 100_000  # of a clause

STARTS = ("pattern", "where", "condition", "returns", "names", "duration", "token")


class ClauseError(Exception):
    """A problem found while a clause is read; it carries the diagnostic to report."""

    def __init__(self, message: str, span: Span | None, hint: str | None = None) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(message, span, hint=hint)


@cache
def grammar() -> Lark:
    """Build the grammar at its first use, or load it from the file in which an earlier process kept it.

    The file lies with the bytecode of this package: whoever can write it can change the package too.
    """
    text = files("motet.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    folder = Path(__file__).parent / "__pycache__"
    can_keep = not sys.dont_write_bytecode and os.access(folder, os.W_OK)
    return Lark(
        text,
        start=list(STARTS),
        parser="lalr",
        lexer="basic",
        propagate_positions=True,
        maybe_placeholders=False,
        cache=str(folder / "grammar.cache") if can_keep else False,
    )


def span_of(node: Tree[Token] | Token) -> Span:
    """Return where a token or a tree of them stands."""
    place = node if isinstance(node, Token) else node.meta
    # Lark's types allow tokens without a place; those it cut from a text have one.
    return Span(cast(int, place.start_pos), cast(int, place.end_pos), cast(int, place.line), cast(int, place.column))


def subtrees(tree: Tree[Token]) -> list[Tree[Token]]:
    """Return the trees directly below one, without tokens."""
    return [child for child in tree.children if isinstance(child, Tree)]


def token_of(tree: Tree[Token], place: int = 0) -> Token:
    """Return a token directly below a tree."""
    token = tree.children[place]
    assert isinstance(token, Token)
    return token


def span_between(first: Token, last: Token) -> Span:
    """Return the stretch from the start of one token to the end of another."""
    start, end = span_of(first), span_of(last)
    return Span(start.start, end.end, start.line, start.column)


def check_depth(node: Node, below: Callable[[Node], Iterable[Node]], span: Span) -> Node:
    """Return the node, unless it is nested so deeply that walking it could exhaust Python's stack."""
    level = [node]
    for _ in range(MAX_DEPTH):
        level = [child for each in level for child in below(each)]
        if not level:
            return node
    raise ClauseError("this is nested too deeply", span, f"at most {MAX_DEPTH} levels")


def parse_clause(start: str, tokens: Sequence[Token], clause: str, place: Token) -> Tree[Token]:
    """Parse the tokens of one clause; `place` is where to point when the clause is empty."""
    if not tokens:
        raise ClauseError(f"{clause} is empty", span_of(place), f"expected {_EXPECTED_AT_START[start]}")
    if len(tokens) > MAX_TOKENS:
        raise ClauseError(f"{clause} has {len(tokens):,} words", span_of(place), f"at most {MAX_TOKENS:,} are read")
    machine = grammar().parse_interactive(start=start)
    try:
        for token in tokens:
            machine.feed_token(token)
        tree: Tree[Token] = machine.feed_token(Token.new_borrow_pos("$END", "", tokens[-1]))
    except UnexpectedToken as error:
        accepts: set[str] = machine.accepts()  # type: ignore[no-untyped-call]
        raise _describe_unexpected(start, clause, error.token, tokens, accepts) from None
    return tree


def _describe_unexpected(
    start: str, clause: str, token: Token, tokens: Sequence[Token], accepts: set[str]
) -> ClauseError:
    expected = f"expected {_join_with_or(_describe_expected(start, accepts))}"
    if token.type == "$END":
        unclosed = _find_unclosed(tokens)
        if unclosed is not None:
            return ClauseError(f"this '{unclosed}' is never closed", span_of(unclosed), expected)
        return ClauseError(f"{clause} ends too early, after '{tokens[-1]}'", span_of(tokens[-1]), expected)
    hint = _HINTS.get((start, token.type)) or _WORD_HINTS.get(token.upper())
    if hint is None and token.type == "NAME":
        word = find_nearest(token, [name for name in _KEYWORDS if name in accepts], 0.6)
        hint = f"did you mean '{word}'?" if word else None
    return ClauseError(f"unexpected '{token}' in {clause}; {expected}", span_of(token), hint)


def _find_unclosed(tokens: Sequence[Token]) -> Token | None:
    """Find the innermost bracket that is open at the end of a clause."""
    opened: list[Token] = []
    for token in tokens:
        if token.type in ("LPAR", "LSQB", "LBRACE"):
            opened.append(token)
        elif token.type in ("RPAR", "RSQB", "RBRACE") and opened:
            opened.pop()
    return opened[-1] if opened else None


_KEYWORDS = ("AND", "OR", "NOT", "AS", "IS", "NULL", "IN", "LIKE", "BETWEEN", "INTERVAL")

_EXPECTED_AT_START = {
    "pattern": "an event type or an operator such as SEQ(A, B)",
    "where": "a condition such as a.price > 10 or [vehicle]",
    "condition": "a condition over columns such as qty > 1000",
    "returns": "what to return, such as COUNT(*), *, or variables",
    "names": "attribute names",
    "duration": "a length such as 10 min, 500 ms or 5 EVENTS",
}

# Sets of terminals that users know by one phrase; the first that fits wins.
_PATTERN_GROUPS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"PLUS", "STAR", "QUESTION", "LBRACE"}), "a repetition (+, *, ? or {n,m})"),
    (frozenset({"AMP", "BAR", "COMMA"}), "','"),
    (frozenset({"AS", "NAME"}), "a variable"),
)
_EXPRESSION_GROUPS: tuple[tuple[frozenset[str], str], ...] = (
    (
        frozenset({"NAME", "NUMBER", "STRING", "LPAR", "MINUS", "NULL", "TRUE", "FALSE", "INTERVAL", "NOT"}),
        "a condition or a value",
    ),
    (frozenset({"NAME", "NUMBER", "STRING", "LPAR", "MINUS", "NULL", "TRUE", "FALSE", "INTERVAL"}), "a value"),
    (frozenset({"NUMBER", "STRING", "NULL", "TRUE", "FALSE", "INTERVAL"}), "a constant"),
    (frozenset({"UNIT", "EQ", "NE", "LT", "LE", "GT", "GE"}), "a comparison"),  # few would miss the unit
    (frozenset({"EQ", "NE", "LT", "LE", "GT", "GE"}), "a comparison"),
    (frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"}), "an arithmetic operator"),
    (frozenset({"IS", "IN", "LIKE", "BETWEEN", "NOT"}), "IS, IN, LIKE or BETWEEN"),
)
_TERMINALS = {
    "NAME": "a name", "NUMBER": "a number", "STRING": "a text in single quotes", "$END": "the end of the clause",
    "COMMA": "','", "DOT": "'.'", "LPAR": "'('", "RPAR": "')'", "LSQB": "'['", "RSQB": "']'", "LBRACE": "'{'",
    "RBRACE": "'}'", "PLUS": "'+'", "MINUS": "'-'", "STAR": "'*'",
}  # fmt: skip
_HINTS = {
    ("pattern", "STRING"): "a name is quoted with double quotes or backticks",
    ("pattern", "EQ"): "conditions go into WHERE",
    ("where", "AMP"): "write AND",
    ("where", "BAR"): "write OR",
    ("where", "BANG"): "write NOT",
}
_WORD_HINTS = dict.fromkeys(("ORDER", "LIMIT"), "sort the rows of the results, and take the first, with SQL: motet sql")


def _describe_expected(start: str, accepts: set[str]) -> list[str]:
    """Describe what could have stood at a place, in users' words."""
    left = set(accepts)
    phrases = []
    groups = _PATTERN_GROUPS if start == "pattern" else _EXPRESSION_GROUPS
    for terminals, phrase in ((_starting_terminals(start), _EXPECTED_AT_START[start]), *groups):
        if terminals <= left:
            phrases.append(phrase)
            left -= terminals
    if len(left) > 1 or phrases:
        left.discard("$END")
    return phrases + sorted(_TERMINALS.get(terminal, terminal) for terminal in left)


@cache
def _starting_terminals(start: str) -> frozenset[str]:
    """Return the terminals that a clause can begin with."""
    return frozenset(grammar().parse_interactive(start=start).accepts())  # type: ignore[no-untyped-call]


def _join_with_or(phrases: Sequence[str]) -> str:
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} or {phrases[-1]}"
