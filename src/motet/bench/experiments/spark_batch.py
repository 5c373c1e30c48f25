"""Spark batch: a hundred queries against the same pipeline with an identity function, and one hot key against many."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

from motet.bench.measure import Measured, Taken, family_cpu, in_turn, ratio
from motet.bench.registry import OURS, Experiment, Row, Seconds, Setting
from motet.bench.streams import keyed

QUERIES = 100
KEYS = 10_000


def against_identity(setting: Setting) -> list[Row]:
    """Wall and CPU seconds from parquet to nowhere; CPU of the JVM and of Python's workers together."""
    from motet.bench import pipelines
    from motet.spark.session import local_session

    events = setting.pick(1_000_000, 5_000_000)
    workload = pipelines.sequences(QUERIES)
    with tempfile.TemporaryDirectory() as folder:
        many = pipelines.written(keyed(events, KEYS, pipelines.TYPES), Path(folder) / "many")
        hot = pipelines.written(keyed(events, 1, pipelines.TYPES), Path(folder) / "hot")
        session = local_session("local[2]")
        read, filtered = session.read.parquet, pipelines.rows_of
        cases = {
            "identity, many keys": lambda: pipelines.identity(read(many)),
            "motet's own way, identity, many keys": lambda: pipelines.own_way(read(many), workload),
            f"{QUERIES} queries, many keys": lambda: pipelines.engine(read(many), workload),
            f"{QUERIES} queries, many keys, through a filter": lambda: pipelines.engine(filtered(read(many)), workload),
            f"{QUERIES} queries, one hot key": lambda: pipelines.engine(read(hot), workload),
        }
        spent: Taken = {name: [] for name in cases}

        def run(name: str) -> None:
            before = family_cpu(os.getpid())
            pipelines.consumed(cases[name]())
            spent[name].append(family_cpu(os.getpid()) - before)

        taken = in_turn({name: partial(run, name) for name in cases}, setting.repeats)
        session.stop()
    cpu = {name: times[1:] for name, times in spent.items()}  # as `in_turn` does, without the first round
    bare, own, *_ = taken
    return [
        {
            "pipeline": name,
            "events": events,
            "wall s": Measured.of(times),
            "against identity": ratio(times, taken[bare]),
            "against its own way": ratio(times, taken[own]),
            "CPU s": Measured.of(cpu[name]),
            "CPU against identity": ratio(cpu[name], cpu[bare]),
            "M events/s": Measured.of(times).rate(events / 1e6),
        }
        for name, times in taken.items()
    ]


EXPERIMENTS = (
    Experiment(
        "spark-batch",
        OURS,
        "",
        "Spark batch, local[2], 100 queries, 10,000 keys or one, from parquet, against identity pipelines",
        Seconds(45, 120),
        against_identity,
        needs=("pyspark",),
    ),
)
