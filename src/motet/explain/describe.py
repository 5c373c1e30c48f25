"""What a plan says, as plain data: the one source of every way to show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from motet.engine import Branch, Program
from motet.engine.metrics import BranchMetrics
from motet.explain.analysis import Analysis, describe_run
from motet.explain.detect import describe_detect
from motet.explain.inputs import describe_input
from motet.explain.sharing import describe_optimizer_report
from motet.language.printer import pattern_text, window_text
from motet.plans.compiled import CompiledQuery
from motet.plans.units import Strategy, Unit
from motet.statistics.symbols import format_symbol

# How each strategy keeps totals.
TOTALS_KEPT_BY = {
    Strategy.PANES: "per pane in which matches began",
    Strategy.WINDOWS: "per open window",
    Strategy.STARTS: "per time at which matches began",
    Strategy.PAIRS: "between pairs of steps within a pane, and per open window",
    Strategy.STACKS: "as a sliding product of event matrices, two stacks",
    Strategy.TRENDS: "per event, for adjacent conditions",
}


def describe(
    program: Program, counts: Mapping[str, int] | None = None, analysis: Analysis | None = None
) -> dict[str, Any]:
    """The plan of a workload: its branches, the units of each, and what their queries share.

    `counts` are the rows of each event type, where known: the plan then says how many rows a branch reads. After a run
    its `analysis` says what was found.
    """
    seen: Sequence[BranchMetrics | None] = [None] * len(program.all_branches) if analysis is None else analysis.observed
    found = {} if analysis is None else {"actual": describe_run(program, analysis, counts)}
    return {
        "queries": len(program.workload.queries),
        "counts": program.options.counts,
        "rows": None if counts is None else sum(counts.values()),
        "branches": [describe_branch(program, branch, counts) for branch in program.branches],
        "sharing": describe_optimizer_report(program),
        "detect": [
            describe_detect(branch, program, counts, ran)
            for branch, ran in zip(program.detect, seen[len(program.branches) :], strict=True)
        ],
        **found,
    }


def describe_branch(program: Program, branch: Branch, counts: Mapping[str, int] | None) -> dict[str, Any]:
    """The queries that agree on their partition attributes, and what they read."""
    return {
        **describe_input(branch, counts),
        "symbols": sorted(format_symbol(symbol) for symbol in branch.symbols),
        "halo_us": branch.overlap,
        "combined": branch.needs_combine,
        "plan": branch.chosen,
        "estimates": {name: round(cost, 2) for name, cost in program.estimate_all_plans(branch).items()},
        "units": [describe_unit(unit) for unit in branch.units],
    }


def describe_unit(unit: Unit) -> dict[str, Any]:
    """Queries executed together: how totals are kept, and how many are kept once for several of them."""
    return {
        "strategy": str(unit.strategy),
        "keeps": TOTALS_KEPT_BY[unit.strategy],
        "width_us": unit.width or None,
        "slots": unit.slots or None,
        "totals": len(unit.merged.settled),
        "totals_apart": sum(_count_settled_nodes(compiled) for compiled in unit.queries),
        "pairs": None if unit.pairs is None else unit.pairs.size,
        "pairs_apart": None if unit.pairs is None else unit.pairs.unmerged_size,
        "queries": [describe_query(compiled) for compiled in unit.queries],
    }


def describe_query(compiled: CompiledQuery) -> dict[str, Any]:
    """A query as the plan sees it."""
    query = compiled.query
    return {
        "name": query.name,
        "pattern": pattern_text(query.pattern),
        "window": None if query.window is None else window_text(query.window),
        "group_by": list(query.group_by),
        "returns": [aggregate.label for aggregate in query.aggregates],
    }


def _count_settled_nodes(compiled: CompiledQuery) -> int:
    return sum(1 for node, settled in enumerate(compiled.automaton.fold) if node == settled)
