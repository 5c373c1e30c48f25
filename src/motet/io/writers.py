"""Write results to files and terminals: text tables, json lines, csv, parquet, Arrow and DuckDB files."""

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
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from rich.console import Console

from motet.errors import DataError
from motet.io.formats import first_line
from motet.io.query_columns import QueryColumns, list_query_columns
from motet.io.sql import connect
from motet.io.text_tables import UNLIMITED, print_relation, print_tables
from motet.io.values import format_iso_times, to_rows
from motet.model.query import Workload
from motet.row_patterns.tokens import quote
from motet.schema import is_nested


class OutputFormat(StrEnum):
    """The format in which results are written."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"
    DUCKDB = "duckdb"
    DELTA = "delta"
    ICEBERG = "iceberg"


# Ending of a file's name -> the format to write.
ENDINGS = {
    ".txt": OutputFormat.TABLE, ".jsonl": OutputFormat.JSONL, ".ndjson": OutputFormat.JSONL,
    ".csv": OutputFormat.CSV, ".parquet": OutputFormat.PARQUET, ".pq": OutputFormat.PARQUET,
    ".arrow": OutputFormat.ARROW, ".feather": OutputFormat.ARROW, ".duckdb": OutputFormat.DUCKDB,
    ".delta": OutputFormat.DELTA,
}  # fmt: skip
# Tables that Spark writes, where their connector is installed.
LAKES = (OutputFormat.DELTA, OutputFormat.ICEBERG)
STDOUT = ("-", "/dev/stdout")
# Rows turned to Python values at a time.
ROWS_AT_ONCE = 1 << 16
# Files that are being written, and new folders for them: removed if the process has to end at once.
TEMPORARY: set[Path] = set()


def names_folder(output: str | Path) -> bool:
    """Return whether an output is a folder, which gets a file for each query: it exists, or ends in a slash."""
    return str(output).endswith(("/", os.sep)) or Path(output).is_dir()


def choose_format(output: str | Path | None) -> OutputFormat:
    """Return the format that a file's name asks for; a table for a terminal or a device, parquet in a folder."""
    if output is None or str(output) in STDOUT:
        return OutputFormat.TABLE
    target = Path(output)
    found = ENDINGS.get(target.suffix.lower())
    if found in LAKES:  # such a table is a folder, too
        return found
    if target.suffix.lower() == ".iceberg":
        return OutputFormat.ICEBERG
    if names_folder(output):
        return OutputFormat.PARQUET
    if target.exists() and not target.is_file():
        return OutputFormat.TABLE
    if found is None:
        raise DataError(
            f"cannot tell the format of {target}: name it with one of {', '.join(ENDINGS)}, give --format, or write "
            f"{target}/ for a folder with a file for each query"
        )
    return found


def resolve_target(output: str | Path, format: OutputFormat) -> Path | None:
    """Return the file to write, or the folder to write a file for each query in; None for standard output.

    This is checked before a run rather than after it.
    """
    if str(output) in STDOUT:
        return None
    target = Path(output)
    if format is OutputFormat.ICEBERG and target.suffix.lower() == ".iceberg":
        raise DataError(f"Iceberg has tables of a catalog only: write --output {target.stem} --format iceberg")
    if format in LAKES:
        return target
    if names_folder(output) and format is OutputFormat.DUCKDB:
        raise DataError(f"{target} is a folder: name a file in it, such as {target / 'results.duckdb'}")
    if names_folder(output):
        above = next(each for each in (target, *target.parents) if each.exists())
        if not above.is_dir():
            raise DataError(f"{above} is a file: there can be no folder {target}")
        return target
    file = Path(os.path.realpath(target)) if target.is_symlink() else target
    if file.is_symlink():
        raise DataError(f"{target} is a link that leads back to itself: name a file")
    if not file.parent.is_dir():
        raise DataError(f"no folder {file.parent} to write {file.name} in: make it first")
    if format is OutputFormat.DUCKDB and _is_special(target):
        raise DataError(f"{target} is no file: a DuckDB database needs one")
    return target


