"""Shows what the Gloria optimizer decided, as data, text, Mermaid and a page: templates and the Q-sets on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from motet.explain.formatting import (
    EQUAL_RATES,
    escape_mermaid,
    format_costs,
    format_count,
    format_names,
    format_number,
    format_phases,
    limit_lines,
)
from motet.explain.page.drawing import draw_graph
from motet.explain.page.graph import Graph, GraphEdge, GraphNode, union_queries
from motet.optimizer.gloria.gloria import GloriaReport
from motet.optimizer.gloria.graph import GloriaGraph
from motet.optimizer.gloria.template import Pool
from motet.statistics.model import format_symbol

MOST_LINES = 60  # transitions in a text
MOST_EDGES = 200  # transitions in a drawing
MOST_NAMES = 8  # queries of a Q-set in a text
COLORS = 8  # that Q-sets take in turn on a page; their labels tell them apart
MODELS = {"printed": "by the equations of the paper", "calibrated": "by what our kernels take"}


def describe_gloria(report: GloriaReport, names: Sequence[str]) -> dict[str, Any]:
    """Describe the report by the names of queries."""
    return {
        "optimizer": report.variant,
        "costs": report.costs,
        "cost": report.weight,
        "alternatives": dict(report.alternatives),
        "optimal": report.complete,
        "rates": "equal" if report.equal_rates else "statistics",
        "nodes": report.nodes,
        "pruned": report.pruned,
        "seconds": {phase: round(seconds, 6) for phase, seconds in report.seconds.items()},
        "templates": [_describe_template(graph, names) for graph in report.graphs],
        "excluded": [{"query": names[query], "why": why} for query, why in report.excluded.items()],
    }


def _describe_template(graph: GloriaGraph, names: Sequence[str]) -> dict[str, Any]:
    template = graph.template
    return {
        "queries": [names[query] for query in template.queries],
        "states": [format_symbol(state.symbol) for state in template.states],
        "cost": graph.weight,
        "pools": [_describe_pool(graph, pool, names) for pool in template.pools],
    }


def _describe_pool(graph: GloriaGraph, pool: Pool, names: Sequence[str]) -> dict[str, Any]:
    template = graph.template
    symbols = [format_symbol(state.symbol) for state in template.states]
    alone = pool.queries
    shared = []
    for queries, snapshot in graph.path[pool.number]:
        alone &= ~queries
        members = [names[query] for query in template.query_numbers(queries)]
        shared.append({"queries": members, "snapshots": symbols[snapshot]})
    return {
        "transitions": [[symbols[source], symbols[target]] for source, target in pool.transitions],
        "states": [list(transition) for transition in pool.transitions],
        "q_sets": shared,
        "alone": [names[query] for query in template.query_numbers(alone)],
        "nodes": len(graph.pools[pool.number]),
        "pruned": sum(generated.pruned for generated in graph.pools[pool.number]),
    }


def format_gloria(sharing: dict[str, Any]) -> Iterator[str]:
    """Yield the report as text: what the plan costs against others, then the Q-sets of every shared transition."""
    pools = [pool for template in sharing["templates"] for pool in template["pools"]]
    shared = [pool for pool in pools if pool["q_sets"]]
    transitions = format_count(sum(len(pool["transitions"]) for pool in shared), "transition")
    yield f"sharing ({sharing['optimizer']}): {transitions} of {sum(len(p['transitions']) for p in pools):,} shared"
    others = format_costs(sharing["alternatives"])
    yield f"  cost {format_number(sharing['cost'])} {MODELS[sharing['costs']]}; {others}"
    proof = "no plan costs less" if sharing["optimal"] else "a better plan is not ruled out"
    searched = f"{format_count(sharing['nodes'], 'node')} in {format_count(len(pools), 'pool')}"
    yield f"  {searched}, {sharing['pruned']:,} pruned: {proof}"
    if sharing["rates"] == "equal":
        yield f"  {EQUAL_RATES}"
    yield f"  {format_phases(sharing['seconds'])}"
    yield from limit_lines([_format_pool(pool) for pool in shared], MOST_LINES, "  ")
    for each in sharing["excluded"]:
        yield f"  {each['query']} takes no part: {each['why']}"


def _format_pool(pool: dict[str, Any]) -> str:
    transitions = ", ".join(f"{source} to {target}" for source, target in pool["transitions"])
    parts = _format_sets(pool, "snapshots of ")
    if pool["alone"]:
        parts.append(f"alone {format_names(pool['alone'], MOST_NAMES)}")
    return f"{transitions}: {'; '.join(parts)}"


def _format_sets(pool: dict[str, Any], by: str = "") -> list[str]:
    return [f"({format_names(each['queries'], MOST_NAMES)}) by {by}{each['snapshots']}" for each in pool["q_sets"]]


def draw_gloria(sharing: dict[str, Any]) -> str:
    """Draw the templates for Mermaid: states, and transitions with their Q-sets; what is shared is drawn thick."""
    lines = ["graph LR"]
    drawn = left_out = 0
    for at, template in enumerate(sharing["templates"], 1):
        pools = sorted(template["pools"], key=lambda pool: not pool["q_sets"])
        seen: set[int] = set()
        for pool in pools:
            if drawn >= MOST_EDGES:
                left_out += len(pool["states"])
                continue
            drawn += len(pool["states"])
            label = escape_mermaid(_format_edge_label(pool))
            arrow = "==>" if pool["q_sets"] else "-->"
            for source, target in pool["states"]:
                for state in (source, target):
                    if state not in seen:
                        seen.add(state)
                        lines.append(f'    s{at}_{state}(["{escape_mermaid(template["states"][state])}"])')
                lines.append(f'    s{at}_{source} {arrow}|"{label}"| s{at}_{target}')
    if left_out:
        lines.append(f"    %% {left_out} more transitions are not drawn")
    return "\n".join(lines)


def _format_edge_label(pool: dict[str, Any]) -> str:
    alone = [f"({name})" for name in pool["alone"][:MOST_NAMES]]
    more = len(pool["alone"]) - len(alone)
    return ", ".join((*_format_sets(pool), *alone, *([f"{more} more alone"] if more > 0 else [])))


def draw_gloria_page(sharing: dict[str, Any], numbers: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield a drawing of each template for a page."""
    labels = {(tuple(each["queries"]), each["snapshots"]): each for each in collect_q_sets(sharing)}
    several = len(sharing["templates"]) > 1
    for at, template in enumerate(sharing["templates"], 1):
        words = f"{format_count(len(template['queries']), 'query')}; an arrow's label is the Q-set that shares it"
        title = f"Gloria: Q-sets{f' {at}' if several else ''}"
        yield draw_graph(f"gloria-{at}", title, words, "gloria", _build_graph(template, labels, numbers))


