"""The commands: each reads its arguments, calls the library, and shows what came back."""

from __future__ import annotations

import os
import sys
import time as clock
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from motet import __version__
from motet.cli import interrupts, report
from motet.cli.options import (
    PLANNING,
    READING,
    RUNNING,
    TIMES,
    BenchSize,
    Conf,
    Events,
    Master,
    OptionalEvents,
    PlanFormat,
    QueryFile,
    ReaderEngine,
    ReportFormat,
    ResultFormat,
    SourceDialect,
    StatisticsFile,
    make_options,
    parse_pairs,
    takes_options,
)
from motet.cli.report import FAILED, WRONG, say
from motet.kernels.jit import interpret_kernels
from motet.options import Engine, Options, OutputMode, help_text, microseconds_of

HELP = """Many event pattern queries, one shared plan.

A workload is a file of queries:

\b
    QUERY late_then_cancelled
    RETURN COUNT(*)
    PATTERN SEQ(dep_very_late, cancelled)
    WHERE [aircraft]
    WITHIN 1 day SLIDE 1 day

Start with `motet demo`, then `motet run --help`.
"""

FEW_ROWS = 16  # at most 2**16 matches, however a pattern repeats
FEW_BYTES = 1 << 14

app = typer.Typer(
    name="motet",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"motet {__version__}")
        raise typer.Exit


@app.callback()
def options_of_all_commands(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def holds_a_handful(paths: list[Path]) -> bool:
    """Return whether a text file has so few rows that plain Python runs them before compiled kernels are loaded."""
    events = paths[0]
    if len(paths) > 1 or events.suffix not in (".csv", ".jsonl", ".ndjson", ".json") or not events.is_file():
        return False
    return events.stat().st_size <= FEW_BYTES and events.read_bytes().count(b"\n") <= FEW_ROWS


class _PandasLeftOut:
    """An entry of `sys.meta_path` by which pandas is not there."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def load_arrow_without_pandas() -> None:
    """Load pyarrow, and let it find no pandas when it looks for it, at the first array that is made of Python values.

    To load pandas takes as long as pyarrow itself, and no command needs it. Where a table is to become a DataFrame,
    pyarrow looks again.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, _PandasLeftOut)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(_PandasLeftOut)


def _reopen_closed_streams() -> None:
    """Open closed standard streams, lest a file take their place: output to one fails, messages go nowhere."""
    for name, access, mode in (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))


def _flush_output() -> None:
    """Write what is left of the output while an error can still be reported."""
    try:
        sys.stdout.flush()
    except OSError:
        # Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def main() -> None:
    """Run the command line; every way out is a status, none a traceback."""
    _reopen_closed_streams()
    report.started = clock.monotonic()
    interrupts.describe = lambda: "interrupted"
    try:
        with interrupts.handle_interrupts():
            try:
                app()
            finally:
                _flush_output()
    except interrupts.Terminated as stop:
        say(interrupts.describe())
        sys.exit(stop.status)
    except BrokenPipeError:  # whoever read our output has had enough
        sys.exit(FAILED)
    except Exception as error:  # noqa: BLE001
        sys.exit(report.report_error(error))


@app.command()
@takes_options(*READING)
def check(file: QueryFile, events: OptionalEvents = None, **given: Any) -> None:
    """Say whether queries are right, with all problems at once.

    With --events also whether the data has the columns and types that they speak of.

    \b
        motet check queries.motet
        motet check queries.motet --events trades.parquet --time at --type kind
    """
    from motet.cli import text_commands

    text_commands.check(file, events, make_options(given))


@app.command()
@takes_options(*READING, *PLANNING)
def plan(
    file: QueryFile,
    events: OptionalEvents = None,
    statistics: StatisticsFile = None,
    format: Annotated[PlanFormat, typer.Option(help="For people, for programs, a drawing, or a page.")] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; the terminal if none.")] = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Also run over the events, and show what was found beside the estimates.")
    ] = False,
    **given: Any,
) -> None:
    """Show how queries would run, and what they share.

    \b
        motet plan queries.motet
        motet plan queries.motet --events trades.parquet --format json
        motet plan queries.motet --statistics rates.json --optimizer sharon --format mermaid
        motet plan queries.motet --statistics rates.json --optimizer gloria --costs printed
        motet plan queries.motet --events trades.parquet --analyze --format html -o plan.html
    """
    from motet.cli import commands

    if analyze and not events:
        raise typer.BadParameter("--analyze runs the queries: give --events")
    commands.plan(file, events, statistics, make_options(given), format, output, analyze)