def write_file(
    results: pa.Table, workload: Workload, target: Path, format: OutputFormat, is_folder: bool = False
) -> None:
    """Write results to a file, or to a folder with a file for each query, whole or not at all; see `open_writer`."""
    with open_writer(target, results.schema, workload, format, is_folder) as writer:
        writer.write(results)


def write_stream(results: pa.Table, workload: Workload, stream: IO[bytes], format: OutputFormat) -> None:
    """Write results to an open stream."""
    writer = ResultWriter(stream, results.schema, workload, format)
    writer.write(results)
    writer.close()


def write_relation(rows: pa.Table, stream: IO[bytes], format: OutputFormat) -> None:
    """Write a table that is the result of no workload to an open stream."""
    writer = RelationWriter(stream, rows.schema, format)
    writer.write(rows)
    writer.close()


class RelationWriter:
    """A writer of rows of one schema, table by table, to an open stream. Text tables are written at the end."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema, format: OutputFormat) -> None:
        self.stream, self.schema, self.format = stream, schema, format
        self.held: list[pa.Table] = []
        self.writer: pq.ParquetWriter | pa.RecordBatchFileWriter | None = None
        if format is OutputFormat.PARQUET:
            try:
                self.writer = pq.ParquetWriter(stream, schema, compression="zstd")
            except pa.ArrowNotImplementedError as error:
                raise _refuse_types(format, error) from error
        elif format is OutputFormat.ARROW:
            self.writer = pa.ipc.new_file(stream, schema)
        elif format is OutputFormat.CSV:
            self._write_csv(schema.empty_table(), with_names=True)

    def write(self, rows: pa.Table) -> None:
        """Write some rows."""
        if self.writer is not None:
            self.writer.write_table(rows)
        elif self.format is OutputFormat.CSV:
            self._write_csv(rows, with_names=False)
        elif self.format is OutputFormat.JSONL:
            for batch in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
                for row in to_rows(batch):
                    self.stream.write(_to_json_line(row).encode())
        else:
            self.held.append(rows)

    def _write_csv(self, rows: pa.Table, with_names: bool) -> None:
        flat = flatten_columns(rows)
        # For a batch without rows Arrow writes what its buffer last held; and it would close a stream that is not ours.
        filled = [batch for batch in flat.to_batches() if batch.num_rows]
        text = pa.BufferOutputStream()
        options = csv.WriteOptions(include_header=with_names)
        csv.write_csv(pa.Table.from_batches(filled, flat.schema), text, options)
        self.stream.write(text.getvalue())

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        elif self.format is OutputFormat.TABLE:
            text = io.StringIO()
            rows = pa.concat_tables([self.schema.empty_table(), *self.held])
            self._print(Console(file=text, width=UNLIMITED), rows)
            self.stream.write(text.getvalue().encode())

    def _print(self, console: Console, rows: pa.Table) -> None:
        print_relation(console, rows, limit=None)

    def discard(self) -> None:
        """End what cannot be completed: Arrow's writers write once more when they go, to a stream that is closed."""
        if self.writer is not None:
            with suppress(OSError, ValueError):
                self.writer.close()


@contextmanager
def open_writer(
    target: Path, schema: pa.Schema, workload: Workload, format: OutputFormat, is_folder: bool = False
) -> Iterator[ResultWriter | DatabaseWriter | FolderWriter]:
    """Open a file, or a folder with a file for each query, to which results are written table by table; it appears
    whole or not at all.

    What is no folder yet is made one with `is_folder`.
    """
    if is_folder or target.is_dir():
        with FolderWriter.open(target, schema, workload, format) as folder:
            yield folder
    elif format is OutputFormat.DUCKDB:
        with DatabaseWriter(target, schema, workload) as database:
            yield database
    else:
        with open_output(target) as stream:
            writer = ResultWriter(stream, schema, workload, format)
            try:
                yield writer
                writer.close()
            except BaseException:
                writer.discard()
                raise


