"""What a plan says of detection, as plain data and as text: the graph of joins, and what each query reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from motet.engine import Program
from motet.engine.detect.program import DetectBranch
from motet.engine.detect.stated_rates import item_test_text, rates_from_statistics
from motet.engine.metrics import BranchMetrics
from motet.explain.formatting import format_count, format_number
from motet.explain.inputs import describe_input, format_input
from motet.explain.motto import describe_motto, format_motto
from motet.language.printer import expression_text, pattern_text, window_text
from motet.model.expression import Expression
from motet.optimizer.joins import estimate_alternatives, plan_trees
from motet.optimizer.joins.plan import JoinPlan
from motet.optimizer.motto import motto
from motet.plans.detect.build import PlannedQuery, list_nodes, plan_queries
from motet.plans.detect.estimates import NodeEstimate, estimate_nodes, list_roots, sum_costs
from motet.plans.detect.nodes import (
    FilterNode,
    Gap,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PathScanNode,
    SubpatternNode,
    UnionNode,
    inputs,
)
from motet.statistics.model import Statistics
from motet.statistics.symbols import format_symbol


def describe_detect(
    branch: DetectBranch, program: Program, counts: Mapping[str, int] | None, ran: BranchMetrics | None = None
) -> dict[str, Any]:
    """The graph of joins of a branch: as it was run, as it was planned for statistics, or as it would be for so many
    events of each type.
    """
    if ran is not None and ran.chosen is not None:
        chosen, planned = ran.chosen, list(ran.planned)
    else:
        chosen, planned = plan_detect_branch(branch, program, counts)
    nodes = list_nodes(planned)
    number = {node: at for at, node in enumerate(nodes, 1)}
    serves = _queries_by_node(planned)
    # Without rates all symbols would be as frequent: what that comes to is no estimate.
    work = estimate_nodes(list_roots(planned), chosen.rates) if chosen.rates.counts else {}
    return {
        **describe_input(branch, counts),
        "halo_us": branch.overlap,
        "combined": branch.needs_combine,
        "plan": chosen.method,
        **(_describe_estimates(chosen, work) if work else {}),
        **({} if chosen.report is None else {"motto": _motto(chosen.report, chosen, branch, program)}),
        "nodes": [
            {
                "node": number[node],
                **describe_node(node),
                "reads": [number[each] for each in inputs(node)],
                "queries": serves[node],
                **(_describe_work(work[node]) if node in work else {}),
                **({} if ran is None else {"actual": ran.instance_counts[node]}),
            }
            for node in nodes
        ],
        "queries": [describe_query(each, number) for each in planned],
    }


def plan_detect_branch(
    branch: DetectBranch, program: Program, counts: Mapping[str, int] | None
) -> tuple[JoinPlan, list[PlannedQuery]]:
    """The trees of a branch and its nodes."""
    chosen = branch.trees
    if chosen is None:
        known = None if counts is None else Statistics(counts)
        options = program.options
        chosen = plan_trees(
            branch.join_specs, options.optimizer, rates_from_statistics(known, branch), options.budget_seconds
        )
    return chosen, plan_queries(branch.queries, chosen)


def _motto(plan: motto.MottoPlan, chosen: JoinPlan, branch: DetectBranch, program: Program) -> dict[str, Any]:
    """The plan graph that was searched, and what other plans by it would cost."""
    others = motto.estimate_alternatives(plan, list(chosen.trees), chosen.rates, program.options.budget_seconds)
    return describe_motto(plan, branch.queries, others)


def _describe_estimates(chosen: JoinPlan, work: Mapping[Node, NodeEstimate]) -> dict[str, Any]:
    """What the plan costs in microseconds, and what others would."""
    others = estimate_alternatives(list(chosen.trees), chosen.rates) | dict(chosen.considered)
    estimates = {name: _round(cost / 1000) for name, cost in others.items()}
    return {"cost": _round(sum_costs(work) / 1000), "estimates": estimates}


def _describe_work(work: NodeEstimate) -> dict[str, float]:
    return {
        "estimate": _round(work.instances),
        "pairs": _round(work.pairs),
        "cost_us": _round(work.cost / 1000),
    }


def _round(cost: float) -> float:
    return float(f"{cost:.4g}")


def _queries_by_node(planned: list[PlannedQuery]) -> dict[Node, list[str]]:
    """The queries that each node works for."""
    found: dict[Node, list[str]] = {}
    for each in planned:
        for node in each.nodes:
            found.setdefault(node, []).append(each.query.query.name)
    return found


def describe_query(planned: PlannedQuery, number: Mapping[Node, int]) -> dict[str, Any]:
    """A query as the plan sees it: how its matches are found, and why they have to be."""
    compiled, query = planned.query, planned.query.query
    residual = sorted({at for alternative in planned.alternatives for at in alternative.residual})
    return {
        "name": query.name,
        "pattern": pattern_text(query.pattern),
        "window": None if query.window is None else window_text(query.window),
        "group_by": list(query.group_by),
        "policy": str(query.policy),
        "way": "compact graph" if compiled.is_compact else "joins",
        "aggregated": query.is_aggregate,
        "reason": compiled.reason or None,
        "nodes": [number[root] for root in planned.roots],
        "on_matches": [expression_text(compiled.match_conditions[at]) for at in residual],
    }


def describe_node(node: Node) -> dict[str, Any]:
    """What a node finds."""
    match node:
        case LeafNode(symbol):
            return {"kind": "leaf", "finds": format_symbol(symbol)}
        case UnionNode():
            return {"kind": "union", "finds": "any of its inputs"}
        case LoopNode(items, firsts, lasts, edges):
            return {
                "kind": "paths",
                "finds": "paths over " + ", ".join(_format_item(item) for item in items),
                "steps": [[edge.source + 1, edge.target + 1] for edge in edges],
                "begins": [item + 1 for item in sorted(firsts)],
                "ends": [item + 1 for item in sorted(lasts)],
                "tests": sorted({item_test_text(test) for edge in edges for test in edge.tests}),
                "absent": sorted({format_symbol(s) for edge in edges for way in edge.ways for s in way}),
            }
        case JoinNode():
            return _describe_part("join", node, node.order, node.new_tests, node.new_gaps)
        case FilterNode():
            return _describe_part("filter", node, frozenset(node.new_order), node.new_tests, node.new_gaps)
        case PathScanNode():
            return _describe_part("walk", node, node.order, (), ())


def _describe_part(
    kind: str,
    node: SubpatternNode,
    order: frozenset[tuple[int, int]],
    tests: Sequence[Expression],
    gaps: Sequence[Gap],
) -> dict[str, Any]:
    """The items of a node, and what it sees to."""
    return {
        "kind": kind,
        "finds": ", ".join(f"{_format_item(item)} e{at}" for at, item in enumerate(node.items, 1)),
        "order": [f"e{a + 1} before e{b + 1}" for a, b in sorted(_find_direct_pairs(order))],
        "tests": [item_test_text(test) for test in tests],
        "absent": [
            f"no {format_symbol(gap.symbol)} between {_format_items(gap.after)} and {_format_items(gap.before)}"
            for gap in gaps
        ],
    }


def _find_direct_pairs(order: frozenset[tuple[int, int]]) -> set[tuple[int, int]]:
    """Pairs in order with nothing between them."""
    return {(a, b) for a, b in order if not any((a, c) in order and (c, b) in order for c, _ in order)}


def _format_items(items: frozenset[int]) -> str:
    return " and ".join(f"e{item + 1}" for item in sorted(items))


def _format_item(item: Node) -> str:
    return (
        format_symbol(item.symbol)
        if isinstance(item, LeafNode)
        else "(loop)"
        if isinstance(item, LoopNode)
        else "(AND)"
    )


def format_detect_branch(name: str, branch: dict[str, Any], rows: int | None) -> Iterator[str]:
    """The text of a branch that detects."""
    partition = ", ".join(branch["partition"])
    yield f"branch {name}: matches among " + (f"events that agree on {partition}" if partition else "all events")
    yield from format_input(branch, rows)
    shared = sum(len(node["queries"]) > 1 and node["kind"] != "leaf" for node in branch["nodes"])
    yield f"  {format_count(len(branch['nodes']), 'node')}, {shared} beyond leaves shared among queries"
    if "cost" in branch:
        yield f"  {format_join_estimates(branch)}"
    if "motto" in branch:
        yield from format_motto(branch["motto"])
    for node in branch["nodes"]:
        yield from format_node(node)
    for query in branch["queries"]:
        yield from format_detect_query(query)


def format_join_estimates(branch: dict[str, Any]) -> str:
    """What the plan costs, and what others would."""
    others = [f"{name} {format_number(cost)}" for name, cost in branch["estimates"].items() if name != branch["plan"]]
    against = f"; others would: {', '.join(others)}" if others else ""
    return f"planned by {branch['plan']}, estimated cost {format_number(branch['cost'])}{against}"


def format_node(node: dict[str, Any]) -> Iterator[str]:
    reads = f" of {' and '.join(map(str, node['reads']))}" if node["reads"] else ""
    serves = f"  [{', '.join(node['queries'])}]" if len(node["queries"]) > 1 else ""
    looked = f" of {format_number(node['pairs'])} pairs" if node.get("pairs") else ""
    cost = f" ~ {format_number(node['estimate'])}{looked}" if "estimate" in node else ""
    yield f"    node {node['node']}: {node['kind']}{reads}: {node['finds']}{cost}{serves}"
    tested = [*node.get("order", ()), *node.get("tests", ()), *node.get("absent", ())]
    if tested:
        yield f"      {', '.join(tested)}"


def format_detect_query(query: dict[str, Any]) -> Iterator[str]:
    window = f" {query['window']}" if query["window"] else ""
    group = f" GROUP BY {', '.join(query['group_by'])}" if query["group_by"] else ""
    nodes = " or ".join(f"node {node}" for node in query["nodes"])
    yield f"    {query['name']}: matches of {query['pattern']}{group}{window} by {query['way']}, from {nodes}"
    if query["on_matches"]:
        yield f"      then on each match: {', '.join(query['on_matches'])}"
    if query["aggregated"]:
        yield f"      aggregated after detection: {query['reason']}"


def draw_detect_mermaid(plans: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The nodes of all branches that detect, for Mermaid to draw: what several queries read is marked."""
    for at, plan in enumerate(plans, 1):
        shared = []
        for node in plan["nodes"]:
            name = f"b{at}n{node['node']}"
            tested = [*node.get("tests", ()), *node.get("absent", ())]
            estimate = [f"{format_number(node['estimate'])} instances"] if "estimate" in node else []
            lines = [node["finds"], *tested, *estimate]
            yield f'    {name}["{"<br/>".join(map(_escape_html, lines))}"]'
            if node["reads"]:
                yield f"    {' & '.join(f'b{at}n{each}' for each in node['reads'])} --> {name}"
            if len(node["queries"]) > 1 and node["kind"] != "leaf":
                shared.append(name)
        for query in plan["queries"]:
            yield f'    b{at}{query["name"]}(["{_escape_html(query["name"])}"])'
            yield f"    {' & '.join(f'b{at}n{node}' for node in query['nodes'])} --> b{at}{query['name']}"
        if shared:
            yield f"    class {','.join(shared)} shared"


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