@app.command()
@takes_options(*READING, *RUNNING)
def run(
    file: QueryFile,
    events: OptionalEvents = None,
    table: Annotated[
        str | None, typer.Option(help="A table of Spark's catalog or FORMAT.`PATH`, in place of --events.")
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="In this process, on Spark, or by brute force (small data).")
    ] = "local",
    output: Annotated[
        str | None, typer.Option(metavar="PATH", help="File for results, or FOLDER/ for a file per query, or -.")
    ] = None,
    format: Annotated[
        ResultFormat | None, typer.Option(help="By default what the name of the output says, else a table.")
    ] = None,
    statistics: StatisticsFile = None,
    report: Annotated[
        Path | None, typer.Option(help="JSON file for how the run went: rows, seconds, and what was executed.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows of each query shown on the terminal; 0 for all.")] = 20,
    master: Master = "local[*]",
    conf: Conf = None,
    **given: Any,
) -> None:
    """Run queries over events.

    \b
        motet run queries.motet --events trades.parquet
        motet run queries.motet --events logs/ --time at --type kind --output results.jsonl
        motet run queries.motet --events trades.csv --engine spark --master 'local[4]' --format csv
        motet run queries.motet --table market.trades --engine spark --master spark://host:7077
    """
    if bool(events) == (table is not None):
        raise typer.BadParameter("give --events or --table, one of them")
    if table is not None and engine != "spark":
        raise typer.BadParameter("--table names a table of Spark's catalog: add --engine spark")
    if engine == "local":
        load_arrow_without_pandas()
        if holds_a_handful(events or []):
            interpret_kernels()
    from motet.cli import commands, engines

    options = replace(make_options(given), statistics=commands.read_statistics(statistics))
    target = engines.SparkTarget(master, conf or ())
    results = commands.ResultOutput.to(output, format, limit or None)
    commands.run(file, table or events or [], options, engine, target, results, report)


