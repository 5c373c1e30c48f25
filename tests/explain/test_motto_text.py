"""What MOTTO's planner found, as text, data and a drawing."""

from __future__ import annotations

import json
import re

import pyarrow as pa
from syrupy.assertion import SnapshotAssertion

from motet.compile import Program, compile_workload
from motet.explain.text import render_plan_json, render_plan_mermaid, render_plan_text
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema
from motet.statistics.model import Statistics

# Workload 1 of the paper.
WORKLOAD = """\
QUERY q1
RETURN * PATTERN SEQ(E1 a, E2 b, E3 c) WITHIN 10 s

QUERY q2
RETURN * PATTERN SEQ(E1 a, E3 c) WITHIN 10 s

QUERY q3
RETURN * PATTERN SEQ(E1 a, E2 b, E4 c) WITHIN 10 s

QUERY q4
RETURN * PATTERN SEQ(E2 a, E4 b, E3 c) WITHIN 10 s

QUERY q5
RETURN * PATTERN AND(E1 a, E3 b) WITHIN 10 s
"""


def program(optimizer: str = "motto") -> Program:
    columns = pa.schema([("time", pa.timestamp("us")), ("type", pa.string())])
    known = Statistics(dict.fromkeys(("E1", "E2", "E3", "E4"), 1000), first=0, last=1_000_000_000)
    return compile_workload(parse(WORKLOAD), EventSchema(columns), Options(optimizer=optimizer, statistics=known))


def test_the_plan_of_workload_1_as_text(snapshot: SnapshotAssertion) -> None:
    assert re.sub(r"searched in [\d.]+ s", "searched", render_plan_text(program())) == snapshot


def test_the_plan_as_data_names_sources_techniques_and_alternatives() -> None:
    (branch,) = json.loads(render_plan_json(program()))["detect"]
    plan = branch["motto"]
    assert plan["optimal"]
    assert plan["alternatives"].keys() == {"none", "motto-merge"}
    assert all(plan["cost"] <= cost for cost in plan["alternatives"].values())
    nodes = {node["node"]: node for node in plan["nodes"]}
    asked = {name: node for node in nodes.values() for name in node["queries"]}
    assert asked["q2"]["techniques"] == ["merge", "operator transformation"]
    assert nodes[asked["q2"]["from"]] is asked["q5"]
    shared = nodes[asked["q1"]["from"]]
    assert shared["kind"] == "disjunction"
    assert asked["q1"]["node"] in shared["serves"]
    assert len(shared["serves"]) == 2
    assert asked["q3"]["from"] == min(nodes)  # paths of its own, from events
    assert nodes[min(nodes)]["kind"] == "ground"


def test_the_plan_graph_is_drawn_with_the_chosen_arcs_thick() -> None:
    lines = render_plan_mermaid(program()).splitlines()
    assert lines[0] == "graph TD"
    (number,) = re.findall(r'(p1_\d+)\["q2<br/>', "\n".join(lines))
    (source,) = re.findall(r'(p1_\d+)\["q5<br/>', "\n".join(lines))
    assert any(line.strip().startswith(f"{source} ==>") and line.endswith(number) for line in lines)
    assert any("-.->" in line for line in lines)


def test_a_baseline_says_which_it_is() -> None:
    assert "sharing (motto-merge): estimated" in render_plan_text(program("motto-merge"))
