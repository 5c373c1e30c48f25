"""A stream as a service: any Spark source to any Spark sink, queries from a file that may change while it runs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from motet.compile import Program
from motet.engine.replan import ReplanPolicy
from motet.errors import DataError, MotetError
from motet.io.formats import first_line
from motet.io.writers import json_lines
from motet.language import read
from motet.model.query import Workload
from motet.options import Options
from motet.spark.dataframes import column, open_table
from motet.spark.monitor import StreamMonitor
from motet.spark.replanner import StreamReplanner
from motet.spark.session import release_stopped_streams
from motet.spark.stream import StreamRun, compile_stream, run
from motet.statistics.model import Statistics

JSON_LINES = "lines"  # json lines on standard output
FILE_FORMATS = ("parquet", "orc", "csv", "json", "text")  # of which Spark wants to know the columns

POLL_SECONDS = 0.25  # between two looks whether to stop
MAX_BEGIN_SECONDS = 60.0  # for which changed queries wait for the first micro-batch of a run
# At each start of a stream Spark waits ten seconds for a Python process, which a busy machine may not give it in time.
SLOW_WORKER = "Python worker failed to connect back"
MAX_SLOW_STARTS = 8  # in a row

Say = Callable[[str], None]


@dataclass(frozen=True)
class StreamSource:
    """Where rows come from. `json` is the schema of a text column `value` to read as JSON (Kafka); `select` are SQL
    expressions that make the columns that queries name; `table` is a table of the catalog, which has its own format.
    """

    format: str
    options: dict[str, str] = field(default_factory=dict)
    schema: str | None = None
    json: str | None = None
    select: tuple[str, ...] = ()
    table: str | None = None

    def open(self, session: SparkSession) -> DataFrame:
        """Open a streaming DataFrame of events."""
        events = self._load(session)
        if self.json is not None:
            # A text that is no JSON has no time: it is counted and set aside.
            parsed = events.select(sf.from_json(sf.col("value").cast("string"), self.json).alias("event"))
            events = parsed.select("event.*")
        return events.selectExpr(*self.select) if self.select else events

    def _load(self, session: SparkSession) -> DataFrame:
        if self.table is not None:
            return open_table(self.table, session, session.readStream.options(**self.options))
        reader = session.readStream.format(self.format).options(**self.options)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        elif self.format in FILE_FORMATS:
            path = self.options.get("path")
            if path is None:
                raise DataError(f"a {self.format} source needs a folder: --option path=FOLDER")
            try:
                reader = reader.schema(session.read.format(self.format).options(**self.options).load().schema)
            except Exception as error:
                message = f"the columns of {path} cannot be told from its files: name them with --schema"
                raise DataError(f"{message} ({first_line(error)})") from error
        return reader.load()


@dataclass(frozen=True)
class StreamSink:
    """Where results go. `late` is a folder for rows that came too late, as JSON lines; `table` a table of the catalog,
    which is made in the format if need be.
    """

    format: str = JSON_LINES
    options: dict[str, str] = field(default_factory=dict)
    late: str | None = None
    table: str | None = None

    def write_batch(self, stream: StreamRun, batch: DataFrame, number: int, show: Say) -> None:
        """Write a micro-batch; one that is done again after a failure replaces what it wrote before."""
        batch.persist()
        results, late = stream.split_late(batch)
        if late is not None:
            late.write.mode("overwrite").text(f"{self.late}/batch={number}")
        if self.format == JSON_LINES:
            for line in json_lines(results.toArrow(), stream.program.workload):
                show(line.rstrip("\n"))
        else:
            options: dict[str, Any] = dict(self.options)
            path = options.pop("path", None)
            writer = self._convert(results).write.format(self.format).options(**options)
            if self.table is not None:
                writer.mode("append").saveAsTable(self.table)
            elif path is None:
                writer.mode("append").save()
            else:
                writer.mode("overwrite").save(f"{path}/batch={number}")
        batch.unpersist()

    @property
    def is_by_batch(self) -> bool:
        """Whether each micro-batch is written by itself, and not by Spark's own sink and its log."""
        return self.format == JSON_LINES or self.late is not None

    def describe(self) -> dict[str, Any]:
        """Describe where results go, for the record of a checkpoint."""
        return {"format": self.format, "path": self.options.get("path"), "by_batch": self.is_by_batch}

    def _convert(self, results: DataFrame) -> DataFrame:
        """Convert results to what the format takes: Kafka takes one text each."""
        if self.format != "kafka":
            return results
        return results.select(sf.to_json(sf.struct(*(column(name) for name in results.columns))).alias("value"))

    def start(self, stream: StreamRun, trigger: dict[str, Any], show: Say) -> StreamingQuery:
        """Start to write the results of a stream."""
        results = stream.results if self.is_by_batch else self._convert(stream.results)
        writer = results.writeStream.outputMode(stream.options.mode or "append")
        if stream.options.checkpoint is not None:
            writer = writer.option("checkpointLocation", stream.options.checkpoint)
        if trigger:
            writer = writer.trigger(**trigger)
        if self.is_by_batch:
            return writer.foreachBatch(lambda batch, number: self.write_batch(stream, batch, number, show)).start()
        writer = writer.format(self.format).options(**self.options)
        return writer.start() if self.table is None else writer.toTable(self.table)