@app.command()
def sql(
    file: Annotated[Path, typer.Argument(help="A query in SQL.", metavar="FILE")],
    events: Annotated[
        list[str] | None,
        typer.Option(help="Table of the query, NAME=PATH; may be repeated. One PATH alone is `events`."),
    ] = None,
    engine: Annotated[
        ReaderEngine, typer.Option(help="DuckDB in this process, or Spark SQL, around patterns.")
    ] = "local",
    output: Annotated[
        str | None, typer.Option(metavar="PATH", help="File or folder for the result; the terminal if none.")
    ] = None,
    format: Annotated[
        ResultFormat | None, typer.Option(help="By default what the name of the output says, else a table.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows shown on the terminal; 0 for all.")] = 20,
    step_limit: Annotated[int, typer.Option(min=1, help=help_text("step_limit"))] = 1_000_000_000,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Run a SQL query whose relations may have MATCH_RECOGNIZE.

    \b
        motet sql dips.sql --events trades.parquet
        motet sql dips.sql --events trades=trades/ --events firms=firms.csv --output dips.jsonl
        motet sql dips.sql --events trades.parquet --engine spark --master 'local[4]'
    """
    from motet.cli import commands, engines

    shown = commands.ResultOutput.to(output, format, limit or None)
    target = engines.SparkTarget(master, conf or ())
    commands.sql(file, events or [], Options(step_limit=step_limit), engine, target, shown)


@app.command()
@takes_options(*TIMES, *RUNNING)
def stream(
    file: QueryFile,
    source: Annotated[str, typer.Option(help="Spark source: parquet, json, csv, rate, kafka, delta, ...")] = "parquet",
    table: Annotated[
        str | None, typer.Option(help="A table of Spark's catalog or FORMAT.`PATH` as the source.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="Option of the source, NAME=VALUE; may be repeated.")] = None,
    schema: Annotated[str | None, typer.Option(help="Columns of the source, where they cannot be told.")] = None,
    json: Annotated[str | None, typer.Option(help="Read the column `value` as JSON with these columns.")] = None,
    select: Annotated[list[str] | None, typer.Option(help="SQL expression for a column; may be repeated.")] = None,
    watermark: Annotated[str, typer.Option(help=help_text("watermark"))] = "10 seconds",
    checkpoint: Annotated[str | None, typer.Option(help="Folder that a restart goes on from.")] = None,
    sink: Annotated[str, typer.Option(help="lines (on the terminal), console, parquet, kafka, delta, ...")] = "lines",
    output: Annotated[str | None, typer.Option(help="Folder of a sink that writes files.")] = None,
    sink_option: Annotated[
        list[str] | None, typer.Option(help="Option of the sink, NAME=VALUE; may be repeated.")
    ] = None,
    output_table: Annotated[
        str | None, typer.Option(help="A table of Spark's catalog for results; made if need be.")
    ] = None,
    late: Annotated[str | None, typer.Option(help="Folder for rows that come too late.")] = None,
    mode: Annotated[OutputMode, typer.Option(help=help_text("mode"))] = "append",
    trigger: Annotated[str | None, typer.Option(help="Time between micro-batches; none: as fast as it goes.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when all that is there now is read.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Take up changes of FILE while running.")] = False,
    replan: Annotated[float, typer.Option(min=0.0, help=help_text("replan"))] = 0.5,
    horizon: Annotated[str | None, typer.Option(help=help_text("horizon"))] = None,
    buckets: Annotated[
        int | None, typer.Option(min=1, help="Parts of the state, fixed by the first start; one a core.")
    ] = None,
    status: Annotated[str, typer.Option(help="Time between status lines.")] = "10 s",
    metrics_port: Annotated[int | None, typer.Option(help="Serve Prometheus text on this port of 127.0.0.1.")] = None,
    page: Annotated[
        int | None, typer.Option(help="Serve a live page on this port, /metrics included; 0: a free one.")
    ] = None,
    page_host: Annotated[str, typer.Option(help="Address that --page answers on.")] = "127.0.0.1",
    package: Annotated[list[str] | None, typer.Option(help="Maven package that the source or sink needs.")] = None,
    jar: Annotated[list[str] | None, typer.Option(help="The same as a jar file; may be repeated.")] = None,
    conf: Conf = None,
    statistics: StatisticsFile = None,
    master: Master = "local[*]",
    **given: Any,
) -> None:
    """Run queries over an endless stream, exactly once, on Spark Structured Streaming.

    Rows wait until the watermark passes them, so they may come in any order within it. A restart with the same
    --checkpoint goes on where the last run ended, also with changed queries: those that stay lose nothing, new ones
    report from their first whole window on.

    \b
    Files that come into a folder, results to parquet:
        motet stream queries.motet --option path=events/ --sink parquet --output results/ --checkpoint state/

    \b
    Try it with made-up rows:
        motet stream queries.motet --source rate --option rowsPerSecond=1000 --select 'timestamp AS time'
            --select "CASE value % 3 WHEN 0 THEN 'A' WHEN 1 THEN 'B' ELSE 'C' END AS type"

    \b
    Kafka in and out; the package is Spark's own, in the version of your Spark:
        motet stream queries.motet --source kafka --option kafka.bootstrap.servers=host:9092 --option subscribe=events
            --json 'time TIMESTAMP, type STRING, key STRING, x DOUBLE' --checkpoint state/
            --sink kafka --sink-option kafka.bootstrap.servers=host:9092 --sink-option topic=results
            --package org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION

    A status line tells rows, rows waiting for the watermark, late rows, state, and how far the watermark is behind.
    Ctrl-C and SIGTERM stop the stream.
    """
    from motet.cli import commands, streaming

    options = replace(
        make_options(given),
        statistics=commands.read_statistics(statistics),
        mode=mode,
        watermark=watermark,
        replan=replan,
        horizon=horizon,
        keep_late=late is not None,
        checkpoint=checkpoint,
        buckets=buckets,
    )
    from motet.spark.service import StreamSource

    streaming.stream(
        file,
        options,
        source=StreamSource(source, parse_pairs(option or (), "--option"), schema, json, tuple(select or ()), table),
        sink=streaming.make_sink(sink, output, sink_option or [], late, output_table),
        trigger=None if trigger is None else f"{microseconds_of(trigger, '--trigger') // 1000} milliseconds",
        once=once,
        watch=watch,
        status_seconds=microseconds_of(status, "--status") / 1e6,
        metrics_port=metrics_port,
        page=page,
        page_host=page_host,
        session=streaming.make_session(master, package or [], jar or [], conf or []),
    )


@app.command()
@takes_options(*READING)
def profile(
    events: Events,
    key: Annotated[list[str] | None, typer.Option(help="Column that correlates events; may be repeated.")] = None,
    queries: Annotated[Path | None, typer.Option(help="Queries whose conditions and windows to count for.")] = None,
    engine: Annotated[ReaderEngine, typer.Option(help="In this process or on Spark.")] = "local",
    format: Annotated[ReportFormat, typer.Option(help="For people or for programs.")] = "text",
    master: Master = "local[*]",
    conf: Conf = None,
    **given: Any,
) -> None:
    """Count events by type, and say how they spread over time and keys.

    \b
        motet profile --events trades.parquet --key symbol
        motet profile --events trades.parquet --queries queries.motet
        motet profile --events trades.parquet --format json > statistics.json
    """
    from motet.cli import commands, engines

    target = engines.SparkTarget(master, conf or ())
    commands.profile(events, tuple(key or ()), queries, make_options(given), engine, target, format)


@app.command(name="explain-match")
@takes_options(*READING)
def explain_match(
    file: QueryFile,
    events: Events,
    query: Annotated[str | None, typer.Option(help="The query to explain; not needed where there is one.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE of its GROUP BY or [attribute]; may be repeated.")
    ] = None,
    start: Annotated[str | None, typer.Option("--from", help="First time of a match.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Time before which it ends.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Matches to list.")] = 5,
    format: Annotated[ReportFormat, typer.Option(help="For people or for programs.")] = "text",
    **given: Any,
) -> None:
    """Say which events a query matches, or at which of its demands none is left.

    \b
        motet explain-match queries.motet --events trades.parquet --query squeeze
        motet explain-match queries.motet --events trades.parquet --query squeeze --key symbol=IBM
            --from 2024-01-31T09:30 --to 2024-01-31T16:00
    """
    from motet.cli import commands

    asked = commands.Question(query, tuple(key or ()), start, end, limit)
    commands.explain_match(file, events, asked, make_options(given), format)


@app.command()
@takes_options("time", "type")
def translate(
    file: Annotated[Path, typer.Argument(help="Text of another system.", metavar="FILE")],
    source: Annotated[SourceDialect, typer.Option("--from", help="What it is written for.")],
    name: Annotated[str, typer.Option(help="What to call the query.")] = "translated",
    **given: Any,
) -> None:
    """Write a query of another system in motet's language, where it means the same.

    Where it does not, the place is shown and nothing is written. SQL and ClickHouse need sqlglot.

    \b
        motet translate --from match-recognize dips.sql --time ts > dips.motet
        motet translate --from flink-cep Alerts.java
        motet translate --from sase query.txt
        motet translate --from clickhouse funnel.sql --time ts --type event
    """
    from motet.cli import text_commands

    text_commands.translate(file, source, name, **given)


@app.command()
def demo(
    spark: Annotated[bool, typer.Option(help="Run the same on a local Spark afterwards (needs Java).")] = True,
    master: Master = "local[*]",
) -> None:
    """Run sixty queries over a year of flights.

    Shows what they find, what it gains to run them as one plan, and the same on a local Spark.

    \b
        motet demo
        motet demo --no-spark
    """
    from motet.cli.demo import run_demo

    run_demo(spark, master)


@app.command()
def warm(
    cache: Annotated[
        Path | None, typer.Option(help="Folder for them; by default the package, or the user's cache.")
    ] = None,
    cpu: Annotated[
        str, typer.Option(help="Processor to compile for: host, or a baseline that all nodes have, such as x86-64-v3.")
    ] = "baseline",
) -> None:
    """Compile all kernels now, so that no run, worker or node has to.

    The folder can be copied to other machines of the same system, Python and numba: MOTET_KERNEL_CACHE names it there.
    Without --cache the kernels become part of the installed package, and travel in its archive or image.

    \b
        motet warm
        motet warm --cpu x86-64-v2
        motet warm --cache kernels/
    """
    from motet.cli.warm import warm_kernels

    warm_kernels(cache, cpu)


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments, beginnings of their names, or all.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show which experiments there are.")] = False,
    size: Annotated[BenchSize, typer.Option(help="Seconds to minutes, or what the papers ran.")] = "quick",
    repeat: Annotated[int, typer.Option(min=1, help="How often each case is measured.")] = 3,
    json: Annotated[Path | None, typer.Option(help="File for the result; a folder for several.")] = None,
    chart: Annotated[
        Path | None, typer.Option(help="Chart of the result (.html, .svg, .png); a folder for several.")
    ] = None,
) -> None:
    """Run the experiments of the papers, and ours.

    Each compares within one run, in turn and repeated, in a process of its own; medians are shown with their spread
    where there is one, beside what the text of the paper states.

    \b
        motet bench --list
        motet bench sharon-12b --chart queries.html
        motet bench gloria --size paper --repeat 5 --json results/
        motet bench all --json results/
        motet bench calibrate
    """
    benchmarks = _load_benchmarks()
    if listed or not names:
        benchmarks.list_experiments(names or [])
    else:
        benchmarks.run_experiments(names, benchmarks.Setting(size, repeat), json, chart)


def _load_benchmarks() -> ModuleType:
    """Return `benchmarks.command` of the checkout that motet runs from; end with status 2 where there is none."""
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / "benchmarks" / "command.py").is_file():
        say("error: experiments run from a checkout of the repository; an installed motet does not have them")
        raise typer.Exit(WRONG)
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    return import_module("benchmarks.command")
