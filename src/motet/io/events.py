"""Read event files, one or many, as Arrow batches."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from motet.errors import DataError, require_columns
from motet.io.column_roles import combine_column, find_likely_time, find_likely_type
from motet.io.formats import (
    ARROW,
    BLOCK_BYTES,
    COLUMN_TYPES,
    CSV,
    JSONL,
    OTHER,
    PARQUET,
    TEXTS,
    TSV,
    describe_paths,
    find_base,
    find_files,
    is_pipe,
    make_dataset_factory,
    must_read_whole,
    read_binary,
    read_pipe,
    read_start,
    read_text,
    require_delimiter,
    require_distinct_names,
    require_options_apply,
    require_typed_columns,
    suggest_header,
    translate_read_errors,
    unify_schema,
)
from motet.io.sql import SelectedColumns
from motet.io.times import choose_time_type, convert_times
from motet.model.expression import Expression, KleeneAggregate, attributes, walk
from motet.model.names import list_events
from motet.model.query import Aggregate, Computed, Workload
from motet.model.validate import find_problems
from motet.options import Options
from motet.schema import can_be_type, format_types, make_readable, to_readable

if TYPE_CHECKING:
    import pyarrow.dataset as ds

BATCH_ROWS = 1 << 17
SAMPLED_TIMES = 1000  # first rows by which the form of times is chosen, and columns are suggested
# Kind of value -> the type of a column that holds it.
TYPES = {"text": pa.string(), "number": pa.float64(), "time": pa.timestamp("us"), "boolean": pa.bool_()}

Paths = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class EventSource:
    """Events in files, read in batches. In `schema` times are times and types are text, however the files hold them."""

    origin: str
    files: tuple[str, ...]
    format: str
    schema: pa.Schema
    time: str
    type: str
    content: ds.Dataset | pa.Table | SelectedColumns  # a table where a text file is small
    num_rows: int | None
    options: Options = field(default_factory=Options)  # how they are read
    base: str = "."  # the folder below which folders named `column=value` add a column
    _kept: list[pa.Table] = field(default_factory=list, init=False, repr=False, compare=False)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with the named columns only."""
        schema = self._select_schema(columns)
        for kept in self._kept:
            if set(schema.names) <= set(kept.column_names):
                yield from kept.select(schema.names).to_batches()
                return
        with translate_read_errors(self.origin, self.content.schema.names):
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
        if isinstance(self.content, SelectedColumns):
            return self.content.batches(names, BATCH_ROWS)
        # Little read ahead: the memory a run needs must not grow with the files.
        scanner = self.content.scanner(names, batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1)
        batches: Iterator[pa.RecordBatch] = scanner.to_batches()
        return batches

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows as one table."""
        return pa.Table.from_batches(self.batches(columns), self._select_schema(columns))

    def keep(self, columns: Sequence[str]) -> pa.Table:
        """Return some columns as one table, from which whoever asks for any of them again will have them."""
        if not self._kept:
            self._kept.append(self.table(columns))
        return self.table(columns)

    def _select_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        return self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])

    def _convert_column(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if field.name == self.time:
            return convert_times(column, field.type, self.time, self.options.time_unit, self.origin)
        return to_readable(column, field.type)


def open_events(
    events: Paths, options: Options | None = None, *, columns: Iterable[str] = (), types: Collection[str] | None = None
) -> EventSource:
    """Open event files, compute what `select` says, and check their time and type columns.

    Args:
        events: A file, a folder, a pattern such as `logs/*.csv`, `-` for standard input, or several of these.
        options: How to read them.
        columns: Those a workload reads: if the files hold nothing at all, not even names, they are taken to exist.
        types: Those that a workload names and does not define: where there are none, no type column is needed.

    Raises:
        DataError: There are no such files, or they have no time or type column.
    """
    options = options or Options()
    opened = open_files(events, options)
    if opened.schema.names:
        return select_columns(opened, types)
    return empty_source(opened.origin, opened.format, options.time, options.type, columns)


def open_files(events: Paths, options: Options) -> EventSource:
    """Open event files with their columns as they are; text without a byte has none."""
    paths = [Path(events)] if isinstance(events, str | Path) else [Path(each) for each in events]
    if not paths:
        raise DataError("the list of event files is empty")
    origin = describe_paths(paths)
    if is_pipe(paths[0]) and len(paths) == 1:
        with translate_read_errors(origin):
            text, kind = read_pipe(paths[0])
            require_options_apply(kind, options)
            table = _read_texts([text], kind, options, origin) if kind in TEXTS else read_binary(text, kind)
            return make_source(table, options, origin, kind)
    files, kind = find_files(paths)
    require_options_apply(kind, options)
    # An empty text file has no columns; an empty parquet file has.
    files = [file for file in files if kind not in TEXTS or file.stat().st_size > 0]
    base = find_base(paths, files)
    content: ds.Dataset | pa.Table
    with translate_read_errors(origin, _read_names(files, kind, options)):
        if not files or must_read_whole(files, kind, options):
            content = _read_texts(files, kind, options, origin)
        else:
            if kind in TEXTS:
                require_delimiter(files[0], kind, options)
            factory = make_dataset_factory(base, files, kind, options)
            found = unify_schema(factory, origin)
            require_typed_columns(found, options, origin)
            content = factory.finish(_choose_text_types(found, files, kind, options) if kind in TEXTS else found)
        return make_source(content, options, origin, kind, tuple(map(str, files)), base)


def make_source(
    content: ds.Dataset | pa.Table,
    options: Options,
    origin: str,
    kind: str = OTHER,
    files: tuple[str, ...] = (),
    base: str = ".",
) -> EventSource:
    """Return a source of what files, a dataset or a table hold, with the columns as they are."""
    num_rows = content.count_rows() if kind in (PARQUET, ARROW) and not isinstance(content, pa.Table) else None
    schema = make_readable(content.schema, origin)
    return EventSource(origin, files, kind, schema, options.time, options.type, content, num_rows, options, base)


def select_columns(source: EventSource, types: Collection[str] | None = None) -> EventSource:
    """Return a source with the columns that `select` makes, and times and types that are such; `types` as for
    `open_events`.

    Raises:
        DataError: There is no time or type column, or it cannot be one.
    """
    options, origin, content, kind = source.options, source.origin, source.content, source.format
    assert not isinstance(content, SelectedColumns)
    if options.select:
        selected = SelectedColumns(content, tuple(options.select))
        chosen = selected.table() if isinstance(content, pa.Table) else selected
        source = replace(source, files=(), format=OTHER, content=chosen)
    found = source.content.schema
    _require_time_and_type(source.content, options, origin, kind, types)
    typed = _resolve_type_column(found, options.type, origin)
    schema = make_readable(typed, origin)
    with translate_read_errors(origin, found.names):
        first = combine_column(_read_first_rows(source.content, [options.time]).column(0))
    time = choose_time_type(first, options.time, options.time_unit, origin)
    return replace(source, schema=schema.set(schema.get_field_index(options.time), pa.field(options.time, time)))


def prepare_table(table: pa.Table, options: Options) -> pa.Table:
    """Return a table with the columns that `select` makes of it, and times that are text or floating as timestamps."""
    origin = "the table of events"
    if options.select:
        table = SelectedColumns(table, tuple(options.select)).table()
    schema = make_readable(table.schema, origin)
    if not schema.equals(table.schema):
        columns = [to_readable(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
        table = pa.table(columns, schema=schema)
    if options.type in table.column_names:
        typed = _resolve_type_column(table.schema, options.type, origin)
        table = table if typed is table.schema else table.cast(typed)
    if options.time in table.column_names:
        at = table.schema.get_field_index(options.time)
        first = combine_column(_read_first_rows(table, [options.time]).column(0))
        time = choose_time_type(first, options.time, options.time_unit, origin)
        column = convert_times(table.column(at), time, options.time, options.time_unit, origin)
        if column is not table.column(at):
            table = table.set_column(at, pa.field(options.time, time), column)
    return table


def _read_first_rows(content: ds.Dataset | pa.Table | SelectedColumns, columns: Sequence[str]) -> pa.Table:
    if isinstance(content, pa.Table):
        return content.select(list(columns)).slice(0, SAMPLED_TIMES)
    if isinstance(content, SelectedColumns):
        return content.head(SAMPLED_TIMES, columns=list(columns))
    # What is read ahead is decoded although nobody asks for it.
    return content.head(SAMPLED_TIMES, columns=list(columns), batch_readahead=0, fragment_readahead=0)


def _read_texts(parts: Sequence[Path | bytes], kind: str, options: Options, origin: str) -> pa.Table:
    """Read texts as a whole, first to see which columns they have."""
    parts = [part for part in parts if not isinstance(part, bytes) or part.strip()]
    if not parts:
        return pa.table({})
    require_delimiter(parts[0], kind, options)

    def read(schema: pa.Schema | None = None) -> pa.Table:
        tables = [read_text(part, kind, options, schema) for part in parts]
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")

    found = require_distinct_names(read().schema, origin)
    require_typed_columns(found, options, origin)
    return read(_choose_text_types(found, parts, kind, options))


def _read_names(files: Sequence[Path], kind: str, options: Options) -> Sequence[str]:
    """Return the names of a csv file's columns as its first line has them, to name one in a message."""
    if options.header or kind not in (CSV, TSV) or not files:
        return options.header
    line = read_start(files[0]).split(b"\n", 1)[0].decode(errors="replace").strip()
    return [name.strip('"') for name in line.split(options.delimiter or ("\t" if kind == TSV else ","))]