@dataclass(frozen=True)
class StreamJob:
    """All that a stream needs but its queries; its options name the checkpoint."""

    source: StreamSource
    sink: StreamSink
    options: Options
    trigger: str | None = None  # an interval; None: as fast as it can
    once: bool = False  # stop when all that is there now is read


class StreamService:
    """A running job that restarts when its queries or its plan change.

    `say` gets messages for people, `show` results that go to the terminal.
    """

    def __init__(self, session: SparkSession, job: StreamJob, file: Path, say: Say, show: Say) -> None:
        self.session = session
        self.job = job
        self.file = file
        self.say = say
        self.show = show
        self.last_rejection = ""
        self.run_since = time.monotonic()
        self.slow_starts, self.started_at = 0, 0  # in a row, and after which micro-batch
        self.events, self.program = self._compile(read(file), job.options.statistics)
        self.monitor = StreamMonitor(self._query_names(), say, run_id="")
        session.streams.addListener(self.monitor)
        planned_rates = None if job.options.statistics is None else job.options.statistics.rates
        self.replanner = StreamReplanner(ReplanPolicy.from_options(job.options), self.program, planned_rates)
        self.query = self._start()

    def run(self, *, watch: bool, every: float, show: Say, stopping: threading.Event | None = None) -> None:
        """Run until the stream ends or is told to stop: show its status every so many seconds, and look for changed
        queries.
        """
        stopping = stopping or threading.Event()
        due, shown = time.monotonic() + every, 0
        try:
            while not stopping.is_set() and not self._wait_for_end():
                if time.monotonic() >= due:
                    due = time.monotonic() + every
                    if self.monitor.metrics.batches > shown:
                        shown = self.monitor.metrics.batches
                        show(self.monitor.status())
                    if watch and self.has_begun():
                        self.reload_queries()
                    self.replan()
            if not stopping.is_set():
                self.monitor.wait_for_progress()
                show(self.monitor.status())
        except Exception:
            if not stopping.is_set():  # else Spark was told to stop as well, and got there first
                raise
        finally:
            with contextlib.suppress(Exception):
                self.stop()

    def _wait_for_end(self) -> bool:
        """Wait a moment; return whether the stream has ended. Where Spark gave up before it ran, it starts again."""
        try:
            # Parts of a second are taken as well, whatever the annotation says.
            return bool(self.query.awaitTermination(POLL_SECONDS))  # type: ignore[arg-type]
        except StreamingQueryException as error:
            batches = self.monitor.metrics.batches
            self.slow_starts = self.slow_starts + 1 if batches == self.started_at else 1
            if SLOW_WORKER not in str(error) or self.slow_starts > MAX_SLOW_STARTS:
                raise
            self.started_at = batches
        self.say("Spark did not wait for a Python process to start: the stream starts again from its checkpoint")
        self.query = self._start("started again")
        return False

    def has_begun(self) -> bool:
        """Return whether this run has come to results: edits that come faster than starts would keep it from any."""
        return self.monitor.begun.is_set() or time.monotonic() >= self.run_since + MAX_BEGIN_SECONDS

    def reload_queries(self) -> bool:
        """Take up the queries as the file has them now; if they are wrong, say so and keep the old ones.

        An editor may write a file in parts, or remove it for a moment: it is taken up once it stays as it is, and
        whatever is wrong with it ends nothing.
        """
        try:
            workload = read(self.file)
            if _ask_the_same(workload, self.program.workload):
                self.last_rejection = ""
                return False
            time.sleep(POLL_SECONDS)
            if read(self.file) != workload:
                return False  # it is being written: the next look will tell
            compiled = self._compile(workload, self._known_statistics())
        except Exception as error:  # noqa: BLE001 - the stream goes on, whatever an edit or Spark says
            self._reject(error)
            return False
        before, old = (self.events, self.program), set(self._query_names())
        self._stop_query()
        self.events, self.program = compiled
        try:
            self.query = self._start()
        except Exception as error:  # noqa: BLE001 - the checkpoint cannot go on with it, or Spark is at fault
            self.events, self.program = before
            self.query = self._start()
            self._reject(error)
            return False
        new = set(self._query_names())
        self.last_rejection = ""
        self.say(f"queries changed: {len(new - old)} added, {len(old - new)} removed, {len(new)} in all")
        return True

    def _reject(self, error: Exception) -> None:
        """Say once why changed queries are not taken up."""
        message = str(error) if isinstance(error, MotetError | OSError) else f"{type(error).__name__}: {error}"
        if message != self.last_rejection:
            self.last_rejection = message
            self.say(f"{message}\nthe queries go on as they were")

    def replan(self) -> bool:
        """Move to another plan if the rates of the stream have drifted and that pays."""
        proposal = self.replanner.propose_change(self.monitor.metrics)
        if proposal is None:
            return False
        change, program = proposal
        if change.adopted:
            self.say(str(change))
            self._stop_query()
            self.program = program
            self.monitor.metrics.plan_changes += 1
            self.query = self._start(str(change))
        return change.adopted

    def stop(self) -> None:
        """Stop the stream, if it still runs."""
        self.session.streams.removeListener(self.monitor)
        if self.query.isActive:
            self.query.stop()

    def _stop_query(self) -> None:
        """Stop the query that runs, before another one starts."""
        self.query.stop()
        release_stopped_streams(self.session)

    def _query_names(self) -> tuple[str, ...]:
        return tuple(query.name for query in self.program.workload.queries)

    def _known_statistics(self) -> Statistics | None:
        """Return what the stream has shown so far, or was said to be like."""
        if self.replanner.tracker.events:
            return self.replanner.get_statistics(self.monitor.metrics)
        return self.job.options.statistics

    def _compile(self, workload: Workload, statistics: Statistics | None) -> tuple[DataFrame, Program]:
        events = self.job.source.open(self.session)
        options = replace(self.job.options, keep_late=self.job.sink.late is not None, statistics=statistics)
        return events, compile_stream(events, workload, options)

    def _start(self, change: str | None = None) -> StreamingQuery:
        self.replanner.set_program(self.program)
        trigger: dict[str, Any] = {} if self.job.trigger is None else {"processingTime": self.job.trigger}
        stream = run(self.events, self.program, self.job.sink.describe())
        query = self.job.sink.start(stream, {"availableNow": True} if self.job.once else trigger, self.show)
        self.monitor.follow_run(self._query_names(), str(query.runId), change)
        self.run_since = time.monotonic()
        return query


def _ask_the_same(one: Workload, other: Workload) -> bool:
    """Return whether workloads have the same queries and types, in any order: then nothing has to start again.

    O(queries): a watched file is compared again and again.
    """
    pairs = (one.queries, other.queries), (one.definitions, other.definitions)
    return all({each.name: each for each in own} == {each.name: each for each in others} for own, others in pairs)
