"""The commands that read events: plan, run, sql, explain-match, profile."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import typer
from rich.console import Console

from motet.cli import interrupts, report
from motet.cli.engines import (
    SparkTarget,
    data_errors_as_run_errors,
    execute_dataframe,
    execute_on_spark,
    profile_source,
    sql_on_spark,
)
from motet.cli.options import PlanFormat, ReaderEngine, ReportFormat, ResultFormat
from motet.cli.report import COMPILING, say, warn
from motet.cli.text_commands import require_file, write_text
from motet.compile import compile_workload
from motet.engine.local import LocalRun, Outcome, sort_results
from motet.errors import DataError, Diagnostic, MotetError, require_columns
from motet.explain.formatting import format_count
from motet.io.events import EventSource, count_event_types, empty_source, guess_types, list_columns, open_events
from motet.io.formats import PARQUET
from motet.io.progress import Meter
from motet.io.text_tables import UNLIMITED, print_relation, print_tables
from motet.io.writers import (
    LAKES,
    DatabaseWriter,
    FolderWriter,
    OutputFormat,
    ResultWriter,
    choose_format,
    make_folder,
    names_folder,
    open_output,
    open_writer,
    resolve_target,
    write_file,
    write_relation,
    write_stream,
)
from motet.kernels.jit import are_kernels_interpreted
from motet.language import read
from motet.model.query import Workload
from motet.model.validate import find_problems
from motet.options import Engine, Options
from motet.pipeline import (
    Job,
    check_events,
    compile_for,
    derive_rows,
    execute,
    make_schema,
    open_source,
    prepare,
    readable,
)
from motet.statistics.model import Statistics

NOT_FOR_TERMINALS = (OutputFormat.PARQUET, OutputFormat.ARROW)

if not are_kernels_interpreted():
    from motet.kernels.compiler import on_first_compilation

    on_first_compilation(lambda: say(COMPILING))


@dataclass(frozen=True)
class ResultOutput:
    """Where results go, and how; `limit` is the most rows of a query in a table.

    `name` is what was given: a table that Spark writes may be at `s3://...`, or have a name that is no path.
    """

    target: Path | None
    format: OutputFormat
    limit: int | None
    name: str = ""
    is_folder: bool = False

    @classmethod
    def to(cls, output: str | None, format: ResultFormat | None, limit: int | None) -> ResultOutput:
        """Settled and checked before a run rather than after it."""
        chosen = OutputFormat(format) if format else choose_format(output)
        target = None if output is None else resolve_target(output, chosen)
        needs_name = chosen in (OutputFormat.DUCKDB, *LAKES) or (output is None and chosen in NOT_FOR_TERMINALS)
        if target is None and needs_name:
            raise typer.BadParameter(f"{chosen} is not for terminals: name a file with --output")
        is_folder = output is not None and target is not None and names_folder(output)
        return cls(target, chosen, limit, output or "", is_folder)

    @property
    def appears_whole(self) -> bool:
        """Whether what is written is seen only at the end."""
        if self.target is None:
            return False
        return self.target.is_file() or self.target.is_dir() or not self.target.exists()

    @contextmanager
    def open(self, schema: pa.Schema, workload: Workload) -> Iterator[ResultWriter | DatabaseWriter | FolderWriter]:
        """Open what is written to table by table: a file that appears whole or not at all, or the terminal."""
        if self.target is None:
            writer = ResultWriter(sys.stdout.buffer, schema, workload, self.format)
            yield writer
            writer.close()
            sys.stdout.buffer.flush()
        else:
            with open_writer(self.target, schema, workload, self.format, self.is_folder) as opened:
                yield opened

    def write(self, results: pa.Table, workload: Workload) -> None:
        """Write all results."""
        if self.format in LAKES:
            from motet.spark.dataframes import write_table

            write_table(results, self.name, str(self.format))
        elif self.target is not None:
            write_file(results, workload, self.target, self.format, self.is_folder)
        elif self.format is OutputFormat.TABLE:
            print_tables(Console(width=None if sys.stdout.isatty() else UNLIMITED), results, workload, self.limit)
        else:
            write_stream(results, workload, sys.stdout.buffer, self.format)
            sys.stdout.buffer.flush()

    def write_relation(self, rows: pa.Table) -> None:
        """Write a table that is the result of no workload."""
        if self.target is None and self.format is OutputFormat.TABLE:
            print_relation(Console(width=None if sys.stdout.isatty() else UNLIMITED), rows, self.limit)
        elif self.target is None:
            write_relation(rows, sys.stdout.buffer, self.format)
            sys.stdout.buffer.flush()
        elif self.is_folder:
            ending = "txt" if self.format is OutputFormat.TABLE else str(self.format)
            with make_folder(self.target), open_output(self.target / f"results.{ending}") as stream:
                write_relation(rows, stream, self.format)
        else:
            with open_output(self.target) as stream:
                write_relation(rows, stream, self.format)


def open_for(workload: Workload, events: Sequence[Path] | None, options: Options) -> EventSource:
    """Return the events for a workload; where there are none, every column that it names is there."""
    if events:
        source = open_source(list(events), options, workload)
    else:
        blank = empty_source("no events", PARQUET, options.time, options.type, list_columns(workload))
        source = replace(blank, schema=guess_types(blank.schema, workload))
    assert isinstance(source, EventSource)
    return source


def warn_of_events(warnings: Sequence[Diagnostic], workload: Workload) -> None:
    """Show what is odd only on these events: what is odd about the queries alone, `check` says."""
    alone = set(find_problems(workload)) if warnings else ()
    warn([problem for problem in warnings if problem not in alone], workload)


def plan(
    file: Path,
    events: Sequence[Path] | None,
    statistics: Path | None,
    options: Options,
    shown: PlanFormat,
    output: Path | None,
    analyze: bool,
) -> None:
    """Compile, run where asked to `analyze`, and show; with what is known of the data, also how many rows are read."""
    from motet.explain.analysis import analyze_run
    from motet.explain.page.plan import render_plan_html
    from motet.explain.text import render_plan_json, render_plan_mermaid, render_plan_text

    workload = read(file)
    source = open_for(workload, events, options)
    known = read_statistics(statistics)
    options = replace(options, statistics=known)
    if not events:
        counts: Mapping[str, int] = {} if known is None else known.counts
        program = compile_workload(workload, make_schema(source.schema, options), options, types=list(counts) or None)
    else:
        counts = count_event_types(source)
        program = compile_for(source, workload, options, list(counts) or None)
    warn(program.warnings, workload)
    analysis = None
    if analyze:
        with Meter(source.num_rows) as meter, data_errors_as_run_errors():
            analysis = analyze_run(program, readable(source), meter.reached)
    match shown:
        case "text":
            write_text(render_plan_text(program, counts or None, analysis), output)
        case "json":
            write_text(render_plan_json(program, counts or None, analysis), output)
        case "mermaid":
            try:
                drawn = render_plan_mermaid(program, counts or None)
            except MotetError as error:
                raise typer.BadParameter(str(error)) from None
            write_text(drawn, output)
        case "html":
            write_text(render_plan_html(program, counts or None, file.stem, analysis), output)


def read_statistics(statistics: Path | None) -> Statistics | None:
    """Read a file of statistics, if one is named."""
    if statistics is None:
        return None
    if not statistics.is_file():
        raise DataError(f"no file {statistics}: `motet profile --format json` writes one")
    try:
        return Statistics.from_json(statistics.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise DataError(f"the file {str(statistics)!r} is not UTF-8 text") from None


def run(
    file: Path,
    events: Sequence[Path] | str,
    options: Options,
    engine: Engine,
    target: SparkTarget,
    output: ResultOutput,
    reported: Path | None = None,
) -> None:
    """Run over files or a table of Spark's catalog, write the results, and say how it went, as JSON too where asked."""
    if reported is not None:
        require_file(reported)
    if output.format in LAKES and engine != "spark":
        raise typer.BadParameter(f"a table of {output.format} is written by Spark: add --engine spark")
    workload = read(file)
    if isinstance(events, str) or (engine == "spark" and options.select):
        source, job = None, None
    else:
        source = open_for(workload, events, options)
        job = prepare(source, workload, options, engine, check_types=True)
        warn_of_events(job.warnings, workload)
    returns_matches = not all(query.is_aggregate for query in workload.queries)
    as_found = engine == "local" and returns_matches and output.format is not OutputFormat.TABLE
    with Meter(source.num_rows if source else None, started=report.started) as meter:
        interrupts.describe = lambda: describe_interruption(meter, output)
        if engine == "spark":
            meter.begin("running on Spark")
        with data_errors_as_run_errors():
            if job is None:
                outcome = execute_dataframe(workload, events, options, target)
            elif engine == "spark":
                outcome = execute_on_spark(job, target)
            elif as_found:
                outcome = write_as_found(job, output, meter)
            else:
                outcome = execute(job, meter.reached, meter.begin)
        if not as_found:
            meter.begin("writing results")
            meter.results = len(outcome.table)
            output.write(outcome.table, workload)
    if reported is not None:
        write_text(render_run_json(outcome, meter.results, meter.seconds), reported)
    for note in list_notes(outcome, meter.results, meter.seconds):
        say(note)
    if not meter.results and outcome.rows:
        say(f"no query matched: motet explain-match {file} with the same --events and options says why")


