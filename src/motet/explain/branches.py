"""Describes branches that aggregate online: what they read, and their units, as plain data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from motet.compile import Branch, Program, estimate_all_plans
from motet.compile.detect import DetectBranch
from motet.explain.formatting import format_count, format_duration, format_names, format_time, round_digits
from motet.language.printer import pattern_text, window_text
from motet.model.query import Query
from motet.plans.units import Strategy, Unit
from motet.statistics.model import format_symbol

# What each plan of a branch shares.
PLANS = {
    "search": "queries divided into units by cost",
    "prefix": "equal beginnings computed once",
    "pairs": "all equal parts computed once",
    "windows": "only queries of one window together",
    "none": "every query alone",
}
MOST_SHARED = 8  # parts that a unit shares, before they are counted
# How each strategy keeps totals.
TOTALS_KEPT_BY = {
    Strategy.PANES: "per pane in which matches began",
    Strategy.WINDOWS: "per open window",
    Strategy.STARTS: "per time at which matches began",
    Strategy.PAIRS: "between pairs of steps within a pane, and per open window",
    Strategy.STACKS: "as a sliding product of event matrices, two stacks",
    Strategy.TRENDS: "per event, for adjacent conditions",
}


def describe_branch(program: Program, branch: Branch, counts: Mapping[str, int] | None) -> dict[str, Any]:
    """Describe a branch: what it reads, what its plan costs, and its units."""
    return {
        **describe_input(branch, counts),
        "symbols": sorted(format_symbol(symbol) for symbol in branch.symbols),
        "halo_us": branch.overlap,
        "combined": branch.needs_combine,
        "plan": branch.chosen,
        "estimates": {name: round(cost, 2) for name, cost in estimate_all_plans(program, branch).items()},
        "units": [_describe_unit(unit) for unit in branch.units],
        "declined": [{"queries": list(each.queries), "reason": each.reason} for each in branch.declined],
    }


def is_sampled(program: Program, counts: Mapping[str, int] | None) -> bool:
    """Return whether rows were counted in a sample only."""
    known = program.options.statistics
    return counts is not None and known is not None and 0 < known.sampled < sum(counts.values())


def describe_input(branch: Branch | DetectBranch, counts: Mapping[str, int] | None) -> dict[str, Any]:
    """Describe what a branch reads, and how many rows that is where the rows of each type are known."""
    types = branch.types
    return {
        "partition": list(branch.partition),
        "columns": list(branch.columns),
        "types": None if types is None else sorted(types),
        "rows": None if counts is None else sum(n for type, n in counts.items() if types is None or type in types),
    }


def describe_query(query: Query) -> dict[str, Any]:
    """Describe a query by what it says itself."""
    return {
        "name": query.name,
        "pattern": pattern_text(query.pattern),
        "window": None if query.window is None else window_text(query.window),
        "group_by": list(query.group_by),
    }


def _describe_unit(unit: Unit) -> dict[str, Any]:
    """Describe how a unit keeps totals, and how many of them are kept once for several queries."""
    planned = unit.planned.describe()
    folds = (enumerate(compiled.automaton.fold) for compiled in unit.reported)
    return {
        "strategy": str(unit.strategy),
        "keeps": TOTALS_KEPT_BY[unit.strategy],
        "width_us": unit.width or None,
        "slots": unit.slots or None,
        "totals": len(unit.merged.settled),
        "totals_apart": sum(node == settled for fold in folds for node, settled in fold),
        "pairs": None if unit.pairs is None else unit.pairs.size,
        "pairs_apart": None if unit.pairs is None else unit.pairs.unmerged_size,
        "shared": planned["shared"],
        "signature": planned["signature"],
        "queries": [
            describe_query(compiled.query) | {"returns": [each.label for each in compiled.query.aggregates]}
            for compiled in unit.reported
        ],
    }


def format_branch(at: int, branch: dict[str, Any], rows: int | None, estimated: bool) -> Iterator[str]:
    """Yield the text of a branch; `rows` are those of all data, where known, be it by a sample."""
    yield f"branch {at}: {format_partition(branch)}"
    yield from format_input(branch, rows, estimated)
    yield f"  symbols {', '.join(branch['symbols'])}"
    if branch["halo_us"] is None:
        yield "  a hot key runs whole: some results depend on all of its events"
    else:
        yield f"  a hot key may be cut by time, each stretch with the {format_duration(branch['halo_us'])} before it"
    if branch["combined"]:
        yield "  results of partitions are combined where a query does not group by all of them"
    yield from _format_estimates(branch["plan"], branch["estimates"])
    for unit_at, unit in enumerate(branch["units"], 1):
        yield from _format_unit(f"{at}.{unit_at}", unit)
    for declined in branch["declined"]:
        yield f"  proposed, not run: {format_names(declined['queries'])}: {declined['reason']}"


def format_partition(branch: Mapping[str, Any]) -> str:
    """Return which events a match may consist of."""
    return f"events that agree on {', '.join(branch['partition'])}" if branch["partition"] else "all events together"


def format_input(branch: dict[str, Any], rows: int | None, estimated: bool) -> Iterator[str]:
    """Yield the text of what a branch reads."""
    yield f"  reads {', '.join(branch['columns'])}"
    types = "any type" if branch["types"] is None else "types " + ", ".join(branch["types"])
    if rows:
        taken, whole = (format_rows(number, estimated) for number in (branch["rows"], rows))
        types += f": {taken} of {whole} ({branch['rows'] / rows:.0%})"
    yield f"  rows of {types}"


def format_rows(number: int, estimated: bool) -> str:
    """Return a number of rows, and that it is an estimate where they were counted in a sample."""
    return f"about {round(round_digits(number)):,}" if estimated else f"{number:,}"


def _format_estimates(plan: str, estimates: dict[str, float]) -> Iterator[str]:
    """Yield what the plan costs, and what others would: of those that cost the same one is enough."""
    yield f"  estimated {format_time(estimates[plan])} per event: {PLANS.get(plan, plan)}"
    others = {cost: name for name, cost in reversed(estimates.items()) if cost != estimates[plan]}
    if others:
        named = (f"{format_time(cost)} with {PLANS.get(name, name)}" for cost, name in reversed(others.items()))
        yield f"  against {', '.join(named)}"


def _format_unit(name: str, unit: dict[str, Any]) -> Iterator[str]:
    yield f"  unit {name}: {format_strategy(unit)}"
    yield f"    {format_count(unit['totals'], 'total')}{_format_saving(unit['totals'], unit['totals_apart'])}"
    if unit["pairs"]:
        yield f"    {format_count(unit['pairs'], 'pair')} of steps{_format_saving(unit['pairs'], unit['pairs_apart'])}"
    for shared in unit["shared"][:MOST_SHARED]:
        yield f"    {shared['part']} computed once for {format_names(shared['queries'])}"
    if len(unit["shared"]) > MOST_SHARED:
        yield f"    and {len(unit['shared']) - MOST_SHARED:,} more parts"
    for query in unit["queries"]:
        yield f"    {query['name']}: {', '.join(query['returns'])} of {format_clauses(query)}"


def format_strategy(unit: dict[str, Any]) -> str:
    """Return how a unit keeps its totals."""
    width = f" of {format_duration(unit['width_us'])}" if unit["width_us"] else ""
    slots = f", {unit['slots']:,} at once" if unit["slots"] else ""
    return f"{unit['strategy']}{width}{slots}: totals {unit['keeps']}"


def _format_saving(kept: int, apart: int) -> str:
    return f" instead of {apart}: {apart - kept} shared" if apart > kept else ""


def format_clauses(query: dict[str, Any]) -> str:
    """Return the pattern of a query with its GROUP BY and window."""
    group = f" GROUP BY {', '.join(query['group_by'])}" if query["group_by"] else ""
    return f"{query['pattern']}{group}" + (f" {query['window']}" if query["window"] else "")
