"""Shows what the Sharon optimizer decided, as data, text, Mermaid and a page: candidates, conflicts, shared runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from motet.explain.formatting import (
    EQUAL_RATES,
    escape_mermaid,
    format_count,
    format_number,
    format_phases,
    limit_lines,
)
from motet.explain.page.drawing import draw_columns
from motet.explain.page.graph import Graph, GraphEdge, GraphNode
from motet.optimizer.sharon.report import CandidateReport, SharonReport
from motet.statistics.model import format_symbol

MOST_LINES = 40  # candidates in a text
MOST_NODES = 120  # candidates in a drawing
MOST_CONFLICTS = 60  # beyond, a page shows them only with a candidate that is selected
METHODS = {
    "greedy": "greedily (GWMIN)",
    "finder": "by the plan finder, level by level",
    "exhaustive": "by looking at every set of options",
    "relaxation": "as a packing, by Lagrangian relaxation",
    "packing": "as a packing, by integer programming (HiGHS)",
    "none": "",
}
# What became of a candidate, and the column that a page draws it in.
OUTCOMES = {
    "shared": "shared",
    "left out": "left out",
    "pruned": "pruned: conflict-ridden",
    "not beneficial": "not beneficial",
}
STYLES = {
    "shared": ("shared", "fill:#2f6f4f,color:#fff"),
    "pruned": ("ridden", "fill:#f3d6d0,stroke:#b0543f,color:#333"),
    "left out": ("left", "fill:#eee,color:#333"),
}


def describe_sharon(report: SharonReport, names: Sequence[str]) -> dict[str, Any]:
    """Describe the report by the names of queries."""
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
                "symbols": [format_symbol(symbol) for symbol in segment.symbols],
                "places": [{"query": names[number], "offset": offset} for number, offset in segment.places],
            }
            for segment in report.plan.segments
        ],
        "excluded": [{"query": names[number], "why": why} for number, why in report.excluded.items()],
    }


def _describe_candidate(at: int, judged: CandidateReport, names: Sequence[str]) -> dict[str, Any]:
    return {
        "name": f"p{at}",
        "symbols": [format_symbol(symbol) for symbol in judged.candidate.symbols],
        "queries": [names[number] for number in judged.candidate.queries],
        "benefit": judged.benefit,
        "status": "shared" if judged.chosen else "left out" if judged.is_beneficial else "not beneficial",
        "reduction": _describe_reduction(judged),
        "shared_by": sorted({names[number] for number, _ in judged.chosen}, key=names.index),
    }


def _describe_reduction(judged: CandidateReport) -> str:
    """Return what the reduction of the paper's graph says, where all queries that contain a candidate share it."""
    if judged.conflict_ridden:
        found = judged.conflict_ridden
        best, sure = format_number(found.highest_score), format_number(found.guaranteed)
        return f"conflict-ridden: a plan with it scores at most {best} where {sure} is sure"
    return "conflict-free" if judged.conflict_free else ""


def format_sharon(sharing: dict[str, Any]) -> Iterator[str]:
    """Yield the report as text: what is shared, how good that is, then every candidate and what became of it."""
    candidates = sharing["candidates"]
    segments = sharing["segments"]
    proof = "the best there is" if sharing["optimal"] else f"at most {sharing['gap']:.2%} below the best"
    found = f", found {sharing['found']}" if segments else ""
    yield f"sharing ({sharing['optimizer']}): {format_count(len(segments), 'run')} computed once{found}"
    yield f"  score {format_number(sharing['score'])} of at most {format_number(sharing['bound'])}: {proof}"
    if sharing["rates"] == "equal":
        yield f"  {EQUAL_RATES}"
    yield from (f"  {note}" for note in sharing["notes"])
    if not segments and candidates:
        yield "  no run pays: nothing is shared beyond equal prefixes"
    for segment in segments:
        places = ", ".join(f"{place['query']} at {place['offset'] + 1}" for place in segment["places"])
        yield f"  ({', '.join(segment['symbols'])}): {places}"
    beneficial = sum(each["benefit"] > 0 for each in candidates)
    yield (
        f"  {format_count(len(candidates), 'candidate')}, {beneficial:,} of them beneficial, "
        f"{format_count(len(sharing['conflicts']), 'conflict')}; "
        f"GWMIN is sure of {format_number(sharing['guaranteed'])}"
    )
    if sharing["options"] is not None:
        kept = "" if sharing["kept"] is None else f", {sharing['kept']:,} after reduction"
        visited = format_count(sharing["visited"], "plan")
        yield f"  {format_count(sharing['options'], 'option')}{kept}, {visited} looked at"
    yield f"  {format_phases(sharing['seconds'])}"
    yield from limit_lines([_format_candidate(each) for each in _rank_candidates(candidates)], MOST_LINES, "    ")
    for each in sharing["excluded"]:
        yield f"  {each['query']} takes no part: {each['why']}"


