"""Read event files, a file or a folder, as Arrow batches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from motet.errors import DataError, UnreadableError, require_columns
from motet.io.formats import (
    BLOCK_BYTES,
    JSONL,
    PARQUET,
    find_files,
    is_small_text,
    make_dataset_factory,
    read_text,
    require_distinct_names,
    translate_read_errors,
    unify_schema,
)
from motet.model.expression import Expression, KleeneAggregate, attributes, walk
from motet.model.query import Aggregate, Computed, Workload
from motet.model.validate import find_problems
from motet.schema import is_text, is_time

if TYPE_CHECKING:
    import pyarrow.dataset as ds

BATCH_ROWS = 1 << 17
ZONE = re.compile(r"([Zz]|[+-]\d\d(:?\d\d)?)$")
# Kind of value -> the type of a column that holds it.
TYPES = {"text": pa.string(), "number": pa.float64(), "time": pa.timestamp("us"), "boolean": pa.bool_()}


@dataclass(frozen=True)
class EventSource:
    """Events in files, read in batches. In `schema` times are times and types are text, however the files hold them."""

    origin: str
    files: tuple[str, ...]
    format: str
    schema: pa.Schema
    time: str
    type: str
    content: ds.Dataset | pa.Table  # a table where a text file is small
    num_rows: int | None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with the named columns only."""
        schema = self._select_schema(columns)
        with translate_read_errors(self.origin):
            for batch in self._read(schema.names):
                yield self.convert(batch, schema.names)

    def convert(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """Return rows as the files hold them with the types of `schema`."""
        schema = self._select_schema(columns)
        arrays = [self._convert_column(batch.column(at), field) for at, field in enumerate(schema)]
        return pa.record_batch(arrays, schema=schema)

    def _read(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        if isinstance(self.content, pa.Table):
            return iter(self.content.select(names).to_batches(BATCH_ROWS))
        # Little read ahead: the memory a run needs must not grow with the files.
        scanner = self.content.scanner(names, batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1)
        batches: Iterator[pa.RecordBatch] = scanner.to_batches()
        return batches

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows as one table."""
        return pa.Table.from_batches(self.batches(columns), self._select_schema(columns))

    def _select_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        return self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])

    def _convert_column(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if column.type == field.type:
            return column
        if field.name == self.time and is_text(column.type):
            return parse_times(column, field.type, self.time, self.origin)
        return pc.cast(column, field.type)


def open_table(path: str | Path) -> ds.Dataset | pa.Table:
    """Open files as a table whose columns have no roles: one small text file is read, all else is read when used."""
    origin = str(path)
    files, kind = find_files(Path(path))
    with translate_read_errors(origin):
        if is_small_text(files, kind):
            return read_text(files[0], kind, "") if files[0].stat().st_size else pa.table({})
        factory = make_dataset_factory(Path(path), files, kind, "")
        return factory.finish(unify_schema(factory, origin))


def open_events(
    path: str | Path, *, time: str = "time", type: str = "type", columns: Iterable[str] = ()
) -> EventSource:
    """Open event files and check their time and type columns.

    `columns` are those a workload reads: if the files hold nothing at all, not even names, they are taken to exist.
    """
    origin = str(path)
    files, kind = find_files(Path(path))
    # An empty text file has no columns; an empty parquet file has.
    filled = [file for file in files if kind == PARQUET or file.stat().st_size > 0]
    if not filled:
        return empty_source(origin, kind, time, type, columns)
    with translate_read_errors(origin):
        content: ds.Dataset | pa.Table
        if is_small_text(filled, kind):
            found = require_distinct_names(read_text(filled[0], kind, type).schema, origin)
            _require_time_and_type(found, time, type, origin)
            content = read_text(filled[0], kind, type, _choose_text_types(found, filled, kind, time))
        else:
            factory = make_dataset_factory(Path(path), filled, kind, type)
            found = unify_schema(factory, origin)
            _require_time_and_type(found, time, type, origin)
            content = factory.finish(found if kind == PARQUET else _choose_text_types(found, filled, kind, time))
        typed = _resolve_type_column(content.schema, type, kind, origin)
        schema = _resolve_time_column(typed, content, time, origin)
        num_rows = content.count_rows() if kind == PARQUET else None
    return EventSource(origin, tuple(map(str, filled)), kind, schema, time, type, content, num_rows)


def empty_source(origin: str, kind: str, time: str, type: str, columns: Iterable[str]) -> EventSource:
    """Return a source without rows: every column asked for exists, and is null."""
    others = dict.fromkeys(name for name in columns if name not in (time, type))
    schema = pa.schema([(time, pa.timestamp("us")), (type, pa.string()), *((name, pa.null()) for name in others)])
    return EventSource(origin, (), kind, schema, time, type, schema.empty_table(), 0)


def count_event_types(source: EventSource) -> dict[str, int]:
    """Count the rows of each event type, by one pass over the type column alone."""
    found: Counter[str] = Counter()
    for batch in source.batches([source.type]):
        for entry in pc.value_counts(batch.column(0).drop_null()).to_pylist():
            found[entry["values"]] += entry["counts"]
    return dict(found)


def list_columns(workload: Workload) -> list[str]:
    """Return every column that a workload names, each once."""
    names: list[str] = []
    expressions: list[Expression] = [definition.condition for definition in workload.definitions]
    for query in workload.queries:
        names += [*query.partition, *(item.name for item in query.returns if isinstance(item, Aggregate) and item.name)]
        expressions += [*query.conditions, *(item.expression for item in query.returns if isinstance(item, Computed))]
    for expression in expressions:
        names += [attribute.name for attribute in attributes(expression)]
        names += [node.name for node in walk(expression) if isinstance(node, KleeneAggregate) and node.name]
    return list(dict.fromkeys(names))


def guess_types(schema: pa.Schema, workload: Workload) -> pa.Schema:
    """Return the schema with a type for each column without values: the one to which the workload objects least."""

    def guess(name: str) -> pa.DataType:
        return TYPES[min(TYPES, key=lambda kind: len(find_problems(workload, {name: kind})))]

    return pa.schema([(field.name, guess(field.name)) if pa.types.is_null(field.type) else field for field in schema])


def parse_times(column: pa.Array, type: pa.DataType, name: str, origin: str) -> pa.Array:
    """Parse text as times."""
    text = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    try:
        return pc.cast(text, type)
    except pa.ArrowInvalid as error:
        wrong = next(value for value in text if not _is_time(value, type))
        zone = " with a zone" if type.tz else ""
        message = f"column {name!r} of {origin} is text, and {wrong.as_py()!r} is no ISO 8601 time{zone}"
        raise UnreadableError(message) from error


def _is_time(value: pa.StringScalar, type: pa.DataType) -> bool:
    try:
        pc.cast(value, type)
    except pa.ArrowInvalid:
        return False
    return True


def _require_time_and_type(schema: pa.Schema, time: str, type: str, origin: str) -> None:
    """Raise if the time or the type column is missing, and say how to name another."""
    for role, name in (("time", time), ("type", type)):
        try:
            require_columns(schema.names, (name,), origin)
        except DataError as error:
            likely = next((field.name for field in schema if _can_be(role, field.type)), "COLUMN")
            raise DataError(f"{error}\n  --{role} (in Python {role}=) names another, as in --{role} {likely}") from None


def _can_be(role: str, type: pa.DataType) -> bool:
    return is_text(type) if role == "type" else is_time(type)


def _choose_text_types(found: pa.Schema, files: list[Path], kind: str, time: str) -> pa.Schema:
    """Choose types for the columns of text files, of which only the first block was seen."""
    seen_whole = all(file.stat().st_size < BLOCK_BYTES for file in files)

    def choose(field: pa.Field) -> pa.DataType:
        if pa.types.is_timestamp(field.type):
            # Arrow's json reader forgets the zone of a time: read it as text and parse it here.
            return pa.string() if kind == JSONL and field.name == time else pa.timestamp("us", field.type.tz)
        return pa.string() if pa.types.is_null(field.type) and not seen_whole else field.type

    return pa.schema([(field.name, choose(field)) for field in found])


def _resolve_type_column(schema: pa.Schema, type: str, kind: str, origin: str) -> pa.Schema:
    """Return the schema with a type column of text: whole numbers in a text file count as text."""
    at, found = schema.get_field_index(type), schema.field(type).type
    if is_text(found):
        return schema
    if pa.types.is_null(found) or (kind != PARQUET and pa.types.is_integer(found)):
        return schema.set(at, pa.field(type, pa.string()))
    raise DataError(f"column {type!r} of {origin} holds {found}, but event types are text")


def _resolve_time_column(schema: pa.Schema, content: ds.Dataset | pa.Table, time: str, origin: str) -> pa.Schema:
    """Return the schema with a time column of a time type; raise if it cannot be one."""
    at, found = schema.get_field_index(time), schema.field(time).type
    types = pa.types
    if is_time(found) or types.is_integer(found):
        return schema
    if types.is_null(found):
        return schema.set(at, pa.field(time, pa.timestamp("us")))
    if is_text(found):
        return schema.set(at, pa.field(time, _find_time_type(content, time, origin)))
    why = "a floating number is no exact time" if types.is_floating(found) else "that is no time"
    raise DataError(
        f"column {time!r} of {origin} holds {found}: {why} (timestamps, dates, whole numbers and ISO 8601 text are)"
    )


def _find_time_type(content: ds.Dataset | pa.Table, time: str, origin: str) -> pa.DataType:
    """Return the type of times stored as text: with a zone if the first of them has one."""
    if isinstance(content, pa.Table):
        first = content.select([time]).slice(0, 1000)
    else:
        first = content.head(1000, columns=[time])
    sample = first.column(0).drop_null().slice(0, 1)
    zoned = len(sample) > 0 and ZONE.search(sample[0].as_py()[10:].strip())
    type = pa.timestamp("us", "UTC" if zoned else None)
    try:
        parse_times(sample.combine_chunks(), type, time, origin)
    except UnreadableError as error:
        # Known before anything has run: wrong from the start rather than broken on the way.
        raise DataError(str(error)) from error
    return type
