"""Format symbols as statistics and plans write them: a type with its local conditions."""

from __future__ import annotations

from motet.language.printer import expression_text
from motet.template.symbols import Symbol


def format_symbol(symbol: Symbol) -> str:
    """Format a type with its local conditions: `A[x > 3]`."""
    if not symbol.conditions:
        return symbol.type
    return f"{symbol.type}[{' AND '.join(map(expression_text, symbol.conditions))}]"
