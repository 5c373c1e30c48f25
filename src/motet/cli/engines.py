"""Which engine runs a command: in this process, on Spark, or the oracle."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from motet import api
from motet.cli.options import Engine, Reader
from motet.engine.local import Outcome, sorted_results
from motet.errors import DataError, RunError
from motet.io.events import EventSource
from motet.model.query import Workload
from motet.statistics.model import Statistics


def execute(
    source: EventSource,
    workload: Workload,
    settings: api.Settings,
    engine: Engine,
    master: str,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Run a workload over event files that were checked before; Spark shows no progress of its own."""
    with errors_of_data():
        if engine is Engine.SPARK:
            return execute_on_spark(source, workload, settings, master)
        return api.execute(source, workload, settings, engine=engine, progress=progress)


@contextmanager
def errors_of_data() -> Iterator[None]:
    """Events that were checked before and turn out wrong are a run that failed."""
    try:
        yield
    except DataError as error:
        raise RunError(str(error)) from error


def execute_on_spark(source: EventSource, workload: Workload, settings: api.Settings, master: str) -> Outcome:
    """Run on a session of this machine, and bring the results here."""
    from motet.spark.batch import run
    from motet.spark.files import frame_of
    from motet.spark.session import local_session

    program = api.program_for(source, workload, settings)
    with frame_of(source, local_session(master)) as frame:
        started = run(
            frame,
            workload,
            time=settings.time,
            type=settings.type,
            time_unit=settings.time_unit,
            options=settings.options(),
        )
        with errors_of_workers():
            table = started.result.toArrow().cast(program.result_schema)
        metrics = started.metrics()
        truncated = started.truncated()
    table = sorted_results(program, table)
    return Outcome(table, metrics["rows"], metrics["set_aside"], metrics["overflows"], truncated)


@contextmanager
def errors_of_workers() -> Iterator[None]:
    """Raise what motet raised in a worker as itself: Spark wraps it in tracebacks of two languages."""
    try:
        yield
    except Exception as error:
        ours = re.search(r"^motet\.errors\.\w+: (.*)$", str(error), re.MULTILINE)
        if ours is None:
            raise
        raise RunError(ours[1]) from error


def take_statistics(
    source: EventSource,
    keys: tuple[str, ...],
    workload: Workload | None,
    settings: api.Settings,
    engine: Reader,
    master: str,
) -> Statistics:
    """Statistics of event files, for a workload where there is one."""
    if engine is Reader.LOCAL:
        return api.profile(
            source, workload, keys=keys, time=settings.time, type=settings.type, time_unit=settings.time_unit
        )
    from motet.spark.files import frame_of
    from motet.spark.profile import profile as profile_on_spark
    from motet.spark.session import local_session

    with frame_of(source, local_session(master)) as frame:
        return profile_on_spark(frame, settings.time, settings.type, keys, settings.time_unit, workload)
