"""What a plan says of detection, as plain data and as text: the graph of joins, and what each query reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from motet.engine import Program
from motet.engine.detect.program import DetectBranch
from motet.engine.observed import Observed
from motet.explain.estimates import THIS, compared, expected_instances
from motet.explain.motto import describe_motto, motto_lines
from motet.explain.reads import describe_reads, reads_lines
from motet.explain.words import count
from motet.language.printer import expression_text, pattern_text, window_text
from motet.model.expression import Expression, variables
from motet.model.names import renamed
from motet.optimizer.detect import planner
from motet.optimizer.detect.motto.motto import MottoPlan, alternatives
from motet.plan.detect.build import Builder, PlannedQuery, trees_wanted
from motet.plan.detect.cost import Measured, Rates, guess, measured_test
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
from motet.statistics.model import MICROSECONDS
from motet.statistics.symbols import symbol_text
from motet.template.symbols import Symbol


def describe_detect(
    branch: DetectBranch, program: Program, counts: Mapping[str, int] | None, ran: Observed | None = None
) -> dict[str, Any]:
    """The graph of joins of a branch as it would be planned for so many events of each type, and for how often
    conditions hold where statistics say so; or as it was run.
    """
    chosen = None
    if ran is not None and ran.rates is not None:
        rates, planned = ran.rates, list(ran.planned)
    else:
        rates = _rates(branch, program, counts)
        chosen = planner(program.options.optimizer, rates, program.options.budget)(trees_wanted(branch.queries))
        builder = Builder(chosen)
        planned = [builder.plan(query) for query in branch.queries]
    # How far apart events are is known from statistics; without, the number of instances is anyone's guess.
    counted = program.options.statistics is not None or ran is not None
    estimates = expected_instances(planned, rates) if counted and rates.counts else {}
    nodes = in_order(reading.root for each in planned for reading in each.readings)
    number = {node: at for at, node in enumerate(nodes, 1)}
    serves = _serves(planned)
    return {
        **describe_reads(branch, counts),
        "halo_us": branch.halo,
        "combined": branch.needs_combine,
        **({"motto": _motto(chosen, branch, program, rates)} if isinstance(chosen, MottoPlan) else {}),
        "nodes": [
            {
                "node": number[node],
                **describe_node(node),
                "reads": [number[each] for each in inputs(node)],
                "queries": serves[node],
                **({"estimate": round(estimates[node], 2)} if node in estimates else {}),
                **({} if ran is None else {"actual": ran.made[node]}),
            }
            for node in nodes
        ],
        "queries": [describe_query(each, number) for each in planned],
        **({"plan": THIS, "estimates": compared(planned, rates)} if estimates else {}),
    }


def _motto(plan: MottoPlan, branch: DetectBranch, program: Program, rates: Rates) -> dict[str, Any]:
    """The plan graph that was searched, and what other plans would cost."""
    others = alternatives(plan, trees_wanted(branch.queries), rates, program.options.budget)
    return describe_motto(plan, branch.queries, others)


def _rates(branch: DetectBranch, program: Program, counts: Mapping[str, int] | None) -> Rates:
    """What is known of the events of a branch."""
    known = program.options.statistics
    symbols = _symbol_counts(branch, counts) if counts else {}
    if known is None or not known.counts:
        return Rates(symbols, selectivity={} if known is None else _known(branch, known.selectivities))
    keys = known.partitions_by(branch.partition)
    return Rates(symbols, known.seconds * MICROSECONDS, keys, _known(branch, known.selectivities))


def _known(branch: DetectBranch, shares: Mapping[str, float]) -> dict[Measured, float]:
    """The conditions of a branch whose shares are known."""
    found = {}
    for query in branch.queries:
        for condition in query.whole:
            names = variables(condition)
            symbols = {name: query.symbols[query.written.of_name(name)[0]] for name in names}
            test = measured_test(condition, symbols)
            if measured_text(test) in shares:
                found[test] = shares[measured_text(test)]
    return found


def measured_text(measured: Measured) -> str:
    """A condition and what its events are, as statistics have it: `A e1, B e2: e1.x < e2.x`."""
    test, symbols = measured
    events = ", ".join(f"{symbol_text(symbol)} e{at}" for at, symbol in enumerate(symbols, 1))
    return f"{events}: {test_text(test)}"


def _symbol_counts(branch: DetectBranch, counts: Mapping[str, int]) -> dict[Symbol, float]:
    found = {}
    for symbol in branch.symbols:
        rows = float(counts.get(symbol.type, sum(counts.values()) / 2))
        for condition in symbol.conditions:
            rows *= guess(condition)
        found[symbol] = rows
    return found


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


def test_text(test: Expression) -> str:
    """A test with its items as e1, e2, ..."""
    return expression_text(renamed(test, {name: f"e{int(name) + 1}" for name in variables(test)}))


def detect_lines(name: str, branch: dict[str, Any], rows: int | None) -> Iterator[str]:
    """The text of a branch that detects."""
    partition = ", ".join(branch["partition"])
    yield f"branch {name}: matches among " + (f"events that agree on {partition}" if partition else "all events")
    yield from reads_lines(branch, rows)
    shared = sum(len(node["queries"]) > 1 and node["kind"] != "leaf" for node in branch["nodes"])
    yield f"  {count(len(branch['nodes']), 'node')}, {shared} beyond leaves shared among queries"
    if "motto" in branch:
        yield from motto_lines(branch["motto"])
    for node in branch["nodes"]:
        yield from node_lines(node)
    for query in branch["queries"]:
        yield from query_lines(query)


def node_lines(node: dict[str, Any]) -> Iterator[str]:
    reads = f" of {' and '.join(map(str, node['reads']))}" if node["reads"] else ""
    serves = f"  [{', '.join(node['queries'])}]" if len(node["queries"]) > 1 else ""
    yield f"    node {node['node']}: {node['kind']}{reads}: {node['finds']}{serves}"
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
