"""Whoever does what the messages say gets from a raw file to the right answer, with no other tool."""

from __future__ import annotations

import random
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest

import motet as library
from tests.command_line import Motet

QUERY = """
QUERY logins RETURN COUNT(*) AS n PATTERN SEQ(`4625` failed, `4624` entered) WHERE [host] WITHIN 10 s SLIDE 10 s
"""
START = 1_704_110_400_123  # milliseconds, in 2024
OPTION = re.compile(r"^  (?:.* as in )?(--[a-z-]+ (?:'[^']*'|\S+))", re.MULTILINE)


def write_raw(file: Path, delimiter: str, per_millisecond: int) -> pa.Table:
    """Write random logins as many a system does; return them as events."""
    dice = random.Random(7)
    names = ("id", "customer", "status", "EventID", "host", "at")
    lines, rows, at = [delimiter.join(names)], [], START
    for number in range(300):
        at += dice.randint(50, 4000)
        code, host = dice.choice([4624, 4625, 4634, 4672]), dice.randint(0, 3)
        values = (number, f"c{dice.randint(0, 200)}", dice.choice(["ok", "failed"]), code, host, at * per_millisecond)
        lines.append(delimiter.join(map(str, values)))
        rows.append({"time": at * per_millisecond, "type": str(code), "host": host})
    file.write_text("\n".join(lines))
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize(
    ("delimiter", "per_millisecond", "unit"), [(";", 1, "ms"), ("\t", 1000, "us"), ("|", 1_000_000, "ns")]
)
def test_the_messages_lead_to_the_right_answer(
    motet: Motet, tmp_path: Path, delimiter: str, per_millisecond: int, unit: str
) -> None:
    events = write_raw(tmp_path / "raw.csv", delimiter, per_millisecond)
    (tmp_path / "q.motet").write_text(QUERY)
    given: list[str] = []
    for _ in range(5):
        run = ("run", tmp_path / "q.motet", "--events", tmp_path / "raw.csv", "--format", "csv", *given)
        outcome = motet(*run)
        if outcome.status == 0:
            break
        found = OPTION.search(outcome.stderr)
        assert found is not None, outcome.stderr
        given += shlex.split(found[1])
    assert given[2:] == ["--time", "at", "--type", "EventID", "--time-unit", unit]
    expected = library.run(events, QUERY, time_unit=unit, engine="oracle")
    assert expected.num_rows > 5
    starts, counts = expected["window_start"].to_pylist(), expected["n"].to_pylist()
    shown = [line.split(",") for line in outcome.stdout.splitlines()[1:]]
    assert [(int(row[1]), int(row[-1])) for row in shown] == list(zip(starts, counts, strict=True))
