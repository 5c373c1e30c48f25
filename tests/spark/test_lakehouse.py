"""Batches and streams from tables of Delta and Iceberg to others give the results of one process, each row once, also
where the driver of a stream is killed.

The newest connectors, Delta 4.4 and Iceberg 1.12, do not run on Spark 4.3: their classes do not fit (LogicalRDD, View).
So they are tested with Spark 4.1, which both support, and which is fetched from the package index with MOTET_LONG=1.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import motet
from tests.packaging.environment import run
from tests.spark.lakehouse import QUERIES, list_settings, name_table
from tests.spark.maven import fetch_jars, find_cache

SPARK = "pyspark==4.1.*"
KILLS = 2
CONNECTORS = {
    "delta": ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    "iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("MOTET_LONG"),
        reason="the newest Delta (4.4) and Iceberg (1.12) do not run on Spark 4.3: MOTET_LONG=1 tests them on 4.1",
    ),
]


@pytest.fixture(scope="module")
def spark_folder() -> Path:
    """A folder with the Spark that connectors support."""
    folder = find_cache("spark-4.1")
    if not (folder / ".whole").exists():
        run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), SPARK])
        (folder / ".whole").touch()
    return folder


class Lakehouse:
    """Runs commands on the Spark that connectors support, with tables in a folder."""

    def __init__(self, kind: str, spark_folder: Path, place: Path) -> None:
        self.kind, self.place = kind, place
        self.jars = [str(jar) for jar in fetch_jars(f"{kind}-4.1", CONNECTORS[kind])]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
        paths = (spark_folder, Path(motet.__file__).parents[1], Path(__file__).parents[2])
        self.environment = kept | {"PYTHONPATH": os.pathsep.join(map(str, paths))}

    def run(self, step: str) -> None:
        command = [sys.executable, "-m", "tests.spark.lakehouse", step, self.kind, str(self.place), *self.jars]
        run(command, cwd=self.place, env=self.environment)

    def start_stream(self) -> subprocess.Popen[str]:
        """Start a stream from one table to another, a commit in each micro-batch."""
        (self.place / "queries.motet").write_text(QUERIES)
        limit = {"delta": "maxFilesPerTrigger", "iceberg": "streaming-max-files-per-micro-batch"}[self.kind]
        given = ["--table", name_table(self.kind, str(self.place), "events"), "--option", f"{limit}=1"]
        if self.kind == "delta":
            given += ["--option", "startingVersion=0", "--output", str(self.place / "stream_results")]
        else:
            given += ["--output-table", name_table(self.kind, str(self.place), "stream_results")]
        given += ["--sink", self.kind, "--checkpoint", str(self.place / "state"), "--watermark", "5 seconds", "--once"]
        given += ["--master", "local[2]"]
        given += [part for jar in self.jars for part in ("--jar", jar)]
        settings = list_settings(self.kind, str(self.place))
        given += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command = [sys.executable, "-m", "motet", "stream", "queries.motet", *given]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.place,
            env=self.environment, start_new_session=True,
        )  # fmt: skip

    def count_commits(self) -> int:
        return len(list((self.place / "state" / "commits").glob("[0-9]*")))


@pytest.fixture(params=CONNECTORS)
def lakehouse(request: pytest.FixtureRequest, spark_folder: Path, tmp_path: Path) -> Lakehouse:
    return Lakehouse(request.param, spark_folder, tmp_path)


def test_tables_are_read_and_written_by_name(lakehouse: Lakehouse) -> None:
    lakehouse.run("batch")


def test_a_stream_between_tables_whose_driver_is_killed_gives_each_row_once(lakehouse: Lakehouse) -> None:
    lakehouse.run("fill")
    moments = random.Random(3)
    for _ in range(KILLS):
        before = lakehouse.count_commits()
        process = lakehouse.start_stream()
        while lakehouse.count_commits() <= before:
            assert process.poll() is None, process.communicate()[0][-4000:]
            time.sleep(0.05)
        time.sleep(moments.uniform(0.0, 1.0))
        assert process.poll() is None, "it ended before it could be killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    last = lakehouse.start_stream()
    said, _ = last.communicate(timeout=1800)
    assert last.returncode == 0, said[-4000:]
    lakehouse.run("compare")
