"""The command `stream`: its arguments as a job, the session it needs, and its status on stderr."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from motet.api import Settings
from motet.cli.engines import errors_of_workers
from motet.cli.options import Mode
from motet.cli.report import say

if TYPE_CHECKING:
    from motet.spark.service import Sink, Source

__all__ = ["Settings", "sink_of", "source_of", "stream"]


def source_of(
    format: str, options: Sequence[str], schema: str | None, json: str | None, select: Sequence[str]
) -> Source:
    """A source from its options on the command line."""
    from motet.spark.service import Source

    return Source(format, pairs(options, "--option"), schema, json, tuple(select))


def sink_of(format: str, output: str | None, options: Sequence[str], late: str | None) -> Sink:
    """A sink from its options on the command line."""
    from motet.spark.service import LINES, Sink

    given = pairs(options, "--sink-option")
    if output is not None:
        given["path"] = output
    if format == LINES and given:
        raise typer.BadParameter("results go to the terminal: name a --sink for files, such as parquet")
    return Sink(format, given, late)


def pairs(options: Sequence[str], name: str) -> dict[str, str]:
    """NAME=VALUE, each."""
    found = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{name} {option!r}: write NAME=VALUE")
        found[key] = value
    return found


def stream(
    file: Path,
    *,
    source: Source,
    sink: Sink,
    checkpoint: str | None,
    watermark: str,
    mode: Mode,
    buckets: int | None,
    trigger: str | None,
    once: bool,
    watch: bool,
    replan: float,
    status: float,
    metrics_port: int | None,
    page: int | None,
    page_host: str,
    packages: Sequence[str],
    jars: Sequence[str],
    settings: Settings,
    master: str,
) -> None:
    """Run until the stream ends or is interrupted."""
    from motet.engine.live import Adapting
    from motet.language import read
    from motet.spark.serve import Pages, serve
    from motet.spark.service import Job, Service
    from motet.spark.session import stream_session

    read(file)  # what is wrong with the queries is said before Spark starts
    with tempfile.TemporaryDirectory(prefix="motet-") as folder:
        if checkpoint is None and not once:
            say("no --checkpoint: a restart will begin anew")
        job = Job(
            source,
            sink,
            checkpoint or folder,
            watermark,
            settings.time,
            settings.type,
            settings.time_unit,
            settings.options(),
            mode,
            buckets,
            trigger=trigger,
            once=once,
            adapting=Adapting(threshold=replan or None),
        )
        with errors_of_workers():
            service = Service(stream_session(master, packages, jars), job, file, say, show_result)
            try:
                pages = Pages(service.watcher, file.stem, service.plan)
                with ExitStack() as serving:
                    if metrics_port is not None:
                        serving.callback(serve(pages, metrics_port).shutdown)
                    if page is not None:
                        server = serve(pages, page, page_host, page=True)
                        serving.callback(server.shutdown)
                        say(f"live page: http://{page_host}:{server.server_port}/")
                    service.run(watch=watch, every=status, show=say)
            finally:
                service.stop()


def show_result(line: str) -> None:
    """A result on standard output."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
