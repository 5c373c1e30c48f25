"""The command `stream`: its arguments as a job, the session it needs, and its status on stderr."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from motet.cli.engines import unwrap_worker_errors
from motet.cli.options import parse_pairs
from motet.cli.report import say
from motet.explain.formatting import format_count
from motet.options import Options

if TYPE_CHECKING:
    from motet.spark.service import StreamSink, StreamSource

TABLE_FORMATS = ("delta", "iceberg")


def make_sink(
    format: str, output: str | None, options: Sequence[str], late: str | None, table: str | None = None
) -> StreamSink:
    """Return a sink from its options on the command line."""
    from motet.spark.service import JSON_LINES, StreamSink

    given = parse_pairs(options, "--sink-option")
    if output is not None:
        given["path"] = output
    if format == JSON_LINES and (given or table is not None):
        raise typer.BadParameter("results go to the terminal: name a --sink for files, such as parquet")
    if output is not None and table is not None:
        raise typer.BadParameter("give --output or --output-table, not both")
    if late is not None and (table is not None or format in TABLE_FORMATS):
        # Beside late rows, results are written micro-batch by micro-batch; in files, one that is done again replaces
        # what it wrote before.
        raise typer.BadParameter("with --late, results go to files or Kafka: a table would get some of them twice")
    return StreamSink(format, given, late, table)


def make_session(
    master: str, packages: Sequence[str], jars: Sequence[str], settings: Sequence[str]
) -> Callable[[], Any]:
    """Return what starts the Spark session, once the queries are known to be right."""
    config = parse_pairs(settings, "--conf")

    def start() -> Any:
        from motet.spark.session import stream_session

        return stream_session(master, packages, jars, config)

    return start


@contextmanager
def wait_for_signals() -> Iterator[threading.Event]:
    """Return an event that Ctrl-C and SIGTERM set, so that the stream is stopped between two calls of Spark.

    A second signal ends the process at once.
    """
    stopping = threading.Event()
    names = (signal.SIGINT, signal.SIGTERM)

    def stop(number: int, _: FrameType | None) -> None:
        stopping.set()
        signal.signal(number, signal.SIG_DFL)

    wakeup = signal.set_wakeup_fd(-1)  # or the process is ended where a signal does not end it
    before = [signal.signal(name, stop) for name in names]
    try:
        yield stopping
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
        signal.set_wakeup_fd(wakeup)


def stream(
    file: Path,
    options: Options,
    *,
    source: StreamSource,
    sink: StreamSink,
    trigger: str | None,
    once: bool,
    watch: bool,
    status_seconds: float,
    metrics_port: int | None,
    page: int | None,
    page_host: str,
    session: Callable[[], Any],
) -> None:
    """Run until the stream ends or is interrupted."""
    from motet.language import read
    from motet.spark.damage import explain_damage
    from motet.spark.service import StreamJob, StreamService
    from motet.spark.status_server import StatusPages, start_server

    read(file)  # what is wrong with the queries is said before Spark starts
    with tempfile.TemporaryDirectory(prefix="motet-") as folder:
        checkpoint = options.checkpoint
        if checkpoint is None and not once:
            say("no --checkpoint: a restart will begin anew")
        options = replace(options, checkpoint=checkpoint or folder)
        job = StreamJob(source, sink, options, trigger=trigger, once=once)
        with explain_damage(options.checkpoint or folder), unwrap_worker_errors():
            started = session()
            with ExitStack() as serving:
                stopping = serving.enter_context(wait_for_signals())
                service = StreamService(started, job, file, say, show_result)
                serving.callback(service.stop)
                pages = StatusPages(service.monitor, file.stem, lambda: service.program)
                if metrics_port is not None:
                    serving.callback(start_server(pages, metrics_port).shutdown)
                if page is not None:
                    server = start_server(pages, page, page_host, page=True)
                    serving.callback(server.shutdown)
                    say(f"live page: http://{page_host}:{server.server_port}/")
                service.run(watch=watch, every=status_seconds, show=say, stopping=stopping)
                if stopping.is_set():
                    batches = format_count(service.monitor.metrics.batches, "micro-batch")
                    kept = (
                        f"a start with --checkpoint {checkpoint} goes on from here" if checkpoint else "nothing is kept"
                    )
                    say(f"stopped after {batches}: {kept}")


def show_result(line: str) -> None:
    """Write a result on standard output."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
