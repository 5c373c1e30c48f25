"""Graphs to draw, whole or summarized: nodes and edges with the queries that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

Details = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GraphNode:
    """A node of a drawing. `queries` are numbers in the workload; `lane` is the stripe that it lies in."""

    key: str
    label: str
    kind: str
    queries: tuple[int, ...] = ()
    note: str = ""
    facts: Details = ()
    lane: str = ""
    names: tuple[str, ...] = ()  # what a summary stands for


@dataclass(frozen=True)
class GraphEdge:
    """An arrow from one vertex to another. `mark` is a short label, `tone` the number of its colour."""

    source: str
    target: str
    kind: str = "step"
    queries: tuple[int, ...] = ()
    mark: str = ""
    tone: int | None = None
    facts: Details = ()
    weak: bool = False  # shown only with what it belongs to


@dataclass(frozen=True)
class Graph:
    """What is drawn together. `lanes` names the stripes in their order, by key."""

    vertices: tuple[GraphNode, ...]
    arcs: tuple[GraphEdge, ...]
    lanes: tuple[tuple[str, str], ...] = ()


def summarize(graph: Graph, most: int) -> Graph:
    """The graph with at most about so many vertices: what only few queries need is drawn as one, and such parts that
    hang on the same vertices are drawn as one again.

    What counts as few grows until the rest fits.
    """
    few = 1
    graph = _merge_single_query_lanes(graph)
    highest = max((len(vertex.queries) for vertex in graph.vertices), default=0)
    while True:
        found = _contract(graph, few)
        if len(found.vertices) <= most or few >= highest:
            return found
        few += max(1, few // 2)


def _merge_single_query_lanes(graph: Graph) -> Graph:
    """Merge all lanes of a single query each into one lane with one start."""
    members: dict[str, set[int]] = {}
    for vertex in graph.vertices:
        members.setdefault(vertex.lane, set()).update(vertex.queries)
    lonely = {lane for lane, queries in members.items() if len(queries) == 1}
    if len(lonely) < 3:
        return graph
    name = "alone"
    starts = {v.key: v for v in graph.vertices if v.lane in lonely and v.kind == "start"}
    moved = [replace(v, lane=name) if v.lane in lonely else v for v in graph.vertices if v.key not in starts]
    if starts:
        queries = union_queries(v.queries for v in starts.values())
        moved.insert(0, GraphNode(name, "start", "start", queries, lane=name))
    arcs = [replace(arc, source=name) if arc.source in starts else arc for arc in graph.arcs]
    lanes = [lane for lane in graph.lanes if lane[0] not in lonely]
    return Graph(tuple(moved), tuple(arcs), (*lanes, (name, f"{len(lonely)} units of one query each")))


def thin_edges(graph: Graph) -> Graph:
    """Where there are too many arcs to tell apart, those of most queries as they are, no circle among them, and the
    others weak.
    """
    most = len(graph.vertices) + 40
    if len(graph.arcs) <= 1.5 * most:
        return graph
    after: dict[str, set[str]] = {}
    strong: set[int] = set()
    entered: set[str] = set()
    ranked = sorted(range(len(graph.arcs)), key=lambda at: -len(graph.arcs[at].queries))
    for at in ranked:
        arc = graph.arcs[at]
        wanted = len(strong) < most * 0.6 or arc.target not in entered
        if arc.source != arc.target and wanted and not _is_reachable(after, arc.target, arc.source):
            strong.add(at)
            after.setdefault(arc.source, set()).add(arc.target)
            entered.add(arc.target)
    arcs = tuple(arc if at in strong else replace(arc, weak=True) for at, arc in enumerate(graph.arcs))
    return replace(graph, arcs=arcs)


def _is_reachable(after: dict[str, set[str]], source: str, target: str) -> bool:
    """Return whether one vertex can be reached from another."""
    seen, pending = {source}, [source]
    while pending:
        vertex = pending.pop()
        if vertex == target:
            return True
        fresh = after.get(vertex, set()) - seen
        seen |= fresh
        pending += fresh
    return False


def _contract(graph: Graph, few: int) -> Graph:
    small = {v.key for v in graph.vertices if len(v.queries) <= few and v.kind not in ("start", "leaf")}
    parts = _find_components(graph, small)
    place = {v.key: v.key for v in graph.vertices}
    place |= {key: part[0].key for part in parts for key in (member.key for member in part)}
    before: dict[str, set[str]] = {}
    after: dict[str, set[str]] = {}
    for arc in graph.arcs:
        source, target = place[arc.source], place[arc.target]
        if source != target:
            before.setdefault(target, set()).add(source)
            after.setdefault(source, set()).add(target)
    alike: dict[tuple[object, ...], list[list[GraphNode]]] = {}
    for part in parts:
        key = part[0].key
        hangs = (frozenset(before.get(key, ())), frozenset(after.get(key, ())))
        alike.setdefault((part[0].lane, *hangs), []).append(part)
    summaries = {}
    for group in alike.values():
        first = group[0][0].key
        summaries[first] = _summarize_parts(group)
        place |= {vertex.key: first for part in group for vertex in part}
    kept = [summaries.get(v.key, v) for v in graph.vertices if place[v.key] == v.key]
    return Graph(tuple(kept), tuple(_merge_edges(graph.arcs, place)), graph.lanes)


def _find_components(graph: Graph, keys: set[str]) -> list[list[GraphNode]]:
    """Return the connected components of the graph over some vertices."""
    of_key = {vertex.key: vertex for vertex in graph.vertices}
    order = {vertex.key: at for at, vertex in enumerate(graph.vertices)}
    near: dict[str, list[str]] = {}
    for arc in graph.arcs:
        if arc.source in keys and arc.target in keys:
            near.setdefault(arc.source, []).append(arc.target)
            near.setdefault(arc.target, []).append(arc.source)
    seen: set[str] = set()
    found = []
    for vertex in graph.vertices:
        if vertex.key not in keys or vertex.key in seen:
            continue
        part, pending = [], [vertex.key]
        seen.add(vertex.key)
        while pending:
            part.append(of_key[pending.pop()])
            fresh = [key for key in near.get(part[-1].key, ()) if key not in seen]
            seen.update(fresh)
            pending += dict.fromkeys(fresh)
        found.append(sorted(part, key=lambda each: order[each.key]))
    return found


def _summarize_parts(parts: Sequence[Sequence[GraphNode]]) -> GraphNode:
    """Return one vertex for some parts; a part that is one vertex stays itself."""
    first = parts[0][0]
    members = [vertex for part in parts for vertex in part]
    if len(members) == 1:
        return first
    queries = union_queries(vertex.queries for vertex in members)
    if len(parts) == 1:
        shown = " → ".join(vertex.label for vertex in members[:3]) + (" → …" if len(members) > 3 else "")
        label = shown if all(vertex.kind == first.kind for vertex in members) else f"{len(members)} nodes"
    else:
        group_singly = len(queries) == len(parts) and all(len(vertex.queries) == 1 for vertex in members)
        label = f"{len(parts)} queries, each alone" if group_singly else f"{len(parts)} parts alike"
    note = f"{len(members)} nodes, {len(queries)} {'query' if len(queries) == 1 else 'queries'}"
    names = tuple(vertex.label for vertex in members)
    return replace(first, label=label, kind="group", queries=queries, note=note, names=names, facts=())


def _merge_edges(arcs: Iterable[GraphEdge], place: dict[str, str]) -> Iterable[GraphEdge]:
    found: dict[tuple[str, str, str, str], list[GraphEdge]] = {}
    for arc in arcs:
        source, target = place[arc.source], place[arc.target]
        moved = (source, target) != (arc.source, arc.target)
        if source != target or not moved:
            found.setdefault((source, target, arc.kind, arc.mark), []).append(arc)
    for (source, target, *_), same in found.items():
        yield replace(same[0], source=source, target=target, queries=union_queries(arc.queries for arc in same))


def union_queries(sets: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the union of sets of query numbers, in order."""
    return tuple(sorted({number for numbers in sets for number in numbers}))
