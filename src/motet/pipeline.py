"""Open, compile, execute: the one way that every run takes, from Python and from the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from motet.compile import Program, check_workload
from motet.engine.encode import count_invalid_rows
from motet.engine.local import LocalRun, Outcome
from motet.engine.sampling import compile_by_sample
from motet.errors import DataError, Diagnostic, MotetError
from motet.io.events import (
    EventSource,
    count_event_types,
    guess_types,
    list_columns,
    list_undefined_types,
    make_source,
    open_events,
    open_files,
    prepare_table,
    select_columns,
)
from motet.io.formats import OTHER, require_options_apply
from motet.io.sample import list_sampled_columns, sample_events, sample_once
from motet.language import read
from motet.language.builder import QueryBuilder
from motet.language.builder import workload as build_workload
from motet.model.query import Query, Workload
from motet.options import Engine, Options
from motet.schema import EventSchema, make_event_schema
from motet.statistics.sample import SampledRows, sample_table

Progress = Callable[[int], None]
WorkloadLike = Workload | Query | QueryBuilder | str | Path | Sequence[Query | QueryBuilder]


@dataclass(frozen=True)
class TableSource:
    """Events in memory, with what an `EventSource` of files has."""

    content: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.content.schema

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.content)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows, with the named columns only."""
        return self.content if columns is None else self.content.select(list(columns))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        yield from self.table(columns).to_batches()


Source = TableSource | EventSource


@dataclass(frozen=True)
class Job:
    """A workload that is ready to run over its events.

    `program` is None for the oracle, which needs no plan. `warnings` are problems that stop nothing.
    """

    source: Source
    workload: Workload
    schema: EventSchema
    options: Options
    program: Program | None
    warnings: tuple[Diagnostic, ...]


def as_workload(workload: WorkloadLike) -> Workload:
    """Return the workload that text, a path, queries or builders describe."""
    match workload:
        case Workload():
            return workload
        case str() | Path():
            return read(workload)
        case Query() | QueryBuilder():
            return build_workload(workload)
    if not isinstance(workload, Sequence):  # someone gave the events here
        raise MotetError(f"a workload cannot be read from a {type(workload).__name__}: events come first, then queries")
    return build_workload(*workload)


def open_source(events: Any, options: Options, workload: Workload | None = None) -> Source:
    """Return a source of events that are in memory or in files.

    Columns of a text file that hold no value get the type that the workload asks of them, where one is given.
    """
    if isinstance(events, EventSource | TableSource):
        return events
    if is_path(events):
        if workload is None:
            return open_events(events, options)
        named = list_undefined_types(workload)
        source = open_events(events, options, columns=list_columns(workload), types=named)
        return replace(source, schema=guess_types(source.schema, workload))
    require_options_apply(OTHER, options)
    if is_dataset(events):
        types = None if workload is None else list_undefined_types(workload)
        return select_columns(make_source(events, options, "the dataset"), types)
    return TableSource(prepare_table(as_table(events), options))


def open_unselected(events: Any, options: Options) -> pa.Table | EventSource:
    """Return events that are in memory or in files with the columns that they have, for Spark to select from."""
    if is_path(events):
        return open_files(events, options)
    require_options_apply(OTHER, options)
    return make_source(events, options, "the dataset") if is_dataset(events) else as_table(events)


def as_table(events: Any) -> pa.Table:
    """Return events in memory as a table: all that offers the Arrow stream protocol, and DataFrames of pandas.

    Raises:
        DataError: They are of no such kind.
    """
    if isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    if is_pandas(events):
        return pa.Table.from_pandas(events, preserve_index=False)
    if hasattr(events, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(events).read_all()
    if hasattr(events, "collect") and type(events).__module__.partition(".")[0] == "polars":
        raise DataError("a polars LazyFrame has no rows yet: give what its collect() returns")
    raise DataError(
        f"events cannot be read from a {type(events).__name__}: give an Arrow table, a DataFrame, paths, or anything "
        "with __arrow_c_stream__"
    )


def is_path(events: Any) -> bool:
    """Whether events are a path or several."""
    if isinstance(events, str | Path):
        return True
    return isinstance(events, list | tuple) and all(isinstance(each, str | Path) for each in events)


def is_dataset(events: Any) -> bool:
    """Whether events are a dataset of pyarrow."""
    if not type(events).__module__.startswith("pyarrow"):
        return False
    import pyarrow.dataset as ds

    return isinstance(events, ds.Dataset)


def name_tables(events: Any) -> dict[str, Any]:
    """Return the tables of a SQL statement by name: one that is given without a name is `events`, and that of a path
    also what the file is called.
    """
    if events is None:
        return {}
    if isinstance(events, Mapping):
        for name in events:
            if not isinstance(name, str) or not name:
                raise DataError(f"tables are given by name: {name!r} is none")
        return dict(events)
    if isinstance(events, str | Path):
        return {Path(events).name.partition(".")[0]: events, "events": events}
    return {"events": events}


def is_pandas(events: Any) -> bool:
    """Whether events are a pandas DataFrame; pandas need not be installed."""
    return type(events).__module__.partition(".")[0] == "pandas"


def is_spark(events: Any) -> bool:
    """Whether events are a Spark DataFrame; pyspark need not be installed."""
    return type(events).__module__.partition(".")[0] == "pyspark"


def make_schema(columns: pa.Schema, options: Options) -> EventSchema:
    """Return the columns of events with the roles that the options give them."""
    return make_event_schema(columns, options.time, options.type, options.time_unit)


def prepare(
    source: Source, workload: Workload, options: Options, engine: Engine = "local", *, check_types: bool = False
) -> Job:
    """Validate a workload against a source of events, and compile it.

    Args:
        source: Where the events are.
        workload: The queries.
        options: How to read and run.
        engine: What will run it.
        check_types: Also look for event types of which there is no event; this reads the whole type column.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
    """
    schema = make_schema(source.schema, options)
    types = _find_types(source) if check_types else None
    if engine == "oracle":
        return Job(source, workload, schema, options, None, check_workload(workload, schema, types))
    program = compile_for(source, workload, options, types, engine)
    return Job(source, workload, schema, options, program, program.warnings)


def compile_for(
    source: Source,
    workload: Workload,
    options: Options,
    types: Sequence[str] | None = None,
    engine: Engine = "local",
) -> Program:
    """Validate and compile a workload for a source of events: by a sample of them, where no statistics are given.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
    """
    schema = make_schema(source.schema, options)
    return compile_by_sample(workload, schema, options, types, partial(_read_sample, source, workload, schema, engine))


def _read_sample(
    source: Source, workload: Workload, schema: EventSchema, engine: Engine, queries: int | None
) -> SampledRows:
    columns = list_sampled_columns(workload, schema)
    read = schema.list_sources(columns)
    if isinstance(source, TableSource):
        found = sample_table(source.table(read), queries)
    else:
        take = sample_once if engine == "local" else sample_events
        found = take(source, read, schema, queries)
    return replace(found, stretches=tuple(schema.derive(rows, columns) for rows in found.stretches))


def check_events(workload: Workload, source: Source, options: Options) -> tuple[Diagnostic, ...]:
    """Validate a workload against events: columns, their kinds, and types that do not occur; return the warnings.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
    """
    return check_workload(workload, make_schema(source.schema, options), _find_types(source))


def _find_types(source: Source) -> list[str] | None:
    """Return the event types in files; None where there are no events at all, so that a missing type says nothing."""
    return list(count_event_types(source)) or None if isinstance(source, EventSource) else None


def execute(job: Job, progress: Progress | None = None, report: Callable[[str], None] | None = None) -> Outcome:
    """Run a job in process, and return its results in order with what was noticed on the way.

    `progress` is told how many rows were read, `report` what is done with them.
    """
    if job.program is None:
        return _enumerate(job)
    local = LocalRun(job.program)
    local.report = report
    return local.outcome(local.run(readable(job.source), progress))


def _enumerate(job: Job) -> Outcome:
    """Return what the oracle finds."""
    from motet.reference.tables import run_table

    table, options = job.source.table(), job.options
    try:
        result = run_table(
            job.workload,
            table,
            time=options.time,
            type=options.type,
            time_unit=options.time_unit,
            counts=options.counts,
        )
    except OverflowError as error:  # Python's own times, in which it counts
        raise DataError(f"the oracle takes timestamps from the year 1 to 9999: {error}") from error
    # No overflows: enumeration ends long before 2**63 matches.
    invalid = count_invalid_rows(job.schema.derive(table, [job.schema.type]), job.schema)
    return Outcome(result, len(table), invalid, 0)


def derive_rows(source: Source, schema: EventSchema) -> Iterator[pa.Table]:
    """Yield all rows of a source, batch by batch, with the columns that are computed of others."""
    for batch in source.batches():
        yield schema.derive(pa.Table.from_batches([batch]), schema.columns.names)


def readable(source: Source) -> pa.Table | EventSource:
    """Return what a run in process reads: a table as such, files as a source of batches."""
    return source.content if isinstance(source, TableSource) else source
