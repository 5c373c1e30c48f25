"""What a plan says of detection, as plain data and as text: the graph of joins, and what each query reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from motet.engine import Program
from motet.engine.detect.known import rates_from, test_text
from motet.engine.detect.program import DetectBranch
from motet.engine.observed import Observed
from motet.explain.motto import describe_motto, motto_lines
from motet.explain.reads import describe_reads, reads_lines
from motet.explain.words import count, number
from motet.language.printer import expression_text, pattern_text, window_text
from motet.model.expression import Expression
from motet.optimizer.detect import alternatives, plan_trees
from motet.optimizer.detect.choices import ChosenTrees
from motet.optimizer.detect.motto import motto
from motet.plan.detect.build import PlannedQuery, plan_queries
from motet.plan.detect.nodes import (
    FilterNode,
    Gap,
    JoinNode,
    LeafNode,
    LoopNode,
    Node,
    PartNode,
    UnionNode,
    WalkNode,
    in_order,
    inputs,
)
from motet.plan.detect.work import Work, expected_work, roots_of, total_cost
from motet.statistics.model import Statistics
from motet.statistics.symbols import symbol_text


def describe_detect(
    branch: DetectBranch, program: Program, counts: Mapping[str, int] | None, ran: Observed | None = None
) -> dict[str, Any]:
    """The graph of joins of a branch: as it was run, as it was planned for statistics, or as it would be for so many
    events of each type.
    """
    if ran is not None and ran.chosen is not None:
        chosen, planned = ran.chosen, list(ran.planned)
    else:
        chosen, planned = planned_detect(branch, program, counts)
    nodes = in_order(reading.root for each in planned for reading in each.readings)
    number = {node: at for at, node in enumerate(nodes, 1)}
    serves = _serves(planned)
    # Without rates all symbols would be as frequent: what that comes to is no estimate.
    work = expected_work(roots_of(planned), chosen.rates) if chosen.rates.counts else {}
    return {
        **describe_reads(branch, counts),
        "halo_us": branch.halo,
        "combined": branch.needs_combine,
        "plan": chosen.method,
        **(_estimates(chosen, work) if work else {}),
        **({} if chosen.report is None else {"motto": _motto(chosen.report, chosen, branch, program)}),
        "nodes": [
            {
                "node": number[node],
                **describe_node(node),
                "reads": [number[each] for each in inputs(node)],
                "queries": serves[node],
                **(_work(work[node]) if node in work else {}),
                **({} if ran is None else {"actual": ran.made[node]}),
            }
            for node in nodes
        ],
        "queries": [describe_query(each, number) for each in planned],
    }


def planned_detect(
    branch: DetectBranch, program: Program, counts: Mapping[str, int] | None
) -> tuple[ChosenTrees, list[PlannedQuery]]:
    """The trees of a branch and its nodes."""
    chosen = branch.trees
    if chosen is None:
        known = None if counts is None else Statistics(counts)
        options = program.options
        chosen = plan_trees(branch.wanted, options.optimizer, rates_from(known, branch), options.budget)
    return chosen, plan_queries(branch.queries, chosen)


def _motto(plan: motto.MottoPlan, chosen: ChosenTrees, branch: DetectBranch, program: Program) -> dict[str, Any]:
    """The plan graph that was searched, and what other plans by it would cost."""
    others = motto.alternatives(plan, list(chosen.trees), chosen.rates, program.options.budget)
    return describe_motto(plan, branch.queries, others)


def _estimates(chosen: ChosenTrees, work: Mapping[Node, Work]) -> dict[str, Any]:
    """What the plan costs in microseconds, and what others would."""
    others = alternatives(list(chosen.trees), chosen.rates) | dict(chosen.considered)
    estimates = {name: _rounded(cost / 1000) for name, cost in others.items()}
    return {"cost": _rounded(total_cost(work) / 1000), "estimates": estimates}


def _work(work: Work) -> dict[str, float]:
    return {
        "estimate": _rounded(work.instances),
        "pairs": _rounded(work.pairs),
        "cost_us": _rounded(work.cost / 1000),
    }


def _rounded(cost: float) -> float:
    return float(f"{cost:.4g}")


def _serves(planned: list[PlannedQuery]) -> dict[Node, list[str]]:
    """The queries that each node works for."""
    found: dict[Node, list[str]] = {}
    for each in planned:
        for node in in_order(reading.root for reading in each.readings):
            found.setdefault(node, []).append(each.query.query.name)
    return found


def describe_query(planned: PlannedQuery, number: Mapping[Node, int]) -> dict[str, Any]:
    """A query as the plan sees it: how its matches are found, and why they have to be."""
    compiled, query = planned.query, planned.query.query
    residual = sorted({at for reading in planned.readings for at in reading.residual})
    return {
        "name": query.name,
        "pattern": pattern_text(query.pattern),
        "window": None if query.window is None else window_text(query.window),
        "group_by": list(query.group_by),
        "policy": str(query.policy),
        "way": "compact graph" if compiled.compact else "joins",
        "aggregated": query.is_aggregate,
        "reason": compiled.reason or None,
        "nodes": [number[reading.root] for reading in planned.readings],
        "on_matches": [expression_text(compiled.whole[at]) for at in residual],
    }


def describe_node(node: Node) -> dict[str, Any]:
    """What a node finds."""
    match node:
        case LeafNode(symbol):
            return {"kind": "leaf", "finds": symbol_text(symbol)}
        case UnionNode():
            return {"kind": "union", "finds": "any of its inputs"}
        case LoopNode(items, firsts, lasts, edges):
            return {
                "kind": "paths",
                "finds": "paths over " + ", ".join(_item_text(item) for item in items),
                "steps": [[edge.source + 1, edge.target + 1] for edge in edges],
                "begins": [item + 1 for item in sorted(firsts)],
                "ends": [item + 1 for item in sorted(lasts)],
                "tests": sorted({test_text(test) for edge in edges for test in edge.tests}),
                "absent": sorted({symbol_text(s) for edge in edges for way in edge.ways for s in way}),
            }
        case JoinNode():
            return _tested("join", node, node.order, node.new_tests, node.new_gaps)
        case FilterNode():
            return _tested("filter", node, frozenset(node.new_order), node.new_tests, node.new_gaps)
        case WalkNode():
            return _tested("walk", node, node.order, (), ())


def _tested(
    kind: str,
    node: PartNode,
    order: frozenset[tuple[int, int]],
    tests: Sequence[Expression],
    gaps: Sequence[Gap],
) -> dict[str, Any]:
    """The items of a node, and what it sees to."""
    return {
        "kind": kind,
        "finds": ", ".join(f"{_item_text(item)} e{at}" for at, item in enumerate(node.items, 1)),
        "order": [f"e{a + 1} before e{b + 1}" for a, b in sorted(_direct(order))],
        "tests": [test_text(test) for test in tests],
        "absent": [
            f"no {symbol_text(gap.symbol)} between {_names(gap.after)} and {_names(gap.before)}" for gap in gaps
        ],
    }


def _direct(order: frozenset[tuple[int, int]]) -> set[tuple[int, int]]:
    """Pairs in order with nothing between them."""
    return {(a, b) for a, b in order if not any((a, c) in order and (c, b) in order for c, _ in order)}


def _names(items: frozenset[int]) -> str:
    return " and ".join(f"e{item + 1}" for item in sorted(items))


def _item_text(item: Node) -> str:
    return (
        symbol_text(item.symbol) if isinstance(item, LeafNode) else "(loop)" if isinstance(item, LoopNode) else "(AND)"
    )


def detect_lines(name: str, branch: dict[str, Any], rows: int | None) -> Iterator[str]:
    """The text of a branch that detects."""
    partition = ", ".join(branch["partition"])
    yield f"branch {name}: matches among " + (f"events that agree on {partition}" if partition else "all events")
    yield from reads_lines(branch, rows)
    shared = sum(len(node["queries"]) > 1 and node["kind"] != "leaf" for node in branch["nodes"])
    yield f"  {count(len(branch['nodes']), 'node')}, {shared} beyond leaves shared among queries"
    if "cost" in branch:
        yield f"  {plan_words(branch)}"
    if "motto" in branch:
        yield from motto_lines(branch["motto"])
    for node in branch["nodes"]:
        yield from node_lines(node)
    for query in branch["queries"]:
        yield from query_lines(query)


def plan_words(branch: dict[str, Any]) -> str:
    """What the plan costs, and what others would."""
    others = [f"{name} {number(cost)}" for name, cost in branch["estimates"].items() if name != branch["plan"]]
    against = f"; others would: {', '.join(others)}" if others else ""
    return f"planned by {branch['plan']}, estimated cost {number(branch['cost'])}{against}"


def node_lines(node: dict[str, Any]) -> Iterator[str]:
    reads = f" of {' and '.join(map(str, node['reads']))}" if node["reads"] else ""
    serves = f"  [{', '.join(node['queries'])}]" if len(node["queries"]) > 1 else ""
    looked = f" of {number(node['pairs'])} pairs" if node.get("pairs") else ""
    cost = f" ~ {number(node['estimate'])}{looked}" if "estimate" in node else ""
    yield f"    node {node['node']}: {node['kind']}{reads}: {node['finds']}{cost}{serves}"
    tested = [*node.get("order", ()), *node.get("tests", ()), *node.get("absent", ())]
    if tested:
        yield f"      {', '.join(tested)}"


def query_lines(query: dict[str, Any]) -> Iterator[str]:
    window = f" {query['window']}" if query["window"] else ""
    group = f" GROUP BY {', '.join(query['group_by'])}" if query["group_by"] else ""
    nodes = " or ".join(f"node {node}" for node in query["nodes"])
    yield f"    {query['name']}: matches of {query['pattern']}{group}{window} by {query['way']}, from {nodes}"
    if query["on_matches"]:
        yield f"      then on each match: {', '.join(query['on_matches'])}"
    if query["aggregated"]:
        yield f"      aggregated after detection: {query['reason']}"


def detect_mermaid(plans: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The nodes of all branches that detect, for Mermaid to draw: what several queries read is marked."""
    for at, plan in enumerate(plans, 1):
        shared = []
        for node in plan["nodes"]:
            name = f"b{at}n{node['node']}"
            tested = [*node.get("tests", ()), *node.get("absent", ())]
            estimate = [f"{number(node['estimate'])} instances"] if "estimate" in node else []
            lines = [node["finds"], *tested, *estimate]
            yield f'    {name}["{"<br/>".join(map(_escaped, lines))}"]'
            if node["reads"]:
                yield f"    {' & '.join(f'b{at}n{each}' for each in node['reads'])} --> {name}"
            if len(node["queries"]) > 1 and node["kind"] != "leaf":
                shared.append(name)
        for query in plan["queries"]:
            yield f'    b{at}{query["name"]}(["{_escaped(query["name"])}"])'
            yield f"    {' & '.join(f'b{at}n{node}' for node in query['nodes'])} --> b{at}{query['name']}"
        if shared:
            yield f"    class {','.join(shared)} shared"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
