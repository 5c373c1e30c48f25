"""Plans as text: what runs together, how, and what is shared."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest
from syrupy.assertion import SnapshotAssertion

import motet
from motet import datasets
from motet.compile import Program, compile_workload
from motet.explain.formatting import find_leading_comment
from motet.explain.statistics import format_statistics
from motet.explain.text import render_plan_json, render_plan_mermaid, render_plan_text
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema
from motet.statistics.model import Statistics

WORKLOAD = """\
EVENT big AS x > 10

QUERY two
RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [key] WITHIN 10 min SLIDE 1 min

-- Three steps,
-- the first two as above.
QUERY three
RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE [key] WITHIN 10 min SLIDE 1 min

QUERY growing
RETURN MAX(b.x) PATTERN big+ b WHERE b.x < NEXT(b).x GROUP BY key WITHIN 5 min

QUERY all
RETURN COUNT(*) PATTERN AND(A, C c) WHERE c.x > 3
"""


def program() -> Program:
    columns = pa.schema([("time", pa.timestamp("us")), ("type", pa.string()), ("key", pa.string()), ("x", pa.int64())])
    return compile_workload(parse(WORKLOAD), EventSchema(columns))


def test_a_plan_as_text(snapshot: SnapshotAssertion) -> None:
    text = render_plan_text(program(), {"A": 60, "B": 30, "C": 10})
    # Estimates change with the prices of kernels.
    assert re.sub(r"[\d,.]*\d (ns|µs|ms)", "#", text) == snapshot


def fig_1(optimizer: str) -> Program:
    columns = pa.schema([("time", pa.timestamp("us")), ("type", pa.string()), ("vehicle", pa.string())])
    routes = {
        "q1": "OakSt, MainSt, StateSt",
        "q2": "OakSt, MainSt, WestSt",
        "q3": "LindenSt, ParkAve, OakSt, MainSt",
        "q4": "ParkAve, OakSt, MainSt, WestSt",
        "q5": "MainSt, StateSt",
        "q6": "EastPark, ElmSt, ParkAve",
        "q7": "ElmSt, ParkAve, GreenHill",
    }
    text = "\n".join(
        f"QUERY {name} RETURN COUNT(*) PATTERN SEQ({route}) WHERE [vehicle] WITHIN 10 min SLIDE 1 min"
        for name, route in routes.items()
    )
    streets = {"OakSt": 50, "MainSt": 10, "StateSt": 2, "WestSt": 2, "ParkAve": 4, "LindenSt": 10, "ElmSt": 10}
    statistics = Statistics(given={street: rate / 1000 for street, rate in streets.items()})
    options = Options(optimizer=optimizer, costs="printed", statistics=statistics)
    return compile_workload(parse(text), EventSchema(columns), options)


@pytest.mark.parametrize("optimizer", ["sharon", "sharon-greedy"])
def test_what_is_shared_as_text(snapshot: SnapshotAssertion, optimizer: str) -> None:
    text = render_plan_text(fig_1(optimizer))
    shown = text[text.index("sharing") :]
    assert re.sub(r"\d+\.\d+ s\b", "0.000 s", shown) == snapshot


def test_the_graph_of_an_optimizer_for_mermaid(snapshot: SnapshotAssertion) -> None:
    assert render_plan_mermaid(fig_1("sharon")) == snapshot


def test_a_plan_as_json_says_the_same() -> None:
    plan = json.loads(render_plan_json(program()))
    units = [unit for branch in plan["branches"] for unit in branch["units"]]
    assert sorted(query["name"] for unit in units for query in unit["queries"]) == ["all", "growing", "three", "two"]
    shared = next(unit for unit in units if len(unit["queries"]) == 2)
    assert (shared["totals"], shared["totals_apart"]) == (4, 7)


def test_the_comment_above_a_query_is_what_it_says_of_itself() -> None:
    workload = parse(WORKLOAD)
    assert find_leading_comment(workload["three"], workload) == "Three steps, the first two as above."
    assert find_leading_comment(workload["growing"], workload) == ""


def test_statistics_as_text() -> None:
    day = 86_400_000_000
    found = Statistics({"A": 3, "B": 1}, 0, day, ("key",), 2, 3, 1, null_times=1, null_types=0, set_aside=1)
    assert format_statistics(found).splitlines() == [
        "4 events of 2 types",
        "from 1970-01-01 00:00:00 to 1970-01-02 00:00:00",
        "2 partitions by key: 2.0 events each, at most 3",
        "1 event (25.0%) with the time of another in the same partition",
        "1 row set aside: 1 without a time, 0 without a type",
        "  A             3   75.0%     3.472e-05 /s",
        "  B             1   25.0%     1.157e-05 /s",
    ]


def test_statistics_of_nothing() -> None:
    assert format_statistics(Statistics()).startswith("0 events of 0 types\n")


DETECTION = """\
QUERY rise
RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 10 min

