"""Graphs to draw, whole or summarized: nodes and edges with the queries that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from motet.explain.page.layout import index_neighbours
from motet.optimizer.solvers.common import find_components

Details = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GraphNode:
    """A node of a drawing. `queries` are numbers in the workload; `lane` is the stripe that it lies in."""

    key: str
    label: str
    kind: str
    queries: tuple[int, ...] = ()
    note: str = ""
    details: Details = ()
    lane: str = ""
    names: tuple[str, ...] = ()  # what a summary stands for


@dataclass(frozen=True)
class GraphEdge:
    """An arrow from one node to another, with a short label; `color` is a number. A weak one is shown on demand."""

    source: str
    target: str
    kind: str = "step"
    queries: tuple[int, ...] = ()
    label: str = ""
    color: int | None = None
    details: Details = ()
    weak: bool = False


@dataclass(frozen=True)
class Graph:
    """Nodes and edges of one drawing. `lanes` names its stripes in their order, by key."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    lanes: tuple[tuple[str, str], ...] = ()


def select_lane(graph: Graph, lane: tuple[str, str]) -> Graph:
    """Return the part of a graph that lies in one lane, given by its key and name."""
    nodes = tuple(node for node in graph.nodes if node.lane == lane[0])
    keys = {node.key for node in nodes}
    return Graph(nodes, tuple(edge for edge in graph.edges if edge.source in keys), (lane,))


