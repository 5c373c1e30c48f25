"""Streams that are really restarted after a change: of columns, types, the watermark, the sink, and the checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import motet
from motet.errors import RunError
from motet.io.writers import json_lines
from motet.options import Options
from motet.spark.checkpoint import FOLDER
from motet.spark.service import StreamJob, StreamService, StreamSink, StreamSource
from tests.command_line import Motet
from tests.spark.test_stream import Folder, events_of, last_event, random_events

pytestmark = pytest.mark.spark

COUNTS = "QUERY counts RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 60 s SLIDE 20 s\n"
COMES = "QUERY comes RETURN COUNT(*) PATTERN SEQ(B, A) GROUP BY k WITHIN 20 s SLIDE 20 s\n"
MATCHES = "QUERY matches RETURN * PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10 s\n"

Results = list[dict[str, Any]]


class Restarts:
    """A stream over a folder of files that starts again and again from one checkpoint."""

    def __init__(self, path: Path, session: SparkSession) -> None:
        self.path = path
        self.folder = Folder(path / "events", session)
        self.results: Results = []

    def start(
        self, queries: str, watermark: str = "0 seconds", schema: str | None = None, sink: StreamSink | None = None
    ) -> None:
        """Read all that is there, and add the results to those of earlier starts."""
        file, lines = self.path / "queries.motet", []
        file.write_text(queries)
        options = {"path": str(self.folder.path), "mergeSchema": "true", "maxFilesPerTrigger": "1"}
        source = StreamSource("parquet", options, schema)
        settings = Options(checkpoint=str(self.path / "state"), watermark=watermark)
        job = StreamJob(source, sink or StreamSink(), settings, once=True)
        service = StreamService(self.folder.session, job, file, print, lines.append)
        service.run(watch=False, every=60.0, show=lambda _: None)
        self.results += map(json.loads, lines)

    def expect(self, queries: str, since: int = -1000) -> Results:
        """Return what a batch over all files gives, of windows that start at a time or later."""
        workload = motet.read(queries)
        events = pa.concat_tables(self.folder.batches, promote_options="permissive")
        rows = [json.loads(line) for line in json_lines(motet.run(events, workload), workload)]
        return [row for row in rows if row.get("window_start", row.get("start")) >= since]


@pytest.fixture
def restarts(tmp_path: Path, spark: SparkSession) -> Restarts:
    return Restarts(tmp_path, spark)


def normalize(rows: Results) -> list[str]:
    """Return rows in order; a column that is null in a match may be missing there."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: strip(part) for name, part in value.items() if part is not None}
        return value

    return sorted(json.dumps(strip(row), sort_keys=True) for row in rows)


def test_a_new_column_under_return_all_survives_every_restart(restarts: Restarts) -> None:
    """The first restart has matches of older and newer events; the later ones have state of both schemas."""
    parts = [random_events(150, seed, first=40 * seed, last=40 * (seed + 1)) for seed in range(3)]
    restarts.folder.add(parts[0])
    restarts.start(MATCHES)
    for number, part in enumerate((parts[1], pa.concat_tables([parts[2], last_event()])), 1):
        restarts.folder.add(part.append_column("new", pa.array([f"n{number}"] * len(part))))
        restarts.start(MATCHES)
    expected = restarts.expect(MATCHES)
    assert normalize(restarts.results) == normalize(expected)
    kinds = {tuple(row["match"][name].get("new") for name in "ab") for row in expected}
    assert kinds == {(None, None), (None, "n1"), ("n1", "n1"), ("n1", "n2"), ("n2", "n2")}  # also across restarts


def test_a_key_that_becomes_wider_stays_in_its_bucket(restarts: Restarts) -> None:
    schema = "time BIGINT, type STRING, k {}, x DOUBLE, s STRING"
    narrow = random_events(200, 1, last=100)
    restarts.folder.add(narrow.set_column(2, "k", narrow["k"].cast(pa.int32())))
    restarts.start(COUNTS + MATCHES, schema=schema.format("INT"))
    restarts.folder.add(pa.concat_tables([random_events(200, 2, first=100, last=200), last_event()]))
    restarts.start(COUNTS + MATCHES, schema=schema.format("BIGINT"))
    assert normalize(restarts.results) == normalize(restarts.expect(COUNTS + MATCHES))
    with pytest.raises(RunError, match="the column 'k' was int64 when the checkpoint was made and is int32 now"):
        restarts.start(COUNTS + MATCHES, schema=schema.format("INT"))


