"""Open event files as a Spark DataFrame with the columns and types of their `EventSource`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from motet.io.events import EventSource
from motet.io.formats import PARQUET


@contextmanager
def open_dataframe(source: EventSource, session: SparkSession) -> Iterator[DataFrame]:
    """Open the events as a DataFrame that lasts as long as the context.

    Spark reads parquet itself. Text is converted by the one reader that tells the types of its columns, since Spark's
    would tell some of them otherwise.
    """
    if source.format == PARQUET and all(is_read_alike(source, field) for field in source.schema):
        base = source.origin if Path(source.origin).is_dir() else str(Path(source.origin).parent)
        yield session.read.option("basePath", base).parquet(*source.files)
        return
    with tempfile.TemporaryDirectory(prefix="motet-") as folder:
        file = Path(folder) / "events.parquet"
        schema = pa.schema([pa.field(field.name, nearest_spark_type(field.type)) for field in source.schema])
        with pq.ParquetWriter(file, schema) as writer:
            for batch in source.batches():
                writer.write_batch(batch.cast(schema, safe=False))
        yield session.read.parquet(str(file))


def is_read_alike(source: EventSource, field: pa.Field) -> bool:
    """Return whether Spark reads a parquet column to the type that its `EventSource` has."""
    stored = source.dataset.schema.field(field.name).type
    return bool(stored == field.type == nearest_spark_type(stored))


def nearest_spark_type(type: pa.DataType) -> pa.DataType:
    """Return the nearest type that Spark can read from parquet."""
    if pa.types.is_null(type):
        return pa.string()
    if pa.types.is_timestamp(type) and type.unit == "ns":
        return pa.timestamp("us", type.tz)
    return type
