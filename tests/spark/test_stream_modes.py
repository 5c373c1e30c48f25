"""Streams on Spark Connect and on a cluster of processes, each in its own process: sessions exclude each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.test_modes import CLASSIC, CONNECT, ROOT, run_apart

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
    run_apart("-c", PROGRAM.format(root=str(ROOT), session=session), folder=tmp_path)
