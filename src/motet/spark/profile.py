"""Take statistics of events in a Spark DataFrame; equal to those of `motet.statistics.profile`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from motet.engine.workload_profile import (
    StatisticsRequest,
    columns_to_profile,
    count_symbols,
    name_counts,
    statistics_request,
)
from motet.model.query import Workload
from motet.schema import EventSchema
from motet.spark.dataframes import (
    column,
    from_spark_batch,
    get_arrow_schema,
    has_values,
    prepare_events,
    to_microseconds,
)
from motet.statistics.model import Statistics, format_partition
from motet.template.symbols import Symbol


def profile(
    df: DataFrame,
    time: str = "time",
    type: str = "type",
    keys: Sequence[str] = (),
    time_unit: str = "s",
    workload: Workload | None = None,
) -> Statistics:
    """Take statistics of a DataFrame of events, by two aggregations in Spark; with a workload, also of its symbols."""
    read = prepare_events(df, time, type, *keys)
    moment = to_microseconds(read, time, time_unit)
    no_time, no_type = column(time).isNull(), column(type).isNull()
    # Few rows: one for each type, with and without a time.
    by_type = (
        read.groupBy(column(type).cast("string").alias("type"), no_time.alias("no_time"))
        .agg(sf.count(sf.lit(1)).alias("rows"), sf.min(moment).alias("first"), sf.max(moment).alias("last"))
        .toArrow()
        .to_pylist()
    )
    events = [row for row in by_type if row["type"] is not None and not row["no_time"]]
    partitions = _count_partitions(read.filter(~no_time & ~no_type & has_values(read, keys)), keys, moment)
    statistics = Statistics(
        counts={row["type"]: row["rows"] for row in sorted(events, key=lambda row: row["type"])},
        first=min((row["first"] for row in events), default=None),
        last=max((row["last"] for row in events), default=None),
        keys=tuple(keys),
        partitions=partitions["partitions"],
        largest_partition=partitions["largest_partition"],
        ties=partitions["ties"],
        null_times=sum(row["rows"] for row in by_type if row["no_time"]),
        null_types=sum(row["rows"] for row in by_type if row["type"] is None),
        set_aside=sum(row["rows"] for row in by_type if row["no_time"] or row["type"] is None),
    )
    if workload is None:
        return statistics
    schema = EventSchema(get_arrow_schema(read), time, type, time_unit)
    columns_to_profile(workload, schema)
    asked = statistics_request(workload, schema.tick)
    placed = read.filter(~no_time & ~no_type)
    return replace(
        statistics,
        symbols=name_counts(asked, _count_symbols(placed, type, asked)),
        partitionings={
            format_partition(by): placed.filter(has_values(placed, by)).select(*map(column, by)).distinct().count()
            for by in asked.partitions
        },
    )


def _count_symbols(events: DataFrame, type: str, asked: StatisticsRequest) -> dict[Symbol, int]:
    """Count the events of each symbol: workers evaluate conditions with the engine's own evaluator."""
    if not asked.symbols:
        return {}
    columns = dict.fromkeys((type, *asked.columns))
    needed = events.select(*map(column, columns))
    schema = get_arrow_schema(needed)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counts = count_symbols(from_spark_batch(batch, schema), type, asked)
            rows = [counts.get(symbol, 0) for symbol in asked.symbols]
            yield pa.RecordBatch.from_pydict({"symbol": pa.array(range(len(rows)), pa.int32()), "rows": rows})

    counted = needed.mapInArrow(count, "symbol int, rows bigint").groupBy("symbol").agg(sf.sum("rows").alias("rows"))
    return {asked.symbols[row["symbol"]]: row["rows"] for row in counted.toArrow().to_pylist()}


def _count_partitions(events: DataFrame, keys: Sequence[str], moment: Column) -> dict[str, Any]:
    names = [f"__key{place}" for place in range(len(keys))]
    at_one_time = events.groupBy(*(column(key).alias(name) for key, name in zip(keys, names, strict=True)), moment).agg(
        sf.count(sf.lit(1)).alias("rows")
    )
    by_key = at_one_time.groupBy(*names).agg(sf.sum("rows").alias("rows"), sf.sum(sf.col("rows") - 1).alias("ties"))
    found = by_key.filter(sf.col("rows").isNotNull()).agg(
        sf.count(sf.lit(1)).alias("partitions"),
        sf.coalesce(sf.max("rows"), sf.lit(0)).alias("largest_partition"),
        sf.coalesce(sf.sum("ties"), sf.lit(0)).alias("ties"),
    )
    counts: dict[str, int] = found.toArrow().to_pylist()[0]
    return counts
