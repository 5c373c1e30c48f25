"""A plan as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from motet.engine import Program
from motet.errors import MotetError
from motet.explain.analysis import Analysis, format_run
from motet.explain.describe import describe
from motet.explain.detect import describe_detect, draw_detect_mermaid, format_detect_branch
from motet.explain.formatting import format_count, format_number
from motet.explain.inputs import format_input
from motet.explain.motto import draw_motto_mermaid
from motet.explain.sharing import draw_optimizer_report, format_optimizer_report
from motet.language.printer import window_text
from motet.model.window import TimeWindow

# What the plans of a branch share.
PLANS = {
    "all": "all that is equal computed once",
    "prefix": "equal prefixes once",
    "windows": "only queries of one window together",
    "none": "every query alone",
}


def render_plan_json(
    program: Program, counts: Mapping[str, int] | None = None, analysis: Analysis | None = None
) -> str:
    """The plan as JSON."""
    return json.dumps(describe(program, counts, analysis), indent=2, ensure_ascii=False)


def render_plan_text(
    program: Program, counts: Mapping[str, int] | None = None, analysis: Analysis | None = None
) -> str:
    """The plan as indented text, with what a run of it found."""
    return "\n".join(format_plan(describe(program, counts, analysis)))


def render_plan_mermaid(program: Program, counts: Mapping[str, int] | None = None) -> str:
    """The graph that the optimizer searched, or the template with its plan, or else that of joins, for Mermaid."""
    if program.report is not None:
        return draw_optimizer_report(program)
    plans = [describe_detect(branch, program, counts) for branch in program.detect]
    searched = [plan["motto"] for plan in plans if "motto" in plan]
    if searched:
        return draw_motto_mermaid(searched)
    if plans:
        classes = "    classDef shared fill:#2f6f4f,color:#fff"
        return "\n".join(["flowchart BT", *draw_detect_mermaid(plans), classes])
    raise MotetError(
        "nothing to draw: there is a graph of --optimizer sharon or gloria, or a variant of them, and of queries whose "
        "matches are found"
    )


def format_plan(plan: dict[str, Any]) -> Iterator[str]:
    branches, detect = plan["branches"], plan["detect"]
    yield f"{format_count(plan['queries'], 'query')} in {format_count(len(branches) + len(detect), 'branch')}"
    for at, branch in enumerate(branches, 1):
        yield ""
        yield from format_branch(at, branch, plan["rows"])
    for at, branch in enumerate(detect, len(branches) + 1):
        yield ""
        yield from format_detect_branch(str(at), branch, plan["rows"])
    if plan["sharing"] is not None:
        yield ""
        yield from format_optimizer_report(plan["sharing"])
    if "actual" in plan:
        yield ""
        yield from format_run(plan)


def format_branch(at: int, branch: dict[str, Any], rows: int | None) -> Iterator[str]:
    partition = ", ".join(branch["partition"])
    yield f"branch {at}: " + (f"events that agree on {partition}" if partition else "all events together")
    yield from format_input(branch, rows)
    yield f"  symbols {', '.join(branch['symbols'])}"
    if branch["halo_us"] is None:
        yield "  a hot key runs whole: some results depend on all of its events"
    else:
        yield f"  a hot key may be cut by time, each stretch with the {format_duration(branch['halo_us'])} before it"
    if branch["combined"]:
        yield "  results of partitions are combined where a query does not group by all of them"
    yield f"  {format_estimates(branch['plan'], branch['estimates'])}"
    for unit_at, unit in enumerate(branch["units"], 1):
        yield from format_unit(f"{at}.{unit_at}", unit)


def format_estimates(plan: str, estimates: dict[str, float]) -> str:
    """What the plan costs, and what others would: of those that cost the same one is enough."""
    others = {cost: name for name, cost in reversed(estimates.items()) if cost != estimates[plan]}
    against = "".join(f"; {PLANS.get(name, name)} {format_number(cost)}" for cost, name in reversed(others.items()))
    return f"estimated cost {format_number(estimates[plan])}, {PLANS.get(plan, plan)}{against}"


def format_unit(name: str, unit: dict[str, Any]) -> Iterator[str]:
    yield f"  unit {name}: {format_strategy(unit)}"
    yield f"    {format_count(unit['totals'], 'total')}{format_saving(unit['totals'], unit['totals_apart'])}"
    if unit["pairs"]:
        yield f"    {format_count(unit['pairs'], 'pair')} of steps{format_saving(unit['pairs'], unit['pairs_apart'])}"
    for query in unit["queries"]:
        window = f" {query['window']}" if query["window"] else ""
        group = f" GROUP BY {', '.join(query['group_by'])}" if query["group_by"] else ""
        yield f"    {query['name']}: {', '.join(query['returns'])} of {query['pattern']}{group}{window}"


def format_strategy(unit: dict[str, Any]) -> str:
    """How a unit keeps its totals."""
    width = f" of {format_duration(unit['width_us'])}" if unit["width_us"] else ""
    slots = f", {unit['slots']:,} at once" if unit["slots"] else ""
    return f"{unit['strategy']}{width}{slots}: totals {unit['keeps']}"


def format_saving(kept: int, apart: int) -> str:
    """How much is kept once for several queries."""
    return f" instead of {apart}: {apart - kept} shared" if apart > kept else ""


def format_duration(microseconds: int) -> str:
    """A stretch of time in the largest unit that fits."""
    return window_text(TimeWindow(microseconds)).removeprefix("WITHIN ")
