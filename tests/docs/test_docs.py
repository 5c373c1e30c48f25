"""What the documents show is what happens."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import motet
from motet import datasets
from motet.cli import main
from motet.language import parse
from tests.docs.walkthrough import FENCE, enter_scratch_folder, run_page

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: str, kind: str) -> list[str]:
    """The fenced blocks of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def printed(run: str, names: dict[str, object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(run, names)
    return out.getvalue()


def test_the_commands_of_the_readme_print_what_it_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for block in blocks(README, "console"):
        command, _, expected = block.partition("\n")
        monkeypatch.setattr("sys.argv", shlex.split(command.removeprefix("$ ")))
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        assert trimmed(capsys.readouterr().out) == trimmed(expected)


def test_the_queries_of_the_readme_are_the_example() -> None:
    assert blocks(README, "sql")[0] == (ROOT / "examples" / "flights.motet").read_text()


def test_the_python_of_the_readme_prints_what_it_shows() -> None:
    assert trimmed(printed(blocks(README, "python")[0], {})) == trimmed(blocks(README, "text")[0])


def test_the_commands_for_a_file_of_your_own_run_on_that_of_the_tutorial() -> None:
    tutorial = (ROOT / "docs" / "tutorial.md").read_text()
    files = [block[0] for block in FENCE.finditer(tutorial) if block["title"] in ("shop.csv", "shop.motet")]
    commands = "".join(f"$ {line}\n" for line in blocks(README, "shell")[0].splitlines())
    with enter_scratch_folder():
        [shown] = run_page("\n".join([*files, f"```console\n{commands}```"]))
    assert "8 events of 3 types" in shown.actual
    assert re.search(r"^bought\n.*spent\n.*\b30$", shown.actual, re.MULTILINE | re.DOTALL)


@pytest.mark.spark
def test_the_spark_and_the_stream_of_the_readme_run() -> None:
    in_process, on_spark, on_a_stream = blocks(README, "python")
    imports = in_process.partition("flights =")[0]
    names: dict[str, Any] = {}
    with enter_scratch_folder() as folder:
        assert "knock_on" in printed(imports + on_spark, names)
        (folder / "events").mkdir()
        winter = datasets.load("nyc_flights").slice(0, 60_000)
        pq.write_table(winter, folder / "events" / "winter.parquet")
        # A session that other tests started looks for files elsewhere.
        printed(re.sub(r'"((?:events|results|state)/)"', rf'"{folder}/\1"', on_a_stream), names)
        [query] = names["spark"].streams.active
        try:
            query.processAllAvailable()
            found = names["spark"].read.parquet(f"{folder}/results").groupBy("query").count().collect()
        finally:
            query.stop()
    counts = {row["query"]: row["count"] for row in found}
    batch = motet.ask(winter, ROOT / "examples" / "flights.motet")
    assert counts["knock_on"] == len(batch["knock_on"])
    # The end of the stream would make the last windows certain.
    assert len(batch["build_up"]) - 3 <= counts["build_up"] <= len(batch["build_up"])


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.motet")), ids=lambda file: file.name)
def test_examples_parse(file: Path) -> None:
    assert parse(file.read_text()).queries


@pytest.mark.parametrize("name", ["in_python.py", pytest.param("on_spark.py", marks=pytest.mark.spark)])
def test_examples_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / name))
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
