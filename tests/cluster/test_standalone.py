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
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import motet
from benchmarks.standalone import SPARK_HOME, Cluster, clean_environment, start_cluster
from motet import datasets
from tests.cluster.jobs import QUERIES, SETTINGS, make_events, write_events
from tests.comparison import assert_same_results
from tests.docs.walkthrough import FENCE
from tests.packaging.environment import ROOT, build_wheel, make_environment, pack_environment, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]
WHOLE = bool(os.environ.get("MOTET_LONG"))
# The script that the page of deployment shows.
SCRIPT = next(
    block["body"] for block in FENCE.finditer((ROOT / "docs" / "deploy.md").read_text()) if block["title"] == "job.py"
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has motet from its wheel."""
    folder = tmp_path_factory.mktemp("environment")
    return make_environment(folder / "venv", build_wheel(folder), whole=WHOLE)


@pytest.fixture(scope="module")
def archive(python: Path) -> Path:
    target = python.parents[2] / "environment.tar.gz"
    if not WHOLE:
        return pack_environment(python, target)
    command = [str(Path(sys.executable).with_name("venv-pack")), "--prefix", str(python.parents[1])]
    run([*command, "--output", str(target), "--compress-level", "1"], env=clean_environment())
    return target


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def start_job(names: str, folder: Path, cluster: Cluster, archive: Path) -> subprocess.Popen[str]:
    """Start jobs of `tests.cluster.jobs` on the cluster."""
    environment = clean_environment(PYTHONPATH=f"{ROOT}{os.pathsep}{Path(motet.__file__).parents[1]}")
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.jobs", names, str(folder), cluster.url, str(archive)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment,
    )  # fmt: skip


def finish_job(process: subprocess.Popen[str], cluster: Cluster) -> list[str]:
    """Wait for jobs to end, and return the lines that they printed."""
    out, err = process.communicate(timeout=1800)
    assert process.returncode == 0, out[-2000:] + err[-4000:] + cluster.logs[-6000:]
    return out.splitlines()


def await_signal(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a job says that it is in the middle of its work."""
    while not (folder / "kill").exists():
        assert process.poll() is None, process.communicate()[1][-4000:]
        time.sleep(0.02)


def read_results(file: Path, events: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return what a job wrote, and what one process finds."""
    expected = motet.run(events, QUERIES)
    found = pq.read_table(file).select(expected.column_names).cast(expected.schema)
    assert len(found) == len(expected) > 100
    return found, expected


@pytest.mark.parametrize("job", ["batch", "connect"])
def test_batches_with_a_hot_key(cluster: Cluster, archive: Path, tmp_path: Path, job: str) -> None:
    """The environment is an archive of the job, or on Spark Connect an artifact of the session."""
    events = make_events(20_000, hot=0.7)
    write_events(events, tmp_path / "events")
    first, *lines = finish_job(start_job(job, tmp_path, cluster, archive), cluster)
    # Workers had motet from the archive, unpacked in their own folders.
    assert all(re.search(r"/work-\d/app-.*/environment/lib/", file) for file in json.loads(first)), first
    for name, line in zip(("files", "rows"), lines, strict=False):
        told = json.loads(line)
        assert told["rows"] == len(events)
        assert told["slices"] > 3, "the hot key was not cut"
        assert_same_results(*read_results(tmp_path / f"{name}.parquet", events))
    assert "motet: compiled" not in cluster.logs


def test_an_executor_is_killed_in_a_batch(cluster: Cluster, archive: Path, tmp_path: Path) -> None:
    events = make_events(10_000)
    write_events(events, tmp_path / "events")
    process = start_job("kill", tmp_path, cluster, archive)
    await_signal(tmp_path, process)
    cluster.kill_executor()
    finish_job(process, cluster)
    assert_same_results(*read_results(tmp_path / "killed.parquet", events))


def test_a_script_by_spark_submit_gives_the_rows_of_one_process(
    cluster: Cluster, python: Path, archive: Path, tmp_path: Path
) -> None:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.url, "--archives", f"{archive}#environment"]
    settings = {
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": str(python),
        "spark.python.daemon.module": "motet.spark.daemon",
        "spark.sql.session.timeZone": "UTC",
        "spark.executor.memory": "512m",
    }
    for name, value in settings.items():
        submit += ["--conf", f"{name}={value}"]
    arguments = [str(datasets.path("nyc_flights")), "examples/flights.motet", str(tmp_path / "found.parquet")]
    run([*submit, str(script), *arguments], cwd=ROOT, env=clean_environment(SPARK_LOCAL_IP="127.0.0.1"), timeout=600)
    expected = motet.run(datasets.load("nyc_flights"), ROOT / "examples" / "flights.motet")
    found = pq.read_table(tmp_path / "found.parquet").select(expected.column_names).cast(expected.schema)
    assert_same_results(found, expected)


def test_the_command_line_runs_there(cluster: Cluster, python: Path, archive: Path, tmp_path: Path) -> None:
    events = make_events(5_000)
    write_events(events, tmp_path / "events")
    (tmp_path / "queries.motet").write_text(QUERIES)
    command = [str(python), "-m", "motet", "run", "queries.motet", "--events", "events", "--engine", "spark"]
    command += ["--master", cluster.url, "--output", "found.parquet", "--conf", f"spark.archives={archive}#environment"]
    command += ["--conf", "spark.pyspark.python=./environment/bin/python", "--conf", "spark.executor.memory=512m"]
    run(command, cwd=tmp_path, env=clean_environment(SPARK_LOCAL_IP="127.0.0.1"), timeout=600)
    assert_same_results(*read_results(tmp_path / "found.parquet", events))


def test_an_executor_is_killed_in_a_stream_of_the_command_line(
    cluster: Cluster, python: Path, archive: Path, tmp_path: Path
) -> None:
    events = make_events(16_000)
    end = pa.table({"time": [10**6], "type": ["Z"], "k": [0], "x": [0.0]}, schema=events.schema)
    write_events(pa.concat_tables([events, end]), tmp_path / "events")
    (tmp_path / "environment").symlink_to(archive.parent / "venv")
    (tmp_path / "queries.motet").write_text(QUERIES)
    command = [str(python), "-m", "motet", "stream", "queries.motet", "--once", "--watermark", "5 seconds"]
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
    finish_job(process, cluster)
    files = ds.dataset(list_sink_files(tmp_path / "found")).to_table()
    pq.write_table(files, tmp_path / "found.parquet")
    assert_same_results(*read_results(tmp_path / "found.parquet", events))


def list_sink_files(folder: Path) -> list[str]:
    """Return the files that the sink's own log names: those of broken attempts are beside them."""
    logs = sorted((folder / "_spark_metadata").glob("[0-9]*"), key=lambda log: int(log.name.partition(".")[0]))
    entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
    return sorted({entry["path"].removeprefix("file://") for entry in entries})


def test_a_worker_is_killed_in_a_stream(cluster: Cluster, archive: Path, tmp_path: Path) -> None:
    """The last test on this cluster: one of its workers does not come back."""
    events = make_events(16_000)
    end = pa.table({"time": [10**6], "type": ["Z"], "k": [0], "x": [0.0]}, schema=events.schema)
    write_events(pa.concat_tables([events, end]), tmp_path / "events")
    # Spark starts a Python worker beside the driver too, by the path that executors have.
    (tmp_path / "environment").symlink_to(archive.parent / "venv")
    process = start_job("stream", tmp_path, cluster, archive)
    await_signal(tmp_path, process)
    cluster.kill_worker()
    cluster.start_worker()
    finish_job(process, cluster)
    assert_same_results(*read_results(tmp_path / "stream.parquet", events))
    assert "motet: compiled" not in cluster.logs
