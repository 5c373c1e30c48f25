"""Whatever a user gets wrong is said in a few lines, ends with the right status, and leaves nothing half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import Motet

TEN_MISTAKES = """\
EVENT big AS qty >

QUERY one
RETURN COUNT(*), TOTAL(a.x)
PATTERN SEQ(A a, B b
WITHIN 10 parsecs

QUERY one
RETURN COUNT(c)
PATTERN SEQ(A a, NOT B, C d)
WHERE a.x > 'text' + 1 AND e.x = 1
WITHIN 0 s SLIDE 5 s

QUERY three
RETURN SUM(A)
PATTERN A{5,2}
WHERE [
"""


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# What is wrong -> the events file (name and text) and what the message says; status 2: wrong from the start.
WRONG = {
    "missing column": ("e.csv", "tim,type,key,x\n1,A,u,1\n", "has no column 'time'; did you mean 'tim'?"),
    "missing attribute": ("e.csv", "time,type,ky,x\n1,A,u,1\n", "did you mean 'ky'?"),
    "another unit": ("e.csv", "time,type,key,x\n1700000000000,A,u,1\n", "--time-unit ms"),
    "text times": ("e.csv", "time,type,key,x\nsoon,A,u,1\n", "'soon' is no ISO 8601 time"),
    "sum of text": ("e.csv", "time,type,key,x\n1,A,u,much\n", "SUM needs numbers, and 'x' is a text"),
    "unknown ending": ("e.txt", "time,type,key,x\n", "cannot tell the format"),
}
# The same, found only by reading; status 1: a run failed.
BROKEN = {
    "not parquet": ("e.parquet", "time,type\n", "Parquet magic bytes not found"),
    "cut row": ("e.csv", "time,type,key,x\n1,A\n", "Expected 4 columns, got 2"),
    "not json": ("e.jsonl", "nonsense\n", "JSON parse error"),
}


@pytest.mark.parametrize("output", ["out.jsonl", "out.parquet"])
@pytest.mark.parametrize(("case", "status"), [*((case, 2) for case in WRONG), *((case, 1) for case in BROKEN)])
def test_bad_events(motet: Motet, queries: Path, tmp_path: Path, case: str, status: int, output: str) -> None:
    name, text, message = (WRONG | BROKEN)[case]
    (tmp_path / name).write_text(text)
    before = entries(tmp_path)
    outcome = motet("run", queries, "--events", tmp_path / name, "--output", tmp_path / output)
    assert (outcome.status, outcome.stdout) == (status, "")
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert entries(tmp_path) == before


def test_no_such_events(motet: Motet, queries: Path, tmp_path: Path) -> None:
    outcome = motet("run", queries, "--events", tmp_path / "nowhere.csv")
    assert outcome.status == 2
    assert outcome.stderr == f"error: no file or folder {tmp_path / 'nowhere.csv'}\n"


def test_no_such_queries(motet: Motet, events: Path, tmp_path: Path) -> None:
    outcome = motet("run", tmp_path / "nothing.motet", "--events", events)
    assert outcome.status == 2
    assert "nothing.motet" in outcome.stderr


def test_queries_that_are_no_text(motet: Motet, events: Path, tmp_path: Path) -> None:
    (tmp_path / "q.motet").write_bytes(b"\xff\xfe\x00\x81")
    outcome = motet("run", tmp_path / "q.motet", "--events", events)
    assert outcome.status == 2
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_ten_mistakes_are_told_at_once(motet: Motet, events: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "q.motet").write_text(TEN_MISTAKES)
    arguments = ["--events", events] if command == "run" else []
    outcome = motet(command, tmp_path / "q.motet", *arguments)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.count(": error: ") >= 10
    assert outcome.stderr.splitlines()[-1] == f"{outcome.stderr.count(': error: ')} problems found"
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize(
    ("text", "name"),
    [("", "e.csv"), ("", "e.jsonl"), ("time,type,key,x\n", "e.csv")],
    ids=["empty csv", "empty json lines", "names only"],
)
def test_empty_events_give_no_results(motet: Motet, queries: Path, tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / name).write_text(text)
    outcome = motet("run", queries, "--events", tmp_path / name, "--output", tmp_path / "out.jsonl")
    assert outcome.status == 0, outcome.stderr
    assert (tmp_path / "out.jsonl").read_text() == ""


ARGUMENTS = {
    "unknown option": (["--evnts", "x"], "--evnts"),
    "unknown engine": (["--engine", "gpu"], "gpu"),
    "unknown format": (["--format", "xml"], "xml"),
    "unknown unit": (["--time-unit", "fortnight"], "fortnight"),
    "no folder for the output": (["--output", "/nowhere/out.csv"], "no folder /nowhere"),
    "parquet to the terminal": (["--format", "parquet"], "--output"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_wrong_arguments(motet: Motet, queries: Path, events: Path, case: str) -> None:
    arguments, message = ARGUMENTS[case]
    outcome = motet("run", queries, "--events", events, *arguments)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_an_output_that_cannot_be_written_fails_the_run(
    motet: Motet, queries: Path, events: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken.csv").mkdir()
    (tmp_path / "taken.csv" / "now.csv").mkdir()
    outcome = motet("run", queries, "--events", events, "--output", tmp_path / "taken.csv", "--format", "csv")
    assert outcome.status == 1
    assert "now.csv" in outcome.stderr
    assert entries(tmp_path / "taken.csv") - {"pairs.csv"} == {"now.csv"}


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_run_that_cannot_go_on_says_why(motet: Motet, tmp_path: Path, engine: str) -> None:
    (tmp_path / "q.motet").write_text("RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE a.x + 1 > 0")
    (tmp_path / "e.csv").write_text(f"time,type,x\n1,A,{2**63 - 1}\n2,B,1\n")
    before = entries(tmp_path)
    arguments = ["--events", tmp_path / "e.csv", "--engine", engine, "--output", tmp_path / "out.csv"]
    outcome = motet("run", tmp_path / "q.motet", *arguments)
    assert outcome.status == 1
    last = outcome.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert "does not fit in a whole number of 64 bits" in last
    assert "Traceback" not in outcome.stderr
    assert entries(tmp_path) == before


def test_what_nobody_foresaw_is_one_line(
    motet: Motet, queries: Path, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero\nin a kernel")

    monkeypatch.setattr("motet.cli.commands.execute", fail)
    outcome = motet("run", queries, "--events", events)
    assert outcome.status == 1
    expected = "internal error: ZeroDivisionError: division by zero; run with MOTET_DEBUG=1 for the traceback\n"
    assert outcome.stderr == expected


def test_a_traceback_is_there_for_those_who_ask(
    motet: Motet, queries: Path, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("motet.cli.commands.execute", fail)
    run = motet
    monkeypatch.setenv("MOTET_DEBUG", "1")
    assert "Traceback" in run("run", queries, "--events", events).stderr
