"""Spark batch: a hundred queries against the same pipeline with an identity function, and one hot key against many."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from motet.bench.measure import Measured, in_turn, ratio
from motet.bench.registry import OURS, Experiment, Row, Setting
from motet.bench.streams import keyed

QUERIES = 100
KEYS = 10_000


def against_identity(setting: Setting) -> list[Row]:
    """Wall seconds from parquet to nowhere."""
    from motet.bench import pipelines
    from motet.spark.session import local_session

    events = setting.pick(1_000_000, 5_000_000)
    workload = pipelines.sequences(QUERIES)
    with tempfile.TemporaryDirectory() as folder:
        many = pipelines.written(keyed(events, KEYS, pipelines.TYPES), Path(folder) / "many")
        hot = pipelines.written(keyed(events, 1, pipelines.TYPES), Path(folder) / "hot")
        session = local_session("local[2]")
        read = session.read.parquet
        cases = {
            "identity, many keys": lambda: pipelines.identity(read(many)),
            "motet's own way, identity, many keys": lambda: pipelines.own_way(read(many), workload),
            f"{QUERIES} queries, many keys": lambda: pipelines.engine(read(many), workload),
            f"{QUERIES} queries, one hot key": lambda: pipelines.engine(read(hot), workload),
        }
        runs = {name: partial(lambda made: pipelines.consumed(made()), case) for name, case in cases.items()}
        taken = in_turn(runs, setting.repeats)
        session.stop()
    bare, own, *_ = taken.values()
    return [
        {
            "pipeline": name,
            "events": events,
            "wall s": Measured.of(times),
            "against identity": ratio(times, bare),
            "against its own way": ratio(times, own),
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
        60,
        against_identity,
        needs=("pyspark",),
    ),
)
