"""Take statistics of events in a Spark DataFrame; equal to those of `motet.statistics.profile`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from motet.engine import workload_profile
from motet.errors import require_columns
from motet.model.query import Workload
from motet.options import Options
from motet.schema import EventSchema
from motet.spark.dataframes import (
    column,
    derive_columns,
    from_spark_batch,
    get_event_schema,
    has_values,
    prepare_events,
    to_microseconds,
)
from motet.spark.sample import make_sampler, sample_dataframe
from motet.statistics.model import Statistics, format_partition
from motet.template.symbols import Symbol


def profile(
    df: DataFrame,
    keys: Sequence[str] = (),
    workload: Workload | None = None,
    options: Options = Options(),  # noqa: B008
) -> Statistics:
    """Take statistics of a DataFrame of events, by two aggregations in Spark; with a workload, also of its symbols.

    Cells of keys and panes are estimated from a sample.
    """
    schema = get_event_schema(df, options)
    if workload is None:
        require_columns(df.columns, (options.type,))
    require_columns(schema.known_names, keys)
    named = () if workload is None else workload_profile.columns_to_profile(workload, schema)
    read = derive_columns(prepare_events(df, schema.time, schema.time_unit), schema, (schema.type, *keys, *named))
    time, type = schema.time, schema.type
    moment = to_microseconds(read, time, options.time_unit)
    no_time, no_type = column(time).isNull(), column(type).isNull()
    # Few rows: one for each type, with and without a time.
    ends = sf.min(moment).alias("first"), sf.max(moment).alias("last")
    counted = read.groupBy(column(type).cast("string").alias("type"), no_time.alias("no_time"))
    by_type = counted.agg(sf.count(sf.lit(1)).alias("rows"), *ends).toArrow().to_pylist()
    usable = [row for row in by_type if row["type"] is not None and not row["no_time"]]
    events = read.filter(~no_time & ~no_type)
    statistics = Statistics(
        counts={row["type"]: row["rows"] for row in sorted(usable, key=lambda row: row["type"])},
        first=min((row["first"] for row in usable), default=None),
        last=max((row["last"] for row in usable), default=None),
        keys=tuple(keys),
        **_count_partitions(events.filter(has_values(read, keys)), keys, moment),
        null_times=sum(row["rows"] for row in by_type if row["no_time"]),
        null_types=sum(row["rows"] for row in by_type if row["type"] is None),
        set_aside=sum(row["rows"] for row in by_type if row["no_time"] or row["type"] is None),
    )
    if workload is None:
        return statistics
    columns = workload_profile.columns_to_profile(workload, schema)
    request = workload_profile.statistics_request(workload, schema)
    sample = sample_dataframe(make_sampler(read, columns, schema), schema)
    sampled = workload_profile.estimate_statistics(sample, request, schema)
    return replace(
        statistics,
        cells=sampled.cells,
        symbols=workload_profile.name_counts(request, _count_symbols(events, schema, request)),
        partitionings={
            format_partition(by): events.filter(has_values(events, by)).select(*map(column, by)).distinct().count()
            for by in request.partitions
            if by
        },
    )


def _count_symbols(
    events: DataFrame, schema: EventSchema, request: workload_profile.StatisticsRequest
) -> dict[Symbol, int]:
    """Count the events of each symbol: workers evaluate conditions with the engine's own evaluator."""
    if not request.symbols:
        return {}
    names = list(dict.fromkeys((schema.type, *request.columns)))
    columns = pa.schema([schema.columns.field(name) for name in names])

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counts = workload_profile.count_symbols(from_spark_batch(batch, columns), schema.type, request)
            rows = [counts.get(symbol, 0) for symbol in request.symbols]
            yield pa.RecordBatch.from_pydict({"symbol": pa.array(range(len(rows)), pa.int32()), "rows": rows})

    counted = events.select(*map(column, names)).mapInArrow(count, "symbol int, rows bigint")
    totals = counted.groupBy("symbol").agg(sf.sum("rows").alias("rows")).toArrow()
    return {request.symbols[row["symbol"]]: row["rows"] for row in totals.to_pylist()}


def _count_partitions(events: DataFrame, keys: Sequence[str], moment: Column) -> dict[str, Any]:
    names = [f"__key{at}" for at in range(len(keys))]
    by = [column(key).alias(name) for key, name in zip(keys, names, strict=True)]
    at_one_time = events.groupBy(*by, moment).agg(sf.count(sf.lit(1)).alias("rows"))
    by_key = at_one_time.groupBy(*names).agg(sf.sum("rows").alias("rows"), sf.sum(sf.col("rows") - 1).alias("ties"))
    found = by_key.filter(sf.col("rows").isNotNull()).agg(
        sf.count(sf.lit(1)).alias("partitions"),
        sf.coalesce(sf.max("rows"), sf.lit(0)).alias("largest_partition"),
        sf.coalesce(sf.sum("ties"), sf.lit(0)).alias("ties"),
    )
    counts: dict[str, int] = found.toArrow().to_pylist()[0]
    return counts
