"""Describes branches that detect matches, as data, text and Mermaid: join graphs, and what queries read of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from motet.compile import Program
from motet.compile.detect import DetectBranch
from motet.compile.stated_rates import item_test_text, rates_from_statistics
from motet.engine.metrics import BranchMetrics
from motet.explain.branches import describe_input, describe_query, format_clauses, format_input, format_partition
from motet.explain.formatting import escape_mermaid, format_count, format_number, format_time, round_digits
from motet.explain.motto import describe_motto, format_motto
from motet.language.printer import expression_text
from motet.model.expression import Expression
from motet.model.query import Policy
from motet.optimizer.joins import JoinPlan
from motet.optimizer.motto.motto import MottoPlan
from motet.optimizer.registry import SearchOptions, estimate_alternatives, plan_trees
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
from motet.statistics.model import Statistics, format_symbol


def describe_detect(
    branch: DetectBranch, program: Program, counts: Mapping[str, int] | None, ran: BranchMetrics | None = None
) -> dict[str, Any]:
    """Describe the join graph of a branch: as it ran, as planned for statistics, or as it would be for these counts."""
    if ran is not None and ran.chosen is not None:
        chosen, planned = ran.chosen, list(ran.planned)
    else:
        chosen = branch.trees or _plan_for_counts(branch, program, counts)
        planned = plan_queries(branch.queries, chosen)
    nodes = list_nodes(planned)
    number = {node: at for at, node in enumerate(nodes, 1)}
    serves = _group_queries(planned)
    chosen_by_motto = isinstance(chosen.report, MottoPlan)
    # Without rates all symbols would be as frequent: what that comes to is no estimate.
    work = estimate_nodes(list_roots(planned), chosen.rates) if chosen.rates.counts else {}
    return {
        **describe_input(branch, counts),
        "halo_us": branch.overlap,
        "combined": branch.needs_combine,
        "plan": chosen.method,
        **(_describe_costs(chosen, work) if work else {}),
        **({"motto": describe_motto(chosen, branch.queries, program.options)} if chosen_by_motto else {}),
        "nodes": [
            {
                "node": number[node],
                **_describe_node(node),
                "reads": [number[each] for each in inputs(node)],
                "queries": serves[node],
                **(_describe_estimate(work[node]) if node in work else {}),
                **({} if ran is None else {"actual": ran.instance_counts[node]}),
            }
            for node in nodes
        ],
        "queries": [_describe_query(each, number) for each in planned],
    }


def _plan_for_counts(branch: DetectBranch, program: Program, counts: Mapping[str, int] | None) -> JoinPlan:
    rates = rates_from_statistics(None if counts is None else Statistics(counts), branch)
    search = SearchOptions(program.options.budget_seconds, program.options.costs)
    return plan_trees(branch.join_specs, program.options.optimizer, rates, search)


def _describe_costs(chosen: JoinPlan, work: Mapping[Node, NodeEstimate]) -> dict[str, Any]:
    """Describe what the plan costs in microseconds, and what others would."""
    others = estimate_alternatives(list(chosen.trees), chosen.rates) | dict(chosen.considered)
    estimates = {name: round_digits(cost / 1000) for name, cost in others.items()}
    return {"cost": round_digits(sum_costs(work) / 1000), "estimates": estimates}


def _describe_estimate(work: NodeEstimate) -> dict[str, float]:
    values = {"estimate": work.instances, "pairs": work.pairs, "cost_us": work.cost / 1000}
    return {name: round_digits(value) for name, value in values.items()}


def _group_queries(planned: list[PlannedQuery]) -> dict[Node, list[str]]:
    """Return the queries that each node works for."""
    found: dict[Node, list[str]] = {}
    for each in planned:
        for node in each.nodes:
            found.setdefault(node, []).append(each.query.query.name)
    return found


def _describe_query(planned: PlannedQuery, number: Mapping[Node, int]) -> dict[str, Any]:
    """Describe how the matches of a query are found, and why they have to be."""
    compiled, query = planned.query, planned.query.query
    residual = sorted({at for alternative in planned.alternatives for at in alternative.residual})
    return describe_query(query) | {
        "policy": str(query.policy),
        "way": "runs" if compiled.obeys_policy else "compact graph" if compiled.is_compact else "joins",
        "aggregated": query.is_aggregate,
        "reason": compiled.reason or None,
        "nodes": [number[root] for root in planned.roots],
        "on_matches": [expression_text(compiled.match_conditions[at]) for at in residual],
    }


def _describe_node(node: Node) -> dict[str, Any]:
    """Describe what a node finds."""
    match node:
        case LeafNode(symbol):
            return {"kind": "leaf", "finds": format_symbol(symbol)}
        case UnionNode():
            return {"kind": "union", "finds": "any of its inputs"}
        case LoopNode(items, firsts, lasts, edges, policy, earlier):
            found = "paths" if policy is Policy.SKIP_TILL_ANY else f"{policy} runs"
            tests = {test for edge in edges for test in edge.tests} | {each.test for each in earlier}
            return {
                "kind": "paths",
                "finds": f"{found} over " + ", ".join(_format_item(item) for item in items),
                "steps": [[edge.source + 1, edge.target + 1] for edge in edges],
                "begins": [item + 1 for item in sorted(firsts)],
                "ends": [item + 1 for item in sorted(lasts)],
                "tests": sorted(map(item_test_text, tests)),
                "absent": sorted({format_symbol(s) for edge in edges for way in edge.ways for s in way}),
            }
        case JoinNode():
            return _describe_part("join", node, node.order, node.new_tests, node.new_gaps)
        case FilterNode():
            return _describe_part("filter", node, frozenset(node.new_order), node.new_tests, node.new_gaps)
        case PathScanNode():
            return _describe_part("walk", node, node.order, (), ())


def _describe_part(
    kind: str, node: SubpatternNode, order: frozenset[tuple[int, int]], tests: Sequence[Expression], gaps: Sequence[Gap]
) -> dict[str, Any]:
    """Describe the items of a node, and what it checks."""
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
    """Return the pairs in order with nothing between them."""
    return {(a, b) for a, b in order if not any((a, c) in order and (c, b) in order for c, _ in order)}


def _format_items(items: frozenset[int]) -> str:
    return " and ".join(f"e{item + 1}" for item in sorted(items))


def _format_item(item: Node) -> str:
    if isinstance(item, LeafNode):
        return format_symbol(item.symbol)
    return "(loop)" if isinstance(item, LoopNode) else "(AND)"


def format_detect_branch(at: int, branch: dict[str, Any], rows: int | None, estimated: bool) -> Iterator[str]:
    """Yield the text of a branch; `rows` are those of all data, where known, be it by a sample."""
    among = format_partition(branch) if branch["partition"] else "all events"
    yield f"branch {at}: matches among {among}"
    yield from format_input(branch, rows, estimated)
    shared = sum(len(node["queries"]) > 1 and node["kind"] != "leaf" for node in branch["nodes"])
    yield f"  {format_count(len(branch['nodes']), 'node')}, {shared} beyond leaves shared among queries"
    if "cost" in branch:
        costs = {name: format_time(cost * 1000) for name, cost in branch["estimates"].items()}
        others = ", ".join(f"{name} {cost}" for name, cost in costs.items() if name != branch["plan"])
        against = f"; others would: {others}" if others else ""
        yield f"  planned by {branch['plan']}, estimated cost {format_time(branch['cost'] * 1000)}{against}"
    if "motto" in branch:
        yield from format_motto(branch["motto"])
    for node in branch["nodes"]:
        yield from _format_node(node)
    for query in branch["queries"]:
        yield from _format_query(query)


def _format_node(node: dict[str, Any]) -> Iterator[str]:
    reads = f" of {' and '.join(map(str, node['reads']))}" if node["reads"] else ""
    serves = f"  [{', '.join(node['queries'])}]" if len(node["queries"]) > 1 else ""
    looked = f" of {format_number(node['pairs'])} pairs" if node.get("pairs") else ""
    cost = f" ~ {format_number(node['estimate'])}{looked}" if "estimate" in node else ""
    yield f"    node {node['node']}: {node['kind']}{reads}: {node['finds']}{cost}{serves}"
    tested = [*node.get("order", ()), *node.get("tests", ()), *node.get("absent", ())]
    if tested:
        yield f"      {', '.join(tested)}"


def _format_query(query: dict[str, Any]) -> Iterator[str]:
    nodes = " or ".join(f"node {node}" for node in query["nodes"])
    yield f"    {query['name']}: matches of {format_clauses(query)} by {query['way']}, from {nodes}"
    if query["on_matches"]:
        yield f"      then on each match: {', '.join(query['on_matches'])}"
    if query["aggregated"]:
        yield f"      aggregated after detection: {query['reason']}"


def draw_joins(plans: Sequence[dict[str, Any]]) -> str:
    """Draw the nodes of all branches that detect for Mermaid: what several queries read is marked."""
    lines = ["flowchart BT"]
    for at, plan in enumerate(plans, 1):
        shared = []
        for node in plan["nodes"]:
            name = f"b{at}n{node['node']}"
            estimate = [f"{format_number(node['estimate'])} instances"] if "estimate" in node else []
            label = [node["finds"], *node.get("tests", ()), *node.get("absent", ()), *estimate]
            lines.append(f'    {name}["{"<br/>".join(map(escape_mermaid, label))}"]')
            if node["reads"]:
                lines.append(f"    {' & '.join(f'b{at}n{each}' for each in node['reads'])} --> {name}")
            if len(node["queries"]) > 1 and node["kind"] != "leaf":
                shared.append(name)
        for number, query in enumerate(plan["queries"], 1):
            lines.append(f'    b{at}q{number}(["{escape_mermaid(query["name"])}"])')
            lines.append(f"    {' & '.join(f'b{at}n{node}' for node in query['nodes'])} --> b{at}q{number}")
        if shared:
            lines.append(f"    class {','.join(shared)} shared")
    return "\n".join([*lines, "    classDef shared fill:#2f6f4f,color:#fff"])
