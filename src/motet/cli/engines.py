"""Which engine runs a command: in this process, on Spark, or the oracle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from motet.cli.options import ReaderEngine
from motet.compile import Program
from motet.engine.local import Outcome, sort_results
from motet.errors import DataError, RunError
from motet.io.events import EventSource, open_files
from motet.model.query import Workload
from motet.options import Options
from motet.pipeline import Job, readable
from motet.statistics.model import Statistics


@contextmanager
def data_errors_as_run_errors() -> Iterator[None]:
    """Raise a RunError where events that were checked before turn out wrong."""
    try:
        yield
    except DataError as error:
        raise RunError(str(error)) from error


def execute_on_spark(job: Job, master: str) -> Outcome:
    """Run on a session of this machine, and bring the results here."""
    from motet.spark.session import local_session

    assert job.program is not None
    return _collect(readable(job.source), job.program, local_session(master))


def execute_selected_on_spark(workload: Workload, events: Sequence[Path], options: Options, master: str) -> Outcome:
    """Run over the columns that `select` makes, as Spark computes them, and bring the results here."""
    from motet.spark.sample import compile_for
    from motet.spark.session import local_session

    session = local_session(master)
    selected = _select_on_spark(events, options, session)
    return _collect(selected, compile_for(selected, workload, options), session)


def _select_on_spark(events: Sequence[Path], options: Options, session: Any) -> Any:
    from motet.spark.dataframes import open_dataframe, select_columns

    return select_columns(open_dataframe(open_files(events, options), session), options.select)


def _collect(events: Any, program: Program, session: Any) -> Outcome:
    from motet.spark.batch import run

    started = run(events, program, session)
    with unwrap_worker_errors():
        table = started.results.toArrow().cast(program.result_schema)
    metrics = started.metrics()
    table = sort_results(program, [table])
    return Outcome(table, metrics["rows"], metrics["set_aside"], metrics["overflows"], started.truncated())


def sql_on_spark(file: Path, events: Any, options: Options, master: str) -> pa.Table:
    """Run a statement on a session of this machine, and bring its result here."""
    from motet import api
    from motet.spark.session import local_session

    local_session(master)
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
    master: str,
) -> Statistics:
    """Return statistics of event files, for a workload where there is one."""
    if engine == "local":
        from motet import api

        return api.profile(source, workload, options.for_reading(), keys=keys)
    from motet.spark.dataframes import open_dataframe
    from motet.spark.profile import profile as profile_on_spark
    from motet.spark.session import local_session

    session = local_session(master)
    opened = _select_on_spark(events, options, session) if options.select else open_dataframe(source, session)
    return profile_on_spark(opened, keys, workload, options)
