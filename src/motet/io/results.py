"""Results to files and terminals: text tables, json lines, csv and parquet."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import io
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
from rich.console import Console

from motet.errors import DataError
from motet.io.rows import QueryRows, rows_by_query
from motet.io.tables import UNLIMITED, print_tables
from motet.model.query import Workload


class Format(StrEnum):
    """How results are written."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


# Rows turned to Python values at a time.
ROWS_AT_ONCE = 1 << 16


def format_for(target: Path | None) -> Format:
    """The format that a file's name asks for; a table where it asks for none."""
    ending = target.suffix.lstrip(".").lower() if target else ""
    return Format(ending) if ending in (Format.JSONL, Format.CSV, Format.PARQUET) else Format.TABLE


def target_file(output: Path, format: Format) -> Path:
    """The file to write, checked before a run rather than after it: a folder gets a `results` file."""
    if output.is_dir():
        return output / f"results.{'txt' if format is Format.TABLE else format}"
    if not output.parent.is_dir():
        raise DataError(f"no folder {output.parent} to write {output.name} in: make it first")
    return output


def write_file(results: pa.Table, workload: Workload, target: Path, format: Format) -> None:
    """Write results to a file, whole or not at all."""
    with replacing(target) as stream:
        write_stream(results, workload, stream, format)


def write_stream(results: pa.Table, workload: Workload, stream: IO[bytes], format: Format) -> None:
    """Write results to an open stream."""
    match format:
        case Format.PARQUET:
            pq.write_table(results, stream, compression="zstd")
        case Format.CSV:
            csv.write_csv(flattened(results), stream)
        case Format.JSONL:
            for line in json_lines(results, workload):
                stream.write(line.encode())
        case Format.TABLE:
            text = io.StringIO()
            print_tables(Console(file=text, width=UNLIMITED), results, workload, limit=None)
            stream.write(text.getvalue().encode())


class ResultWriter:
    """Writes results table by table to an open stream, as json lines, csv or parquet."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema, workload: Workload, format: Format) -> None:
        self.stream = stream
        self.workload = workload
        self.writer: pq.ParquetWriter | csv.CSVWriter | None = None
        if format is Format.PARQUET:
            self.writer = pq.ParquetWriter(stream, schema, compression="zstd")
        elif format is Format.CSV:
            self.writer = csv.CSVWriter(stream, flattened(schema.empty_table()).schema)
        self.flatten = format is Format.CSV

    def write(self, results: pa.Table) -> None:
        """Write some results."""
        if self.writer is None:
            for line in json_lines(results, self.workload):
                self.stream.write(line.encode())
        else:
            self.writer.write_table(flattened(results) if self.flatten else results)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A stream to a file beside the target that takes its place at the end, and is removed if anything fails."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        Path(name).chmod(0o666 & ~current_umask())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def json_lines(results: pa.Table, workload: Workload) -> Iterator[str]:
    """A line per row, in the order of the results."""
    shapes = {rows.query.name: rows for rows in rows_by_query(workload)}
    for batch in results.to_batches(max_chunksize=ROWS_AT_ONCE):
        for row in batch.to_pylist():
            yield json.dumps(plain(json_row(row, shapes[row["query"]])), ensure_ascii=False, allow_nan=False) + "\n"


def json_row(row: dict[str, Any], rows: QueryRows) -> dict[str, Any]:
    """The fixed shape of a row: its query, its time, then its group and values, or its match."""
    shaped = {"query": row["query"], **{name: row[name] for name in rows.times}}
    if not rows.query.is_aggregate:
        return shaped | {"match": {label: rows.bound(label, row[label]) for label in rows.labels}}
    return shaped | {
        "group": {name: row[name] for name in rows.query.group_by},
        "values": {label: row[label] for label in rows.labels},
    }


def plain(value: Any) -> Any:
    """A value that JSON has: times in ISO 8601, NaN as null, infinities by name as Spark writes them."""
    match value:
        case dict():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float() if math.isnan(value):
            return None
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case dt.date() | dt.time():
            return value.isoformat()
        case decimal.Decimal() | dt.timedelta():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value


def flattened(results: pa.Table) -> pa.Table:
    """The table with every column such that a csv cell can hold it: times in ISO 8601, nested values as JSON."""
    for at, field in enumerate(results.schema):
        column = results.column(at)
        if pa.types.is_timestamp(field.type):
            results = results.set_column(at, field.name, iso_text(column))
        elif pa.types.is_nested(field.type):
            text = [None if v is None else json.dumps(plain(v), ensure_ascii=False) for v in column.to_pylist()]
            results = results.set_column(at, field.name, pa.array(text, pa.string()))
    return results


def iso_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as `datetime.isoformat` writes them."""
    zoned = column.type.tz is not None
    text = pc.strftime(column, "%Y-%m-%dT%H:%M:%S" + ("%z" if zoned else ""))
    text = pc.replace_substring_regex(text, r"\.0+($|[+-])", r"\1")
    return pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2") if zoned else text
