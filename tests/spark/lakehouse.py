"""What runs against tables of a lakehouse: `python -m tests.spark.lakehouse KIND FOLDER JARS...`.

It fills a table of events by some commits and runs over it by its name, to another table; then `motet run --output`
writes one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import motet
from motet.cli import main as run_command_line
from motet.spark.session import local_session
from tests.comparison import assert_same_results

COMMITS = 5
QUERIES = """
QUERY sliding RETURN COUNT(*) AS n, SUM(A.x) AS total PATTERN SEQ(A+, B) GROUP BY k WITHIN 20 s SLIDE 10 s
QUERY matches RETURN a, c PATTERN SEQ(A a, C c) WHERE a.x < c.x AND c.x < a.x + 0.2 GROUP BY k WITHIN 2 s
"""
# The settings of a connector, and the prefix of its tables.
CONNECTORS: dict[str, tuple[dict[str, str], str]] = {
    "delta": (
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",  # of 50
        },
        "",
    ),
    "iceberg": (
        {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
        },
        "lake.db.",
    ),
}


def make_events() -> pa.Table:
    """Return random events in time order."""
    rng, size = np.random.default_rng(5), 4000
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(0, size // 10, size))),
            "type": pa.array(rng.choice(list("ABC"), size)),
            "k": pa.array(rng.integers(0, 9, size)),
            "x": pa.array(rng.integers(0, 64, size) / 64),
        }
    )


def compare(spark: Any, table: str) -> None:
    """Compare the rows of a table of results with those of one process."""
    expected = motet.run(make_events(), QUERIES)
    found = spark.table(table).toArrow().select(expected.column_names).cast(expected.schema)
    assert len(found) == len(expected) > 100, (len(found), len(expected))
    assert_same_results(found, expected)


def run_batch(spark: Any, kind: str, prefix: str) -> None:
    """Fill the table of events by some commits, and run over it."""
    events = make_events()
    size = -(-len(events) // COMMITS)
    for at in range(COMMITS):
        rows = spark.createDataFrame(events.slice(at * size, size)).coalesce(1)
        rows.write.format(kind).mode("append").saveAsTable(f"{prefix}events")
    motet.run(spark.table(f"{prefix}events"), QUERIES).write.format(kind).saveAsTable(f"{prefix}batch_results")
    compare(spark, f"{prefix}batch_results")


def run_command(spark: Any, kind: str, prefix: str, place: str) -> None:
    """Write a table by `motet run --output`, twice: the second takes the place of the first."""
    pq.write_table(make_events(), f"{place}/events.parquet")
    Path(f"{place}/queries.motet").write_text(QUERIES)
    target = [f"{prefix}written", "--format", kind] if prefix else [f"{place}/written.{kind}"]
    command = ["motet", "run", f"{place}/queries.motet", "--events", f"{place}/events.parquet", "--engine", "spark"]
    for _ in range(2):
        sys.argv = [*command, "--output", *target]
        try:
            run_command_line()
        except SystemExit as end:
            if end.code:
                raise
    compare(spark, target[0] if prefix else f"{kind}.`{target[0]}`")


def main(kind: str, place: str, *jars: str) -> None:
    """Run on a session that has the connector."""
    settings, prefix = CONNECTORS[kind]
    warehouse = {f"spark.sql.catalog.{prefix.partition('.')[0]}.warehouse": place} if prefix else {}
    settings = settings | warehouse | {"spark.sql.warehouse.dir": place, "spark.jars": ",".join(jars)}
    spark = local_session("local[2]", config=settings)
    run_batch(spark, kind, prefix)
    run_command(spark, kind, prefix, place)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
