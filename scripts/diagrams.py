"""Draw the Mermaid diagrams of the documentation as SVG while the site is built, so that its pages load no script.

Take what these pages use of Mermaid: graphs from left to right or down, boxes with labels, arrows of three kinds
with or without labels, and classes with a fill.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from itertools import count, pairwise

from motet.explain.page.layout import Point, Size, place_in_layers

FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODE = re.compile(r"\s*(?P<name>\w+)(?:\(\[\"(?P<round>[^\"]*)\"\]\)|\[\"(?P<box>[^\"]*)\"\])?")
ARROW = re.compile(r"\s*(?P<line><-->|-->|---|-\.->|==>)(?:\|\"?(?P<label>[^|\"]*)\"?\|)?")

LETTER, LINE, PAD = 6.9, 17, 12
SMALL = 0.85  # of a label's letters
WIDEST = 760  # of a page; what is wider is drawn downwards


@dataclass
class Box:
    """A node: its lines of text, its size, and where its middle comes to lie."""

    lines: list[str]
    rounded: bool = False
    fill: str = ""
    color: str = ""

    @property
    def size(self) -> Size:
        return max(len(line) for line in self.lines) * LETTER + 2 * PAD, len(self.lines) * LINE + PAD


@dataclass
class Edge:
    """An arrow of a drawing."""

    source: str
    target: str
    line: str
    label: list[str]

    @property
    def size(self) -> Size:
        """Return the size of its label."""
        return max(map(len, self.label)) * LETTER * SMALL + 8, len(self.label) * 14 + 6


@dataclass
class Drawing:
    """A parsed diagram."""

    across: bool
    boxes: dict[str, Box] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace the diagrams of a page; mkdocs calls this for each."""
    return FENCE.sub(lambda found: svg(parsed(found[1])), markdown)


def parsed(text: str) -> Drawing:
    """Read the lines of a diagram."""
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
    """Read a line such as `a & b -->|label| c --> d`."""
    sources, at = _nodes(drawing, line, 0)
    while (arrow := ARROW.match(line, at)) is not None:
        targets, at = _nodes(drawing, line, arrow.end())
        for source in sources:
            label = re.split(r"<br/?>", arrow["label"]) if arrow["label"] else []
            drawing.edges += (Edge(source, target, arrow["line"], label) for target in targets)
        sources = targets
    if line[at:].strip():
        raise ValueError(f"this line of a diagram cannot be drawn: {line}")


def _nodes(drawing: Drawing, line: str, at: int) -> tuple[list[str], int]:
    names = []
    while (found := NODE.match(line, at)) is not None:
        label = found["round"] or found["box"]
        box = drawing.boxes.setdefault(found["name"], Box([found["name"]]))
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


@dataclass
class Layout:
    """Return where the middles of boxes and labels lie, the points that each edge passes, and how large it all is."""

    boxes: dict[str, Point]
    labels: dict[int, Point]
    routes: list[list[Point]]
    width: float
    height: float


def place(drawing: Drawing) -> Layout:
    """Place boxes in layers along the arrows; labels are vertices on the way, so that nothing covers them."""
    names = list(drawing.boxes)
    sizes = [box.size for box in drawing.boxes.values()]
    arcs: list[tuple[int, int]] = []
    parts: list[list[int]] = []  # by edge: its arcs
    middles: dict[int, int] = {}  # by edge: the vertex of its label
    for number, edge in enumerate(drawing.edges):
        ends = [names.index(edge.source), names.index(edge.target)]
        if edge.label and edge.source != edge.target:
            middles[number] = len(sizes)
            ends.insert(1, len(sizes))
            sizes.append(edge.size)
        parts.append(list(range(len(arcs), len(arcs) + len(ends) - 1)))
        arcs += pairwise(ends)
    placed = place_in_layers(sizes if drawing.across else [turned(size) for size in sizes], arcs)

    def there(point: Point) -> Point:
        x, y = point if drawing.across else turned(point)
        return x + PAD, y + PAD

    routes = []
    for number, edge in enumerate(drawing.edges):
        passed = [there(point) for arc in parts[number] for point in placed.routes[arc]]
        ends = [there(placed.centres[names.index(name)]) for name in (edge.source, edge.target)]
        routes.append(passed or ends)
    width, height = (placed.width, placed.height) if drawing.across else (placed.height, placed.width)
    return Layout(
        {name: there(placed.centres[at]) for at, name in enumerate(names)},
        {number: there(placed.centres[vertex]) for number, vertex in middles.items()},
        routes,
        width + 2 * PAD,
        height + 2 * PAD,
    )


