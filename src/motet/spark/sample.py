"""Compile a workload for a Spark DataFrame by a sample of its rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray
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
from motet.spark.parquet import FileScan, estimate_rows, find_origin, find_scan, find_task_limits
from motet.statistics.sample import STRETCHES, WHOLE_BELOW, SampledRows

PLACE = "#place"
# Spark numbers rows by partition and, in these bits, by their place in it.
PLACE_BITS = 33
# A job of Spark's takes 0.1 s or more, which is more than 2 % of a run in which a core has fewer rows than these.
FILES_TELL_BELOW = 8_000_000
# Plans whose partitions may begin with rows that are not like the rest.
SORTED_PLAN = re.compile(r"\b(Sort|Exchange|Window|SortAggregate|TakeOrdered\w*)\b")


@dataclass(frozen=True)
class FirstRows:
    """The first rows of Spark's partitions, in their order: `WHOLE_BELOW` of the first, half as many of the second, a
    third as many of the third. Of each row `partitions` and `places` tell where it is; `cut` are the partitions that
    may have more rows. If they may not be `like_rest`, partitions are sorted, or come out of a shuffle.
    """

    rows: pa.Table
    partitions: NDArray[np.int64]
    places: NDArray[np.int64]
    cut: NDArray[np.int64]
    like_rest: bool

    def take_evenly(self) -> pa.Table:
        """Return as many rows of each partition that has more of them; all of the others."""
        least = WHOLE_BELOW // (int(self.cut.max()) + 1) if len(self.cut) else WHOLE_BELOW
        return self.rows.filter(pa.array(self.places < max(least, 1)))

    def sample(self, schema: EventSchema) -> SampledRows:
        """Return the rows as a sample of all, with a stretch for each of the first partitions."""
        if not len(self.cut):
            return SampledRows((self.rows,), len(self.rows))
        parts = np.unique(self.partitions)
        stretches = tuple(self.rows.filter(pa.array(self.partitions == part)) for part in parts[:STRETCHES])
        others = self.rows.filter(pa.array(np.isin(self.partitions, parts[STRETCHES:])))
        return SampledRows(stretches, _estimate_rows(stretches, others, schema), (others,))


@dataclass(frozen=True)
class RowSampler:
    """Reads the first rows of a DataFrame with these columns once, for all who need them: the statistics by which
    queries are planned, and the search for hot keys.
    """

    events: DataFrame
    columns: pa.Schema

    @cached_property
    def origin(self) -> FileScan | None:
        """How the columns come from local parquet files; None if they do not."""
        return find_origin(self.events.select(*map(column, self.columns.names)), self.columns)

    @property
    def scan(self) -> FileScan | None:
        """How the columns are computed of local parquet files; None if only Spark can tell."""
        return self.origin if self.origin is not None and self.origin.exact else None

    @cached_property
    def cheap_origin(self) -> FileScan | None:
        """How the columns come from files, where these are to tell of the rows although only Spark can compute them: a
        job that samples them would take a large share of a run over so few.
        """
        origin = self.origin
        if origin is None or origin.exact:
            return None
        cores = find_task_limits(self.events.sparkSession)[1]
        return origin if estimate_rows(origin.files) < FILES_TELL_BELOW * cores else None

    def find_scan(self, events: DataFrame, columns: pa.Schema) -> FileScan | None:
        """Return how the same events with these columns are computed of files: by what is known of all columns, where
        they are among them.
        """
        others = set(columns.names) - set(self.columns.names)
        if not others and self.scan is not None:
            return self.scan.select(columns)
        return find_scan(events, columns) if others or len(columns) < len(self.columns) else None

    @cached_property
    def first_rows(self) -> FirstRows:
        """The first rows; Spark computes few others for them. Raises `DataError`."""
        place = sf.expr(f"monotonically_increasing_id() AS `{PLACE}`")
        numbered = self.events.select(*map(column, self.columns.names), place)
        limited = _limit_partitions(numbered)
        chosen = numbered.limit(WHOLE_BELOW + 1) if limited is None else limited
        like_rest = not SORTED_PLAN.search(_explain(chosen))
        found = chosen.toArrow()
        numbers = found[PLACE].to_numpy()
        partitions, places = numbers >> PLACE_BITS, numbers & ((1 << PLACE_BITS) - 1)
        cut = np.unique(partitions[(places + 1) * (partitions + 1) > WHOLE_BELOW])
        if limited is None and len(found) > WHOLE_BELOW:
            cut = partitions[-1:]
        return FirstRows(found.drop_columns(PLACE).cast(self.columns), partitions, places, cut, like_rest)


def compile_for(events: DataFrame, workload: Workload, options: Options, sampler: RowSampler | None = None) -> Program:
    """Validate and compile a workload for a DataFrame: by a sample of its rows, where no statistics are given.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
        DataError: The DataFrame lacks a column.
    """
    schema = get_event_schema(events, options)
    sampler = sampler or make_sampler(events, list_sampled_columns(workload, schema), schema)
    found: list[SampledRows] = []

    def read(_: int | None) -> SampledRows:
        found.append(sample_for_plan(sampler, schema))
        return found[0]

    program = compile_by_sample(workload, schema, options, None, read)
    for sample in found:
        require_likely_unit(events, sample.stretches[0].slice(0, SAMPLED_TIMES), schema)
    return program


def make_sampler(events: DataFrame, columns: Sequence[str], schema: EventSchema) -> RowSampler:
    """Return what samples some columns of events."""
    prepared = prepare_events(events, schema.time, schema.time_unit)
    wanted = pa.schema([schema.columns.field(name) for name in columns])
    return RowSampler(derive_columns(prepared, schema, columns), wanted)


def sample_for_plan(sampler: RowSampler, schema: EventSchema) -> SampledRows:
    """Return a sample of a DataFrame to plan a run by: see `RowSampler.cheap_origin` and `sample_dataframe`."""
    origin = sampler.cheap_origin
    if origin is not None and origin.keeps_range(schema.time):
        return _sample_files(origin, schema)
    return sample_dataframe(sampler, schema)


def sample_dataframe(sampler: RowSampler, schema: EventSchema) -> SampledRows:
    """Return a sample of a DataFrame: of its files, where tasks would read them and they tell how far times reach; else
    of the first rows that Spark brings, which are all where there are few.
    """
    scan = sampler.scan
    if scan is None or not scan.keeps_range(schema.time):
        return sampler.first_rows.sample(schema)
    return _sample_files(scan, schema)


def _sample_files(scan: FileScan, schema: EventSchema) -> SampledRows:
    """Return a sample of the rows that a scan makes of files."""
    read = sample_events(_open_files(scan, schema), scan.stored.names, schema)
    rows = tuple(scan.compute(each).cast(scan.columns) for each in read.stretches)
    share = sum(map(len, rows)) / max(sum(map(len, read.stretches)), 1)
    return SampledRows(rows, read.rows * share, read.ends)


def _open_files(scan: FileScan, schema: EventSchema) -> EventSource:
    names = tuple(map(str, scan.files))
    content = ds.dataset(list(names), schema=scan.stored, format="parquet")
    read = Options(time=schema.time, type=schema.type, time_unit=cast("TimeUnit", schema.time_unit))
    rows = content.count_rows()
    return EventSource(names[0], names, PARQUET, scan.stored, schema.time, schema.type, content, rows, read)


def _limit_partitions(numbered: DataFrame) -> DataFrame | None:
    """Return the first rows of each partition; None on Spark Connect, which has no such limit.

    There the first rows of all are those of the first partitions.
    """
    internal: Any = numbered.limit(WHOLE_BELOW + 1)
    if not hasattr(internal, "_jdf"):
        return None
    # A limit is a limit of each partition, and one of what these leave.
    of_each = internal._jdf.queryExecution().analyzed().child()
    spark: Any = numbered.sparkSession
    datasets = spark.sparkContext._jvm.org.apache.spark.sql.classic.Dataset
    rows = type(internal)(datasets.ofRows(internal._jdf.sparkSession(), of_each), spark)
    # One text for all: each function called by its name would be a call to the JVM.
    place, partition = f"(`{PLACE}` & {(1 << PLACE_BITS) - 1})", f"shiftright(`{PLACE}`, {PLACE_BITS})"
    return cast("DataFrame", rows.filter(f"{place} * ({partition} + 1) <= {WHOLE_BELOW}"))


def _explain(rows: DataFrame) -> str:
    """Return the plan by which Spark would compute rows."""
    internal: Any = rows
    classic = getattr(internal, "_jdf", None)
    return str(internal._explain_string() if classic is None else classic.queryExecution().executedPlan().toString())


def _estimate_rows(stretches: Sequence[pa.Table], others: pa.Table, schema: EventSchema) -> float:
    """Estimate how many rows there are, from the first time to the last, if they are as dense as in the stretches."""
    times = [read_times(each.filter(pc.is_valid(each[schema.time])), schema) for each in (*stretches, others)]
    spans = float(sum(np.ptp(each) for each in times[:-1] if len(each)))
    rows = float(sum(map(len, stretches)))
    return rows * max(float(np.ptp(np.concatenate(times))) / spans, 1.0) if spans else rows
