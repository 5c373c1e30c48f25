"""`--watch` survives editors: a file that is missing, unreadable or half written is reported, and the queries go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import motet
from motet.compile import Program, compile_workload
from motet.errors import RunError
from motet.options import Options
from motet.schema import EventSchema
from motet.spark import service
from motet.spark.service import StreamJob, StreamService, StreamSink, StreamSource

FIRST = "QUERY first RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 60 s SLIDE 20 s\n"
SECOND = "QUERY second RETURN COUNT(*) PATTERN SEQ(B, A) GROUP BY k WITHIN 60 s SLIDE 20 s\n"
SCHEMA = EventSchema(pa.schema({"time": pa.int64(), "type": pa.string(), "k": pa.int64()}))


class WatchedService(StreamService):
    """A service that compiles, and starts nothing on Spark."""

    def __init__(self, file: Path, said: list[str]) -> None:
        self.starts: list[Program] = []
        self.refused: Exception | None = None
        session: Any = SimpleNamespace(streams=SimpleNamespace(addListener=lambda monitor: None))
        job = StreamJob(StreamSource("parquet"), StreamSink(), Options(watermark="5 seconds"))
        super().__init__(session, job, file, said.append, said.append)

    def _compile(self, workload: Any, statistics: Any) -> tuple[Any, Program]:
        return None, compile_workload(workload, SCHEMA, Options(watermark="5 seconds", mode="append"))

    def _start(self, change: str | None = None) -> Any:
        if self.refused is not None and len(self.program.workload.queries) > 1:
            raise self.refused
        self.starts.append(self.program)
        return SimpleNamespace(stop=lambda: None, isActive=True)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def watched(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> WatchedService:
    monkeypatch.setattr(service, "POLL_SECONDS", 0.0)
    file = tmp_path / "queries.motet"
    file.write_text(FIRST)
    return WatchedService(file, said)


def replace_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


MOMENTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "there is no query file"),
    "unreadable": (replace_by_folder, "cannot read the query file"),
    "not UTF-8": (lambda file: file.write_bytes("QUERY müde".encode("latin-1")), "is not UTF-8 text"),
    "UTF-16": (lambda file: file.write_bytes(FIRST.encode("utf-16")), "is not UTF-8 text"),
    "empty": (lambda file: file.write_text(""), "there is no query here"),
    "cut": (lambda file: file.write_text(FIRST + SECOND[:30]), "error"),
    "zeros": (lambda file: file.write_bytes(b"\0" * 4096), "means nothing here"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_bad_moment_of_a_file_is_said_once_and_the_queries_go_on(
    watched: WatchedService, said: list[str], moment: str
) -> None:
    break_it, message = MOMENTS[moment]
    break_it(watched.file)
    assert not watched.reload_queries()
    assert not watched.reload_queries()
    assert len(said) == 1
    assert message in said[0]
    assert said[0].endswith("the queries go on as they were")
    assert len(watched.starts) == 1
    if watched.file.is_dir():
        watched.file.rmdir()
    watched.file.write_text(FIRST + SECOND)
    assert watched.reload_queries()
    assert said[1:] == ["queries changed: 1 added, 0 removed, 2 in all"]
    watched.file.unlink()
    assert not watched.reload_queries()
    assert len(said) == 3  # another time, it is said again


def test_nothing_starts_again_for_queries_in_another_order(watched: WatchedService, said: list[str]) -> None:
    watched.file.write_text(FIRST + SECOND)
    assert watched.reload_queries()
    watched.file.write_text(f"-- moved\n{SECOND}\n\n{FIRST}")
    assert not watched.reload_queries()
    watched.file.write_text(SECOND)
    assert watched.reload_queries()
    assert [len(program.workload.queries) for program in watched.starts] == [1, 2, 1]


def test_a_file_that_is_being_written_is_taken_up_when_it_is_whole(
    watched: WatchedService, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there at the first look are whole queries, but not all of them."""
    watched.file.write_text(SECOND)
    monkeypatch.setattr("time.sleep", lambda seconds: watched.file.write_text(FIRST + SECOND))
    assert not watched.reload_queries()
    assert (said, len(watched.starts)) == ([], 1)
    assert watched.reload_queries()
    assert len(watched.program.workload.queries) == 2


