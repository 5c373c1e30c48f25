"""Run a program over a streaming DataFrame: rows to the buckets of their keys, one stateful operator, results."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from motet.compile import Program, compile_workload
from motet.engine.context import RunContext
from motet.engine.detect.run import finish_results
from motet.engine.partials import finish, merge, settle_overflows
from motet.errors import DataError, OptionError
from motet.model.query import Workload
from motet.options import Options
from motet.plans.sharing import Sharing
from motet.spark.batch import collect_texts
from motet.spark.buckets import Buckets, choose_buckets
from motet.spark.checkpoint import register_start
from motet.spark.dataframes import (
    column,
    derive_columns,
    get_event_schema,
    has_values,
    prepare_events,
    to_microseconds,
    to_spark_schema,
)
from motet.spark.host_messages import CONTRIBUTIONS, LATE, PARTIALS, RESULTS
from motet.spark.processor import OUTPUT, BucketProcessor
from motet.spark.serialization import CachedPickle, table_from_ipc
from motet.spark.session import ROCKSDB
from motet.spark.shuffle import BUCKETED, Batches, BucketRoute, Task, make_bucket_task
from motet.spark.tasks import can_truncate, fit_columns, to_batches

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
# Names of observed metrics, as Spark reports them.
METRICS = "motet"
ROWS_METRICS = "motet_rows"
RESULT_METRICS = "motet_results"
TYPE_COUNT_PREFIX = "rows of "  # and a type
MAX_COUNTED_TYPES = 200
COUNTS, OVERFLOWS = "#counts", "#overflows"  # columns of results that Spark alone sees


@dataclass(frozen=True)
class StreamRun:
    """A stream that is ready to start: write `results` to any sink with `writeStream`.

    With the option `keep_late`, `results` also has the rows that came too late: their column `late` holds them as JSON,
    and all others are null. One operator gives both, so two queries on `results` would run everything twice:
    separate each micro-batch with `split_late` in `foreachBatch` instead.
    """

    results: DataFrame
    program: Program

    @property
    def options(self) -> Options:
        """How the stream runs."""
        return self.program.options

    def split_late(self, batch: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        """Separate a micro-batch of `results` into results and late rows (None unless these are kept)."""
        if not self.options.keep_late:
            return batch, None
        late = batch.filter("late IS NOT NULL").select(sf.col("late").alias("value"))
        return batch.filter("late IS NULL").drop("late"), late


def compile_stream(events: DataFrame, workload: Workload, options: Options, sharing: Sharing | None = None) -> Program:
    """Compile a workload for a streaming DataFrame; `sharing` is the plan to run by, in place of a search for one.

    Raises:
        DataError: The DataFrame is not a stream, or lacks columns.
        OptionError: There is no watermark.
        QueryError: The queries do not fit the events.
    """
    if not events.isStreaming:
        raise DataError("the DataFrame is not a stream: make it with spark.readStream, or give it to motet.run")
    if options.watermark is None:
        raise OptionError("a stream needs a watermark: how long rows may be late, such as watermark='10 minutes'")
    options = replace(options, mode=options.mode or "append")
    return compile_workload(workload, get_event_schema(events, options), options, sharing=sharing)


def run(events: DataFrame, program: Program, sink: dict[str, Any] | None = None) -> StreamRun:
    """Run a program, compiled by `compile_stream`, over a streaming DataFrame, classic or Connect.

    Its options say how: `watermark` is how long rows may be late; `mode` 'append' gives each result once, when it is
    final, 'update' also early values of windows that are still open; `buckets` is into how many parts the state is cut,
    by default as many as there are state partitions (`spark.sql.shuffle.partitions`), both fixed by the first start of
    a checkpoint; `checkpoint` is where the query will keep its checkpoint, which has to be known for queries to be
    added to one that exists. `sink` describes where results go, where that is known (see `StreamSink.describe`).

    Raises:
        RunError: The checkpoint was made with something that cannot change, or is damaged.
    """
    options, session = program.options, events.sparkSession
    if session.conf.get(PROVIDER, "") != ROCKSDB:  # the operator works with no other
        session.conf.set(PROVIDER, ROCKSDB)
    start_times: dict[int, int] = {}
    if options.checkpoint is None:
        buckets = choose_buckets(session, options.buckets)
    else:
        buckets, start_times = register_start(session, options.checkpoint, program, sink)
    cached = CachedPickle(RunContext(program))
    stream = cached.name if options.checkpoint is None else uuid.uuid5(uuid.NAMESPACE_URL, options.checkpoint).hex
    processor = BucketProcessor(cached, [branch.name for branch in program.all_branches], start_times, stream)
    keyed = pack_stream(events, program, buckets).groupBy("bucket")
    mode = (options.mode or "append").capitalize()
    processed = keyed.transformWithStateInPandas(processor, OUTPUT, mode, "EventTime")
    sums = [sf.sum(name).alias(name) for name in ("late", "set_aside", "waiting", "state_bytes")]
    sums.append(_collect_lines("units"))
    observed = processed.observe(METRICS, *sums, *([collect_texts("truncated")] if can_truncate(program) else []))
    bodies = observed.select("kind", "body", "place")
    if any(branch.needs_combine for branch in program.branches) or any(each.is_scattered for each in program.detect):
        # Every bucket reports a window in the micro-batch whose watermark ends it: all its parts are here now.
        bodies = bodies.repartition("place")
    results = bodies.mapInArrow(make_result_task(cached), to_spark_schema(_get_task_schema(program)))
    overflows = sf.sum(column(OVERFLOWS)).alias("overflows")
    results = results.observe(RESULT_METRICS, overflows, _collect_lines(COUNTS)).drop(COUNTS, OVERFLOWS)
    return StreamRun(results, program)


def _collect_lines(name: str) -> Column:
    """Return all texts of a column as lines."""
    return sf.array_join(sf.collect_list(column(name)), "\n").alias(name)


def pack_stream(events: DataFrame, program: Program, buckets: Buckets) -> DataFrame:
    """Pack the rows of a stream into one blob for each bucket of a branch and task."""
    schema = program.schema
    branches = program.all_branches
    read = list(dict.fromkeys(name for branch in branches for name in branch.columns))
    events = derive_columns(prepare_events(events, schema.time, schema.time_unit), schema, read)
    columns = list(dict.fromkeys((*schema.own_columns.names, *read))) if program.options.keep_late else read
    keys = list(dict.fromkeys(branch.shuffle_by for branch in branches))
    routes = [
        BucketRoute(
            names=buckets.names(branch.name),
            columns=tuple(map(columns.index, branch.columns if len(columns) == len(read) else columns)),
            bucket=len(columns) + keys.index(branch.shuffle_by),
            type=columns.index(schema.type),
            types=branch.types,
        )
        for branch in branches
    ]
    bucketed = _assign_buckets(events, program, columns, keys, buckets)
    task = make_bucket_task(pa.schema([schema.columns.field(name) for name in columns]), routes)
    return bucketed.mapInArrow(task, to_spark_schema(BUCKETED))


def _assign_buckets(
    events: DataFrame, program: Program, columns: Sequence[str], keys: Sequence[Sequence[str]], buckets: Buckets
) -> DataFrame:
    """Return the columns that are read and the bucket of each row by each of the keys.

    Rows without time or type are counted and dropped.
    """
    schema = program.schema
    named = [column(name).alias(f"c{at}") for at, name in enumerate(columns)]
    bucketed = [_bucket_of_row(events, key, buckets).alias(f"b{at}") for at, key in enumerate(keys)]
    moment = sf.timestamp_micros(to_microseconds(events, schema.time, schema.time_unit)).alias("at")
    delay = f"{program.options.watermark_micros} microseconds"
    rows = events.select(*named, *bucketed, moment).withWatermark("at", delay)
    kind = sf.col(f"c{list(columns).index(schema.type)}")
    missing = sf.col("at").isNull() | kind.isNull()
    ends = [sf.min("at").alias("oldest"), sf.max("at").alias("newest")]
    types = {symbol.type for branch in program.branches for symbol in branch.symbols} - program.definitions.keys()
    listed = sorted(types) if len(types) <= MAX_COUNTED_TYPES else []
    counts = [sf.count_if(kind == sf.lit(name)).alias(f"{TYPE_COUNT_PREFIX}{name}") for name in listed]
    # Spark's own number of rows counts those of a repeated task again, what is observed does not.
    totals = [sf.count(sf.lit(1)).alias("rows"), sf.count_if(missing).alias("set_aside")]
    observed = rows.observe(ROWS_METRICS, *totals, *ends, *counts)
    return observed.filter(~missing).drop("at")


def _bucket_of_row(events: DataFrame, key: Sequence[str], buckets: Buckets) -> Column:
    """Return the bucket of a row; null if its key lacks a value."""
    if not key:
        return sf.lit(0)
    values = [_hashed_value(events.schema[name], buckets.wide) for name in key]
    return sf.when(has_values(events, key), sf.pmod(sf.xxhash64(*values), sf.lit(buckets.number)).cast("int"))


def _hashed_value(field: st.StructField, wide: bool) -> Column:
    """Return what is hashed of a part of a key: Spark's hash depends on the width of whole numbers."""
    match field.dataType:
        case st.FractionalType():
            return column(field.name) + sf.lit(0.0)  # -0.0 is 0.0
        case st.IntegralType() if wide:
            return column(field.name).cast("bigint")
    return column(field.name)


