"""A cluster whose workers have no motet: the environment travels with the job. Results are those of one process, also
where an executor or a worker is killed in the middle, and no worker compiles a kernel.

With MOTET_LONG=1 the archive holds all that motet depends on, packed by venv-pack.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import motet
from benchmarks.standalone import SPARK_HOME, Cluster, clean_environment, start_cluster
from motet import datasets
from tests.cluster.jobs import QUERIES, SETTINGS, make_end, make_events, write_events
from tests.comparison import assert_same_results
from tests.docs.walkthrough import FENCE
from tests.packaging.environment import ROOT, WHOLE, pack_environment, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def find_block(page: str, text: str) -> str:
    """Return the block of code of a page in which a text is."""
    return next(block["body"] for block in FENCE.finditer((ROOT / page).read_text()) if text in block["body"])


@pytest.fixture(scope="module")
def archive(wheel_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("archive") / "environment.tar.gz"
    if not WHOLE:
        return pack_environment(wheel_python, target)
    command = [str(Path(sys.executable).with_name("venv-pack")), "--prefix", str(wheel_python.parents[1])]
    run([*command, "--output", str(target), "--compress-level", "1"], env=clean_environment())
    return target


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


class Application:
    """A driver with a session on the cluster, which runs jobs of `tests.cluster.jobs`, one after the other."""

    def __init__(self, api: str, folder: Path, cluster: Cluster, archive: Path) -> None:
        self.cluster, self.errors = cluster, folder / "stderr"
        environment = clean_environment(PYTHONPATH=f"{ROOT}{os.pathsep}{Path(motet.__file__).parents[1]}")
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.jobs", api, cluster.url, str(archive)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder, env=environment,
            )  # fmt: skip

    def start(self, job: str, folder: Path) -> None:
        """Start a job; the one before has to be finished."""
        assert self.process.stdin
        self.process.stdin.write(f"{job} {folder}\n")
        self.process.stdin.flush()

    def wait_for_signal(self, folder: Path) -> None:
        """Wait until the job says that it is in the middle of its work."""
        while not (folder / "kill").exists():
            assert self.process.poll() is None, self.describe()
            time.sleep(0.02)

    def finish(self) -> list[str]:
        """Wait until the job is done, and return the lines that it printed."""
        assert self.process.stdout
        lines: list[str] = []
        for line in self.process.stdout:
            if line == "done\n":
                return lines
            lines.append(line)
        raise AssertionError(self.describe())

    def describe(self) -> str:
        """Return what the driver and executors have said last."""
        return self.errors.read_text()[-4000:] + self.cluster.logs[-6000:]


@contextmanager
def start_application(api: str, folder: Path, cluster: Cluster, archive: Path) -> Iterator[Application]:
    application = Application(api, folder, cluster, archive)
    try:
        yield application
        application.process.communicate(timeout=1800)
        assert application.process.returncode == 0, application.describe()
    finally:
        application.process.kill()


def read_results(file: Path, events: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return what a job wrote, and what one process finds."""
    expected = motet.run(events, QUERIES)
    found = pq.read_table(file).select(expected.column_names).cast(expected.schema)
    assert len(found) == len(expected) > 100
    return found, expected


def check_batches(application: Application, folder: Path) -> None:
    """Run batches with a hot key, and compare them with one process."""
    events = make_events(20_000, hot=0.7)
    write_events(events, folder / "events")
    application.start("batch", folder)
    first, *lines = application.finish()
    # Workers had motet from the archive, unpacked in their own folders.
    assert all(re.search(r"/work-\d/app-.*/environment/lib/", file) for file in json.loads(first)), first
    assert len(lines) == 2
    for name, line in zip(("files", "rows"), lines, strict=True):
        told = json.loads(line)
        assert told["rows"] == len(events)
        assert told["slices"] > 3, "the hot key was not cut"
        assert_same_results(*read_results(folder / f"{name}.parquet", events))
    assert "motet: compiled" not in application.cluster.logs


@pytest.fixture(scope="class")
def application(
    cluster: Cluster, wheel_python: Path, archive: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Application]:
    """A driver for all tests of a class."""
    folder = tmp_path_factory.mktemp("driver")
    # Spark starts a Python worker beside the driver too, by the path that executors have.
    (folder / "environment").symlink_to(wheel_python.parents[1])
    with start_application("classic", folder, cluster, archive) as started:
        yield started


class TestJobsOfOneSession:
    """The environment is an archive of the session."""

    def test_batches_with_a_hot_key(self, application: Application, tmp_path: Path) -> None:
        check_batches(application, tmp_path)

    def test_an_executor_is_killed_in_a_batch(self, application: Application, tmp_path: Path) -> None:
        events = make_events(10_000)
        write_events(events, tmp_path / "events")
        application.start("kill", tmp_path)
        application.wait_for_signal(tmp_path)
        application.cluster.kill_executor()
        application.finish()
        assert_same_results(*read_results(tmp_path / "killed.parquet", events))

    def test_a_worker_is_killed_in_a_stream(self, application: Application, tmp_path: Path) -> None:
        events = make_events(16_000)
        write_events(pa.concat_tables([events, make_end(events)]), tmp_path / "events", files=5)
        application.start("stream", tmp_path)
        application.wait_for_signal(tmp_path)
        application.cluster.kill_worker()
        application.cluster.start_worker()
        application.finish()
        assert_same_results(*read_results(tmp_path / "stream.parquet", events))
        assert "motet: compiled" not in application.cluster.logs


