"""Write results to files and terminals: text tables, json lines, csv and parquet."""

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
from motet.io.query_columns import QueryColumns, list_query_columns
from motet.io.text_tables import UNLIMITED, print_relation, print_tables
from motet.model.query import Workload


class OutputFormat(StrEnum):
    """The format in which results are written."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


# Rows turned to Python values at a time.
ROWS_AT_ONCE = 1 << 16


def choose_format(target: Path | None) -> OutputFormat:
    """Return the format that a file's name asks for; a table if it asks for none."""
    ending = target.suffix.lstrip(".").lower() if target else ""
    return OutputFormat(ending) if ending in set(OutputFormat) else OutputFormat.TABLE


def resolve_target(output: Path, format: OutputFormat) -> Path:
    """Return the file to write, checked before a run rather than after it: a folder gets a `results` file."""
    if output.is_dir():
        return output / f"results.{'txt' if format is OutputFormat.TABLE else format}"
    if not output.parent.is_dir():
        raise DataError(f"no folder {output.parent} to write {output.name} in: make it first")
    return output


def write_file(results: pa.Table, workload: Workload, target: Path, format: OutputFormat) -> None:
    """Write results to a file, whole or not at all."""
    with open_atomically(target) as stream:
        write_stream(results, workload, stream, format)


def write_stream(results: pa.Table, workload: Workload, stream: IO[bytes], format: OutputFormat) -> None:
    """Write results to an open stream."""
    if format is OutputFormat.TABLE:
        text = io.StringIO()
        print_tables(Console(file=text, width=UNLIMITED), results, workload, limit=None)
        stream.write(text.getvalue().encode())
    else:
        writer = ResultWriter(stream, results.schema, workload, format)
        writer.write(results)
        writer.close()


def write_relation(rows: pa.Table, stream: IO[bytes], format: OutputFormat) -> None:
    """Write a table that is the result of no workload to an open stream."""
    match format:
        case OutputFormat.TABLE:
            text = io.StringIO()
            print_relation(Console(file=text, width=UNLIMITED), rows, limit=None)
            stream.write(text.getvalue().encode())
        case OutputFormat.PARQUET:
            pq.write_table(rows, stream, compression="zstd")
        case OutputFormat.CSV:
            text_of_rows = io.BytesIO()
            csv.write_csv(flatten_columns(rows), text_of_rows)
            stream.write(text_of_rows.getvalue())
        case OutputFormat.JSONL:
            for batch in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    stream.write(_to_json_line(row).encode())


class ResultWriter:
    """A writer of results, table by table, to an open stream: json lines, csv or parquet."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema, workload: Workload, format: OutputFormat) -> None:
        self.stream = stream
        self.workload = workload
        self.format = format
        self.writer: pq.ParquetWriter | csv.CSVWriter | None = None
        if format is OutputFormat.PARQUET:
            self.writer = pq.ParquetWriter(stream, schema, compression="zstd")
        elif format is OutputFormat.CSV:
            self.writer = csv.CSVWriter(stream, flatten_columns(schema.empty_table()).schema)

    def write(self, results: pa.Table) -> None:
        """Write some results."""
        if self.writer is None:
            for line in json_lines(results, self.workload):
                self.stream.write(line.encode())
        else:
            self.writer.write_table(flatten_columns(results) if self.format is OutputFormat.CSV else results)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


@contextmanager
def open_atomically(target: Path) -> Iterator[IO[bytes]]:
    """Open a file beside the target that replaces it at the end, and is removed if anything fails."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def json_lines(results: pa.Table, workload: Workload) -> Iterator[str]:
    """Yield a line of JSON per row, in the order of the results."""
    shapes = {rows.query.name: rows for rows in list_query_columns(workload)}
    for batch in results.to_batches(max_chunksize=ROWS_AT_ONCE):
        for row in batch.to_pylist():
            yield _to_json_line(make_json_row(row, shapes[row["query"]]))


def _to_json_line(row: dict[str, Any]) -> str:
    return json.dumps(to_json_value(row), ensure_ascii=False, allow_nan=False) + "\n"


def make_json_row(row: dict[str, Any], rows: QueryColumns) -> dict[str, Any]:
    """Return a row in its fixed shape: its query, its time, then its group and values, or its match."""
    shaped = {"query": row["query"], **{name: row[name] for name in rows.times}}
    if not rows.query.is_aggregate:
        return shaped | {"match": {label: rows.unwrap_single(label, row[label]) for label in rows.labels}}
    return shaped | {
        "group": {name: row[name] for name in rows.query.group_by},
        "values": {label: row[label] for label in rows.labels},
    }


def to_json_value(value: Any) -> Any:
    """Convert a value to JSON: times in ISO 8601, NaN as null, infinities by name as Spark writes them."""
    match value:
        case dict():
            return {str(name): to_json_value(item) for name, item in value.items()}
        case list() | tuple():
            return [to_json_value(item) for item in value]
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


def flatten_columns(results: pa.Table) -> pa.Table:
    """Convert columns to what a csv cell can hold: times in ISO 8601, nested values as JSON."""
    for at, field in enumerate(results.schema):
        column = results.column(at)
        if pa.types.is_timestamp(field.type):
            results = results.set_column(at, field.name, format_iso_times(column))
        elif pa.types.is_nested(field.type):
            text = [None if v is None else json.dumps(to_json_value(v), ensure_ascii=False) for v in column.to_pylist()]
            results = results.set_column(at, field.name, pa.array(text, pa.string()))
    return results


def format_iso_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Format times as `datetime.isoformat` does."""
    zoned = column.type.tz is not None
    text = pc.strftime(column, "%Y-%m-%dT%H:%M:%S" + ("%z" if zoned else ""))
    text = pc.replace_substring_regex(text, r"\.0+($|[+-])", r"\1")
    return pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2") if zoned else text