def _get_result_schema(program: Program) -> pa.Schema:
    schema = program.result_schema
    return schema.append(pa.field("late", pa.string())) if program.options.keep_late else schema


def _get_task_schema(program: Program) -> pa.Schema:
    return _get_result_schema(program).append(pa.field(COUNTS, pa.string())).append(pa.field(OVERFLOWS, pa.int64()))


def make_result_task(cached: CachedPickle[RunContext]) -> Task:
    """Make a task that unpacks results, partial results and late rows."""

    def unpack(batches: Batches) -> Batches:
        program = cached.value.program
        target = _get_task_schema(program)
        found: dict[int, list[pa.Table]] = {RESULTS: [], PARTIALS: [], CONTRIBUTIONS: [], LATE: []}
        for batch in batches:
            for kind, body in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                if body is not None:
                    found[kind].append(table_from_ipc(body))
        results = found[RESULTS]
        if found[PARTIALS]:
            results.append(finish(program, merge(program, pa.concat_tables(found[PARTIALS]))))
        if found[CONTRIBUTIONS]:
            results += finish_results(found[CONTRIBUTIONS], program)
        for rows in found[LATE]:
            results.append(pa.table({"late": [json.dumps(row, default=str) for row in rows.to_pylist()]}))
        for table in results:
            yield from to_batches(_count_results(table, program), target)

    return unpack


def _count_results(results: pa.Table, program: Program) -> pa.Table:
    """Make sums that are not exact null, and add columns that have in their first row the number of results of each
    query, and that of values that are null for being too large.
    """
    if "query" not in results.column_names or not len(results):
        return results
    settled, overflows = settle_overflows(program, fit_columns(results, program.result_schema))
    counts = {count["values"]: count["counts"] for count in settled["query"].value_counts().to_pylist()}
    rest = len(settled) - 1
    for name, first in ((COUNTS, pa.array([json.dumps(counts)])), (OVERFLOWS, pa.array([overflows]))):
        settled = settled.append_column(name, pa.concat_arrays([first, pa.nulls(rest, first.type)]))
    return settled
