"""Record which queries a checkpoint has run, and since when: a query that is added later reports whole windows only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from motet.compile import Program
from motet.errors import DataError, RunError
from motet.spark.buckets import Buckets, choose_buckets

FOLDER = "motet"  # inside the checkpoint, beside Spark's own folders


@dataclass(frozen=True)
class StartRecord:
    """One start of a stream: its queries by fingerprint, and since when each has seen the stream (None: always)."""

    start: int
    buckets: int
    queries: dict[str, int | None]
    even: bool = False  # how buckets are named: see `Buckets`


@dataclass(frozen=True)
class CheckpointHistory:
    """The start records of a checkpoint."""

    session: SparkSession
    checkpoint: str

    def register_start(self, program: Program, watermark: str, asked: int | None) -> tuple[Buckets, dict[int, int]]:
        """How the state is cut, and since when each query of a program sees the stream, by its number; noted in the
        checkpoint for later starts.

        A row that was read before a query joined lies at most the watermark's delay after the watermark, so the query
        has seen everything from there on. All buckets must agree on it, hence the note.
        """
        session, checkpoint = self.session, self.checkpoint
        last = _read_last_record(session, checkpoint)
        buckets = choose_buckets(session, asked) if last is None else Buckets(last.buckets, last.even)
        if asked not in (None, buckets.number):
            raise RunError(
                f"the checkpoint was made with {buckets.number} buckets, which cannot change to {asked}: "
                f"start with --buckets {buckets.number}, or with a new checkpoint"
            )
        watermark_reached = _read_watermark(session, checkpoint)
        joins = None if watermark_reached is None else watermark_reached + _parse_delay(session, watermark) + 1000
        known = {} if last is None else last.queries
        prints = program.fingerprints
        queries = {name: known.get(name, joins) for name in prints.values()}
        if last is None or queries != last.queries:
            record = StartRecord(0 if last is None else last.start + 1, buckets.number, queries, buckets.even)
            _write_record(session, checkpoint, record)
        since = {number: queries[name] for number, name in prints.items()}
        return buckets, {number: birth for number, birth in since.items() if birth is not None}


def _parse_delay(session: SparkSession, watermark: str) -> int:
    try:
        moved = sf.expr(f"unix_micros(timestamp_seconds(0) + INTERVAL {watermark})")
        (row,) = session.range(1).select(moved.alias("us")).collect()
    except Exception as error:
        raise DataError(f"the watermark {watermark!r} is no length of time, such as '10 minutes'") from error
    return int(row["us"])


def _read_watermark(session: SparkSession, checkpoint: str) -> int | None:
    """Return the watermark after the last committed micro-batch, in microseconds; None if there was none."""
    rows = _read_lines(session, f"{checkpoint}/commits")
    if rows is None:
        return None
    named = rows.select(sf.col("_metadata.file_name").cast("string").alias("file"), "value")
    marks = {
        int(row["file"]): int(json.loads(row["value"]).get("nextBatchWatermarkMs", 0))
        for row in named.collect()
        if row["file"].isdigit() and row["value"].startswith("{")
    }
    return marks[max(marks)] * 1000 if marks else None


def _read_last_record(session: SparkSession, checkpoint: str) -> StartRecord | None:
    rows = _read_lines(session, f"{checkpoint}/{FOLDER}")
    if rows is None:
        return None
    records = [StartRecord(**json.loads(row["value"])) for row in rows.collect()]
    return max(records, key=lambda record: record.start, default=None)


def _read_lines(session: SparkSession, folder: str) -> DataFrame | None:
    """Return the lines of all files in a folder of any file system; None if it does not exist."""
    try:
        frame = session.read.text(folder)
        frame.schema  # noqa: B018 - a session of Spark Connect looks only now
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return None
        raise
    return frame


def _write_record(session: SparkSession, checkpoint: str, record: StartRecord) -> None:
    line = json.dumps(asdict(record))
    session.createDataFrame([(line,)], "value string").coalesce(1).write.mode("append").text(f"{checkpoint}/{FOLDER}")
