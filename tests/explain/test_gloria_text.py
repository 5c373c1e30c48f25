"""A Gloria plan as text, as JSON and as a drawing."""

from __future__ import annotations

import json
import re

import pyarrow as pa

from motet.compile import Program, compile_workload
from motet.explain.text import render_plan_json, render_plan_mermaid, render_plan_text
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema
from motet.statistics.model import Statistics

PATTERNS = ("SEQ(F, A, B, C, D)", "SEQ(A, B, C, D)", "SEQ(E, C, D)", "SEQ(E, SEQ(G, H)+)", "SEQ(A, OR(B, C))")
EVENTS = {"F": 10, "A": 5, "B": 10, "C": 12, "D": 4, "E": 3, "G": 2, "H": 2}


def program(**options: str) -> Program:
    texts = (
        f"QUERY q{at}\nRETURN COUNT(*)\nPATTERN {pattern}\nWITHIN 10 min SLIDE 1 min"
        for at, pattern in enumerate(PATTERNS, 1)
    )
    schema = pa.schema({"time": pa.int64(), "type": pa.string()})
    known = Statistics(given={type: count / 600 for type, count in EVENTS.items()})
    asked = Options(optimizer="gloria", costs="printed", statistics=known, **options)
    return compile_workload(parse("\n\n".join(texts)), EventSchema(schema), asked)


def test_the_text_has_the_q_sets_their_snapshots_and_the_costs_of_other_plans() -> None:
    text = render_plan_text(program())
    # 307 for the first three, as in table 3, and what the fourth costs alone
    fourth = 3 + 3 * 2 + 2 * 2 * 2
    assert (
        f"cost {307 + fourth} by the equations of the paper; not shared {588 + fourth}, greedy {307 + fourth}" in text
    )
    assert "A to B: (q1, q2) by snapshots of A" in text
    assert "C to D: (q1, q2) by snapshots of A; alone q3" in text
    assert "no plan costs less" in text
    assert "q5 takes no part: its pattern is more than sequences and their repetitions" in text
    assert re.search(r"estimated [\d,.]+ (ns|µs|ms) per event: .*\n  against .*every query alone", text)


def test_the_json_has_all_of_it() -> None:
    plan = json.loads(render_plan_json(program()))
    sharing = plan["sharing"]
    assert sharing["optimizer"] == "gloria"
    assert sharing["costs"] == "printed"
    assert sharing["alternatives"].keys() == {"not shared", "greedy"}
    pools = [pool for template in sharing["templates"] for pool in template["pools"]]
    (shared,) = (pool for pool in pools if pool["transitions"] == [["B", "C"]])
    assert shared["q_sets"] == [{"queries": ["q1", "q2"], "snapshots": "A"}]
    (repeated,) = (pool for pool in pools if len(pool["transitions"]) == 2)
    assert repeated["transitions"] == [["G", "H"], ["H", "G"]]
    assert repeated["alone"] == ["q4"]
    (branch,) = plan["branches"]
    assert branch["estimates"].keys() == {"gloria", "search", "prefix", "pairs", "none"}
    assert branch["plan"] == "gloria"


def test_the_drawing_is_the_template_with_the_plan_on_it() -> None:
    lines = render_plan_mermaid(program()).splitlines()
    assert lines[0] == "graph LR"
    states = dict(re.findall(r'(s\d+_\d+)\(\["(\w+)"\]\)', "\n".join(lines)))
    found = {
        (states[source], states[target]): (arrow, label)
        for source, arrow, label, target in re.findall(r'(s\d+_\d+) (\S+)\|"(.*)"\| (s\d+_\d+)', "\n".join(lines))
    }
    assert found["A", "B"] == ("==>", "(q1, q2) by A")
    assert found["C", "D"] == ("==>", "(q1, q2) by A, (q3)")
    assert found["F", "A"] == ("-->", "(q1)")
    assert found["H", "G"] == ("-->", "(q4)")
