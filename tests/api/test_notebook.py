"""Use in notebooks: the cell magic, what it shows, and the progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import motet
from motet.api import Plan
from motet.io import progress

pytest.importorskip("IPython")

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

EVENTS = pa.table({"time": [1, 2, 3, 4], "type": ["A", "B", "A", "B"], "x": [1, 5, 2, 7]})
COUNT = "QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s"


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "motet")
    made.user_ns["events"] = EVENTS
    yield made
    InteractiveShell.clear_instance()


def test_a_cell_runs_its_queries(shell: InteractiveShell) -> None:
    found = shell.run_cell_magic("motet", "events --into answer", COUNT)
    assert found["pairs"]["COUNT(*)"].to_pylist() == [3]
    assert shell.user_ns["answer"] is found
    assert "<table>" in found._repr_html_()


def test_a_cell_reads_a_file_and_takes_options(shell: InteractiveShell, tmp_path: Path) -> None:
    file = tmp_path / "events.parquet"
    pq.write_table(EVENTS.rename_columns(["at", "what", "x"]), file)
    found = shell.run_cell_magic("motet", f"{file} --time at --type what --optimizer none", COUNT)
    assert found["pairs"]["COUNT(*)"].to_pylist() == [3]


def test_a_cell_shows_a_plan(shell: InteractiveShell) -> None:
    shown = shell.run_cell_magic("motet", "events --plan", COUNT)
    assert isinstance(shown, Plan)
    assert shown.analysis is None
    assert shown._repr_html_().startswith("<iframe")
    assert shell.run_cell_magic("motet", "events --analyze", COUNT).analysis is not None


@pytest.mark.parametrize(
    ("line", "cell", "message"),
    [
        ("", COUNT, "events are missing"),
        ("nowhere", COUNT, "no variable and no file 'nowhere'"),
        ("events more", COUNT, "not also 'more'"),
        ("events --into", COUNT, "--into needs a value"),
        ("events --optimiser none", COUNT, "did you mean 'optimizer'"),
        ("events", "QUERY q RETURN COUNT(*) PATTRN SEQ(A, B)", "PATTRN"),
    ],
)
def test_a_mistake_is_one_message(shell: InteractiveShell, line: str, cell: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        shell.run_cell_magic("motet", line, cell)


def test_events_of_a_match_are_columns(shell: InteractiveShell) -> None:
    text = "QUERY found RETURN * PATTERN SEQ(A+ many, B one) WHERE one.x > 6 WITHIN 10 s"
    page = shell.run_cell_magic("motet", "events", text)._repr_html_()
    assert '<th colspan="2" scope="colgroup" style="text-align: left">one (B)</th>' in page
    assert ">time · x</th>" in page  # a list of events: each is a line
    assert "1 · 1<br>3 · 2" in page
    assert "{" not in page


def test_a_notebook_shows_a_bar_and_clears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, page: Any) -> None:
            shown.append(page.data)

    def display(page: Any, display_id: bool) -> Handle:
        shown.append(page.data)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(progress, "is_in_notebook", lambda: True)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_BARS", 0.0)
    found = motet.run(EVENTS, COUNT, progress=True)
    assert found["COUNT(*)"].to_pylist() == [3]
    assert '<progress value="4" max="4"' in shown[0]
    assert "4 of 4 rows" in shown[0]
    assert shown[-1] == ""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_BARS", 60.0)
    shown.clear()
    motet.run(EVENTS, COUNT, progress=True)
    assert not shown  # a short run


def test_the_kernel_of_a_notebook_shows_a_bar() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    cells = [
        "from motet.io import progress\n"
        "import pyarrow as pa\n"
        "progress.SECONDS_BETWEEN_BARS = 0.0\n"
        "close, progress.NotebookBar.close = progress.NotebookBar.close, lambda self: None\n"  # the last bar stays
        "events = pa.table({'time': [1, 2, 3, 4], 'type': ['A', 'B', 'A', 'B']})",
        "%load_ext motet",
        f"%%motet events\n{COUNT}",
        f"progress.NotebookBar.close = close\nimport motet\nmotet.ask(events, {COUNT!r}, progress=True)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=1200).execute()
    stays, cleared = notebook.cells[2].outputs, notebook.cells[3].outputs
    bar, answer = (output.data["text/html"] for output in stays)
    assert '<progress value="4" max="4"' in bar
    assert "<table>" in answer
    assert cleared[0].data["text/html"] == ""
