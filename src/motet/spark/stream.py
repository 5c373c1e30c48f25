"""Runs a workload over a streaming DataFrame: rows to the buckets of their keys, one stateful operator, results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from motet.compile import Program, compile_workload
from motet.engine.context import RunContext
from motet.engine.detect.run import finish_results
from motet.engine.partials import finish, merge
from motet.errors import DataError
from motet.model.query import Workload
from motet.options import Options, OutputMode
from motet.plans.sharing import Sharing
from motet.schema import TICKS, EventSchema
from motet.spark.batch import collect_names, count_overflows
from motet.spark.buckets import Buckets, choose_buckets
from motet.spark.checkpoint import CheckpointHistory
from motet.spark.dataframes import (
    column,
    get_arrow_schema,
    has_values,
    prepare_events,
    to_microseconds,
    to_spark_schema,
)
from motet.spark.packing import PACKED, Route, pack_task
from motet.spark.processor import CONTRIBUTIONS, LATE, OUTPUT, PARTIALS, RESULTS, BucketProcessor
from motet.spark.serialization import CachedPickle, table_from_ipc
from motet.spark.session import ROCKSDB
from motet.spark.tasks import ROWS_PER_BATCH, can_truncate

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
MODES = ("append", "update")
METRICS = "motet"
ROWS_METRICS = "motet_rows"
RESULT_METRICS = "motet_results"
TYPE_COUNT_PREFIX = "rows of "  # and a type
MAX_COUNTED_TYPES = 200

Batches = Iterator[pa.RecordBatch]


def run(
    df: DataFrame,
    workload: Workload,
    *,
    watermark: str | None,
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
    options: Options | None = None,
    mode: OutputMode = "append",
    buckets: int | None = None,
    keep_late: bool = False,
    checkpoint: str | None = None,
    sharing: Sharing | None = None,
) -> DataFrame:
    """Run a workload over a streaming DataFrame, classic or Connect: a streaming DataFrame of results.

    `watermark` is how long rows may be late, such as '10 minutes'. `mode` is the output mode: 'append' gives each
    result once, when it is final; 'update' also gives early values of windows that are still open. `buckets` is into
    how many parts the state is cut, by default as many as there are state partitions (`spark.sql.shuffle.partitions`);
    both are fixed by the first start of a checkpoint. With `keep_late` the results have a column
    `late` more: a row that came too late is there as JSON, and all else is null. `checkpoint` is where the query will
    keep its checkpoint: needed for queries to be added to a checkpoint that already exists. `sharing` is the plan to
    run by, in place of the one that the options ask for.
    """
    if not df.isStreaming:
        raise DataError("the DataFrame is not a stream: make it with spark.readStream, or give it to motet.run")
    if watermark is None:
        raise DataError("a stream needs a watermark: how long rows may be late, such as watermark='10 minutes'")
    if mode not in MODES:
        raise DataError(f"mode is {mode!r}: use one of {', '.join(MODES)}")
    program = compile_stream(
        df, workload, time=time, type=type, time_unit=time_unit, options=options, mode=mode, sharing=sharing
    )
    _use_rocksdb(df)
    session = df.sparkSession
    start_times: dict[int, int] = {}
    if checkpoint is None:
        cut = choose_buckets(session, buckets)
    else:
        cut, start_times = CheckpointHistory(session, checkpoint).register_start(program, watermark, buckets)
    packed = pack_stream(df, program, watermark, cut, keep_late=keep_late)
    branches = {branch.name: index for index, branch in enumerate(program.all_branches)}
    cached = CachedPickle(RunContext(program))
    processor = BucketProcessor(cached, branches, start_times, keep_late)
    fed = packed.groupBy("bucket").transformWithStateInPandas(processor, OUTPUT, mode.capitalize(), "EventTime")
    sums = [sf.sum(name).alias(name) for name in ("late", "set_aside", "waiting", "state_bytes")]
    counted = fed.observe(METRICS, *sums, *([collect_names("truncated")] if can_truncate(program) else []))
    bodies = counted.select("kind", "body", "place")
    if any(branch.needs_combine for branch in program.branches) or any(each.is_scattered for each in program.detect):
        # Every bucket reports a window in the micro-batch whose watermark ends it: what belongs together is here now.
        bodies = bodies.repartition("place")
    result = bodies.mapInArrow(make_unpack_task(cached, keep_late), to_spark_schema(_result_schema(program, keep_late)))
    return result.observe(RESULT_METRICS, count_overflows(program), *_count_results(program))


def compile_stream(
    df: DataFrame,
    workload: Workload,
    *,
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
    options: Options | None = None,
    mode: OutputMode = "append",
    sharing: Sharing | None = None,
) -> Program:
    """A workload compiled for a streaming DataFrame."""
    schema = EventSchema(get_arrow_schema(prepare_events(df, time, type)), time, type, time_unit)
    asked = replace(options or Options(), windows="auto", mode=mode)
    return compile_workload(workload, schema, asked, sharing=sharing)


def pack_stream(
    df: DataFrame, program: Program, watermark: str, buckets: Buckets, *, keep_late: bool = False
) -> DataFrame:
    """The rows of a stream in blobs, one for each bucket of a branch and task."""
    schema = program.schema
    events = prepare_events(df, schema.time, schema.type)
    columns = list(schema.columns.names) if keep_late else _list_columns(program)
    read = pa.schema([schema.columns.field(name) for name in columns])
    stamped = _assign_buckets(events, program, columns, watermark, buckets.number)
    return stamped.mapInArrow(pack_task(read, _make_routes(program, columns, buckets)), to_spark_schema(PACKED))


def _use_rocksdb(df: DataFrame) -> None:
    """The operator works with this store only; other queries of the session may use it as well."""
    conf = df.sparkSession.conf
    if conf.get(PROVIDER, "") != ROCKSDB:
        conf.set(PROVIDER, ROCKSDB)


def _list_columns(program: Program) -> list[str]:
    return list(dict.fromkeys(name for branch in program.all_branches for name in branch.columns))


def _make_routes(program: Program, columns: Sequence[str], buckets: Buckets) -> list[Route]:
    """Where each branch finds its columns."""
    spreads = _list_bucket_keys(program)
    everything = tuple(range(len(columns)))
    extra = set(columns) - set(_list_columns(program))
    return [
        Route(
            names=buckets.names(branch.name),
            columns=everything if extra else tuple(columns.index(name) for name in branch.columns),
            bucket=len(columns) + spreads.index(branch.shuffle_by),
            type=columns.index(program.schema.type),
            types=branch.types,
        )
        for branch in program.all_branches
    ]


def _list_bucket_keys(program: Program) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(branch.shuffle_by for branch in program.all_branches))


def _assign_buckets(
    events: DataFrame, program: Program, columns: Sequence[str], watermark: str, buckets: int
) -> DataFrame:
    """The columns that are read, the bucket of each row by each way to spread them; rows without time or type are
    counted and left out.
    """
    schema = program.schema
    moment = sf.timestamp_micros(_event_time(events, schema)).alias("at")
    spread = [
        _bucket_of_row(events, names, buckets).alias(f"b{at}") for at, names in enumerate(_list_bucket_keys(program))
    ]
    named = [column(name).alias(f"c{at}") for at, name in enumerate(columns)]
    kind = sf.col(f"c{list(columns).index(schema.type)}")
    rows = events.select(*named, *spread, moment).withWatermark("at", watermark)
    missing = sf.col("at").isNull() | kind.isNull()
    ends = [sf.min("at").alias("oldest"), sf.max("at").alias("newest")]
    types = [
        sf.count_if(kind == sf.lit(name)).alias(f"{TYPE_COUNT_PREFIX}{name}") for name in _list_counted_types(program)
    ]
    counted = rows.observe(ROWS_METRICS, sf.count_if(missing).alias("set_aside"), *ends, *types)
    return counted.filter(~missing).drop("at")


def _list_counted_types(program: Program) -> list[str]:
    """The types whose rows are counted; none where there are too many for that."""
    named = {symbol.type for branch in program.branches for symbol in branch.symbols} - program.definitions.keys()
    return sorted(named) if len(named) <= MAX_COUNTED_TYPES else []


def _event_time(events: DataFrame, schema: EventSchema) -> Column:
    if isinstance(events.schema[schema.time].dataType, st.IntegralType) and schema.time_unit != "ns":
        # A time out of range is a row's own problem, not the stream's.
        return sf.try_multiply(column(schema.time).cast("bigint"), sf.lit(TICKS[schema.time_unit]))
    return to_microseconds(events, schema.time, schema.time_unit)


def _bucket_of_row(events: DataFrame, names: Sequence[str], buckets: int) -> Column:
    """The bucket of a row; null where it lacks a value."""
    if not names:
        return sf.lit(0)
    values = [_normalize_zero(events, name) for name in names]
    bucket = sf.pmod(sf.xxhash64(*values), sf.lit(buckets)).cast("int")
    return sf.when(has_values(events, names), bucket)


def _normalize_zero(events: DataFrame, name: str) -> Column:
    value = column(name)
    # -0.0 is 0.0
    return value + sf.lit(0.0) if isinstance(events.schema[name].dataType, st.FractionalType) else value


def _result_schema(program: Program, keep_late: bool) -> pa.Schema:
    schema = program.result_schema
    return schema.append(pa.field("late", pa.string())) if keep_late else schema


def make_unpack_task(cached: CachedPickle[RunContext], keep_late: bool) -> Callable[[Batches], Batches]:
    """Blobs of results, partial results and late rows to rows."""
    target = _result_schema(cached.value.program, keep_late)

    def unpack(batches: Batches) -> Batches:
        program = cached.value.program
        found: dict[int, list[pa.Table]] = {RESULTS: [], PARTIALS: [], CONTRIBUTIONS: [], LATE: []}
        for batch in batches:
            for kind, body in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                if body is not None:
                    found[kind].append(table_from_ipc(body))
        results = list(found[RESULTS])
        if found[PARTIALS]:
            partials = pa.concat_tables(found[PARTIALS])
            results.append(finish(program, merge(program, partials)))
        if found[CONTRIBUTIONS]:
            results += finish_results(found[CONTRIBUTIONS], program)
        for table in [*results, *(_format_late_rows(table, target) for table in found[LATE])]:
            if keep_late and "late" not in table.column_names:
                table = table.append_column("late", pa.nulls(len(table), pa.string()))
            yield from table.cast(target).to_batches(max_chunksize=ROWS_PER_BATCH)

    return unpack


def _format_late_rows(rows: pa.Table, target: pa.Schema) -> pa.Table:
    texts = pa.array([json.dumps(row, default=str) for row in rows.to_pylist()], pa.string())
    columns: list[Any] = [texts if field.name == "late" else pa.nulls(len(rows), field.type) for field in target]
    return pa.Table.from_arrays(columns, schema=target)


def _count_results(program: Program) -> list[Column]:
    names = [query.name for query in program.workload.queries]
    return [sf.count_if(column("query") == sf.lit(name)).alias(f"q{at}") for at, name in enumerate(names)]
