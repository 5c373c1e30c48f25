"""How many events of each position a window holds: what the benefit of sharing is computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from motet.plans.compiled import CompiledQuery
from motet.plans.units import Frequency
from motet.statistics.model import Statistics, format_symbol

PositionRates = Mapping[int, tuple[float, ...]]  # by number of a query: of each position


def equal_rates(queries: Iterable[CompiledQuery]) -> PositionRates:
    """One event of every symbol: what to assume where nothing is known."""
    return {compiled.number: (1.0,) * len(compiled.symbols) for compiled in queries}


def estimate_window_rates(queries: Iterable[CompiledQuery], statistics: Statistics) -> PositionRates:
    """Events of each position in one window of one partition, on average."""
    return {
        compiled.number: tuple(
            statistics.events_per_window(format_symbol(symbol), symbol.type, compiled.span.within, compiled.partition)
            for symbol in compiled.symbols
        )
        for compiled in queries
    }


def symbol_frequency(statistics: Statistics) -> Frequency:
    """Events of a symbol per second; of its type where nothing is known of its conditions."""
    rates = statistics.rates
    return lambda symbol: rates.get(format_symbol(symbol), rates.get(symbol.type, 0.0))
