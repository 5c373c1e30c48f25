"""Spark batch: a hundred queries against the same pipeline with an identity function, and one hot key against many.

python -m benchmarks.spark_batch
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.report import arguments, finish, in_turn, median
from benchmarks.streams import keyed
from motet.engine import EventSchema, compile_workload
from motet.language import parse
from motet.model.query import Workload
from motet.spark import batch, tables
from motet.spark.batch import run
from motet.spark.session import local_session
from motet.spark.skew import arrange, find_layout

TYPES = 20


def main() -> None:
    """Run and show."""
    options = arguments(__doc__ or "", repeats=3, events=5_000_000, keys=10_000, queries=100)
    workload = sequences(options.queries)
    with tempfile.TemporaryDirectory() as folder:
        many = written(keyed(options.events, options.keys, TYPES), Path(folder) / "many")
        hot = written(keyed(options.events, 1, TYPES), Path(folder) / "hot")
        session = local_session("local[2]")
        cases = {
            "identity, many keys": lambda: consumed(identity(session.read.parquet(many), session)),
            "motet's own way, identity, many keys": lambda: consumed(own_way(session.read.parquet(many), workload)),
            f"{options.queries} queries, many keys": lambda: consumed(results(session.read.parquet(many), workload)),
            f"{options.queries} queries, one hot key": lambda: consumed(results(session.read.parquet(hot), workload)),
        }
        seconds = in_turn(cases, options.repeats)
        session.stop()
    first = median(next(iter(seconds.values())))
    rows = [
        {"pipeline": name, "wall s": median(times), "best": min(times), "against identity": median(times) / first}
        for name, times in seconds.items()
    ]
    finish(f"{options.events:,} events, {options.keys:,} keys or one, local[2], noop sink", rows, options)


def sequences(count: int) -> Workload:
    """Random sequences of three types, five minutes sliding by five, per key."""
    rng = np.random.default_rng(1)
    texts = []
    for number in range(count):
        pattern = ", ".join(f"t{kind}" for kind in rng.choice(TYPES, 3, replace=False))
        texts.append(f"QUERY q{number}\nRETURN COUNT(*)\nPATTERN {pattern}\nWHERE [key] WITHIN 5 min SLIDE 5 min")
    return parse("\n\n".join(texts))


def written(table: pa.Table, folder: Path) -> str:
    """The table as eight parquet files."""
    folder.mkdir()
    size = -(-len(table) // 8)
    for at in range(8):
        pq.write_table(table.slice(at * size, size), folder / f"{at}.parquet")
    return str(folder)


def identity(events: DataFrame, session: SparkSession) -> DataFrame:
    """The rows partitioned as the engine's are, through Python and back."""
    chosen = events.select("time", "type", "key")
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 4)
    return chosen.repartition(partitions, "key").mapInArrow(lambda batches: batches, chosen.schema)


def own_way(events: DataFrame, workload: Workload) -> DataFrame:
    """The rows the way the engine gets them, hot keys looked for and types coded, with an identity in its place."""
    schema = EventSchema(tables.arrow_schema(events), "time", "type")
    branch = compile_workload(workload, schema).branches[0]
    chosen = events.select(*branch.columns)
    time = tables.microseconds(chosen, "time", "us")
    sample = batch._relevant(chosen.sample(fraction=batch.SAMPLED, seed=1), branch, schema)
    layout = find_layout(sample, batch.SAMPLED, branch.partition, time, branch.halo or 0, None)
    coded = batch._with_type_codes(batch._relevant(chosen, branch, schema), schema, batch._listed_types(branch, schema))
    arranged = arrange(coded, branch.partition, time, layout)
    return arranged.mapInArrow(lambda batches: batches, arranged.schema)


def results(events: DataFrame, workload: Workload) -> DataFrame:
    return run(events, workload).result


def consumed(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    main()
