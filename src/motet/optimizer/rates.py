"""The events that a window holds for each position of a query: what sharing aggregates is judged by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from motet.plans.compiled import CompiledQuery
from motet.statistics.model import Statistics, format_symbol

PositionRates = Mapping[int, tuple[float, ...]]  # by number of a query: of each position


def equal_rates(queries: Iterable[CompiledQuery]) -> PositionRates:
    """Assume one event of every symbol, where nothing is known."""
    return {compiled.number: (1.0,) * len(compiled.symbols) for compiled in queries}


def estimate_window_rates(queries: Iterable[CompiledQuery], statistics: Statistics) -> PositionRates:
    """Return the average number of events of each position in one window of one partition."""
    return {
        compiled.number: tuple(
            statistics.events_per_window(format_symbol(symbol), symbol.type, compiled.span.within, compiled.partition)
            for symbol in compiled.symbols
        )
        for compiled in queries
    }
