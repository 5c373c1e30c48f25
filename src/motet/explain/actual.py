"""What a run found, beside what was expected of it: as plain data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motet.engine import Program
from motet.engine.observed import Observed
from motet.explain.words import count, number
from motet.plan.detect.selectivity import guess
from motet.statistics.model import Statistics
from motet.statistics.symbols import symbol_text
from motet.template.symbols import Symbol


@dataclass(frozen=True)
class Analysis:
    """A run of a plan: rows, seconds, results by query, and what was seen of each branch."""

    rows: int
    set_aside: int
    seconds: float
    results: Mapping[str, int]
    observed: Sequence[Observed]


def describe_actual(program: Program, analysis: Analysis, counts: Mapping[str, int] | None) -> dict[str, Any]:
    """The run by the names of queries and symbols."""
    known = program.options.statistics
    names = [query.name for query in program.workload.queries]
    return {
        "rows": analysis.rows,
        "set_aside": analysis.set_aside,
        "seconds": round(analysis.seconds, 6),
        "results": {name: analysis.results.get(name, 0) for name in names},
        "branches": [
            {
                "rows": seen.rows,
                "seconds": round(sum(seen.seconds.values()), 6),
                "units": [round(seconds, 6) for _, seconds in sorted(seen.seconds.items())],
                "symbols": [
                    {
                        "symbol": symbol_text(symbol),
                        "expected": expected_events(symbol, counts, known),
                        "events": seen.events.get(symbol, 0),
                    }
                    for symbol in sorted(branch.symbols, key=symbol_text)
                ],
            }
            for branch, seen in zip(program.all_branches, analysis.observed, strict=True)
        ],
    }


def expected_events(symbol: Symbol, counts: Mapping[str, int] | None, known: Statistics | None) -> float | None:
    """The events of a symbol: as counted before, else as guessed from its type; None where nothing is known."""
    if known is not None and symbol_text(symbol) in known.symbols:
        return float(known.symbols[symbol_text(symbol)])
    if counts is None or symbol.type not in counts:
        return None
    expected = float(counts[symbol.type])
    for condition in symbol.conditions:
        expected *= guess(condition)
    return expected


def actual_lines(plan: dict[str, Any]) -> Iterator[str]:
    """The run as text."""
    actual = plan["actual"]
    rate = actual["rows"] / max(actual["seconds"], 1e-9)
    yield f"ran in {actual['seconds']:.3f} s: {count(actual['rows'], 'row')} ({rate:,.0f} rows/s)"
    if actual["set_aside"]:
        yield f"  {count(actual['set_aside'], 'row')} set aside: no time or no type"
    for at, branch in enumerate(actual["branches"], 1):
        share = branch["seconds"] / max(actual["seconds"], 1e-9)
        yield f"  branch {at}: {count(branch['rows'], 'event')}, {branch['seconds']:.3f} s ({share:.0%})"
        if len(branch["units"]) > 1:
            units = ", ".join(f"{at}.{unit} {seconds:.3f} s" for unit, seconds in enumerate(branch["units"], 1))
            yield f"    units {units}"
        for each in branch["symbols"]:
            expected = "" if each["expected"] is None else f", {number(round(each['expected']))} expected"
            yield f"    {each['symbol']}: {count(each['events'], 'event')}{expected}"
    for branch in plan["detect"]:
        for node in branch["nodes"]:
            if node["kind"] != "leaf" and node.get("actual") is not None:
                expected = "" if node.get("estimate") is None else f", {number(round(node['estimate']))} expected"
                yield f"  node {node['node']}: {count(node['actual'], 'instance')}{expected}"
    for name, results in actual["results"].items():
        yield f"  {name}: {count(results, 'result')}"
