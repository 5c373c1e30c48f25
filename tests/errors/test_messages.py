"""Every message, reviewed as a set: what happened, where, and what to do.

`pytest tests/errors --snapshot-update` after a message has changed, then read the difference.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from motet.errors import QueryError
from motet.language import parse
from motet.model.validate import find_problems
from tests.command_line import Motet
from tests.errors.cases import COMMANDS, OVER_DATA, TEXTS, in_python, over_data, write_files
from tests.errors.sites import sites


def of_text(text: str) -> str:
    """What is said of a text, warnings included."""
    try:
        workload = parse(text, "file.motet")
    except QueryError as error:
        return str(error)
    return "\n".join(found.render(workload.text, workload.origin) for found in find_problems(workload))


def of_commands(motet: Motet) -> dict[str, str]:
    found = {}
    for command in COMMANDS:
        outcome = motet(*shlex.split(command))
        # Usage names the program by how the tests were started.
        said = outcome.stderr.rstrip().rpartition("for help.\n")[2].strip()
        said = re.sub(r"^\d+ rows read, .*\n", "", said, flags=re.MULTILINE)  # progress, on a slow machine
        found[command] = f"{said}\n(status {outcome.status})"
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.mark.parametrize("case", TEXTS)
def test_of_texts(case: str, snapshot: SnapshotAssertion) -> None:
    said = of_text(TEXTS[case])
    assert re.search(r"^file\.motet(:\d+:\d+)?: (error|warning): ", said), "a place"
    assert said == snapshot


@pytest.mark.parametrize("case", OVER_DATA)
def test_of_texts_over_data(case: str, snapshot: SnapshotAssertion) -> None:
    assert over_data(OVER_DATA[case]) == snapshot


def test_of_python(snapshot: SnapshotAssertion) -> None:
    found = in_python()
    assert not [name for name, said in found.items() if said == "nothing was raised"]
    assert found == snapshot


def test_of_the_command_line(folder: Path, motet: Motet, snapshot: SnapshotAssertion) -> None:
    found = of_commands(motet)
    assert not [command for command, said in found.items() if said.endswith("(status 0)")]
    assert not [command for command, said in found.items() if "internal error" in said or "Traceback" in said]
    assert found == snapshot


def test_the_set_of_messages(snapshot: SnapshotAssertion) -> None:
    """Whoever adds or changes a message sees it among all others."""
    assert [f"{site.file}: {site.message}" for site in sites()] == snapshot


def test_most_messages_are_met_here(folder: Path, motet: Motet, snapshot: SnapshotAssertion) -> None:
    """Those that are not are listed: they take a running stream, a full memory, or are met in other tests."""
    said = "\n".join(
        [
            *map(of_text, TEXTS.values()),
            *map(over_data, OVER_DATA.values()),
            *in_python().values(),
            *of_commands(motet).values(),
        ]
    )
    unmet = []
    for site in sites():
        pieces = [re.escape(piece) for piece in site.message.split("{}")]
        if not site.file.startswith(("dialects/", "row_patterns/")) and not re.search(".*".join(pieces), said):
            unmet.append(f"{site.file}: {site.message}")
    assert unmet == snapshot
