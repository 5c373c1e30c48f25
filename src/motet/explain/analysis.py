"""Runs a plan for what it finds, and describes that beside what was expected of it, as plain data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from motet.compile import Program
from motet.engine.local import BatchSource, LocalRun, Progress
from motet.engine.metrics import BranchMetrics
from motet.explain.formatting import format_count, format_expected
from motet.plans.detect.selectivity import guess_selectivity
from motet.plans.execution import Execution
from motet.statistics.model import Statistics, format_symbol
from motet.template.symbols import Symbol


@dataclass(frozen=True)
class Analysis:
    """A run of a plan: rows, seconds, results by query, and what was seen of each branch."""

    rows: int
    set_aside: int
    seconds: float
    results: Mapping[str, int]
    observed: Sequence[BranchMetrics]
    executed: Sequence[Execution] = ()


def analyze_run(program: Program, source: pa.Table | BatchSource, progress: Progress | None = None) -> Analysis:
    """Run a program in process for what it finds on its way."""
    observed = tuple(BranchMetrics() for _ in program.all_branches)
    local = LocalRun(program, observed=observed)
    results: Counter[str] = Counter()
    begun = perf_counter()
    for table in local.run(source, progress):
        found = pc.value_counts(table.column("query"))
        results.update({each["values"]: each["counts"] for each in found.to_pylist()})
    return Analysis(local.rows, local.invalid_rows, perf_counter() - begun, results, observed, local.executed)


def describe_run(program: Program, analysis: Analysis, counts: Mapping[str, int] | None) -> dict[str, Any]:
    """Describe a run by the names of queries and symbols; what was counted in the very same rows is not expected."""
    known = program.options.statistics
    whole = known is not None and (known.sampled or known.events) >= analysis.rows - analysis.set_aside

    def is_counted(symbol: Symbol) -> bool:
        return whole and known is not None and (not symbol.conditions or format_symbol(symbol) in known.symbols)

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
                        "symbol": format_symbol(symbol),
                        "expected": None if is_counted(symbol) else estimate_events(symbol, counts, known),
                        "events": seen.events.get(symbol, 0),
                    }
                    for symbol in sorted(branch.symbols, key=format_symbol)
                ],
            }
            for branch, seen in zip(program.all_branches, analysis.observed, strict=True)
        ],
    }


def estimate_events(symbol: Symbol, counts: Mapping[str, int] | None, known: Statistics | None) -> float | None:
    """Estimate the events of a symbol: as counted before, else from its type; None where nothing is known."""
    if known is not None and format_symbol(symbol) in known.symbols:
        return float(known.symbols[format_symbol(symbol)])
    if counts is None or symbol.type not in counts:
        return None
    expected = float(counts[symbol.type])
    for condition in symbol.conditions:
        expected *= guess_selectivity(condition)
    return expected


def format_run(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the text of a run."""
    actual = plan["actual"]
    rate = actual["rows"] / max(actual["seconds"], 1e-9)
    yield f"ran in {actual['seconds']:.3f} s: {format_count(actual['rows'], 'row')} ({rate:,.0f} rows/s)"
    if actual["set_aside"]:
        yield f"  {format_count(actual['set_aside'], 'row')} set aside: no type, no time, or one out of range"
    yield from _format_executed(plan)
    for at, branch in enumerate(actual["branches"], 1):
        share = branch["seconds"] / max(actual["seconds"], 1e-9)
        yield f"  branch {at}: {format_count(branch['rows'], 'event')}, {branch['seconds']:.3f} s ({share:.0%})"
        if len(branch["units"]) > 1:
            units = ", ".join(f"{at}.{unit} {seconds:.3f} s" for unit, seconds in enumerate(branch["units"], 1))
            yield f"    units {units}"
        for each in branch["symbols"]:
            yield f"    {each['symbol']}: {format_count(each['events'], 'event')}{format_expected(each['expected'])}"
    for branch in plan["detect"]:
        for node in branch["nodes"]:
            if node["kind"] != "leaf" and node.get("actual") is not None:
                expected = format_expected(node.get("estimate"))
                yield f"  node {node['node']}: {format_count(node['actual'], 'instance')}{expected}"
    for name, results in actual["results"].items():
        yield f"  {name}: {format_count(results, 'result')}"


def _format_executed(plan: dict[str, Any]) -> Iterator[str]:
    """Yield what was executed, and whether that is what was planned."""
    units = {
        unit["signature"]: f"unit {at}.{unit_at} as planned"
        for at, branch in enumerate(plan["branches"], 1)
        for unit_at, unit in enumerate(branch["units"], 1)
    }
    for each in plan["executed"]:
        unit, queries = units.pop(each["signature"], "joins"), format_count(len(each["queries"]), "query")
        shared = f", {format_count(len(each['shared']), 'part')} computed once" if each["shared"] else ""
        yield f"  executed {unit}: {each['signature']}, {queries}{shared}"
    for unit in units.values():
        yield f"  not executed, for it had no events: {unit.removesuffix(' as planned')}"