def test_batches_on_spark_connect(cluster: Cluster, archive: Path, tmp_path: Path) -> None:
    """The environment is an artifact of the session."""
    with start_application("connect", tmp_path, cluster, archive) as application:
        check_batches(application, tmp_path)


def test_a_script_by_spark_submit_gives_the_rows_of_one_process(
    cluster: Cluster, wheel_python: Path, archive: Path, tmp_path: Path
) -> None:
    """The script is that of the page of deployment; README's example runs behind it, in the same session."""
    example = find_block("README.md", "local_session")
    script = tmp_path / "job.py"
    script.write_text(find_block("docs/deploy.md", "sys.argv") + "from motet import datasets\n" + example)
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.url, "--archives", f"{archive}#environment"]
    settings = {
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": str(wheel_python),
        "spark.python.daemon.module": "motet.spark.daemon",
        "spark.sql.session.timeZone": "UTC",
        "spark.executor.memory": "512m",
    }
    for name, value in settings.items():
        submit += ["--conf", f"{name}={value}"]
    arguments = [str(datasets.path("nyc_flights")), "examples/flights.motet", str(tmp_path / "found.parquet")]
    environment = clean_environment(SPARK_LOCAL_IP="127.0.0.1")
    shown = run([*submit, str(script), *arguments], cwd=ROOT, env=environment, timeout=1800)
    expected = motet.run(datasets.load("nyc_flights"), ROOT / "examples" / "flights.motet")
    found = pq.read_table(tmp_path / "found.parquet").select(expected.column_names).cast(expected.schema)
    assert_same_results(found, expected)
    counts = dict(re.findall(r"\| *(\w+)\| *(\d+)\|", shown))
    assert counts == {query: str(count) for query, count in Counter(expected["query"].to_pylist()).items()}


def test_the_command_line_runs_there(cluster: Cluster, wheel_python: Path, archive: Path, tmp_path: Path) -> None:
    events = make_events(5_000)
    write_events(events, tmp_path / "events")
    (tmp_path / "queries.motet").write_text(QUERIES)
    command = [str(wheel_python), "-m", "motet", "run", "queries.motet", "--events", "events", "--engine", "spark"]
    command += ["--master", cluster.url, "--output", "found.parquet", "--conf", f"spark.archives={archive}#environment"]
    command += ["--conf", "spark.pyspark.python=./environment/bin/python", "--conf", "spark.executor.memory=512m"]
    command += ["--conf", "spark.cores.max=1"]  # one executor starts sooner than two
    run(command, cwd=tmp_path, env=clean_environment(SPARK_LOCAL_IP="127.0.0.1"), timeout=1800)
    assert_same_results(*read_results(tmp_path / "found.parquet", events))


def test_an_executor_is_killed_in_a_stream_of_the_command_line(
    cluster: Cluster, wheel_python: Path, archive: Path, tmp_path: Path
) -> None:
    events = make_events(16_000)
    write_events(pa.concat_tables([events, make_end(events)]), tmp_path / "events", files=5)
    (tmp_path / "environment").symlink_to(wheel_python.parents[1])
    (tmp_path / "queries.motet").write_text(QUERIES)
    command = [str(wheel_python), "-m", "motet", "stream", "queries.motet", "--once", "--watermark", "5 seconds"]
    command += ["--option", f"path={tmp_path / 'events'}", "--option", "maxFilesPerTrigger=1", "--checkpoint", "state"]
    command += ["--sink", "parquet", "--output", "found", "--master", cluster.url]
    settings = SETTINGS | {"spark.archives": f"{archive}#environment"}
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env=clean_environment(SPARK_LOCAL_IP="127.0.0.1"),
    )  # fmt: skip
    while len(list((tmp_path / "state" / "commits").glob("[0-9]*"))) < 2:
        assert process.poll() is None, process.communicate()[1][-4000:]
        time.sleep(0.02)
    cluster.kill_executor()
    out, err = process.communicate(timeout=1800)
    assert process.returncode == 0, out[-2000:] + err[-4000:] + cluster.logs[-6000:]
    files = ds.dataset(list_sink_files(tmp_path / "found")).to_table()
    pq.write_table(files, tmp_path / "found.parquet")
    assert_same_results(*read_results(tmp_path / "found.parquet", events))


def list_sink_files(folder: Path) -> list[str]:
    """Return the files that the sink's own log names: those of broken attempts are beside them."""
    logs = sorted((folder / "_spark_metadata").glob("[0-9]*"), key=lambda log: int(log.name.partition(".")[0]))
    entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
    return sorted({entry["path"].removeprefix("file://") for entry in entries})