def test_a_shorter_watermark_and_a_new_query_give_whole_windows(restarts: Restarts) -> None:
    """Rows up to 99 were read under a watermark of 59: the new query is whole from 100 on, whatever its delay."""
    restarts.folder.add(random_events(200, 1, last=100))
    restarts.start(COUNTS, watermark="40 seconds")
    # Of these, some would be late for a delay of a second, and none is for 40.
    restarts.folder.add(pa.concat_tables([random_events(400, 2, first=60, last=200), last_event()]))
    restarts.start(COUNTS + COMES, watermark="1 second")
    stays = [row for row in restarts.results if row["query"] == "counts"]
    assert normalize(stays) == normalize(restarts.expect(COUNTS))
    comes = [row for row in restarts.results if row["query"] == "comes"]
    assert normalize(comes) == normalize(restarts.expect(COMES, since=100))
    assert comes


def test_a_checkpoint_whose_record_is_gone_or_cut_is_refused_and_goes_on_when_it_is_back(
    restarts: Restarts, tmp_path: Path, motet: Motet
) -> None:
    record, kept = tmp_path / "state" / FOLDER, tmp_path / "kept"
    restarts.folder.add(random_events(100, 1, last=100))
    restarts.start(COUNTS)
    restarts.folder.add(pa.concat_tables([random_events(100, 2, first=100, last=200), last_event()]))
    shutil.copytree(record, kept)
    shutil.rmtree(record)
    arguments = ["stream", tmp_path / "queries.motet", "--option", f"path={restarts.folder.path}", "--once"]
    arguments += ["--checkpoint", tmp_path / "state", "--watermark", "0 seconds", "--status", "60"]
    missing = motet(*arguments)
    assert missing.status == 1
    assert "has state but no record of what it was made with: its folder 'motet' is missing" in missing.stderr
    shutil.copytree(kept, record)
    for file in record.glob("*part-*"):
        file.unlink() if file.suffix == ".crc" else file.write_bytes(file.read_bytes()[:40])
    cut = motet(*arguments)
    assert cut.status == 1
    assert "the checkpoint is damaged, or a part of it is missing" in cut.stderr
    assert "bring it back, or start with a new --checkpoint" in cut.stderr
    assert "internal error" not in missing.stderr + cut.stderr
    assert missing.stdout + cut.stdout == ""
    shutil.rmtree(record)
    shutil.copytree(kept, record)
    restarts.start(COUNTS)
    assert normalize(restarts.results) == normalize(restarts.expect(COUNTS))


def test_late_rows_cannot_be_asked_for_where_readers_would_miss_results(restarts: Restarts, tmp_path: Path) -> None:
    out, late = {"path": str(tmp_path / "out")}, str(tmp_path / "late")
    restarts.folder.add(events_of([(1, "A", 1), (2, "B", 1), (50, "B", 1)]))
    restarts.start(MATCHES, sink=StreamSink("parquet", out))
    restarts.folder.add(events_of([(3, "B", 1), (51, "A", 1), (52, "B", 1), (100, "Z", 1)]))
    with pytest.raises(RunError, match=r"were written without --late.*name another --output, or start without --late"):
        restarts.start(MATCHES, sink=StreamSink("parquet", out, late=late))
    beside = {"path": str(tmp_path / "beside")}
    restarts.start(MATCHES, sink=StreamSink("parquet", beside, late=late))
    read = restarts.folder.session.read
    first, second = (read.parquet(each["path"]).select("start", "end").collect() for each in (out, beside))
    assert ([tuple(row) for row in first], [tuple(row) for row in second]) == ([(1, 2)], [(51, 52)])
    rows = [json.loads(row["value"]) for row in read.text(late).collect()]
    assert [(row["time"], row["type"]) for row in rows] == [(3, "B")]
