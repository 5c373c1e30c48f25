"""Shows what MOTTO's planner found, as data, text and Mermaid: the plan graph, and the tree chosen in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from motet.compile.stated_rates import item_test_text
from motet.explain.formatting import (
    escape_mermaid,
    format_costs,
    format_count,
    format_duration,
    format_number,
    limit_lines,
    round_digits,
)
from motet.optimizer.joins import JoinPlan
from motet.optimizer.motto.graph import Disjunction, PlanNode
from motet.optimizer.motto.motto import MottoPlan
from motet.optimizer.motto.operations import Operation, Primitive, operation_of_spec
from motet.optimizer.motto.sources import canonicalize
from motet.options import Options
from motet.plans.detect.build import JoinSpec, join_specs
from motet.plans.detect.nodes import LeafNode
from motet.plans.detect.query import DetectQuery
from motet.statistics.model import format_symbol

MOST_LINES = 60


def describe_motto(chosen: JoinPlan, queries: Sequence[DetectQuery], options: Options) -> dict[str, Any]:
    """Describe the plan graph that was searched, and what other plans by it would cost, in milliseconds."""
    plan = chosen.report
    assert isinstance(plan, MottoPlan)
    others = plan.estimate_alternatives(list(chosen.trees), chosen.rates, options.budget_seconds)
    return {
        "variant": plan.variant,
        "cost": _to_milliseconds(plan.cost),
        "bound": _to_milliseconds(plan.bound),
        "optimal": plan.is_optimal,
        "alternatives": {name: _to_milliseconds(cost) for name, cost in others.items()},
        "seconds": round(plan.seconds, 3),
        "arcs": len(plan.graph.arcs),
        "nodes": list(_describe_nodes(plan, queries)),
        "ways": [
            {
                "from": source,
                "to": target,
                "cost": _to_milliseconds(way.cost),
                "chosen": plan.sources.get(target) == source,
            }
            for (source, target), way in plan.graph.arcs.items()
        ],
    }


def _describe_nodes(plan: MottoPlan, queries: Sequence[DetectQuery]) -> Iterator[dict[str, Any]]:
    terminals = _group_queries(queries)
    uses: dict[int, list[int]] = {}
    for target, source in plan.sources.items():
        uses.setdefault(source, []).append(target)
    for at, node in enumerate(plan.graph.nodes):
        origin = plan.sources.get(at)
        yield {
            "node": at,
            "kind": _find_kind(at, plan),
            "finds": _format_plan_node(node),
            "queries": terminals.get(node, []) if isinstance(node, JoinSpec) else [],
            "chosen": origin is not None,
            "from": origin,
            "cost": None if origin is None else _to_milliseconds(plan.graph.arcs[origin, at].cost),
            "techniques": [] if origin is None else [str(each) for each in plan.graph.techniques(origin, at)],
            "serves": sorted(uses.get(at, [])),
        }


def _to_milliseconds(nanoseconds: float) -> float:
    return round_digits(nanoseconds / 1e6)


def _find_kind(node: int, plan: MottoPlan) -> str:
    if node in plan.graph.terminals:
        return "query"
    match plan.graph.nodes[node]:
        case None:
            return "ground"
        case Disjunction():
            return "disjunction"
    return "sub-query"


def _group_queries(queries: Sequence[DetectQuery]) -> dict[PlanNode, list[str]]:
    """Return the queries that each terminal is for."""
    found: dict[PlanNode, list[str]] = {}
    for query in queries:
        for parts in join_specs([query]):
            found.setdefault(canonicalize(parts), []).append(query.query.name)
    return found


def _format_plan_node(node: PlanNode) -> str:
    """Return what a node of the plan graph finds: `SEQ(A e1, B e2) where e1.x < e2.x within 5 s`."""
    match node:
        case None:
            return "events"
        case Disjunction(items):
            return f"DISJ({', '.join(sorted(format_symbol(leaf.symbol) for leaf in items))})"
    tests = " and ".join(sorted(map(item_test_text, node.tests)))
    absent = ", ".join(sorted({format_symbol(gap.symbol) for gap in node.gaps}))
    return (
        _format_operation(operation_of_spec(node))
        + (f" where {tests}" if tests else "")
        + (f" without {absent} in between" if absent else "")
        + (f" within {format_duration(node.within)}" if node.within else "")
    )


def _format_operation(operation: Operation) -> str:
    return f"{operation.operator}({', '.join(map(_format_operand, operation.operands))})"


def _format_operand(operand: Primitive | Operation) -> str:
    if isinstance(operand, Operation):
        return _format_operation(operand)
    what = format_symbol(operand.what.symbol) if isinstance(operand.what, LeafNode) else "(loop)"
    return f"{what} e{operand.item + 1}"


def format_motto(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the plan as text: what it costs against others, then what is computed from what."""
    others = format_costs(plan["alternatives"])
    yield f"  sharing ({plan['variant']}): estimated {format_number(plan['cost'])} ms; {others}"
    chosen = [node for node in plan["nodes"] if node["chosen"]]
    proof = f"none can cost less than {format_number(plan['bound'])} ms" if plan["bound"] else "taken whatever it costs"
    proof = "no plan by it costs less" if plan["optimal"] else proof
    nodes, arcs = format_count(len(plan["nodes"]), "node"), format_count(plan["arcs"], "arc")
    yield f"  plan graph of {nodes} and {arcs}, searched in {plan['seconds']:.3f} s: {proof}"
    finds = {node["node"]: node["finds"] for node in plan["nodes"]}
    yield from limit_lines([_format_node(node, finds) for node in chosen], MOST_LINES, "    ")


def _format_node(node: dict[str, Any], finds: Mapping[int, str]) -> str:
    of_whom = f" [{', '.join(node['queries'])}]" if node["queries"] else ""
    source = "" if node["from"] == 0 else f" of {finds[node['from']]}"
    serves = f", shared by {len(node['serves'])}" if len(node["serves"]) > 1 else ""
    cost = format_number(node["cost"])
    return f"{node['finds']}{of_whom}: {', '.join(node['techniques'])}{source}, {cost} ms{serves}"


def draw_motto(plans: Sequence[dict[str, Any]]) -> str:
    """Draw the plan graphs for Mermaid: chosen arcs are thick, others dotted where there are not too many."""
    lines = ["graph TD"]
    for at, plan in enumerate(plans, 1):
        arcs = [arc for arc in plan["ways"] if arc["chosen"] or len(plan["ways"]) <= MOST_LINES]
        drawn = {end for arc in arcs for end in (arc["from"], arc["to"])}
        for node in plan["nodes"]:
            if node["node"] in drawn:
                label = escape_mermaid("<br/>".join((*node["queries"], node["finds"]))).replace("#lt;br/#gt;", "<br/>")
                opened, closed = ("[", "]") if node["kind"] == "query" else ("([", "])")
                lines.append(f'    p{at}_{node["node"]}{opened}"{label}"{closed}')
        for arc in arcs:
            arrow = "==>" if arc["chosen"] else "-.->"
            lines.append(f'    p{at}_{arc["from"]} {arrow}|"{format_number(arc["cost"])}"| p{at}_{arc["to"]}')
    return "\n".join(lines)
