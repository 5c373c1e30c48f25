"""Walk through a page of the documentation as its reader would: files are written, commands and code are run.

A block with a title is a file. A `console` block holds commands after `$` and what they print; a `python` block is
run, all of a page in one session, and a `text` block after it is what it prints.

`python -m tests.docs.walkthrough PAGE...` writes what comes out into the pages. A page may be a notebook.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat

from motet.cli import main

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<kind>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class OutputBlock:
    """A block of output: where its text stands in the page, what the page says and what came out."""

    start: int
    end: int
    expected: str
    actual: str


def run_page(page: str) -> Iterator[OutputBlock]:
    """Go through a page in the working directory."""
    names: dict[str, object] = {}
    printed: str | None = None
    for block in FENCE.finditer(page):
        kind, title, body = block["kind"], block["title"], block["body"]
        if title is not None:
            Path(title).write_text(body)
        elif kind == "console":
            yield OutputBlock(block.start("body"), block.end("body"), body, "".join(_run_commands(body)))
        elif kind == "python":
            printed = _run_code(body, names)
            continue
        elif kind == "text" and printed is not None:
            yield OutputBlock(block.start("body"), block.end("body"), body, printed)
        printed = None


def _run_commands(body: str) -> Iterator[str]:
    """Each command of a block, with what it prints now."""
    for command in re.findall(r"^\$ (.*)$", body, re.MULTILINE):
        yield f"$ {command}\n{_trim(_run_command(shlex.split(command)))}"


def _run_command(arguments: list[str]) -> str:
    """What a command says: its results or, where it fails, its complaint."""
    out, complaints = io.StringIO(), io.StringIO()
    out.buffer = _Bytes(out)  # type: ignore[misc]
    status: object = 0
    with (
        mock.patch.object(sys, "argv", arguments),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(complaints),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code
    return out.getvalue() if not status else complaints.getvalue()


class _Bytes:
    """Takes the bytes of commands that write them."""

    def __init__(self, text: io.StringIO) -> None:
        self.text = text

    def write(self, content: bytes) -> int:
        self.text.write(bytes(content).decode())
        return len(content)

    def flush(self) -> None:
        pass


def _run_code(code: str, names: dict[str, object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, names)
    return out.getvalue()


def _trim(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


@contextlib.contextmanager
def enter_scratch_folder() -> Iterator[Path]:
    """A fresh folder to work in, from which a page finds the examples and the bundled data."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("src", "examples"):
            (Path(folder) / name).symlink_to(ROOT / name)
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def rewritten(page: str) -> str:
    """The page with what comes out now."""
    with enter_scratch_folder():
        found = list(run_page(page))
    for shown in reversed(found):
        page = page[: shown.start] + _trim(shown.actual) + page[shown.end :]
    return page


def run_notebook(notebook: Any) -> None:
    """Run all cells of a notebook in a fresh folder, and keep their outputs; nothing of when and how often they ran."""
    from nbclient import NotebookClient

    with enter_scratch_folder() as folder:
        client = NotebookClient(
            notebook, timeout=1200, record_timing=False, resources={"metadata": {"path": str(folder)}}
        )
        client.execute()
    notebook.metadata = {name: notebook.metadata[name] for name in ("kernelspec",)}
    for number, cell in enumerate(cell for cell in notebook.cells if cell.cell_type == "code"):
        cell.execution_count = number + 1
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number + 1


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        if file.suffix == ".ipynb":
            notebook = nbformat.read(file, as_version=4)
            run_notebook(notebook)
            nbformat.write(notebook, file)
        else:
            file.write_text(rewritten(file.read_text()))