QUERY rise_and_fall
RETURN COUNT(*) PATTERN SEQ(A u, NOT N, B v, D w) WHERE u.x < v.x AND u.x > w.x WITHIN 5 min

QUERY short
RETURN one, two PATTERN SEQ(A one, B two) WHERE one.x < two.x WITHIN 2 min

QUERY walk
RETURN * PATTERN SEQ(A a, B+ b, OR(C c, D d)) WHERE b.x < NEXT(b).x WITHIN 1 min
"""


def test_a_plan_of_detection_as_text(snapshot: SnapshotAssertion) -> None:
    columns = pa.schema([("time", pa.timestamp("us")), ("type", pa.string()), ("x", pa.int64())])
    program = compile_workload(parse(DETECTION), EventSchema(columns), Options(optimizer="share"))
    assert render_plan_text(program, {"A": 60, "B": 30, "C": 10, "D": 5, "N": 1}) == snapshot


def sparse_trips() -> pa.Table:
    """Two streets in turn, a vehicle to every second report."""
    count = 400
    return pa.table(
        {
            "time": pa.array([at * 7_000_000 for at in range(count)], pa.timestamp("us")),
            "type": [("OakSt", "MainSt", "WestSt")[at % 3] for at in range(count)],
            "vehicle": [f"v{at // 2}" for at in range(count)],
        }
    )


TRIPS = "\n".join(
    f"QUERY {name} RETURN COUNT(*) PATTERN SEQ({route}) WHERE [vehicle] WITHIN 10 min SLIDE 1 min"
    for name, route in (("one", "OakSt, MainSt, WestSt"), ("two", "MainSt, WestSt"))
)


def test_what_was_proposed_and_is_not_run_is_told_with_the_reason() -> None:
    plan = motet.plan(sparse_trips(), TRIPS, optimizer="sharon")
    (branch,) = json.loads(render_plan_json(plan.program))["branches"]
    assert {unit["strategy"] for unit in branch["units"]} == {"panes"}
    (declined,) = branch["declined"]
    assert declined["queries"] == ["one", "two"]
    assert re.search(
        r"proposed, not run: one, two: equal beginnings alone are estimated at 0\.\d+ of its cost", str(plan)
    )
    printed = motet.plan(sparse_trips(), TRIPS, optimizer="sharon", costs="printed")
    (branch,) = json.loads(render_plan_json(printed.program))["branches"]
    assert branch["declined"] == []
    shared = {each["part"]: each["queries"] for unit in branch["units"] for each in unit["shared"]}
    segments = [segment["symbols"] for segment in json.loads(render_plan_json(printed.program))["sharing"]["segments"]]
    assert bool(shared) == bool(segments)


def test_plans_that_pairs_cannot_run_say_why() -> None:
    tumbling = TRIPS.replace("SLIDE 1 min", "SLIDE 10 min")
    plan = str(motet.plan(sparse_trips(), tumbling, optimizer="sharon", costs="printed"))
    assert "proposed, not run: one, two: pairs cannot run it: it has one window open at a time" in plan


def test_a_run_says_what_was_executed() -> None:
    events = sparse_trips()
    plan = motet.plan(events, TRIPS, analyze=True)
    found = json.loads(render_plan_json(plan.program, plan.counts, plan.analysis))
    units = [unit for branch in found["branches"] for unit in branch["units"]]
    assert [each["signature"] for each in found["executed"]] == [unit["signature"] for unit in units]
    assert [each.keys() for each in found["executed"]] == [{"strategy", "queries", "shared", "signature"}] * len(units)
    for at, unit in enumerate(units, 1):
        assert f"executed unit 1.{at} as planned: {unit['signature']}, 2 queries" in str(plan)
        assert unit["signature"] in plan.to_html()
    answer = motet.ask(events, TRIPS)
    assert [each.signature for each in answer.executed] == [unit["signature"] for unit in units]


def test_rows_that_a_sample_told_are_said_to_be_about_so_many() -> None:
    flights = datasets.load("nyc_flights").slice(0, 60_000)
    query = "QUERY q RETURN COUNT(*) PATTERN SEQ(dep_late, cancelled) WHERE [aircraft] WITHIN 1 day SLIDE 1 day"
    assert re.search(
        r"rows of types cancelled, dep_late: about [\d,]+ of about 60,000 \(\d+%\)", str(motet.plan(flights, query))
    )
    counted = motet.plan(flights, query, statistics=motet.profile(flights, query))
    assert re.search(r"rows of types cancelled, dep_late: [\d,]+ of 60,000", str(counted))
