"""Compile a workload for a Spark DataFrame by a sample of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from motet.compile import Program
from motet.engine.encode import read_times
from motet.engine.sampling import compile_by_sample
from motet.io.events import SAMPLED_TIMES, EventSource
from motet.io.formats import PARQUET
from motet.io.sample import list_sampled_columns, sample_events
from motet.model.query import Workload
from motet.options import Options, TimeUnit
from motet.schema import EventSchema
from motet.spark.dataframes import column, derive_columns, get_event_schema, prepare_events, require_likely_unit
from motet.spark.parquet import find_plain_files
from motet.statistics.sample import WHOLE_BELOW, SampledRows

PLACE = "#partition"


def compile_for(events: DataFrame, workload: Workload, options: Options) -> Program:
    """Validate and compile a workload for a DataFrame: by a sample of its rows, where no statistics are given.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
        DataError: The DataFrame lacks a column.
    """
    schema = get_event_schema(events, options)
    columns = list_sampled_columns(workload, schema)
    found: list[SampledRows] = []

    def read() -> SampledRows:
        found.append(sample_dataframe(events, columns, schema))
        return found[0]

    program = compile_by_sample(workload, schema, options, None, read)
    for sample in found:
        require_likely_unit(events, sample.stretches[0].slice(0, SAMPLED_TIMES), schema)
    return program


def sample_dataframe(events: DataFrame, columns: Sequence[str], schema: EventSchema) -> SampledRows:
    """Return a sample of a DataFrame: of its files, where it is nothing but these, else of the first rows that Spark
    brings, which are all where there are few.
    """
    prepared = prepare_events(events, schema.time, schema.time_unit)
    read = derive_columns(prepared, schema, columns).select(*map(column, columns))
    wanted = pa.schema([schema.columns.field(name) for name in columns])
    files = find_plain_files(read, wanted)
    if files:
        return sample_events(_open_files(files, wanted, schema), columns, schema)
    found = read.withColumn(PLACE, sf.spark_partition_id()).limit(WHOLE_BELOW).toArrow()
    places, rows = found[PLACE], found.drop_columns(PLACE).cast(wanted)
    if len(rows) < WHOLE_BELOW:
        return SampledRows((rows,), len(rows))
    stretches = tuple(rows.filter(pc.equal(places, place)) for place in sorted(pc.unique(places).to_pylist()))
    return SampledRows(stretches, _estimate_rows(stretches, schema))


def _open_files(files: Sequence[Path], columns: pa.Schema, schema: EventSchema) -> EventSource:
    content = ds.dataset(list(map(str, files)), schema=columns, format="parquet")
    names = tuple(map(str, files))
    read = Options(time=schema.time, type=schema.type, time_unit=cast("TimeUnit", schema.time_unit))
    return EventSource(
        str(files[0]), names, PARQUET, columns, schema.time, schema.type, content, content.count_rows(), read
    )


def _estimate_rows(stretches: Sequence[pa.Table], schema: EventSchema) -> float:
    """Estimate how many rows there are from the first to the last time, if they are as dense as in the stretches."""
    times = [read_times(each.filter(pc.is_valid(each[schema.time])), schema) for each in stretches]
    ends = np.array([(each.min(), each.max()) for each in times if len(each)]).reshape(-1, 2)
    rows = float(sum(map(len, stretches)))
    spans = float((ends[:, 1] - ends[:, 0]).sum())
    return rows * max(float(np.ptp(ends)) / spans, 1.0) if spans else rows
