"""Streams on Spark Connect and on a cluster of processes, each in its own process: sessions exclude each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import motet
from tests.spark.test_modes import CLASSIC, CONNECT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
import motet
from tests.comparison import assert_same_results
from tests.spark.test_stream import WORKLOAD, Folder, last_event, random_events
{session}
spark.conf.set("spark.sql.shuffle.partitions", "2")
folder = Folder(Path("events").absolute(), spark)
events = random_events(300, 1)
folder.add(events.slice(0, 150))
folder.add(events.slice(150))
folder.add(last_event())
answer = motet.stream(folder.stream(), WORKLOAD, watermark="2 seconds").results
writer = answer.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "state")
query = writer.trigger(availableNow=True).start()
query.awaitTermination()
assert_same_results(spark.read.schema(answer.schema).parquet("out").toArrow(), motet.run(folder.events(), WORKLOAD))
spark.stop()
print("all the same")
"""


@pytest.mark.parametrize(
    "session",
    [
        pytest.param(CONNECT, id="connect"),
        pytest.param(CLASSIC.format(master="local-cluster[2,1,1024]"), id="local-cluster"),
    ],
)
def test_results_are_the_same(session: str, tmp_path: Path) -> None:
    program = PROGRAM.format(root=str(Path(__file__).parents[2]), session=session)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    environment["PYTHONPATH"] = str(Path(motet.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=400, cwd=tmp_path, env=environment
    )
    assert done.stdout.endswith("all the same\n"), (done.stdout + done.stderr)[-4000:]
