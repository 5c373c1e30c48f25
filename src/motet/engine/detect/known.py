"""Rates and selectivities for plans of detection from statistics: what `motet profile` wrote, or someone stated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from motet.engine.detect.program import DetectBranch
from motet.language.printer import expression_text
from motet.model.expression import Expression, variables
from motet.model.names import renamed
from motet.plan.detect.cost import Rates
from motet.plan.detect.selectivity import Measured, asked_of, guess
from motet.statistics.model import MICROSECONDS, Statistics
from motet.statistics.symbols import symbol_text
from motet.template.symbols import Symbol


def rates_from(known: Statistics | None, branch: DetectBranch) -> Rates:
    """What statistics say of the events of a branch; of what they do not know all is alike."""
    if known is None or not known.rates:
        return Rates()
    seconds = known.seconds
    events = sum(known.given.values()) * seconds if known.given else float(known.events)
    return Rates(
        {symbol: _count(symbol, known) for symbol in branch.symbols},
        duration=seconds * MICROSECONDS,
        keys=known.partitions_by(branch.partition),
        selectivity=_selectivities(branch, known.selectivities),
        events=events,
    )


def _count(symbol: Symbol, known: Statistics) -> float:
    """The events of a symbol; what is not known of its conditions is guessed, and that its type is one of the data."""
    rates = known.rates
    text = symbol_text(symbol)
    if text in rates:
        return rates[text] * known.seconds
    events = rates.get(symbol.type, sum(rates[name] for name in known.counts) / 2) * known.seconds
    for condition in symbol.conditions:
        events *= guess(condition)
    return events


def conditions_of(branch: DetectBranch) -> Iterator[Measured]:
    """The conditions of a branch whose shares plans go by."""
    for parts in branch.wanted:
        yield from asked_of(parts)


def _selectivities(branch: DetectBranch, shares: Mapping[str, float]) -> dict[Measured, float]:
    """The conditions of a branch whose shares are known."""
    if not shares:
        return {}
    texts = {test: measured_text(test) for test in conditions_of(branch)}
    return {test: shares[text] for test, text in texts.items() if text in shares}


def measured_text(measured: Measured) -> str:
    """A condition and what its events are, as statistics have it: `A e1, B e2: e1.x < e2.x`."""
    test, symbols = measured
    events = ", ".join(f"{symbol_text(symbol)} e{at}" for at, symbol in enumerate(symbols, 1))
    return f"{events}: {test_text(test)}"


def test_text(test: Expression) -> str:
    """A test with its items as e1, e2, ..."""
    return expression_text(renamed(test, {name: f"e{int(name) + 1}" for name in variables(test)}))
