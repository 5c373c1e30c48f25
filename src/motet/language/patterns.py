"""Turns the syntax tree of a PATTERN clause into a pattern of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lark import Token, Tree

from motet.errors import find_nearest
from motet.language.keywords import PATTERN_OPERATORS
from motet.language.syntax import ClauseError, check_depth, span_of, subtrees, token_of
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq, children
from motet.model.span import Span

# Spellings of an operator -> how it is built from its parts; the papers' CONJ, DISJ and KL among them.
_OPERATIONS: dict[str, Callable[[tuple[Pattern, ...], Span], Pattern]] = {
    "SEQ": lambda parts, span: Seq(parts, span=span),
    "AND": lambda parts, span: And(parts, span=span),
    "CONJ": lambda parts, span: And(parts, span=span),
    "OR": lambda parts, span: Or(parts, span=span),
    "DISJ": lambda parts, span: Or(parts, span=span),
    "KL": lambda parts, span: Repeat(_as_sequence(parts, span), 1, None, span=span),
    "NEG": lambda parts, span: Neg(_require_event(parts, "NEG", span), span=span),
}
_MAX_DIGITS = 18  # of the bounds of a repetition
# The sign that may stand between operands in place of a comma.
_SIGNS = {"AND": "AMP", "CONJ": "AMP", "OR": "BAR", "DISJ": "BAR"}


def read_pattern(tree: Tree[Token]) -> Pattern:
    """Read the pattern of a whole clause: a bare comma list is a SEQ."""
    operands = subtrees(tree)[0]
    return check_depth(_as_sequence(_read_parts(operands, "SEQ"), span_of(operands)), children, span_of(operands))


def _read_element(tree: Tree[Token]) -> Pattern:
    match tree.data:
        case "negation":
            span = span_of(tree)
            return Not(_require_event((_read_element(subtrees(tree)[0]),), "NOT", span), span=span)
        case _:
            primary, *suffixes = subtrees(tree)
            pattern = _read_primary(primary)
            for suffix in suffixes:
                pattern = _apply_suffix(pattern, suffix)
            return pattern


def _read_primary(tree: Tree[Token]) -> Pattern:
    span = span_of(tree)
    match tree.data:
        case "event":
            return Event(str(tree.children[0]), span=span)
        case "group":
            return _as_sequence(_read_parts(subtrees(tree)[0], "SEQ"), span)
        case _:
            word = token_of(tree)
            operation = _OPERATIONS.get(word.upper())
            if operation is None:
                meant = find_nearest(word, PATTERN_OPERATORS, 0.6)
                hint = f"did you mean '{meant}'?" if meant else f"known operators: {', '.join(PATTERN_OPERATORS)}"
                raise ClauseError(f"unknown pattern operator '{word}'", span_of(word), hint)
            return operation(_read_parts(subtrees(tree)[0], word.upper()), span)


def _read_parts(operands: Tree[Token], operator: str) -> tuple[Pattern, ...]:
    """Read the operands of an operator and check what stands between them."""
    for sign in operands.children:
        if isinstance(sign, Token) and sign.type not in ("COMMA", _SIGNS.get(operator)):
            spelling = "AND(A, B)" if sign.type == "AMP" else "OR(A, B)"
            raise ClauseError(f"'{sign}' cannot stand between parts of {operator}", span_of(sign), f"write {spelling}")
    return tuple(_read_element(operand) for operand in subtrees(operands))


def _apply_suffix(pattern: Pattern, suffix: Tree[Token]) -> Pattern:
    if suffix.data == "variable":
        return _set_variable(pattern, suffix)
    numbers = [_read_count(token) for token in suffix.children if isinstance(token, Token) and token.type == "NUMBER"]
    start, end = pattern.span, span_of(suffix)
    span = end if start is None else Span(start.start, end.end, start.line, start.column)
    first, last = (numbers[0], numbers[-1]) if numbers else (0, 0)
    bounds: dict[str, tuple[int, int | None]] = {
        "plus": (1, None), "star": (0, None), "optional": (0, 1), "exactly": (first, first),
        "at_least": (first, None), "at_most": (0, first), "between": (first, last),
    }  # fmt: skip
    low, high = bounds[suffix.data]
    return Repeat(pattern, low, high, span=span)


def _set_variable(pattern: Pattern, suffix: Tree[Token]) -> Pattern:
    """Name the event of `A a`, `A AS a`, `A+ a` or `OR(A, B) a`."""
    name = token_of(suffix, -1)
    match pattern:
        case Event(type, None):
            return Event(type, str(name), span=pattern.span)
        case Event(_, variable):
            raise ClauseError(
                f"unexpected '{name}': this event is already called '{variable}'", span_of(name), "expected ','"
            )
        case Repeat(part, low, high):
            return Repeat(_set_variable(part, suffix), low, high, span=pattern.span)
        case Or(parts) if all(isinstance(part, Event) for part in parts):
            return Or(tuple(_set_variable(part, suffix) for part in parts), span=pattern.span)
    message = f"unexpected '{name}': only an event or an OR of events can have a variable"
    raise ClauseError(message, span_of(name), "expected ','")


def _as_sequence(parts: tuple[Pattern, ...], span: Span) -> Pattern:
    return parts[0] if len(parts) == 1 else Seq(parts, span=span)


def _require_event(parts: Sequence[Pattern], operator: str, span: Span) -> Event:
    match parts:
        case [Event() as event]:
            return event
    hint = "to forbid several types write one NOT after the other: NOT A, NOT B" if operator == "NOT" else None
    raise ClauseError(f"{operator} takes one event type", span, hint)


def _read_count(token: Token) -> int:
    if not token.isdecimal():
        raise ClauseError(f"a repetition takes whole numbers, not '{token}'", span_of(token), "as in A{2,5}")
    if len(token) > _MAX_DIGITS:
        raise ClauseError(f"a repetition of {len(token):,} digits is too long", span_of(token), "as in A{2,5}")
    return int(token)
