"""Open, compile, execute: the one way that every run takes, from Python and from the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from motet.compile import Program, check_workload
from motet.engine.encode import count_invalid_rows
from motet.engine.local import LocalRun, Outcome
from motet.engine.sampling import compile_by_sample
from motet.errors import DataError, Diagnostic, MotetError
from motet.io.events import EventSource, count_event_types, guess_types, list_columns, open_events, open_table
from motet.io.sample import list_sampled_columns, sample_events
from motet.language import read
from motet.language.builder import QueryBuilder
from motet.language.builder import workload as build_workload
from motet.model.query import Query, Workload
from motet.options import Engine, Options
from motet.schema import EventSchema
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
    match events:
        case EventSource() | TableSource():
            return events
        case pa.Table():
            return TableSource(events)
        case pa.RecordBatch():
            return TableSource(pa.Table.from_batches([events]))
        case pa.RecordBatchReader():
            return TableSource(events.read_all())
        case str() | Path():
            if workload is None:
                return open_events(events, time=options.time, type=options.type)
            source = open_events(events, time=options.time, type=options.type, columns=list_columns(workload))
            return replace(source, schema=guess_types(source.schema, workload))
    if is_pandas(events):
        return TableSource(pa.Table.from_pandas(events, preserve_index=False))
    raise DataError(f"events cannot be read from a {type(events).__name__}: give an Arrow table, a DataFrame or a path")


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


def open_relation(events: Any) -> Any:
    """Return a table of a SQL statement as Arrow data: a table, or a dataset of files."""
    if isinstance(events, str | Path):
        return open_table(events)
    return readable(open_source(events, Options()))


def is_pandas(events: Any) -> bool:
    """Whether events are a pandas DataFrame; pandas need not be installed."""
    return type(events).__module__.partition(".")[0] == "pandas"


def is_spark(events: Any) -> bool:
    """Whether events are a Spark DataFrame; pyspark need not be installed."""
    return type(events).__module__.partition(".")[0] == "pyspark"


def make_schema(columns: pa.Schema, options: Options) -> EventSchema:
    """Return the columns of events with the roles that the options give them."""
    return EventSchema(columns, options.time, options.type, options.time_unit)


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
    program = compile_for(source, workload, options, types)
    return Job(source, workload, schema, options, program, program.warnings)


def compile_for(source: Source, workload: Workload, options: Options, types: Sequence[str] | None = None) -> Program:
    """Validate and compile a workload for a source of events: by a sample of them, where no statistics are given.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
    """
    schema = make_schema(source.schema, options)
    return compile_by_sample(workload, schema, options, types, lambda: _read_sample(source, workload, schema))


def _read_sample(source: Source, workload: Workload, schema: EventSchema) -> SampledRows:
    columns = list_sampled_columns(workload, schema)
    if isinstance(source, TableSource):
        return sample_table(source.table(columns))
    return sample_events(source, columns, schema)


def check_events(workload: Workload, source: Source, options: Options) -> tuple[Diagnostic, ...]:
    """Validate a workload against events: columns, their kinds, and types that do not occur; return the warnings.

    Raises:
        QueryError: The queries are wrong, or do not fit the events.
    """
    return check_workload(workload, make_schema(source.schema, options), _find_types(source))


def _find_types(source: Source) -> list[str] | None:
    """Return the event types in files; None where there are no events at all, so that a missing type says nothing."""
    return list(count_event_types(source)) or None if isinstance(source, EventSource) else None


def execute(job: Job, progress: Progress | None = None) -> Outcome:
    """Run a job in process, and return its results in order with what was noticed on the way."""
    if job.program is None:
        return _enumerate(job)
    local = LocalRun(job.program)
    return local.outcome(local.run(readable(job.source), progress))


def _enumerate(job: Job) -> Outcome:
    """Return what the oracle finds."""
    from motet.reference.tables import run_table

    table, options = job.source.table(), job.options
    result = run_table(
        job.workload, table, time=options.time, type=options.type, time_unit=options.time_unit, counts=options.counts
    )
    # No overflows: enumeration ends long before 2**63 matches.
    return Outcome(result, len(table), count_invalid_rows(table, job.schema), 0)


def readable(source: Source) -> pa.Table | EventSource:
    """Return what a run in process reads: a table as such, files as a source of batches."""
    return source.content if isinstance(source, TableSource) else source
