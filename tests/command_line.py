"""Runs the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from motet.cli import main


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    stdout: str
    stderr: str


Motet = Callable[..., Outcome]


@pytest.fixture
def motet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Motet:
    monkeypatch.delenv("MOTET_DEBUG", raising=False)

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr("sys.argv", ["motet", *map(str, arguments)])
        capsys.readouterr()
        status = 0
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(bool(end.code))
        shown = capsys.readouterr()
        return Outcome(status, shown.out, shown.err)

    return run