def test_changed_queries_wait_for_the_first_micro_batch_of_a_run(
    watched: WatchedService, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edits that come faster than starts would keep a stream from any results."""
    looks: list[bool] = []

    def await_termination(_: float) -> bool:
        looks.append(watched.monitor.begun.is_set())
        if len(looks) in (4, 8):  # a micro-batch, and a run that has nothing to do
            event: Any = SimpleNamespace(progress=SimpleNamespace(json='{"runId": ""}'), runId="")
            watched.monitor.onQueryProgress(event) if len(looks) == 4 else watched.monitor.onQueryIdle(event)
        return len(looks) > 9

    def start(change: str | None = None) -> Any:
        watched.starts.append(watched.program)
        watched.monitor.follow_run(watched._query_names(), "")
        watched.file.write_text(FIRST + SECOND if len(watched.starts) % 2 else FIRST)
        return SimpleNamespace(awaitTermination=await_termination, isActive=False, stop=lambda: None)

    watched._start = start  # type: ignore[method-assign]
    watched.query = SimpleNamespace(awaitTermination=await_termination, isActive=False, stop=lambda: None)  # type: ignore[assignment]
    watched.session.streams.removeListener = lambda monitor: None
    watched.monitor.ended.set()
    watched.file.write_text(FIRST + SECOND)
    monkeypatch.setattr(watched, "replan", lambda: False)
    watched.run(watch=True, every=0.0, show=lambda status: None)
    assert len(watched.starts) == 3, "one at the beginning, and one after each time that it had begun"
    assert said == ["queries changed: 1 added, 0 removed, 2 in all", "queries changed: 0 added, 1 removed, 1 in all"]


def test_queries_that_a_checkpoint_cannot_go_on_with_end_nothing(watched: WatchedService, said: list[str]) -> None:
    watched.refused = RunError("the column 'k' was int32 when the checkpoint was made and is int64 now")
    watched.file.write_text(FIRST + SECOND)
    assert not watched.reload_queries()
    assert said == [f"{watched.refused}\nthe queries go on as they were"]
    assert [len(program.workload.queries) for program in watched.starts] == [1, 1]
    assert watched.program.workload == motet.parse(FIRST)


def test_a_start_that_fails_for_any_reason_ends_nothing(watched: WatchedService, said: list[str]) -> None:
    watched.refused = ValueError("a source that cannot be read for a moment")
    watched.file.write_text(FIRST + SECOND)
    assert not watched.reload_queries()
    assert said == ["ValueError: a source that cannot be read for a moment\nthe queries go on as they were"]
    assert watched.program.workload == motet.parse(FIRST)
    watched.refused = None
    assert watched.reload_queries()
    assert [len(program.workload.queries) for program in watched.starts] == [1, 1, 2]


def test_an_error_that_nobody_thought_of_ends_nothing(
    watched: WatchedService, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise ValueError("a source that is away for a moment")

    watched.file.write_text(FIRST + SECOND)
    monkeypatch.setattr(watched, "_compile", fail)
    assert not watched.reload_queries()
    assert said == ["ValueError: a source that is away for a moment\nthe queries go on as they were"]


def test_a_stream_that_spark_gave_up_on_too_early_starts_again(watched: WatchedService, said: list[str]) -> None:
    """Spark waits ten seconds for a Python process, which is not enough on a busy machine; so it is asked again."""
    patience = 3

    def await_termination(_: float) -> bool:
        if len(watched.starts) <= patience:
            raise StreamingQueryException("[STREAM_FAILED] terminated with: Python worker failed to connect back.")
        return True

    def start(change: str | None = None) -> Any:
        watched.starts.append(watched.program)
        return SimpleNamespace(awaitTermination=await_termination, isActive=False)

    watched._start = start  # type: ignore[method-assign]
    watched.query = SimpleNamespace(awaitTermination=await_termination, isActive=False)  # type: ignore[assignment]
    watched.session.streams.removeListener = lambda monitor: None
    watched.monitor.ended.set()
    watched.run(watch=False, every=60.0, show=lambda status: None)
    assert len(watched.starts) == 4
    assert len(said) == 3
    assert set(said) == {
        "Spark did not wait for a Python process to start: the stream starts again from its checkpoint"
    }
    patience = 100
    with pytest.raises(StreamingQueryException):
        watched.run(watch=False, every=60.0, show=lambda status: None)
    assert len(said) == 3 + 8 - 3
