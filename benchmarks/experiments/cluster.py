"""A standalone cluster: speed by the cores of executors, and the first result of executors that have just started."""

from __future__ import annotations

import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import motet
from benchmarks.measure import Measurement, run_interleaved
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting
from benchmarks.streams import make_keyed_stream
from motet import datasets

PACKAGE = Path(motet.__file__).parent
QUERIES = Path(__file__).parents[2] / "examples" / "flights.motet"


def vary_cores(setting: Setting) -> list[Row]:
    """Measure the hundred queries of `spark-batch` on one core, on two, and on a standalone cluster of one, two and
    four executors of one core each; and how long the first result takes there, from when the session has started.
    """
    from benchmarks import pipelines
    from benchmarks.standalone import start_cluster

    events = setting.pick(200_000, 5_000_000)
    workload = pipelines.make_sequences(100)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, start_cluster(Path(folder) / "cluster", workers=4) as cluster:
        source = pipelines.write_parquet(make_keyed_stream(events, 10_000, pipelines.TYPES), Path(folder) / "events")
        places = [("local[1]", "local[1]", 0), ("local[2]", "local[2]", 0)]
        places += [(f"standalone, executors of a core: {count}", cluster.url, count) for count in (1, 2, 4)]
        ran = ""

        def run_engine(frame: Any) -> None:
            nonlocal ran
            results = pipelines.run_engine(frame, workload)
            pipelines.consume(results)
            ran = pipelines.describe_batch(results)

        for name, master, executors in places:
            session = _open_session(master, executors, PYTHONPATH=str(PACKAGE.parent))
            read = partial(session.read.parquet, source)
            cases = {
                "engine": lambda read=read: run_engine(read()),
                "identity": lambda read=read: pipelines.consume(pipelines.run_identity(read())),
            }
            began = time.perf_counter()
            cases["engine"]()
            first = time.perf_counter() - began
            timings = run_interleaved(cases, setting.pick(min(setting.repeats, 2), setting.repeats))
            session.stop()
            rows.append(
                {
                    "master": name,
                    "first": first,
                    **{name: Measurement.of(times) for name, times in timings.items()},
                    "M events/s": Measurement.of(timings["engine"]).rate(events / 1e6),
                    "ran": ran,
                }
            )
    one = rows[0]["engine"]
    assert isinstance(one, Measurement)
    return [{**row, "speed-up": row["engine"].rate(one.median)} for row in rows]  # type: ignore[union-attr]


def _open_session(master: str, executors: int, **environment: str) -> Any:
    """Start a session with the same tasks everywhere, so that only who runs them differs."""
    from motet.spark.session import local_session

    settings = {
        "spark.cores.max": str(executors),
        "spark.executor.cores": "1",
        "spark.executor.memory": "768m",
        # Wait for all of them, at most this long.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    }
    settings |= {f"spark.executorEnv.{name}": value for name, value in environment.items()}
    return local_session(master, partitions=4, config=settings if executors else None)


def measure_first_result(setting: Setting) -> list[Row]:
    """Measure the first results of executors that have just started, with kernels that travel with the package and
    without any; from when the session is there.
    """
    from benchmarks.standalone import start_cluster

    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare"
        shutil.copytree(PACKAGE, bare / "motet", ignore=shutil.ignore_patterns("compiled", "__pycache__"))
        for kernels, package in (("shipped", PACKAGE.parent), ("none", bare)):
            with start_cluster(Path(folder) / kernels) as cluster:
                cache = str(Path(folder) / "cache")
                began = time.perf_counter()
                session = _open_session(cluster.url, 2, PYTHONPATH=str(package), XDG_CACHE_HOME=cache)
                started = time.perf_counter()
                flights = session.read.parquet(str(datasets.path("nyc_flights")))
                times = [_time_run(flights) for _ in range(3)]
                session.stop()
                rows.append(
                    {
                        "kernels": kernels,
                        "session s": started - began,
                        "first result s": times[0],
                        "second s": times[1],
                        "third s": times[2],
                        "compiled": cluster.logs.count("motet: compiled"),
                    }
                )
    return rows


def _time_run(events: Any) -> float:
    began = time.perf_counter()
    motet.run(events, QUERIES).collect()
    return time.perf_counter() - began


EXPERIMENTS = (
    Experiment(
        "cluster-cores",
        OURS,
        "",
        "wall seconds of 100 queries on Spark by cores, on a standalone cluster too",
        Seconds(100, 240),
        vary_cores,
        needs=("pyspark",),
        heavy=True,
    ),
    Experiment(
        "cluster-first",
        OURS,
        "",
        "first result on executors of a standalone cluster that have just started, with and without compiled kernels",
        Seconds(120, 120),
        measure_first_result,
        needs=("pyspark",),
        heavy=True,
    ),
)
