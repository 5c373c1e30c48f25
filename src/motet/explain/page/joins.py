"""The joins of a branch that detects, as a graph: from the events of leaves to the nodes that queries read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motet.explain.formatting import format_number
from motet.explain.page.graph import Graph, GraphEdge, GraphNode

COUNT_LABELS = {"estimate": "instances, estimated", "actual": "instances, found", "cost_us": "cost, estimated in µs"}


def build_join_graph(branch: Mapping[str, Any], numbers: Mapping[str, int]) -> Graph:
    """The graph of what `describe_detect` says, whatever optimizer it came from; `numbers` are those of queries."""
    ends: dict[int, list[str]] = {}
    for query in branch["queries"]:
        for node in query["nodes"]:
            ends.setdefault(node, []).append(query["name"])
    serves = {node["node"]: tuple(sorted(numbers[name] for name in node["queries"])) for node in branch["nodes"]}
    vertices = [_vertex(node, serves[node["node"]], ends.get(node["node"], [])) for node in branch["nodes"]]
    arcs = [
        GraphEdge(str(read), str(node["node"]), "step", serves[node["node"]])
        for node in branch["nodes"]
        for read in dict.fromkeys(node["reads"])
    ]
    return Graph(tuple(vertices), tuple(arcs))


def _vertex(node: Mapping[str, Any], queries: tuple[int, ...], ends: list[str]) -> GraphNode:
    facts = [("finds", node["finds"])]
    for name, words in (("order", "in order"), ("tests", "tests"), ("absent", "absent")):
        if node.get(name):
            facts.append((words, "; ".join(map(str, node[name]))))
    facts += [
        (words, format_number(_round(node[name]))) for name, words in COUNT_LABELS.items() if node.get(name) is not None
    ]
    if ends:
        facts.append(("read by", ", ".join(ends)))
    kind = "end" if ends and node["kind"] != "leaf" else node["kind"]
    label = node["finds"] if node["kind"] == "leaf" else f"{node['kind']} {node['node']}"
    shown = [] if node.get("actual") is None else [f"{node['actual']:,} found"]
    shown += [] if node["kind"] == "leaf" else [node["finds"]]
    return GraphNode(str(node["node"]), label, kind, queries, " · ".join(shown), tuple(facts))


def _round(value: float) -> float:
    """Without parts of what there are many of."""
    return round(value) if value >= 100 else value
