"""Batches from tables of Delta and Iceberg to others, by their names, give the results of one process.

The newest connectors, Delta 4.4 and Iceberg 1.12, do not run on Spark 4.3: their classes do not fit (LogicalRDD, View).
So they are tested with Spark 4.1, which both support, and which is fetched from the package index with MOTET_LONG=1.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import motet
from tests.packaging.environment import run
from tests.spark.maven import fetch_jars, find_cache

SPARK = "pyspark==4.1.*"
CONNECTORS = {
    "delta": ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    "iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("MOTET_LONG"),
        reason="the newest Delta (4.4) and Iceberg (1.12) do not run on Spark 4.3: MOTET_LONG=1 tests them on 4.1",
    ),
]


@pytest.fixture(scope="module")
def spark_folder() -> Path:
    """A folder with the Spark that connectors support."""
    folder = find_cache("spark-4.1")
    if not (folder / ".whole").exists():
        run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), SPARK])
        (folder / ".whole").touch()
    return folder


@pytest.mark.parametrize("kind", CONNECTORS)
def test_tables_are_read_and_written_by_name(kind: str, spark_folder: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    paths = (spark_folder, Path(motet.__file__).parents[1], Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    jars = [str(jar) for jar in fetch_jars(f"{kind}-4.1", CONNECTORS[kind])]
    run([sys.executable, "-m", "tests.spark.lakehouse", kind, str(tmp_path), *jars], cwd=tmp_path, env=environment)
