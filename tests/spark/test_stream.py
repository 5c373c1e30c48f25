"""A streaming DataFrame gives the results of a batch over the same events."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import motet
from motet.errors import DataError, OptionError, QueryError
from motet.spark.monitor import StreamMonitor
from tests.comparison import assert_same_results
from tests.event_files import add_event_file

pytestmark = pytest.mark.spark

WORKLOAD = """
QUERY sliding
RETURN COUNT(*), SUM(A.x), MIN(B.x)
PATTERN SEQ(A+, B)
GROUP BY k
WITHIN 20 s SLIDE 10 s

QUERY combined
RETURN COUNT(*), MAX(A.s)
PATTERN SEQ(A, NOT C)
WHERE [k]
WITHIN 20 s SLIDE 20 s

QUERY continuous
RETURN COUNT(*)
PATTERN SEQ(A, B, C)
WHERE [k]
WITHIN 8 s

QUERY at_close
RETURN COUNT(*)
PATTERN SEQ(A, NOT C)
GROUP BY k
WITHIN 8 s

QUERY never
RETURN COUNT(*)
PATTERN SEQ(A, NEG(D))
GROUP BY k
WITHIN 6 s SLIDE 3 s

QUERY counted
RETURN COUNT(*)
PATTERN SEQ(A, B)
GROUP BY k
WITHIN 4 EVENTS

QUERY rising
RETURN a, b, b.x - a.x AS gain
PATTERN SEQ(A a, B b)
WHERE [k] AND a.x < b.x
WITHIN 6 s

QUERY unanswered
RETURN *
PATTERN SEQ(A a, D+ d, NOT C c)
WHERE a.x < c.x
GROUP BY k
WITHIN 6 s

QUERY detected
RETURN COUNT(*), SUM(a.x) AS total
PATTERN SEQ(A a, D, B b)
WHERE [k] AND a.x < b.x
WITHIN 20 s SLIDE 10 s

