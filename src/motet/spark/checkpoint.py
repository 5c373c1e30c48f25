"""Record what a checkpoint was made with, and check every start against it: queries and since when they run, columns
and their types, the watermark's delay, options and the sink.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from motet.compile import Program
from motet.errors import RunError
from motet.io.formats import first_line
from motet.model.query import AllVariables, Variable
from motet.spark.buckets import Buckets, choose_buckets
from motet.spark.damage import NEW_CHECKPOINT, check_logs, describe_damage, find_named_file

FOLDER = "motet"  # inside the checkpoint, beside Spark's own folders
INTEGERS = ("int8", "int16", "int32", "int64")  # each is wider than the one before


@dataclass(frozen=True)
class StartRecord:
    """What one start of a stream was made with.

    Fields that have a default were added later: records of earlier versions lack them, and what they would say is not
    checked.
    """

    start: int
    buckets: int
    queries: dict[str, int | None]  # by fingerprint: since when each has seen the stream (None: always)
    even: bool = False  # how buckets are named: see `Buckets`
    wide: bool = False  # how keys are hashed: see `Buckets`
    columns: dict[str, str] | None = None  # that queries read, with their types
    delay: int = 0  # of the watermark, in microseconds
    options: dict[str, str] | None = None
    sink: dict[str, Any] | None = None


def register_start(
    session: SparkSession, checkpoint: str, program: Program, sink: dict[str, Any] | None = None
) -> tuple[Buckets, dict[int, int]]:
    """Record that a program starts from a checkpoint: its buckets, and since when queries that were added later see the
    stream, by their number.

    A row that was read before a query was added lies at most the watermark's delay of then after the watermark, so the
    query has seen everything from there on. All buckets must agree on it, hence the record.

    Raises:
        RunError: The checkpoint was made with something that cannot change, or lacks its record.
    """
    check_logs(checkpoint)
    records = _read_records(session, checkpoint)
    last = records[-1] if records else None
    if last is None and _read_rows(session, f"{checkpoint}/offsets"):
        raise RunError(
            f"the checkpoint {checkpoint} has state but no record of what it was made with: its folder {FOLDER!r} is "
            f"missing or empty, or its first start did not name it as checkpoint=; bring the folder back, "
            f"or {NEW_CHECKPOINT}"
        )
    buckets = _choose_buckets(session, program, last)
    own = describe_start(program, buckets, sink)
    if last is not None:
        check_start(program, last, own)
    watermark = _read_watermark(session, checkpoint)
    delay = max(own.delay, *(record.delay for record in records), 0)
    since = None if watermark is None else watermark + delay + 1000
    known = {} if last is None else last.queries
    queries = {fingerprint: known.get(fingerprint, since) for fingerprint in program.fingerprints.values()}
    record = replace(own, start=0 if last is None else last.start, queries=queries)
    if record != last:
        record = record if last is None else replace(record, start=last.start + 1)
        lines = session.createDataFrame([(json.dumps(asdict(record)),)], "value string")
        lines.coalesce(1).write.mode("append").text(f"{checkpoint}/{FOLDER}")
    started = {number: queries[fingerprint] for number, fingerprint in program.fingerprints.items()}
    return buckets, {number: time for number, time in started.items() if time is not None}


def _choose_buckets(session: SparkSession, program: Program, last: StartRecord | None) -> Buckets:
    asked = program.options.buckets
    buckets = choose_buckets(session, asked) if last is None else Buckets(last.buckets, last.even, last.wide)
    if asked not in (None, buckets.number):
        raise RunError(
            f"the checkpoint was made with {buckets.number} buckets, which cannot change to {asked}: "
            f"start with --buckets {buckets.number}, or with a new checkpoint"
        )
    return buckets


def describe_start(program: Program, buckets: Buckets, sink: dict[str, Any] | None = None) -> StartRecord:
    """Return what a program is, but for its start and queries."""
    schema, options = program.schema, program.options
    read = dict.fromkeys(name for branch in program.all_branches for name in branch.columns)
    return StartRecord(
        start=0,
        buckets=buckets.number,
        queries={},
        even=buckets.even,
        wide=buckets.wide,
        columns={name: str(schema.columns.field(name).type) for name in read},
        delay=options.watermark_micros,
        options={
            "time": schema.time,
            "type": schema.type_source or "(no column)",
            **({"time_unit": schema.time_unit} if schema.has_integer_time else {}),
            "mode": options.mode or "append",
            "counts": options.counts,
            "windows": options.windows,
        },
        sink=sink,
    )


def check_start(program: Program, last: StartRecord, own: StartRecord) -> None:
    """Raise unless the state of the last start can be gone on with.

    Raises:
        RunError: A column, an option or the sink has changed in a way that state or results cannot follow.
    """
    _check_options(last, own)
    _check_columns(program, last, own)
    _check_sink(last, own)


def _check_columns(program: Program, last: StartRecord, own: StartRecord) -> None:
    """Raise unless columns have the types that they had, or are wider integers; new ones are null in older rows."""
    keys = {name for branch in program.all_branches for name in (*branch.partition, *branch.shuffle_by)}
    for name, before in (last.columns or {}).items():
        now = (own.columns or {}).get(name, before)
        if now == before or (_is_wider(before, now) and (last.wide or name not in keys)):
            continue
        back = f'give the column its old type (--select "CAST({name} AS ...) AS {name}")'
        raise RunError(
            f"the column {name!r} was {before} when the checkpoint was made and is {now} now, and its state cannot be "
            f"read as that: {back}, or {NEW_CHECKPOINT}"
        )
    gone = [name for name in last.columns or {} if name not in program.schema.columns.names]
    stays = [q.name for n, q in enumerate(program.workload.queries) if program.fingerprints.get(n) in last.queries]
    whole = [query.name for query in program.workload.queries if query.name in stays and _returns_events(query.returns)]
    if gone and whole:
        raise RunError(
            f"the events had a column {gone[0]!r} when the checkpoint was made, which {whole[0]} returns, and have "
            f'none now: bring it back (--select "*" "NULL AS {gone[0]}" will do), or {NEW_CHECKPOINT}'
        )


def _is_wider(before: str, now: str) -> bool:
    return before in INTEGERS and now in INTEGERS and INTEGERS.index(before) < INTEGERS.index(now)


def _returns_events(returns: Sequence[object]) -> bool:
    return any(isinstance(item, AllVariables | Variable) for item in returns)


def _check_options(last: StartRecord, own: StartRecord) -> None:
    """Raise where an option has changed that state or results depend on."""
    before, now = {"windows": "auto", **(last.options or {})}, own.options or {}
    for name in before.keys() & now.keys():
        if before[name] != now[name]:
            option = name if name == "windows" else "--" + name.replace("_", "-")
            raise RunError(
                f"the checkpoint was made with {option} {before[name]}, which cannot change to {now[name]}: "
                f"start with the old {option}, or {NEW_CHECKPOINT}"
            )


def _check_sink(last: StartRecord, own: StartRecord) -> None:
    """Raise where results would go to the same folder in another way: those who read it would miss some."""
    before, now = last.sink, own.sink
    if before is None or now is None or before["path"] is None or before["path"] != now["path"]:
        return
    if before["format"] != now["format"]:
        raise RunError(
            f"results in {now['path']} are {before['format']}, not {now['format']}: name another --output, "
            f"or the old --sink"
        )
    if before["by_batch"] != now["by_batch"]:
        late = "without --late" if now["by_batch"] else "with --late"
        raise RunError(
            f"results in {now['path']} were written {late}, and readers of that folder would not see both: "
            f"name another --output, or start {late} as before"
        )


def _read_watermark(session: SparkSession, checkpoint: str) -> int | None:
    """Return the watermark after the last committed micro-batch, in microseconds; None if there was none."""
    marks = {}
    for row in _read_rows(session, f"{checkpoint}/commits"):
        name = row["file"].rpartition("/")[2]
        if name.isdigit() and row["value"].startswith("{"):
            marks[int(name)] = int(_parse(row).get("nextBatchWatermarkMs", 0))
    return marks[max(marks)] * 1000 if marks else None


def _read_records(session: SparkSession, checkpoint: str) -> list[StartRecord]:
    """Return the records of all starts, the last one last."""
    records = []
    for row in _read_rows(session, f"{checkpoint}/{FOLDER}"):
        try:
            records.append(StartRecord(**_parse(row)))
        except TypeError as error:
            raise RunError(
                f"{row['file']} was written by a newer motet: install that one, or {NEW_CHECKPOINT}"
            ) from error
    records.sort(key=lambda record: record.start)
    if records and {record.start for record in records} != set(range(records[-1].start + 1)):
        raise RunError(
            f"records of the checkpoint are missing in {checkpoint}/{FOLDER}: bring them back, or {NEW_CHECKPOINT}"
        )
    return records


def _parse(row: Row) -> Mapping[str, Any]:
    """Parse a line of JSON."""
    try:
        found = json.loads(row["value"])
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise describe_damage(row["file"], "it is no JSON")
    return found


def _read_rows(session: SparkSession, folder: str) -> list[Row]:
    """Return the lines of all files in a folder of any file system, with the file that each is in; none if it does not
    exist.
    """
    try:
        lines = session.read.text(folder)
        return lines.select(sf.col("_metadata.file_path").alias("file"), "value").collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return []
        raise
    except Exception as error:
        raise describe_damage(find_named_file(str(error), folder) or folder, first_line(error)) from error
