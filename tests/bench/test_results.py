"""Results: through the command line to JSON and a chart, and from there to a page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from benchmarks.figures import (
    DOCS,
    draw_conclusions,
    list_gains,
    list_growth,
    list_peers,
    list_pipelines,
    list_plans,
    read_table,
)
from benchmarks.page import fill_page, read_results
from benchmarks.run import Result
from benchmarks.show import format_value, to_markdown
from tests.command_line import Motet


def test_the_list_shows_names_papers_and_figures(motet: Motet) -> None:
    outcome = motet("bench", "--list")
    assert outcome.status == 0
    assert "sharon-12b" in outcome.stdout
    assert "Sharon, figure 12(b), (d), (f)" in outcome.stdout


def test_an_experiment_runs_to_json_and_a_chart(motet: Motet, tmp_path: Path) -> None:
    file, chart = tmp_path / "result.json", tmp_path / "chart.svg"
    outcome = motet("bench", "a-seq-14a", "--repeat", "1", "--json", file, "--chart", chart)
    assert outcome.status == 0, outcome.stderr
    assert "an event at length 10, window 2,000 ms: paper 21.9 us (Pentium IV); here" in outcome.stdout
    result = Result.from_json(json.loads(file.read_text()))
    assert (result.name, result.figure, result.size, result.repeats) == ("a-seq-14a", "14(a)", "quick", 1)
    assert [row["length"] for row in result.rows] == [6, 10, 6, 10]
    assert all(set(row["online"]) == {"median", "low", "high"} for row in result.rows)
    assert result.peak_mb > 50
    assert chart.read_text().startswith("<svg")


def test_a_chart_of_an_unknown_kind_is_refused_before_anything_runs(motet: Motet, tmp_path: Path) -> None:
    outcome = motet("bench", "sharon-14", "--chart", tmp_path / "chart.bmp")
    assert outcome.status == 1
    assert "a chart is .html, .svg, .png, .json" in outcome.stderr


def result() -> Result:
    row = {"queries": 20, "none": {"median": 2.0, "low": 1.9, "high": 2.2}, "way": "a|b", "left": None}
    stated = [{"what": "gain", "paper": "5 times", "ours": "3 times"}, {"what": "power", "paper": "", "ours": "1.02"}]
    when = "2026-01-02T00:00:00"
    return Result("some", "Paper", "3", "speed", "quick", 3, [row], stated, ["A note."], 12.3, 9.8, 200.0, when, {})


def test_a_page_takes_results_where_it_has_places_for_them(tmp_path: Path) -> None:
    (tmp_path / "some.json").write_text(json.dumps(result().as_json()))
    page = "before\n<!-- bench some -->\nold\n<!-- /bench -->\nbetween\n<!-- bench other -->\nkept\n<!-- /bench -->\n"
    once = fill_page(page, read_results(tmp_path))
    assert "| 20 | 2.00 (1.90-2.20) | a\\|b | - |" in once
    assert "- gain: paper 5 times; here 3 times\n- power: 1.02" in once
    assert "old" not in once
    assert "kept" in once
    assert fill_page(once, read_results(tmp_path)) == once, "a page can be filled again"


def test_charts_of_conclusions_draw_what_the_tables_say(tmp_path: Path) -> None:
    tables, conclusions = ((DOCS / name).read_text() for name in ("benchmark-tables.md", "benchmarks.md"))
    charted = [
        list(list_growth(tables)),
        list(list_gains(tables)),
        list(list_plans(tables)),
        list(list_pipelines(tables)),
        list(list_peers(conclusions)),
    ]
    assert all(value is not None for rows in charted for row in rows for value in row.values())
    assert all(len(rows) >= 5 for rows in charted)
    own = read_table(tables, "<!-- bench spark-batch -->")[2]
    assert f"{charted[3][2]['seconds']:.2f}" == own["wall s"].split()[0]
    assert {row["plan"] for row in charted[2]} >= {"none", "auto"}
    (tmp_path / "images").mkdir()
    for name in ("benchmark-tables.md", "benchmarks.md"):
        (tmp_path / name).write_text((DOCS / name).read_text())
    for file in draw_conclusions(tmp_path):
        assert file.read_text().startswith("<svg")
        assert f"(images/{file.name})" in conclusions


# Searches for a plan, which is not run; statements that an SQL engine runs; what only starts, or shuffles.
WITHOUT_PLANS = {"sharon-13", "sharon-budget", "multitree-11b", "cluster-first", "scale-costs"}
SEARCHES, STATEMENTS = "gloria-1[1-5]", "sql-"


def test_every_table_of_runs_says_what_ran() -> None:
    tables = (DOCS / "benchmark-tables.md").read_text()
    shown = re.findall(r"<!-- bench ([\w-]+) -->\n\|", tables)
    silent = {name for name in shown if "ran" not in read_table(tables, f"<!-- bench {name} -->")[0]}
    assert {name for name in silent if not re.match(f"{SEARCHES}|{STATEMENTS}", name)} <= WITHOUT_PLANS


def test_numbers_have_three_digits_that_count() -> None:
    shown = [format_value(value) for value in (0.0, 0.01234, 0.5, 12.345, 1234.5, 5e6, 2.5e8, 7, None, "DNF")]
    assert shown == ["0", "0.012", "0.50", "12.3", "1,234", "5,000,000", "250 M", "7", "-", "DNF"]


def test_markdown_names_the_command() -> None:
    assert "`motet bench some`, medians of 3" in to_markdown(result())
    assert "`motet bench some --size paper`, medians of 3" in to_markdown(replace(result(), size="paper"))
