"""A stream whose checkpoint's disk is full says so, and goes on exactly once when there is room again."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import motet as library
from motet.io.writers import json_lines
from tests.command_line import Motet
from tests.spark.test_stream import Folder, last_event, random_events

pytestmark = pytest.mark.spark

QUERIES = """
QUERY counts RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 60 s SLIDE 20 s
QUERY matches RETURN * PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 10 s
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no right to mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file: Path) -> None:
    """Write until there is no room."""
    with file.open("wb", buffering=0) as written:
        try:
            while True:
                written.write(b"\0" * 4096)
        except OSError:
            return


def test_a_full_disk_is_said_and_with_room_the_stream_goes_on_exactly_once(
    small_disk: Path, tmp_path: Path, spark: SparkSession, motet: Motet
) -> None:
    folder, queries = Folder(tmp_path / "events", spark), tmp_path / "queries.motet"
    queries.write_text(QUERIES)
    arguments = ["stream", queries, "--option", f"path={folder.path}", "--option", "maxFilesPerTrigger=1", "--once"]
    arguments += ["--checkpoint", small_disk / "state", "--watermark", "0 seconds", "--status", "60"]
    folder.add(random_events(100, 1, last=100))
    before = motet(*arguments)
    assert before.status == 0, before.stderr
    folder.add(random_events(100, 2, first=100, last=200))
    folder.add(last_event())
    fill(small_disk / "filler")
    full = motet(*arguments)
    assert full.status == 1
    assert "there is no space left on a device" in full.stderr
    assert f"make room, and start again with --checkpoint {small_disk}/state: the stream goes on" in full.stderr
    assert "internal error" not in full.stderr
    (small_disk / "filler").unlink()
    after = motet(*arguments)
    assert after.status == 0, after.stderr
    found = "".join(outcome.stdout for outcome in (before, full, after)).splitlines()
    workload = library.read(QUERIES)
    results = library.run(pa.concat_tables(folder.batches), workload)
    expected = [line.strip() for line in json_lines(results, workload)]
    assert sorted(map(json.loads, found), key=str) == sorted(map(json.loads, filter(None, expected)), key=str)
