"""The commands do what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from motet.errors import MotetError
from tests.command_line import Motet

ON_SPARK = pytest.param("spark", marks=pytest.mark.spark)

ROWS = [
    {
        "query": "pairs",
        "window_start": 0,
        "window_end": 10,
        "group": {"key": "u"},
        "values": {"COUNT(*)": 2, "total": 6.0},
    },
    {"query": "now", "time": 2, "group": {}, "values": {"COUNT(*)": 1}},
    {"query": "now", "time": 3, "group": {}, "values": {"COUNT(*)": 2}},
]


@pytest.mark.parametrize("engine", ["local", "oracle", ON_SPARK])
def test_run_gives_the_same_rows_with_every_engine(motet: Motet, queries: Path, events: Path, engine: str) -> None:
    outcome = motet("run", queries, "--events", events, "--engine", engine, "--format", "jsonl")
    assert (outcome.status, [json.loads(line) for line in outcome.stdout.splitlines()]) == (0, ROWS)
    assert "5 rows read in" in outcome.stderr


def test_run_shows_a_table_for_each_query(motet: Motet, queries: Path, events: Path) -> None:
    outcome = motet("run", queries, "--events", events, "--limit", "1")
    lines = [" ".join(line.split()) for line in outcome.stdout.splitlines()]
    assert outcome.status == 0
    assert {"window_start window_end key COUNT(*) total", "0 10 u 2 6", "... and 1 more row"} <= set(lines)


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet", "out.txt"])
def test_the_name_of_the_output_tells_the_format(motet: Motet, queries: Path, events: Path, name: str) -> None:
    target = events.parent / name
    outcome = motet("run", queries, "--events", events, "--output", target)
    assert (outcome.status, outcome.stdout) == (0, "")
    if name.endswith("parquet"):
        assert pq.read_table(target)["query"].to_pylist() == ["pairs", "now", "now"]
    else:
        assert "pairs" in target.read_text()


def test_times_keep_their_unit(motet: Motet, queries: Path, events: Path) -> None:
    events.write_text(events.read_text().replace("\n1,", "\n1000,").replace("\n2,", "\n2000,"))
    outcome = motet("run", queries, "--events", events, "--time-unit", "ms", "--format", "jsonl")
    assert json.loads(outcome.stdout.splitlines()[0])["window_end"] == 10_000


def test_other_columns_may_hold_time_and_type(motet: Motet, queries: Path, events: Path) -> None:
    events.write_text(events.read_text().replace("time,type", "at,kind"))
    assert motet("run", queries, "--events", events, "--time", "at", "--type", "kind").status == 0


def test_rows_without_time_or_type_are_counted(motet: Motet, queries: Path, events: Path) -> None:
    events.write_text(events.read_text() + ",A,u,1\n9,,u,1\n")
    outcome = motet("run", queries, "--events", events)
    assert "2 rows set aside: no type, no time, or one out of range" in outcome.stderr


def test_counts_that_overflow_are_said_and_doubles_are_offered(motet: Motet, tmp_path: Path) -> None:
    (tmp_path / "q").write_text("RETURN COUNT(*) PATTERN A+")
    (tmp_path / "e.csv").write_text("time,type\n" + "".join(f"{at},A\n" for at in range(64)))
    outcome = motet("run", tmp_path / "q", "--events", tmp_path / "e.csv", "--format", "jsonl")
    assert json.loads(outcome.stdout)["values"] == {"COUNT(*)": None}
    assert (
        "1 value given as null: a COUNT beyond 2^63 - 1, or a SUM of whole numbers beyond 2^53 (--counts double"
        in outcome.stderr
    )
    outcome = motet("run", tmp_path / "q", "--events", tmp_path / "e.csv", "--format", "jsonl", "--counts", "double")
    assert json.loads(outcome.stdout)["values"] == {"COUNT(*)": 2.0**64}


def test_check_counts_what_it_read(motet: Motet, queries: Path, events: Path) -> None:
    assert motet("check", queries).stdout == f"{queries}: 2 queries, no errors\n"
    assert motet("check", queries, "--events", events).status == 0


def test_check_warns_of_a_type_that_no_event_has(motet: Motet, queries: Path, events: Path) -> None:
    queries.write_text(queries.read_text().replace("SEQ(A, B)", "SEQ(A, BB)"))
    outcome = motet("check", queries, "--events", events)
    assert outcome.status == 0
    assert "warning: the data has no events of type 'BB' (query now)" in outcome.stderr
    assert "^^" in outcome.stderr


def test_run_leaves_what_is_odd_in_any_case_to_check(motet: Motet, queries: Path, events: Path) -> None:
    queries.write_text("EVENT unused AS x > 1\n" + queries.read_text().replace("SEQ(A, B)", "SEQ(A, BB)"))
    checked, ran = motet("check", queries, "--events", events), motet("run", queries, "--events", events)
    assert (checked.stderr.count("warning:"), ran.stderr.count("warning:")) == (2, 1)


def test_plan_shows_branches_units_and_queries(motet: Motet, queries: Path, events: Path) -> None:
    text = motet("plan", queries, "--events", events).stdout
    assert text.startswith("2 queries in 1 branch\n")
    assert "pairs: COUNT(*), total of SEQ(A a, B b) GROUP BY key WITHIN 10 s SLIDE 10 s" in text
    plan = json.loads(motet("plan", queries, "--events", events, "--format", "json").stdout)
    assert plan["branches"][0]["partition"] == ["key"]


def test_plan_says_how_many_rows_it_reads(motet: Motet, queries: Path, events: Path, tmp_path: Path) -> None:
    events.write_text(events.read_text() + "9,C,u,1\n" * 5)
    line = "  rows of types A, B: 5 of 10 (50%)\n"
    assert line in motet("plan", queries, "--events", events).stdout
    (tmp_path / "s.json").write_text(motet("profile", "--events", events, "--format", "json").stdout)
    assert line in motet("plan", queries, "--statistics", tmp_path / "s.json").stdout


def test_plan_takes_events_or_statistics(motet: Motet, queries: Path, events: Path) -> None:
    outcome = motet("plan", queries, "--events", events, "--statistics", events)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert motet("plan", queries, "--statistics", events).status == 2


def test_plan_needs_no_events(motet: Motet, queries: Path) -> None:
    outcome = motet("plan", queries)
    assert (outcome.status, outcome.stderr) == (0, "")


@pytest.mark.parametrize("engine", ["local", ON_SPARK])
def test_profile_counts_types_and_partitions(motet: Motet, events: Path, engine: str) -> None:
    text = motet("profile", "--events", events, "--key", "key", "--engine", engine).stdout
    assert "5 events of 2 types" in text
    assert "2 partitions by key: 2.5 events each, at most 3" in text
    found = json.loads(motet("profile", "--events", events, "--engine", engine, "--format", "json").stdout)
    assert found["counts"] == {"A": 2, "B": 3}


@pytest.mark.parametrize("engine", ["local", ON_SPARK])
def test_profile_counts_what_queries_ask(motet: Motet, queries: Path, events: Path, engine: str) -> None:
    queries.write_text(queries.read_text().replace("GROUP BY", "WHERE b.x > 1 GROUP BY"))
    text = motet("profile", "--events", events, "--queries", queries, "--engine", engine).stdout
    assert "  B[x > 1]             2   40.0%           0.5 /s\n" in text
    assert "events in 10 s for one key:\n" in text
    assert "  B[x > 1]             2.5\n" in text


SHARED = """\
QUERY one RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE [key] WITHIN 10 s SLIDE 10 s
QUERY two RETURN COUNT(*) PATTERN SEQ(D, A, B, C) WHERE [key] WITHIN 10 s SLIDE 10 s
QUERY three RETURN COUNT(*) PATTERN SEQ(A, B, C, D) WHERE [key] WITHIN 10 s SLIDE 10 s
"""


@pytest.mark.parametrize("optimizer", ["sharon", "sharon-greedy"])
def test_plan_shows_what_an_optimizer_shares(motet: Motet, tmp_path: Path, optimizer: str) -> None:
    file = tmp_path / "shared.motet"
    file.write_text(SHARED)
    outcome = motet("plan", file, "--optimizer", optimizer, "--costs", "printed")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert f"sharing ({optimizer}): 1 run computed once" in outcome.stdout
    assert "  (A, B, C): one at 1, two at 2, three at 1\n" in outcome.stdout
    assert "no statistics given" in outcome.stdout
    plan = json.loads(motet("plan", file, "--optimizer", optimizer, "--costs", "printed", "--format", "json").stdout)
    assert plan["sharing"]["segments"][0]["symbols"] == ["A", "B", "C"]
    drawing = motet("plan", file, "--optimizer", optimizer, "--costs", "printed", "--format", "mermaid").stdout
    assert drawing.startswith("graph TD\n")
    assert 'p2["p2: A, B, C<br/>one, two, three<br/>benefit 4"]' in drawing


def test_plan_goes_by_statistics_that_were_counted_or_given(motet: Motet, tmp_path: Path) -> None:
    file, rates, events = tmp_path / "shared.motet", tmp_path / "rates.json", tmp_path / "events.csv"
    file.write_text(SHARED)
    rates.write_text('{"rates": {"A": 50, "B": 50, "C": 50, "D": 50}}')
    dense = motet("plan", file, "--optimizer", "sharon", "--costs", "printed", "--statistics", rates).stdout
    assert "no statistics given" not in dense
    # 500 events of each in a window: a run in the middle has 500^3 counts to combine.
    assert "p1 (A, B) in one, two, three: benefit -124,500,000, not beneficial\n" in dense
    assert "p2 (A, B, C) in one, two, three: benefit 1,000,000, shared" in dense
    events.write_text("time,type,key\n" + "".join(f"{at},{'ABCD'[at % 4]},u\n" for at in range(40)))
    counted = motet("plan", file, "--optimizer", "sharon", "--events", events).stdout
    assert "no statistics given" not in counted
    assert "rows of types A, B, C, D: 40 of 40 (100%)" in counted


@pytest.mark.parametrize("optimizer", ["gloria", "gloria-greedy", "gloria-noprune"])
@pytest.mark.parametrize("costs", ["printed", "calibrated"])
def test_plan_shows_who_shares_which_transition(motet: Motet, tmp_path: Path, optimizer: str, costs: str) -> None:
    file, rates = tmp_path / "queries.motet", tmp_path / "rates.json"
    rates.write_text('{"rates": {"A": 0.01, "B": 0.05, "C": 0.05, "X": 0.05, "Y": 0.05}}')
    rest = "WITHIN 10 min SLIDE 1 min"
    file.write_text(
        f"QUERY one RETURN COUNT(*) PATTERN SEQ(X, A, B, C) {rest}\n\n"
        f"QUERY two RETURN COUNT(*) PATTERN SEQ(A, B, C, Y) {rest}\n"
    )
    asked = ("plan", file, "--statistics", rates, "--optimizer", optimizer, "--costs", costs)
    outcome = motet(*asked)
    assert outcome.status == 0
    assert f"sharing ({optimizer}): 2 transitions of 4 shared" in outcome.stdout
    assert "A to B: (one, two) by snapshots of A" in outcome.stdout
    assert json.loads(motet(*asked, "--format", "json").stdout)["sharing"]["costs"] == costs
    assert "==>" in motet(*asked, "--format", "mermaid").stdout


def test_only_the_graph_of_an_optimizer_can_be_drawn(motet: Motet, queries: Path) -> None:
    outcome = motet("plan", queries, "--format", "mermaid")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "there is a graph of --optimizer sharon or gloria" in " ".join(outcome.stderr.split())


@pytest.mark.parametrize("engine", ["local", "oracle", ON_SPARK])
def test_run_takes_every_optimizer(motet: Motet, queries: Path, events: Path, engine: str) -> None:
    plain = motet("run", queries, "--events", events, "--engine", engine, "--format", "csv")
    assert plain.status == 0
    for optimizer in ("none", "prefix", "sharon", "sharon-greedy"):
        outcome = motet(
            "run", queries, "--events", events, "--engine", engine, "--optimizer", optimizer, "--format", "csv"
        )
        assert outcome.stdout == plain.stdout


def test_the_demo_shows_answers_what_sharing_gains_and_the_same_on_spark(motet: Motet) -> None:
    outcome = motet("demo", "--no-spark")
    assert outcome.status == 0, outcome.stderr
    for expected in (
        "very late, then very late     11.5%   19.2%       63.5%        5.8%       208",
        "most: 19, EWR, 08 March  (160 rows)",
        "667 times, none of them twice",  # a highest count of 1 says nothing
        "events that agree on aircraft: 52 queries in",
        "times as fast",
    ):
        assert expected in outcome.stdout
    assert "null" not in outcome.stdout


@pytest.mark.spark
def test_the_demo_on_spark_finds_the_same(motet: Motet) -> None:
    assert "27,511 rows, the same as above" in motet("demo").stdout


def test_the_time_between_micro_batches_is_a_duration(motet: Motet, tmp_path: Path) -> None:
    queries = tmp_path / "queries.motet"
    queries.write_text("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 h SLIDE 1 h")
    outcome = motet("stream", queries, "--option", "path=events/", "--trigger", "often")
    assert outcome.status == 2
    assert "--trigger is 'often': write a duration such as '10 minutes'" in outcome.stderr


def test_the_demo_goes_without_java(motet: Motet, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> None:
        raise MotetError("Spark needs Java 17")

    monkeypatch.setattr("motet.spark.java.find_java_home", nowhere)
    outcome = motet("demo")
    assert outcome.status == 0
    assert "left out: Spark needs Java 17" in outcome.stdout


def test_help_teaches_by_example(motet: Motet) -> None:
    for command in ("check", "plan", "run", "profile", "demo"):
        assert f"\n      motet {command} " in motet(command, "--help").stdout


def test_a_reader_that_has_had_enough_is_no_error(queries: Path, events: Path) -> None:
    command = (
        f"{sys.executable} -c 'from motet.cli import main; main()' run {queries} --events {events} --format csv | true"
    )
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=600)
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr
