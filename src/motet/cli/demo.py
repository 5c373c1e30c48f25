"""The demonstration: sixty queries over a year of flights, what they find, what sharing gains, and Spark beside it."""

from __future__ import annotations

import datetime as dt
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from motet import datasets
from motet.cli.engines import SparkTarget, execute_on_spark
from motet.compile import Program
from motet.errors import MotetError
from motet.explain.branches import format_partition
from motet.explain.formatting import find_leading_comment, format_count
from motet.explain.text import describe_plan
from motet.io.events import open_events
from motet.io.query_columns import QueryColumns, list_query_columns
from motet.language import read
from motet.model.query import Workload
from motet.options import Options
from motet.pipeline import Job, TableSource, execute, prepare

T = TypeVar("T")

DATASET = "nyc_flights"
# Of output that no terminal wraps.
WIDTH = 120
# Queries called next_A_B count how often a flight of kind B came after those of kind A.
NEXT = "next_"
KINDS = {"ontime": "on time", "late": "late", "very_late": "very late", "cancelled": "cancelled"}
REPEATS = 3


def run_demo(with_spark: bool, master: str) -> None:
    """Run the workload that comes with the flights, show what it finds, what sharing gains, and the same on Spark."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    workload = read(datasets.workload_path(DATASET))
    file = open_events(datasets.path(DATASET))
    console.print(f"[bold]{file.num_rows:,} events[/]: {datasets.DATASETS[DATASET]}")
    console.print(f"[bold]{len(workload.queries)} queries[/]: {shorten_path(datasets.workload_path(DATASET))}\n")
    with console.status("running in this process ..."):
        table, reading = measure(file.table)
        job, planning = measure(lambda: prepare(TableSource(table), workload, Options()))
        outcome, first = measure(lambda: execute(job))
    for line in show_next_flights(outcome.table):
        console.print(line)
    for line in show_worst(workload, outcome.table):
        console.print(line)
    with console.status("running each query alone, and all as planned, in turn ..."):
        alone, shared = compare_alone(job)
    console.print("\n[bold]What sharing gains[/]: measured just now in this process, the best of three runs")
    console.print(f"  each query alone  {alone:5.2f} s")
    console.print(f"  as one plan       {shared:5.2f} s: {alone / shared:.1f} times as fast")
    console.print(
        f"  beside that: reading the file {reading:.2f} s, planning {planning:.2f} s, loading kernels (the very first "
        f"time: compiling them) {max(first - shared, 0.0):.2f} s"
    )
    assert job.program is not None
    for line in summarize_plan(job.program):
        console.print(escape(line))
    queries, events = (shorten_path(path) for path in (datasets.workload_path(DATASET), datasets.path(DATASET)))
    console.print("  as a page, with all of it:")
    console.print(f"    motet plan {queries} --events {events} --format html -o plan.html", soft_wrap=True)
    if with_spark:
        show_spark(console, workload, outcome.table, master)


def shorten_path(path: Path) -> str:
    """Return a path as a command in this folder may name it."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def measure(work: Callable[[], T]) -> tuple[T, float]:
    """Return what some work returns, and the seconds it took."""
    began = time.monotonic()
    return work(), time.monotonic() - began


def show_next_flights(results: pa.Table) -> Iterator[str | Table]:
    """Yield what the next flight of an aircraft was like, by what came before it."""
    counts = add_counts(results)
    histories = sorted({split_name(name)[0] for name in counts}, key=lambda kinds: (len(kinds), *map(place, kinds)))
    yield "[bold]How delays travel with an aircraft[/]: its next flight from New York on the same day"
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("  after flights that were", *KINDS.values(), "flights"):
        shown.add_column(title, justify="left" if title.startswith("  ") else "right")
    for history in histories:
        followed = [counts.get(NEXT + "_".join((*history, kind)), 0) for kind in KINDS]
        total = sum(followed)
        named = "  " + ", then ".join(KINDS[kind] for kind in history)
        shown.add_row(named, *(f"{count / total:.1%}" for count in followed), f"{total:,}")
    yield shown
    yield (
        f"  {len(counts)} queries such as [dim]PATTERN SEQ(dep_late, NOT flight, cancelled) WHERE \\[aircraft] "
        "WITHIN 1 day SLIDE 1 day[/]\n"
    )


def add_counts(results: pa.Table) -> dict[str, int]:
    """Return the sum of COUNT(*) over the year, for each query of what comes next."""
    sums = results.select(["query", "COUNT(*)"]).group_by("query").aggregate([("COUNT(*)", "sum")])
    found = zip(sums["query"].to_pylist(), sums["COUNT(*)_sum"].to_pylist(), strict=True)
    return {name: count for name, count in found if name.startswith(NEXT)}


