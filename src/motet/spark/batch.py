"""Runs a workload over a batch DataFrame: rows to the tasks of their keys, the engine in each, results combined."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from motet.compile import Branch, Program, compile_workload
from motet.compile.detect import DetectBranch
from motet.engine.detect.planner import needs_plan_search, plan_ahead
from motet.engine.encode import read_times
from motet.errors import DataError, RunError
from motet.model.query import Workload
from motet.options import Options
from motet.schema import EventSchema
from motet.spark.dataframes import column, get_arrow_schema, has_values, prepare_events, to_spark_schema
from motet.spark.parquet import find_plain_files, split_files
from motet.spark.serialization import CachedPickle
from motet.spark.shuffle import COUNTS, PACKED, PACKED_WITH_COUNTS, UNNAMED_TYPE, ShufflePlan, encode_type
from motet.spark.skew import HOT_KEY_FACTOR, TaskLayout, estimate_key_skew, hash_keys, plan_even_layout, plan_layout
from motet.spark.tasks import (
    TRUNCATED,
    can_truncate,
    get_detect_schema,
    make_branch_task,
    make_contribution_task,
    make_detect_task,
    make_merge_task,
)

# The part of the rows that is looked at to find hot keys and where in time their rows are: enough of any that are worth
# a task to tell their number within a fifth or so.
SAMPLE_FRACTION = 0.001
IS_RELEVANT = "#takes part"
# More rows of a sample than these say no more.
MAX_SAMPLE_ROWS = 1_000_000
# Where a branch takes more than this share of the rows, all of them go to its tasks, which count what they set aside:
# that costs less than to have Spark observe them, unless it would bring mostly rows of no use.
COUNT_IN_TASKS_ABOVE = 0.5
# Rows that joins are planned by.
PLANNING_ROWS = 50_000
# How long after an action its metrics may take to arrive.
METRICS_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class SparkRun:
    """The results, and what to call once an action on them is done: `metrics` tells rows read, set aside, and
    overflows; `truncated` the queries of which a limit cut matches off.
    """

    result: DataFrame
    metrics: Callable[[], dict[str, int]]
    truncated: Callable[[], tuple[str, ...]]


def run(
    df: DataFrame,
    workload: Workload,
    *,
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
    options: Options | None = None,
    partitions: int | None = None,
    skew: Literal["auto", "off"] = "auto",
) -> SparkRun:
    """Run a workload over a batch DataFrame, classic or Connect.

    Nothing runs before an action on the result, save that `skew="auto"` samples the rows to find hot keys where a
    query can be cut by time, and that an optimizer that searches for joins samples them where it has no statistics.
    `partitions` is the number of tasks per branch: by default Spark's number of
    shuffle partitions, or fewer for few rows. Workers must be able to import motet.
    """
    if df.isStreaming:
        raise DataError("the DataFrame is a stream: give it to motet.run, or one that spark.read makes")
    events = prepare_events(df, time, type)
    schema = EventSchema(get_arrow_schema(events), time, type, time_unit)
    program = plan_joins(events, compile_workload(workload, schema, options or Options()))
    cached = CachedPickle(program)
    observation = Observation()
    results = [
        # Every branch reads all rows: the first counts those that are set aside.
        _aggregate_branch(events, cached, index, schema, partitions, skew == "auto", None if index else observation)
        for index in range(len(program.branches))
    ]
    truncations = [Observation() for _ in program.detect] if can_truncate(program) else []
    for index in range(len(program.detect)):
        counts, truncation = None if results else observation, truncations[index] if truncations else None
        results.append(_detect_branch(events, cached, index, schema, partitions, skew == "auto", counts, truncation))
    produced = Observation()
    result = reduce(DataFrame.union, results).observe(produced, count_overflows(program))

    def metrics() -> dict[str, int]:
        overflows = _read_observation(produced) or {"overflows": 0}
        return {**(_read_observation(observation) or _count_rows(events, schema)), **overflows}

    def truncated() -> tuple[str, ...]:
        names = [_read_observation(each).get(TRUNCATED) or "" for each in truncations]
        return tuple(sorted({name for listed in names for name in listed.split(",") if name}))

    return SparkRun(result, metrics, truncated)


def plan_joins(events: DataFrame, program: Program) -> Program:
    """Joins that an optimizer searches for are planned here, by a sample, and not again in every task."""
    branches = []
    for branch in program.detect:
        if needs_plan_search(branch, program.options):
            rows = _filter_relevant(events.select(*map(column, branch.columns)), branch, program.schema)
            share = min(1.0, PLANNING_ROWS / max(rows.count(), 1))
            sample = rows if share == 1.0 else rows.sample(fraction=share, seed=1)
            columns = pa.schema([program.schema.columns.field(name) for name in branch.columns])
            branch = plan_ahead(program, branch, sample.toArrow().cast(columns), share)
        branches.append(branch)
    return replace(program, detect=tuple(branches))


def _aggregate_branch(
    events: DataFrame,
    cached: CachedPickle[Program],
    index: int,
    schema: EventSchema,
    partitions: int | None,
    cut_hot_keys: bool,
    observation: Observation | None,
) -> DataFrame:
    """The results of queries that are aggregated online."""
    program = cached.value
    branch = program.branches[index]
    packed, spread = shuffle_events(events, branch, schema, partitions, cut_hot_keys, observation)
    task = make_branch_task(cached, index, spread)
    if not branch.needs_combine:
        return packed.mapInArrow(task, to_spark_schema(program.result_schema))
    partials = packed.mapInArrow(task, to_spark_schema(program.partial_schema))
    shuffled = _repartition_by_key(partials, program.merge_keys, partitions)
    return shuffled.mapInArrow(make_merge_task(cached), to_spark_schema(program.result_schema))


def _detect_branch(
    events: DataFrame,
    cached: CachedPickle[Program],
    index: int,
    schema: EventSchema,
    partitions: int | None,
    cut_hot_keys: bool,
    observation: Observation | None,
    truncation: Observation | None,
) -> DataFrame:
    """The results of queries whose matches are found."""
    program = cached.value
    branch = program.detect[index]
    # Two slices of a key may both find a match that adds to what is combined later, so such keys stay whole.
    cut_hot_keys = cut_hot_keys and not branch.needs_combine
    packed, spread = shuffle_events(events, branch, schema, partitions, cut_hot_keys, observation)
    task = make_detect_task(cached, index, spread)
    found = packed.mapInArrow(task, to_spark_schema(get_detect_schema(program, branch)))
    if truncation is not None:
        # A query that was cut short is named in a row of its own.
        noted = found.observe(truncation, collect_names(TRUNCATED))
        found = noted.filter(column(TRUNCATED).isNull()).drop(column(TRUNCATED))
    if not branch.needs_combine:
        return found
    shuffled = _repartition_by_key(found, program.contribution_keys, partitions)
    return shuffled.mapInArrow(make_contribution_task(cached), to_spark_schema(program.result_schema))


def shuffle_events(
    events: DataFrame,
    branch: Branch | DetectBranch,
    schema: EventSchema,
    partitions: int | None,
    cut_hot_keys: bool,
    observation: Observation | None,
) -> tuple[DataFrame, ShufflePlan]:
    """The rows that a branch reads, packed, each in the task of its key; and how they came there."""
    columns = pa.schema([schema.columns.field(name) for name in branch.columns])
    events = events.select(*map(column, branch.columns))
    files = find_plain_files(events, columns)
    layout, relevant_share = _choose_layout(events, files, columns, branch, schema, partitions, cut_hot_keys)
    types = None if branch.types is None else tuple(sorted(branch.types))
    spread = ShufflePlan(schema, columns, branch.partition, types, _can_encode_types(branch, schema), layout)
    if files:
        packed = _pack_files(files, spread, events.sparkSession, observation)
    elif observation is not None and relevant_share > COUNT_IN_TASKS_ABOVE:
        packed = _pack_and_count_rows(events, spread, observation)
    else:
        packed = _pack_rows(events, branch, spread, observation)
    to_tasks = packed.repartition(layout.tasks, "task") if layout.fixed else packed.repartition("task")
    return to_tasks, spread


def _pack_rows(
    events: DataFrame, branch: Branch | DetectBranch, spread: ShufflePlan, observation: Observation | None
) -> DataFrame:
    """Blobs of rows of any DataFrame, from which Spark leaves out those of no use."""
    schema = spread.schema
    # An observation ends with the first action that meets it, so the search for hot keys must not.
    read = events if observation is None else events.observe(observation, *_row_counts(schema))
    rows = _filter_relevant(read, branch, schema)
    if spread.coded:
        # Types as numbers: texts cost a fifth of the whole way from Spark to the engine.
        rows = rows.withColumn(schema.type, sf.crc32(column(schema.type)))
    return _number_columns(rows).mapInArrow(spread.pack_rows, to_spark_schema(PACKED))


def _pack_and_count_rows(events: DataFrame, spread: ShufflePlan, observation: Observation) -> DataFrame:
    """The same with all rows in the tasks, which leave out and count."""
    type = column(spread.schema.type)
    if spread.coded:
        named = sf.when(type.isin(list(spread.types or ())), sf.crc32(type))
        events = events.withColumn(spread.schema.type, named.when(type.isNotNull(), sf.lit(UNNAMED_TYPE)))
    packed = _number_columns(events).mapInArrow(spread.pack_and_count_rows, to_spark_schema(PACKED_WITH_COUNTS))
    return _observe_counts(packed, observation)


def _pack_files(
    files: Sequence[Path], spread: ShufflePlan, session: SparkSession, observation: Observation | None
) -> DataFrame:
    """Blobs of what parquet files hold, read in the tasks themselves."""
    tasks = split_files(files, session)
    numbers = session.range(0, len(tasks), 1, len(tasks))
    return _observe_counts(
        numbers.mapInArrow(spread.pack_files(tasks), to_spark_schema(PACKED_WITH_COUNTS)), observation
    )


def _observe_counts(packed: DataFrame, observation: Observation | None) -> DataFrame:
    """Blobs alone, once what tasks have counted beside them is observed."""
    if observation is not None:
        # As texts: each function called by its name would be a call to the JVM.
        packed = packed.observe(observation, *(sf.expr(f"coalesce(sum(`counted {n}`), 0L) AS {n}") for n in COUNTS))
    return packed.filter("task IS NOT NULL").select(*PACKED.names)


def _choose_layout(
    events: DataFrame,
    files: Sequence[Path],
    columns: pa.Schema,
    branch: Branch | DetectBranch,
    schema: EventSchema,
    partitions: int | None,
    cut_hot_keys: bool,
) -> tuple[TaskLayout, float]:
    """Where rows go: by a look into their files where that shows that no key is hot, else by a sample of them; and what
    share of them takes part, none where nobody has looked.
    """
    limit = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    layout = TaskLayout(partitions or limit, fixed=partitions is not None)
    relevant_share = 1.0 if branch.types is None else 0.0
    if cut_hot_keys and branch.overlap is not None and layout.tasks > HOT_KEY_FACTOR:
        seen = estimate_key_skew(files, branch.partition, schema.type, branch.types)
        even = plan_even_layout(seen.rows, seen.largest, limit, partitions) if seen else None
        if even:
            layout = even
        else:
            layout, relevant_share = _sample_layout(events, columns, branch, schema, branch.overlap, limit, partitions)
    return layout if branch.partition or layout.slices else TaskLayout(1), relevant_share


def _sample_layout(
    events: DataFrame,
    columns: pa.Schema,
    branch: Branch | DetectBranch,
    schema: EventSchema,
    overlap: int,
    limit: int,
    partitions: int | None,
) -> tuple[TaskLayout, float]:
    needed = list(dict.fromkeys((*branch.partition, schema.time)))
    chosen = events.sample(fraction=SAMPLE_FRACTION, seed=1).orderBy(sf.rand(seed=1)).limit(MAX_SAMPLE_ROWS)
    sample = chosen.select(*map(column, needed), _is_relevant(events, branch, schema).alias(IS_RELEVANT)).toArrow()
    rows = sample.filter(sample[IS_RELEVANT]).drop_columns(IS_RELEVANT)
    rows = rows.cast(pa.schema([columns.field(name) for name in needed]))
    hashes, times = hash_keys(rows, branch.partition), read_times(rows, schema)
    return plan_layout(hashes, times, SAMPLE_FRACTION, overlap, limit, partitions), len(rows) / max(len(sample), 1)


def _filter_relevant(events: DataFrame, branch: Branch | DetectBranch, schema: EventSchema) -> DataFrame:
    return events.filter(_is_relevant(events, branch, schema))


def _is_relevant(events: DataFrame, branch: Branch | DetectBranch, schema: EventSchema) -> Column:
    """Whether a branch needs a row: one without a time, a type or a key takes no part."""
    whole = has_values(events, (schema.time, schema.type, *branch.partition))
    return whole if branch.types is None else whole & column(schema.type).isin(sorted(branch.types))


def _number_columns(events: DataFrame) -> DataFrame:
    """The same columns named by their place: mapInArrow takes a dot in a name for a field of a struct."""
    return events.toDF(*(f"c{place}" for place in range(len(events.columns))))


def _can_encode_types(branch: Branch | DetectBranch, schema: EventSchema) -> bool:
    """Whether types travel as numbers: where those tell all of them apart."""
    if branch.types is None or schema.type in branch.partition:
        return False
    return len(set(map(encode_type, branch.types))) == len(branch.types)


def _repartition_by_key(rows: DataFrame, keys: tuple[str, ...], partitions: int | None) -> DataFrame:
    """Rows of equal keys in one partition."""
    if not keys:
        return rows.repartition(1)
    by = [column(key) for key in keys]
    # Without a number, Spark may join small partitions into one task.
    return rows.repartition(*by) if partitions is None else rows.repartition(partitions, *by)


def _count_rows(events: DataFrame, schema: EventSchema) -> dict[str, int]:
    """The same counts by a job of their own: where nothing is left to do, Spark skips what would have observed them."""
    (counts,) = events.agg(*_row_counts(schema)).collect()
    return counts.asDict()


def _row_counts(schema: EventSchema) -> list[Column]:
    no_time, no_type = column(schema.time).isNull(), column(schema.type).isNull()
    return [
        sf.count(sf.lit(1)).alias("rows"),
        sf.count_if(no_time).alias("null_times"),
        sf.count_if(no_type).alias("null_types"),
        sf.count_if(no_time | no_type).alias("set_aside"),
    ]


def collect_names(name: str) -> Column:
    """All names in a column, as one text."""
    return sf.array_join(sf.array_sort(sf.collect_set(column(name))), ",").alias(name)


def count_overflows(program: Program) -> Column:
    """How many exact counts are null because they exceed 64 bits."""
    # One literal for all names: a call to the JVM for each would take longer than a small query.
    missing = [
        sf.count_if(column(label).isNull() & (sf.find_in_set(column("query"), sf.lit(",".join(names))) > 0))
        for label, names in program.count_columns.items()
    ]
    overflows = reduce(Column.__add__, missing, sf.lit(0).cast("bigint"))
    return sf.coalesce(overflows, sf.lit(0)).alias("overflows")


def _read_observation(observation: Observation) -> dict[str, Any]:
    """What the first action on the result counted; nothing where Spark skipped that part of it."""
    found: list[dict[str, Any]] = []

    def get() -> None:
        try:
            found.append(observation.get)
        except Exception:  # noqa: BLE001 - a classic session fails in many ways to read an observation that saw nothing
            found.append({})

    # Without an action a classic session would wait without end.
    waiting = threading.Thread(target=get, daemon=True)
    waiting.start()
    waiting.join(METRICS_TIMEOUT)
    if not found:
        raise RunError("metrics come with the first action on the result: none has run yet")
    return found[0]
