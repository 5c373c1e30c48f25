"""What runs against tables of a lakehouse: `python -m tests.spark.lakehouse STEP KIND FOLDER JARS...`.

The step `batch` fills a table of events by some commits, runs over it by its name, to another table, and reads it by
its path; then `motet run --output` writes one. The step `fill` writes only the events, and `compare` reads what a
stream has written.
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
from motet.spark.dataframes import open_table
from motet.spark.session import local_session
from tests.comparison import assert_same_results

COMMITS = 12
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
            "spark.sql.catalog.lake.warehouse": "WAREHOUSE",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
        },
        "lake.db.",
    ),
}


def make_events() -> pa.Table:
    """Return random events in time order; the last ends all windows of a stream."""
    rng, size = np.random.default_rng(5), 4000
    return pa.table(
        {
            "time": pa.array(np.append(np.sort(rng.integers(0, size // 10, size)), 10**6)),
            "type": pa.array([*rng.choice(list("ABC"), size), "Z"]),
            "k": pa.array(rng.integers(0, 9, size + 1)),
            "x": pa.array(rng.integers(0, 64, size + 1) / 64),
        }
    )


def list_settings(kind: str, place: str) -> dict[str, str]:
    """Return the settings by which Spark knows a connector, with its tables in a folder."""
    settings = {name: value.replace("WAREHOUSE", place) for name, value in CONNECTORS[kind][0].items()}
    return settings | {"spark.sql.warehouse.dir": place}


def name_table(kind: str, place: str, name: str) -> str:
    """Return by which name any session finds a table: Delta's have a path, as the catalog ends with the session."""
    return f"delta.`{place}/{name}`" if kind == "delta" else f"{CONNECTORS[kind][1]}{name}"


def check_paths(spark: Any, kind: str, place: str) -> None:
    """Read the table of events by its path, as a batch and as a stream."""
    name = f"{kind}.`{place}/{'events' if kind == 'delta' else 'db/events'}`"
    streamed = open_table(name, spark, spark.readStream).writeStream.format("memory").queryName("streamed")
    streamed.trigger(availableNow=True).start().awaitTermination()
    for rows in (open_table(name, spark), spark.table("streamed")):
        assert sorted(rows.toArrow().to_pylist(), key=str) == sorted(make_events().to_pylist(), key=str)


def compare(spark: Any, table: str) -> None:
    """Compare the rows of a table of results with those of one process."""
    expected = motet.run(make_events(), QUERIES)
    found = spark.table(table).toArrow().select(expected.column_names).cast(expected.schema)
    assert len(found) == len(expected) > 100, (len(found), len(expected))
    assert_same_results(found, expected)


def fill_table(spark: Any, kind: str, place: str) -> None:
    """Write the events by some commits."""
    events = make_events()
    size = -(-len(events) // COMMITS)
    for at in range(COMMITS):
        writer = spark.createDataFrame(events.slice(at * size, size)).coalesce(1).write.format(kind).mode("append")
        writer.save(f"{place}/events") if kind == "delta" else writer.saveAsTable(name_table(kind, place, "events"))


def run_batch(spark: Any, kind: str, prefix: str, place: str) -> None:
    """Run over the table of events, to another."""
    fill_table(spark, kind, place)
    if kind == "delta":
        spark.sql(f"CREATE TABLE events USING delta LOCATION '{place}/events'")
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


def main(step: str, kind: str, place: str, *jars: str) -> None:
    """Run on a session that has the connector."""
    prefix = CONNECTORS[kind][1]
    spark = local_session("local[2]", config=list_settings(kind, place) | {"spark.jars": ",".join(jars)})
    match step:
        case "batch":
            run_batch(spark, kind, prefix, place)
            check_paths(spark, kind, place)
            run_command(spark, kind, prefix, place)
        case "fill":
            fill_table(spark, kind, place)
        case "compare":
            compare(spark, name_table(kind, place, "stream_results"))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
