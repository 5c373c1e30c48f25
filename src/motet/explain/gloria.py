"""What the Gloria optimizer decided, as plain data, as text, and as a drawing of the template with the plan on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from motet.explain.formatting import escape_mermaid, format_count, format_number
from motet.optimizer.gloria.gloria import GloriaReport
from motet.optimizer.gloria.graph import GloriaGraph
from motet.optimizer.gloria.template import Pool
from motet.statistics.symbols import format_symbol

MOST_LINES = 60  # transitions in a text
MOST_EDGES = 200  # transitions in a drawing
MOST_NAMES = 8  # queries of a Q-set in a text
MODELS = {"printed": "by the equations of the paper", "calibrated": "by what our kernels take"}


def describe_gloria(report: GloriaReport, names: Sequence[str]) -> dict[str, Any]:
    """The report by the names of queries."""
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
    """The report as text: what the plan costs against others, then the Q-sets of every transition that is shared."""
    pools = [pool for template in sharing["templates"] for pool in template["pools"]]
    shared = [pool for pool in pools if pool["q_sets"]]
    transitions = format_count(sum(len(pool["transitions"]) for pool in shared), "transition")
    yield f"sharing ({sharing['optimizer']}): {transitions} of {sum(len(p['transitions']) for p in pools):,} shared"
    others = ", ".join(f"{name} {format_number(cost)}" for name, cost in sharing["alternatives"].items())
    yield f"  cost {format_number(sharing['cost'])} {MODELS[sharing['costs']]}; {others}"
    proof = "no plan costs less" if sharing["optimal"] else "a better plan is not ruled out"
    searched = (
        f"{format_count(sharing['nodes'], 'node')} in {format_count(len(pools), 'pool')}, {sharing['pruned']:,} pruned"
    )
    yield f"  {searched}: {proof}"
    if sharing["rates"] == "equal":
        yield "  no statistics given: as many events of every symbol assumed"
    yield "  time: " + ", ".join(f"{phase} {seconds:.3f} s" for phase, seconds in sharing["seconds"].items())
    for pool in shared[:MOST_LINES]:
        yield f"  {_format_transitions(pool)}: {_format_q_sets(pool)}"
    if len(shared) > MOST_LINES:
        yield f"  and {len(shared) - MOST_LINES:,} more (all in --format json)"
    for each in sharing["excluded"]:
        yield f"  {each['query']} takes no part: {each['why']}"


def _format_transitions(pool: dict[str, Any]) -> str:
    return ", ".join(f"{source} to {target}" for source, target in pool["transitions"])


def _format_q_sets(pool: dict[str, Any]) -> str:
    sets = [f"({_format_names(each['queries'])}) by snapshots of {each['snapshots']}" for each in pool["q_sets"]]
    return "; ".join([*sets, f"alone {_format_names(pool['alone'])}"] if pool["alone"] else sets)


def _format_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES:,} more"


def draw_gloria_mermaid(report: GloriaReport, names: Sequence[str]) -> str:
    """The templates: states, and transitions with their Q-sets; what is shared is drawn thick."""
    lines = ["graph LR"]
    drawn = left_out = 0
    for at, template in enumerate(describe_gloria(report, names)["templates"], 1):
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
    sets = [f"({_format_names(each['queries'])}) by {each['snapshots']}" for each in pool["q_sets"]]
    alone = [f"({name})" for name in pool["alone"][:MOST_NAMES]]
    more = len(pool["alone"]) - len(alone)
    return ", ".join((*sets, *alone, *([f"{more} more alone"] if more > 0 else [])))
