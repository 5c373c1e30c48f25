"""A plan as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from motet.engine import Program
from motet.errors import MotetError
from motet.explain.actual import Analysis, actual_lines
from motet.explain.describe import describe
from motet.explain.detect import describe_detect, detect_lines, detect_mermaid
from motet.explain.gloria import gloria_mermaid
from motet.explain.motto import motto_mermaid
from motet.explain.reads import reads_lines
from motet.explain.sharing import sharing_lines, sharon_mermaid
from motet.explain.words import count, number
from motet.language.printer import window_text
from motet.model.window import TimeWindow
from motet.optimizer.aggregate.gloria.report import GloriaReport
from motet.optimizer.aggregate.report import SharonReport

# What the plans of a branch share.
PLANS = {
    "all": "all that is equal computed once",
    "prefix": "equal prefixes once",
    "windows": "only queries of one window together",
    "none": "every query alone",
}


def plan_json(program: Program, counts: Mapping[str, int] | None = None, analysis: Analysis | None = None) -> str:
    """The plan as JSON."""
    return json.dumps(describe(program, counts, analysis), indent=2, ensure_ascii=False)


def plan_text(program: Program, counts: Mapping[str, int] | None = None, analysis: Analysis | None = None) -> str:
    """The plan as indented text, with what a run of it found."""
    return "\n".join(plan_lines(describe(program, counts, analysis)))


def plan_mermaid(program: Program, counts: Mapping[str, int] | None = None) -> str:
    """The graph that the optimizer searched, or the template with its plan, or else that of joins, for Mermaid."""
    names = [query.name for query in program.workload.queries]
    match program.report:
        case SharonReport() as report:
            return sharon_mermaid(report, names)
        case GloriaReport() as report:
            return gloria_mermaid(report, names)
    plans = [describe_detect(branch, program, counts) for branch in program.detect]
    searched = [plan["motto"] for plan in plans if "motto" in plan]
    if searched:
        return motto_mermaid(searched)
    if plans:
        classes = "    classDef shared fill:#2f6f4f,color:#fff"
        return "\n".join(["flowchart BT", *detect_mermaid(plans), classes])
    raise MotetError(
        "nothing to draw: there is a graph of --optimizer sharon or gloria, or a variant of them, and of queries whose "
        "matches are found"
    )


def plan_lines(plan: dict[str, Any]) -> Iterator[str]:
    branches, detect = plan["branches"], plan["detect"]
    yield f"{count(plan['queries'], 'query')} in {count(len(branches) + len(detect), 'branch')}"
    for at, branch in enumerate(branches, 1):
        yield ""
        yield from branch_lines(at, branch, plan["rows"])
    for at, branch in enumerate(detect, len(branches) + 1):
        yield ""
        yield from detect_lines(str(at), branch, plan["rows"])
    if plan["sharing"] is not None:
        yield ""
        yield from sharing_lines(plan["sharing"])
    if "actual" in plan:
        yield ""
        yield from actual_lines(plan)


def branch_lines(at: int, branch: dict[str, Any], rows: int | None) -> Iterator[str]:
    partition = ", ".join(branch["partition"])
    yield f"branch {at}: " + (f"events that agree on {partition}" if partition else "all events together")
    yield from reads_lines(branch, rows)
    yield f"  symbols {', '.join(branch['symbols'])}"
    if branch["halo_us"] is None:
        yield "  a hot key runs whole: some results depend on all of its events"
    else:
        yield f"  a hot key may be cut by time, each stretch with the {length(branch['halo_us'])} before it"
    if branch["combined"]:
        yield "  results of partitions are combined where a query does not group by all of them"
    yield f"  {estimate_words(branch['plan'], branch['estimates'])}"
    for unit_at, unit in enumerate(branch["units"], 1):
        yield from unit_lines(f"{at}.{unit_at}", unit)


def estimate_words(plan: str, estimates: dict[str, float]) -> str:
    """What the plan costs, and what others would: of those that cost the same one is enough."""
    others = {cost: name for name, cost in reversed(estimates.items()) if cost != estimates[plan]}
    against = "".join(f"; {PLANS.get(name, name)} {number(cost)}" for cost, name in reversed(others.items()))
    return f"estimated cost {number(estimates[plan])}, {PLANS.get(plan, plan)}{against}"


def unit_lines(name: str, unit: dict[str, Any]) -> Iterator[str]:
    yield f"  unit {name}: {unit_words(unit)}"
    yield f"    {count(unit['totals'], 'total')}{saving(unit['totals'], unit['totals_apart'])}"
    if unit["pairs"]:
        yield f"    {count(unit['pairs'], 'pair')} of steps{saving(unit['pairs'], unit['pairs_apart'])}"
    for query in unit["queries"]:
        window = f" {query['window']}" if query["window"] else ""
        group = f" GROUP BY {', '.join(query['group_by'])}" if query["group_by"] else ""
        yield f"    {query['name']}: {', '.join(query['returns'])} of {query['pattern']}{group}{window}"


def unit_words(unit: dict[str, Any]) -> str:
    """How a unit keeps its totals."""
    width = f" of {length(unit['width_us'])}" if unit["width_us"] else ""
    slots = f", {unit['slots']:,} at once" if unit["slots"] else ""
    return f"{unit['strategy']}{width}{slots}: totals {unit['keeps']}"


def saving(kept: int, apart: int) -> str:
    """How much is kept once for several queries."""
    return f" instead of {apart}: {apart - kept} shared" if apart > kept else ""


def length(microseconds: int) -> str:
    """A stretch of time in the largest unit that fits."""
    return window_text(TimeWindow(microseconds)).removeprefix("WITHIN ")