QUERY detected_at_once
RETURN COUNT(*), MAX(b.x)
PATTERN SEQ(A a, C, B b)
WHERE [k] AND a.x < b.x
WITHIN 8 s
"""
END = 10_000  # a time after which nothing is open


class Folder:
    """A stream of files, one for each micro-batch."""

    def __init__(self, path: Path, session: SparkSession) -> None:
        self.path = path
        self.session = session
        self.batches: list[pa.Table] = []
        path.mkdir()

    def add(self, table: pa.Table) -> None:
        add_event_file(self.path, len(self.batches), table)
        self.batches.append(table)

    def stream(self) -> DataFrame:
        schema = self.session.read.parquet(str(self.path)).schema
        return self.session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.path))

    def events(self) -> pa.Table:
        return pa.concat_tables(self.batches)


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession) -> Folder:
    return Folder(tmp_path / "events", spark)


def random_events(count: int, seed: int, first: int = 0, last: int = 400) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(first, last, count))),
            "type": pa.array(rng.choice(list("ABCDE"), count)),
            "k": pa.array(rng.integers(0, 12, count)),
            "x": pa.array(rng.integers(0, 9, count).astype(np.float64)),
            "s": pa.array(rng.choice(["u", "v", "w"], count)),
        }
    )


def last_event() -> pa.Table:
    """An event that nobody asks for and that ends all windows."""
    return random_events(1, 0).set_column(0, "time", pa.array([END])).set_column(1, "type", pa.array(["Z"]))


def disordered(events: pa.Table, by: int, seed: int) -> pa.Table:
    """The same events, each at most so many seconds behind the newest before it."""
    arrival = events["time"].to_numpy() + np.random.default_rng(seed).integers(0, by + 1, len(events))
    return events.take(pa.array(np.argsort(arrival, kind="stable")))


def results(frame: DataFrame, tmp_path: Path, mode: str = "append") -> tuple[pa.Table, list[dict[str, Any]]]:
    """All that a query writes until its source has no more, and what it reports on the way."""
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    if mode == "append":
        writer = frame.writeStream.format("parquet").option("path", str(out))
    else:
        writer = frame.writeStream.format("memory").queryName("early").outputMode(mode)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    read = frame.sparkSession.read.schema(frame.schema).parquet(str(out)) if mode == "append" else None
    table = (read if read is not None else frame.sparkSession.table("early")).toArrow()
    return table, [json.loads(progress.json) for progress in query.recentProgress]


def test_disordered_micro_batches_give_the_results_of_batch(folder: Folder, tmp_path: Path) -> None:
    shuffled = disordered(random_events(900, 1), by=5, seed=2)
    for at in range(0, len(shuffled), 250):
        folder.add(shuffled.slice(at, 250))
    folder.add(last_event())
    found, progress = results(motet.stream(folder.stream(), WORKLOAD, watermark="6 seconds").results, tmp_path)
    assert_same_results(found, motet.run(folder.events(), WORKLOAD))
    assert sum(p["observedMetrics"]["motet"]["late"] or 0 for p in progress) == 0
    # Only the last event still waits, and only where events of any type count.
    assert sum(p["observedMetrics"]["motet"]["waiting"] or 0 for p in progress) == 1


def test_timers_answer_absences_with_no_further_event_of_the_key(folder: Folder, tmp_path: Path) -> None:
    query = "QUERY gone RETURN COUNT(*) PATTERN SEQ(A, NOT C) GROUP BY k WITHIN 8 s"
    folder.add(events_of([(1, "A", 1), (1, "A", 2), (3, "C", 2)]))
    folder.add(events_of([(30, "Z", 7)]))
    found, _ = results(motet.stream(folder.stream(), query, watermark="0 seconds").results, tmp_path)
    assert found.select(["time", "k", "COUNT(*)"]).to_pylist() == [{"time": 9, "k": 1, "COUNT(*)": 1}]


def events_of(rows: list[tuple[int | None, str | None, int]]) -> pa.Table:
    """Events by time, type and key."""
    time, kind, key = zip(*rows, strict=True)
    return pa.table(
        {
            "time": pa.array(time, pa.int64()),
            "type": pa.array(kind, pa.string()),
            "k": pa.array(key, pa.int64()),
            "x": pa.array([1.0] * len(rows)),
            "s": pa.array(["u"] * len(rows)),
        }
    )


def test_late_rows_are_counted_and_kept_where_asked(folder: Folder, tmp_path: Path) -> None:
    query = """
    QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 10 s SLIDE 10 s
    QUERY again RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY s WITHIN 10 s SLIDE 10 s
    """
    folder.add(events_of([(1, "A", 1), (50, "B", 1)]))
    folder.add(events_of([(2, "B", 1), (44, "A", 1), (51, "B", 1)]))  # the first two are before 50 - 5
    folder.add(events_of([(100, "Z", 1)]))
    frame = motet.stream(folder.stream(), query, watermark="5 seconds", keep_late=True).results
    found, progress = results(frame, tmp_path)
    late = [json.loads(text) for text in found["late"].to_pylist() if text is not None]
    assert [(row["time"], row["type"]) for row in late] == [(2, "B"), (44, "A")]
    assert sum(p["observedMetrics"]["motet"]["late"] or 0 for p in progress) == 2  # though two branches saw them
    assert found.filter(pa.array([text is None for text in found["late"].to_pylist()])).num_rows == 0


def test_a_poisonous_row_is_set_aside_and_counted_and_the_query_goes_on(folder: Folder, tmp_path: Path) -> None:
    query = "QUERY q RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE a.n * a.n > 3 GROUP BY k WITHIN 10 s SLIDE 10 s"
    rows = events_of(
        [(1, "A", 1), (None, "A", 1), (2, None, 1), (2, "A", 1), (2**62, "A", 1), (3, "B", 1), (99, "Z", 1)]
    )
    numbers = pa.array([2, 2, 2, 2**40, 2, 2, 2])  # the square of the fourth does not fit
    folder.add(rows.append_column("n", numbers))
    found, progress = results(motet.stream(folder.stream(), query, watermark="0 seconds").results, tmp_path)
    assert found["COUNT(*)"].to_pylist() == [1]
    outside = sum(p["observedMetrics"]["motet_rows"]["set_aside"] or 0 for p in progress)
    inside = sum(p["observedMetrics"]["motet"]["set_aside"] or 0 for p in progress)
    assert (outside, inside) == (3, 1)


def test_update_mode_gives_early_values_and_ends_with_the_final_ones(folder: Folder, tmp_path: Path) -> None:
    events = random_events(300, 5, last=100)
    for at in range(0, 300, 60):
        folder.add(events.slice(at, 60))
    folder.add(last_event())
    query = """
    QUERY each RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 40 s SLIDE 40 s
    QUERY all RETURN COUNT(*), MAX(A.s) PATTERN SEQ(A, B) WHERE [k] WITHIN 40 s SLIDE 40 s
    """
    frame = motet.stream(folder.stream(), query, watermark="0 seconds", mode="update").results
    found, _ = results(frame, tmp_path, "update")
    by_window: dict[Any, list[int]] = {}
    for row in found.to_pylist():
        by_window.setdefault((row["query"], row["window_end"], row["k"]), []).append(row["COUNT(*)"])
    final = motet.run(folder.events(), query).to_pylist()
    assert {(r["query"], r["window_end"], r["k"]): r["COUNT(*)"] for r in final} == {
        w: c[-1] for w, c in by_window.items()
    }
    assert all(counts == sorted(counts) for counts in by_window.values())
    assert len(found) > len(final)


def test_matches_leave_typed_and_a_limit_that_cuts_them_off_is_told(folder: Folder, tmp_path: Path) -> None:
    query = "QUERY q RETURN a, b, b.x - a.x AS gain PATTERN SEQ(A a, B b) WHERE [k] AND a.x <= b.x WITHIN 10 s"
    folder.add(events_of([(1, "A", 1), (2, "A", 1), (3, "A", 1), (4, "B", 1), (4, "B", 2)]))
    folder.add(events_of([(99, "Z", 1)]))
    frame = motet.stream(folder.stream(), query, watermark="0 seconds", match_limit=2, on_limit="truncate").results
    event = "struct<time:bigint,type:string,k:bigint,x:double,s:string>"
    assert [frame.schema[name].dataType.simpleString() for name in ("a", "b", "gain")] == [event, event, "double"]
    found, progress = results(frame, tmp_path)
    assert found.select(["end", "gain"]).to_pylist() == [{"end": 4, "gain": 0.0}] * 2
    assert [row["a"]["type"] for row in found.to_pylist()] == ["A", "A"]
    warnings = []
    monitor = StreamMonitor(("q",), warnings.append)
    for each in progress:
        monitor.add(each)
    assert warnings == ["not all matches of q are found: a limit was reached (further times are only counted)"]
    assert 'motet_truncated_batches_total{query="q"} 1' in monitor.to_prometheus()
    assert monitor.metrics.results == {"q": 2}


def test_a_stream_needs_a_watermark_and_windows(folder: Folder) -> None:
    folder.add(random_events(5, 1))
    query = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 10 s"
    with pytest.raises(OptionError, match=r"motet.stream\(events, workload, watermark='10 minutes'\) runs it"):
        motet.run(folder.stream(), query)
    with pytest.raises(OptionError, match="needs a watermark"):
        motet.stream(folder.stream(), query)
    with pytest.raises(OptionError, match="use one of append, update"):
        motet.stream(folder.stream(), query, watermark="1 second", mode="complete")
    with pytest.raises(DataError, match="not a stream"):
        motet.stream(folder.session.read.parquet(str(folder.path)), query, watermark="1 second")
    endless = "QUERY endless RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k"
    with pytest.raises(QueryError, match="a stream never ends"):
        motet.stream(folder.stream(), endless, watermark="1 second")


def test_times_may_be_timestamps_in_any_zone(folder: Folder, tmp_path: Path) -> None:
    events = random_events(200, 3)
    moments = pa.array([dt.datetime(2024, 3, 1) + dt.timedelta(seconds=s) for s in events["time"].to_pylist()])
    stamped = events.set_column(0, "time", moments.cast(pa.timestamp("us", tz="UTC")))
    folder.add(stamped.slice(0, 100))
    folder.add(stamped.slice(100))
    end = pa.array([dt.datetime(2024, 4, 1)]).cast(pa.timestamp("us", tz="UTC"))
    folder.add(last_event().set_column(0, "time", end))
    found, _ = results(motet.stream(folder.stream(), WORKLOAD, watermark="1 hour").results, tmp_path)
    assert_same_results(found, motet.run(folder.events(), WORKLOAD))
