"""Symbols by name: how statistics and plans write a type with its local conditions."""

from __future__ import annotations

from motet.language.printer import expression_text
from motet.template.symbols import Symbol


def symbol_text(symbol: Symbol) -> str:
    """A type with its local conditions: `A[x > 3]`."""
    if not symbol.conditions:
        return symbol.type
    return f"{symbol.type}[{' AND '.join(map(expression_text, symbol.conditions))}]"
