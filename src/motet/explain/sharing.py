"""What an optimizer decided to share, as plain data, as text, and as a drawing of the Sharon graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from motet.engine import Program
from motet.explain.formatting import escape_mermaid, format_count, format_number
from motet.explain.gloria import describe_gloria, draw_gloria_mermaid, format_gloria
from motet.optimizer.sharon.report import CandidateReport, SharonReport
from motet.statistics.symbols import format_symbol
from motet.template.symbols import Symbol

MOST_LINES = 40  # candidates in a text
MOST_NODES = 120  # candidates in a drawing
METHODS = {
    "greedy": "greedily (GWMIN)",
    "finder": "by the plan finder, level by level",
    "exhaustive": "by looking at every set of options",
    "relaxation": "as a packing, by Lagrangian relaxation",
    "packing": "as a packing, by integer programming (HiGHS)",
    "none": "",
}


def describe_optimizer_report(program: Program) -> dict[str, Any] | None:
    """The optimizer's report by the names of queries; None where nothing was looked for."""
    report = program.report
    names = [query.name for query in program.workload.queries]
    return None if report is None else VIEWS[report.family].describe(report, names)


def draw_optimizer_report(program: Program) -> str:
    """The graph that the optimizer searched, for Mermaid."""
    assert program.report is not None
    names = [query.name for query in program.workload.queries]
    return VIEWS[program.report.family].draw(program.report, names)


def describe_sharon(report: SharonReport, names: Sequence[str]) -> dict[str, Any]:
    """What the Sharon optimizer found, by the names of queries."""
    return {
        "optimizer": report.variant,
        "found": METHODS[report.method],
        "score": report.score,
        "bound": report.bound,
        "gap": report.gap,
        "optimal": report.is_optimal,
        "rates": "equal" if report.equal_rates else "statistics",
        "guaranteed": report.guaranteed,
        "options": report.options,
        "kept": report.kept,
        "visited": report.visited,
        "seconds": {phase: round(seconds, 6) for phase, seconds in report.seconds.items()},
        "notes": list(report.notes),
        "candidates": [_describe_candidate(at, judged, names) for at, judged in enumerate(report.candidates, 1)],
        "conflicts": [
            {
                "between": [f"p{conflict.one + 1}", f"p{conflict.other + 1}"],
                "queries": [names[number] for number in conflict.queries],
            }
            for conflict in report.conflicts
        ],
        "segments": [
            {
                "symbols": _format_symbols(segment.symbols),
                "places": [{"query": names[number], "offset": offset} for number, offset in segment.places],
            }
            for segment in report.plan.segments
        ],
        "excluded": [{"query": names[number], "why": why} for number, why in report.excluded.items()],
    }


def _describe_candidate(at: int, judged: CandidateReport, names: Sequence[str]) -> dict[str, Any]:
    return {
        "name": f"p{at}",
        "symbols": _format_symbols(judged.candidate.symbols),
        "queries": [names[number] for number in judged.candidate.queries],
        "benefit": judged.benefit,
        "status": _candidate_status(judged),
        "reduction": _describe_reduction(judged),
        "shared_by": sorted({names[number] for number, _ in judged.chosen}, key=names.index),
    }


def _format_symbols(symbols: Sequence[Symbol]) -> list[str]:
    return [format_symbol(symbol) for symbol in symbols]


def _candidate_status(judged: CandidateReport) -> str:
    """What became of a candidate."""
    if judged.chosen:
        return "shared"
    return "left out" if judged.is_beneficial else "not beneficial"


def _describe_reduction(judged: CandidateReport) -> str:
    """What the reduction of the paper's graph says of it, where all queries that contain a candidate share it."""
    if judged.conflict_ridden:
        best, sure = (
            format_number(judged.conflict_ridden.highest_score),
            format_number(judged.conflict_ridden.guaranteed),
        )
        return f"conflict-ridden: a plan with it scores at most {best} where {sure} is sure"
    return "conflict-free" if judged.conflict_free else ""


def format_optimizer_report(sharing: dict[str, Any]) -> Iterator[str]:
    """The report as text."""
    return format_gloria(sharing) if "templates" in sharing else format_sharon(sharing)


