"""Scale: one long batch whose memory and speed must stay level, and what reading, engine and merging cost per core."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Measurement, Timings, read_tree_cpu, read_tree_memory, run_interleaved
from benchmarks.registry import OURS, Axes, Experiment, Row, Seconds, Setting

QUERIES, KEYS, MANY_KEYS = 100, 10_000, 1_000_000
EVENTS_PER_FILE = 2_500_000
RATE = 5_000  # events a second of their own time
HOT_SHARE = 0.9
EVENTS_A_DAY = 10_000_000_000
# 8 GiB for everything: Spark, its buffers, and two Python workers, whose tasks hold a few million rows each.
MEMORY = {"spark.driver.memory": "3g", "spark.memory.fraction": "0.4"}
LIMIT = 8 << 30
SAMPLE_SECONDS = 2.0
JOBS = "scale"
CURVES = ("M rows/s", "memory GB")


def write_events(folder: Path, events: int, keys: int = KEYS, hot: float = 0.0) -> str:
    """Write events as parquet files, one after the other in time; a share of them is of one key if that is `hot`."""
    from benchmarks.pipelines import TYPES

    folder.mkdir()
    names = pa.array([f"t{number}" for number in range(TYPES)])
    for number, first in enumerate(range(0, events, EVENTS_PER_FILE)):
        rng = np.random.default_rng(number)
        size = min(EVENTS_PER_FILE, events - first)
        own = rng.integers(0, keys, size)
        rows = {
            "time": pa.array((first + np.arange(size)) * 1_000_000 // RATE, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, TYPES, size), pa.int8()), names),
            "key": pa.array(np.where(rng.random(size) < hot, 0, own) if hot else own),
        }
        pq.write_table(pa.table(rows), folder / f"{number:05}.parquet", row_group_size=500_000)
    return str(folder)


@contextmanager
def sample(measure: Callable[[], dict[str, float]]) -> Iterator[list[dict[str, float]]]:
    """Measure every few seconds, in a thread of its own."""
    samples: list[dict[str, float]] = []
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(SAMPLE_SECONDS):
            samples.append(measure())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stopped.set()
        thread.join()


def run_long_batch(setting: Setting) -> list[Row]:
    """Run a hundred queries over one long batch of files, and show in twenty parts of the time how it went.

    A row is read and packed in one stage and matched in the next, so it counts half in each.
    """
    from benchmarks import pipelines
    from motet.spark.session import local_session

    events = int(os.environ.get("MOTET_SCALE_EVENTS", 0)) or setting.pick(10_000_000, 300_000_000)
    with tempfile.TemporaryDirectory() as folder:
        source = write_events(Path(folder) / "events", events)
        session = local_session("local[2]", config=MEMORY)
        results = pipelines.run_engine(session.read.parquet(source), pipelines.make_sequences(QUERIES))
        # Jobs that looked at a sample are not of this group.
        session.sparkContext.setJobGroup(JOBS, "one long batch")
        tracker = session.sparkContext.statusTracker()
        done: dict[int, tuple[int, int]] = {}  # tasks by stage: finished, in all
        began = time.monotonic()

        def measure() -> dict[str, float]:
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(JOBS)]
            own = {stage for job in jobs if job for stage in job.stageIds}
            active = own & set(tracker.getActiveStageIds())
            for stage in active:
                if found := tracker.getStageInfo(stage):
                    done[stage] = found.numCompletedTasks, found.numTasks
            # Stages that are no longer active have ended. The third merges results.
            shares = [1.0 if at not in active else part / whole for at, (part, whole) in sorted(done.items())[:2]]
            minute = (time.monotonic() - began) / 60
            return {"minute": minute, "rows": events * sum(shares) / 2, "bytes": read_tree_memory(os.getpid())}

        with sample(measure) as samples:
            pipelines.consume(results)
        seconds = time.monotonic() - began
        ran = pipelines.describe_batch(results)
        session.stop()
    peak = max(each["bytes"] for each in samples)
    assert peak < LIMIT, f"{peak / 2**30:.1f} GiB"
    samples.append({"minute": seconds / 60, "rows": events, "bytes": samples[-1]["bytes"]})
    edges = np.unique(np.linspace(0, len(samples) - 1, 21).astype(int))
    rows: list[Row] = []
    before = {"minute": 0.0, "rows": 0.0}
    for first, last in pairwise(edges):
        part, end = samples[first + 1 : last + 1], samples[last]
        rate = (end["rows"] - before["rows"]) / 1e6 / max((end["minute"] - before["minute"]) * 60, 1e-9)
        memory = Measurement.of([each["bytes"] / 1e9 for each in part])
        done_rows = end["rows"] / 1e6
        rows.append({"minute": end["minute"], "M rows/s": rate, "memory GB": memory, "M rows": done_rows, "ran": ran})
        before = end
    return rows


def measure_costs(setting: Setting) -> list[Row]:
    """Measure CPU of reading and shuffling, of the engine, and of merging results, each as what it adds."""
    from benchmarks import pipelines
    from motet.spark import dataframes
    from motet.spark.session import local_session
    from motet.spark.tasks import get_task_schema, make_branch_task

    events = setting.pick(2_000_000, 20_000_000)
    workload = pipelines.make_sequences(QUERIES)

    def run_without_merging(frame: Any) -> Any:
        job = pipelines.make_job(frame, workload)
        branch = job.program.branches[0]
        packed, plan = job.shuffle(branch, None)
        schema = dataframes.to_spark_schema(get_task_schema(job.program, branch))
        return packed.mapInArrow(make_branch_task(job.cached, 0, plan), schema)

    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        session = local_session("local[2]", config=MEMORY)
        cases = {
            f"{KEYS:,} keys": (KEYS, 0.0),
            f"{MANY_KEYS:,} keys": (MANY_KEYS, 0.0),
            f"one key with {HOT_SHARE:.0%} of the rows": (KEYS, HOT_SHARE),
        }
        for name, (keys, hot) in cases.items():
            source = write_events(Path(folder) / f"{keys}-{hot}", events, keys, hot)
            read = partial(session.read.parquet, source)
            steps: dict[str, Callable[[], Any]] = {
                "shuffle": lambda read=read: pipelines.run_packed_identity(read(), workload),  # type: ignore[misc]
                "engine": lambda read=read: run_without_merging(read()),  # type: ignore[misc]
                "merge": lambda read=read: pipelines.run_engine(read(), workload),  # type: ignore[misc]
            }
            spent: Timings = {step: [] for step in steps}
            ran: dict[str, str] = {}

            def run(step: str, steps: Any = steps, spent: Any = spent, ran: Any = ran) -> None:
                before = read_tree_cpu(os.getpid())
                results = steps[step]()
                pipelines.consume(results)
                spent[step].append(read_tree_cpu(os.getpid()) - before)
                ran[step] = pipelines.describe_batch(results)

            run_interleaved({step: partial(run, step) for step in steps}, setting.repeats)
            # The least of each is what others that run beside disturb least.
            shuffle, engine, whole = (min(times[1:]) for times in spent.values())
            parts = {"shuffle": shuffle, "engine": max(engine - shuffle, 0.0), "merge": max(whole - engine, 0.0)}
            per_day = EVENTS_A_DAY / events / 3600
            rows.append(
                {
                    "case": name,
                    "events": events,
                    **{f"{part}, CPU s": seconds for part, seconds in parts.items()},
                    "M events a core hour": events / 1e6 / (whole / 3600),
                    **{f"{part}, core hours for 10 billion": seconds * per_day for part, seconds in parts.items()},
                    "ran": ran["merge"],
                }
            )
        session.stop()
    return rows


EXPERIMENTS = (
    Experiment(
        "scale",
        OURS,
        "",
        "100 queries over 300 M events on local[2] within 8 GiB: speed and memory over time",
        Seconds(60, 1200),
        run_long_batch,
        Axes("minute", CURVES, "M rows/s, GB"),
        needs=("pyspark",),
        heavy=True,
    ),
    Experiment(
        "scale-costs",
        OURS,
        "",
        "CPU of shuffle, engine and merge: many keys, a million, one with 90 % of the rows; core hours for 10 billion",
        Seconds(90, 600),
        measure_costs,
        needs=("pyspark",),
        heavy=True,
    ),
)
