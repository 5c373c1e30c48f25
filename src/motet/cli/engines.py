"""Which engine runs a command: in this process, on Spark, or the oracle."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from motet.cli.options import ReaderEngine
from motet.engine.local import Outcome, sort_results
from motet.errors import DataError, RunError
from motet.io.events import EventSource
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
    from motet.spark.batch import run
    from motet.spark.session import local_session

    program = job.program
    assert program is not None
    started = run(readable(job.source), program, local_session(master))
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

    events = open_dataframe(source, local_session(master))
    return profile_on_spark(events, keys, workload, options)
