"""Graphs with places: what the page draws, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from motet.explain.page.graph import Graph, GraphEdge, GraphNode, summarize, thin_edges
from motet.explain.page.layout import Point, Size, place_in_layers

LETTER = 7.1  # the width of a letter of a label
SMALL_LETTER = 6.1  # and of a note
LONGEST = 30  # letters that are shown
MARGIN = 24.0
LANE_HEAD = 26.0
LANE_GAP = 22.0
WEAK_DEPTH = 60.0  # how far below its ends a weak arc that leads back may go
APART = 16.0  # between arcs that join the same vertices
MOST_WHOLE = 90  # vertices up to which a graph is shown whole at first
MOST_SUMMARY = 150
MOST_DRAWN = 2500  # and beyond which only its summary is drawn


def draw_graph(key: str, title: str, words: str, kind: str, graph: Graph) -> dict[str, Any]:
    """A graph as the page takes it: whole, summarised, or both, the first of which is shown at first."""
    views = {}
    large = len(graph.vertices) > MOST_WHOLE
    if large:
        views["summary"] = place_lanes(thin_edges(summarize(graph, MOST_SUMMARY)))
    if len(graph.vertices) <= MOST_DRAWN:
        views["all"] = place_lanes(thin_edges(graph))
    return {"key": key, "title": title, "words": words, "kind": kind, "size": len(graph.vertices), "views": views}


def place_lanes(graph: Graph) -> dict[str, Any]:
    """Vertices with places and arcs with paths, lane under lane."""
    lanes = graph.lanes or (("", ""),)
    number: dict[str, int] = {}
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    heads = []
    top, widest = 0.0, 0.0
    for key, words in lanes:
        own = [vertex for vertex in graph.vertices if vertex.lane == key]
        if not own:
            continue
        if words:
            heads.append({"words": words, "y": round(top + LANE_HEAD - 10)})
            top += LANE_HEAD
        for vertex in own:
            number[vertex.key] = len(number)
        keys = {vertex.key for vertex in own}
        inside = [arc for arc in graph.arcs if arc.source in keys]
        found, paths, width, height = _place_lane(own, inside, top)
        nodes += found
        edges += [_edge(arc, number, path) for arc, path in zip(inside, paths, strict=True)]
        top += height + LANE_GAP
        widest = max(widest, width)
    below = WEAK_DEPTH if any(arc.weak for arc in graph.arcs) else 0.0
    return _view(nodes, edges, heads, widest + 2 * MARGIN, top - LANE_GAP + 2 * MARGIN + below)


def draw_columns(graph: Graph, key: str, title: str, words: str) -> dict[str, Any]:
    """A graph with a column for each lane, its vertices one under the other, and arcs as bows between them."""
    number = {vertex.key: at for at, vertex in enumerate(graph.vertices)}
    places: dict[str, tuple[float, float, Size]] = {}
    heads = []
    left, deepest = 0.0, 0.0
    for lane, head in graph.lanes:
        own = [vertex for vertex in graph.vertices if vertex.lane == lane]
        wide = max(map(_node_size, own), default=(0.0, 0.0))[0]
        wide = max(wide, len(head) * LETTER)
        heads.append({"words": f"{head} ({len(own)})", "y": 16, "x": round(left + MARGIN)})
        top = LANE_HEAD
        for vertex in own:
            size = (wide, _node_size(vertex)[1])
            places[vertex.key] = (left + wide / 2, top + size[1] / 2, size)
            top += size[1] + 10
        left += wide + 90
        deepest = max(deepest, top)
    nodes = [_node(vertex, *places[vertex.key]) for vertex in graph.vertices]
    edges = [_edge(arc, number, _bow_path(places[arc.source], places[arc.target])) for arc in graph.arcs]
    view = _view(nodes, edges, heads, left - 90 + 2 * MARGIN, deepest + 2 * MARGIN)
    return {
        "key": key,
        "title": title,
        "words": words,
        "kind": "candidates",
        "size": len(nodes),
        "views": {"all": view},
    }


def _view(
    nodes: list[dict[str, Any]], edges: list[dict[str, Any]], heads: list[dict[str, Any]], width: float, height: float
) -> dict[str, Any]:
    return {"width": round(width), "height": round(height), "lanes": heads, "nodes": nodes, "edges": edges}


def _place_lane(
    vertices: Sequence[GraphNode], arcs: Sequence[GraphEdge], top: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], float, float]:
    at = {vertex.key: number for number, vertex in enumerate(vertices)}
    sizes = [_node_size(vertex) for vertex in vertices]
    pairs = dict.fromkeys((at[arc.source], at[arc.target]) for arc in arcs if not arc.weak)
    found = place_in_layers(sizes, list(pairs))
    route = dict(zip(pairs, found.routes, strict=True))
    # Loops and arcs that lead back are drawn above and below.
    loops = any(source == target for source, target in pairs)
    backs = sum(1 for (source, target), points in route.items() if source != target and not points)
    above = 26.0 if loops else 0.0
    nodes = [
        _node(vertex, x, y + top + above, size)
        for vertex, (x, y), size in zip(vertices, found.centres, sizes, strict=True)
    ]
    seen: dict[tuple[int, int], int] = {}
    bow = 0
    paths = []
    for arc in arcs:
        pair = (at[arc.source], at[arc.target])
        turn = seen[pair] = seen.get(pair, -1) + 1
        shift = APART * ((turn + 1) // 2) * (-1 if turn % 2 else 1)
        if arc.weak:
            paths.append(_straight_path(nodes[pair[0]], nodes[pair[1]]))
        elif pair[0] == pair[1]:
            x, y = found.centres[pair[0]]
            paths.append(_loop_path(x, y + top + above - sizes[pair[0]][1] / 2, turn))
        elif route[pair]:
            paths.append(_curve_path([(x, y + top + above) for x, y in route[pair]], shift))
        else:
            bow += 1
            source, target = (found.centres[v] for v in pair)
            low = top + above + found.height + 12 + 10 * (bow % 12)
            paths.append(_back_path(source, target, sizes[pair[0]][1], sizes[pair[1]][1], top + above, low))
    below = 12 + 10 * min(backs, 12) + 8 if backs else 0.0
    return nodes, paths, found.width, above + found.height + below


def _node_size(vertex: GraphNode) -> Size:
    label = min(len(vertex.label), LONGEST) * LETTER
    note = min(len(vertex.note), LONGEST + 4) * SMALL_LETTER
    return max(label, note, 24.0) + 22, 44.0 if vertex.note else 28.0


def _node(vertex: GraphNode, x: float, y: float, size: Size) -> dict[str, Any]:
    made = {
        "key": vertex.key, "label": vertex.label, "kind": vertex.kind, "queries": list(vertex.queries),
        "x": round(x - size[0] / 2 + MARGIN, 1), "y": round(y - size[1] / 2 + MARGIN, 1),
        "w": round(size[0], 1), "h": round(size[1], 1),
    }  # fmt: skip
    more = {"note": vertex.note, "facts": [list(fact) for fact in vertex.facts], "names": list(vertex.names)}
    return made | {name: value for name, value in more.items() if value}


def _edge(arc: GraphEdge, number: dict[str, int], path: dict[str, Any]) -> dict[str, Any]:
    made = {"source": number[arc.source], "target": number[arc.target], "kind": arc.kind, "queries": list(arc.queries)}
    more = {"mark": arc.mark, "facts": [list(fact) for fact in arc.facts]}
    tone = {} if arc.tone is None else {"tone": arc.tone}
    tone |= {"weak": True} if arc.weak else {}
    return made | path | tone | {name: value for name, value in more.items() if value}


def _format_points(points: Sequence[Point]) -> str:
    return " ".join(f"{x + MARGIN:.1f},{y + MARGIN:.1f}" for x, y in points)


def _path(start: Point, curves: Sequence[Sequence[Point]], middle: Point) -> dict[str, Any]:
    path = f"M{_format_points([start])}" + "".join(f" C{_format_points(curve)}" for curve in curves)
    return {"path": path, "at": [round(middle[0] + MARGIN, 1), round(middle[1] + MARGIN, 1)]}


def _curve_path(points: Sequence[Point], shift: float = 0.0) -> dict[str, Any]:
    """A line through points that leaves and comes in level; `shift` bends it up or down between its ends."""
    curves = []
    for (x0, y0), (x1, y1) in pairwise(points):
        half = (x1 - x0) / 2
        curves.append([(x0 + half, y0 + shift), (x1 - half, y1 + shift), (x1, y1)])
    (x0, y0), (x1, y1) = points[0], points[1]
    return _path(points[0], curves, ((x0 + x1) / 2, (y0 + y1) / 2 + shift * 0.75))


def _straight_path(source: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """From one placed node to another, wherever they are."""
    (x0, y0), (x1, y1) = (
        (each["x"] + each["w"] / 2 - MARGIN, each["y"] + each["h"] / 2 - MARGIN) for each in (source, target)
    )
    if source is target:
        return _loop_path(x0, y0 - source["h"] / 2, 0)
    if x1 > x0 + 1:
        return _curve_path([(x0 + source["w"] / 2, y0), (x1 - target["w"] / 2, y1)])
    low = max(y0, y1) + 30 + min(abs(x1 - x0) / 12, WEAK_DEPTH)
    return _path(
        (x0, y0 + source["h"] / 2), [[(x0, low), (x1, low), (x1, y1 + target["h"] / 2)]], ((x0 + x1) / 2, low - 6)
    )


def _loop_path(x: float, y: float, turn: int) -> dict[str, Any]:
    wide, high = 12.0 + 4 * turn, 24.0 + 10 * turn
    return _path((x - 8, y), [[(x - wide - 8, y - high), (x + wide + 8, y - high), (x + 8, y)]], (x, y - high * 0.8))


def _back_path(source: Point, target: Point, above: float, below: float, top: float, low: float) -> dict[str, Any]:
    """A bow below everything, for what leads back."""
    x0, y0, x1, y1 = source[0], source[1] + top + above / 2, target[0], target[1] + top + below / 2
    reach = low + (low - max(y0, y1)) / 3
    return _path((x0, y0), [[(x0, reach), (x1, reach), (x1, y1)]], ((x0 + x1) / 2, (y0 + y1) / 8 + reach * 0.75))


def _bow_path(one: tuple[float, float, Size], other: tuple[float, float, Size]) -> dict[str, Any]:
    """From side to side; between vertices of one column, a bow to the right of it."""
    if one[0] > other[0]:
        one, other = other, one
    x0, y0 = one[0] + one[2][0] / 2, one[1]
    if one[0] == other[0]:
        out = x0 + 18 + min(abs(other[1] - y0) / 8, 50)
        return _path((x0, y0), [[(out, y0), (out, other[1]), (x0, other[1])]], (out, (y0 + other[1]) / 2))
    return _curve_path([(x0, y0), (other[0] - other[2][0] / 2, other[1])])