def sql(
    file: Path, tables: Sequence[str], options: Options, engine: ReaderEngine, target: SparkTarget, output: ResultOutput
) -> None:
    """Run a statement, and write its result."""
    from motet import api

    if output.format in (OutputFormat.DUCKDB, *LAKES):
        raise typer.BadParameter(f"the result of a statement is not written as {output.format}: use parquet")
    events = name_paths(tables)
    with Meter(None) as meter:
        rows = sql_on_spark(file, events, options, target) if engine == "spark" else api.sql(file, events, options)
    output.write_relation(rows)
    say(f"{format_count(len(rows), 'row')} in {meter.seconds:.1f} s")


def name_paths(tables: Sequence[str]) -> Path | dict[str, Path] | None:
    """Return the tables of `--events`: NAME=PATH each, or one path alone."""
    if len(tables) == 1 and "=" not in tables[0]:
        return Path(tables[0])
    named = {}
    for text in tables:
        name, equals, path = text.partition("=")
        if not name or not equals or not path:
            raise typer.BadParameter(f"write --events NAME=PATH where there are several, not {text!r}")
        named[name] = Path(path)
    return named


def describe_interruption(meter: Meter, output: ResultOutput) -> str:
    """Describe what was done when a run is interrupted."""
    read = [f"{format_count(meter.rows, 'row')} read"] if meter.rows or not meter.step else []
    done = ", ".join([*read, *([meter.step] if meter.step else [])])
    is_hidden = output.appears_whole or not meter.results
    written = "nothing was written" if is_hidden else f"{format_count(meter.results, 'result')} written"
    return f"interrupted after {meter.seconds:.1f} s: {done}; {written}"


