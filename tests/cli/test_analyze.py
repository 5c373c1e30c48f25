"""`motet plan --analyze`: the plan with what a run of it found."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command_line import Motet


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
