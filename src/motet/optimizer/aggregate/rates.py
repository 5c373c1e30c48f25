"""How many events of each position a window holds: what the benefit of sharing is computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from motet.plan.compiled import CompiledQuery
from motet.plan.units import Frequency
from motet.statistics.model import Statistics
from motet.statistics.symbols import symbol_text

Rates = Mapping[int, tuple[float, ...]]  # by number of a query: of each position


def equal_rates(queries: Iterable[CompiledQuery]) -> Rates:
    """One event of every symbol: what to assume where nothing is known."""
    return {compiled.number: (1.0,) * len(compiled.symbols) for compiled in queries}


def window_rates(queries: Iterable[CompiledQuery], statistics: Statistics) -> Rates:
    """Events of each position in one window of one partition, on average."""
    return {
        compiled.number: tuple(
            statistics.in_window(symbol_text(symbol), symbol.type, compiled.span.within, compiled.partition)
            for symbol in compiled.symbols
        )
        for compiled in queries
    }


def frequency_of(statistics: Statistics) -> Frequency:
    """Events of a symbol per second; of its type where nothing is known of its conditions."""
    rates = statistics.rates
    return lambda symbol: rates.get(symbol_text(symbol), rates.get(symbol.type, 0.0))
