"""The way from the command line to the kernel is short, and the one that docs/architecture.md lists."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from motet.engine import run
from tests.command_line import Motet

ROOT = Path(__file__).parents[2]


def test_a_query_passes_the_functions_that_the_documentation_lists(
    motet: Motet, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[list[str]] = []
    run_slots = run.run_slots

    def watched(*arguments: Any) -> Any:
        frames = [frame for frame in traceback.extract_stack() if "/src/motet/" in frame.filename]
        stacks.append([f"{Path(frame.filename).stem}.{frame.name}" for frame in frames] + ["resume.run_slots"])
        return run_slots(*arguments)

    monkeypatch.setattr(run, "run_slots", watched)
    cores = pa.cpu_count()
    pa.set_cpu_count(1)  # threads have stacks of their own
    try:
        done = motet(
            "run",
            ROOT / "examples" / "flights.motet",
            "--events",
            ROOT / "src" / "motet" / "datasets" / "nyc_flights.parquet",
        )
    finally:
        pa.set_cpu_count(cores)
    assert done.status == 0
    passed = [name.partition(".")[2] for name in stacks[0] if name != "app.main"]
    assert len(passed) <= 12
    assert list_functions(1) == passed


def list_functions(column: int) -> list[str]:
    """List the functions of one column of the table in docs/architecture.md, without their modules and classes."""
    rows = re.findall(r"^\| \d+ (\|.*\|)$", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    cells = [row.split("|")[column] for row in rows]
    return [name.rpartition(".")[2] for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
