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

from motet.engine import Branch, EventSchema, Options, Program, compile_workload
from motet.engine.detect.planning import planned_ahead, searches
from motet.engine.detect.program import DetectBranch
from motet.engine.encode import times_of
from motet.errors import DataError, RunError
from motet.model.query import Workload
from motet.spark.glance import glance
from motet.spark.parquet import files_behind, pieces
from motet.spark.shipping import Shipped
from motet.spark.skew import HOT, Layout, even_layout, find_layout, key_hashes
from motet.spark.spreading import COUNTED, COUNTS, NO_CODE, PACKED, Spread, type_code
from motet.spark.tables import arrow_schema, as_events, column, present, spark_schema
from motet.spark.tasks import (
    TRUNCATED,
    branch_task,
    contribution_task,
    detect_task,
    found_schema,
    may_truncate,
    merge_task,
)

# The part of the rows that is looked at to find hot keys and where in time their rows are: enough of any that are worth
# a task to tell their number within a fifth or so.
SAMPLED = 0.001
TAKES_PART = "#takes part"
# More rows of a sample than these say no more.
MOST_SAMPLED = 1_000_000
# Where a branch takes more than this share of the rows, all of them go to its tasks, which count what they set aside:
# that costs less than to have Spark observe them, unless it would bring mostly rows of no use.
MOST_TAKEN = 0.5
# Rows that joins are planned by.
PLANNED_ROWS = 50_000
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
    events = as_events(df, time, type)
    schema = EventSchema(arrow_schema(events), time, type, time_unit)
    program = planned(events, compile_workload(workload, schema, options or Options()))
    shipped = Shipped(program)
    observation = Observation()
    results = [
        # Every branch reads all rows: the first counts those that are set aside.
        _branch_results(events, shipped, index, schema, partitions, skew == "auto", None if index else observation)
        for index in range(len(program.branches))
    ]
    cut_short = [Observation() for _ in program.detect] if may_truncate(program) else []
    for index in range(len(program.detect)):
        counts, cuts = None if results else observation, cut_short[index] if cut_short else None
        results.append(_detect_results(events, shipped, index, schema, partitions, skew == "auto", counts, cuts))
    produced = Observation()
    result = reduce(DataFrame.union, results).observe(produced, count_of_overflows(program))

    def metrics() -> dict[str, int]:
        overflows = _observed(produced) or {"overflows": 0}
        return {**(_observed(observation) or _counted(events, schema)), **overflows}

    def truncated() -> tuple[str, ...]:
        names = [_observed(each).get(TRUNCATED) or "" for each in cut_short]
        return tuple(sorted({name for listed in names for name in listed.split(",") if name}))

    return SparkRun(result, metrics, truncated)


def planned(events: DataFrame, program: Program) -> Program:
    """Joins that an optimizer searches for are planned here, by a sample, and not again in every task."""
    branches = []
    for branch in program.detect:
        if searches(branch, program.options):
            rows = _relevant(events.select(*map(column, branch.columns)), branch, program.schema)
            share = min(1.0, PLANNED_ROWS / max(rows.count(), 1))
            sample = rows if share == 1.0 else rows.sample(fraction=share, seed=1)
            columns = pa.schema([program.schema.columns.field(name) for name in branch.columns])
            branch = planned_ahead(program, branch, sample.toArrow().cast(columns), share)
        branches.append(branch)
    return replace(program, detect=tuple(branches))


def _branch_results(
    events: DataFrame,
    shipped: Shipped[Program],
    index: int,
    schema: EventSchema,
    partitions: int | None,
    cut_hot_keys: bool,
    observation: Observation | None,
) -> DataFrame:
    """The results of queries that are aggregated online."""
    program = shipped.value
    branch = program.branches[index]
    packed, spread = spread_over_tasks(events, branch, schema, partitions, cut_hot_keys, observation)
    task = branch_task(shipped, index, spread)
    if not branch.needs_combine:
        return packed.mapInArrow(task, spark_schema(program.result_schema))
    partials = packed.mapInArrow(task, spark_schema(program.partial_schema))
    together = _by_key(partials, program.merge_keys, partitions)
    return together.mapInArrow(merge_task(shipped), spark_schema(program.result_schema))