class ResultWriter(RelationWriter):
    """A writer of results, table by table, to an open stream; text has a table for each query."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema, workload: Workload, format: OutputFormat) -> None:
        super().__init__(stream, schema, format)
        self.workload = workload

    def write(self, results: pa.Table) -> None:
        """Write some results."""
        if self.format is OutputFormat.JSONL:
            for line in json_lines(results, self.workload):
                self.stream.write(line.encode())
        else:
            super().write(results)

    def _print(self, console: Console, rows: pa.Table) -> None:
        print_tables(console, rows, self.workload, limit=None)


class FolderWriter:
    """A writer of results to a folder: a file for each query, with its own columns, whole or not at all."""

    def __init__(self, writers: list[tuple[QueryColumns, RelationWriter]]) -> None:
        self.writers = writers

    @classmethod
    @contextmanager
    def open(cls, target: Path, schema: pa.Schema, workload: Workload, format: OutputFormat) -> Iterator[Self]:
        """Open a file for each query in a folder, which is made if need be."""
        columns = list(list_query_columns(workload))
        names = [rows.query.name for rows in columns]
        bad = next((name for name in names if Path(name).name != name or name.startswith(".")), None)
        if bad is not None:
            raise DataError(f"no file can be called like query {bad!r}: rename it, or name a file with --output")
        ending = "txt" if format is OutputFormat.TABLE else str(format)
        writers = []
        with ExitStack() as stack:
            stack.enter_context(make_folder(target))
            for rows in columns:
                stream = stack.enter_context(open_output(target / f"{rows.query.name}.{ending}"))
                writer = RelationWriter(stream, rows.select_rows(schema.empty_table()).schema, format)
                stack.callback(writer.discard)
                writers.append((rows, writer))
            yield cls(writers)
            for _, writer in writers:
                writer.close()

    def write(self, results: pa.Table) -> None:
        """Write some results."""
        for rows, writer in self.writers:
            writer.write(rows.select_rows(results))


class DatabaseWriter:
    """A writer of results to a DuckDB file: a table for each query, with its own columns.

    All of it is one transaction. Tables of these names are replaced, others stay.
    """

    def __init__(self, target: Path, schema: pa.Schema, workload: Workload) -> None:
        self.target = Path(os.path.realpath(target))
        self.schema = schema
        self.columns = list(list_query_columns(workload))
        self.is_new = not self.target.exists()
        if not self.is_new and not _is_database(self.target):
            raise DataError(f"{target} is no DuckDB database: name another file")
        names = [rows.query.name.lower() for rows in self.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"two queries are called {twice!r} but for capitals, which name one table in DuckDB")

    def __enter__(self) -> Self:
        import duckdb

        if self.is_new:
            TEMPORARY.update((self.target, self.target.with_name(f"{self.target.name}.wal")))
        try:
            self.session = connect(str(self.target))
        except duckdb.Error as error:
            raise DataError(f"{self.target} cannot be written as a DuckDB database: {first_line(error)}") from error
        self.session.execute("BEGIN")
        try:
            for rows in self.columns:
                self._add("CREATE OR REPLACE TABLE {} AS SELECT * FROM rows", rows, self.schema.empty_table())
        except duckdb.NotImplementedException as error:
            self._end(commits=False)
            raise _refuse_types(OutputFormat.DUCKDB, error) from error
        return self

    def write(self, results: pa.Table) -> None:
        """Write some results."""
        for rows in self.columns:
            self._add("INSERT INTO {} SELECT * FROM rows", rows, results)

    def _add(self, text: str, rows: QueryColumns, results: pa.Table) -> None:
        self.session.register("rows", rows.select_rows(results))
        self.session.execute(text.format(quote(rows.query.name, "duckdb")))
        self.session.unregister("rows")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(commits=kind is None)

    def _end(self, *, commits: bool) -> None:
        self.session.execute("COMMIT" if commits else "ROLLBACK")
        self.session.close()
        if self.is_new and not commits:
            self.target.unlink(missing_ok=True)
        TEMPORARY.difference_update((self.target, self.target.with_name(f"{self.target.name}.wal")))


def _refuse_types(format: OutputFormat, error: Exception) -> DataError:
    return DataError(f"results have a type that {format} does not: {first_line(error)}; --format arrow has all types")


def _is_database(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(12)[8:] == b"DUCK"


@contextmanager
def make_folder(folder: Path) -> Iterator[None]:
    """Make a folder and those above it, where they are missing, to write in; they are removed if that fails."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be made: {error.strerror}") from error
    TEMPORARY.update(made)
    try:
        yield
    except BaseException:
        for each in made:
            with suppress(OSError):  # somebody else has put something there
                each.rmdir()
        raise
    finally:
        TEMPORARY.difference_update(made)


