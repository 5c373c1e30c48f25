"""Draws graphs: nodes with places and edges with paths, as the plain data that a page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from motet.explain.page.graph import Details, Graph, GraphEdge, GraphNode, summarize, thin_edges
from motet.explain.page.layout import GraphLayout, Point, Size, place_in_layers

LETTER = 7.1  # the width of a letter of a label
SMALL_LETTER = 6.1  # and of a note
LONGEST = 30  # letters that are shown
MARGIN = 24.0
LANE_HEAD = 26.0
LANE_GAP = 22.0
COLUMN_GAP = 90.0
LOOP_ROOM = 26.0  # above a lane with loops
WEAK_DEPTH = 60.0  # how far below its ends a weak edge that leads back may go
APART = 16.0  # between edges that join the same nodes
MOST_WHOLE = 90  # nodes up to which a graph is shown whole at first
MOST_SUMMARY = 150
MOST_DRAWN = 2500  # and beyond which only its summary is drawn


def draw_graph(key: str, title: str, words: str, kind: str, graph: Graph) -> dict[str, Any]:
    """Draw a graph: whole, summarized, or both, the first of which is shown at first."""
    views = {}
    if len(graph.nodes) > MOST_WHOLE:
        views["summary"] = _place_lanes(thin_edges(summarize(graph, MOST_SUMMARY)))
    if len(graph.nodes) <= MOST_DRAWN:
        views["all"] = _place_lanes(thin_edges(graph))
    return {"key": key, "title": title, "words": words, "kind": kind, "size": len(graph.nodes), "views": views}


def draw_columns(graph: Graph, key: str, title: str, words: str) -> dict[str, Any]:
    """Draw a graph with a column for each lane, its nodes one under the other, and edges as bows between them."""
    places: dict[str, tuple[float, float, Size]] = {}
    heads = []
    left, deepest = 0.0, 0.0
    for lane, head in graph.lanes:
        own = [node for node in graph.nodes if node.lane == lane]
        wide = max(len(head) * LETTER, *(_node_size(node)[0] for node in own), 0.0)
        heads.append({"words": f"{head} ({len(own)})", "y": 16, "x": round(left + MARGIN)})
        top = LANE_HEAD
        for node in own:
            size = (wide, _node_size(node)[1])
            places[node.key] = (left + wide / 2, top + size[1] / 2, size)
            top += size[1] + 10
        left += wide + COLUMN_GAP
        deepest = max(deepest, top)
    number = {node.key: at for at, node in enumerate(graph.nodes)}
    nodes = [_draw_node(node, *places[node.key]) for node in graph.nodes]
    edges = [_draw_edge(edge, number, _draw_bow(places[edge.source], places[edge.target])) for edge in graph.edges]
    view = _make_view(nodes, edges, heads, left - COLUMN_GAP, deepest)
    views = {"all": view}
    return {"key": key, "title": title, "words": words, "kind": "candidates", "size": len(nodes), "views": views}


def _place_lanes(graph: Graph) -> dict[str, Any]:
    """Place the nodes and edges of each lane, lane under lane."""
    number: dict[str, int] = {}
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    heads = []
    top, widest = 0.0, 0.0
    for lane, words in graph.lanes or (("", ""),):
        own = {node.key: node for node in graph.nodes if node.lane == lane}
        if not own:
            continue
        if words:
            heads.append({"words": words, "y": round(top + LANE_HEAD - 10)})
            top += LANE_HEAD
        number |= {key: at for at, key in enumerate(own, len(number))}
        inside = [edge for edge in graph.edges if edge.source in own]
        placed = _Lane(list(own.values()), inside, top)
        nodes += placed.nodes
        edges += [_draw_edge(edge, number, path) for edge, path in zip(inside, placed.draw_paths(inside), strict=True)]
        top += placed.height + LANE_GAP
        widest = max(widest, placed.layout.width)
    below = WEAK_DEPTH if any(edge.weak for edge in graph.edges) else 0.0
    return _make_view(nodes, edges, heads, widest, top - LANE_GAP + below)


class _Lane:
    """The nodes and edges of one lane, placed from `top` on: loops are drawn above, edges that lead back below."""

    def __init__(self, nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], top: float) -> None:
        self.number = {node.key: at for at, node in enumerate(nodes)}
        self.sizes = [_node_size(node) for node in nodes]
        pairs = dict.fromkeys(self.ends(edge) for edge in edges if not edge.weak)
        self.layout: GraphLayout = place_in_layers(self.sizes, list(pairs))
        self.routes = dict(zip(pairs, self.layout.routes, strict=True))
        above = LOOP_ROOM if any(source == target for source, target in pairs) else 0.0
        backs = sum(source != target and not points for (source, target), points in self.routes.items())
        self.top = top + above
        self.height = above + self.layout.height + (12 + 10 * min(backs, 12) + 8 if backs else 0.0)
        self.centres = [(x, y + self.top) for x, y in self.layout.centres]
        self.nodes = [
            _draw_node(node, *centre, size) for node, centre, size in zip(nodes, self.centres, self.sizes, strict=True)
        ]

    def ends(self, edge: GraphEdge) -> tuple[int, int]:
        return self.number[edge.source], self.number[edge.target]

    def draw_paths(self, edges: Sequence[GraphEdge]) -> list[dict[str, Any]]:
        seen: dict[tuple[int, int], int] = {}
        backs = 0
        paths = []
        for edge in edges:
            pair = source, target = self.ends(edge)
            turn = seen[pair] = seen.get(pair, -1) + 1
            if edge.weak:
                paths.append(_draw_straight(self.nodes[source], self.nodes[target]))
            elif source == target:
                x, y = self.centres[source]
                paths.append(_draw_loop(x, y - self.sizes[source][1] / 2, turn))
            elif self.routes[pair]:
                shift = APART * ((turn + 1) // 2) * (-1 if turn % 2 else 1)
                paths.append(_draw_curve([(x, y + self.top) for x, y in self.routes[pair]], shift))
            else:
                backs += 1
                low = self.top + self.layout.height + 12 + 10 * (backs % 12)
                (x0, y0), (x1, y1) = self.centres[source], self.centres[target]
                ends = (x0, y0 + self.sizes[source][1] / 2), (x1, y1 + self.sizes[target][1] / 2)
                paths.append(_draw_back(*ends, low))
        return paths


def _make_view(
    nodes: list[dict[str, Any]], edges: list[dict[str, Any]], heads: list[dict[str, Any]], width: float, height: float
) -> dict[str, Any]:
    size = {"width": round(width + 2 * MARGIN), "height": round(height + 2 * MARGIN)}
    return size | {"lanes": heads, "nodes": nodes, "edges": edges}


def _node_size(node: GraphNode) -> Size:
    label = min(len(node.label), LONGEST) * LETTER
    note = min(len(node.note), LONGEST + 4) * SMALL_LETTER
    return max(label, note, 24.0) + 22, 44.0 if node.note else 28.0


def _draw_node(node: GraphNode, x: float, y: float, size: Size) -> dict[str, Any]:
    made = {
        "key": node.key, "label": node.label, "kind": node.kind, "queries": list(node.queries),
        "x": round(x - size[0] / 2 + MARGIN, 1), "y": round(y - size[1] / 2 + MARGIN, 1),
        "w": round(size[0], 1), "h": round(size[1], 1),
    }  # fmt: skip
    return made | _drop_empty({"note": node.note, "facts": _list_details(node.details), "names": list(node.names)})


def _draw_edge(edge: GraphEdge, number: Mapping[str, int], path: dict[str, Any]) -> dict[str, Any]:
    made = {"source": number[edge.source], "target": number[edge.target], "kind": edge.kind}
    color = {} if edge.color is None else {"tone": edge.color}
    more = {"weak": edge.weak, "mark": edge.label, "facts": _list_details(edge.details)}
    return made | {"queries": list(edge.queries)} | path | color | _drop_empty(more)


def _list_details(details: Details) -> list[list[str]]:
    return [list(detail) for detail in details]


def _drop_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _draw_path(start: Point, curves: Sequence[Sequence[Point]], middle: Point) -> dict[str, Any]:
    """Draw a path of curves; `middle` is where its label stands."""

    def text(points: Sequence[Point]) -> str:
        return " ".join(f"{x + MARGIN:.1f},{y + MARGIN:.1f}" for x, y in points)

    path = f"M{text([start])}" + "".join(f" C{text(curve)}" for curve in curves)
    return {"path": path, "at": [round(middle[0] + MARGIN, 1), round(middle[1] + MARGIN, 1)]}


def _draw_curve(points: Sequence[Point], shift: float = 0.0) -> dict[str, Any]:
    """Draw a line through points, level at its ends; `shift` bends it up or down between them."""
    curves = []
    for (x0, y0), (x1, y1) in pairwise(points):
        half = (x1 - x0) / 2
        curves.append([(x0 + half, y0 + shift), (x1 - half, y1 + shift), (x1, y1)])
    (x0, y0), (x1, y1) = points[0], points[1]
    return _draw_path(points[0], curves, ((x0 + x1) / 2, (y0 + y1) / 2 + shift * 0.75))


def _draw_straight(source: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """Draw an edge from one placed node to another, wherever they are."""
    (x0, y0), (x1, y1) = (
        (each["x"] + each["w"] / 2 - MARGIN, each["y"] + each["h"] / 2 - MARGIN) for each in (source, target)
    )
    if source is target:
        return _draw_loop(x0, y0 - source["h"] / 2, 0)
    if x1 > x0 + 1:
        return _draw_curve([(x0 + source["w"] / 2, y0), (x1 - target["w"] / 2, y1)])
    low = max(y0, y1) + 30 + min(abs(x1 - x0) / 12, WEAK_DEPTH)
    curve = [(x0, low), (x1, low), (x1, y1 + target["h"] / 2)]
    return _draw_path((x0, y0 + source["h"] / 2), [curve], ((x0 + x1) / 2, low - 6))


def _draw_loop(x: float, y: float, turn: int) -> dict[str, Any]:
    wide, high = 12.0 + 4 * turn, 24.0 + 10 * turn
    curve = [(x - wide - 8, y - high), (x + wide + 8, y - high), (x + 8, y)]
    return _draw_path((x - 8, y), [curve], (x, y - high * 0.8))


def _draw_back(source: Point, target: Point, low: float) -> dict[str, Any]:
    """Draw a bow below everything, for an edge that leads back."""
    (x0, y0), (x1, y1) = source, target
    reach = low + (low - max(y0, y1)) / 3
    return _draw_path(source, [[(x0, reach), (x1, reach), target]], ((x0 + x1) / 2, (y0 + y1) / 8 + reach * 0.75))


def _draw_bow(one: tuple[float, float, Size], other: tuple[float, float, Size]) -> dict[str, Any]:
    """Draw an edge from side to side; between nodes of one column, a bow to the right of it."""
    if one[0] > other[0]:
        one, other = other, one
    x0, y0 = one[0] + one[2][0] / 2, one[1]
    if one[0] == other[0]:
        out = x0 + 18 + min(abs(other[1] - y0) / 8, 50)
        return _draw_path((x0, y0), [[(out, y0), (out, other[1]), (x0, other[1])]], (out, (y0 + other[1]) / 2))
    return _draw_curve([(x0, y0), (other[0] - other[2][0] / 2, other[1])])
