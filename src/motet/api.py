"""The Python interface: read a workload, run it over events of any kind, plan it, profile data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from motet.engine import EventSchema, Options, Program, compile_workload
from motet.engine.local import Outcome, can_be_cut, columns_of, in_time_order, run_batches, run_table
from motet.errors import DataError, Diagnostic, MotetError
from motet.io.events import EventSource, open_events
from motet.language import parse, read
from motet.model.query import Query, Workload

ENGINES = ("local", "spark", "oracle")
OPTIMIZERS = ("none", "prefix")

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Settings:
    """How to read events and run over them."""

    time: str = "time"
    type: str = "type"
    time_unit: str = "s"
    counts: str = "exact"
    windows: str = "auto"

    def options(self) -> Options:
        if self.counts not in ("exact", "double"):
            raise MotetError(f"counts is {self.counts!r}: use 'exact' or 'double'")
        return Options(counts=self.counts, windows=self.windows)


def as_workload(workload: Workload | Query | Sequence[Query] | str | Path) -> Workload:
    """A workload from whatever describes one: text, a path, queries."""
    match workload:
        case Workload():
            return workload
        case Query():
            return Workload((workload,))
        case str() | Path():
            return read(workload)
    return Workload(tuple(workload))


def run(
    events: Any,
    workload: Workload | Query | Sequence[Query] | str | Path,
    *,
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
    engine: str | None = None,
    counts: str = "exact",
    windows: str = "auto",
    progress: Progress | None = None,
) -> Any:
    """Run a workload over events: an Arrow table, a pandas or Spark DataFrame, or a path. The same kind comes out (Arrow for a path).

    `engine` is 'local' (in process), 'spark' or 'oracle' (plain enumeration, for small data); by default Spark for a Spark DataFrame, else local.
    """
    settings = Settings(time, type, time_unit, counts, windows)
    chosen = engine or ("spark" if is_spark(events) else "local")
    if chosen not in ENGINES:
        raise MotetError(f"there is no engine {chosen!r}: use one of {', '.join(ENGINES)}")
    if chosen == "spark":
        return _run_on_spark(events, as_workload(workload), settings)
    if is_spark(events):
        raise MotetError(f"a Spark DataFrame runs on Spark, not on the {chosen} engine")
    outcome = execute(events, workload, settings, engine=chosen, progress=progress)
    return outcome.table.to_pandas() if is_pandas(events) else outcome.table


def execute(
    events: Any,
    workload: Workload | Query | Sequence[Query] | str | Path,
    settings: Settings = Settings(),  # noqa: B008
    engine: str = "local",
    progress: Progress | None = None,
    warn: Callable[[Diagnostic], None] | None = None,
) -> Outcome:
    """Run in process, and tell what was noticed on the way."""
    source = _source(events, settings)
    loaded = as_workload(workload)
    if engine == "oracle":
        from motet.reference.tables import run_table as enumerate_table

        return enumerate_table(loaded, source.table(), settings.time, settings.type, settings.time_unit, settings.counts)
    program = program_for(source, loaded, settings)
    for warning in program.warnings:
        if warn is not None:
            warn(warning)
    if isinstance(source, TableSource):
        outcome = run_table(program, source.content)
        if progress is not None:
            progress(outcome.rows)
        return outcome
    columns = columns_of(program)
    ordered = can_be_cut(program) and in_time_order(source.batches([settings.time]), program)
    return run_batches(program, source.batches(columns), ordered, progress)


def program_for(source: Any, workload: Workload, settings: Settings) -> Program:
    """Compile a workload for a source of events."""
    schema = EventSchema(source.schema, settings.time, settings.type, settings.time_unit)
    return compile_workload(workload, schema, settings.options())


@dataclass(frozen=True)
class TableSource:
    """A table in memory, in the shape of an `EventSource`."""

    content: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.content.schema

    @property
    def num_rows(self) -> int:
        return len(self.content)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        return self.content if columns is None else self.content.select(list(columns))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        yield from self.table(columns).to_batches()


def _source(events: Any, settings: Settings) -> TableSource | EventSource:
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
            return open_events(events, time=settings.time, type=settings.type)
    if is_pandas(events):
        return TableSource(pa.Table.from_pandas(events, preserve_index=False))
    raise DataError(f"events cannot be read from a {type(events).__name__}: give an Arrow table, a DataFrame or a path")


def is_pandas(events: Any) -> bool:
    return type(events).__module__.partition(".")[0] == "pandas"


def is_spark(events: Any) -> bool:
    return type(events).__module__.partition(".")[0] == "pyspark"


def _run_on_spark(events: Any, workload: Workload, settings: Settings) -> Any:
    raise NotImplementedError


__all__ = ["Settings", "as_workload", "execute", "parse", "read", "run"]
