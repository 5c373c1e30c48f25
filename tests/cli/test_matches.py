"""Queries that return matches on the command line: json lines, csv, parquet and tables, as they are found."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command_line import Motet

QUERY = """\
QUERY rising
RETURN a, b, b.x - a.x AS gain
PATTERN SEQ(A a, B+ b_all, B b)
WHERE a.x < b.x AND [key]
WITHIN 10 s

QUERY pairs
RETURN COUNT(*)
PATTERN SEQ(A, B)
WITHIN 10 s SLIDE 10 s
"""
ROWS = [
    {"query": "pairs", "window_start": 0, "window_end": 10, "group": {}, "values": {"COUNT(*)": 3}},
    {
        "query": "rising",
        "start": 1,
        "end": 3,
        "match": {
            "a": {"time": 1, "type": "A", "key": "u", "x": 1},
            "b": {"time": 3, "type": "B", "key": "u", "x": 4},
            "gain": 3,
        },
    },
]


@pytest.fixture
def matching(tmp_path: Path) -> Path:
    file = tmp_path / "matching.motet"
    file.write_text(QUERY)
    return file


@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_matches_as_json_lines(motet: Motet, matching: Path, events: Path, engine: str) -> None:
    outcome = motet("run", matching, "--events", events, "--engine", engine, "--format", "jsonl")
    assert outcome.status == 0, outcome.stderr
    rows = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert sorted(rows, key=lambda row: row["query"]) == ROWS


def test_matches_in_parquet_are_typed_structs(motet: Motet, matching: Path, events: Path) -> None:
    target = events.parent / "out.parquet"
    outcome = motet("run", matching, "--events", events, "--output", target)
    assert outcome.status == 0, outcome.stderr
    table = pq.read_table(target)
    assert str(table.schema.field("a").type) == "struct<time: int64, type: string, key: string, x: int64>"
    (row,) = [row for row in table.to_pylist() if row["query"] == "rising"]
    assert (row["b"]["x"], row["gain"]) == (4, 3)


def test_matches_in_csv_and_in_a_table(motet: Motet, matching: Path, events: Path) -> None:
    target = events.parent / "out.csv"
    assert motet("run", matching, "--events", events, "--output", target).status == 0
    assert '""x"": 4' in target.read_text()
    outcome = motet("run", matching, "--events", events)
    assert "{time: 3, type: B, key: u, x: 4}" in outcome.stdout


def test_a_limit_is_a_run_that_failed_or_a_note(motet: Motet, events: Path) -> None:
    file = events.parent / "all.motet"
    file.write_text("QUERY all RETURN * PATTERN B b WITHIN 10 s")
    failed = motet("run", file, "--events", events, "--match-limit", "1")
    assert failed.status == 1
    assert "query all: more than 1 matches in one window" in failed.stderr
    cut = motet("run", file, "--events", events, "--match-limit", "1", "--on-limit", "truncate")
    assert cut.status == 0
    assert "not all matches of all were found" in cut.stderr


def test_the_plan_of_matches_is_shown(motet: Motet, matching: Path, events: Path) -> None:
    outcome = motet("plan", matching, "--events", events)
    assert outcome.status == 0, outcome.stderr
    assert "rising: matches of" in outcome.stdout
    assert "e1.x < e2.x" in outcome.stdout


def test_profile_measures_conditions_and_plans_use_them(motet: Motet, tmp_path: Path) -> None:
    events, queries, statistics = (tmp_path / name for name in ("events.jsonl", "q.motet", "statistics.json"))
    rows = [{"time": at, "type": "ABC"[at % 3], "x": at % 3, "y": at} for at in range(90)]
    events.write_text("\n".join(map(json.dumps, rows)))
    queries.write_text("RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND c.x < b.x WITHIN 9 s")
    outcome = motet("profile", "--events", events, "--queries", queries, "--format", "json")
    assert outcome.status == 0, outcome.stderr
    assert json.loads(outcome.stdout)["selectivities"] == {
        "A e1, B e2: e1.x < e2.x": 1.0,
        "C e1, B e2: e1.x < e2.x": 0.0,
        "A e1, B e2, C e3: e1.x < e2.x AND e3.x < e2.x": 0.0,
    }
    statistics.write_text(outcome.stdout)
    queries.write_text("RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND c.x = b.x WITHIN 9 s")
    never = json.loads(outcome.stdout) | {
        "selectivities": {"A e1, B e2: e1.x < e2.x": 0.0001, "C e1, B e2: e1.x = e2.x": 1.0}
    }
    statistics.write_text(json.dumps(never))
    plan = motet("plan", queries, "--statistics", statistics)
    assert plan.status == 0, plan.stderr
    joins = [line for line in plan.stdout.splitlines() if ": join of" in line]
    assert "A e1, B e2" in joins[0]


def test_where_nothing_matches_the_names_of_columns_are_written_once(
    motet: Motet, events: Path, tmp_path: Path
) -> None:
    file = tmp_path / "none.motet"
    file.write_text("QUERY none RETURN * PATTERN SEQ(A a, B b) WHERE a.x > 1000 AND b.x > a.x WITHIN 10 s\n")
    outcome = motet("run", file, "--events", events, "--format", "csv")
    assert outcome.status == 0
    assert outcome.stdout.splitlines() == ['"query","start","end","a","b"']
