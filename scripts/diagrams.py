"""Draws the Mermaid diagrams of the documentation as SVG while the site is built, so that its pages load no script.

Takes what these pages use of Mermaid: graphs from left to right or down, boxes with labels, arrows of three kinds
with or without labels, and classes with a fill.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from itertools import count

FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODE = re.compile(r"\s*(?P<name>\w+)(?:\(\[\"(?P<round>[^\"]*)\"\]\)|\[\"(?P<box>[^\"]*)\"\])?")
ARROW = re.compile(r"\s*(?P<line><-->|-->|---|-\.->|==>)(?:\|\"?(?P<label>[^|\"]*)\"?\|)?")

LETTER, LINE, PAD = 6.9, 17, 12
GAP_ALONG, GAP_ACROSS = 70, 26
WIDEST = 760  # of a page; what is wider is drawn downwards

Point = tuple[float, float]


@dataclass
class Box:
    """A node: its lines of text, its size, and where its middle comes to lie."""

    name: str
    lines: list[str]
    rounded: bool = False
    fill: str = ""
    color: str = ""
    rank: int = 0
    x: float = 0
    y: float = 0

    @property
    def width(self) -> float:
        return max(len(line) for line in self.lines) * LETTER + 2 * PAD

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + PAD


@dataclass
class Edge:
    source: str
    target: str
    line: str
    label: str


@dataclass
class Drawing:
    """A parsed diagram."""

    across: bool
    boxes: dict[str, Box] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)


def on_page_markdown(markdown: str, **_: object) -> str:
    """What mkdocs calls for each page."""
    return FENCE.sub(lambda found: svg(parsed(found[1])), markdown)


def parsed(text: str) -> Drawing:
    """Reads the lines of a diagram."""
    head, *lines = text.strip().splitlines()
    drawing = Drawing(head.split()[-1] == "LR")
    styles: dict[str, dict[str, str]] = {}
    for line in map(str.strip, lines):
        if line.startswith("classDef "):
            _, name, rules = line.split(maxsplit=2)
            styles[name] = dict(rule.split(":", 1) for rule in rules.split(","))
        elif line.startswith("class "):
            _, names, style = line.split()
            for name in names.split(","):
                drawing.boxes[name].fill = styles[style].get("fill", "")
                drawing.boxes[name].color = styles[style].get("color", "")
        elif line:
            _statement(drawing, line)
    return drawing


def _statement(drawing: Drawing, line: str) -> None:
    """`a & b -->|label| c --> d`."""
    sources, at = _nodes(drawing, line, 0)
    while (arrow := ARROW.match(line, at)) is not None:
        targets, at = _nodes(drawing, line, arrow.end())
        for source in sources:
            drawing.edges += (Edge(source, target, arrow["line"], arrow["label"] or "") for target in targets)
        sources = targets
    if line[at:].strip():
        raise ValueError(f"this line of a diagram cannot be drawn: {line}")


def _nodes(drawing: Drawing, line: str, at: int) -> tuple[list[str], int]:
    names = []
    while (found := NODE.match(line, at)) is not None:
        label = found["round"] or found["box"]
        box = drawing.boxes.setdefault(found["name"], Box(found["name"], [found["name"]]))
        if label is not None:
            for code, mark in (("#quot;", '"'), ("#lt;", "<"), ("#gt;", ">"), ("#amp;", "&")):
                label = label.replace(code, mark)
            box.lines, box.rounded = re.split(r"<br/?>", label), found["round"] is not None
        names.append(found["name"])
        at = found.end()
        if line[at:].lstrip().startswith("&"):
            at = line.index("&", at) + 1
        else:
            break
    return names, at


def place(drawing: Drawing) -> tuple[float, float]:
    """Ranks boxes along the arrows, orders those of a rank by their neighbours, and says how large it all is."""
    for _ in drawing.boxes:
        for edge in drawing.edges:
            source, target = drawing.boxes[edge.source], drawing.boxes[edge.target]
            if source is not target and target.rank <= source.rank < len(drawing.boxes):
                target.rank = source.rank + 1
    ranks: dict[int, list[Box]] = {}
    for box in drawing.boxes.values():
        ranks.setdefault(box.rank, []).append(box)
    levels = [ranks[rank] for rank in sorted(ranks)]
    order = {box.name: float(at) for level in levels for at, box in enumerate(level)}
    for level in [*levels[1:], *reversed(levels[:-1]), *levels[1:]]:
        level.sort(key=lambda box: _mean_of_neighbours(drawing, box, order))
        order |= {box.name: at - len(level) / 2 for at, box in enumerate(level)}
    along = PAD
    extent = max(sum(_across(drawing, box) + GAP_ACROSS for box in level) for level in levels)
    for level in levels:
        depth = max(_along(drawing, box) for box in level)
        across = (extent - sum(_across(drawing, box) + GAP_ACROSS for box in level) + GAP_ACROSS) / 2
        for box in level:
            middle = across + _across(drawing, box) / 2
            box.x, box.y = (along + depth / 2, middle) if drawing.across else (middle, along + depth / 2)
            across += _across(drawing, box) + GAP_ACROSS
        along += depth + _room(drawing, level)
    return (along, extent) if drawing.across else (extent, along)


def _room(drawing: Drawing, level: list[Box]) -> float:
    """The gap after a rank: wide enough for the labels of its arrows."""
    names = {box.name for box in level}
    labels = [len(edge.label) for edge in drawing.edges if edge.source in names]
    return max(GAP_ALONG, max(labels, default=0) * LETTER * 0.9 + 30) if drawing.across else GAP_ALONG


def _along(drawing: Drawing, box: Box) -> float:
    return box.width if drawing.across else box.height


def _across(drawing: Drawing, box: Box) -> float:
    return box.height if drawing.across else box.width


def _mean_of_neighbours(drawing: Drawing, box: Box, order: dict[str, float]) -> float:
    near = [order[edge.source] for edge in drawing.edges if edge.target == box.name]
    near += [order[edge.target] for edge in drawing.edges if edge.source == box.name]
    return sum(near) / len(near) if near else order[box.name]


NUMBERS = count(1)


def svg(drawing: Drawing) -> str:
    """The drawing, in the colours of the page around it."""
    width, height = place(drawing)
    if drawing.across and width > WIDEST:
        drawing.across = False
        width, height = place(drawing)
    number = next(NUMBERS)
    said = "; ".join(
        f"{_words(drawing, edge.source)} to {_words(drawing, edge.target)}{f' ({edge.label})' if edge.label else ''}"
        for edge in drawing.edges
    )
    parts = [
        f'<svg class="diagram" role="img" viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{width:.0f}px;'
        'width:100%" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="13">',
        f"<title>{html.escape(said)}</title>",
        f'<defs><marker id="tip{number}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker></defs>',
    ]
    parts += [_edge_svg(drawing, edge, number) for edge in drawing.edges]
    parts += [_box_svg(box) for box in drawing.boxes.values()]
    return "".join(parts) + "</svg>"


def _words(drawing: Drawing, name: str) -> str:
    return " ".join(drawing.boxes[name].lines)


def _box_svg(box: Box) -> str:
    fill, color = box.fill or "var(--md-code-bg-color, #f5f5f5)", box.color or "currentColor"
    rounded = box.height / 2 if box.rounded else 4
    shape = (
        f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y - box.height / 2:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{rounded:.0f}" fill="{fill}" stroke="currentColor"/>'
    )
    top = box.y - (len(box.lines) - 1) * LINE / 2 + 4.5
    lines = (
        f'<text x="{box.x:.1f}" y="{top + at * LINE:.1f}" text-anchor="middle" fill="{color}">'
        f"{html.escape(line)}</text>"
        for at, line in enumerate(box.lines)
    )
    return shape + "".join(lines)


def _edge_svg(drawing: Drawing, edge: Edge, number: int) -> str:
    source, target = drawing.boxes[edge.source], drawing.boxes[edge.target]
    if source is target:
        return _loop_svg(source, edge, number)
    forward = 1 if target.rank >= source.rank else -1
    if drawing.across:
        start = source.x + forward * source.width / 2, source.y
        end = target.x - forward * target.width / 2, target.y
        bend = (start[0] + end[0]) / 2
        path = _curve(start, (bend, start[1]), (bend, end[1]), end)
    else:
        start = source.x, source.y + forward * source.height / 2
        end = target.x, target.y - forward * target.height / 2
        bend = (start[1] + end[1]) / 2
        path = _curve(start, (start[0], bend), (end[0], bend), end)
    return _line(path, edge, number) + _label((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, edge.label)


def _loop_svg(box: Box, edge: Edge, number: int) -> str:
    top = box.y - box.height / 2
    path = _curve((box.x - 14, top), (box.x - 26, top - 30), (box.x + 26, top - 30), (box.x + 14, top))
    return _line(path, edge, number) + _label(box.x, top - 24, edge.label)


def _curve(start: Point, leaving: Point, coming: Point, end: Point) -> str:
    points = [f"{x:.1f} {y:.1f}" for x, y in (start, leaving, coming, end)]
    return f"M{points[0]} C{' '.join(points[1:])}"


def _line(path: str, edge: Edge, number: int) -> str:
    dashes = ' stroke-dasharray="5 4"' if "." in edge.line else ""
    width = 2.6 if "=" in edge.line else 1.2
    tips = f' marker-end="url(#tip{number})"' if edge.line.endswith(">") else ""
    tips += f' marker-start="url(#tip{number})"' if edge.line.startswith("<") else ""
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="{width}"{dashes}{tips}/>'


def _label(x: float, y: float, label: str) -> str:
    if not label:
        return ""
    lines = re.split(r"<br/?>", label)
    width = max(map(len, lines)) * LETTER * 0.85 + 6
    height = len(lines) * 14 + 4
    shape = (
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height}" '
        'fill="var(--md-default-bg-color, #fff)"/>'
    )
    top = y - (len(lines) - 1) * 7 + 4
    return shape + "".join(
        f'<text x="{x:.1f}" y="{top + at * 14:.1f}" text-anchor="middle" font-size="11" fill="currentColor">'
        f"{html.escape(line)}</text>"
        for at, line in enumerate(lines)
    )
