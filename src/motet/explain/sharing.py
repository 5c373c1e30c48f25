"""Maps each kind of optimizer report to the functions that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motet.compile import Program
from motet.explain.gloria import chart_gloria, describe_gloria, draw_gloria, draw_gloria_page, format_gloria
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
