"""`motet plan --analyze`: the plan with what a run of it found."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command_line import Motet


def test_a_run_reports_what_the_plan_with_the_same_statistics_says(
    motet: Motet, queries: Path, events: Path, tmp_path: Path
) -> None:
    known, report = tmp_path / "known.json", tmp_path / "report.json"
    known.write_text('{"rates": {"A": 2.5, "B": 0.1}}')
    asked = [queries, "--events", events, "--statistics", known, "--optimizer", "gloria", "--costs", "printed"]
    ran = motet("run", *asked, "--report", report)
    assert ran.status == 0, ran.stderr
    found = json.loads(report.read_text())
    assert (found["rows"], found["results"], found["set_aside"], found["truncated"]) == (5, 3, 0, [])
    plan = json.loads(motet("plan", *asked, "--analyze", "--format", "json").stdout)
    assert found["executed"] == plan["executed"]
    units = [unit for branch in plan["branches"] for unit in branch["units"]]
    assert [each["signature"] for each in found["executed"]] == [unit["signature"] for unit in units]


def test_a_report_that_cannot_be_written_is_refused_before_the_run(
    motet: Motet, queries: Path, events: Path, tmp_path: Path
) -> None:
    refused = motet("run", queries, "--events", events, "--report", tmp_path / "no" / "report.json")
    assert refused.status == 2
    assert "no folder" in refused.stderr
    assert not refused.stdout


def test_the_command_shows_it_in_every_form(motet: Motet, queries: Path, events: Path, tmp_path: Path) -> None:
    asked = ["plan", queries, "--events", events, "--analyze"]
    text = motet(*asked)
    assert text.status == 0, text.stderr
    assert "now: 2 results" in text.stdout
    assert "A: 2 events\n" in text.stdout  # counted before in the same rows: that says nothing
    actual = json.loads(motet(*asked, "--format", "json").stdout)["actual"]
    assert actual["rows"] == 5
    assert actual["results"] == {"pairs": 1, "now": 2}
    page = tmp_path / "plan.html"
    written = motet(*asked, "--format", "html", "-o", page)
    assert written.status == 0, written.stderr
    assert not written.stdout
    assert '"title":"Events"' in page.read_text()
    nothing = motet("plan", queries, "--analyze")
    assert nothing.status == 2
    assert "give --events" in nothing.stderr
    nowhere = motet("plan", queries, "-o", tmp_path / "no" / "plan.txt")
    assert nowhere.status == 2
    assert "no folder" in nowhere.stderr