def _rank_candidates(candidates: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(candidates, key=lambda each: (not each["shared_by"], -each["benefit"]))


def _format_candidate(candidate: dict[str, Any]) -> str:
    symbols, queries = ", ".join(candidate["symbols"]), ", ".join(candidate["queries"])
    by_some = candidate["shared_by"] and candidate["shared_by"] != candidate["queries"]
    status = f"shared by {', '.join(candidate['shared_by'])} only" if by_some else candidate["status"]
    reduction = f"; by all its queries {candidate['reduction']}" if candidate["reduction"] else ""
    benefit = format_number(candidate["benefit"])
    return f"{candidate['name']} ({symbols}) in {queries}: benefit {benefit}, {status}{reduction}"


def _find_outcome(candidate: Mapping[str, Any]) -> str:
    ridden = candidate["reduction"].startswith("conflict-ridden")
    return "pruned" if ridden and candidate["status"] == "left out" else str(candidate["status"])


def draw_sharon(sharing: dict[str, Any]) -> str:
    """Draw the Sharon graph for Mermaid: beneficial candidates, and an edge for each conflict with its queries."""
    drawable = [each for each in sharing["candidates"] if each["status"] != "not beneficial"]
    first = {each["name"] for each in _rank_candidates(drawable)[:MOST_NODES]}
    shown = [each for each in drawable if each["name"] in first]
    lines = ["graph TD"]
    for each in shown:
        symbols, queries = (", ".join(map(escape_mermaid, each[of])) for of in ("symbols", "queries"))
        label = f"{each['name']}: {symbols}<br/>{queries}<br/>benefit {format_number(each['benefit'])}"
        lines.append(f'    {each["name"]}["{label}"]')
    for conflict in sharing["conflicts"]:
        one, other = conflict["between"]
        if one in first and other in first:
            lines.append(f'    {one} ---|"{", ".join(map(escape_mermaid, conflict["queries"]))}"| {other}')
    for outcome, (style, look) in STYLES.items():
        members = [each["name"] for each in shown if _find_outcome(each) == outcome]
        if members:
            lines += [f"    classDef {style} {look}", f"    class {','.join(members)} {style}"]
    if len(drawable) > len(shown):
        lines.append(f"    %% {len(drawable) - len(shown)} candidates of lower benefit are not drawn")
    return "\n".join(lines)


def draw_sharon_page(sharing: dict[str, Any], numbers: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the drawing of candidates for a page: a column for each outcome, conflicts between them."""
    ranked = _rank_candidates(sharing["candidates"])
    if not ranked:
        return
    shown = ranked[:MOST_NODES]
    conflicts = format_count(len(sharing["conflicts"]), "conflict")
    words = f"{format_count(len(ranked), 'candidate')}, {conflicts}; lines are conflicts"
    words += f"; {len(ranked) - len(shown):,} of least benefit are not drawn" if len(ranked) > len(shown) else ""
    yield draw_columns(_build_graph(shown, sharing["conflicts"], numbers), "sharon", "Sharon: candidates", words)


def _build_graph(
    candidates: Sequence[Mapping[str, Any]], conflicts: Sequence[Mapping[str, Any]], numbers: Mapping[str, int]
) -> Graph:
    names = {each["name"] for each in candidates}
    conflicts = [each for each in conflicts if set(each["between"]) <= names]
    against: dict[str, list[str]] = {}
    for one, other in (each["between"] for each in conflicts):
        against.setdefault(one, []).append(other)
        against.setdefault(other, []).append(one)
    nodes = tuple(_build_node(each, against.get(each["name"], []), numbers) for each in candidates)
    edges = tuple(
        GraphEdge(
            each["between"][0],
            each["between"][1],
            "conflict",
            tuple(sorted(numbers[name] for name in each["queries"])),
            details=(("conflict in", ", ".join(each["queries"])),),
            weak=len(conflicts) > MOST_CONFLICTS,
        )
        for each in conflicts
    )
    outcomes = {node.kind for node in nodes}
    return Graph(nodes, edges, tuple((each, words) for each, words in OUTCOMES.items() if each in outcomes))


def _build_node(candidate: Mapping[str, Any], against: Sequence[str], numbers: Mapping[str, int]) -> GraphNode:
    outcome, benefit = _find_outcome(candidate), format_number(candidate["benefit"])
    details = {
        "became": OUTCOMES[outcome],
        "benefit": benefit,
        "in": ", ".join(candidate["queries"]),
        "shared by": ", ".join(candidate["shared_by"]),
        "if all its queries shared it": candidate["reduction"],
        "conflicts with": ", ".join(against),
    }
    return GraphNode(
        candidate["name"],
        f"{candidate['name']}: {', '.join(candidate['symbols'])}",
        outcome,
        tuple(sorted(numbers[name] for name in candidate["shared_by"] or candidate["queries"])),
        f"benefit {benefit}, {format_count(len(candidate['queries']), 'query')}",
        tuple((name, words) for name, words in details.items() if words),
        outcome,
    )


def chart_sharon(sharing: dict[str, Any]) -> dict[str, Any]:
    """Return the bars of the plan's score for a page."""
    return {
        "title": "Sharon",
        "words": "score: what sharing saves, the more the better",
        "bars": {
            "this plan": sharing["score"],
            "at most possible": sharing["bound"],
            "GWMIN is sure of": sharing["guaranteed"],
        },
        "proof": "no plan scores more",
    }
