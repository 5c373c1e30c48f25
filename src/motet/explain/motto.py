"""What MOTTO's planner found, as plain data, as text and as a drawing: the plan graph, and the tree chosen in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from motet.explain.formatting import escape_mermaid, format_count, format_number
from motet.language.printer import expression_text, window_text
from motet.model.expression import Expression, variables
from motet.model.names import rename_variables
from motet.model.window import TimeWindow
from motet.optimizer.motto.graph import Disjunction, PlanNode
from motet.optimizer.motto.motto import MottoPlan
from motet.optimizer.motto.operations import Operation, Primitive, operation_of_spec
from motet.optimizer.motto.sources import canonicalize
from motet.plans.detect.build import JoinSpec, join_specs
from motet.plans.detect.nodes import LeafNode
from motet.plans.detect.query import DetectQuery
from motet.statistics.symbols import format_symbol

MOST_LINES = 60
MILLISECOND = 1e6  # costs are in nanoseconds


def describe_motto(plan: MottoPlan, queries: Sequence[DetectQuery], others: Mapping[str, float]) -> dict[str, Any]:
    """The plan as plain data. Costs are milliseconds as estimated; `others` are those of other plans, by name."""
    graph = plan.graph
    asked = _queries_by_terminal(queries)
    uses: dict[int, list[int]] = {}
    for node, source in plan.sources.items():
        uses.setdefault(source, []).append(node)
    return {
        "variant": plan.variant,
        "cost": _to_milliseconds(plan.cost),
        "bound": _to_milliseconds(plan.bound),
        "optimal": plan.is_optimal,
        "alternatives": {name: _to_milliseconds(cost) for name, cost in others.items()},
        "seconds": round(plan.seconds, 3),
        "arcs": len(graph.arcs),
        "nodes": [
            {
                "node": at,
                "kind": _node_kind(at, plan),
                "finds": format_plan_node(node),
                "queries": asked.get(node, []) if isinstance(node, JoinSpec) else [],
                "chosen": at in plan.sources,
                "from": plan.sources.get(at),
                "cost": _to_milliseconds(graph.arcs[plan.sources[at], at].cost) if at in plan.sources else None,
                "techniques": [str(each) for each in graph.techniques(plan.sources[at], at)]
                if at in plan.sources
                else [],
                "serves": sorted(uses.get(at, [])),
            }
            for at, node in enumerate(graph.nodes)
        ],
        "ways": [
            {
                "from": source,
                "to": target,
                "cost": _to_milliseconds(way.cost),
                "chosen": plan.sources.get(target) == source,
            }
            for (source, target), way in graph.arcs.items()
        ],
    }


def _to_milliseconds(cost: float) -> float:
    return float(f"{cost / MILLISECOND:.4g}")


def _node_kind(node: int, plan: MottoPlan) -> str:
    if node in plan.graph.terminals:
        return "query"
    match plan.graph.nodes[node]:
        case None:
            return "ground"
        case Disjunction():
            return "disjunction"
    return "sub-query"


def _queries_by_terminal(queries: Sequence[DetectQuery]) -> dict[PlanNode, list[str]]:
    """The queries that each terminal is for."""
    found: dict[PlanNode, list[str]] = {}
    for query in queries:
        for parts in join_specs([query]):
            found.setdefault(canonicalize(parts), []).append(query.query.name)
    return found


def format_plan_node(node: PlanNode) -> str:
    """What a node of the plan graph finds: `SEQ(A e1, B e2) where e1.x < e2.x within 5 s`."""
    match node:
        case None:
            return "events"
        case Disjunction(items):
            return f"DISJ({', '.join(sorted(format_symbol(leaf.symbol) for leaf in items))})"
    tests = " and ".join(sorted(map(_format_test, node.tests)))
    absent = ", ".join(sorted({format_symbol(gap.symbol) for gap in node.gaps}))
    return (
        _format_operation(operation_of_spec(node))
        + (f" where {tests}" if tests else "")
        + (f" without {absent} in between" if absent else "")
        + (" " + window_text(TimeWindow(node.within)).replace("WITHIN", "within") if node.within else "")
    )


def _format_operation(operation: Operation) -> str:
    return f"{operation.operator}({', '.join(map(_format_operand, operation.operands))})"


def _format_operand(operand: Primitive | Operation) -> str:
    if isinstance(operand, Operation):
        return _format_operation(operand)
    what = format_symbol(operand.what.symbol) if isinstance(operand.what, LeafNode) else "(loop)"
    return f"{what} e{operand.item + 1}"


def _format_test(test: Expression) -> str:
    return expression_text(rename_variables(test, {name: f"e{int(name) + 1}" for name in variables(test)}))


def format_motto(plan: dict[str, Any]) -> Iterator[str]:
    """The plan as text: what it costs against others, then what is computed from what."""
    others = ", ".join(f"{name} {format_number(cost)}" for name, cost in plan["alternatives"].items())
    yield f"  sharing ({plan['variant']}): estimated {format_number(plan['cost'])} ms; {others}"
    chosen = [node for node in plan["nodes"] if node["chosen"]]
    proof = f"none can cost less than {format_number(plan['bound'])} ms" if plan["bound"] else "taken whatever it costs"
    proof = "no plan by it costs less" if plan["optimal"] else proof
    nodes, arcs = format_count(len(plan["nodes"]), "node"), format_count(plan["arcs"], "arc")
    yield f"  plan graph of {nodes} and {arcs}, searched in {plan['seconds']:.3f} s: {proof}"
    finds = {node["node"]: node["finds"] for node in plan["nodes"]}
    for node in chosen[:MOST_LINES]:
        of_whom = f" [{', '.join(node['queries'])}]" if node["queries"] else ""
        how = ", ".join(node["techniques"])
        source = "" if node["from"] == 0 else f" of {finds[node['from']]}"
        serves = f", shared by {len(node['serves'])}" if len(node["serves"]) > 1 else ""
        yield f"    {node['finds']}{of_whom}: {how}{source}, {format_number(node['cost'])} ms{serves}"
    if len(chosen) > MOST_LINES:
        yield f"    and {len(chosen) - MOST_LINES:,} more (all in --format json)"


def draw_motto_mermaid(plans: Sequence[dict[str, Any]]) -> str:
    """The plan graphs: queries, sub-queries and what else they can be computed from; the chosen arcs are thick, others
    dotted where there are not too many.
    """
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