def summarize(graph: Graph, most: int) -> Graph:
    """Return the graph with at most about so many nodes.

    Connected nodes that only few queries need become one, and so do such parts with the same neighbours. What counts as
    few grows until the rest fits.
    """
    few = 1
    graph = _merge_single_query_lanes(graph)
    highest = max((len(node.queries) for node in graph.nodes), default=0)
    while True:
        found = _contract(graph, few)
        if len(found.nodes) <= most or few >= highest:
            return found
        few += max(1, few // 2)


def _merge_single_query_lanes(graph: Graph) -> Graph:
    """Merge all lanes of a single query each into one lane with one start."""
    members: dict[str, set[int]] = {}
    for node in graph.nodes:
        members.setdefault(node.lane, set()).update(node.queries)
    single = {lane for lane, queries in members.items() if len(queries) == 1}
    if len(single) < 3:
        return graph
    name = "alone"
    starts = {node.key: node for node in graph.nodes if node.lane in single and node.kind == "start"}
    nodes = [
        replace(node, lane=name) if node.lane in single else node for node in graph.nodes if node.key not in starts
    ]
    if starts:
        queries = union_queries(node.queries for node in starts.values())
        nodes.insert(0, GraphNode(name, "start", "start", queries, lane=name))
    edges = [replace(edge, source=name) if edge.source in starts else edge for edge in graph.edges]
    lanes = [lane for lane in graph.lanes if lane[0] not in single]
    return Graph(tuple(nodes), tuple(edges), (*lanes, (name, f"{len(single)} units of one query each")))


def thin_edges(graph: Graph) -> Graph:
    """Make edges weak where there are too many: those of most queries stay strong, without a cycle among them."""
    most = len(graph.nodes) + 40
    if len(graph.edges) <= 1.5 * most:
        return graph
    after: dict[str, list[str]] = {}
    strong: set[int] = set()
    entered: set[str] = set()
    for at, edge in sorted(enumerate(graph.edges), key=lambda each: -len(each[1].queries)):
        wanted = len(strong) < most * 0.6 or edge.target not in entered
        if edge.source != edge.target and wanted and edge.source not in _iterate_reachable(edge.target, after):
            strong.add(at)
            after.setdefault(edge.source, []).append(edge.target)
            entered.add(edge.target)
    edges = tuple(edge if at in strong else replace(edge, weak=True) for at, edge in enumerate(graph.edges))
    return replace(graph, edges=edges)


def _iterate_reachable(start: str, neighbours: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a node and all that can be reached from it."""
    seen, pending = {start}, [start]
    while pending:
        node = pending.pop()
        yield node
        fresh = dict.fromkeys(each for each in neighbours.get(node, ()) if each not in seen)
        seen.update(fresh)
        pending += fresh


def _contract(graph: Graph, few: int) -> Graph:
    """Merge connected nodes of at most so many queries, and all such parts that go on from the same node.

    Of the edges into what was merged, only those from that node stay strong.
    """
    small = {n.key for n in graph.nodes if len(n.queries) <= few and n.kind not in ("start", "leaf")}
    parts = _find_components(graph, small)
    by_key = {node.key: node for node in graph.nodes}
    before, _ = index_neighbours((edge.source, edge.target) for edge in graph.edges)
    groups: dict[tuple[str, str], list[list[GraphNode]]] = {}
    for part in parts:
        groups.setdefault((part[0].lane, _find_anchor(part, by_key, before, small)), []).append(part)
    place = {node.key: node.key for node in graph.nodes}
    anchors: dict[str, str] = {}  # of what was merged
    summaries: dict[str, GraphNode] = {}
    for (_, anchor), group in groups.items():
        merged = _summarize_parts(group)
        summaries[merged.key] = merged
        place |= {node.key: merged.key for part in group for node in part}
        if merged.kind == "group":
            anchors[merged.key] = anchor
    kept = [summaries.get(node.key, node) for node in graph.nodes if place[node.key] == node.key]
    return Graph(tuple(kept), tuple(_merge_edges(graph.edges, place, anchors)), graph.lanes)


def _find_anchor(
    part: Sequence[GraphNode], nodes: Mapping[str, GraphNode], before: Mapping[str, Sequence[str]], small: set[str]
) -> str:
    """Return the node that a part goes on from.

    Of those before it that is the one of fewest queries that has all of the part's, else the one that has most of them.
    """
    found = {key for node in part for key in before.get(node.key, ()) if key not in small}
    own = set(union_queries(node.queries for node in part))
    lacking = {key: len(own.difference(nodes[key].queries)) for key in found}
    return min(found, key=lambda key: (lacking[key], len(nodes[key].queries), key), default="")


def _find_components(graph: Graph, keys: set[str]) -> list[list[GraphNode]]:
    """Return the connected components of the graph over some nodes, in the order of the graph."""
    nodes = {node.key: node for node in graph.nodes if node.key in keys}
    links = [(edge.source, edge.target) for edge in graph.edges if edge.source in keys and edge.target in keys]
    near, _ = index_neighbours([*links, *((target, source) for source, target in links)])
    return [[nodes[key] for key in part] for part in find_components(nodes, lambda key: near.get(key, ()))]


def _summarize_parts(parts: Sequence[Sequence[GraphNode]]) -> GraphNode:
    """Return one node for some parts; a part that is one node stays itself."""
    first = parts[0][0]
    members = [node for part in parts for node in part]
    if len(members) == 1:
        return first
    queries = union_queries(node.queries for node in members)
    label = "1 query" if len(queries) == 1 else f"{len(queries)} queries"
    most = max(len(node.queries) for node in members)
    shared = "" if len(queries) == 1 else ", none shared" if most == 1 else f", up to {most} share one"
    names = tuple(node.label for node in members)
    note = f"{len(members)} nodes{shared}"
    return replace(first, label=label, kind="group", queries=queries, note=note, names=names, details=())


def _merge_edges(
    edges: Iterable[GraphEdge], place: Mapping[str, str], anchors: Mapping[str, str]
) -> Iterable[GraphEdge]:
    found: dict[tuple[str, str, str, str], list[GraphEdge]] = {}
    for edge in edges:
        source, target = place[edge.source], place[edge.target]
        if source != target or (source, target) == (edge.source, edge.target):
            merged = source in anchors or target in anchors
            found.setdefault((source, target, *(("step", "") if merged else (edge.kind, edge.label))), []).append(edge)
    for (source, target, kind, label), same in found.items():
        yield replace(
            same[0], source=source, target=target, kind=kind, label=label,
            queries=union_queries(edge.queries for edge in same),
            weak=source in anchors or anchors.get(target, source) != source,
        )  # fmt: skip


def union_queries(sets: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the union of sets of query numbers, in order."""
    return tuple(sorted({number for numbers in sets for number in numbers}))
