"""Reads the lengths of windows: `10s`, `20 min`, `INTERVAL '10' MINUTE`, `5 EVENTS`, and bare numbers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from lark import Token, Tree

from motet.errors import find_nearest
from motet.language.syntax import ClauseError, span_of
from motet.model.span import Span
from motet.model.window import UNITS

EVENTS = "EVENTS"
TICKS = "TICKS"
TIME = "TIME"

_MAX_AMOUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Length:
    """How long a window or a slide is: microseconds (TIME), units of the time column (TICKS), or EVENTS."""

    amount: int
    measure: str
    span: Span | None


def read_length(tree: Tree[Token]) -> Length:
    """Read the length that a WITHIN or SLIDE clause states."""
    span = span_of(tree)
    tokens = [child for child in tree.children if isinstance(child, Token)]
    match tree.data:
        case "ticks":
            return Length(_require_whole(_read_amount(tokens[0]), "a window without a unit", span), TICKS, span)
        case "quantity":
            return _read_quantity(tokens[0], tokens[1], span)
        case _:
            return _read_interval(tokens, span)


def _read_interval(tokens: list[Token], span: Span) -> Length:
    _, amount, *unit = tokens
    if unit:
        return _read_quantity(amount, unit[0], span)
    number, _, name = amount.strip().partition(" ")
    if not name:
        raise ClauseError("this interval has no unit", span, "as in INTERVAL '10' MINUTE")
    return _read_quantity(
        Token.new_borrow_pos("NUMBER", number, amount), Token.new_borrow_pos("NAME", name, amount), span
    )


def _read_quantity(number: Token, unit: Token, span: Span) -> Length:
    amount = _read_amount(number)
    word = unit.strip().lower()
    if word in ("event", "events"):
        return Length(_require_whole(amount, "a window of events", span), EVENTS, span)
    if word not in UNITS:
        meant = _find_nearest_unit(word)
        hint = f"did you mean '{meant}'?" if meant else "known units: us, ms, s, min, h, day, week, EVENTS"
        raise ClauseError(f"unknown unit '{unit}'", span_of(unit), hint)
    return Length(_require_whole(amount * UNITS[word], "a window, counted in microseconds,", span), TIME, span)


def _find_nearest_unit(word: str) -> str | None:
    """Find the unit meant by a misspelt one; short ones such as `mn` are too short for a plain likeness."""
    return find_nearest(word, [unit for unit in [*UNITS, "events"] if len(unit) > 2], 0.6)


def _read_amount(token: Token) -> Decimal:
    try:
        amount = Decimal(token.strip())
    except InvalidOperation:
        raise ClauseError(f"'{token}' is no number", span_of(token), "as in INTERVAL '10' MINUTE") from None
    if not amount.is_finite() or abs(amount) > _MAX_AMOUNT:
        raise ClauseError(
            f"'{token}' is too long for a window", span_of(token), "leave out WITHIN for all of the input"
        )
    return amount


def _require_whole(amount: Decimal, what: str, span: Span) -> int:
    if amount != amount.to_integral_value():
        raise ClauseError(f"{what} must be a whole number", span)
    return int(amount)
