"""Progress of a run where no terminal shows a bar: a line now and then."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from motet.io import progress
from motet.io.progress import Meter
from motet.language import parse
from motet.options import Options
from motet.pipeline import TableSource, execute, prepare
from tests.command_line import Motet


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


def test_after_the_last_row_it_is_said_what_is_done(clock: list[float]) -> None:
    shown = io.StringIO()
    with Meter(4000, Console(file=shown)) as meter:
        meter.reached(4000)
        meter.begin("finding matches of price_run")
        clock[0] += 25
        meter.begin("finding matches of price_run")
        clock[0] += 12
        meter._show()
    assert shown.getvalue() == (
        "4,000 of 4,000 rows read, finding matches of price_run for 0 s\n"
        "4,000 of 4,000 rows read, finding matches of price_run for 12 s\n"
    )


def test_a_line_is_shown_while_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.05)
    shown = io.StringIO()
    with Meter(10, Console(file=shown)) as meter:
        meter.reached(10)
        meter.begin("finding matches of q")
        until = time.monotonic() + 600
        while shown.getvalue().count("\n") < 2 and time.monotonic() < until:
            time.sleep(0.05)
    assert len(re.findall(r"10 of 10 rows read, finding matches of q for \d+ s\n", shown.getvalue())) >= 2


def test_seconds_count_from_the_start_of_the_command(clock: list[float]) -> None:
    meter = Meter(None, started=90.0)
    clock[0] += 3
    assert meter.seconds == 13.0


def test_a_run_reports_what_it_does() -> None:
    table = pa.table({"time": [1, 2], "type": ["A", "B"]})
    workload = parse(
        "QUERY one RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 5 s\n"
        "QUERY two RETURN a PATTERN SEQ(A a, B) WITHIN 5 s\nQUERY three RETURN b PATTERN SEQ(A, B b) WITHIN 5 s"
    )
    said: list[str] = []
    job = prepare(TableSource(table), workload, Options())
    execute(job, lambda rows: said.append(f"{rows} rows"), said.append)
    assert said == ["2 rows", "aggregating one", "finding matches of two, three"]


def test_the_seconds_of_a_run_are_those_of_the_clock(motet: Motet, queries: Path, events: Path) -> None:
    began = time.monotonic()
    outcome = motet("run", queries, "--events", events)
    took = time.monotonic() - began
    said = re.search(r"5 rows read in ([\d.]+) s", outcome.stderr)
    assert said is not None
    assert 0 < float(said[1]) <= took + 0.1
