"""Kafka in, Kafka out: a real broker, Spark's connector, and the same results as batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import motet
from motet.spark.java import find_java_home
from tests.spark.kafka_broker import broker, connector_jars

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np, pyarrow as pa
import motet
from motet.options import Options
from motet.spark.service import StreamJob, StreamService, StreamSink, StreamSource
from motet.spark.session import stream_session
from tests.comparison import assert_same_results

address, folder, *jars = sys.argv[1:]
rng = np.random.default_rng(3)
size = 2000
events = pa.table({
    "time": pa.array(np.sort(rng.integers(0, 600, size))),
    "type": pa.array(rng.choice(list("ABC"), size)),
    "k": pa.array(rng.integers(0, 9, size)),
})
events = pa.concat_tables([events, pa.table({"time": [9999], "type": ["Z"], "k": [0]})])
query = Path(folder) / "queries.motet"
query.write_text("QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B, NOT C) GROUP BY k WITHIN 20 s SLIDE 10 s")
spark = stream_session("local[2]", jars=jars)
kafka = {"kafka.bootstrap.servers": address}
lines = [(json.dumps(row),) for row in events.to_pylist()] + [("this is no JSON",)]
spark.createDataFrame(lines, "value string").write.format("kafka").options(**kafka, topic="events").save()
job = StreamJob(
    StreamSource("kafka", {**kafka, "subscribe": "events", "startingOffsets": "earliest"},
           json="time BIGINT, type STRING, k BIGINT"),
    StreamSink("kafka", {**kafka, "topic": "results"}),
    Options(checkpoint=folder + "/state", watermark="5 seconds"), once=True,
)
said = []
service = StreamService(spark, job, query, said.append, said.append)
service.run(watch=False, every=1.0, show=said.append)
assert service.monitor.metrics.set_aside == 1, said
found = spark.read.format("kafka").options(**kafka, subscribe="results").load().selectExpr("CAST(value AS STRING)")
rows = [json.loads(row["value"]) for row in found.collect()]
expected = motet.run(events, query)
table = pa.Table.from_pylist([{name: row.get(name) for name in expected.column_names} for row in rows], expected.schema)
assert_same_results(table, expected)
spark.stop()
print("all the same")
"""


def test_events_from_a_topic_give_results_to_a_topic(tmp_path: Path) -> None:
    jars = [str(jar) for jar in connector_jars()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(motet.__file__).parents[1]), str(Path(__file__).parents[2])])
    with broker(tmp_path, str(find_java_home() / "bin" / "java")) as address:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, address, str(tmp_path), *jars],
            capture_output=True, text=True, timeout=1200, cwd=tmp_path, env=environment,
        )  # fmt: skip
    assert done.stdout.endswith("all the same\n"), (done.stdout + done.stderr)[-4000:]
