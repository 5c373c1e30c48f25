"""Describes a plan as plain data, and renders that as text, JSON and Mermaid."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motet.compile import Program
from motet.engine.metrics import BranchMetrics
from motet.errors import MotetError
from motet.explain.analysis import Analysis, describe_run, format_run
from motet.explain.branches import describe_branch, format_branch, is_sampled
from motet.explain.detect import describe_detect, draw_joins, format_detect_branch
from motet.explain.formatting import format_count
from motet.explain.gloria import chart_gloria, describe_gloria, draw_gloria, draw_gloria_page, format_gloria
from motet.explain.motto import draw_motto
from motet.explain.sharon import chart_sharon, describe_sharon, draw_sharon, draw_sharon_page, format_sharon


@dataclass(frozen=True)
class ReportRenderer:
    """The functions that show the reports of one optimizer: `describe` makes data of a report, the others show that."""

    describe: Callable[[Any, Sequence[str]], dict[str, Any]]
    format: Callable[[dict[str, Any]], Iterator[str]]
    draw_mermaid: Callable[[dict[str, Any]], str]
    draw_page: Callable[[dict[str, Any], Mapping[str, int]], Iterator[dict[str, Any]]]
    chart: Callable[[dict[str, Any]], dict[str, Any]]


RENDERERS = {
    "sharon": ReportRenderer(describe_sharon, format_sharon, draw_sharon, draw_sharon_page, chart_sharon),
    "gloria": ReportRenderer(describe_gloria, format_gloria, draw_gloria, draw_gloria_page, chart_gloria),
}


def find_renderer(optimizer: str) -> ReportRenderer:
    """Return the renderer of an optimizer or one of its variants, such as `gloria-greedy`."""
    return RENDERERS[optimizer.partition("-")[0]]


def describe_report(program: Program) -> dict[str, Any] | None:
    """Describe the optimizer's report by the names of queries; None where nothing was searched."""
    if program.report is None:
        return None
    names = [query.name for query in program.workload.queries]
    return RENDERERS[program.report.family].describe(program.report, names)


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