def empty_source(origin: str, kind: str, time: str, type: str, columns: Iterable[str]) -> EventSource:
    """Return a source without rows: every column asked for exists, and is null."""
    others = dict.fromkeys(name for name in columns if name not in (time, type))
    schema = pa.schema([(time, pa.timestamp("us")), (type, pa.string()), *((name, pa.null()) for name in others)])
    return EventSource(origin, (), kind, schema, time, type, schema.empty_table(), 0)


def count_event_types(source: EventSource) -> dict[str, int]:
    """Count the rows of each event type, by one pass over the type column alone."""
    found: Counter[str] = Counter()
    for batch in source.batches([source.type]) if source.type in source.schema.names else ():
        types = format_types(pa.chunked_array([batch.column(0).drop_null()])).cast(pa.string())
        for entry in pc.value_counts(types).to_pylist():
            found[entry["values"]] += entry["counts"]
    return dict(found)


def list_undefined_types(workload: Workload) -> list[str]:
    """Return the types that a workload names and does not define: where there are none, events need none either."""
    defined = {definition.name for definition in workload.definitions}
    named = dict.fromkeys(event.type for query in workload.queries for event in list_events(query.pattern))
    return [name for name in named if name not in defined]


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


def _require_time_and_type(
    content: ds.Dataset | pa.Table | SelectedColumns,
    options: Options,
    origin: str,
    kind: str,
    types: Collection[str] | None,
) -> None:
    """Raise if the time or the type column is missing, and say how to name another."""
    names = content.schema.names
    for role, name in (("time", options.time), ("type", options.type))[: 2 if types is None or types else 1]:
        try:
            require_columns(names, (name,), origin)
        except DataError as error:
            header = "" if kind not in (CSV, TSV) or options.header else suggest_header(names)
            if header:
                raise DataError(f"{error}\n  {header}") from None
            with translate_read_errors(origin, names):
                first = _read_first_rows(content, names)
            likely = find_likely_time(first) if role == "time" else find_likely_type(first, options.time, types or ())
            hint = f"--{role} (in Python {role}=) names another, as in --{role} {shlex.quote(likely or 'COLUMN')}"
            raise DataError(f"{error}\n  {hint}") from None


