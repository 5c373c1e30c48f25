"""Graphs to draw: vertices and arcs that know which queries they work for, whole or summarised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Vertex:
    """A node of a drawing. `queries` are numbers in the workload; `lane` is the stripe that it lies in."""

    key: str
    label: str
    kind: str
    queries: tuple[int, ...] = ()
    note: str = ""
    facts: Facts = ()
    lane: str = ""
    names: tuple[str, ...] = ()  # what a summary stands for


@dataclass(frozen=True)
class Arc:
    """An arrow from one vertex to another. `mark` is a short label, `tone` the number of its colour."""

    source: str
    target: str
    kind: str = "step"
    queries: tuple[int, ...] = ()
    mark: str = ""
    tone: int | None = None
    facts: Facts = ()


@dataclass(frozen=True)
class Graph:
    """What is drawn together. `lanes` names the stripes in their order, by key."""

    vertices: tuple[Vertex, ...]
    arcs: tuple[Arc, ...]
    lanes: tuple[tuple[str, str], ...] = ()


def summarised(graph: Graph, most: int) -> Graph:
    """The graph with at most about so many vertices: what only few queries need is drawn as one, and such parts that
    hang on the same vertices are drawn as one again.

    What counts as few grows until the rest fits.
    """
    few = 1
    highest = max((len(vertex.queries) for vertex in graph.vertices), default=0)
    while True:
        found = _contracted(graph, few)
        if len(found.vertices) <= most or few >= highest:
            return found
        few *= 2


def _contracted(graph: Graph, few: int) -> Graph:
    small = {v.key for v in graph.vertices if len(v.queries) <= few and v.kind not in ("start", "leaf")}
    parts = _components(graph, small)
    place = {v.key: v.key for v in graph.vertices}
    place |= {key: part[0].key for part in parts for key in (member.key for member in part)}
    before: dict[str, set[str]] = {}
    after: dict[str, set[str]] = {}
    for arc in graph.arcs:
        source, target = place[arc.source], place[arc.target]
        if source != target:
            before.setdefault(target, set()).add(source)
            after.setdefault(source, set()).add(target)
    alike: dict[tuple[object, ...], list[list[Vertex]]] = {}
    for part in parts:
        key = part[0].key
        hangs = (frozenset(before.get(key, ())), frozenset(after.get(key, ())))
        alike.setdefault((part[0].lane, *hangs), []).append(part)
    summaries = {}
    for group in alike.values():
        first = group[0][0].key
        summaries[first] = _summary(group)
        place |= {vertex.key: first for part in group for vertex in part}
    kept = [summaries.get(v.key, v) for v in graph.vertices if place[v.key] == v.key]
    return Graph(tuple(kept), tuple(_merged_arcs(graph.arcs, place)), graph.lanes)


def _components(graph: Graph, keys: set[str]) -> list[list[Vertex]]:
    """The connected parts of the graph over some vertices; parts of different lanes are apart."""
    of_key = {vertex.key: vertex for vertex in graph.vertices}
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
        order = {v.key: at for at, v in enumerate(graph.vertices)}
        found.append(sorted(part, key=lambda each: order[each.key]))
    return found


def _summary(parts: Sequence[Sequence[Vertex]]) -> Vertex:
    """One vertex for some parts; a part that is one vertex stays itself."""
    first = parts[0][0]
    members = [vertex for part in parts for vertex in part]
    if len(members) == 1:
        return first
    queries = together(vertex.queries for vertex in members)
    if len(parts) == 1:
        shown = " → ".join(vertex.label for vertex in members[:3]) + (" → …" if len(members) > 3 else "")
        label = shown if all(vertex.kind == first.kind for vertex in members) else f"{len(members)} nodes"
    else:
        label = f"{len(parts)} parts alike"
    note = f"{len(members)} nodes, {len(queries)} {'query' if len(queries) == 1 else 'queries'}"
    names = tuple(vertex.label for vertex in members)
    return replace(first, label=label, kind="group", queries=queries, note=note, names=names, facts=())


def _merged_arcs(arcs: Iterable[Arc], place: dict[str, str]) -> Iterable[Arc]:
    found: dict[tuple[str, str, str, str], list[Arc]] = {}
    for arc in arcs:
        source, target = place[arc.source], place[arc.target]
        moved = (source, target) != (arc.source, arc.target)
        if source != target or not moved:
            found.setdefault((source, target, arc.kind, arc.mark), []).append(arc)
    for (source, target, *_), same in found.items():
        yield replace(same[0], source=source, target=target, queries=together(arc.queries for arc in same))


def together(sets: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """All numbers of some sets, each once, in order."""
    return tuple(sorted({number for numbers in sets for number in numbers}))
