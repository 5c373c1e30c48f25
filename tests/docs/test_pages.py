"""Every page that shows files, commands and code shows what they do."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from motet.cli.app import app
from tests.docs.walkthrough import FENCE, ROOT, OutputBlock, enter_scratch_folder, run_page

PAGES = [
    ROOT / "docs" / "tutorial.md",
    ROOT / "docs" / "examples.md",
    ROOT / "docs" / "sql.md",
    ROOT / "docs" / "deploy.md",
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
    *sorted(page for page in (ROOT / "docs" / "coming-from").glob("*.md") if page.stem != "spark-sql"),
    pytest.param(ROOT / "docs" / "coming-from" / "spark-sql.md", marks=pytest.mark.spark),
]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_comes_out(page: Path) -> None:
    with enter_scratch_folder():
        found: list[OutputBlock] = list(run_page(page.read_text()))
    assert found, "a page without a result"
    for shown in found:
        assert lines(shown.actual) == lines(shown.expected)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_commands_that_are_not_run_are_commands(page: Path) -> None:
    """Those of streams would not end: but their options exist."""
    import typer.main

    command = typer.main.get_command(app)
    for block in FENCE.finditer(page.read_text()):
        if block["kind"] != "shell":
            continue
        for line in re.sub(r"\\\n", " ", block["body"]).splitlines():
            program, name, *arguments = shlex.split(line)
            assert program == "motet"
            command.commands[name].make_context(name, arguments)  # type: ignore[attr-defined]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_run_and_are_kept_without_outputs(file: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(file, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_diagrams_can_be_drawn(page: Path) -> None:
    draw = runpy.run_path(str(ROOT / "scripts" / "diagrams.py"))["on_page_markdown"]
    text = page.read_text()
    drawn = draw(text)
    assert "```mermaid" not in drawn
    assert drawn.count("<svg") == text.count("```mermaid")


def test_the_site_names_every_page() -> None:
    told = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        if page.parent.name == "adr" and page.name != "README.md":
            assert f"({page.name})" in (page.parent / "README.md").read_text()
            continue
        assert f"{page.relative_to(ROOT / 'docs').as_posix()}\n" in told
