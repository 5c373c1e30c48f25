"""A run that is interrupted ends soon, says what was done, and leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.measure import read_tree_cpu

ENDLESS = "QUERY price_run RETURN a.time AS t PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 100000 s"


def wait_for(condition: object, seconds: float = 300.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


# The command line, but progress is told ten times a second.
MOTET = "from motet.io import progress; progress.SECONDS_BETWEEN_LINES = 0.1; from motet.cli import main; main()"


@pytest.fixture
def endless(tmp_path: Path) -> list[str]:
    """A run that finds billions of matches."""
    (tmp_path / "q.motet").write_text(ENDLESS)
    rows = "".join(f"{at},{'ABC'[at % 3]},{at * 7919 % 10007}\n" for at in range(9000))
    (tmp_path / "e.csv").write_text(f"time,type,x\n{rows}")
    return [sys.executable, "-c", MOTET, "run", str(tmp_path / "q.motet"), "--events", str(tmp_path / "e.csv")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "status", "name"),
    [(signal.SIGINT, 130, "out.jsonl"), (signal.SIGTERM, 143, "out.duckdb"), (signal.SIGINT, 130, "above/out/")],
)
def test_an_interrupted_run(tmp_path: Path, endless: list[str], sent: int, status: int, name: str) -> None:
    before = set(tmp_path.iterdir())
    process = subprocess.Popen([*endless, "--output", f"{tmp_path}/{name}"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "finding matches of price_run" not in (line := process.stderr.readline()):
        assert line, "it ended before it began to look for matches"
    wait_for(lambda: set(tmp_path.iterdir()) != before)
    process.send_signal(sent)
    _, said = process.communicate(timeout=300)
    assert process.returncode == status
    assert set(tmp_path.iterdir()) == before
    last = said.splitlines()[-1]
    assert last.startswith("interrupted after ")
    assert "9,000 rows read, finding matches of price_run; nothing was written" in last


@pytest.mark.slow
def test_what_was_written_before_is_counted(endless: list[str]) -> None:
    command = [*endless, "--format", "jsonl"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1 << 16)
    process.send_signal(signal.SIGINT)
    written = (1 << 16) + len(process.stdout.read())
    said = process.stderr.read().decode().splitlines()[-1]
    assert written
    assert process.wait() == 130
    assert said.startswith("interrupted after ")


# Takes long in C, where Python hears no signal.
BUSY = """
import hashlib, pathlib, sys
from motet.cli import interrupts
from motet.io.writers import open_atomically
interrupts.describe = lambda: "interrupted while busy"
with interrupts.handle_interrupts(), open_atomically(pathlib.Path(sys.argv[1]) / "out.csv") as stream:
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 2_000_000_000)
"""


def test_a_signal_that_python_does_not_hear_ends_the_process_all_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUSY, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert len(list(tmp_path.iterdir())) == 1
    before = read_tree_cpu(process.pid)
    wait_for(lambda: read_tree_cpu(process.pid) > before + 0.2)  # it is in C
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert (process.returncode, said) == (130, "interrupted while busy\n")
    assert list(tmp_path.iterdir()) == []
