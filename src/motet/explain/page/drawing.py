"""Draws graphs: nodes with places and edges with paths, as the plain data that a page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from motet.explain.page.graph import Graph, GraphEdge, GraphNode, select_lane, summarize, thin_edges
from motet.explain.page.layout import ACROSS, GraphLayout, Point, Size, place_in_layers
from motet.explain.page.lettering import measure_text, wrap_text

# Font sizes, as the page's style has them; how far apart lines are; letters of a line, and lines.
LABEL_SIZE, LABEL_STEP, LABEL_LETTERS, LABEL_LINES = 12.5, 15.0, 18, 6
NOTE_SIZE, NOTE_STEP, NOTE_LETTERS, NOTE_LINES = 11.0, 13.5, 18, 5
MARK_SIZE, MARK_LETTERS, MARK_HEIGHT = 11.0, 40, 16.5  # the label of an edge
LANE_SIZE = 12.5  # bold letters of 12
MARGIN = 24.0
LANE_HEAD = 26.0
LANE_GAP = 22.0
COLUMN_GAP = 90.0
LOOP_HEIGHT = 20.0
BOW = 60.0  # how far an edge between nodes of one column may reach to the right of it
APART = 16.0  # between edges that join the same nodes
MOST_WHOLE = 60  # nodes up to which a graph is shown whole at first
MOST_SUMMARY = 40
WIDEST_SUMMARY, HIGHEST_SUMMARY = 990.0, 1000.0  # what fits on a small screen, in letters that can be read
MOST_DRAWN = 2500  # and beyond which only its summary is drawn

# A line of text with its width, as a page shows it.
Lines = list[tuple[str, float]]


def draw_graph(key: str, title: str, words: str, kind: str, graph: Graph) -> dict[str, Any]:
    """Draw a graph: whole, summarized, or both, the first of which is shown at first."""
    views = {}
    if len(graph.nodes) > MOST_WHOLE:
        views["summary"] = _draw_summary(graph)
    if len(graph.nodes) <= MOST_DRAWN:
        views["all"] = _place_lanes(thin_edges(graph))
    return {"key": key, "title": title, "words": words, "kind": kind, "size": len(graph.nodes), "views": views}


def _draw_summary(graph: Graph) -> dict[str, Any]:
    """Draw the summary of a graph. A lane of it that is too wide or too high is summarized to fewer nodes."""
    summary = summarize(graph, MOST_SUMMARY)
    lanes = []
    for lane in summary.lanes or (("", ""),):
        own, most = select_lane(summary, lane), MOST_SUMMARY
        while not _fits_screen(own) and (whole := select_lane(graph, lane)).nodes and most > 1:
            most = most * 3 // 4
            own = summarize(whole, most)
        lanes.append(own)
    nodes = tuple(node for own in lanes for node in own.nodes)
    edges = tuple(edge for own in lanes for edge in own.edges)
    return _place_lanes(thin_edges(Graph(nodes, edges, summary.lanes)))


def _fits_screen(graph: Graph) -> bool:
    layout = _Lane(graph.nodes, thin_edges(graph).edges, 0.0).layout
    return layout.width <= WIDEST_SUMMARY and layout.height <= HIGHEST_SUMMARY


def draw_columns(graph: Graph, key: str, title: str, words: str) -> dict[str, Any]:
    """Draw a graph with a column for each lane, its nodes one under the other, and edges as bows between them."""
    places: dict[str, tuple[float, float, Size]] = {}
    heads = []
    left, deepest = 0.0, 0.0
    for lane, head in graph.lanes:
        own = [node for node in graph.nodes if node.lane == lane]
        head = f"{head} ({len(own)})"
        wide = max(measure_text(head, LANE_SIZE), *(_measure_node(node)[0] for node in own), 0.0)
        heads.append({"words": head, "y": 16, "x": round(left + MARGIN)})
        top = LANE_HEAD
        for node in own:
            size = (wide, _measure_node(node)[1])
            places[node.key] = (left + wide / 2, top + size[1] / 2, size)
            top += size[1] + 10
        left += wide + COLUMN_GAP
        deepest = max(deepest, top)
    number = {node.key: at for at, node in enumerate(graph.nodes)}
    nodes = [_draw_node(node, *places[node.key]) for node in graph.nodes]
    edges = [_draw_edge(edge, number, _draw_bow(places[edge.source], places[edge.target])) for edge in graph.edges]
    view = _make_view(nodes, edges, heads, left - COLUMN_GAP + BOW, deepest)
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
            heads.append({"words": words, "y": round(top + LANE_HEAD - 10), "x": 12})
            widest = max(widest, measure_text(words, LANE_SIZE))
            top += LANE_HEAD
        number |= {key: at for at, key in enumerate(own, len(number))}
        inside = [edge for edge in graph.edges if edge.source in own]
        placed = _Lane(list(own.values()), inside, top)
        nodes += placed.nodes
        edges += [_draw_edge(edge, number, path) for edge, path in zip(inside, placed.draw_paths(inside), strict=True)]
        top += placed.layout.height + LANE_GAP
        widest = max(widest, placed.layout.width)
    bows = BOW if any(edge.weak for edge in graph.edges) else 0.0
    return _make_view(nodes, edges, heads, widest + bows, top - LANE_GAP)


class _Lane:
    """The nodes and edges of one lane, placed from `top` on.

    A loop is drawn above its node. Any other label of an edge is a vertex on its way, so that nothing covers it.
    """

    def __init__(self, nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], top: float) -> None:
        self.number = {node.key: at for at, node in enumerate(nodes)}
        loops: dict[int, list[GraphEdge]] = {}
        arcs: list[tuple[int, int]] = []
        self.arcs: dict[int, list[int]] = {}  # the arcs of an edge, by its number
        self.marks: dict[int, int] = {}  # the vertex of its label
        for at, edge in enumerate(edges):
            source, target = self.ends(edge)
            if source == target:
                loops.setdefault(source, []).append(edge)
            elif not edge.weak:
                stops = [source, target]
                if edge.label:
                    self.marks[at] = len(nodes) + len(self.marks)
                    stops.insert(1, self.marks[at])
                self.arcs[at] = list(range(len(arcs), len(arcs) + len(stops) - 1))
                arcs += pairwise(stops)
        self.sizes = [_measure_node(node, loops.get(at, ())) for at, node in enumerate(nodes)]
        # Above a node there is room for its loops.
        rooms = [sum(map(_measure_loop, loops.get(at, ()))) for at in range(len(nodes))]
        sizes = [(wide, high + room) for (wide, high), room in zip(self.sizes, rooms, strict=True)]
        sizes += [(_measure_mark(edges[at]), MARK_HEIGHT) for at in self.marks]
        drops = [room / 2 for room in rooms] + [0.0] * len(self.marks)
        self.layout: GraphLayout = place_in_layers(sizes, arcs, drops)
        self.centres = [(x, y + top + drop) for (x, y), drop in zip(self.layout.centres, drops, strict=True)]
        self.routes = [[(x, y + top) for x, y in route] for route in self.layout.routes]
        self.nodes = [
            _draw_node(node, *self.centres[at], size)
            for at, (node, size) in enumerate(zip(nodes, self.sizes, strict=True))
        ]

    def ends(self, edge: GraphEdge) -> tuple[int, int]:
        return self.number[edge.source], self.number[edge.target]

    def draw_paths(self, edges: Sequence[GraphEdge]) -> list[dict[str, Any]]:
        seen: dict[tuple[int, int], int] = {}
        heights: dict[int, float] = {}  # of the loops so far
        paths = []
        for at, edge in enumerate(edges):
            pair = source, target = self.ends(edge)
            if source == target:
                x, y = self.centres[source]
                heights[source] = heights.get(source, 0.0) + _measure_loop(edge)
                paths.append(_draw_loop(x, y - self.sizes[source][1] / 2, heights[source], bool(edge.label)))
            elif edge.weak:
                one, other = ((*self.centres[end], self.sizes[end]) for end in pair)
                paths.append(_draw_bow(one, other))
            else:
                pair = min(pair), max(pair)
                turn = seen[pair] = seen.get(pair, -1) + 1
                shift = APART * ((turn + 1) // 2) * (-1 if turn % 2 else 1)
                path = _draw_curve([point for arc in self.arcs[at] for point in self.routes[arc]], shift)
                paths.append(path | ({"at": _to_page(self.centres[self.marks[at]])} if at in self.marks else {}))
        return paths


def _make_view(
    nodes: list[dict[str, Any]], edges: list[dict[str, Any]], heads: list[dict[str, Any]], width: float, height: float
) -> dict[str, Any]:
    size = {"width": round(width + 2 * MARGIN), "height": round(height + 2 * MARGIN)}
    return size | {"lanes": heads, "nodes": nodes, "edges": edges}


def _set_lines(text: str, letters: int, lines: int, size: float) -> Lines:
    return [(line, round(measure_text(line, size), 1)) for line in wrap_text(text, letters, lines) if line]


def _set_label(node: GraphNode) -> Lines:
    return _set_lines(node.label, LABEL_LETTERS, LABEL_LINES, LABEL_SIZE)


def _set_note(node: GraphNode) -> Lines:
    return _set_lines(node.note, NOTE_LETTERS, NOTE_LINES, NOTE_SIZE)


def _measure_node(node: GraphNode, loops: Sequence[GraphEdge] = ()) -> Size:
    """Return the size of a box: as wide as its text, and as the labels of its loops."""
    label, note = _set_label(node), _set_note(node)
    widest = max((width for _, width in (*label, *note)), default=0.0)
    wide = max(widest + 22, *(_measure_mark(edge) for edge in loops), 46.0)
    return wide, 13.0 + LABEL_STEP * len(label) + NOTE_STEP * len(note)


def _measure_mark(edge: GraphEdge) -> float:
    return measure_text(edge.label[:MARK_LETTERS], MARK_SIZE) + 6 if edge.label else 0.0


def _measure_loop(edge: GraphEdge) -> float:
    return LOOP_HEIGHT + (MARK_HEIGHT if edge.label else 0.0)


def _draw_node(node: GraphNode, x: float, y: float, size: Size) -> dict[str, Any]:
    made = {
        "key": node.key, "label": node.label, "kind": node.kind, "queries": list(node.queries),
        "x": round(x - size[0] / 2 + MARGIN, 1), "y": round(y - size[1] / 2 + MARGIN, 1),
        "w": round(size[0], 1), "h": round(size[1], 1), "lines": _set_label(node),
    }  # fmt: skip
    more = {
        "note": node.note,
        "notes": _set_note(node),
        "facts": list(map(list, node.details)),
        "names": list(node.names),
    }
    return made | _drop_empty(more)


def _draw_edge(edge: GraphEdge, number: Mapping[str, int], path: dict[str, Any]) -> dict[str, Any]:
    made = {"source": number[edge.source], "target": number[edge.target], "kind": edge.kind}
    color = {} if edge.color is None else {"tone": edge.color}
    mark = _set_lines(edge.label, MARK_LETTERS, 1, MARK_SIZE)
    more = {"weak": edge.weak, "mark": mark[0] if mark else None, "facts": list(map(list, edge.details))}
    return made | {"queries": list(edge.queries)} | path | color | _drop_empty(more)


def _drop_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _to_page(point: Point) -> list[float]:
    return [round(point[0] + MARGIN, 1), round(point[1] + MARGIN, 1)]


def _draw_path(start: Point, curves: Sequence[Sequence[Point]], middle: Point) -> dict[str, Any]:
    """Draw a path of curves; `middle` is where its label stands."""

    def text(points: Sequence[Point]) -> str:
        return " ".join(f"{x + MARGIN:.1f},{y + MARGIN:.1f}" for x, y in points)

    path = f"M{text([start])}" + "".join(f" C{text(curve)}" for curve in curves)
    return {"path": path, "at": _to_page(middle)}


def _draw_curve(points: Sequence[Point], shift: float = 0.0) -> dict[str, Any]:
    """Draw a line through points, level at each; `shift` bends it up or down between layers."""
    curves = []
    for (x0, y0), (x1, y1) in pairwise(points):
        half = (x1 - x0) / 2
        bend = shift if abs(abs(x1 - x0) - ACROSS) < 0.1 else 0.0
        curves.append([(x0 + half, y0 + bend), (x1 - half, y1 + bend), (x1, y1)])
    (x0, y0), (x1, y1) = points[0], points[-1]
    return _draw_path(points[0], curves, ((x0 + x1) / 2, (y0 + y1) / 2))


def _draw_loop(x: float, y: float, high: float, labelled: bool) -> dict[str, Any]:
    """Draw a loop that reaches so high above the top of a node, its label over it."""
    high -= MARK_HEIGHT if labelled else 0.0
    curve = [(x - 22, y - high * 1.25), (x + 22, y - high * 1.25), (x + 8, y)]  # its top is at 3/4 of that
    return _draw_path((x - 8, y), [curve], (x, y - high - MARK_HEIGHT / 2 + 4))


def _draw_bow(one: tuple[float, float, Size], other: tuple[float, float, Size]) -> dict[str, Any]:
    """Draw an edge from side to side of boxes; between those of one column, a bow to the right of it."""
    (x0, y0, (wide0, _)), (x1, y1, (wide1, _)) = one, other
    if abs(x1 - x0) < 1:
        right = max(x0 + wide0 / 2, x1 + wide1 / 2)
        out = right + min(18 + abs(y1 - y0) / 8, BOW)  # three quarters of which it reaches
        return _draw_path((x0 + wide0 / 2, y0), [[(out, y0), (out, y1), (x1 + wide1 / 2, y1)]], (out, (y0 + y1) / 2))
    side = 1 if x1 > x0 else -1
    return _draw_curve([(x0 + side * wide0 / 2, y0), (x1 - side * wide1 / 2, y1)])
