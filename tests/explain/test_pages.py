"""Pages without a browser: layouts, summaries, escaping, and colours that can be told apart."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import motet
from motet.explain.page.document import build_document, read_asset
from motet.explain.page.graph import Graph, GraphEdge, GraphNode, summarize, thin_edges
from motet.explain.page.layout import place_in_layers

SCHEMA = pa.schema([("time", pa.timestamp("us")), ("type", pa.string()), ("key", pa.string()), ("x", pa.float64())])


def data_of(page: str) -> Any:
    """What is embedded in a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


@given(
    st.integers(1, 12).flatmap(
        lambda size: st.tuples(
            st.lists(st.tuples(st.integers(20, 200), st.integers(10, 60)), min_size=size, max_size=size),
            st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=30, unique=True),
        )
    )
)
@settings(max_examples=60)
def test_no_two_nodes_lie_on_each_other(graph: tuple[list[tuple[int, int]], list[tuple[int, int]]]) -> None:
    sizes, arcs = graph
    placed = place_in_layers([(float(w), float(h)) for w, h in sizes], arcs)
    boxes = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(placed.centres, sizes, strict=True)]
    for at, (left, top, right, bottom) in enumerate(boxes):
        assert top >= -1e-6
        assert bottom <= placed.height + 1e-6
        assert right <= placed.width + 1e-6
        for other in boxes[:at]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] + 1e-6 or other[3] <= top + 1e-6
            assert apart
    for (source, target), route in zip(arcs, placed.routes, strict=True):
        steps = [other[0] - one[0] for one, other in pairwise(route)]
        assert bool(route) == (source != target)
        assert all(step >= 0 for step in steps) or all(step <= 0 for step in steps)  # forward or back, all the way


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=5), min_size=1, max_size=30), st.integers(3, 20))
@settings(max_examples=60)
def test_a_summary_has_every_query(paths: list[list[int]], most: int) -> None:
    """Paths as a tree of prefixes: however it is summed up, each query still has a node."""
    members: dict[tuple[int, ...], set[int]] = {}
    for query, path in enumerate(paths):
        for length in range(len(path) + 1):
            members.setdefault(tuple(path[:length]), set()).add(query)
    vertices = tuple(
        GraphNode(str(key), str(key[-1:]), "start" if not key else "state", tuple(sorted(queries)))
        for key, queries in members.items()
    )
    arcs = tuple(GraphEdge(str(key[:-1]), str(key), queries=tuple(sorted(members[key]))) for key in members if key)
    graph = summarize(Graph(vertices, arcs), most)
    assert len(graph.nodes) <= len(vertices)
    keys = {vertex.key for vertex in graph.nodes}
    assert {query for v in graph.nodes if v.kind != "start" for query in v.queries} == set(range(len(paths)))
    assert all(arc.source in keys and arc.target in keys for arc in thin_edges(graph).edges)


def test_too_many_arrows_are_thinned_without_a_circle() -> None:
    vertices = tuple(GraphNode(str(at), str(at), "state", (0, 1)) for at in range(30))
    arcs = tuple(
        GraphEdge(str(a), str(b), queries=tuple(range((a * b) % 9)))
        for a in range(30)
        for b in range(30)
        if (a + b) % 3
    )
    strong = [arc for arc in thin_edges(Graph(vertices, arcs)).edges if not arc.weak]
    assert 20 <= len(strong) <= 80
    placed = place_in_layers([(10.0, 10.0)] * 30, [(int(arc.source), int(arc.target)) for arc in strong])
    assert all(placed.routes)


def test_text_of_queries_cannot_leave_its_place() -> None:
    text = "-- </script><script>alert(1)</script>\n"
    text += "QUERY a RETURN COUNT(*) PATTERN SEQ(A, B b) WHERE b.key = '</script><!--'"
    page = motet.plan(SCHEMA, text).to_html()
    assert page.count("</script>") == 2
    assert "alert(1)" in data_of(page)["queries"][0]["words"]
    assert "<title>Plan: a&lt;b</title>" in build_document("plan", {"title": "a<b"})


def test_absences_and_loops_are_drawn() -> None:
    text = """
    QUERY gap RETURN COUNT(*) PATTERN SEQ(A, NOT C, B) GROUP BY key WITHIN 10 s SLIDE 5 s
    QUERY loop RETURN COUNT(*) PATTERN SEQ(A+, B) GROUP BY key WITHIN 10 s SLIDE 5 s
    QUERY either RETURN COUNT(*) PATTERN SEQ(OR(A, B), C) GROUP BY key WITHIN 10 s
    QUERY both RETURN COUNT(*) PATTERN AND(A, B) GROUP BY key
    """
    view = data_of(motet.plan(SCHEMA, text).to_html())["graphs"][0]["views"]["all"]
    notes = [node.get("note", "") for node in view["nodes"]]
    assert any("given up at C" in note for note in notes)
    assert any(edge["kind"] == "loop" for edge in view["edges"])
    ends = {name for note in notes for name in ("gap", "loop", "either", "both") if f"ends {name}" in note}
    assert {"either", "both"} <= ends


def test_units_of_one_query_are_summed_up_in_one_lane() -> None:
    queries = [f"QUERY q{at} RETURN COUNT(*) PATTERN SEQ(A, B, C{at}) WITHIN {at + 1} min" for at in range(40)]
    graph = data_of(motet.plan(SCHEMA, "\n".join(queries)).to_html())["graphs"][0]
    assert len(graph["views"]["all"]["lanes"]) == 40
    summary = graph["views"]["summary"]
    assert [lane["words"] for lane in summary["lanes"]] == ["40 units of one query each"]
    assert [node["label"] for node in summary["nodes"]] == ["start", "40 queries"]
    assert summary["nodes"][1]["note"] == "120 nodes, none shared"


COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", read_asset("base.css"))
}
# Text on what it stands on needs 4.5 to 1 (WCAG AA); lines and marks that mean something 3 to 1.
TEXT = [
    *((ink, ground) for ink in ("ink", "muted", "accent", "lit", "bad") for ground in ("paper", "panel", "sunk")),
    ("ink", "accent-soft"), ("ink", "lit-soft"), ("ink", "good-soft"), ("ink", "bad-soft"),
    ("muted", "good-soft"), ("muted", "bad-soft"), ("muted", "accent-soft"), ("muted", "lit-soft"),
    ("accent", "accent-soft"), ("on-accent", "accent"), ("paper", "ink"),
    *((f"tone-{tone}", ground) for tone in range(8) for ground in ("panel", "sunk")),
]  # fmt: skip
MARKS = [("edge", "panel"), ("edge", "sunk"), ("good", "panel"), ("good", "sunk"), ("bad", "panel"), ("bad", "sunk")]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("look", [0, 1], ids=["light", "dark"])
def test_contrast(look: int) -> None:
    for pairs, least in ((TEXT, 4.5), (MARKS, 3.0)):
        for ink, ground in pairs:
            found = contrast(COLOURS[ink][look], COLOURS[ground][look])
            assert found >= least, f"{ink} on {ground}: {found:.2f}"
