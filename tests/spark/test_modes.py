"""Runs on Spark Connect and on a cluster of processes, each in its own process: sessions exclude each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import motet

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
import motet
from motet.language import parse
from motet.spark.profile import profile
from tests.comparison import assert_same_results
from tests.spark.running import run
from tests.spark.test_batch import in_process, random_events
{session}
text = '''
QUERY sliding RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) WITHIN 40 s SLIDE 10 s GROUP BY k
QUERY combined RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 12 s
'''
events = random_events(600)
df = spark.createDataFrame(events)
done = run(df, parse(text), partitions=6)
assert_same_results(done.results.toArrow(), in_process(events, text))
assert done.results.motet is done
assert done.metrics()["rows"] == 600
planned = [unit.planned.signature for branch in done.program.branches for unit in branch.units]
assert sorted(each.signature for each in done.executed()) == sorted(planned)
assert profile(df, keys=["k"]).partitions == 5
motet.register(spark)
df.createOrReplaceTempView("events")
found = spark.sql("SELECT * FROM motet(TABLE(events), '" + text + "')").toArrow()
assert_same_results(found.cast(done.results.toArrow().schema), in_process(events, text))
spark.stop()
print("all the same")
"""
CLASSIC = "from motet.spark.session import local_session; spark = local_session({master!r})"
CONNECT = """
from motet.spark.session import prepare_environment
prepare_environment()
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
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


def test_tasks_read_files_on_connect_as_spark_does(tmp_path: Path) -> None:
    run_apart("-m", "tests.spark.connect_files", str(tmp_path), folder=tmp_path)


def run_apart(*arguments: str, folder: Path) -> None:
    """Run Python in a process of its own, which ends by saying that all is the same."""
    # What the session of the other tests set must not help this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(motet.__file__).parents[1]), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=1800, cwd=folder, env=environment
    )
    assert done.stdout.endswith("all the same\n"), (done.stdout + done.stderr)[-4000:]
