"""Derive rates and selectivities for detection plans from statistics, profiled or stated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from motet.compile.detect import DetectBranch
from motet.language.printer import expression_text
from motet.model.expression import Expression, variables
from motet.model.names import rename_variables
from motet.plans.detect.cost import Rates
from motet.plans.detect.selectivity import TypedTest, guess_selectivity, list_tests_to_measure
from motet.statistics.model import MICROSECONDS, Statistics, format_symbol
from motet.template.symbols import Symbol

# For how many of the longest window stated rates are taken to last.
STATED_WINDOWS = 100


def rates_from_statistics(known: Statistics | None, branch: DetectBranch) -> Rates:
    """Return what statistics say of the events of a branch; what they do not know is taken as equal."""
    if known is None or not known.rates:
        return Rates()
    seconds = known.seconds
    if not known.counts:  # rates were stated, and nothing says for how long: as if for many windows
        longest = max((query.span.within for query in branch.queries if not query.span.ranked), default=0)
        seconds = max(seconds, STATED_WINDOWS * longest / MICROSECONDS)
    events = sum(known.given.values()) * seconds if known.given else float(known.events)
    return Rates(
        {symbol: _count(symbol, known, seconds) for symbol in branch.symbols},
        duration=seconds * MICROSECONDS,
        keys=known.count_partitions(branch.partition),
        selectivity=_selectivities(branch, known.selectivities),
        events=events,
    )


def _count(symbol: Symbol, known: Statistics, seconds: float) -> float:
    """Return the events of a symbol; unknown conditions are guessed, and an unknown type is taken as average."""
    rates = known.rates
    text = format_symbol(symbol)
    if text in rates:
        return rates[text] * seconds
    events = rates.get(symbol.type, sum(rates[name] for name in known.counts) / 2) * seconds
    for condition in symbol.conditions:
        events *= guess_selectivity(condition)
    return events


def conditions_to_measure(branch: DetectBranch) -> Iterator[TypedTest]:
    """Yield the conditions of a branch whose selectivities plans need."""
    for parts in branch.join_specs:
        yield from list_tests_to_measure(parts)


def _selectivities(branch: DetectBranch, shares: Mapping[str, float]) -> dict[TypedTest, float]:
    """Return the known selectivities of the conditions of a branch."""
    if not shares:
        return {}
    texts = {test: typed_test_text(test) for test in conditions_to_measure(branch)}
    return {test: shares[text] for test, text in texts.items() if text in shares}


def typed_test_text(measured: TypedTest) -> str:
    """Return a condition with its events as statistics write it: `A e1, B e2: e1.x < e2.x`."""
    test, symbols = measured
    events = ", ".join(f"{format_symbol(symbol)} e{at}" for at, symbol in enumerate(symbols, 1))
    return f"{events}: {item_test_text(test)}"


def item_test_text(test: Expression) -> str:
    """Return a test with its items as e1, e2, ..."""
    return expression_text(rename_variables(test, {name: f"e{int(name) + 1}" for name in variables(test)}))
