"""Progress of a run where no terminal shows a bar: a line now and then."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from motet.cli import progress
from motet.cli.progress import Meter


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_line_every_ten_seconds(clock: list[float]) -> None:
    shown = io.StringIO()
    with Meter(4000, Console(file=shown)) as meter:
        for second in range(25):
            clock[0] = 100.0 + second
            meter.reached(second * 100)
    assert shown.getvalue() == "1,000 of 4,000 rows, 100 rows/s\n2,000 of 4,000 rows, 100 rows/s\n"
    assert meter.seconds == 24.0


def test_a_short_run_is_silent(clock: list[float]) -> None:
    shown = io.StringIO()
    with Meter(None, Console(file=shown)) as meter:
        clock[0] += 9
        meter.reached(100)
    assert shown.getvalue() == ""


def test_rows_of_an_unknown_number(clock: list[float]) -> None:
    meter = Meter(None)
    meter.reached(50)
    assert meter.describe(clock[0] + 2) == "50 rows, 25 rows/s"