def format_sharon(sharing: dict[str, Any]) -> Iterator[str]:
    """The report as text: what is shared, how good that is, then every candidate and what became of it."""
    candidates = sharing["candidates"]
    segments = sharing["segments"]
    proof = "the best there is" if sharing["optimal"] else f"at most {sharing['gap']:.2%} below the best"
    found = f", found {sharing['found']}" if segments else ""
    yield f"sharing ({sharing['optimizer']}): {format_count(len(segments), 'run')} computed once{found}"
    yield f"  score {format_number(sharing['score'])} of at most {format_number(sharing['bound'])}: {proof}"
    if sharing["rates"] == "equal":
        yield "  no statistics given: as many events of every symbol assumed"
    yield from (f"  {note}" for note in sharing["notes"])
    if not segments and candidates:
        yield "  no run pays: nothing is shared beyond equal prefixes"
    for segment in segments:
        places = ", ".join(f"{place['query']} at {place['offset'] + 1}" for place in segment["places"])
        yield f"  ({', '.join(segment['symbols'])}): {places}"
    is_beneficial = sum(each["benefit"] > 0 for each in candidates)
    yield (
        f"  {format_count(len(candidates), 'candidate')}, {is_beneficial:,} of them beneficial, "
        f"{format_count(len(sharing['conflicts']), 'conflict')}; "
        f"GWMIN is sure of {format_number(sharing['guaranteed'])}"
    )
    if sharing["options"] is not None:
        kept = "" if sharing["kept"] is None else f", {sharing['kept']:,} after reduction"
        visited = format_count(sharing["visited"], "plan")
        yield f"  {format_count(sharing['options'], 'option')}{kept}, {visited} looked at"
    yield "  time: " + ", ".join(f"{phase} {seconds:.3f} s" for phase, seconds in sharing["seconds"].items())
    yield from _format_candidates(candidates)
    for each in sharing["excluded"]:
        yield f"  {each['query']} takes no part: {each['why']}"


def _format_candidates(candidates: list[dict[str, Any]]) -> Iterator[str]:
    ranked = sorted(candidates, key=lambda each: (not each["shared_by"], -each["benefit"]))
    for each in ranked[:MOST_LINES]:
        pattern = ", ".join(each["symbols"])
        some = each["shared_by"] and each["shared_by"] != each["queries"]
        status = f"shared by {', '.join(each['shared_by'])} only" if some else each["status"]
        reduction = f"; by all its queries {each['reduction']}" if each["reduction"] else ""
        where, benefit = ", ".join(each["queries"]), format_number(each["benefit"])
        yield f"    {each['name']} ({pattern}) in {where}: benefit {benefit}, {status}{reduction}"
    if len(ranked) > MOST_LINES:
        yield f"    and {len(ranked) - MOST_LINES:,} more (all in --format json)"


STYLES = {
    "shared": "fill:#2f6f4f,color:#fff",
    "ridden": "fill:#f3d6d0,stroke:#b0543f,color:#333",
    "left": "fill:#eee,color:#333",
}


def draw_sharon_mermaid(report: SharonReport, names: Sequence[str]) -> str:
    """The Sharon graph: beneficial candidates, an edge for each conflict with the queries that cause it."""
    numbered = [(at, judged) for at, judged in enumerate(report.candidates) if judged.is_beneficial or judged.chosen]
    first = sorted(numbered, key=lambda each: (not each[1].chosen, -each[1].benefit))[:MOST_NODES]
    shown = dict(sorted(first, key=lambda each: each[0]))
    lines = ["graph TD"]
    for at, judged in shown.items():
        pattern = ", ".join(map(escape_mermaid, _format_symbols(judged.candidate.symbols)))
        queries = ", ".join(escape_mermaid(names[query]) for query in judged.candidate.queries)
        lines.append(f'    p{at + 1}["p{at + 1}: {pattern}<br/>{queries}<br/>benefit {format_number(judged.benefit)}"]')
    for conflict in report.conflicts:
        if conflict.one in shown and conflict.other in shown:
            cause = ", ".join(escape_mermaid(names[query]) for query in conflict.queries)
            lines.append(f'    p{conflict.one + 1} ---|"{cause}"| p{conflict.other + 1}')
    for style, look in STYLES.items():
        members = [f"p{at + 1}" for at, judged in shown.items() if _node_style(judged) == style]
        if members:
            lines += [f"    classDef {style} {look}", f"    class {','.join(members)} {style}"]
    if len(numbered) > len(shown):
        lines.append(f"    %% {len(numbered) - len(shown)} candidates of lower benefit are not drawn")
    return "\n".join(lines)


def _node_style(judged: CandidateReport) -> str:
    return "shared" if judged.chosen else "ridden" if judged.conflict_ridden else "left"


class ReportView(NamedTuple):
    """How a report is described as plain data, and drawn for Mermaid, by the names of queries."""

    describe: Callable[[Any, Sequence[str]], dict[str, Any]]
    draw: Callable[[Any, Sequence[str]], str]


# By the family of the report.
VIEWS = {
    "sharon": ReportView(describe_sharon, draw_sharon_mermaid),
    "gloria": ReportView(describe_gloria, draw_gloria_mermaid),
}
