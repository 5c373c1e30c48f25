"""Every page that shows files, commands and code shows what they do."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from motet.cli.app import app
from motet.language import parse
from tests.docs.walkthrough import FENCE, ROOT, OutputBlock, enter_scratch_folder, run_notebook, run_page

DOCS = sorted((ROOT / "docs").rglob("*.md"))
ON_SPARK = {"spark-sql", "streaming"}
# What a block may be, and so how it is tested: run, written as a file, parsed, drawn, or a command of other programs.
KINDS = {"console", "python", "text", "csv", "sql", "java", "sase", "shell", "sh", "mermaid"}
# The longest sentence that is understood at first reading, in words; a piece of code is one.
MOST_WORDS = 35


def is_walked(page: Path) -> bool:
    """Return whether a page shows commands or code that are run."""
    return any(block["kind"] in ("console", "python") for block in FENCE.finditer(page.read_text()))


PAGES = [
    pytest.param(page, marks=pytest.mark.spark) if page.stem in ON_SPARK else page for page in DOCS if is_walked(page)
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


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS], ids=lambda page: page.stem)
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
def test_a_notebook_shows_what_comes_out(file: Path) -> None:
    kept = nbformat.read(file, as_version=4)
    now = nbformat.read(file, as_version=4)
    run_notebook(now)
    assert list(list_outputs(now)) == list(list_outputs(kept))


def list_outputs(notebook: Any) -> Iterator[tuple[str, str]]:
    """Yield each cell that says something, and what it says: the page of a plan as a whole, all else as text."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                yield cell.id, output.text
            else:
                is_page = "<iframe" in output.data.get("text/html", "")
                yield cell.id, output.data["text/html" if is_page else "text/plain"]


def test_the_site_shows_every_notebook() -> None:
    render = runpy.run_path(str(ROOT / "scripts" / "notebooks.py"))["render_notebook"]
    told = (ROOT / "mkdocs.yml").read_text()
    for file in NOTEBOOKS:
        page = "\n\n".join(render(nbformat.read(file, as_version=4)))
        assert 'class="output"' in page
        assert f"notebooks/{file.stem}.md\n" in told


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_every_block_says_what_it_is(page: Path) -> None:
    blocks = list(FENCE.finditer(page.read_text()))
    assert {block["kind"] for block in blocks} <= KINDS
    for block in blocks:
        if block["kind"] == "sql" and block["title"] is None:
            assert parse(block["body"]).queries


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *(page for page in DOCS if page.parent.name != "adr" and page.stem != "benchmark-tables")],
    ids=lambda page: page.stem,
)
def test_sentences_are_short(page: Path) -> None:
    assert [sentence for sentence in split_sentences(page.read_text()) if len(sentence.split()) > MOST_WORDS] == []


def split_sentences(page: str) -> Iterator[str]:
    """Yield the sentences of a page: of its paragraphs, items of lists and cells of tables."""
    text = re.sub(r"^#.*$", "\n", FENCE.sub("", page), flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "Code", text).replace("**", "")
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for part in re.split(r"\n\s*\n|\n(?=\s*[-*|#]|\s*\d+\. )", text):
        for cell in part.split("|"):
            yield from re.split(r"(?<=[.!?])\s+(?=[A-Z\d\[*(\"])", " ".join(cell.split()))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_diagrams_can_be_drawn(page: Path) -> None:
    draw = runpy.run_path(str(ROOT / "scripts" / "diagrams.py"))["on_page_markdown"]
    text = page.read_text()
    drawn = draw(text)
    assert "```mermaid" not in drawn
    assert drawn.count("<svg") == text.count("```mermaid")


def test_the_site_names_every_page() -> None:
    told = (ROOT / "mkdocs.yml").read_text()
    for page in DOCS:
        if page.parent.name == "adr" and page.name != "README.md":
            assert f"({page.name})" in (page.parent / "README.md").read_text()
            continue
        assert f"{page.relative_to(ROOT / 'docs').as_posix()}\n" in told
