"""What each command does, once its arguments are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pyarrow as pa
import typer
from rich.console import Console

from motet import api
from motet.cli.engines import errors_of_data, execute, take_statistics
from motet.cli.options import Drawn, Engine, Foreign, Reader, Shown
from motet.cli.progress import Meter
from motet.cli.report import say, warn
from motet.engine import DETECTING, SEARCHING, EventSchema, compile_workload
from motet.engine.local import LocalRun, Outcome, sorted_results
from motet.engine.survey import compiled_queries
from motet.errors import DataError, Diagnostic, MotetError, QueryError
from motet.explain.page.plan import plan_html
from motet.explain.statistics import statistics_text, windows_text
from motet.explain.text import plan_json, plan_mermaid, plan_text
from motet.explain.why.report import explanation_json, explanation_text
from motet.explain.words import count
from motet.io.events import EventSource, blank_source, open_events, require_columns
from motet.io.files import PARQUET
from motet.io.results import Format, ResultWriter, format_for, replacing, target_file, write_file, write_stream
from motet.io.survey import columns_read, event_counts, likely_types
from motet.io.tables import UNLIMITED, print_tables
from motet.language import read
from motet.model.query import Workload
from motet.model.validate import problems
from motet.statistics.model import Statistics
from motet.translate import translate as translation


@dataclass(frozen=True)
class Output:
    """Where results go, and how; `limit` is the most rows of a query in a table."""

    target: Path | None
    format: Format
    limit: int | None

    @classmethod
    def to(cls, output: Path | None, format: Format | None, limit: int | None) -> Output:
        """Settled and checked before a run rather than after it."""
        chosen = format or format_for(output)
        return cls(None if output is None else target_file(output, chosen), chosen, limit)

    @contextmanager
    def stream(self) -> Iterator[IO[bytes]]:
        """Where to write table by table: a file that appears whole or not at all, or the terminal."""
        if self.target is None:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        else:
            with replacing(self.target) as stream:
                yield stream

    def write(self, results: pa.Table, workload: Workload) -> None:
        """Write all results."""
        if self.target is not None:
            write_file(results, workload, self.target, self.format)
        elif self.format is Format.TABLE:
            print_tables(Console(width=None if sys.stdout.isatty() else UNLIMITED), results, workload, self.limit)
        else:
            write_stream(results, workload, sys.stdout.buffer, self.format)
            sys.stdout.buffer.flush()


def check(file: Path, events: Path | None, settings: api.Settings) -> None:
    """Parse and validate; against data where there is some."""
    workload = read(file)
    if events is None:
        found = problems(workload)
    else:
        found = problems_with(workload, open_for(workload, events, settings), settings)
    warn_or_raise(found, workload)
    defined = f" and {count(len(workload.definitions), 'event definition')}" if workload.definitions else ""
    write_text(f"{file}: {count(len(workload.queries), 'query')}{defined}, no errors")


def open_for(workload: Workload, events: Path | None, settings: api.Settings) -> EventSource:
    """The events for a workload; where there are none, every column that it names is there."""
    columns = columns_read(workload)
    if events is None:
        source = blank_source("no events", PARQUET, settings.time, settings.type, columns)
    else:
        source = open_events(events, time=settings.time, type=settings.type, columns=columns)
    return replace(source, schema=likely_types(source.schema, workload))


def problems_with(workload: Workload, source: EventSource, settings: api.Settings) -> list[Diagnostic]:
    """What is wrong with a workload on these events: columns, their kinds, and types that do not occur."""
    kinds = schema_of(source, settings).kinds()
    # Where there are no events, that no event has a type says nothing.
    types = event_counts(source) or None
    return problems(workload, kinds, types, time=settings.time, type=settings.type)


def only_with_data(workload: Workload, source: EventSource, settings: api.Settings) -> list[Diagnostic]:
    """What is wrong with a workload on these events, but not odd about it on its own: that is for `check` to say."""
    alone = set(problems(workload))
    return [problem for problem in problems_with(workload, source, settings) if problem not in alone]


def schema_of(source: EventSource, settings: api.Settings) -> EventSchema:
    return EventSchema(source.schema, settings.time, settings.type, settings.time_unit)


def warn_or_raise(found: list[Diagnostic], workload: Workload) -> None:
    """Show warnings; raise where there is an error."""
    errors = [problem for problem in found if not problem.warning]
    if errors:
        raise QueryError(errors, workload.text, workload.origin)
    warn(found, workload)


def plan(
    file: Path,
    events: Path | None,
    statistics: Path | None,
    settings: api.Settings,
    shown: Drawn,
    output: Path | None,
    analyze: bool,
) -> None:
    """Compile, run where asked to `analyze`, and show; with what is known of the data, also how many rows are read."""
    workload = read(file)
    source = open_for(workload, events, settings)
    known = given_statistics(statistics)
    counts: Mapping[str, int] | None = None if known is None else known.counts
    if events is not None:
        counts = event_counts(source)
        searches = settings.optimizer in (*SEARCHING, *DETECTING) or shown is Drawn.HTML or analyze
        known = api.profile(source, workload, **columns_of(settings)) if searches else None
    options = replace(settings, statistics=known).options()
    program = compile_workload(workload, schema_of(source, settings), options)
    warn_or_raise(problems(workload, types=counts or None), workload)
    analysis = None
    if analyze:
        with Meter(source.num_rows) as meter, errors_of_data():
            analysis = api.run_analyzed(program, source, meter.reached)
    match shown:
        case Drawn.TEXT:
            write_text(plan_text(program, counts or None, analysis), output)
        case Drawn.JSON:
            write_text(plan_json(program, counts or None, analysis), output)
        case Drawn.MERMAID:
            try:
                drawn = plan_mermaid(program, counts or None)
            except MotetError as error:
                raise typer.BadParameter(str(error)) from None
            write_text(drawn, output)
        case Drawn.HTML:
            write_text(plan_html(program, counts or None, file.stem, analysis), output)


def columns_of(settings: api.Settings) -> dict[str, str]:
    return {"time": settings.time, "type": settings.type, "time_unit": settings.time_unit}


def given_statistics(statistics: Path | None) -> Statistics | None:
    """What a file of statistics says."""
    if statistics is None:
        return None
    if not statistics.is_file():
        raise DataError(f"no file {statistics}: `motet profile --format json` writes one")
    return Statistics.from_json(statistics.read_text())


def write_text(text: str, output: Path | None = None) -> None:
    """A text on stdout, or as a file."""
    if output is None:
        sys.stdout.write(text + "\n")
        return
    if not output.parent.is_dir() or output.is_dir():
        raise DataError(f"{output} is a folder: name a file" if output.is_dir() else f"no folder {output.parent}")
    with replacing(output) as stream:
        stream.write((text + "\n").encode())


def run(file: Path, events: Path, settings: api.Settings, engine: Engine, master: str, output: Output) -> None:
    """Run, write the results, and say how it went."""
    workload = read(file)
    source = open_for(workload, events, settings)
    warn_or_raise(only_with_data(workload, source, settings), workload)
    returns_matches = not all(query.is_aggregate for query in workload.queries)
    if engine is Engine.LOCAL and returns_matches and output.format is not Format.TABLE:
        with Meter(source.num_rows) as meter:
            outcome, results = write_as_found(source, workload, settings, output, meter.reached)
    else:
        with Meter(source.num_rows) as meter:
            outcome = execute(source, workload, settings, engine, master, meter.reached)
        output.write(outcome.table, workload)
        results = len(outcome.table)
    for note in notes(outcome, results, meter.seconds):
        say(note)
    if not results and outcome.rows:
        say(f"no query matched: motet explain-match {file} --events {events} says why")


def write_as_found(
    source: EventSource, workload: Workload, settings: api.Settings, output: Output, progress: Callable[[int], None]
) -> tuple[Outcome, int]:
    """Run in process and write matches as they are found: they need not fit in memory. Also how many there are."""
    local = LocalRun(api.program_for(source, workload, settings))
    schema = local.program.result_schema
    written = 0
    with output.stream() as stream:
        writer = ResultWriter(stream, schema, workload, output.format)
        with errors_of_data():
            for table in api.pieces(local, source, progress):
                writer.write(sorted_results(local.program, table))
                written += len(table)
        writer.close()
    return local.outcome([]), written


def notes(outcome: Outcome, found: int, seconds: float) -> Iterator[str]:
    """What a run noticed."""
    rate = outcome.rows / max(seconds, 1e-9)
    results = count(found, "result")
    yield f"{count(outcome.rows, 'row')} read in {seconds:.1f} s ({rate:,.0f} rows/s), {results}"
    if outcome.set_aside:
        yield f"{count(outcome.set_aside, 'row')} set aside: no time or no type"
    if outcome.truncated:
        yield f"not all matches of {', '.join(outcome.truncated)} were found: a limit was reached"
    if outcome.overflows:
        yield f"{count(outcome.overflows, 'COUNT')} beyond 2^63 - 1 given as null (--counts double gives them roughly)"


@dataclass(frozen=True)
class Question:
    """What is to be explained: of which query, key and range."""

    query: str | None
    key: tuple[str, ...]
    start: str | None
    end: str | None
    limit: int

    def keys(self) -> dict[str, str]:
        pairs = [text.partition("=") for text in self.key]
        for name, equals, _ in pairs:
            if not name or not equals:
                raise typer.BadParameter(f"write --key COLUMN=VALUE, not {name!r}")
        return {name: value for name, _, value in pairs}


def explain_match(file: Path, events: Path, asked: Question, settings: api.Settings, shown: Shown) -> None:
    """Explain, and write that."""
    keys = asked.keys()
    workload = read(file)
    source = open_for(workload, events, settings)
    warn_or_raise(only_with_data(workload, source, settings), workload)
    found = api.explain_match(
        workload,
        source,
        query=asked.query,
        key=keys,
        start=asked.start,
        end=asked.end,
        limit=asked.limit,
        **columns_of(settings),
    )
    write_text(explanation_json(found) if shown is Shown.JSON else explanation_text(found))


def translate(file: Path, source: Foreign, name: str, time: str, type: str) -> None:
    """Translate, and write the queries with what to mind about them."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"there is no file {str(file)!r}") from None
    except UnicodeDecodeError:
        raise DataError(f"the file {str(file)!r} is not UTF-8 text") from None
    found = translation(text, source, time=time, type=type, name=name, origin=str(file))
    write_text(found.text.rstrip())


def profile(
    events: Path,
    keys: tuple[str, ...],
    queries: Path | None,
    settings: api.Settings,
    engine: Reader,
    master: str,
    shown: Shown,
) -> None:
    """Take statistics and show them; of the symbols and windows of queries too, where some are given."""
    if queries is None:
        workload = None
        source = open_events(events, time=settings.time, type=settings.type)
    else:
        workload = read(queries)
        source = open_for(workload, events, settings)
        warn_or_raise(only_with_data(workload, source, settings), workload)
    require_columns(source.schema, keys, source.origin)
    found = take_statistics(source, keys, workload, settings, engine, master)
    if shown is Shown.JSON:
        write_text(found.to_json())
        return
    write_text(statistics_text(found))
    if workload is not None:
        write_text(windows_text(found, compiled_queries(workload, schema_of(source, settings).tick)))
