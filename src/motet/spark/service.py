"""A stream as a service: any Spark source to any Spark sink, queries from a file that may change while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from motet.compile import Program
from motet.engine.replan import ReplanPolicy, keep_grouping
from motet.errors import DataError, MotetError, QueryError
from motet.io.writers import json_lines
from motet.language import read
from motet.model.query import Workload
from motet.options import Options, OutputMode
from motet.plans.sharing import Sharing
from motet.spark.dataframes import column
from motet.spark.monitor import StreamMonitor
from motet.spark.replanner import StreamReplanner
from motet.spark.stream import compile_stream, run

JSON_LINES = "lines"  # json lines on standard output
FILE_FORMATS = ("parquet", "orc", "delta", "csv", "json", "text")


@dataclass(frozen=True)
class StreamSource:
    """Where rows come from. `json` is the schema of a text column `value` to read as JSON (Kafka); `select` are SQL
    expressions that make the columns that queries name.
    """

    format: str
    options: dict[str, str] = field(default_factory=dict)
    schema: str | None = None
    json: str | None = None
    select: tuple[str, ...] = ()


@dataclass(frozen=True)
class StreamSink:
    """Where results go. `late` is a folder for rows that came too late, as JSON lines."""

    format: str = JSON_LINES
    options: dict[str, str] = field(default_factory=dict)
    late: str | None = None


@dataclass(frozen=True)
class StreamJob:
    """All that a stream needs but its queries."""

    source: StreamSource
    sink: StreamSink
    checkpoint: str
    watermark: str
    time: str = "time"
    type: str = "type"
    time_unit: str = "s"
    options: Options = field(default_factory=Options)
    mode: OutputMode = "append"
    buckets: int | None = None
    trigger: str | None = None  # an interval; None: as fast as it can
    once: bool = False  # stop when all that is there now is read
    adapting: ReplanPolicy = field(default_factory=ReplanPolicy)


class StreamService:
    """Starts a job, restarts it when its queries change, and tells how it goes."""

    def __init__(
        self,
        session: SparkSession,
        job: StreamJob,
        file: Path,
        say: Callable[[str], None],
        write: Callable[[str], None],
    ) -> None:
        self.session = session
        self.job = job
        self.file = file
        self.say = say
        self.write = write
        self.last_rejection = ""
        self.workload = read(file)
        self.monitor = StreamMonitor(self._query_names(), say, run_id="")
        session.streams.addListener(self.monitor)
        self.sharing: Sharing | None = None
        self.replanner = StreamReplanner(job.adapting, self.plan())
        self.query = self._start()

    def run(self, *, watch: bool, every: float, show: Callable[[str], None]) -> None:
        """Until the stream ends: show its status every so many seconds, and look for changed queries."""
        try:
            while not self._has_ended(every):
                show(self.monitor.status())
                if watch:
                    self.reload_queries()
                self.adapt()
            show(self.monitor.status())
        finally:
            self.stop()

    def _has_ended(self, seconds: float) -> bool:
        # Parts of a second are taken as well, whatever its annotation says.
        return bool(self.query.awaitTermination(seconds))  # type: ignore[arg-type]

    def reload_queries(self) -> bool:
        """Take up the queries as the file has them now; what is wrong with them is said, and the old ones go on."""
        try:
            workload = read(self.file)
        except (QueryError, OSError) as error:
            return self._reject_queries(error)
        if workload == self.workload:
            return False
        before = self.workload
        try:
            self._build_results(workload, checkpoint=False)  # what is wrong with them shows here
        except MotetError as error:
            return self._reject_queries(error)
        self.query.stop()
        self.workload, self.sharing = workload, None
        self.replanner.set_program(self.plan())
        self.query = self._start()
        old, new = ({query.name for query in w.queries} for w in (before, workload))
        self.say(f"queries changed: {len(new - old)} added, {len(old - new)} removed, {len(new)} in all")
        return True

    def adapt(self) -> bool:
        """Go on by another plan where the rates of the stream have drifted and that pays."""
        found = self.replanner.propose_change(self.monitor.metrics)
        if found is None:
            return False
        change, program = found
        self.say(str(change))
        if change.adopted:
            self.query.stop()
            self.sharing = keep_grouping(program.workload, program)
            self.replanner.set_program(program)
            self.monitor.metrics.plan_changes += 1
            self.query = self._start(str(change))
        return change.adopted

    def _reject_queries(self, error: Exception) -> bool:
        if str(error) != self.last_rejection:
            self.last_rejection = str(error)
            self.say(f"{error}\nthe queries go on as they were")
        return False

    def stop(self) -> None:
        """Stop the stream, if it still runs."""
        self.session.streams.removeListener(self.monitor)
        if self.query.isActive:
            self.query.stop()

    def plan(self) -> Program:
        """How the queries are run now."""
        job = self.job
        return compile_stream(
            open_source(self.session, job.source),
            self.workload,
            time=job.time,
            type=job.type,
            time_unit=job.time_unit,
            options=job.options,
            mode=job.mode,
            sharing=self.sharing,
        )

    def _query_names(self) -> tuple[str, ...]:
        return tuple(query.name for query in self.workload.queries)

    def _start(self, words: str | None = None) -> StreamingQuery:
        results = self._build_results(self.workload, checkpoint=True)
        query = start(results, self.job, self.workload, self.write)
        self.monitor.follow_run(self._query_names(), str(query.runId), words)
        return query

    def _build_results(self, workload: Workload, *, checkpoint: bool) -> DataFrame:
        job = self.job
        return run(
            open_source(self.session, job.source),
            workload,
            watermark=job.watermark,
            time=job.time,
            type=job.type,
            time_unit=job.time_unit,
            options=job.options,
            mode=job.mode,
            buckets=job.buckets,
            keep_late=job.sink.late is not None,
            checkpoint=job.checkpoint if checkpoint else None,
            sharing=self.sharing,
        )


def open_source(session: SparkSession, source: StreamSource) -> DataFrame:
    """A streaming DataFrame of events."""
    reader = session.readStream.format(source.format).options(**source.options)
    schema = source.schema
    if schema is None and source.format in FILE_FORMATS and source.format != "delta":
        path = source.options.get("path")
        if path is None:
            raise DataError(f"a {source.format} source needs a folder: --option path=FOLDER")
        try:
            reader = reader.schema(session.read.format(source.format).options(**source.options).load().schema)
        except Exception as error:
            raise DataError(
                f"the columns of {path} cannot be told from its files: name them with --schema ({first_line(error)})"
            ) from error
    elif schema is not None:
        reader = reader.schema(schema)
    frame = reader.load()
    if source.json is not None:
        # A text that is no JSON has no time: it is counted and set aside.
        parsed = frame.select(sf.from_json(sf.col("value").cast("string"), source.json).alias("event"))
        frame = parsed.select("event.*")
    return frame.selectExpr(*source.select) if source.select else frame


def first_line(error: Exception) -> str:
    """The first line of what Spark says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def start(results: DataFrame, job: StreamJob, workload: Workload, write: Callable[[str], None]) -> StreamingQuery:
    """Start writing results to the sink of a job."""
    sink = job.sink
    by_batch = sink.format == JSON_LINES or sink.late is not None
    if sink.format == "kafka" and not by_batch:
        results = _to_json_rows(results)
    writer = results.writeStream.outputMode(job.mode).option("checkpointLocation", job.checkpoint)
    if job.once:
        writer = writer.trigger(availableNow=True)
    elif job.trigger is not None:
        writer = writer.trigger(processingTime=job.trigger)
    if by_batch:
        return writer.foreachBatch(_make_batch_writer(sink, workload, write)).start()
    return writer.format(sink.format).options(**sink.options).start()