def split_name(name: str) -> tuple[tuple[str, ...], str]:
    """Return the kinds of the first flights in a name such as next_late_very_late, and that of the last."""
    text = name.removeprefix(NEXT).replace("very_late", "very-late")
    *history, last = (kind.replace("-", "_") for kind in text.split("_"))
    return tuple(history), last


def place(kind: str) -> int:
    """Return where a kind of flight stands among all."""
    return list(KINDS).index(kind)


def show_worst(workload: Workload, results: pa.Table) -> Iterator[str]:
    """Yield what each other query asks, and where its first value is highest."""
    yield "[bold]What else goes wrong[/], and where and when most"
    for of_query in list_query_columns(workload):
        if of_query.query.name.startswith(NEXT):
            continue
        yield f"  [bold]{escape(of_query.query.name)}[/]  {escape(find_leading_comment(of_query.query, workload))}"
        yield f"    {escape(find_highest(of_query, results))}"


def find_highest(of_query: QueryColumns, results: pa.Table) -> str:
    """Return the row of a query with the highest first value in words, and how many rows there are."""
    found = of_query.select_rows(results)
    label = of_query.labels[0]
    known = found.filter(pc.is_valid(found[label]))
    if not len(known):
        return "no match"
    if pc.max(known[label]).as_py() == pc.min(known[label]).as_py() == 1:
        return f"{format_count(len(known), 'time')}, none of them twice"
    top = known.take(pc.sort_indices(known, [(label, "descending")])[:1]).to_pylist()[0]
    when = top.get("window_start") or top.get("time")
    where = [str(top[name]) for name in of_query.query.group_by]
    others = [f"{name} {format_value(top[name])}" for name in of_query.labels[1:]]
    said = [", ".join((format_value(top[label]), *where, format_time(when))), *others]
    return f"most: {'; '.join(said)}  ({format_count(len(found), 'row')})"


def format_value(value: object) -> str:
    """Return a number as people write it."""
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def format_time(when: dt.datetime | None) -> str:
    """Return a day, with the time of day where it is not midnight."""
    if when is None:
        return ""
    return f"{when:%d %B}" if when.time() == dt.time() else f"{when:%d %B %H:%M}"


def compare_alone(job: Job) -> tuple[float, float]:
    """Return the least seconds of a run with every query alone, and of one as planned, in turn."""
    apart = prepare(job.source, job.workload, Options(optimizer="none"))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS):
        for each, into in zip((apart, job), times, strict=True):
            into.append(measure(lambda each=each: execute(each))[1])  # type: ignore[misc]
    return min(times[0]), min(times[1])


def summarize_plan(program: Program) -> Iterator[str]:
    """Yield the plan in a few lines: for each branch its queries, its units, and what they share."""
    plan = describe_plan(program)
    yield "  the plan, a line for each group of queries; a total is a number that is kept for a step of a pattern:"
    for branch in plan["branches"]:
        queries = sum(len(unit["queries"]) for unit in branch["units"])
        kept, apart = (sum(unit[name] for unit in branch["units"]) for name in ("totals", "totals_apart"))
        saved = f"{kept} totals instead of {apart}" if kept < apart else f"{kept} totals"
        units = format_count(len(branch["units"]), "unit")
        yield f"    {format_partition(branch)}: {format_count(queries, 'query')} in {units}, {saved}"


def show_spark(console: Console, workload: Workload, expected: pa.Table, master: str) -> None:
    """Run the same on a local Spark, and say whether its results are the same."""
    console.print(f"\n[bold]The same on Spark[/] ({master})")
    try:
        _, starting = measure(lambda: start_spark(master))
    except MotetError as error:
        console.print(f"  left out: {escape(str(error))}")
        return
    with console.status("running on a local Spark ..."):
        job = prepare(open_events(datasets.path(DATASET)), workload, Options(), "spark")
        outcome, first = measure(lambda: execute_on_spark(job, SparkTarget(master)))
        again, second = measure(lambda: execute_on_spark(job, SparkTarget(master)))
    if not (outcome.table.equals(expected) and again.table.equals(expected)):
        raise MotetError("Spark gave other results than this process")
    console.print(f"  {len(expected):,} rows, the same as above")
    console.print(
        f"  starting Spark {starting:.1f} s, the first run {first:.1f} s, in which Python workers start, the second "
        f"{second:.1f} s"
    )


def start_spark(master: str) -> Any:
    """Return the session of this machine; say what is missing where Spark cannot start."""
    from motet.spark.java import find_java_home
    from motet.spark.session import local_session

    find_java_home()
    return local_session(master)
