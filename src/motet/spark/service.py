"""A stream as a service: any Spark source to any Spark sink, queries from a file that may change while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from motet.engine import Options, Program
from motet.engine.live import Adapting
from motet.engine.live.replan import grouping, labels_of
from motet.errors import DataError, MotetError, QueryError
from motet.io.results import json_lines
from motet.language import read
from motet.model.query import Workload
from motet.plan.sharing import Sharing
from motet.spark.adapt import Adapter
from motet.spark.stream import program_of, run
from motet.spark.tables import column
from motet.spark.watch import Watcher

LINES = "lines"  # json lines on standard output
FILE_FORMATS = ("parquet", "orc", "delta", "csv", "json", "text")


@dataclass(frozen=True)
class Source:
    """Where rows come from. `json` is the schema of a text column `value` to read as JSON (Kafka); `select` are SQL
    expressions that make the columns that queries name.
    """

    format: str
    options: dict[str, str] = field(default_factory=dict)
    schema: str | None = None
    json: str | None = None
    select: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sink:
    """Where results go. `late` is a folder for rows that came too late, as JSON lines."""

    format: str = LINES
    options: dict[str, str] = field(default_factory=dict)
    late: str | None = None


@dataclass(frozen=True)
class Job:
    """All that a stream needs but its queries."""

    source: Source
    sink: Sink
    checkpoint: str
    watermark: str
    time: str = "time"
    type: str = "type"
    time_unit: str = "s"
    options: Options = field(default_factory=Options)
    mode: str = "append"
    buckets: int | None = None
    trigger: str | None = None  # an interval; None: as fast as it can
    once: bool = False  # stop when all that is there now is read
    adapting: Adapting = field(default_factory=Adapting)


class Service:
    """Starts a job, restarts it when its queries change, and tells how it goes."""

    def __init__(
        self,
        session: SparkSession,
        job: Job,
        file: Path,
        say: Callable[[str], None],
        write: Callable[[str], None],
    ) -> None:
        self.session = session
        self.job = job
        self.file = file
        self.say = say
        self.write = write
        self.refused = ""
        self.workload = read(file)
        self.watcher = Watcher(self._names(), say, run_id="")
        session.streams.addListener(self.watcher)
        self.sharing: Sharing | None = None
        self.adapter = Adapter(job.adapting, self.plan())
        self.query = self._start()

    def run(self, *, watch: bool, every: float, show: Callable[[str], None]) -> None:
        """Until the stream ends: show its status every so many seconds, and look for changed queries."""
        try:
            while not self._ended(every):
                show(self.watcher.status())
                if watch:
                    self.reload()
                self.adapt()
            show(self.watcher.status())
        finally:
            self.stop()

    def _ended(self, seconds: float) -> bool:
        # Parts of a second are taken as well, whatever its annotation says.
        return bool(self.query.awaitTermination(seconds))  # type: ignore[arg-type]

    def reload(self) -> bool:
        """Take up the queries as the file has them now; what is wrong with them is said, and the old ones go on."""
        try:
            workload = read(self.file)
        except (QueryError, OSError) as error:
            return self._refuse(error)
        if workload == self.workload:
            return False
        before = self.workload
        try:
            self._results(workload, checkpoint=False)  # what is wrong with them shows here
        except MotetError as error:
            return self._refuse(error)
        self.query.stop()
        self.workload, self.sharing = workload, None
        self.adapter.go_on(self.plan())
        self.query = self._start()
        old, new = ({query.name for query in w.queries} for w in (before, workload))
        self.say(f"queries changed: {len(new - old)} added, {len(old - new)} removed, {len(new)} in all")
        return True

    def adapt(self) -> bool:
        """Go on by another plan where the rates of the stream have drifted and that pays."""
        found = self.adapter.look(self.watcher.gauges)
        if found is None:
            return False
        change, program = found
        self.say(str(change))
        if change.migrated:
            self.query.stop()
            self.sharing = grouping(program.workload, labels_of(program))
            self.adapter.go_on(program)
            self.watcher.gauges.plan_changes += 1
            self.query = self._start(str(change))
        return change.migrated

    def _refuse(self, error: Exception) -> bool:
        if str(error) != self.refused:
            self.refused = str(error)
            self.say(f"{error}\nthe queries go on as they were")
        return False

    def stop(self) -> None:
        """Stop the stream, if it still runs."""
        self.session.streams.removeListener(self.watcher)
        if self.query.isActive:
            self.query.stop()

    def plan(self) -> Program:
        """How the queries are run now."""
        job = self.job
        return program_of(
            open_source(self.session, job.source),
            self.workload,
            time=job.time,
            type=job.type,
            time_unit=job.time_unit,
            options=job.options,
            mode=job.mode,
            sharing=self.sharing,
        )

    def _names(self) -> tuple[str, ...]:
        return tuple(query.name for query in self.workload.queries)

    def _start(self, words: str | None = None) -> StreamingQuery:
        results = self._results(self.workload, checkpoint=True)
        query = start(results, self.job, self.workload, self.write)
        self.watcher.restarted(self._names(), str(query.runId), words)
        return query

    def _results(self, workload: Workload, *, checkpoint: bool) -> DataFrame:
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


def open_source(session: SparkSession, source: Source) -> DataFrame:
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


def start(results: DataFrame, job: Job, workload: Workload, write: Callable[[str], None]) -> StreamingQuery:
    """Start writing results to the sink of a job."""
    sink = job.sink
    by_batch = sink.format == LINES or sink.late is not None
    if sink.format == "kafka" and not by_batch:
        results = _as_json(results)
    writer = results.writeStream.outputMode(job.mode).option("checkpointLocation", job.checkpoint)
    if job.once:
        writer = writer.trigger(availableNow=True)
    elif job.trigger is not None:
        writer = writer.trigger(processingTime=job.trigger)
    if by_batch:
        return writer.foreachBatch(_batch_writer(sink, workload, write)).start()
    return writer.format(sink.format).options(**sink.options).start()


def _as_json(results: DataFrame) -> DataFrame:
    """Results as Kafka takes them: one text each."""
    return results.select(sf.to_json(sf.struct(*(column(name) for name in results.columns))).alias("value"))


def _batch_writer(sink: Sink, workload: Workload, write: Callable[[str], None]) -> Callable[[DataFrame, int], None]:
    """Writes a micro-batch; one that is done again after a failure replaces what it wrote before."""

    def write_batch(batch: DataFrame, number: int) -> None:
        batch.persist()
        results = batch
        if sink.late is not None:
            late = batch.filter("late IS NOT NULL").select(sf.col("late").alias("value"))
            late.write.mode("overwrite").text(f"{sink.late}/batch={number}")
            results = batch.filter("late IS NULL").drop("late")
        if sink.format == LINES:
            for line in json_lines(results.toArrow(), workload):
                write(line.rstrip("\n"))
        else:
            options: dict[str, Any] = dict(sink.options)
            path = options.pop("path", None)
            rows = _as_json(results) if sink.format == "kafka" else results
            writer = rows.write.format(sink.format).options(**options)
            if path is None:
                writer.mode("append").save()
            else:
                writer.mode("overwrite").save(f"{path}/batch={number}")
        batch.unpersist()

    return write_batch