def _detect_results(
    events: DataFrame,
    shipped: Shipped[Program],
    index: int,
    schema: EventSchema,
    partitions: int | None,
    cut_hot_keys: bool,
    observation: Observation | None,
    cuts: Observation | None,
) -> DataFrame:
    """The results of queries whose matches are found."""
    program = shipped.value
    branch = program.detect[index]
    # Two slices of a key may both find a match that adds to what is combined later, so such keys stay whole.
    cut_hot_keys = cut_hot_keys and not branch.needs_combine
    packed, spread = spread_over_tasks(events, branch, schema, partitions, cut_hot_keys, observation)
    task = detect_task(shipped, index, spread)
    found = packed.mapInArrow(task, spark_schema(found_schema(program, branch)))
    if cuts is not None:
        # A query that was cut short is named in a row of its own.
        noted = found.observe(cuts, names_in(TRUNCATED))
        found = noted.filter(column(TRUNCATED).isNull()).drop(column(TRUNCATED))
    if not branch.needs_combine:
        return found
    together = _by_key(found, program.contribution_keys, partitions)
    return together.mapInArrow(contribution_task(shipped), spark_schema(program.result_schema))


def spread_over_tasks(
    events: DataFrame,
    branch: Branch | DetectBranch,
    schema: EventSchema,
    partitions: int | None,
    cut_hot_keys: bool,
    observation: Observation | None,
) -> tuple[DataFrame, Spread]:
    """The rows that a branch reads, packed, each in the task of its key; and how they came there."""
    columns = pa.schema([schema.columns.field(name) for name in branch.columns])
    events = events.select(*map(column, branch.columns))
    files = files_behind(events, columns)
    layout, taken = _layout(events, files, columns, branch, schema, partitions, cut_hot_keys)
    types = None if branch.types is None else tuple(sorted(branch.types))
    spread = Spread(schema, columns, branch.partition, types, _are_coded(branch, schema), layout)
    if files:
        packed = _packed_files(files, spread, events.sparkSession, observation)
    elif observation is not None and taken > MOST_TAKEN:
        packed = _packed_and_counted_rows(events, spread, observation)
    else:
        packed = _packed_rows(events, branch, spread, observation)
    to_tasks = packed.repartition(layout.tasks, "task") if layout.fixed else packed.repartition("task")
    return to_tasks, spread


def _packed_rows(
    events: DataFrame, branch: Branch | DetectBranch, spread: Spread, observation: Observation | None
) -> DataFrame:
    """Blobs of rows of any DataFrame, from which Spark leaves out those of no use."""
    schema = spread.schema
    # An observation ends with the first action that meets it, so the search for hot keys must not.
    read = events if observation is None else events.observe(observation, *_counts(schema))
    rows = _relevant(read, branch, schema)
    if spread.coded:
        # Types as numbers: texts cost a fifth of the whole way from Spark to the engine.
        rows = rows.withColumn(schema.type, sf.crc32(column(schema.type)))
    return _by_place(rows).mapInArrow(spread.pack_rows, spark_schema(PACKED))


def _packed_and_counted_rows(events: DataFrame, spread: Spread, observation: Observation) -> DataFrame:
    """The same with all rows in the tasks, which leave out and count."""
    type = column(spread.schema.type)
    if spread.coded:
        named = sf.when(type.isin(list(spread.types or ())), sf.crc32(type))
        events = events.withColumn(spread.schema.type, named.when(type.isNotNull(), sf.lit(NO_CODE)))
    packed = _by_place(events).mapInArrow(spread.pack_and_count_rows, spark_schema(COUNTED))
    return _without_counts(packed, observation)


def _packed_files(
    files: Sequence[Path], spread: Spread, session: SparkSession, observation: Observation | None
) -> DataFrame:
    """Blobs of what parquet files hold, read in the tasks themselves."""
    tasks = pieces(files, session)
    numbers = session.range(0, len(tasks), 1, len(tasks))
    return _without_counts(numbers.mapInArrow(spread.pack_files(tasks), spark_schema(COUNTED)), observation)


def _without_counts(packed: DataFrame, observation: Observation | None) -> DataFrame:
    """Blobs alone, once what tasks have counted beside them is observed."""
    if observation is not None:
        # As texts: each function called by its name would be a call to the JVM.
        packed = packed.observe(observation, *(sf.expr(f"coalesce(sum(`counted {n}`), 0L) AS {n}") for n in COUNTS))
    return packed.filter("task IS NOT NULL").select(*PACKED.names)


