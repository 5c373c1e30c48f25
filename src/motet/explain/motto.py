"""What MOTTO's planner found, as plain data, as text and as a drawing: the plan graph, and the tree chosen in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from motet.explain.words import count, number, quoted
from motet.language.printer import expression_text, window_text
from motet.model.expression import Expression, variables
from motet.model.names import renamed
from motet.model.window import TimeWindow
from motet.optimizer.detect.motto.graph import Disjunction, PlanNode, canonical
from motet.optimizer.detect.motto.motto import MottoPlan
from motet.optimizer.detect.motto.operations import Operation, Single, of_parts
from motet.plan.detect.build import Parts, trees_wanted
from motet.plan.detect.nodes import LeafNode
from motet.plan.detect.query import DetectQuery
from motet.statistics.symbols import symbol_text

MOST_LINES = 60
MILLISECOND = 1e6  # costs are in nanoseconds


def describe_motto(plan: MottoPlan, queries: Sequence[DetectQuery], others: Mapping[str, float]) -> dict[str, Any]:
    """The plan as plain data. Costs are milliseconds as estimated; `others` are those of other plans, by name."""
    graph = plan.graph
    asked = _asked_by(queries)
    uses: dict[int, list[int]] = {}
    for node, source in plan.sources.items():
        uses.setdefault(source, []).append(node)
    return {
        "variant": plan.variant,
        "cost": _milliseconds(plan.cost),
        "bound": _milliseconds(plan.bound),
        "optimal": plan.proved,
        "alternatives": {name: _milliseconds(cost) for name, cost in others.items()},
        "seconds": round(plan.seconds, 3),
        "arcs": len(graph.ways),
        "nodes": [
            {
                "node": at,
                "kind": _kind(at, plan),
                "finds": node_text(node),
                "queries": asked.get(node, []) if isinstance(node, Parts) else [],
                "chosen": at in plan.sources,
                "from": plan.sources.get(at),
                "cost": _milliseconds(graph.ways[plan.sources[at], at].cost) if at in plan.sources else None,
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
                "cost": _milliseconds(way.cost),
                "chosen": plan.sources.get(target) == source,
            }
            for (source, target), way in graph.ways.items()
        ],
    }


def _milliseconds(cost: float) -> float:
    return float(f"{cost / MILLISECOND:.4g}")


def _kind(node: int, plan: MottoPlan) -> str:
    if node in plan.graph.terminals:
        return "query"
    match plan.graph.nodes[node]:
        case None:
            return "ground"
        case Disjunction():
            return "disjunction"
    return "sub-query"


def _asked_by(queries: Sequence[DetectQuery]) -> dict[PlanNode, list[str]]:
    """The queries that each terminal is for."""
    found: dict[PlanNode, list[str]] = {}
    for query in queries:
        for parts in trees_wanted([query]):
            found.setdefault(canonical(parts), []).append(query.query.name)
    return found


def node_text(node: PlanNode) -> str:
    """What a node of the plan graph finds: `SEQ(A e1, B e2) where e1.x < e2.x within 5 s`."""
    match node:
        case None:
            return "events"
        case Disjunction(items):
            return f"DISJ({', '.join(sorted(symbol_text(leaf.symbol) for leaf in items))})"
    tests = " and ".join(sorted(map(_test_text, node.tests)))
    absent = ", ".join(sorted({symbol_text(gap.symbol) for gap in node.gaps}))
    return (
        _operation_text(of_parts(node))
        + (f" where {tests}" if tests else "")
        + (f" without {absent} in between" if absent else "")
        + (" " + window_text(TimeWindow(node.within)).replace("WITHIN", "within") if node.within else "")
    )


def _operation_text(operation: Operation) -> str:
    return f"{operation.operator}({', '.join(map(_operand_text, operation.operands))})"


def _operand_text(operand: Single | Operation) -> str:
    if isinstance(operand, Operation):
        return _operation_text(operand)
    what = symbol_text(operand.what.symbol) if isinstance(operand.what, LeafNode) else "(loop)"
    return f"{what} e{operand.item + 1}"


def _test_text(test: Expression) -> str:
    return expression_text(renamed(test, {name: f"e{int(name) + 1}" for name in variables(test)}))


def motto_lines(plan: dict[str, Any]) -> Iterator[str]:
    """The plan as text: what it costs against others, then what is computed from what."""
    others = ", ".join(f"{name} {number(cost)}" for name, cost in plan["alternatives"].items())
    yield f"  sharing ({plan['variant']}): estimated {number(plan['cost'])} ms; {others}"
    chosen = [node for node in plan["nodes"] if node["chosen"]]
    proof = f"none can cost less than {number(plan['bound'])} ms" if plan["bound"] else "taken whatever it costs"
    proof = "no plan by it costs less" if plan["optimal"] else proof
    nodes, arcs = count(len(plan["nodes"]), "node"), count(plan["arcs"], "arc")
    yield f"  plan graph of {nodes} and {arcs}, searched in {plan['seconds']:.3f} s: {proof}"
    finds = {node["node"]: node["finds"] for node in plan["nodes"]}
    for node in chosen[:MOST_LINES]:
        of_whom = f" [{', '.join(node['queries'])}]" if node["queries"] else ""
        how = ", ".join(node["techniques"])
        source = "" if node["from"] == 0 else f" of {finds[node['from']]}"
        serves = f", shared by {len(node['serves'])}" if len(node["serves"]) > 1 else ""
        yield f"    {node['finds']}{of_whom}: {how}{source}, {number(node['cost'])} ms{serves}"
    if len(chosen) > MOST_LINES:
        yield f"    and {len(chosen) - MOST_LINES:,} more (all in --format json)"


def motto_mermaid(plans: Sequence[dict[str, Any]]) -> str:
    """The plan graphs: queries, sub-queries and what else they can be computed from; the chosen arcs are thick, others
    dotted where there are not too many.
    """
    lines = ["graph TD"]
    for at, plan in enumerate(plans, 1):
        arcs = [arc for arc in plan["ways"] if arc["chosen"] or len(plan["ways"]) <= MOST_LINES]
        drawn = {end for arc in arcs for end in (arc["from"], arc["to"])}
        for node in plan["nodes"]:
            if node["node"] in drawn:
                label = quoted("<br/>".join((*node["queries"], node["finds"]))).replace("#lt;br/#gt;", "<br/>")
                opened, closed = ("[", "]") if node["kind"] == "query" else ("([", "])")
                lines.append(f'    p{at}_{node["node"]}{opened}"{label}"{closed}')
        for arc in arcs:
            arrow = "==>" if arc["chosen"] else "-.->"
            lines.append(f'    p{at}_{arc["from"]} {arrow}|"{number(arc["cost"])}"| p{at}_{arc["to"]}')
    return "\n".join(lines)