@contextmanager
def open_output(target: Path) -> Iterator[IO[bytes]]:
    """Open what a path leads to for writing: a file appears whole or not at all, a pipe or a device is written to."""
    if _is_special(target):
        # Not created, not cut: what is behind it is not ours.
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_APPEND), "wb") as stream:
            yield stream
    else:
        with open_atomically(Path(os.path.realpath(target))) as stream:
            yield stream


def _is_special(target: Path) -> bool:
    """Return whether a path leads to something else than a file: a pipe, a device, an open file of this process."""
    return (target.exists() and not target.is_file()) or target.is_relative_to("/dev") or target.is_relative_to("/proc")


@contextmanager
def open_atomically(target: Path) -> Iterator[IO[bytes]]:
    """Open a file beside the target that replaces it at the end, and is removed if anything fails."""
    mask = os.umask(0)
    os.umask(mask)
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    TEMPORARY.add(temporary)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        temporary.chmod(mode)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
        TEMPORARY.discard(temporary)


def remove_temporary_files() -> None:
    """Remove what is half written, where the process ends without going back through those who write."""
    for path in sorted(TEMPORARY, reverse=True):  # what is in a folder comes before it
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def json_lines(results: pa.Table, workload: Workload) -> Iterator[str]:
    """Yield a line of JSON per row, in the order of the results."""
    shapes = {rows.query.name: rows for rows in list_query_columns(workload)}
    for batch in results.to_batches(max_chunksize=ROWS_AT_ONCE):
        for row in to_rows(batch):
            yield _to_json_line(make_json_row(row, shapes[row["query"]]))


def _to_json_line(row: dict[str, Any]) -> str:
    return json.dumps(to_json_value(row), ensure_ascii=False, allow_nan=False) + "\n"


def make_json_row(row: dict[str, Any], rows: QueryColumns) -> dict[str, Any]:
    """Return a row in its fixed shape: its query, its time, then its group and values, or its match."""
    shaped = {"query": row["query"], **{name: row[name] for name in rows.times}}
    group = {"group": {name: row[rows.locate(name, row)] for name in rows.query.group_by}}
    found = {label: row[rows.locate(label, row)] for label in rows.labels}
    if rows.query.is_aggregate:
        return shaped | group | {"values": found}
    return shaped | (group if rows.query.group_by else {}) | {"match": found}


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
    """Convert columns for csv cells: times in ISO 8601, durations and bytes as in JSON, nested values as JSON."""
    as_in_json = (pa.types.is_duration, pa.types.is_binary, pa.types.is_large_binary)
    for at, field in enumerate(results.schema):
        column = results.column(at)
        if pa.types.is_timestamp(field.type):
            results = results.set_column(at, field.name, format_iso_times(column))
        elif is_nested(field.type) or any(is_type(field.type) for is_type in as_in_json):
            values = (to_json_value(row[""]) for row in to_rows(pa.table({"": column})))
            text = [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
            results = results.set_column(at, field.name, pa.array(text, pa.string()))
    return results
