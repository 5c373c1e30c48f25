"""Spark batch: a hundred queries against the same pipeline with an identity function; hot keys, filters and joins."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from benchmarks.measure import Measurement, Timings, compute_ratio, read_tree_cpu, run_interleaved
from benchmarks.registry import OURS, Experiment, Row, Seconds, Setting
from benchmarks.streams import make_keyed_stream
from motet.engine import sampling
from motet.engine.workload_profile import estimate_statistics
from motet.statistics.sample import SampledRows

if TYPE_CHECKING:
    from motet.spark.sample import RowSampler

QUERIES = 100
KEYS = 10_000


def compare_with_identity(setting: Setting, api: str = "classic") -> list[Row]:
    """Measure wall and CPU seconds from parquet to nowhere; CPU of the JVM and of Python's workers together."""
    from benchmarks import pipelines
    from motet.spark import sample
    from motet.spark.session import local_session

    events = setting.pick(1_000_000, 5_000_000)
    workload = pipelines.make_sequences(QUERIES)
    run_identity, run_engine = pipelines.run_identity, partial(pipelines.run_engine, workload=workload)
    with tempfile.TemporaryDirectory() as folder:
        many = pipelines.write_parquet(make_keyed_stream(events, KEYS, pipelines.TYPES), Path(folder) / "many")
        hot = pipelines.write_parquet(make_keyed_stream(events, 1, pipelines.TYPES), Path(folder) / "hot")
        session = local_session("local[2]", config={"spark.api.mode": api})
        read = session.read.parquet
        cases = {
            "identity, many keys": lambda: run_identity(read(many)),
            "motet's own way, identity, many keys": lambda: pipelines.run_packed_identity(read(many), workload),
            f"{QUERIES} queries, many keys": lambda: run_engine(read(many)),
            f"{QUERIES} queries, one hot key": lambda: run_engine(read(hot)),
            f"{QUERIES} queries, through a filter": lambda: run_engine(pipelines.filter_rows(read(many))),
            "identity, through what only Spark computes": lambda: run_identity(pipelines.compute_rows(read(many))),
            f"{QUERIES} queries, the same": lambda: run_engine(pipelines.compute_rows(read(many))),
        }
        if setting.size == "paper":
            cases |= {
                "identity, joined with a small table": lambda: run_identity(pipelines.join_rows(read(many))),
                f"{QUERIES} queries, joined the same": lambda: run_engine(pipelines.join_rows(read(many))),
            }
        spent: Timings = {name: [] for name in cases}
        sampled: Timings = {name: [] for name in cases}
        ran: dict[str, str] = {}
        take_sample = sample.sample_for_plan

        def run(name: str) -> None:
            def add_time(work: Callable[..., Any], *arguments: Any) -> Any:
                begin = time.perf_counter()
                found = work(*arguments)
                sampled[name][-1] += time.perf_counter() - begin
                return found

            def time_sample(sampler: RowSampler, *arguments: Any) -> SampledRows:
                _ = sampler.origin  # the run reads by it too
                found: SampledRows = add_time(take_sample, sampler, *arguments)
                return found

            sampled[name].append(0.0)
            before = read_tree_cpu(os.getpid())
            with (
                mock.patch.object(sample, "sample_for_plan", time_sample),
                mock.patch.object(sampling, "estimate_statistics", partial(add_time, estimate_statistics)),
            ):
                results: Any = cases[name]()
            pipelines.consume(results)
            ran[name] = pipelines.describe_batch(results)
            spent[name].append(read_tree_cpu(os.getpid()) - before)

        timings = run_interleaved({name: partial(run, name) for name in cases}, setting.repeats)
        session.stop()
    cpu = {name: times[1:] for name, times in spent.items()}  # as `run_interleaved` does, without the first round
    bare, own, *_ = timings
    return [
        {
            "pipeline": name,
            "events": events,
            "wall s": Measurement.of(times),
            "against identity": compute_ratio(times, timings[bare]),
            "against its own way": compute_ratio(times, timings[own]),
            "CPU s": Measurement.of(cpu[name]),
            "CPU against identity": compute_ratio(cpu[name], cpu[bare]),
            "M events/s": Measurement.of(times).rate(events / 1e6),
            "statistics, % of wall": compute_ratio(sampled[name][1:], times).scale(100),
            "ran": ran[name],
        }
        for name, times in timings.items()
    ]


EXPERIMENTS = (
    Experiment(
        "spark-batch",
        OURS,
        "",
        "Spark batch, local[2], 100 queries, 10,000 keys or one, from parquet, against identity pipelines",
        Seconds(60, 220),
        compare_with_identity,
        needs=("pyspark",),
    ),
    Experiment(
        "spark-connect",
        OURS,
        "",
        "The same on Spark Connect",
        Seconds(90, 240),
        partial(compare_with_identity, api="connect"),
        needs=("pyspark",),
        heavy=True,
    ),
)