def turned(pair: tuple[float, float]) -> tuple[float, float]:
    """Swap the two numbers of a pair."""
    return pair[1], pair[0]


NUMBERS = count(1)


def svg(drawing: Drawing) -> str:
    """Return the drawing as SVG, in the colours of the page around it."""
    layout = place(drawing)
    if drawing.across and layout.width > WIDEST:
        drawing.across = False
        layout = place(drawing)
    number = next(NUMBERS)
    said = "; ".join(
        f"{_words(drawing, edge.source)} to {_words(drawing, edge.target)}"
        + (f" ({' '.join(edge.label)})" if edge.label else "")
        for edge in drawing.edges
    )
    parts = [
        f'<svg class="diagram" role="img" viewBox="0 0 {layout.width:.0f} {layout.height:.0f}" '
        f'style="max-width:{layout.width:.0f}px;width:100%" xmlns="http://www.w3.org/2000/svg" '
        'font-family="sans-serif" font-size="13">',
        f"<title>{html.escape(said)}</title>",
        f'<defs><marker id="tip{number}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker></defs>',
    ]
    for at, edge in enumerate(drawing.edges):
        parts.append(_line(_curve(layout.routes[at], drawing.across), edge, number))
        if at in layout.labels:
            parts.append(_label(layout.labels[at], edge))
    parts += [_box_svg(box, layout.boxes[name]) for name, box in drawing.boxes.items()]
    return "".join(parts) + "</svg>"


def _curve(points: list[Point], across: bool) -> str:
    """Return a line through points that leaves and enters each along the layers."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        bends = ((x0 + x1) / 2, y0, (x0 + x1) / 2, y1) if across else (x0, (y0 + y1) / 2, x1, (y0 + y1) / 2)
        path += " C" + " ".join(f"{value:.1f}" for value in (*bends, x1, y1))
    return path


def _words(drawing: Drawing, name: str) -> str:
    return " ".join(drawing.boxes[name].lines)


def _box_svg(box: Box, middle: Point) -> str:
    fill, color = box.fill or "var(--md-code-bg-color, #f5f5f5)", box.color or "currentColor"
    (x, y), (width, height) = middle, box.size
    shape = (
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{height / 2 if box.rounded else 4:.0f}" fill="{fill}" stroke="currentColor"/>'
    )
    return shape + _text(box.lines, x, y, LINE, f'fill="{color}"')


def _text(lines: list[str], x: float, y: float, step: float, style: str) -> str:
    top = y - (len(lines) - 1) * step / 2 + 4.5
    return "".join(
        f'<text x="{x:.1f}" y="{top + at * step:.1f}" text-anchor="middle" {style}>{html.escape(line)}</text>'
        for at, line in enumerate(lines)
    )


def _line(path: str, edge: Edge, number: int) -> str:
    dashes = ' stroke-dasharray="5 4"' if "." in edge.line else ""
    width = 2.6 if "=" in edge.line else 1.2
    tips = f' marker-end="url(#tip{number})"' if edge.line.endswith(">") else ""
    tips += f' marker-start="url(#tip{number})"' if edge.line.startswith("<") else ""
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="{width}"{dashes}{tips}/>'


def _label(middle: Point, edge: Edge) -> str:
    (x, y), (width, height) = middle, edge.size
    shape = (
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" '
        'fill="var(--md-default-bg-color, #fff)"/>'
    )
    return shape + _text(edge.label, x, y, 14, 'font-size="11" fill="currentColor"')
