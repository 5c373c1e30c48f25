"""Read a sample of the events in files: the beginnings of a few row groups of parquet, a few blocks of text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from motet.errors import DataError
from motet.io.events import EventSource, list_columns
from motet.io.formats import ARROW, COMPRESSIONS, CSV, PARQUET, TEXTS, TSV, read_text, translate_read_errors
from motet.model.query import Workload
from motet.schema import EventSchema
from motet.statistics.sample import STRETCHES, WHOLE_BELOW, SampledRows, choose_stretches, sample_table

if TYPE_CHECKING:
    import pyarrow.dataset as ds

# Files so small are read once, for the sample and for the run, which would hold as many rows at a time.
KEPT_ROWS, KEPT_BYTES = 2_000_000, 64 << 20
# Decoding the beginning of a row group takes as long as running some thousand rows: one is read for so many rows.
ROWS_PER_GROUP = 2_000_000
PAGE_BYTES = 1 << 16  # read at a time of a column, of which only the first pages are wanted
MOST_FOOTERS = 256  # row groups of which the times are looked up
TEXT_BYTES = 1 << 20  # read of a compressed file of text
LINE_BYTES = 1 << 16  # from which the length of a line is estimated


def list_sampled_columns(workload: Workload, schema: EventSchema) -> list[str]:
    """Return the columns that are sampled to plan a workload: those that it names, with times and types."""
    named = (name for name in list_columns(workload) if name in schema.columns.names)
    return list(dict.fromkeys((schema.time, schema.type, *named)))


def sample_once(source: EventSource, columns: Sequence[str], schema: EventSchema, queries: int | None) -> SampledRows:
    """Read a sample of some columns of event files for a run of so many queries in process: a small file is read whole,
    and not again. Raises `UnreadableError`.
    """
    is_whole = source.format not in (PARQUET, ARROW) or isinstance(source.content, pa.Table)
    if is_whole or source.num_rows is None or source.num_rows > KEPT_ROWS or _count_bytes(source.files) > KEPT_BYTES:
        return sample_events(source, columns, schema, queries)
    return sample_table(source.keep(columns), queries)


def _count_bytes(files: Sequence[str]) -> int:
    return sum(Path(file).stat().st_size for file in files)


def sample_events(
    source: EventSource, columns: Sequence[str], schema: EventSchema, queries: int | None = None
) -> SampledRows:
    """Read a sample of some columns of event files, for so many queries: see `choose_size`.

    Raises `UnreadableError`.
    """
    if isinstance(source.content, pa.Table):
        return sample_table(source.table(columns), queries)
    if source.num_rows is not None and source.num_rows <= WHOLE_BELOW:
        return SampledRows((source.table(columns),), source.num_rows)
    with translate_read_errors(source.origin):
        if source.format == PARQUET:
            return _sample_parquet(source, source.content, columns, schema, queries)
        return _sample_text(source, columns, queries) if source.format in TEXTS else _sample_beginning(source, columns)


def _sample_parquet(
    source: EventSource, content: ds.Dataset, columns: Sequence[str], schema: EventSchema, queries: int | None
) -> SampledRows:
    groups = [(fragment, group) for fragment in content.get_fragments() for group in fragment.row_groups]
    ends = list(accumulate(group.num_rows for _, group in groups))
    count = min(max(ends[-1] // ROWS_PER_GROUP, 2), STRETCHES)
    places: dict[int, int] = {}  # group at which a stretch begins -> its rows
    for begin, length in choose_stretches(ends[-1], queries, count):
        at = bisect_right(ends, begin)
        places[at] = places.get(at, 0) + length
    stretches = []
    for at, length in places.items():
        parts: list[pa.RecordBatch] = []
        for fragment, group in groups[at:]:
            parts.append(_read_beginning(source, fragment, group.id, columns, length))
            length -= len(parts[-1])
            if length <= 0:
                break
        stretches.append(pa.Table.from_batches(parts))
    return SampledRows(tuple(stretches), ends[-1], _read_span(groups, schema))


def _read_beginning(
    source: EventSource, fragment: Any, group: int, columns: Sequence[str], rows: int
) -> pa.RecordBatch:
    """Read the first rows of a row group; unlike a dataset, this decodes no more of it."""
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    with pq.ParquetFile(fragment.path, metadata=fragment.metadata, buffer_size=PAGE_BYTES) as file:
        present = set(file.schema_arrow.names)
        names = [name for name in columns if name in present]
        found = next(file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False))
    folder = ds.get_partition_keys(fragment.partition_expression)
    whole = {name: pa.array([folder.get(name)] * len(found)) for name in columns if name not in present}
    whole |= {name: found.column(name) for name in names}
    return source.convert(pa.record_batch([whole[name] for name in columns], list(columns)), columns)


def _read_span(groups: Sequence[tuple[Any, Any]], schema: EventSchema) -> tuple[pa.Table, ...]:
    """Return the first and last time in row groups as rows, where their statistics have them."""
    known = [group.statistics.get(schema.time) for _, group in groups[:MOST_FOOTERS] if group.statistics]
    if len(known) < len(groups) or None in known:
        return ()
    ends = pa.array([min(each["min"] for each in known), max(each["max"] for each in known)])
    try:
        return (pa.table({schema.time: ends.cast(schema.time_type)}),)
    except pa.ArrowException:  # not the type that the engine reads
        return ()


def _sample_beginning(source: EventSource, columns: Sequence[str]) -> SampledRows:
    """Read the first rows, which then stand for all."""
    parts: list[pa.RecordBatch] = []
    for batch in source.batches(columns):
        parts.append(batch)
        if sum(map(len, parts)) > WHOLE_BELOW:
            break
    table = pa.Table.from_batches(parts, pa.schema([source.schema.field(name) for name in columns]))
    return SampledRows((table,), max(source.num_rows or 0, len(table)))


def _sample_text(source: EventSource, columns: Sequence[str], queries: int | None) -> SampledRows:
    """Read blocks of text files, from line to line; only the first of a compressed one, which then stands for all."""
    files = [Path(file) for file in source.files]
    if any(file.suffix in COMPRESSIONS for file in files):
        with pa.input_stream(str(files[0]), compression="detect") as stream:
            text = stream.read(TEXT_BYTES)
        table = _parse_lines(source, text[: text.rfind(b"\n") + 1], columns)
        return SampledRows((table,), len(table))
    ends = list(accumulate(file.stat().st_size for file in files))
    with files[0].open("rb") as stream:
        text = stream.read(LINE_BYTES)
    line = len(text) / max(text.count(b"\n"), 1)
    stretches, seen = [], 0
    for begin, length in choose_stretches(int(ends[-1] / line), queries):
        at = min(bisect_right(ends, int(begin * line)), len(files) - 1)
        place = int(begin * line) - (ends[at - 1] if at else 0)
        text = _read_lines(
            files[at],
            max(place, 0),
            int(length * line),
            has_header=source.format in (CSV, TSV) and not source.options.header,
        )
        table = _parse_lines(source, text, columns)
        stretches.append(table)
        seen += len(text) if len(table) else 0
    rows = sum(map(len, stretches)) * ends[-1] / max(seen, 1)
    return SampledRows(tuple(stretches), rows)


def _read_lines(file: Path, begin: int, size: int, *, has_header: bool) -> bytes:
    """Return whole lines of about so many bytes from a place on, after the first line where it names columns."""
    with file.open("rb") as stream:
        header = stream.readline() if has_header else b""
        if begin > len(header):
            stream.seek(begin)
            stream.readline()
        return header + stream.read(size) + stream.readline()


def _parse_lines(source: EventSource, text: bytes, columns: Sequence[str]) -> pa.Table:
    """Return what lines hold; nothing if a text with line breaks was cut, or if they are wrong, as a run will say."""
    schema = pa.schema([source.schema.field(name) for name in columns])
    try:
        found = read_text(text, source.format, source.options, source.content.schema)
        whole = {name: found[name] if name in found.column_names else pa.nulls(len(found)) for name in columns}
        table = pa.table(whole).combine_chunks()
        return pa.Table.from_batches([source.convert(each, columns) for each in table.to_batches()], schema)
    except (pa.ArrowException, DataError):
        return schema.empty_table()
