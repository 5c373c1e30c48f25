"""Read the parquet files of a DataFrame with pyarrow inside the tasks, without Spark's rows in between.

It takes a third of the time that Spark's own reading, with rows turned to Arrow, takes; but only a DataFrame that is
nothing but columns of files, and filters and columns that pyarrow computes as Spark does, can be read so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from motet.errors import DataError
from motet.spark.columns import CannotTranslate, Expression, evaluate, list_columns
from motet.spark.file_plans import find_classic_scan, find_connect_scan

# Files that are opened before any task runs, to see what they hold and how often a key occurs.
MAX_INSPECTED_FILES = 16
ROWS_PER_READ = 250_000
# What opening a file counts for beside reading it, and the least that a task reads: Spark's own measures.
FILE_OPEN_BYTES = 4 << 20
DEFAULT_TASK_BYTES = 128 << 20
# Under these settings Spark passes over files that it cannot read.
LENIENT_SETTINGS = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
# Files whose times are in the calendars of old say so.
LEGACY_CALENDAR_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True, slots=True)
class FileRange:
    """The row groups of a file that begin in a range of its bytes."""

    file: str
    start: int
    end: int


@dataclass(frozen=True)
class FileScan:
    """A DataFrame as columns computed of parquet files: the files, their columns that are read, the expression of each
    column of the DataFrame, and the conditions that a row must meet. If it is not `exact`, it only tells which rows of
    the files those of the DataFrame come from: conditions and joins that only Spark can compute are left out.
    """

    files: tuple[Path, ...]
    stored: pa.Schema
    columns: pa.Schema
    outputs: tuple[Expression, ...]
    conditions: tuple[Expression, ...]
    exact: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but columns of the files, by their own names."""
        return not self.conditions and self.outputs == tuple(("column", name) for name in self.columns.names)

    def select(self, columns: pa.Schema) -> FileScan:
        """Return a scan for some of the columns."""
        known = dict(zip(self.columns.names, self.outputs, strict=True))
        outputs = tuple(known[name] for name in columns.names)
        used = sorted(set().union(*map(list_columns, (*outputs, *self.conditions))))
        stored = pa.schema([self.stored.field(name) for name in used])
        return FileScan(self.files, stored, columns, outputs, self.conditions, self.exact)

    def can_encode(self, name: str) -> bool:
        """Return whether a column can be read as a dictionary."""
        return bool(self.outputs[self.columns.names.index(name)][0] == "column")

    def keeps_range(self, name: str) -> bool:
        """Return whether a column reaches as far as in the files: it is stored so, and no condition reads it."""
        read = set().union(*map(list_columns, self.conditions))
        return self.outputs[self.columns.names.index(name)] == ("column", name) and name not in read

    def read(self, part: FileRange, coded: Sequence[str] = ()) -> Iterator[pa.Table]:
        """Yield the rows of a range of a file, with some columns as dictionaries."""
        outputs = dict(zip(self.columns.names, self.outputs, strict=True))
        stored = [str(outputs[name][1]) for name in coded]
        for rows in read_range(part, self.stored, stored):
            yield self.compute(rows)

    def compute(self, rows: pa.Table) -> pa.Table:
        """Return the columns of rows that meet all conditions."""
        for condition in self.conditions:
            mask = evaluate(condition, rows)
            # A condition without columns holds for all rows or for none.
            rows = rows.slice(0, None if mask.as_py() else 0) if isinstance(mask, pa.Scalar) else rows.filter(mask)
        return pa.table([self._compute_column(at, rows) for at in range(len(self.columns))], names=self.columns.names)

    def _compute_column(self, at: int, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        expression, type = self.outputs[at], self.columns.field(at).type
        if expression[0] == "column":
            return rows[expression[1]]
        values = evaluate(expression, rows)
        return pa.repeat(values, len(rows)).cast(type) if isinstance(values, pa.Scalar) else values.cast(type)


def find_scan(events: DataFrame, columns: pa.Schema) -> FileScan | None:
    """Return how a DataFrame with these columns is computed of local parquet files; None if only Spark can tell."""
    found = find_origin(events, columns)
    return found if found is not None and found.exact else None


def find_origin(events: DataFrame, columns: pa.Schema) -> FileScan | None:
    """Return how these columns of a DataFrame come from local parquet files, with conditions and joins left out that
    only Spark can compute; None if they do not.
    """
    if any("." in name for name in columns.names):
        return None
    conf = events.sparkSession.conf
    if any(conf.get(setting, "false") == "true" for setting in LENIENT_SETTINGS):
        return None
    try:
        parts = find_classic_scan(events) if hasattr(events, "_jdf") else find_connect_scan(events, columns.names)
        used = sorted(set().union(*map(list_columns, (*parts.outputs, *parts.conditions))))
        read = pa.schema([parts.stored.field(name) for name in used])
    except (CannotTranslate, KeyError):
        return None
    # A column that is handed on as it is comes in the type that it has in the DataFrame.
    kinds = zip(parts.outputs, columns, strict=True)
    if not used or any(each[0] == "column" and read.field(each[1]).type != field.type for each, field in kinds):
        return None
    urls = [urlparse(file) for file in parts.files]
    files = tuple(Path(unquote(url.path)) for url in urls)
    if not files or not all(url.scheme == "file" and file.is_file() for url, file in zip(urls, files, strict=True)):
        return None
    if not all(_can_read(file, read) for file in pick_evenly(files, MAX_INSPECTED_FILES)):
        return None
    return FileScan(files, read, columns, tuple(parts.outputs), tuple(parts.conditions), parts.exact)


def find_plain_files(events: DataFrame, columns: pa.Schema) -> list[Path]:
    """Return the files of a DataFrame that is nothing but these columns of local parquet files; else none."""
    scan = find_scan(events, columns)
    return list(scan.files) if scan is not None and scan.is_plain else []


def split_files(files: Sequence[Path], session: SparkSession) -> list[list[FileRange]]:
    """Split files over tasks: each reads about as much as Spark would give it.

    The last range of a file has no end: on Spark Connect, the file that tasks read may be longer than the one here.
    """
    most, cores = find_task_limits(session)
    sizes = [(str(file), file.stat().st_size) for file in files]
    fair = sum(size + FILE_OPEN_BYTES for _, size in sizes) // cores
    share = max(FILE_OPEN_BYTES, min(most, fair))
    tasks: list[list[FileRange]] = []
    taken = share
    for file, size in sizes:
        for start in range(0, size, share):
            if taken >= share:
                tasks.append([])
                taken = 0
            end = min(start + share, size)
            tasks[-1].append(FileRange(file, start, end if end < size else sys.maxsize))
            taken += end - start + FILE_OPEN_BYTES
    return tasks


def read_range(part: FileRange, columns: pa.Schema, coded: Sequence[str] = ()) -> Iterator[pa.Table]:
    """Yield the rows of a range in these columns, some as dictionaries; a column that the file lacks is null."""
    with _open(Path(part.file), coded) as file:
        firsts = [_find_first_byte(file, group) for group in range(file.num_row_groups)]
        groups = [group for group, first in enumerate(firsts) if part.start <= first < part.end]
        yield from read_groups(file, groups, columns, coded, part.file)


def read_groups(
    file: pq.ParquetFile,
    groups: Sequence[int],
    columns: pa.Schema,
    coded: Sequence[str] = (),
    name: str = "a file",
    rows: int = ROWS_PER_READ,
) -> Iterator[pa.Table]:
    """Yield the rows of row groups, so many at a time."""
    there = [name for name in columns.names if name in file.schema_arrow.names]
    for batch in file.iter_batches(rows, row_groups=groups, columns=there, use_threads=False) if groups else ():
        yield pa.table([_convert_column(batch, field, name, coded) for field in columns], names=columns.names)


def pick_evenly(things: Sequence[Any], most: int) -> list[Any]:
    """Return up to so many of the things, evenly spaced."""
    count = min(len(things), most)
    return [things[at * len(things) // count] for at in range(count)]


def estimate_rows(files: Sequence[Path]) -> float:
    """Estimate the rows in files of one kind by their sizes and the rows of the first."""
    with _open(files[0]) as opened:
        rows: int = opened.metadata.num_rows
    return rows / max(files[0].stat().st_size, 1) * sum(file.stat().st_size for file in files)


def find_task_limits(session: SparkSession) -> tuple[int, int]:
    """Return the most bytes that a task reads, and the number of tasks that run at a time, as far as that is known."""
    internal: Any = session
    if hasattr(internal, "_jsparkSession"):
        limit = internal._jsparkSession.sessionState().conf().filesMaxPartitionBytes()
        return limit, session.sparkContext.defaultParallelism
    told = re.fullmatch(r"(\d+)b?", session.conf.get("spark.sql.files.maxPartitionBytes") or "")
    tasks = int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    return int(told[1]) if told else DEFAULT_TASK_BYTES, max(1, tasks // 2)


def _open(file: Path, coded: Sequence[str] = ()) -> pq.ParquetFile:
    return pq.ParquetFile(file, read_dictionary=list(coded), coerce_int96_timestamp_unit="us")


def _find_first_byte(file: pq.ParquetFile, group: int) -> int:
    first = file.metadata.row_group(group).column(0)
    return int(first.dictionary_page_offset or first.data_page_offset)


def _convert_column(batch: pa.RecordBatch, field: pa.Field, file: str, coded: Sequence[str]) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(len(batch), field.type)
    column = batch.column(field.name)
    if field.name in coded and pa.types.is_dictionary(column.type):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as problem:
        raise DataError(f"{file}: column {field.name!r} is not {field.type} as in other files: {problem}") from None


def _can_read(file: Path, wanted: pa.Schema) -> bool:
    """Return whether pyarrow reads these columns of a file as Spark does; those of folder names are in no file."""
    with _open(file) as opened:
        stored = opened.schema_arrow
        if any(mark in (opened.metadata.metadata or {}) for mark in LEGACY_CALENDAR_KEYS):
            return False
        leaves = [opened.schema.column(at) for at in range(len(opened.schema))]
        instants = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    types = {field.name: _normalize_type(field.type, field.name in instants) for field in stored}
    return all(types.get(field.name) in (field.type, _as_millis(field.type)) for field in wanted)


def _normalize_type(type: pa.DataType, is_instant: bool) -> pa.DataType:
    """Return a stored type as Spark sees it: no dictionaries, one string type, INT96 timestamps in UTC."""
    if pa.types.is_dictionary(type):
        type = type.value_type
    if pa.types.is_large_string(type):
        return pa.string()
    return pa.timestamp("us", "UTC") if is_instant else type


def _as_millis(type: pa.DataType) -> pa.DataType:
    return pa.timestamp("ms", type.tz) if pa.types.is_timestamp(type) else type
