"""Which queries a checkpoint has run, and since when: a query that joins later reports its first whole window."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from motet.engine import Program
from motet.errors import DataError, RunError
from motet.spark.buckets import Buckets, buckets_for

FOLDER = "motet"  # inside the checkpoint, beside Spark's own folders


@dataclass(frozen=True)
class Record:
    """The queries of one start of a stream, by what they ask: since when each has seen the stream (None: always)."""

    start: int
    buckets: int
    queries: dict[str, int | None]
    even: bool = False  # how buckets are named: see `Buckets`


@dataclass(frozen=True)
class History:
    """The records of a checkpoint."""

    session: SparkSession
    checkpoint: str

    def joined(self, program: Program, watermark: str, asked: int | None) -> tuple[Buckets, dict[int, int]]:
        """How the state is cut, and since when each query of a program sees the stream, by its number; noted in the
        checkpoint for later starts.

        A row that was read before a query joined lies at most the watermark's delay after the watermark, so the query
        has seen everything from there on. All buckets must agree on it, hence the note.
        """
        session, checkpoint = self.session, self.checkpoint
        last = _last_record(session, checkpoint)
        buckets = buckets_for(session, asked) if last is None else Buckets(last.buckets, last.even)
        if asked not in (None, buckets.number):
            raise RunError(
                f"the checkpoint was made with {buckets.number} buckets, which cannot change to {asked}: "
                f"start with --buckets {buckets.number}, or with a new checkpoint"
            )
        reached = _reached(session, checkpoint)
        joins = None if reached is None else reached + _delay(session, watermark) + 1000
        known = {} if last is None else last.queries
        prints = program.fingerprints
        queries = {name: known.get(name, joins) for name in prints.values()}
        if last is None or queries != last.queries:
            record = Record(0 if last is None else last.start + 1, buckets.number, queries, buckets.even)
            _write(session, checkpoint, record)
        since = {number: queries[name] for number, name in prints.items()}
        return buckets, {number: birth for number, birth in since.items() if birth is not None}


def _delay(session: SparkSession, watermark: str) -> int:
    try:
        moved = sf.expr(f"unix_micros(timestamp_seconds(0) + INTERVAL {watermark})")
        (row,) = session.range(1).select(moved.alias("us")).collect()
    except Exception as error:
        raise DataError(f"the watermark {watermark!r} is no length of time, such as '10 minutes'") from error
    return int(row["us"])


def _reached(session: SparkSession, checkpoint: str) -> int | None:
    """The watermark after the last micro-batch that was committed, in microseconds; None where there was none."""
    rows = _lines(session, f"{checkpoint}/commits")
    if rows is None:
        return None
    named = rows.select(sf.col("_metadata.file_name").cast("string").alias("file"), "value")
    marks = {
        int(row["file"]): int(json.loads(row["value"]).get("nextBatchWatermarkMs", 0))
        for row in named.collect()
        if row["file"].isdigit() and row["value"].startswith("{")
    }
    return marks[max(marks)] * 1000 if marks else None


def _last_record(session: SparkSession, checkpoint: str) -> Record | None:
    rows = _lines(session, f"{checkpoint}/{FOLDER}")
    if rows is None:
        return None
    records = [Record(**json.loads(row["value"])) for row in rows.collect()]
    return max(records, key=lambda record: record.start, default=None)


def _lines(session: SparkSession, folder: str) -> DataFrame | None:
    """The lines of all files in a folder of any file system; None where it is not there."""
    try:
        frame = session.read.text(folder)
        frame.schema  # noqa: B018 - a session of Spark Connect looks only now
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return None
        raise
    return frame


def _write(session: SparkSession, checkpoint: str, record: Record) -> None:
    line = json.dumps(asdict(record))
    session.createDataFrame([(line,)], "value string").coalesce(1).write.mode("append").text(f"{checkpoint}/{FOLDER}")