def _to_json_rows(results: DataFrame) -> DataFrame:
    """Results as Kafka takes them: one text each."""
    return results.select(sf.to_json(sf.struct(*(column(name) for name in results.columns))).alias("value"))


def _make_batch_writer(
    sink: StreamSink, workload: Workload, write: Callable[[str], None]
) -> Callable[[DataFrame, int], None]:
    """Writes a micro-batch; one that is done again after a failure replaces what it wrote before."""

    def write_batch(batch: DataFrame, number: int) -> None:
        batch.persist()
        results = batch
        if sink.late is not None:
            late = batch.filter("late IS NOT NULL").select(sf.col("late").alias("value"))
            late.write.mode("overwrite").text(f"{sink.late}/batch={number}")
            results = batch.filter("late IS NULL").drop("late")
        if sink.format == JSON_LINES:
            for line in json_lines(results.toArrow(), workload):
                write(line.rstrip("\n"))
        else:
            options: dict[str, Any] = dict(sink.options)
            path = options.pop("path", None)
            rows = _to_json_rows(results) if sink.format == "kafka" else results
            writer = rows.write.format(sink.format).options(**options)
            if path is None:
                writer.mode("append").save()
            else:
                writer.mode("overwrite").save(f"{path}/batch={number}")
        batch.unpersist()

    return write_batch
