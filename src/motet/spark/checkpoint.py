"""Record which queries a checkpoint has run, and since when: a query that is added later reports whole windows only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from motet.compile import Program
from motet.errors import RunError
from motet.spark.buckets import Buckets, choose_buckets

FOLDER = "motet"  # inside the checkpoint, beside Spark's own folders


@dataclass(frozen=True)
class StartRecord:
    """One start of a stream: its queries by fingerprint, and since when each has seen the stream (None: always)."""

    start: int
    buckets: int
    queries: dict[str, int | None]
    even: bool = False  # how buckets are named: see `Buckets`


def register_start(session: SparkSession, checkpoint: str, program: Program) -> tuple[Buckets, dict[int, int]]:
    """Record that a program starts from a checkpoint: its buckets, and since when queries that were added later see the
    stream, by their number.

    A row that was read before a query was added lies at most the watermark's delay after the watermark, so the query
    has seen everything from there on. All buckets must agree on it, hence the record.
    """
    asked = program.options.buckets
    last = _read_last_record(session, checkpoint)
    buckets = choose_buckets(session, asked) if last is None else Buckets(last.buckets, last.even)
    if asked not in (None, buckets.number):
        raise RunError(
            f"the checkpoint was made with {buckets.number} buckets, which cannot change to {asked}: "
            f"start with --buckets {buckets.number}, or with a new checkpoint"
        )
    watermark = _read_watermark(session, checkpoint)
    since = None if watermark is None else watermark + program.options.watermark_micros + 1000
    known = {} if last is None else last.queries
    queries = {fingerprint: known.get(fingerprint, since) for fingerprint in program.fingerprints.values()}
    if last is None or queries != last.queries:
        record = StartRecord(0 if last is None else last.start + 1, buckets.number, queries, buckets.even)
        lines = session.createDataFrame([(json.dumps(asdict(record)),)], "value string")
        lines.coalesce(1).write.mode("append").text(f"{checkpoint}/{FOLDER}")
    started = {number: queries[fingerprint] for number, fingerprint in program.fingerprints.items()}
    return buckets, {number: time for number, time in started.items() if time is not None}


def _read_watermark(session: SparkSession, checkpoint: str) -> int | None:
    """Return the watermark after the last committed micro-batch, in microseconds; None if there was none."""
    lines = _read_lines(session, f"{checkpoint}/commits")
    if lines is None:
        return None
    named = lines.select(sf.col("_metadata.file_name").cast("string").alias("file"), "value")
    marks = {
        int(row["file"]): int(json.loads(row["value"]).get("nextBatchWatermarkMs", 0))
        for row in named.collect()
        if row["file"].isdigit() and row["value"].startswith("{")
    }
    return marks[max(marks)] * 1000 if marks else None


def _read_last_record(session: SparkSession, checkpoint: str) -> StartRecord | None:
    lines = _read_lines(session, f"{checkpoint}/{FOLDER}")
    records = [] if lines is None else [StartRecord(**json.loads(row["value"])) for row in lines.collect()]
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