def _choose_text_types(found: pa.Schema, parts: Sequence[Path | bytes], kind: str, options: Options) -> pa.Schema:
    """Choose types for the columns of text files, of which only the first block was seen."""
    sizes = [part.stat().st_size if isinstance(part, Path) else len(part) for part in parts]
    seen_whole = all(size < BLOCK_BYTES for size in sizes)

    given = options.column_types or {}

    def choose(field: pa.Field, path: str) -> pa.DataType:
        if path in given:
            return COLUMN_TYPES[given[path]]
        if pa.types.is_struct(field.type):
            return pa.struct([inner.with_type(choose(inner, f"{path}.{inner.name}")) for inner in field.type])
        if path != field.name:
            return field.type
        if field.name == options.type and kind in (CSV, TSV):
            return _choose_type_of_types(parts[0], kind, options)
        if pa.types.is_timestamp(field.type):
            # Arrow's json reader forgets the zone of a time: read it as text and parse it here.
            return pa.string() if kind == JSONL and field.name == options.time else pa.timestamp("us", field.type.tz)
        return pa.string() if pa.types.is_null(field.type) and not seen_whole else field.type

    return pa.schema([(field.name, choose(field, field.name)) for field in found])


def _choose_type_of_types(part: Path | bytes, kind: str, options: Options) -> pa.DataType:
    """Choose how the types of events in a csv file are read: as whole numbers or booleans where all of the first ones
    are written as such are, so that 7 stays a 7 and 007 a text.
    """
    start = part[: 1 << 16] if isinstance(part, bytes) else read_start(part)
    lines = start if len(start) < 1 << 16 else start[: start.rfind(b"\n") + 1]
    try:
        first = read_text(lines, kind, options).column(options.type).drop_null()
    except (pa.ArrowException, KeyError):  # a line is wrong, or cut where a text has a line break
        return pa.string()
    for found, form in ((pa.int64(), r"^(0|-?[1-9]\d{0,17})$"), (pa.bool_(), "^(true|false)$")):
        if len(first) and pc.all(pc.match_substring_regex(first, form)).as_py():
            return found
    return pa.string()


def _resolve_type_column(schema: pa.Schema, type: str, origin: str) -> pa.Schema:
    """Return the schema with a type column of texts, whole numbers or booleans: one without values holds texts."""
    at = schema.get_field_index(type)
    if at < 0 or can_be_type(schema.field(at).type):
        return schema
    if pa.types.is_null(schema.field(at).type):
        return schema.set(at, pa.field(type, pa.string()))
    held = schema.field(at).type
    raise DataError(f"column {type!r} of {origin} holds {held}, but event types are texts, whole numbers or booleans")
