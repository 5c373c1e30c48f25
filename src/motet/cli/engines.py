"""Which engine runs a command: in this process, on Spark, or the oracle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from motet.cli.options import ReaderEngine, parse_pairs
from motet.engine.local import Outcome, sort_results
from motet.errors import DataError, RunError
from motet.io.events import EventSource, open_files
from motet.model.query import Workload
from motet.options import Options
from motet.pipeline import Job, readable
from motet.statistics.model import Statistics

if TYPE_CHECKING:
    from motet.spark.batch import SparkRun


@contextmanager
def data_errors_as_run_errors() -> Iterator[None]:
    """Raise a RunError where events that were checked before turn out wrong."""
    try:
        yield
    except DataError as error:
        raise RunError(str(error)) from error


@dataclass(frozen=True)
class SparkTarget:
    """The Spark that a command runs on: a master, and settings written NAME=VALUE."""

    master: str
    settings: Sequence[str] = ()

    def start(self) -> Any:
        """Start a session there."""
        from motet.spark.session import local_session

        return local_session(self.master, config=parse_pairs(self.settings, "--conf"))


def execute_on_spark(job: Job, target: SparkTarget) -> Outcome:
    """Run on Spark, and bring the results here."""
    from motet.spark.batch import run

    assert job.program is not None
    return _collect(run(readable(job.source), job.program, target.start()))


def execute_dataframe(
    workload: Workload, events: Sequence[Path] | str, options: Options, target: SparkTarget
) -> Outcome:
    """Run over what only Spark can open or compute: a table of its catalog, or the columns that `select` makes of files
    or a table; and bring the results here.
    """
    from motet.spark.batch import compile_and_run

    return _collect(compile_and_run(_select_on_spark(events, options, target.start()), workload, options))


def _select_on_spark(events: Sequence[Path] | str, options: Options, session: Any) -> Any:
    from motet.spark.dataframes import open_dataframe, open_table, select_columns

    if isinstance(events, str):
        opened = open_table(events, session)
    else:
        opened = open_dataframe(open_files(events, options), session)
    return select_columns(opened, options.select)


def _collect(started: SparkRun) -> Outcome:
    program = started.program
    with unwrap_worker_errors():
        table = started.results.toArrow().cast(program.result_schema)
    metrics = started.metrics()
    table = sort_results(program, [table])
    counts = metrics["rows"], metrics["set_aside"], metrics["overflows"]
    return Outcome(table, *counts, started.truncated(), tuple(started.executed()))


def sql_on_spark(file: Path, events: Any, options: Options, target: SparkTarget) -> pa.Table:
    """Run a statement on Spark, and bring its result here."""
    from motet import api

    target.start()
    started = api.sql(file, events, options, engine="spark")
    with unwrap_worker_errors():
        return started.toArrow()


@contextmanager
def unwrap_worker_errors() -> Iterator[None]:
    """Raise what motet raised in a worker as itself: Spark wraps it in tracebacks of two languages."""
    try:
        yield
    except Exception as error:
        ours = re.search(r"^motet\.errors\.\w+: (.*)$", str(error), re.MULTILINE)
        if ours is None:
            raise
        raise RunError(ours[1]) from error


def profile_source(
    source: EventSource,
    events: Sequence[Path],
    keys: tuple[str, ...],
    workload: Workload | None,
    options: Options,
    engine: ReaderEngine,
    target: SparkTarget,
) -> Statistics:
    """Return statistics of event files, for a workload where there is one."""
    if engine == "local":
        from motet import api

        return api.profile(source, workload, options.for_reading(), keys=keys)
    from motet.spark.dataframes import open_dataframe
    from motet.spark.profile import profile as profile_on_spark

    session = target.start()
    opened = _select_on_spark(events, options, session) if options.select else open_dataframe(source, session)
    return profile_on_spark(opened, keys, workload, options)