def collect_q_sets(sharing: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every Q-set with the state of its snapshots, once, with a label and the number of its color."""
    found: dict[tuple[tuple[str, ...], str], dict[str, Any]] = {}
    for template in sharing["templates"]:
        for pool in template["pools"]:
            for each in pool["q_sets"]:
                key = (tuple(each["queries"]), each["snapshots"])
                label = f"S{len(found) + 1}"
                known = found.setdefault(key, {"label": label, "tone": len(found) % COLORS, **each, "transitions": 0})
                known["transitions"] += len(pool["transitions"])
    return list(found.values())


def _build_graph(
    template: Mapping[str, Any],
    labels: Mapping[tuple[tuple[str, ...], str], Mapping[str, Any]],
    numbers: Mapping[str, int],
) -> Graph:
    """Build the graph of a template: an edge for each Q-set of a transition, and one for all that share nothing."""
    members: dict[int, list[tuple[int, ...]]] = {}
    snapshots: dict[int, dict[str, None]] = {}
    edges: list[GraphEdge] = []
    for pool in template["pools"]:
        alone = tuple(sorted(numbers[name] for name in pool["alone"]))
        for source, target in pool["states"]:
            kind = "loop" if source == target else "step"
            every = [alone]
            for each in pool["q_sets"]:
                known = labels[tuple(each["queries"]), each["snapshots"]]
                queries = tuple(sorted(numbers[name] for name in each["queries"]))
                details = (("Q-set", known["label"]), ("snapshots of", each["snapshots"]))
                edges.append(GraphEdge(str(source), str(target), kind, queries, known["label"], known["tone"], details))
                snapshots.setdefault(template["states"].index(each["snapshots"]), {})[known["label"]] = None
                every.append(queries)
            if alone:
                details = (("shared", "by nobody"), ("queries", format_count(len(alone), "query")))
                edges.append(GraphEdge(str(source), str(target), kind, alone, details=details))
            for state in (source, target):
                members.setdefault(state, []).append(union_queries(every))
    nodes = [
        _build_node(at, symbol, union_queries(members[at]), ", ".join(snapshots.get(at, ())))
        for at, symbol in enumerate(template["states"])
        if at in members
    ]
    return Graph(tuple(nodes), tuple(edges))


def _build_node(at: int, symbol: str, queries: tuple[int, ...], snapshots: str) -> GraphNode:
    if not snapshots:
        return GraphNode(str(at), symbol, "state", queries)
    details = (("snapshots for", snapshots),)
    return GraphNode(str(at), symbol, "snapshot", queries, f"◆ snapshots for {snapshots}", details)


def chart_gloria(sharing: dict[str, Any]) -> dict[str, Any]:
    """Return the bars of the plan's cost for a page."""
    return {
        "title": "Gloria",
        "words": f"cost by the {sharing['costs']} equations",
        "bars": {"this plan": sharing["cost"], **sharing["alternatives"]},
        "proof": "no plan costs less",
    }