def write_as_found(job: Job, output: ResultOutput, meter: Meter) -> Outcome:
    """Run in process and write matches as they are found, so that they need not fit in memory."""
    assert job.program is not None
    local = LocalRun(job.program, report=meter.begin)
    with output.open(local.program.result_schema, job.workload) as writer:
        for table in local.run(readable(job.source), meter.reached):
            writer.write(sort_results(local.program, [table]))
            meter.results += len(table)
    return local.outcome([])


def render_run_json(outcome: Outcome, found: int, seconds: float) -> str:
    """Render how a run went as JSON."""
    described = {
        "rows": outcome.rows,
        "set_aside": outcome.invalid_rows,
        "results": found,
        "seconds": round(seconds, 6),
        "overflows": outcome.overflows,
        "truncated": list(outcome.truncated),
        "executed": [each.describe() for each in outcome.executed],
    }
    return json.dumps(described, indent=2, ensure_ascii=False)


def list_notes(outcome: Outcome, found: int, seconds: float) -> Iterator[str]:
    """Yield what a run noticed, line by line."""
    rate = outcome.rows / max(seconds, 1e-9)
    results = format_count(found, "result")
    took = f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.3f} s"
    yield f"{format_count(outcome.rows, 'row')} read in {took} ({rate:,.0f} rows/s), {results}"
    if outcome.invalid_rows:
        yield f"{format_count(outcome.invalid_rows, 'row')} set aside: no type, no time, or one out of range"
    if outcome.truncated:
        yield f"not all matches of {', '.join(outcome.truncated)} were found: a limit was reached"
    if outcome.overflows:
        values = format_count(outcome.overflows, "value")
        yield (
            f"{values} given as null: a COUNT beyond 2^63 - 1, or a SUM of whole numbers beyond 2^53 "
            "(--counts double gives them roughly)"
        )


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


def explain_match(file: Path, events: Sequence[Path], asked: Question, options: Options, shown: ReportFormat) -> None:
    """Explain, and write that."""
    from motet.explain.diagnosis.report import render_explanation_json, render_explanation_text
    from motet.explain.diagnosis.select import explain_query

    keys = asked.keys()
    workload = read(file)
    source = open_for(workload, events, options)
    warn_of_events(check_events(workload, source, options), workload)
    schema = make_schema(source.schema, options)
    rows = derive_rows(source, schema)
    found = explain_query(
        workload, schema, rows, query=asked.query, key=keys, start=asked.start, end=asked.end, limit=asked.limit
    )
    write_text(render_explanation_json(found) if shown == "json" else render_explanation_text(found))


def profile(
    events: Sequence[Path],
    keys: tuple[str, ...],
    queries: Path | None,
    options: Options,
    engine: ReaderEngine,
    target: SparkTarget,
    shown: ReportFormat,
) -> None:
    """Take statistics and show them; of the symbols and windows of queries too, where some are given."""
    from motet.engine.workload_profile import compile_online_queries
    from motet.explain.statistics import format_statistics, format_window_rates

    if queries is None:
        workload = None
        source = open_events(events, options)
    else:
        workload = read(queries)
        source = open_for(workload, events, options)
        warn_of_events(check_events(workload, source, options), workload)
    require_columns(source.schema.names, keys, source.origin)
    found = profile_source(source, events, keys, workload, options, engine, target)
    if shown == "json":
        write_text(found.to_json())
        return
    write_text(format_statistics(found))
    if workload is not None:
        write_text(
            format_window_rates(found, compile_online_queries(workload, make_schema(source.schema, options).tick))
        )