def _layout(
    events: DataFrame,
    files: Sequence[Path],
    columns: pa.Schema,
    branch: Branch | DetectBranch,
    schema: EventSchema,
    partitions: int | None,
    cut_hot_keys: bool,
) -> tuple[Layout, float]:
    """Where rows go: by a look into their files where that shows that no key is hot, else by a sample of them; and what
    share of them takes part, none where nobody has looked.
    """
    limit = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    layout = Layout(partitions or limit, fixed=partitions is not None)
    taken = 1.0 if branch.types is None else 0.0
    if cut_hot_keys and branch.halo is not None and layout.tasks > HOT:
        seen = glance(files, branch.partition, schema.type, branch.types)
        even = even_layout(seen.rows, seen.largest, limit, partitions) if seen else None
        if even:
            layout = even
        else:
            layout, taken = _sampled_layout(events, columns, branch, schema, branch.halo, limit, partitions)
    return layout if branch.partition or layout.slices else Layout(1), taken


def _sampled_layout(
    events: DataFrame,
    columns: pa.Schema,
    branch: Branch | DetectBranch,
    schema: EventSchema,
    halo: int,
    limit: int,
    partitions: int | None,
) -> tuple[Layout, float]:
    needed = list(dict.fromkeys((*branch.partition, schema.time)))
    chosen = events.sample(fraction=SAMPLED, seed=1).orderBy(sf.rand(seed=1)).limit(MOST_SAMPLED)
    sample = chosen.select(*map(column, needed), _takes_part(events, branch, schema).alias(TAKES_PART)).toArrow()
    rows = sample.filter(sample[TAKES_PART]).drop_columns(TAKES_PART)
    rows = rows.cast(pa.schema([columns.field(name) for name in needed]))
    hashes, times = key_hashes(rows, branch.partition), times_of(rows, schema)
    return find_layout(hashes, times, SAMPLED, halo, limit, partitions), len(rows) / max(len(sample), 1)


def _relevant(events: DataFrame, branch: Branch | DetectBranch, schema: EventSchema) -> DataFrame:
    return events.filter(_takes_part(events, branch, schema))


def _takes_part(events: DataFrame, branch: Branch | DetectBranch, schema: EventSchema) -> Column:
    """Whether a branch needs a row: one without a time, a type or a key takes no part."""
    whole = present(events, (schema.time, schema.type, *branch.partition))
    return whole if branch.types is None else whole & column(schema.type).isin(sorted(branch.types))


def _by_place(events: DataFrame) -> DataFrame:
    """The same columns named by their place: mapInArrow takes a dot in a name for a field of a struct."""
    return events.toDF(*(f"c{place}" for place in range(len(events.columns))))


def _are_coded(branch: Branch | DetectBranch, schema: EventSchema) -> bool:
    """Whether types travel as numbers: where those tell all of them apart."""
    if branch.types is None or schema.type in branch.partition:
        return False
    return len(set(map(type_code, branch.types))) == len(branch.types)


def _by_key(rows: DataFrame, keys: tuple[str, ...], partitions: int | None) -> DataFrame:
    """Rows of equal keys in one partition."""
    if not keys:
        return rows.repartition(1)
    by = [column(key) for key in keys]
    # Without a number, Spark may join small partitions into one task.
    return rows.repartition(*by) if partitions is None else rows.repartition(partitions, *by)


def _counted(events: DataFrame, schema: EventSchema) -> dict[str, int]:
    """The same counts by a job of their own: where nothing is left to do, Spark skips what would have observed them."""
    (counts,) = events.agg(*_counts(schema)).collect()
    return counts.asDict()


def _counts(schema: EventSchema) -> list[Column]:
    no_time, no_type = column(schema.time).isNull(), column(schema.type).isNull()
    return [
        sf.count(sf.lit(1)).alias("rows"),
        sf.count_if(no_time).alias("null_times"),
        sf.count_if(no_type).alias("null_types"),
        sf.count_if(no_time | no_type).alias("set_aside"),
    ]


def names_in(name: str) -> Column:
    """All names in a column, as one text."""
    return sf.array_join(sf.array_sort(sf.collect_set(column(name))), ",").alias(name)


def count_of_overflows(program: Program) -> Column:
    """How many exact counts are null because they exceed 64 bits."""
    queries: dict[str, list[str]] = {}
    for compiled in program.queries.values():
        for output in compiled.outputs:
            if output.function == "COUNT":
                queries.setdefault(output.label, []).append(compiled.query.name)
    # One literal for all names: a call to the JVM for each would take longer than a small query.
    missing = [
        sf.count_if(column(label).isNull() & (sf.find_in_set(column("query"), sf.lit(",".join(names))) > 0))
        for label, names in queries.items()
    ]
    overflows = reduce(Column.__add__, missing, sf.lit(0).cast("bigint"))
    return sf.coalesce(overflows, sf.lit(0)).alias("overflows")


def _observed(observation: Observation) -> dict[str, Any]:
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
