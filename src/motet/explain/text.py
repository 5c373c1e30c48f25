"""Describes a plan as plain data, and renders that as text, JSON and Mermaid."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from motet.compile import Program
from motet.engine.metrics import BranchMetrics
from motet.errors import MotetError
from motet.explain.analysis import Analysis, describe_run, format_run
from motet.explain.branches import describe_branch, format_branch, is_sampled
from motet.explain.detect import describe_detect, draw_joins, format_detect_branch
from motet.explain.formatting import format_count
from motet.explain.motto import draw_motto
from motet.explain.sharing import describe_report, find_renderer


def describe_plan(
    program: Program, counts: Mapping[str, int] | None = None, analysis: Analysis | None = None
) -> dict[str, Any]:
    """Describe the plan of a workload: its branches, the units of each, and what their queries share.

    `counts` are the rows of each event type, where known: the plan then says how many rows a branch reads. After a run
    its `analysis` says what was found, and what was executed.
    """
    seen: Sequence[BranchMetrics | None] = [None] * len(program.all_branches) if analysis is None else analysis.observed
    found: dict[str, Any] = {}
    if analysis is not None:
        found["actual"] = describe_run(program, analysis, counts)
        found["executed"] = [execution.describe() for execution in analysis.executed]
    return {
        "queries": len(program.workload.queries),
        "counts": program.options.counts,
        "rows": None if counts is None else sum(counts.values()),
        "rows_estimated": is_sampled(program, counts),
        "branches": [describe_branch(program, branch, counts) for branch in program.branches],
        "sharing": describe_report(program),
        "detect": [
            describe_detect(branch, program, counts, ran)
            for branch, ran in zip(program.detect, seen[len(program.branches) :], strict=True)
        ],
        **found,
    }


def render_plan_json(
    program: Program, counts: Mapping[str, int] | None = None, analysis: Analysis | None = None
) -> str:
    """Render the plan as JSON."""
    return json.dumps(describe_plan(program, counts, analysis), indent=2, ensure_ascii=False)


def render_plan_text(
    program: Program, counts: Mapping[str, int] | None = None, analysis: Analysis | None = None
) -> str:
    """Render the plan as indented text, with what a run of it found."""
    return "\n".join(format_plan(describe_plan(program, counts, analysis)))


def render_plan_mermaid(program: Program, counts: Mapping[str, int] | None = None) -> str:
    """Render the graph that the optimizer searched, or else the join graph, for Mermaid."""
    plan = describe_plan(program, counts)
    if plan["sharing"] is not None:
        return find_renderer(plan["sharing"]["optimizer"]).draw_mermaid(plan["sharing"])
    searched = [branch["motto"] for branch in plan["detect"] if "motto" in branch]
    if searched:
        return draw_motto(searched)
    if plan["detect"]:
        return draw_joins(plan["detect"])
    raise MotetError(
        "nothing to draw: there is a graph of --optimizer sharon or gloria, or a variant of them, and of queries whose "
        "matches are found"
    )


def format_plan(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a plan."""
    branches, detect = plan["branches"], plan["detect"]
    yield f"{format_count(plan['queries'], 'query')} in {format_count(len(branches) + len(detect), 'branch')}"
    for at, branch in enumerate((*branches, *detect), 1):
        yield ""
        write = format_branch if at <= len(branches) else format_detect_branch
        yield from write(at, branch, plan["rows"], plan["rows_estimated"])
    if plan["sharing"] is not None:
        yield ""
        yield from find_renderer(plan["sharing"]["optimizer"]).format(plan["sharing"])
    if "actual" in plan:
        yield ""
        yield from format_run(plan)
