"""The demonstration: a dozen queries over a year of flights, what they ask, what they find, and how they were run."""

from __future__ import annotations

import math
import sys
import textwrap
import time

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.markup import escape

from motet import datasets
from motet.cli.commands import notes
from motet.cli.engines import SparkTarget, execute_on_spark
from motet.compile import Program
from motet.errors import MotetError
from motet.explain.formatting import find_leading_comment
from motet.explain.text import render_plan_text
from motet.io.events import open_events
from motet.io.query_columns import QueryColumns, list_query_columns
from motet.io.text_tables import build_query_table
from motet.language import read
from motet.language.printer import pattern_text
from motet.model.query import Workload
from motet.options import Engine, Options
from motet.pipeline import execute, prepare

DATASET = "nyc_flights"
# Of output that no terminal wraps.
WIDTH = 120


def run_demo(engine: Engine, rows: int, master: str) -> None:
    """Run the workload that comes with the flights, and show everything about it."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    workload = read(datasets.workload_path(DATASET))
    source = open_events(datasets.path(DATASET))
    console.print(f"[bold]Events[/]   {source.num_rows:,}: {datasets.DATASETS[DATASET]}")
    console.print(f"[bold]Queries[/]  {len(workload.queries)}: {datasets.workload_path(DATASET)}")
    require_java(engine)
    started = time.monotonic()
    with console.status(f"running on {'a local Spark' if engine == 'spark' else 'this process'} ..."):
        job = prepare(source, workload, Options(), engine)
        outcome = execute_on_spark(job, SparkTarget(master)) if engine == "spark" else execute(job)
    seconds = time.monotonic() - started
    for of_query in list_query_columns(workload):
        show_answer(console, of_query, workload, outcome.table, rows)
    assert job.program is not None
    show_plan(console, job.program)
    console.print("\n[bold]The run[/]")
    for note in notes(outcome, len(outcome.table), seconds):
        console.print(f"  {note}")


def require_java(engine: Engine) -> None:
    """Say how to go on where Spark could not start."""
    if engine != "spark":
        return
    from motet.spark.java import find_java_home

    try:
        find_java_home()
    except MotetError as error:
        raise MotetError(f"{error}\nWithout Java: motet demo --engine local") from error


def show_answer(console: Console, of_query: QueryColumns, workload: Workload, results: pa.Table, rows: int) -> None:
    """What a query asks, in words and as a pattern, and where its first value is highest."""
    found = of_query.select_rows(results)
    console.print(f"\n[bold]{escape(of_query.query.name)}[/]  {escape(find_leading_comment(of_query.query, workload))}")
    console.print(f"  [dim]{escape(pattern_text(of_query.query.pattern))}[/]")
    if not len(found):
        console.print("  no match")
        return
    table = build_query_table(of_query, highest_first(found, of_query.labels[0]), rows)
    table.title = None
    console.print(table)
    console.print(f"  [dim]{min(rows, len(found))} of {len(found):,} rows, highest {of_query.labels[0]} first[/]")


def highest_first(found: pa.Table, label: str) -> pa.Table:
    """Rows by a value, largest first; a count too large for a BIGINT is null, and larger than any other."""
    values = pc.fill_null(pc.cast(found[label], pa.float64(), safe=False), math.inf)
    return found.take(pc.sort_indices(pc.negate(values)))


def show_plan(console: Console, program: Program) -> None:
    """Show how the queries were run."""
    console.print("\n[bold]The plan[/]")
    console.print(escape(textwrap.indent(render_plan_text(program), "  ")), soft_wrap=True)
