"""Run a program over a batch of events on Spark: rows to the tasks of their keys, results of all tasks combined."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from motet.compile import Branch, Program
from motet.compile.detect import DetectBranch
from motet.engine.encode import read_times
from motet.engine.local import required_columns
from motet.errors import DataError, RunError
from motet.io.events import EventSource
from motet.io.sample import list_sampled_columns
from motet.model.query import Workload
from motet.options import Options
from motet.plans.execution import ExecutionRecord
from motet.schema import EventSchema
from motet.spark.buckets import hash_text
from motet.spark.dataframes import (
    column,
    derive_columns,
    get_event_schema,
    has_values,
    open_dataframe,
    prepare_events,
    to_spark_schema,
)
from motet.spark.parquet import FileScan, split_files
from motet.spark.sample import RowSampler, compile_for, make_sampler
from motet.spark.serialization import CachedPickle
from motet.spark.session import local_session
from motet.spark.shuffle import COUNTS, PACKED, ShufflePlan
from motet.spark.skew import (
    HOT_KEY_FACTOR,
    ROWS_PER_TASK,
    TaskLayout,
    estimate_key_skew,
    hash_keys,
    plan_even_layout,
    plan_layout,
)
from motet.spark.tasks import (
    NOTE,
    NoteKind,
    find_records,
    get_task_schema,
    make_branch_task,
    make_combine_task,
    read_notes,
)

# The share of the rows that is sampled to find hot keys and where in time their rows are: enough to estimate the rows
# of any key that is worth a task within a fifth or so.
SAMPLE_FRACTION = 0.001
MAX_SAMPLE_ROWS = 1_000_000
# If a branch takes more than this share of the rows, all of them go to its tasks, which count those that are set aside:
# that costs less than to have Spark observe them, unless it would bring mostly rows of no use.
COUNT_IN_TASKS_ABOVE = 0.5
# Seconds that the metrics of an action may take to arrive where the driver is busy.
METRICS_TIMEOUT = 60.0


@dataclass(frozen=True)
class SparkRun:
    """A batch run on Spark. `results` is lazy; after an action on it, `metrics`, `executed` and `truncated` say how it
    went.

    `results.motet` is this object, so that whoever has the DataFrame can ask.
    """

    results: DataFrame
    program: Program
    _events: DataFrame = field(repr=False)
    _read: Observation = field(repr=False)
    _produced: Observation = field(repr=False)
    _notes: tuple[Observation, ...] = field(repr=False)

    def __post_init__(self) -> None:
        setattr(self.results, "motet", self)  # noqa: B010 - pyspark does not declare it

    def metrics(self) -> dict[str, int]:
        """Return the rows read, those set aside (and why), and the exact counts that overflowed.

        Raises:
            RunError: No action on the results has run yet.
        """
        overflows = _read_observation(self._produced) or {"overflows": 0}
        counts = _read_observation(self._read)
        if not counts:
            # If there is nothing to do, Spark skips what would have counted.
            counts = self._events.agg(*_row_counts(self.program.schema)).collect()[0].asDict()
        return {**counts, **overflows}

    def executed(self) -> list[ExecutionRecord]:
        """Return what tasks said they executed, unit by unit; units that no event concerned are not among them.

        Raises:
            RunError: No action on the results has run yet.
        """
        return find_records(self.program, self._read_notes("executed"))

    def truncated(self) -> tuple[str, ...]:
        """Return the queries of which a limit cut matches off.

        Raises:
            RunError: No action on the results has run yet.
        """
        return tuple(sorted(set(self._read_notes("truncated"))))

    def _read_notes(self, kind: NoteKind) -> list[Any]:
        texts = [_read_observation(each).get(NOTE) or "" for each in self._notes]
        return read_notes([line for text in texts for line in text.splitlines()], kind)


def compile_and_run(events: DataFrame, workload: Workload, options: Options) -> SparkRun:
    """Run a workload over a batch of events: one look at their first rows serves its plan and the search for hot keys.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
        DataError: The DataFrame is a stream, or lacks a column.
    """
    _require_batch(events)
    schema = get_event_schema(events, options)
    sampler = make_sampler(events, list_sampled_columns(workload, schema), schema)
    return run(events, compile_for(events, workload, options, sampler), sampler=sampler)


def run(
    events: DataFrame | EventSource | pa.Table,
    program: Program,
    session: SparkSession | None = None,
    *,
    partitions: int | None = None,
    skew: Literal["auto", "off"] = "auto",
    sampler: RowSampler | None = None,
) -> SparkRun:
    """Run a program over a batch of events, on a classic or Connect session.

    Nothing runs before an action on the results, except that `skew="auto"` samples the rows to find hot keys where a
    query can be cut by time. What optimizers search for was found when the program was compiled (`compile_for`).

    Args:
        events: A DataFrame, opened event files or a table, with the columns that the program was compiled for.
        program: The compiled workload.
        session: Where files and tables are read; by default a local session.
        partitions: The number of tasks per branch; by default Spark's shuffle partitions, or fewer for few rows.
        skew: Whether keys with too many rows for one task are found and cut.
        sampler: What has sampled the events already.

    Raises:
        DataError: The DataFrame is a stream, or its columns do not fit.
    """
    if not isinstance(events, DataFrame):
        events = open_dataframe(events, session or local_session())
    if sampler is None:  # else it is a batch, which Spark Connect would have to be asked
        _require_batch(events)
    options = program.options
    events = prepare_events(events, options.time, options.time_unit)
    # Spark's types may differ from those of the files that the program was compiled for.
    program = replace(program, schema=get_event_schema(events, options))
    events = derive_columns(events, program.schema, required_columns(program))
    sampler = sampler or make_sampler(events, required_columns(program), program.schema)
    job = BatchJob(events, CachedPickle(program), partitions, skew == "auto", sampler)
    read, produced = Observation(), Observation()
    notes = tuple(Observation() for _ in program.all_branches)
    # Every branch reads all rows: the first counts them.
    results = [job.run_branch(at, None if at else read, each) for at, each in enumerate(notes)]
    observed = reduce(DataFrame.union, results).observe(produced, count_overflows(program))
    return SparkRun(hide_inexact_sums(observed, program), program, events, read, produced, notes)


def _require_batch(events: DataFrame) -> None:
    if events.isStreaming:
        raise DataError("the DataFrame is a stream: give it to motet.stream, or one that spark.read makes to motet.run")


@dataclass(frozen=True)
class BatchJob:
    """A program over a DataFrame: `partitions` is the number of tasks per branch (None: as rows need)."""

    events: DataFrame
    cached: CachedPickle[Program]
    partitions: int | None
    cut_hot_keys: bool
    sampler: RowSampler

    @cached_property
    def program(self) -> Program:
        return self.cached.value

    def run_branch(self, index: int, observation: Observation | None, notes: Observation) -> DataFrame:
        """Return the results of a branch, and observe the rows that it reads and the notes of its tasks."""
        program, branch = self.program, self.program.all_branches[index]
        packed, plan = self.shuffle(branch, observation)
        schema = to_spark_schema(get_task_schema(program, branch))
        results = packed.mapInArrow(make_branch_task(self.cached, index, plan), schema)
        results = results.observe(notes, collect_texts(NOTE, "\n"))
        results = results.filter(column(NOTE).isNull()).drop(column(NOTE))
        if not branch.needs_combine:
            return results
        detects = isinstance(branch, DetectBranch)
        keys = [column(key) for key in (program.contribution_keys if detects else program.merge_keys)]
        # Without a number, Spark may merge small partitions into one task.
        parts = results.repartition(*keys) if self.partitions is None else results.repartition(self.partitions, *keys)
        combine = make_combine_task(self.cached, detects)
        return _number_columns(parts, len(schema) - 1).mapInArrow(combine, to_spark_schema(program.result_schema))

    def shuffle(self, branch: Branch | DetectBranch, observation: Observation | None) -> tuple[DataFrame, ShufflePlan]:
        """Return the rows that a branch reads, packed, each in the task of its key; and how they were packed."""
        schema = self.program.schema
        columns = pa.schema([schema.columns.field(name) for name in branch.columns])
        events = self.events.select(*map(column, branch.columns))
        scan = self.sampler.find_scan(events, columns)
        layout, relevant_share = self._choose_layout(events, scan, columns, branch)
        types = None if branch.types is None else tuple(sorted(branch.types))
        plan = ShufflePlan(schema, columns, branch.partition, types, _can_encode_types(branch, schema), layout)
        if scan is not None:
            tasks = split_files(scan.files, events.sparkSession)
            numbers = events.sparkSession.range(0, len(tasks), 1, len(tasks))
            pack = plan.pack_files(tasks, scan)
            packed = _observe_counts(numbers.mapInArrow(pack, to_spark_schema(PACKED)), observation)
        elif observation is not None and relevant_share > COUNT_IN_TASKS_ABOVE:
            packed = _observe_counts(_pack_rows(events, plan, filtered=False), observation)
        else:
            # An observation ends with the first action that meets it, so it must not be the search for hot keys.
            read = events if observation is None else events.observe(observation, *_row_counts(schema))
            packed = _observe_counts(_pack_rows(read.filter(_is_relevant(events, branch, schema)), plan, filtered=True))
        return packed.repartition(layout.tasks, "task") if layout.fixed else packed.repartition("task"), plan

    def _choose_layout(
        self, events: DataFrame, scan: FileScan | None, columns: pa.Schema, branch: Branch | DetectBranch
    ) -> tuple[TaskLayout, float]:
        """Return where rows go, and which share of them is relevant (0 if unknown).

        Files may show that no key is hot; else the rows are sampled.
        """
        limit = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
        layout = TaskLayout(self.partitions or limit, fixed=self.partitions is not None)
        share = 1.0 if branch.types is None else 0.0
        # Two slices of a key may both find a match that adds to what is combined later, so such keys stay whole.
        is_whole = isinstance(branch, DetectBranch) and branch.needs_combine
        if self.cut_hot_keys and branch.overlap is not None and layout.tasks > HOT_KEY_FACTOR and not is_whole:
            origin = scan or self.sampler.cheap_origin
            keys, type = branch.partition, self.program.schema.type
            seen = None if origin is None else estimate_key_skew(origin, keys, type, branch.types)
            even = None if seen is None else plan_even_layout(seen.rows, seen.largest, limit, self.partitions)
            if seen is not None and even is not None:
                # How many rows Spark computes of those in files is not known.
                layout, share = layout if scan is None else even, seen.share
            else:
                layout, share = self._sample_layout(events, columns, branch, branch.overlap, limit)
        return layout if branch.partition or layout.slices else TaskLayout(1), share

    def _sample_layout(
        self, events: DataFrame, columns: pa.Schema, branch: Branch | DetectBranch, overlap: int, limit: int
    ) -> tuple[TaskLayout, float]:
        """Return where rows go by a sample of them, and which share of them is relevant.

        The first rows of Spark's partitions may show that no key is hot. Where one may be, and there are too few
        partitions to tell where in time its rows are, a sample of all rows is taken, for which Spark computes them once
        more.
        """
        tasks, first = self.partitions or limit, self.sampler.first_rows
        rows = first.take_evenly()
        relevant = self._select_relevant(rows, columns, branch)
        share = len(relevant) / max(len(rows), 1)
        # How much follows is not known: enough for all tasks is assumed.
        fraction = len(relevant) / max(len(relevant), tasks * ROWS_PER_TASK) if len(first.cut) else 1.0
        is_cut, is_even = len(first.cut) > 0, not _has_heavy_key(relevant, branch.partition, tasks)
        if is_cut and first.like_rest and is_even:
            return TaskLayout(tasks, fixed=self.partitions is not None), share
        if is_cut and not (first.like_rest and len(first.cut) >= tasks):
            rows = _sample_all(events.select(*map(column, relevant.column_names)))
            relevant = self._select_relevant(rows, columns, branch)
            share, fraction = len(relevant) / max(len(rows), 1), SAMPLE_FRACTION
        hashes, times = hash_keys(relevant, branch.partition), read_times(relevant, self.program.schema)
        return plan_layout(hashes, times, fraction, overlap, limit, self.partitions), share

    def _select_relevant(self, rows: pa.Table, columns: pa.Schema, branch: Branch | DetectBranch) -> pa.Table:
        """Return the keys, times and types of the rows that a branch needs: see `_is_relevant`."""
        schema = self.program.schema
        names = list(dict.fromkeys((*branch.partition, schema.time, schema.type)))
        rows = rows.select(names).cast(pa.schema([columns.field(name) for name in names])).drop_null()
        for name in branch.partition:
            if pa.types.is_floating(rows[name].type):
                rows = rows.filter(pc.invert(pc.is_nan(rows[name])))
        if branch.types is None:
            return rows
        return rows.filter(pc.is_in(rows[schema.type].cast(pa.string()), pa.array(sorted(branch.types), pa.string())))


def _has_heavy_key(rows: pa.Table, keys: Sequence[str], tasks: int) -> bool:
    """Return whether a key may, by some of the rows, hold too many of them for one of so many tasks."""
    if not len(rows):
        return False
    counts = np.unique(hash_keys(rows, keys), return_counts=True)[1]
    return plan_even_layout(tasks * ROWS_PER_TASK, float(counts.max()) / len(rows), tasks, tasks) is None


def _sample_all(rows: DataFrame) -> pa.Table:
    """Return a random sample of rows, `SAMPLE_FRACTION` of them, for which Spark computes all of them."""
    return rows.sample(fraction=SAMPLE_FRACTION, seed=1).orderBy(sf.rand(seed=1)).limit(MAX_SAMPLE_ROWS).toArrow()


def _pack_rows(rows: DataFrame, plan: ShufflePlan, *, filtered: bool) -> DataFrame:
    """Pack rows of any DataFrame, from which Spark may have filtered those that are relevant."""
    type = column(plan.schema.type).cast("string")  # compared byte by byte, whatever the collation of the column
    if plan.coded:
        # Types as numbers: texts cost a fifth of the whole way from Spark to the engine.
        code = sf.hash(type)
        if not filtered:
            code = sf.when(type.isin(list(plan.types or ())), code).when(type.isNotNull(), sf.lit(plan.unnamed_type))
        rows = rows.withColumn(plan.schema.type, code)
    return _number_columns(rows, len(plan.columns)).mapInArrow(plan.pack_rows, to_spark_schema(PACKED))


def _number_columns(rows: DataFrame, count: int) -> DataFrame:
    """Return rows of so many columns with names that mapInArrow takes: it would read a dot as the way to a field of a
    struct.
    """
    return rows.toDF(*(f"c{at}" for at in range(count)))


def _observe_counts(packed: DataFrame, observation: Observation | None = None) -> DataFrame:
    """Return the blobs alone, once what tasks have counted beside them is observed."""
    if observation is not None:
        # As texts: each function called by its name would be a call to the JVM.
        packed = packed.observe(observation, *(sf.expr(f"coalesce(sum(`counted {n}`), 0L) AS {n}") for n in COUNTS))
    return packed.filter("task IS NOT NULL").select("task", "place", "rows")


def _is_relevant(events: DataFrame, branch: Branch | DetectBranch, schema: EventSchema) -> Column:
    """Return whether a branch needs a row: one of its types, with a time, a type and a key."""
    whole = has_values(events, (schema.time, schema.type, *branch.partition))
    return whole if branch.types is None else whole & column(schema.type).isin(sorted(branch.types))


def _can_encode_types(branch: Branch | DetectBranch, schema: EventSchema) -> bool:
    """Return whether types can travel as hashes: no two of them have the same."""
    if branch.types is None or schema.type in branch.partition:
        return False
    return len(set(map(hash_text, branch.types))) == len(branch.types)


def _row_counts(schema: EventSchema) -> list[Column]:
    no_time, no_type = column(schema.time).isNull(), column(schema.type).isNull()
    counts = sf.count(sf.lit(1)), sf.count_if(no_time), sf.count_if(no_type), sf.count_if(no_time | no_type)
    return [count.alias(name) for count, name in zip(counts, COUNTS, strict=True)]


def collect_texts(name: str, separator: str = ",") -> Column:
    """Return all texts in a column, each once, as one text."""
    return sf.array_join(sf.array_sort(sf.collect_set(column(name))), separator).alias(name)


def count_overflows(program: Program) -> Column:
    """Return how many exact counts are null because they exceed 64 bits, and how many sums are not exact."""
    # One literal for all names: a call to the JVM for each would take longer than a small query.
    missing = [
        sf.count_if(column(label).isNull() & (sf.find_in_set(column("query"), sf.lit(",".join(names))) > 0))
        for label, names in program.count_columns.items()
    ]
    missing += [
        sf.count_if(sf.isnan(column(label)) & (sf.find_in_set(column("query"), sf.lit(",".join(names))) > 0))
        for label, names in program.whole_sums.items()
    ]
    overflows = reduce(Column.__add__, missing, sf.lit(0).cast("bigint"))
    return sf.coalesce(overflows, sf.lit(0)).alias("overflows")


def hide_inexact_sums(results: DataFrame, program: Program) -> DataFrame:
    """Make sums null that were given as NaN for not being exact."""
    sums = {label: sf.when(~sf.isnan(column(label)), column(label)) for label in program.whole_sums}
    return results.withColumns(sums) if sums else results


def _read_observation(observation: Observation) -> dict[str, Any]:
    """Return what the first action on the results observed; nothing if Spark skipped that part of it."""
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
