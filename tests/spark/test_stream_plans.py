"""The plan of a stream on Spark follows its rates: another is taken up between micro-batches, and no result changes."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from motet.engine.replan import query_groups
from motet.options import Options
from motet.spark.service import StreamJob, StreamService, StreamSink, StreamSource
from tests.spark.test_stream import Folder, last_event
from tests.spark.test_stream_service import expected, windows

pytestmark = pytest.mark.spark

# What they have in common is worth sharing only where it is frequent: with it, all pay for the widest window.
QUERIES = "".join(
    f"QUERY q{place} RETURN COUNT(*) PATTERN SEQ(A, {type}) GROUP BY k WITHIN {within} s SLIDE 5 s\n"
    for place, (type, within) in enumerate([("B", 10), ("C", 10), ("D", 100), ("E", 100)])
)


APART, COMMON = [0.02, 0.47, 0.47, 0.02, 0.02], [0.92, 0.02, 0.02, 0.02, 0.02]  # of the types A to E


def events(begin: int, shares: list[float]) -> pa.Table:
    """Fifty seconds of a stream."""
    rng = np.random.default_rng(begin)
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(begin, begin + 50, 600))),
            "type": pa.array(rng.choice(list("ABCDE"), 600, p=shares)),
            "k": pa.array(rng.integers(0, 12, 600)),
            "x": pa.array(np.zeros(600)),
            "s": pa.array(["u"] * 600),
        }
    )


def test_a_stream_goes_on_by_another_plan_when_its_rates_turn_round(tmp_path: Path, spark: SparkSession) -> None:
    folder = Folder(tmp_path / "events", spark)
    file = tmp_path / "queries.motet"
    file.write_text(QUERIES)
    folder.add(events(0, APART))
    said: list[str] = []
    lines: list[str] = []
    source = StreamSource("parquet", {"path": str(folder.path), "maxFilesPerTrigger": "1"})
    options = Options(checkpoint=str(tmp_path / "state"), watermark="0 seconds", horizon=1e8)
    job = StreamJob(source, StreamSink(), options)
    service = StreamService(spark, job, file, said.append, lines.append)
    plans = []
    try:
        for begin, shares in ((50, APART), *((begin, COMMON) for begin in range(100, 300, 50))):
            folder.add(events(begin, shares))
            _catch_up(service, len(folder.batches) * 600)
            service.replan()
            plans.append(query_groups(service.program))
        folder.add(last_event())
        _catch_up(service, len(folder.batches) * 600 - 599)
        _wait_for(lambda: service.monitor.metrics.lag == 0.0)
    finally:
        service.stop()
    assert len(set(plans)) > 1
    assert plans[-1] == {frozenset({"q0", "q1", "q2", "q3"})}
    assert any(text.startswith("rates have drifted") for text in said)
    assert f"plan changed {service.monitor.metrics.plan_changes} times" in service.monitor.status()
    assert f"motet_plan_changes_total {service.monitor.metrics.plan_changes}" in service.monitor.to_prometheus()
    found = [json.loads(line) for line in lines]
    for query in ("q0", "q1", "q2", "q3"):
        assert windows(found, query) == expected(folder, QUERIES, query)


def _catch_up(service: StreamService, rows: int) -> None:
    """Until all rows are read and the listener has heard of it."""
    service.query.processAllAvailable()
    with contextlib.suppress(AssertionError):
        _wait_for(lambda: service.monitor.metrics.rows == rows)
    assert service.monitor.metrics.rows == rows


def _wait_for(reached: Callable[[], bool]) -> None:
    until = time.monotonic() + 600
    while not reached() and time.monotonic() < until:
        time.sleep(0.05)
    assert reached()
